# SPDX-License-Identifier: BSL-1.0
"""docs/papers.md: what each figure and table of a paper says, and what was measured here."""
from .data import amount
from .mpi import called
from .tables import number, on_all_cores, stem, table, times

NOTHING = "not measured"


def one(picked, kernel, name, takes=lambda row: True):
    """The first row of that name, or None."""
    found = picked.rows(kernel, lambda row: stem(row) == name and takes(row))
    return found[0] if found else None


def shown(row, show):
    return NOTHING if row is None else show(row)


def lines(rows):
    return table(("in the paper", "what", "its figures", "here"), rows)


# ---- all papers ----


def quotient(picked, kernel, above, below, takes=lambda row: True, value=lambda row: row.median):
    """Of two contenders' medians; None if one is missing."""
    found = [picked.rows(kernel, lambda row, n=name: stem(row) == n and takes(row))
             for name in (above, below)]
    return value(found[0][0]) / value(found[1][0]) if all(found) else None


def width(row):
    return row.p95 - row.p5


def efficiency(picked):
    """Of the dispatcher with tasks of 2,197 nodes; per cent."""
    rows = [row for row in on_all_cores(picked)
            if row.name == "umbra-dispatch" and row.params["task_nodes"] == 2197]
    return 100 / rows[0].ratio / rows[0].params["cores"] if rows else None


def over_best_limit(picked):
    """A sort without the library, over the best number of children in a process."""
    rows = of_first_input(picked)
    alone = [row for row in rows if row.name == "mpi-process"]
    limited = [row for row in rows if row.params.get("limit", 0) > 1]
    return alone[0].median / min(row.median for row in limited) if alone and limited else None


def headlines(picked):
    """What a paper is about in a line: an effect, and how large it is in the paper and here."""

    def large(row):
        return row.params.get("block") == 120

    def of_scale(row):
        return row.params.get("scale") == SCALE

    found = (
        ("shadow threads", "null fork: pthread_create over a shadow", "1,135", 1, 1135,
         quotient(picked, "null-fork", "pthread-create", "shadow-spin")),
        ("shadow threads", "null fork: swapcontext over a shadow", "46", 1, 46,
         quotient(picked, "null-fork", "ucontext", "shadow-spin")),
        ("cooperative scheduler", "Gaussian elimination: mu1 over mu1k", "1.11 to 1.26", 1, 1.26,
         quotient(picked, "spread", "pthread-mu1", "umbra-mu1k")),
        ("cooperative scheduler", "Gaussian elimination: mu2 over mu2k", "2.9 to 3.4", 1, 3.4,
         quotient(picked, "spread", "pthread-mu2", "umbra-mu2k")),
        ("cooperative scheduler", "spread of run times: mu1 over mu1k", "19", 1, 19,
         quotient(picked, "spread", "pthread-mu1", "umbra-mu1k", value=width)),
        ("cooperative scheduler", "shortest paths, blocks of 120: OpenMP over CTBPA", "1.37", 1, 1.37,
         quotient(picked, "apsp", "openmp-gomp", "umbra-ctbpa", large)),
        ("cooperative scheduler", "spread of run times: OpenMP over CTBPA", "3.4", 1, 3.4,
         quotient(picked, "spread", "openmp-gomp", "umbra-ctbpa", value=width)),
        ("H-Dispatch", "efficiency at 2,197 nodes a task, per cent", "85 (24 cores)", 85, 85,
         efficiency(picked)),
        ("placement", "search: first version over OpenMP's hybrid, edges a second", "2.2", 1, 2.2,
         quotient(picked, "bfs", "openmp-hybrid", "umbra-partitioned", of_scale)),
        ("placement", "search: second version over the first, edges a second", "2.68", 1, 2.68,
         quotient(picked, "bfs", "umbra-partitioned", "umbra-bfs", of_scale)),
        ("granularity", "Cilksort: processes over the best number of children in one", "6.7", 1, 6.7,
         over_best_limit(picked)),
    )
    return table(
        ("paper", "what", "in the paper", "here", ""),
        [(paper, what, said, NOTHING if here is None else number(here), reached(here, none, most))
         for paper, what, said, none, most, here in found])


def reached(here, none, most):
    """How a figure stands to the paper's largest, and to the one that shows no effect."""
    if here is None:
        return ""
    if here >= most:
        return "beaten"
    return "reproduced" if here > none else "not reached"


# ---- shadow threads ----


def cycles(picked):
    hz = picked.measured.machine["cycles_hz"]
    return lambda row: f"{row.median * hz / 1e9:,.0f}"


def shadow(picked):
    in_cycles = cycles(picked)

    def fork(what, said, name):
        return "Table 1", f"null fork, cycles: {what}", said, shown(one(picked, "null-fork", name), in_cycles)

    def threshold(what, said, polls):
        row = one(picked, "threshold", "shadow-two-phase" if polls is not None else "shadow-spin",
                  lambda row: row.params.get("iterations") == polls and row.params["partner_ns"] == 0
                  and "cycles" not in row.params)
        return "Table 2", f"null fork, cycles: threshold {what}", said, shown(row, in_cycles)

    def copy(name, block):
        rows = picked.rows("memcpy", lambda row: row.name == name and row.ratio
                           and row.params.get("block") == block
                           and 1 << 20 <= row.params["bytes"] <= 32 << 20)
        return f"{max(1 / row.ratio for row in rows):.2f}" if rows else NOTHING

    return lines([
        fork("pthread", "65,844", "pthread-create"),
        fork("ucontext", "2,648", "ucontext"),
        fork("shadow, spinning", "58", "shadow-spin"),
        fork("Umbra's default wait", "", "shadow-two-phase"),
        threshold("0, the monitor alone", "2,879", 0),
        threshold("10^2 polls", "74", 100),
        threshold("10^4 polls", "71", 10000),
        threshold("10^6 polls", "70", 1000000),
        threshold("10^8 polls", "71", 100000000),
        threshold("infinite", "58", None),
        ("Figure 13", "copying, 1 to 32 MiB: blocks of 4,096, times as fast as memcpy at best", "1.20",
         copy("block", 4096)),
        ("Figure 13", "the same: `shadow_memcpy`", "", copy("shadow-memcpy", None)),
    ])


# ---- the cooperative scheduler ----

# Speed-up at best on four cores and on two sockets (Figure 5); from, to and width of the run times,
# seconds (Table 1): the same.
ELIMINATIONS = (
    ("mu1", "pthread-mu1", "5.30, 8.47", "0.89 to 1.05 (0.16), 1.09 to 1.85 (0.76)"),
    ("mu1k", "umbra-mu1k-pure", "6.00, 10.68", "0.80 to 1.35 (0.55), 0.969 to 1.005 (0.044)"),
    ("mu1k, improved", "umbra-mu1k", "", ""),
    ("mu2", "pthread-mu2", "1.82, 3.83", "2.49 to 3.19 (0.70), 2.61 to 2.95 (0.34)"),
    ("mu2k", "umbra-mu2k-pure", "6.12, 11.23", "0.79 to 0.99 (0.20), 0.912 to 0.952 (0.040)"),
    ("mu2k, improved", "umbra-mu2k", "", ""),
)
PATHS = (
    ("BFW", "openmp-gomp", "0.836 to 1.176 (0.340)"),
    ("CTBPA", "umbra-ctbpa-pure", "0.655 to 0.755 (0.100)"),
    ("CTBPA, improved", "umbra-ctbpa", ""),
)


def best_speed_up(picked, name):
    rows = picked.rows("gauss-threads", lambda row: stem(row) == name and row.ratio)
    row = min(rows, key=lambda row: row.ratio, default=None)
    return shown(row, lambda row: f"{1 / row.ratio:.2f} ({row.params['threads']} x {row.params['group']})")


def interval(row):
    low, high = amount(row.p5, row.unit), amount(row.p95, row.unit)
    return f"{low} to {high} ({amount(width(row), row.unit)})"


def over_bfw(picked, name, block):
    found = quotient(picked, "apsp", "openmp-gomp", name, lambda row: row.params.get("block") == block)
    return NOTHING if found is None else f"{100 * found - 100:.1f} %"


def cooperative(picked):
    rows = [("Figure 5", f"{what}: speed-up at best, threads x rows a group", said,
             best_speed_up(picked, name)) for what, name, said, _ in ELIMINATIONS]
    rows += [("Table 1", f"{what}: run times", said, shown(one(picked, "spread", name), interval))
             for what, name, _, said in ELIMINATIONS]
    for block in (48, 80, 120, 160, 240):
        for what, name, _ in PATHS[1:]:
            said = "26.8 %" if block == 120 and what == "CTBPA" else ""
            rows.append(("Figure 7", f"{what}: faster than BFW, blocks of {block}", said,
                         over_bfw(picked, name, block)))
    rows += [("Table 2", f"{what}: run times", said, shown(one(picked, "spread", name), interval))
             for what, name, said in PATHS]
    return lines(rows)


# ---- H-Dispatch ----


def of_task(picked, name):
    """The dispatcher's efficiency with tasks of 2,197 nodes on all processors; per cent."""
    rows = [row for row in on_all_cores(picked)
            if row.name == name and row.params["task_nodes"] == 2197]
    return f"{100 / rows[0].ratio / rows[0].params['cores']:.1f}" if rows else NOTHING


def peak(picked, name):
    rows = [row for row in on_all_cores(picked) if row.name == name]
    row = min(rows, key=lambda row: row.ratio, default=None)
    return shown(row, lambda row: f"{100 / row.ratio / row.params['cores']:.1f} ({row.params['task']})")


def buffers(picked, name, count):
    return one(picked, "heat", name, lambda row: row.params.get("bytes") == count and
               row.params["cores"] == max(r.params.get("cores", 0) for r in picked.measured.of("heat")))


def dispatch(picked):
    rows = []
    for count in (1 << 10, 16 << 10, 64 << 10, 1 << 20):
        scatter = buffers(picked, "umbra-scatter-gather-buffer", count)
        for what, name in (("as in the paper", "umbra-dispatch-pure-buffer"),
                           ("Umbra's", "umbra-dispatch-buffer")):
            row = buffers(picked, name, count)
            said = {1 << 10: "above 1", 1 << 20: "below 1"}.get(count, "") if "pure" in name else ""
            both = row and scatter
            rows.append(("Figure 7 (a)", f"{count >> 10} KiB a task: {what}, time over scatter-gather", said,
                         times(row.median / scatter.median) if both else NOTHING))
    rows.append(("Figure 10", "efficiency at 2,197 nodes a task, per cent: as in the paper", "85 (24 cores)",
                 of_task(picked, "umbra-dispatch-pure")))
    improved = efficiency(picked)
    rows.append(("Figure 10", "the same: Umbra's", "", number(improved) if improved else NOTHING))
    for what, name, said in (
        ("H-Dispatch as in the paper", "umbra-dispatch-pure", "85 (24 cores)"),
        ("Umbra's dispatcher", "umbra-dispatch", ""),
        ("scatter and gather", "umbra-scatter-gather", "less"),
        ("MPI", "mpi", "least"),
    ):
        rows.append(("Figure 11", f"peak efficiency, per cent, with tasks of: {what}", said, peak(picked, name)))
    rows.append(("section 4.2", "a null task by messages, time over Umbra's dispatcher", "",
                 null_task(picked)))
    return lines(rows)


def null_task(picked):
    most = max((row.params["cores"] for row in picked.measured.of("dispatch")), default=0)
    found = quotient(picked, "dispatch", "umbra-dispatch-pure", "umbra-dispatch",
                     lambda row: row.params["cores"] == most)
    return NOTHING if found is None else times(found)


# ---- placement ----

SCALE = 20  # of the graph that the headlines are of
LARGE = 8 << 20  # bytes of arrays beyond all caches, at least
SEARCHES = (
    ("OpenMP's hybrid (Beamer)", "openmp-hybrid", "5.1"),
    ("first version", "umbra-partitioned", "11.1"),
    ("second version", "umbra-bfs", "29.0"),
)


def bandwidth(picked, name, takes):
    """GB/s of the largest triad."""
    rows = picked.rows("stream", lambda row: row.name == name and takes(row) and
                       row.params.get("operation") == "triad" and row.params["bytes"] >= LARGE)
    row = max(rows, key=lambda row: row.params["bytes"], default=None)
    return shown(row, lambda row: f"{row.params['bytes'] / row.median:.1f}")


def placement(picked):
    def every(row):
        return row.params["threads"] == max(
            (row.params.get("threads", 0) for row in picked.measured.of("stream")), default=0)

    rows = [(figure, f"triad on all processors, GB/s: {what}", said, bandwidth(picked, name, every))
            for figure, what, name, said in (
                ("Figure 5", "OpenMP", "openmp-triad", "98 (32 threads)"),
                ("Figure 7", "local memory", "umbra-local", "24 (4 nodes)"),
                ("Figure 7", "interleaved memory", "umbra-interleaved", "8 (4 nodes)"),
                ("Figure 8", "arrays in parts", "umbra-partitioned", "96 (4 nodes)"))]
    for scale in (SCALE, SCALE + 2):
        for what, name, said in SEARCHES:
            row = one(picked, "bfs", name, lambda row, scale=scale: row.params.get("scale") == scale)
            rows.append(("Table 1", f"search of a graph of scale {scale}, GTEPS: {what}",
                         said if scale == SCALE else "",
                         shown(row, lambda row: f"{row.params['teps'] * 1e-9:.2f}")))
    return lines(rows)


# ---- granularity of MPI programs ----


def of_first_input(picked):
    rows = picked.rows("cilksort-limits")
    return [row for row in rows if row.params["input"] == rows[0].params["input"]]


def granularity(picked):
    saved = {2: "37", 100: "85"}
    rows = of_first_input(picked)
    alone = next((row for row in rows if row.name == "mpi-process"), None)
    found = [("Figure 2", f"Cilksort, children in a process: {called(row)}; time saved, per cent",
              saved.get(row.params.get("limit"), ""), f"{100 - 100 * row.median / alone.median:.1f}")
             for row in rows if alone and row is not alone]
    return lines(found) if found else NOTHING + "\n"
