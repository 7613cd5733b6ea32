# SPDX-License-Identifier: BSL-1.0
"""The section about pairs of small tasks: how small may a task be?"""
import math

from . import charts
from .data import amount
from .parts import numbers, section

CONTENDERS = {
    "shadow-spin": ("umbra", "-"),
    "shadow-two-phase": ("umbra2", "--"),
    "openmp-gomp": ("openmp", "-"),
    "openmp-llvm": ("openmp2", "--"),
    "tbb": ("peer", "-"),
}


def break_even(points):
    """From which size on a pair is faster than one processor: (size, "", "below" or "above").

    Between the largest size that is not faster and the next, straight on a logarithmic scale of
    sizes; the smallest or the largest size where there is none below or above.
    """
    slower = [at for at, (_, speed_up) in enumerate(points) if speed_up < 1]
    if not slower:
        return points[0][0], "below"
    if slower[-1] + 1 == len(points):
        return points[-1][0], "above"
    (left, low), (right, high) = points[slower[-1] : slower[-1] + 2]
    return left * math.exp(math.log(right / left) * (1 - low) / (high - low)), ""


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
    return section(
        "Pairs of small tasks",
        "Two equal tasks, one of them on another processor, against both on one: speed-up over the "
        "size of a task, and from which size on it pays, interpolated. The tasks are the same object "
        "code for all. Of the several ways OpenMP and oneTBB have to say this, the fastest at each "
        "size is drawn; the numbers have all." + between,
        charts.panels(drawn, "Speed-up of a pair of small tasks", "one task, µs", "speed-up", 1),
        charts.bars(
            [(name, value, colour) for name, value, _, colour in even],
            "Size of a task from which on two processors are faster than one",
            lambda at: f"{even[at][2]} {amount(even[at][1], 'ns')}".strip(),
        ),
        numbers(measured.of("fine-grained")),
    )
