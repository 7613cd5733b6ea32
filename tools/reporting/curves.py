# SPDX-License-Identifier: BSL-1.0
"""What a machine with several processors shows against their number (tools/bundle), and its tables."""
import json

from .data import amount, rows_of
from .tables import code, table

FIGURES = "docs/processors.json"
ELEMENTS = 1 << 22  # each array of STREAM has
SHORT = ("bench", "contender", "unit", "rounds", "median", "limit", "ratio", "processors", "to", "shared")
MACHINE = ("bench", "processor", "kernel", "compiler", "flags", "commit", "cycles_hz", "wait_backend", "cpus")
class Curves:
    """Rows, each with the number of processors it had, or with the other processor it was between."""

    def __init__(self, path):
        self.machine, found = {}, {}
        for machine, entry, row in rows_of(path):
            try:
                if len(machine["cpus"]) > len(self.machine.get("cpus", [])):
                    self.machine = machine
                if not placed(entry, machine):
                    continue
            except (KeyError, TypeError):
                raise ValueError(f"{path}: rows without the line of a machine") from None
            key = (entry["bench"], row.name, entry.get("to", 0), entry.get("processors", 0))
            if key not in found or row.median < found[key]["median"]:
                found[key] = entry  # of several sizes of a task the best
        self.entries = [found[key] for key in sorted(found)]

    def of(self, kernel):
        return [entry for entry in self.entries if entry["bench"] == kernel]

    def series(self, kernel):
        """[(processors, median)] of each contender with two points or more."""
        found = {}
        for entry in self.of(kernel):
            found.setdefault(entry["contender"], []).append((entry["processors"], entry["median"]))
        return {name: sorted(points) for name, points in found.items() if len(points) > 1}


def cpus_of(machine):
    """Their numbers."""
    return [cpu["cpu"] if isinstance(cpu, dict) else cpu for cpu in machine["cpus"]]


def placed(entry, machine):
    """Says in a row where it was, unless it says so already. False: it is no part of the curves."""
    params = entry.get("params", {})
    if "to" in entry or "processors" in entry:
        return True
    if entry["bench"] == "null-fork":
        entry["to"], entry["shared"] = machine["cpus"][1]["cpu"], machine["shared"]
        return not entry["contender"].startswith("ping-pong-")
    given = len(machine["cpus"])
    entry["processors"] = 1 if entry["contender"] == "serial" else params.get("cores", params.get("threads", given))
    if entry["bench"] == "heat":  # each contender as often as the others
        return entry["processors"] in (1, given)
    # Of STREAM the size that is measured with fewer threads, too.
    return entry["bench"] != "stream" or (params["operation"] == "triad" and params["elements"] == ELEMENTS)


def rounded(line):
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in line.items()}


def compact(path):
    """The lines of FIGURES: a machine, then rows."""
    curves = Curves(path)
    lines = [{key: curves.machine.get(key) for key in MACHINE}]
    lines[0]["cpus"] = cpus_of(curves.machine)
    lines += [{key: entry[key] for key in SHORT if key in entry} for entry in curves.entries]
    return "".join(json.dumps(rounded(line)) + "\n" for line in lines)


# ---- as a table of the documents ----


def cells(curves):
    """kernel, contender, and a median for each number of processors."""
    counts = sorted({entry["processors"] for entry in curves.entries if "processors" in entry})
    found = {}
    for entry in curves.entries:
        if "processors" in entry:
            found.setdefault((entry["bench"], entry["contender"]), {})[entry["processors"]] = entry
    shown = [
        (kernel, name, *(amount(by[count]["median"], by[count]["unit"]) if count in by else "" for count in counts))
        for (kernel, name), by in found.items()
    ]
    return ("kernel", "contender", *(f"on {count}" for count in counts)), shown


def documented(curves):
    head, rows = cells(curves)
    machine = curves.machine
    text = f"{machine['processor']}, {len(machine['cpus'])} processors, commit {machine['commit']}.\n\n"
    return text + table(head, [(code(kernel), code(name), *medians) for kernel, name, *medians in rows])


def documented_forks(curves):
    """The null fork to the other processors, by what two share."""
    by = {}
    for entry in curves.of("null-fork"):
        by.setdefault((entry["shared"], entry["contender"]), []).append(entry["median"])
    return table(
        ("the two share", "contender", "processors", "least", "median", "most"),
        [(shared, code(name), len(all_), *(amount(value, "ns") for value in
          (min(all_), sorted(all_)[len(all_) // 2], max(all_)))) for (shared, name), all_ in sorted(by.items())])


TABLES = {"processors": documented, "processors-forks": documented_forks}
