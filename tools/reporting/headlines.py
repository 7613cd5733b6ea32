# SPDX-License-Identifier: BSL-1.0
"""The tables that say the most: README's, and what the papers say beside what is measured here."""
from .data import amount
from .tables import number, on_all_cores, stem, table, times

OURS = ("umbra-", "shadow-")
LIMITS = ("boost-context", "ping-pong", "serial", "kernel-")  # and the ways in which they are measured
SPOKEN = {
    "boost-fiber": "Boost.Fiber",
    "dgesv": "OpenBLAS",
    "mpi": "MPI",
    "openmp-gomp": "libgomp",
    "openmp-llvm": "LLVM OpenMP",
    "tbb": "oneTBB",
    "tmc": "TooManyCooks",
    "pthread-cond": "pthread condition variable",
    "pthread-create": "pthread_create",
    "ucontext": "swapcontext",
}


def spoken(name):
    """The program that a contender's name stands for, without what the name says of its use."""
    for known, words in SPOKEN.items():
        if name == known or name.startswith(known + "-"):
            return words
    return name


# ---- README's table ----

HEADLINES = (
    ("a function to a helper thread and back", "null-fork", "shadow-two-phase"),
    ("from one fiber to the next (yield)", "switch", "umbra-yield"),
    ("spawn a fiber and join it", "spawn", "umbra-spawn"),
    ("wake a fiber on another core (event)", "event", "umbra-event"),
    ("a message to another core (port)", "channel", "umbra-port-receive"),
    ("a task for every second call of a recursion", "fib", "umbra-task"),
    ("hand out empty work items to all cores", "dispatch", "umbra-dispatch"),
    ("shortest paths between all pairs", "apsp", "umbra-ctbpa"),
)
# Nothing is handed to another thread: oneTBB's caller runs nearly all of the functions itself. And
# ForkUnion makes tasks of the first levels only.
NOT_COMPARED = {("null-fork", "tbb"), ("null-fork", "ucontext"), ("fib", "fork-union")}


def with_cores(kernel, row):
    """A task's price is that on one core; all else is compared on as many as there are."""
    return row.params.get("cores", 0) if kernel != "fib" else -row.params.get("cores", 0)


def ours(picked, kernel, name):
    """Our row for a headline: on the most cores, with the parameters at which it is fastest."""
    rows = picked.rows(
        kernel,
        lambda row: row.name == name or "block" in row.params and stem(row) == name,
    )
    rows = [row for row in rows if "items" not in row.params]
    return min(rows, key=lambda row: (-with_cores(kernel, row), row.median), default=None)


def comparable(kernel, our):
    """True for rows of other libraries that do the same as ours."""

    def takes(row):
        return (
            not row.name.startswith(OURS + LIMITS)
            and (kernel, row.name) not in NOT_COMPARED
            and row.limit == our.limit
            and all(row.params.get(key) == our.params.get(key) for key in ("cores", "items", "count"))
        )

    return takes


def headline(picked, what, kernel, name):
    our = ours(picked, kernel, name)
    if our is None:
        return None
    limit = picked.rows(kernel, lambda row: row.name == our.limit)
    other = min(picked.rows(kernel, comparable(kernel, our)), key=lambda row: row.median, default=None)

    def cell(row, said=""):
        ratio = f", {times(row.ratio)}" if row.ratio is not None else ""
        return f"{amount(row.median, row.unit)}{ratio}{said}"

    return (
        what,
        amount(limit[0].median, limit[0].unit) if limit else "",
        cell(our),
        cell(other, f" ({spoken(other.name)})") if other else "",
    )


def headlines(picked):
    rows = [headline(picked, *line) for line in HEADLINES]
    return table(("what", "limit", "Umbra", "best other"), [row for row in rows if row])


# ---- the papers' headlines ----


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


def papers(picked):
    def large(row):
        return row.params.get("block") == 120

    def of_scale(row):
        return row.params.get("scale") == 20

    lines = (
        ("shadow threads", "null fork: pthread_create over a shadow", "1,135",
         quotient(picked, "null-fork", "pthread-create", "shadow-spin")),
        ("shadow threads", "null fork: swapcontext over a shadow", "46",
         quotient(picked, "null-fork", "ucontext", "shadow-spin")),
        ("cooperative scheduler", "Gaussian elimination: mu1 over mu1k", "1.11 to 1.26",
         quotient(picked, "spread", "pthread-mu1", "umbra-mu1k")),
        ("cooperative scheduler", "Gaussian elimination: mu2 over mu2k", "2.9 to 3.4",
         quotient(picked, "spread", "pthread-mu2", "umbra-mu2k")),
        ("cooperative scheduler", "spread of run times: mu1 over mu1k", "19",
         quotient(picked, "spread", "pthread-mu1", "umbra-mu1k", value=width)),
        ("cooperative scheduler", "shortest paths, blocks of 120: OpenMP over CTBPA", "1.37",
         quotient(picked, "apsp", "openmp-gomp", "umbra-ctbpa", large)),
        ("cooperative scheduler", "spread of run times: OpenMP over CTBPA", "3.4",
         quotient(picked, "spread", "openmp-gomp", "umbra-ctbpa", value=width)),
        ("H-Dispatch", "efficiency at 2,197 nodes a task, per cent", "85 (24 cores)",
         efficiency(picked)),
        ("placement", "search: first version over OpenMP's hybrid, edges a second", "2.2",
         quotient(picked, "bfs", "openmp-hybrid", "umbra-partitioned", of_scale)),
        ("placement", "search: second version over the first, edges a second", "2.68",
         quotient(picked, "bfs", "umbra-partitioned", "umbra-bfs", of_scale)),
    )
    return table(
        ("paper", "what", "in the paper", "here"),
        [(*line[:3], number(line[3]) if line[3] is not None else "not measured") for line in lines])
