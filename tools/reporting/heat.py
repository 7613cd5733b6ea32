# SPDX-License-Identifier: BSL-1.0
"""Sections about heat that spreads through a body: the paper's Figures 7, 10 and 11."""
from . import charts
from .parts import numbers, ranking, section

LONG_DOTS = (0, (6, 1, 1, 1, 1, 1))

STYLES = {
    "umbra-dispatch": ("umbra", "-"),
    "umbra-dispatch-ahead": ("umbra", "--"),
    "umbra-scatter-gather": ("umbra2", "--"),
    "openmp-gomp": ("openmp", "-"),
    "openmp-gomp-dynamic": ("openmp", "--"),
    "openmp-gomp-guided": ("openmp", ":"),
    "openmp-gomp-tasks": ("openmp", "-."),
    "openmp-gomp-depend": ("openmp", LONG_DOTS),
    "openmp-llvm": ("openmp2", "-"),
    "openmp-llvm-dynamic": ("openmp2", "--"),
    "openmp-llvm-guided": ("openmp2", ":"),
    "openmp-llvm-tasks": ("openmp2", "-."),
    "openmp-llvm-depend": ("openmp2", LONG_DOTS),
    "tbb": ("peer", "-"),
}


def is_pencil(row):
    """Longer in the direction of the memory than in another."""
    edges = row.params["task"].split("x")
    return edges[0] != edges[1] or edges[0] != edges[2]


def efficiency(row):
    """Against the best way to do it on one processor, in per cent."""
    return 100 / row.ratio / row.params["cores"]


def with_tasks(measured):
    return [row for row in measured.of("heat") if row.ratio and "task" in row.params]


def best(rows):
    """Of each contender and number of cores, the size of a task at which it was fastest."""
    found = {}
    for row in rows:
        key = row.name, row.params["cores"]
        if key not in found or row.median < found[key].median:
            found[key] = row
    return list(found.values())


def comparison(measured):
    rows = with_tasks(measured)
    serial = measured.row("heat", "serial")
    if not rows or not serial:
        return ""
    steps = [row for row in measured.of("heat") if row.unit == "ns" and "bytes" not in row.params]
    return section(
        "Heat in a body",
        f"A step of {serial.params['nodes']:,} nodes, each contender with the tasks it was fastest "
        "with (the paper's Figure 11). The limit is the best way for one processor: the body as a "
        "whole, or in blocks. MPI's two ranks have memory of their own, and copy planes.",
        ranking([serial, *best(rows)], "Heat in a body: time a step"),
        numbers(steps),
    )


def by_task(measured):
    """Two charts: cubes and what is long in x; each contender on both cores, and ours on one."""
    rows = [row for row in with_tasks(measured) if row.name in STYLES]
    if not rows:
        return ""
    drawings = []
    for long, title in ((False, "cubes"), (True, "pencils and slabs")):
        series = {}
        for row in rows:
            if is_pencil(row) == long:
                cores = row.params["cores"]
                key = row.name if cores > 1 else f"{row.name}, one core"
                points = series.setdefault(key, (row.name, cores, []))[2]
                points.append((row.params["task_nodes"], efficiency(row)))
        drawn = []
        for key, (name, cores, points) in series.items():
            colour, line = STYLES[name]
            drawn.append((key, sorted(points), colour, line if cores > 1 else ":"))
        if drawn:
            ticks = sorted({x for _, points, _, _ in drawn for x, _ in points})
            drawings.append(
                charts.lines(
                    drawn,
                    f"Efficiency against the nodes of a task: {title}",
                    f"nodes a task, {title}",
                    "efficiency, %",
                    x_ticks=ticks,
                    floor=0,
                )
            )
    return section(
        "Heat, against the nodes of a task and the cores",
        "Efficiency: the best time of one processor over the time of so many cores and over their "
        "number (the paper's Figure 10; here there are two).",
        *drawings,
    )


BUFFERS = (("umbra-dispatch-buffer", "umbra", "-"), ("umbra-scatter-gather-buffer", "umbra2", "--"))
MEGABYTE = 1e6


def memory(measured):
    rows = measured.of("heat")
    buffers = [row for row in rows if "-buffer" in row.name]
    if not buffers:
        return ""

    def points(name, unit):
        return sorted(
            (row.params["bytes"] / 1024, row.median / unit) for row in buffers if row.name == name
        )

    times = [(name, points(name, 1e6), *style) for name, *style in BUFFERS]
    resident = [
        (name, points(f"{name}-resident", MEGABYTE), *style)
        for name, *style in BUFFERS
    ]
    sizes = sorted({row.params["bytes"] for row in buffers})
    cores = buffers[0].params["cores"]
    theory = [(size / 1024, cores * size / MEGABYTE) for size in sizes]
    ticks = [size // 1024 for size in sizes]
    runs = [row for row in rows if row.unit == "bytes" and row not in buffers]
    told = "; ".join(
        f"{row.name.removesuffix('-resident')} {row.median / MEGABYTE:.2f} MB" for row in runs
    )
    return section(
        "Tasks that need memory",
        "Tasks that fill a buffer each: a dispatcher's workers keep theirs, scatter and gather "
        "allocates one a task (the paper's Figure 7). Memory is what became resident; the paper's "
        f"equation 1 has workers × buffer. The body and its steps themselves: {told}.",
        charts.lines(
            [series for series in times if series[1]],
            "Time a step against the memory of a task",
            "KiB a task",
            "ms a step",
            log_y=True,
            x_ticks=ticks,
        ),
        charts.lines(
            [*(series for series in resident if series[1]), ("workers × buffer", theory, "limit", ":")],
            "Resident memory against the memory of a task",
            "KiB a task",
            "MB",
            log_y=True,
            x_ticks=ticks,
        ),
        numbers([*buffers, *runs]),
    )
