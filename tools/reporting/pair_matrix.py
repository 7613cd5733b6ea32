# SPDX-License-Identifier: BSL-1.0
"""The section about which hardware thread to hand work to."""
from statistics import median

from . import charts
from .data import three
from .parts import enlarged, section, table

WAYS = {
    "shadow-spin": "Both spin (the paper's Figure 5)",
    "shadow-two-phase": "Both spin, then wait coolly",
}
MONITOR = "Both wait by {} alone (the paper's Figure 6)"


def millions(row):
    return 1e3 / row.median


def of_way(rows, name):
    return [row for row in rows if row.name == name]


def drawing(cpus, rows, name, low, high):
    place = {cpu: at for at, cpu in enumerate(cpus)}
    values = {
        (place[row.params["from"]], place[row.params["to"]]): millions(row) for row in of_way(rows, name)
    }
    drawn = charts.heat_map(
        cpus, values, low, high, f"Million null forks per second: {name}", "to hardware thread", "from"
    )
    return enlarged(drawn, WAYS.get(name, MONITOR.format(name.removeprefix("shadow-"))), name)


def by_distance(rows, names):
    """What pairs that are equally near have in common: medians over them."""
    nearness = list(dict.fromkeys(row.params["shared"] for row in rows))
    cells = []
    for shared in nearness:
        near = [row for row in rows if row.params["shared"] == shared]
        for name in names:
            group = of_way(near, name)
            ratios = [row.ratio for row in group if row.ratio is not None]
            cells.append(
                (
                    f"{shared}, {name}",
                    len(group),
                    three(median(millions(row) for row in group)),
                    f"{three(median(row.median for row in group))} ns",
                    f"{median(ratios):.2f}" if ratios else "",
                )
            )
    return table(("what they share", "pairs", "million/s", "one takes", "to the limit"), cells)


def pair_matrix(measured):
    rows = measured.of("pair-matrix")
    machine = measured.machines.get("pair-matrix") or {}
    names = list(dict.fromkeys(row.name for row in rows if row.name != "ping-pong"))
    if not names:
        return ""
    used = {row.params[end] for row in rows for end in ("from", "to")}
    cpus = [entry["cpu"] for entry in machine.get("cpus", []) if entry["cpu"] in used] or sorted(used)
    pairs = len(of_way(rows, names[0]))
    speeds = [millions(row) for row in rows if row.name in names]
    maps = [drawing(cpus, rows, name, min(speeds), max(speeds)) for name in names]
    everything = rows[0].params["pairs"]
    text = (
        "Million null functions a second that one hardware thread forks to another and joins. "
        "Neighbours in the map are neighbours in the machine; the colour is on a logarithmic scale. "
    )
    if pairs < everything:
        text += (
            f"Measured are {pairs:,} of {everything:,} pairs: all that share a core, and some of "
            "the others; tools/run --full measures all. "
        )
    if not any(entry.get("siblings") for entry in machine.get("cpus", [])):
        text += "No two hardware threads here share a core, so the paper's peak cannot be seen. "
    return section(
        "Which hardware thread to hand work to",
        text,
        f"<div class=beside>{''.join(maps)}</div>",
        by_distance(rows, ["ping-pong", *names]),
    )
