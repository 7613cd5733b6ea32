# SPDX-License-Identifier: BSL-1.0
"""Sections about heat that spreads through a body: the paper's Figures 7, 10 and 11."""
from . import charts
from .parts import numbers, ranking, section

LONG_DOTS = (0, (6, 1, 1, 1, 1, 1))

STYLES = {
    "umbra-dispatch": ("umbra", "-"),
    "umbra-dispatch-pure": ("umbra2", "-"),
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
    "mpi": ("threads", "-"),
}
SURFACES = ("umbra-dispatch", "umbra-dispatch-pure")  # drawn for each number of processors


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
    most = max(row.params["cores"] for row in rows)
    steps = [row for row in measured.of("heat") if row.unit == "ns" and "bytes" not in row.params]
    return section(
        "Heat in a body",
        f"A step of {serial.params['nodes']:,} nodes, each contender with the tasks it was fastest "
        "with, on {most} processors. The limit is the best way for one processor: the body as a "
        "whole, or in blocks. MPI's ranks have memory of their own, and copy planes. "
        "umbra-dispatch-pure is the paper's own dispatcher, on ports.",
        ranking([serial, *best([row for row in rows if row.params["cores"] == most])], "Heat in a body: time a step"),
        numbers(steps),
    )


def by_task(measured):
    """Two charts: cubes and what is long in x; each contender on all processors, and ours on fewer."""
    rows = [row for row in with_tasks(measured) if row.name in STYLES]
    if not rows:
        return ""
    most = max(row.params["cores"] for row in rows)
    drawings = []
    for long, title in ((False, "cubes"), (True, "pencils and slabs")):
        series = {}
        for row in rows:
            if is_pencil(row) == long:
                cores = row.params["cores"]
                if cores < most and row.name not in SURFACES:
                    continue
                key = row.name if cores == most else f"{row.name}, {cores}"
                points = series.setdefault(key, (row.name, cores, []))[2]
                points.append((row.params["task_nodes"], efficiency(row)))
        drawn = []
        for key, (name, cores, points) in series.items():
            colour, line = STYLES[name]
            drawn.append((key, sorted(points), colour, line if cores == most else ":"))
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
        "Heat, against the nodes of a task and the processors",
        "Efficiency: the best time of one processor over the time of so many and over their number "
        f"(the paper's Figure 10). Without a number it is that of all, {most}.",
        *drawings,
    )


def by_cores(measured):
    """Each contender's best task at each number of processors."""
    series = {}
    for row in best(with_tasks(measured)):
        series.setdefault(row.name, []).append((row.params["cores"], 1 / row.ratio))
    series = {name: sorted(points) for name, points in series.items() if len(points) > 1}
    if not series:
        return ""
    counts = sorted({x for points in series.values() for x, _ in points})
    lines = [(name, points, *STYLES.get(name, ("peer", "-"))) for name, points in series.items()]

    def chart(title, drawn, ideal, y_label):
        return charts.lines(
            [*drawn, ("ideal", ideal, "limit", ":")], f"{title} against the processors", "processors",
            y_label, x_ticks=counts, floor=0)

    return section(
        "Heat, against the processors",
        "Speed-up over the best way for one processor, and efficiency, of each contender with the tasks "
        "it was fastest with on so many (the paper's Figure 11).",
        chart("Speed-up", lines, [(count, count) for count in counts], "speed-up"),
        chart(
            "Efficiency",
            [(name, [(x, 100 * y / x) for x, y in points], *style) for name, points, *style in lines],
            [(count, 100) for count in counts],
            "efficiency, %",
        ),
    )


BUFFERS = (
    ("umbra-dispatch-buffer", "umbra", "-"),
    ("umbra-dispatch-pure-buffer", "umbra2", "-"),
    ("umbra-scatter-gather-buffer", "threads", "--"),
)
MEGABYTE = 1e6


def memory(measured):
    rows = measured.of("heat")
    buffers = [row for row in rows if "-buffer" in row.name]
    if not buffers:
        return ""

    cores = max(row.params["cores"] for row in buffers)

    def points(name, unit, count=cores):
        return sorted(
            (row.params["bytes"] / 1024, row.median / unit)
            for row in buffers
            if row.name == name and row.params["cores"] == count
        )

    def efficiencies(name):
        alone = dict(points(name, 1, 1))
        return [(size, 100 * alone[size] / cores / ns) for size, ns in points(name, 1) if size in alone]

    times = [(name, points(name, 1e6), *style) for name, *style in BUFFERS]
    shares = [(name, efficiencies(name), *style) for name, *style in BUFFERS]
    resident = [
        (name, points(f"{name}-resident", MEGABYTE), *style)
        for name, *style in BUFFERS
    ]
    sizes = sorted({row.params["bytes"] for row in buffers})
    theory = [(size / 1024, cores * size / MEGABYTE) for size in sizes]
    ticks = [size // 1024 for size in sizes]
    runs = [row for row in rows if row.unit == "bytes" and row not in buffers]
    told = "; ".join(
        f"{row.name.removesuffix('-resident')} {row.median / MEGABYTE:.2f} MB" for row in runs
    )
    return section(
        "Tasks that need memory",
        "Tasks that fill a buffer each: a dispatcher's workers keep theirs, scatter and gather "
        "allocates one a task (the paper's Figure 7; its efficiency is the time on one processor over "
        f"that on {cores} and over their number). Memory is what became resident; the paper's "
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
        *(
            [
                charts.lines(
                    [series for series in shares if series[1]],
                    "Efficiency against the memory of a task",
                    "KiB a task",
                    "efficiency, %",
                    x_ticks=ticks,
                    floor=0,
                )
            ]
            if any(series[1] for series in shares)
            else []
        ),
        numbers([*buffers, *runs]),
    )
