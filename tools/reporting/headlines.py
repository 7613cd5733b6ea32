# SPDX-License-Identifier: BSL-1.0
"""The table that says the most: README's."""
from .data import amount
from .tables import stem, table, times

OURS = ("umbra-", "shadow-")
LIMITS = ("boost-context", "ping-pong", "serial", "kernel-")  # and the ways in which they are measured
SPOKEN = {
    "boost-context": "Boost.Context",
    "boost-fiber": "Boost.Fiber",
    "citor": "citor",
    "epoll": "a loop of epoll",
    "fork-union": "ForkUnion",
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


HEAD = ("what", "limit", "Umbra", "best other")


def headline_rows(picked):
    return [row for row in (headline(picked, *line) for line in HEADLINES) if row]


def headlines(picked):
    return table(HEAD, headline_rows(picked))
