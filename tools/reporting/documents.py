# SPDX-License-Identifier: BSL-1.0
"""The figures in README.md and docs/: files of rows, and tables between marks, made from them.

A table stands between <!-- figures: NAME --> and <!-- end -->. What is between them is made anew
from docs/measurements.json, which holds the rows that the tables use and nothing else; those of the
papers from docs/papers.json, at the papers' sizes; those against the number of processors from
docs/processors.json (curves.py).
"""
import json
import re

from . import curves, figures
from .data import Measured
from .tables import Picked

FIGURES = "docs/measurements.json"
PAPERS = "docs/papers.json"
MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
MACHINE = ("processor", "kernel", "compiler", "flags", "cycles_hz", "wait_backend", "commit", "quick",
           "seconds")
ROW = ("bench", "contender", "params", "unit", "rounds", "median")
RATIO = ("limit", "ratio", "ratio_low", "ratio_high")
SPREAD = ("p5", "p95")  # where the distribution is the result
PARAMS = ("cores", "items", "count", "bytes", "block", "workload", "work", "threads", "group", "task",
          "task_ns", "task_nodes", "partner_ns", "cycles", "slept_ms", "burned_percent", "make_ns", "n", "iterations", "monitor", "scale", "teps",
          "input", "limit", "live", "tasks", "operation")


def documents(root):
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def short(value):
    """Four digits of a number are more than it is worth."""
    if isinstance(value, dict):
        return {key: short(value[key]) for key in PARAMS if key in value}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def compact(path, tables=figures.TABLES):
    """The lines of a measurement that the tables use: one machine, then rows."""
    measured = Measured(path)
    measured.check_whole()
    machines = [machine for machine in measured.machines.values() if machine]
    machine = {"bench": "machine", **{key: measured.machine.get(key) for key in MACHINE}}
    machine["cpus"] = (measured.machines.get("null-fork") or measured.machine).get("cpus", [])
    for key in ("run_ms", "stolen_ms"):
        machine[key] = sum(entry.get(key, 0) for entry in machines)
    used = figures.used(measured, tables)
    lines = [json.dumps(machine)]
    with open(path, encoding="utf-8") as entries:
        for entry in map(json.loads, entries):
            if entry["bench"] == "machine" or id_of(entry) not in used:
                continue
            kept = ROW + RATIO * ("limit" in entry) + SPREAD * ("samples" in entry)
            lines.append(json.dumps({key: short(entry.get(key)) for key in kept}))
    return "\n".join(lines) + "\n"


def id_of(entry):
    return entry["bench"], entry["contender"], json.dumps(entry.get("params", {}), sort_keys=True)


def filled(text, measured, of_papers, several, name):
    """A document with its tables made anew."""

    def table(match):
        if match[2] in curves.TABLES:
            return match[1] + curves.TABLES[match[2]](several) + match[3]
        if match[2] in figures.PAPERS:
            return match[1] + figures.PAPERS[match[2]](Picked(of_papers)) + match[3]
        if match[2] not in figures.TABLES:
            raise ValueError(f"{name}: no table is named '{match[2]}'")
        return match[1] + figures.TABLES[match[2]](Picked(measured)) + match[3]

    return MARKED.sub(table, text)


def changed(root):
    """The documents that differ from what the figures make of them: path and new text."""
    measured, of_papers = Measured(root / FIGURES), Measured(root / PAPERS)
    several = curves.Curves(root / curves.FIGURES)
    found = []
    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        new = filled(text, measured, of_papers, several, path.relative_to(root))
        if new != text:
            found.append((path, new))
    return found
