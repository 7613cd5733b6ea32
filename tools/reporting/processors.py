# SPDX-License-Identifier: BSL-1.0
"""The section about the number of processors."""
from . import charts
from .curves import cells, cpus_of
from .parts import enlarged, section, table

# What is compared of each kernel: what a figure is of, and the rows of Umbra, OpenMP and oneTBB.
COMPARED = {
    "fib": ("a call of fib", "umbra-task", "openmp-llvm", "tbb"),
    "skynet": ("a tree of tasks", "umbra-task", "openmp-llvm", "tbb"),
    "dispatch": ("a null function", "umbra-dispatch", "openmp-gomp", "tbb"),
    "heat": ("a step of heat", "umbra-dispatch", "openmp-gomp", "tbb"),
    "apsp": ("shortest paths", "umbra-ctbpa", "openmp-gomp", None),
    "bfs": ("a search", "umbra-bfs", "openmp-hybrid-relabelled", None),
    "stream": ("a triad of STREAM", "umbra-partitioned", "openmp-triad", None),
}
LIBRARIES = (("Umbra", "umbra", "-"), ("OpenMP", "openmp", "--"), ("oneTBB", "peer", ":"))
TEAM = (
    ("spin-barrier", "limit", "-"),
    ("umbra-team-barrier", "umbra", "-"),
    ("umbra-team-run", "umbra2", "--"),
    ("pthread-barrier", "threads", "-"),
    ("openmp-gomp-barrier", "openmp", "-"),
    ("openmp-gomp-run", "openmp2", "--"),
)


def speeds(curves):
    """(what a figure is of, series) of each kernel: times as fast as Umbra on the fewest processors."""
    found = []
    for kernel, (title, *names) in COMPARED.items():
        points = curves.series(kernel)
        if names[0] not in points:
            continue
        unit = points[names[0]][0][1]
        found.append((title, [
            (library, [(x, unit / median) for x, median in points[name]], colour, style)
            for name, (library, colour, style) in zip(names, LIBRARIES)
            if name in points
        ]))
    return found


def forks(curves):
    series = {}
    for entry in curves.of("null-fork"):
        series.setdefault(entry["contender"], []).append((entry["to"], entry["median"]))
    if not any(len(points) > 1 for points in series.values()):
        return ""
    title = f"A null fork from processor {cpus_of(curves.machine)[0]} to each other"
    drawn = charts.lines(
        [(name, sorted(points), "umbra" if name == "shadow-spin" else "limit", "-") for name, points in series.items()],
        title, "to processor", "ns", log_x=False, floor=0)
    return enlarged(drawn, title, "forks")


def team(curves):
    series = curves.series("team")
    if not series:
        return ""
    title = "A barrier of so many, and a run of nothing on so many"
    ticks = sorted({x for points in series.values() for x, _ in points})
    drawn = charts.lines(
        [(name, series[name], colour, style) for name, colour, style in TEAM if name in series],
        title, "members", "ns", log_y=True, x_ticks=ticks)
    return enlarged(drawn, title, "team")


def compared(curves):
    kernels = speeds(curves)
    if not kernels:
        return ""
    title = "How many times as fast as Umbra on the fewest processors"
    ticks = sorted({x for _, series in kernels for _, points, *_ in series for x, _ in points})
    return enlarged(charts.panels(kernels, title, "processors", "times as fast", 1, ticks), title, "processors")


def processors(curves):
    machine = curves.machine
    return section(
        "Against the number of processors",
        f"{machine.get('processor', '?')}, {len(machine['cpus'])} processors, commit {machine.get('commit', '?')}: "
        "another run, on the machine with the most processors so far. How long a null fork takes, a team's "
        "barrier and its run; how much faster programs become. But for the first chart all axes are logarithmic.",
        *filter(None, (forks(curves), team(curves), compared(curves))),
        table(*cells(curves)))
