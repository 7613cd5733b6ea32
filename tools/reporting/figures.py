# SPDX-License-Identifier: BSL-1.0
"""The tables in README.md and docs/, each made from rows of one or more kernels."""
import json
import re

from .data import amount, break_even, size

OURS = ("umbra-", "shadow-")
LIMITS = ("boost-context", "ping-pong", "serial", "kernel-")  # and the ways in which they are measured
SPOKEN = {
    "boost-fiber": "Boost.Fiber",
    "dgesv": "OpenBLAS",
    "mpi": "MPI",
    "openmp-gomp": "libgomp",
    "openmp-llvm": "LLVM OpenMP",
    "tbb": "oneTBB",
    "pthread-cond": "pthread condition variable",
    "pthread-create": "pthread_create",
    "ucontext": "swapcontext",
}


class Picked:
    """A measurement, and which of its rows the tables took."""

    def __init__(self, measured):
        self.measured = measured
        self.ids = set()

    def rows(self, kernel, takes=lambda row: True):
        found = [row for row in self.measured.of(kernel) if takes(row)]
        self.ids.update((kernel, row.name, json.dumps(row.params, sort_keys=True)) for row in found)
        return found


def spoken(name):
    """The program that a contender's name stands for, without what the name says of its use."""
    for known, words in SPOKEN.items():
        if name == known or name.startswith(known + "-"):
            return words
    return name


def number(ratio):
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.1f}" if ratio < 100 else f"{ratio:,.0f}"


def times(ratio):
    return f"{number(ratio)} ×" if ratio is not None else ""


def interval(row):
    return f"{number(row.low)} to {number(row.high)}" if row.low is not None else ""


def table(head, rows):
    """Markdown: a head, and rows of as many cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def or_nothing(rows, make):
    return make(rows) if rows else "(Not measured on this machine.)\n"


# ---- README's table ----

HEADLINES = (
    ("a function to a helper thread and back", "null-fork", "shadow-two-phase"),
    ("from one fiber to the next (yield)", "switch", "umbra-yield"),
    ("spawn a fiber and join it", "spawn", "umbra-spawn"),
    ("wake a fiber on another core (event)", "event", "umbra-event"),
    ("a message to another core (port)", "port", "umbra-port-receive"),
    ("a task for every second call of a recursion", "fib", "umbra-task"),
    ("hand out empty work items to all cores", "dispatch", "umbra-dispatch"),
    ("shortest paths between all pairs", "apsp", "umbra-ctbpa"),
)
# Nothing is handed to another thread: oneTBB's caller runs nearly all of the functions itself.
NOT_COMPARED = {("null-fork", "tbb"), ("null-fork", "ucontext")}


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


# ---- the machine ----


def command(machine):
    quick = machine.get("quick")
    return "tools/run " + ("--quick" if quick else "--full")


def machine_line(picked):
    machine = picked.measured.machine
    return (
        f"Medians of one `{command(machine)}` on {machine['processor']}, commit {machine['commit']}; "
        "× is the ratio to the limit.\n"
    )


def machine_table(picked):
    machine = picked.measured.machine
    cpus = ", ".join(f"{cpu['cpu']} (core {cpu['core']})" for cpu in machine["cpus"])
    siblings = any(cpu.get("siblings") for cpu in machine["cpus"])
    rows = [
        ("command", f"`{command(machine)}`"),
        ("commit", machine["commit"]),
        ("processor", machine["processor"]),
        ("hardware threads used", cpus + ("" if siblings else "; no SMT siblings")),
        ("time stamps", f"{machine['cycles_hz'] / 1e9:.2f} GHz"),
        ("waits by", machine["wait_backend"]),
        ("operating system", machine["kernel"]),
        ("compiler", f"{machine['compiler']} {machine['flags']}"),
        ("duration", f"{machine['run_ms'] / 1000:.0f} s"),
        ("stolen by the hypervisor", f"{machine['stolen_ms'] / 1000:.2f} s"),
    ]
    return table(("", "this run"), rows)


# ---- all contenders of a kernel ----


def ranking(kernel, leave_out=(), takes=lambda row: True):
    """The limits first, then from fast to slow."""

    def make(picked):
        rows = picked.rows(
            kernel, lambda row: not row.name.startswith(tuple(leave_out) or ("\0",)) and takes(row)
        )
        limits = {row.limit for row in rows}
        rows.sort(key=lambda row: (row.name not in limits, row.median))
        with_ratio = any(row.ratio is not None for row in rows)
        head = ("contender", "median") + ("of its limit", "95 % interval", "limit") * with_ratio

        def line(row):
            cells = (f"`{row.name}`{row.label[len(row.name):]}", amount(row.median, row.unit))
            return cells + (times(row.ratio), interval(row), row.limit or "") * with_ratio

        return or_nothing(rows, lambda rows: table(head, map(line, rows)))

    return make


# ---- contenders against a parameter ----


def code(name):
    return f"`{name}`"


def grid(rows, line_of, column_of, cell_of, corner, spell=str, called=code):
    """A line for each contender, a column for each value of a parameter."""
    columns = sorted({column_of(row) for row in rows})
    lines = {}
    for row in rows:
        lines.setdefault(line_of(row), {})[column_of(row)] = cell_of(row)
    return table(
        (corner, *map(spell, columns)),
        [(called(name), *(cells.get(column, "") for column in columns)) for name, cells in lines.items()],
    )


def stem(row):
    """A contender's name without the numbers that parameters repeat."""
    return re.sub(r"-\d+(x\d+)?$", "", row.name)


def copying(picked):
    rows = picked.rows("memcpy", lambda row: row.ratio and "block" not in row.params)
    return or_nothing(rows, lambda rows: grid(
        rows, lambda row: row.name, lambda row: row.params["bytes"],
        lambda row: f"{1 / row.ratio:.2f}", "times as fast as `memcpy`", size))


def prefetching(picked):
    rows = picked.rows("prefetch", lambda row: row.ratio)
    if not rows:
        return or_nothing(rows, None)
    most = max(row.params["bytes"] for row in rows)
    best = {}
    for row in (row for row in rows if row.params["bytes"] == most):
        key = row.name, row.params["workload"]
        if key not in best or row.ratio < best[key].ratio:
            best[key] = row
    return grid(
        best.values(), lambda row: row.name, lambda row: row.params["workload"],
        lambda row: f"{1 / row.ratio:.2f}, work {row.params['work']}",
        f"times as fast as the plain loop, {size(most)}")


def elimination(picked):
    rows = picked.rows("gauss-threads", lambda row: row.params.get("group") == 1)
    return or_nothing(rows, lambda rows: grid(
        rows, stem, lambda row: row.params["threads"], lambda row: amount(row.median, row.unit),
        "fibers or threads", "{:,}".format))


def groups(picked):
    rows = picked.rows("gauss-threads", lambda row: row.params.get("group", 1) > 1)
    return or_nothing(rows, lambda rows: grid(
        rows, stem,
        lambda row: (row.params["group"], row.params["threads"]),
        lambda row: amount(row.median, row.unit), "fibers or threads × rows a group",
        lambda pair: f"{pair[1]} × {pair[0]}"))


def paths(picked):
    rows = picked.rows("apsp", lambda row: "block" in row.params)
    return or_nothing(rows, lambda rows: grid(
        rows, stem, lambda row: row.params["block"],
        lambda row: times(row.ratio) or amount(row.median, row.unit), "rows of a block"))


def on_all_cores(picked):
    """A step of heat, with every size of a task."""
    rows = picked.rows("heat", lambda row: "task" in row.params and row.unit == "ns" and row.ratio)
    most = max((row.params["cores"] for row in rows), default=0)
    return [row for row in rows if row.params["cores"] == most]


def nodes(row):
    return row.params["task_nodes"], row.params["task"]


def spell_nodes(task):
    return f"{task[0]:,}: {task[1].replace('x', ' × ')}"


def heat(picked):
    """Only sizes at which several contenders were measured."""
    rows = on_all_cores(picked)
    counts = [nodes(row) for row in rows]
    rows = [row for row in rows if counts.count(nodes(row)) > 2]
    return or_nothing(rows, lambda rows: grid(
        rows, lambda row: row.name, nodes, lambda row: amount(row.median, row.unit), "nodes a task",
        spell_nodes))


def heat_best(picked):
    """Each contender with the size of a task at which it is fastest."""
    best = {}
    for row in on_all_cores(picked):
        if row.name not in best or row.median < best[row.name].median:
            best[row.name] = row
    rows = picked.rows("heat", lambda row: row.name == "serial")
    rows += sorted(best.values(), key=lambda row: row.median)
    return or_nothing(rows, lambda rows: table(
        ("contender", "nodes a task", "a step", "of the best sweep on one processor", "95 % interval"),
        [(f"`{row.name}`", spell_nodes(nodes(row)) if "task" in row.params else "",
          amount(row.median, row.unit), times(row.ratio), interval(row)) for row in rows]))


def threshold(picked):
    rows = picked.rows(
        "threshold", lambda row: row.name == "shadow-two-phase" and "iterations" not in row.params)
    return or_nothing(rows, lambda rows: grid(
        rows, lambda row: amount(row.params["partner_ns"], "ns"), lambda row: row.params["cycles"],
        lambda row: amount(row.median, row.unit), "the partner takes", "{:,} cycles".format,
        called=str))


SMALL_TASKS = ("shadow-spin", "shadow-two-phase", "umbra-task", "openmp-gomp", "openmp-llvm", "tbb")


def small_tasks(picked):
    """From which size on a pair of tasks is faster on two processors than on one."""
    rows = picked.rows("fine-grained", lambda row: row.name in SMALL_TASKS and row.ratio)
    points = {}
    for row in sorted(rows, key=lambda row: row.params["task_ns"]):
        of_task = points.setdefault(row.params["task"], {})
        of_task.setdefault(row.name, []).append((row.params["task_ns"], 1 / row.ratio))

    def cell(series):
        if not series:
            return ""
        length, beyond = break_even(series)
        return f"{beyond} {amount(length, 'ns')}".strip()

    return or_nothing(rows, lambda rows: table(
        ("", *(f"`{name}`" for name in SMALL_TASKS)),
        [(task, *(cell(series.get(name)) for name in SMALL_TASKS)) for task, series in points.items()]))


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
    )
    return table(
        ("paper", "what", "in the paper", "here"),
        [(*line[:3], number(line[3]) if line[3] is not None else "not measured") for line in lines])


def spread(picked):
    rows = picked.rows("spread")
    return or_nothing(rows, lambda rows: table(
        ("contender", "5th percentile", "median", "95th percentile", "spread"),
        [(f"`{row.name}`", *(amount(value, row.unit) for value in
                             (row.p5, row.median, row.p95, row.p95 - row.p5))) for row in rows]))


def waiting(picked):
    rows = picked.rows("long-wait") + picked.rows("idle")

    def line(row):
        slept = row.params.get("slept_ms")
        return (
            f"`{row.name}`",
            f"{slept / 1000:g} s" if slept else "10 ms",
            amount(row.median, row.unit),
            times(row.ratio),
            f"{row.params.get('burned_percent', 0):.3f} %",
        )

    head = ("waiter", "waited", "runs on after", "of a futex", "processor time burned")
    return or_nothing(rows, lambda rows: table(head, map(line, rows)))


def footprint(picked):
    rows = picked.rows("footprint")
    return or_nothing(rows, lambda rows: table(
        ("contender", "how many", "memory of each", "made in"),
        [(f"`{row.name}`", f"{row.params['count']:,}", amount(row.median, row.unit),
          amount(row.params["make_ns"], "ns") if "make_ns" in row.params else "") for row in rows]))


TABLES = {
    "headlines": headlines,
    "machine-line": machine_line,
    "machine": machine_table,
    "null-fork": ranking("null-fork", ("ping-pong-",)),
    "waiting": waiting,
    "switch": ranking("switch", ("boost-context-",)),
    "spawn": ranking("spawn", ("ping-pong-",)),
    "event": ranking("event", ("ping-pong-",)),
    "footprint": footprint,
    "port": ranking("port", ("ping-pong-",)),
    "fib": ranking("fib"),
    "dispatch": ranking("dispatch"),
    "copying": copying,
    "prefetching": prefetching,
    "gauss": ranking("gauss"),
    "gauss-threads": elimination,
    "gauss-groups": groups,
    "apsp": paths,
    "spread": spread,
    "heat": heat,
    "heat-best": heat_best,
    "threshold": threshold,
    "small-tasks": small_tasks,
    "papers": papers,
}


def used(measured):
    """The rows that the tables take, as (kernel, contender, parameters)."""
    picked = Picked(measured)
    for make in TABLES.values():
        make(picked)
    return picked.ids
