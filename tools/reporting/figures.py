# SPDX-License-Identifier: BSL-1.0
"""The tables in README.md and docs/, each made from rows of one or more kernels."""
from . import device, headlines, mpi, papers, pivots
from .data import amount, break_even, size
from .tables import Picked, grid, interval, on_all_cores, or_nothing, stem, table, times


# ---- the machine ----


def command(machine):
    # The seconds are those that tools/run gives a kernel.
    if not machine.get("quick") and machine.get("seconds"):
        return "tools/run --papers"
    if not machine.get("quick"):
        return "tools/run --full"
    return "tools/run --quick" if machine.get("seconds") == 5 else "tools/run"


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

    def chosen(picked):
        return picked.rows(
            kernel, lambda row: not row.name.startswith(tuple(leave_out) or ("\0",)) and takes(row)
        )

    def make(picked):
        rows = chosen(picked)
        limits = {row.limit for row in rows}
        rows.sort(key=lambda row: (row.name not in limits, row.median))
        with_ratio = any(row.ratio is not None for row in rows)
        head = ("contender", "median") + ("of its limit", "95 % interval", "limit") * with_ratio

        def line(row):
            cells = (f"`{row.name}`{row.label[len(row.name):]}", amount(row.median, row.unit))
            return cells + (times(row.ratio), interval(row), row.limit or "") * with_ratio

        return or_nothing(rows, lambda rows: table(head, map(line, rows)))

    make.rows = chosen  # for a picture of them (tools/site)
    return make


# ---- contenders against a parameter ----


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


def searches(picked):
    rows = picked.rows("bfs", lambda row: "teps" in row.params)
    return or_nothing(rows, lambda rows: grid(
        rows, stem, lambda row: row.params["scale"],
        lambda row: f"{row.params['teps'] * 1e-9:.2f}" + (f", {times(row.ratio)}" if row.ratio else ""),
        "GTEPS, and time over OpenMP's, at scale"))


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


def limits(picked):
    """A line for each limit, a column for each input."""
    rows = picked.rows("cilksort-limits")
    inputs = sorted({row.params["input"] for row in rows})
    by_limit = {}
    for row in rows:
        by_limit.setdefault(mpi.called(row), {})[row.params["input"]] = row

    def line(limit):
        found = [by_limit[limit].get(name) for name in inputs]
        return (limit, *(f"{amount(row.median, row.unit)} ({amount(row.p5, row.unit)} to "
                         f"{amount(row.p95, row.unit)})" if row else "" for row in found))

    return or_nothing(rows, lambda rows: table(("children in a process", *inputs), map(line, by_limit)))


def footprint(picked):
    rows = picked.rows("footprint")
    return or_nothing(rows, lambda rows: table(
        ("contender", "how many", "memory of each", "made in"),
        [(f"`{row.name}`", f"{row.params['count']:,}", amount(row.median, row.unit),
          amount(row.params["make_ns"], "ns") if "make_ns" in row.params else "") for row in rows]))


TABLES = {
    "headlines": headlines.headlines,
    "machine-line": machine_line,
    "machine": machine_table,
    "null-fork": ranking("null-fork", ("ping-pong-",)),
    "waiting": waiting,
    "switch": ranking("switch", ("boost-context-",)),
    "spawn": ranking("spawn", ("ping-pong-",)),
    "event": ranking("event", ("ping-pong-",)),
    "footprint": footprint,
    "channel": ranking("channel", ("ping-pong-",)),
    "fib": ranking("fib"),
    "skynet": ranking("skynet"),
    "nqueens": ranking("nqueens"),
    "matmul": ranking("matmul"),
    "dispatch": ranking("dispatch"),
    "heat-adaptive": ranking("heat-adaptive"),
    "cilksort": ranking("cilksort"),
    "cilksort-limits": limits,
    "mpi-child": ranking("mpi-child"),
    "copying": copying,
    "prefetching": prefetching,
    "gauss": ranking("gauss"),
    "gauss-threads": elimination,
    "gauss-groups": groups,
    "apsp": paths,
    "bfs": searches,
    "spread": spread,
    "heat": heat,
    "heat-best": heat_best,
    "threshold": threshold,
    "small-tasks": small_tasks,
    "paper-device": device.device,
}

# Made of docs/papers.json.
PAPERS = {
    "paper-line": machine_line,
    "papers": papers.headlines,
    "paper-shadow": papers.shadow,
    "paper-cooperative": papers.cooperative,
    "paper-pivots": pivots.pivots,
    "paper-dispatch": papers.dispatch,
    "paper-placement": papers.placement,
    "paper-granularity": papers.granularity,
}


def used(measured, tables):
    """The rows that the tables take, as (kernel, contender, parameters)."""
    picked = Picked(measured)
    for make in tables.values():
        make(picked)
    return picked.ids
