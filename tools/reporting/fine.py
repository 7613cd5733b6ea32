# SPDX-License-Identifier: BSL-1.0
"""The section about pairs of small tasks: how small may a task be?"""
from . import charts
from .data import amount, break_even
from .parts import numbers, section

CONTENDERS = {
    "shadow-spin": ("umbra", "-"),
    "shadow-two-phase": ("umbra2", "--"),
    "umbra-task": ("umbra", ":"),
    "openmp-gomp": ("openmp", "-"),
    "openmp-llvm": ("openmp2", "--"),
    "tbb": ("peer", "-"),
}


def in_words(size, beyond):
    return f"{beyond} {amount(size, 'ns')}".strip()


def which(speed_ups):
    """From what size on a shadow is faster than a task: a sentence, or nothing if one is missing."""
    sizes = []
    for task, series in speed_ups.items():
        if "umbra-task" in series and "shadow-two-phase" in series:
            both = zip(series["shadow-two-phase"], series["umbra-task"])
            points = [(ns, shadow / as_task) for (ns, shadow), (_, as_task) in both]
            sizes.append(f"{task}: {in_words(*break_even(points))}")
    if not sizes:
        return ""
    return (
        " umbra-task leaves to the scheduler whether the second core takes part; for a pair with one "
        f"helper a shadow is faster than that from these sizes on: {', '.join(sizes)}. Below its "
        "break-even, call both."
    )


def fine_grained(measured):
    rows = [row for row in measured.of("fine-grained") if "task_ns" in row.params]
    speed_ups = {}  # by task and contender, in the order of sizes
    for row in sorted(rows, key=lambda row: row.params["task_ns"]):
        if row.name in CONTENDERS and row.ratio:
            of_task = speed_ups.setdefault(row.params["task"], {})
            of_task.setdefault(row.name, []).append((row.params["task_ns"], 1 / row.ratio))
    if not speed_ups:
        return ""
    drawn, even = [], []
    for task, series in speed_ups.items():
        named = [(name, series[name], *CONTENDERS[name]) for name in CONTENDERS if name in series]
        drawn.append((task, [(name, [(ns / 1000, y) for ns, y in points], *style)
                             for name, points, *style in named]))
        even += [(f"{task}: {name}", *break_even(points), charts.family(name))
                 for name, points, *_ in named]
    line = measured.row("fine-grained", "ping-pong")
    between = f" A cache line travels there and back in {amount(line.median, 'ns')}." if line else ""

    def even_note(at):
        _, size, beyond, _ = even[at]
        trips = f" · {size / line.median:.1f} round trips" if line else ""
        return in_words(size, beyond) + trips

    return section(
        "Pairs of small tasks",
        "Two equal tasks, one of them on another processor, against both on one: speed-up over the "
        "size of a task, and from which size on it pays, interpolated. The tasks are the same object "
        "code for all. Of the several ways OpenMP and oneTBB have to say this, the fastest at each "
        "size is drawn; the numbers have all." + between + which(speed_ups),
        charts.panels(drawn, "Speed-up of a pair of small tasks", "one task, µs", "speed-up", 1),
        charts.bars(
            [(name, value, colour) for name, value, _, colour in even],
            "Size of a task from which on two processors are faster than one",
            even_note,
        ),
        numbers(measured.of("fine-grained")),
    )
