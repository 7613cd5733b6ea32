# SPDX-License-Identifier: BSL-1.0
"""Sections about whole programs: Gaussian elimination, shortest paths, breadth-first search."""
from . import charts
from .data import amount
from .parts import numbers, ranking, section, table
from .tables import stem


def gauss(measured):
    rows = measured.of("gauss")
    if not rows:
        return ""
    return section(
        "A system of linear equations",
        f"Gaussian elimination of {rows[0].params['n']:,} unknowns on {measured.processors('gauss')} "
        f"processors: row by row with {rows[0].params.get('threads', 160)} fibers or threads, one row a "
        "group, and by blocks, with LAPACK's dgesv (OpenBLAS) beside it. Rows that end in -pure are the "
        "paper's methods as they are; those with -no- lack one thing that is added here. The limit is "
        "one processor, row by row.",
        ranking(rows, "Gaussian elimination"),
        numbers(rows),
    )


STYLES = {
    "umbra-mu1k": ("umbra", "-"),
    "umbra-mu2k": ("umbra2", "--"),
    "umbra-mu1k-pure": ("umbra", ":"),
    "umbra-mu2k-pure": ("umbra2", ":"),
    "pthread-mu1": ("threads", "-"),
    "pthread-mu2": ("threads2", "--"),
    "umbra-ctbpa": ("umbra", "-"),
    "umbra-ctbpa-pure": ("umbra", ":"),
    "openmp-gomp": ("openmp", "-"),
    "openmp-gomp-depend": ("openmp", "--"),
    "openmp-llvm": ("openmp2", "-"),
    "openmp-llvm-depend": ("openmp2", "--"),
}
SEARCHES = {
    "umbra-bfs": ("umbra", "-"),
    "umbra-partitioned": ("umbra", "--"),
    "openmp-hybrid": ("openmp", "-"),
    "openmp-hybrid-relabelled": ("openmp", "--"),
    "top-down": ("umbra2", ":"),
    "bottom-up": ("umbra2", "-."),
}


def gauss_threads(measured):
    serial = measured.row("gauss-threads", "serial")
    rows = measured.of("gauss-threads")
    if not serial:
        return ""
    series = {}
    for row in rows:
        if row.params.get("group") == 1 and row.ratio:
            name = row.name.rsplit("-", 1)[0]
            series.setdefault(name, []).append((row.params["threads"], 1 / row.ratio))
    openmp = measured.row("gauss-threads", "openmp-rows")
    fewer = {row.rounds for row in rows if row.rounds < serial.rounds}
    counts = sorted({x for points in series.values() for x, _ in points})
    drawn = [(name, sorted(series[name]), *STYLES[name]) for name in STYLES if name in series]
    ended = [(name, points) for name, points, *_ in drawn if points[-1][0] < counts[-1]]
    if openmp:
        level = 1 / openmp.ratio
        drawn.append(("openmp-rows", [(counts[0], level), (counts[-1], level)], "openmp", ":"))
    return section(
        "The same, against the number of fibers or threads",
        f"Speed-up over one processor on {measured.processors('gauss-threads')}, "
        f"{serial.params['n']:,} unknowns, one row a group, on a logarithmic scale (the paper's Figure 5; "
        "-pure are its methods as they are). Fibers may be as many as there are rows."
        + "".join(f" {name} stops at {points[-1][0]:,}: more take too long." for name, points in ended)
        + (" What takes long had fewer rounds, as the numbers say." if fewer else ""),
        charts.lines(
            drawn,
            "Speed-up against the number of fibers or threads",
            "fibers or threads",
            "speed-up",
            log_y=True,
            x_ticks=counts,
        ),
        numbers(rows),
    )


def spread(measured):
    rows = measured.of("spread")
    if not rows:
        return ""
    stolen = (measured.machines["spread"] or {}).get("stolen_ms", 0)
    by_name = {row.name: row for row in rows}

    def width(row):
        return row.p95 - row.p5

    cells = []
    for row in rows:
        of = by_name.get(row.limit)
        cells.append(
            (
                row.name,
                *(amount(value, "ns") for value in (row.p5, row.median, row.p95)),
                amount(width(row), "ns"),
                f"{width(row) / width(of):.1f} × {of.name}" if of else "",
            )
        )
    drawings = []
    for title, names in (
        ("Gaussian elimination by rows", ("umbra-mu1k", "umbra-mu1k-pure", "pthread-mu1", "openmp-rows")),
        ("Gaussian elimination by rows, strict", ("umbra-mu2k", "umbra-mu2k-pure", "pthread-mu2")),
        ("Gaussian elimination by blocks", ("umbra-blocked", "openmp-blocked")),
        ("All-pairs shortest paths", (*(n for n in STYLES if "-mu" not in n), "kernel-roofline")),
    ):
        shown = [by_name[name] for name in names if name in by_name and by_name[name].samples]
        if shown:
            drawings.append(
                charts.histograms(
                    [
                        (row.name, [v / 1e6 for v in row.samples], charts.family(row.name))
                        for row in shown
                    ],
                    f"Run times: {title}",
                    f"{title}: run time, ms",
                )
            )
    return section(
        "How much run times differ",
        f"{rows[0].rounds:,} alternated runs of each (the paper's Tables 1 and 2, Figures 6 and 8). The "
        f"spread is what lies between 5 and 95 % of the runs; {stolen} ms were stolen from this "
        "machine meanwhile. kernel-roofline is 20 ms of the paths' arithmetic on all processors, where "
        "nobody waits for anybody: how much they themselves differ from one moment to the next.",
        table(("contender", "5 %", "median", "95 %", "spread", ""), cells).replace(
            "<details>", "<details open>"
        ),
        *drawings,
    )


def over(series, other):
    """Of other contenders, how much faster than that one they are, in per cent, where both are there."""
    base = dict(series.get(other, []))
    found = {
        name: [(x, 100 * y / base[x] - 100) for x, y in sorted(points) if x in base]
        for name, points in series.items()
        if name != other
    }
    return {name: points for name, points in found.items() if points}


def apsp(measured):
    rows = measured.of("apsp")
    if not rows:
        return ""
    series = {}
    for row in rows:
        if row.ratio:
            block = row.params["block"]
            name = row.name.removesuffix(f"-{block}")
            series.setdefault(name, []).append((block, 100 / row.ratio))
    blocks = sorted({x for points in series.values() for x, _ in points})
    faster = over(series, "openmp-gomp")
    return section(
        "All-pairs shortest paths, against the size of a block",
        f"{rows[0].params['n']:,} vertices on {measured.processors('apsp')} processors. First the "
        "speed-up over the same blocks with OpenMP's tasks and barriers (BFW by libgomp; the paper's "
        "Figure 7), then all in per cent of what the arithmetic alone reaches with everything in the "
        "caches. The arithmetic is the same in all. umbra-ctbpa-pure is the paper's method as it is; "
        "the numbers have ours without one of its additions, too (-no-...).",
        *(
            [
                charts.lines(
                    [(name, faster[name], *STYLES[name]) for name in STYLES if name in faster],
                    "Speed-up over BFW against the size of a block",
                    "rows of a block",
                    "faster than BFW, %",
                    log_x=False,
                    x_ticks=blocks,
                )
            ]
            if faster
            else []
        ),
        charts.lines(
            [(name, sorted(series[name]), *STYLES[name]) for name in STYLES if name in series],
            "Speed against the size of a block",
            "rows of a block",
            "% of the roofline",
            log_x=False,
            x_ticks=blocks,
            floor=0,
        ),
        numbers(rows),
    )


def bfs(measured):
    rows = [row for row in measured.of("bfs") if "teps" in row.params]
    if not rows:
        return ""
    series = {}
    for row in rows:
        series.setdefault(stem(row), []).append((row.params["scale"], row.params["teps"] * 1e-9))
    return section(
        "Breadth-first search, against the size of the graph",
        "Edges of a Kronecker graph gone through in a second, by "
        f"{measured.processors('bfs')} processors (the paper's Figure 9 and Table 1). A graph of scale S has 2^S vertices and 16 edges for each. All versions search the "
        "same graph from the same roots, and give a tree in the graph's own numbering. OpenMP's hybrid is "
        "Beamer's; relabelled it has the vertices in the order of degrees and huge pages.",
        charts.lines(
            [(name, sorted(series[name]), *SEARCHES[name]) for name in SEARCHES if name in series],
            "Edges a second against the size of the graph",
            "scale",
            "GTEPS",
            log_x=False,
            x_ticks=sorted({x for points in series.values() for x, _ in points}),
            floor=0,
        ),
        numbers(rows),
    )
