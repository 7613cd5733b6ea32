# SPDX-License-Identifier: BSL-1.0
"""docs/papers.md: what each figure and table of a paper says, and what was measured here."""
from .data import amount
from .headlines import efficiency, number, quotient, width
from .tables import on_all_cores, stem, table, times

NOTHING = "not measured"


def one(picked, kernel, name, takes=lambda row: True):
    """The first row of that name, or None."""
    found = picked.rows(kernel, lambda row: stem(row) == name and takes(row))
    return found[0] if found else None


def shown(row, show):
    return NOTHING if row is None else show(row)


def lines(rows):
    return table(("in the paper", "what", "its figures", "here"), rows)


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
