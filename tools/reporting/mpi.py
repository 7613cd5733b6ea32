# SPDX-License-Identifier: BSL-1.0
"""Sections about MPI programs whose children are fibers of one process."""
import statistics

from . import charts
from .data import amount
from .parts import numbers, ranking, section, table

COLOURS = (("umbra", "-"), ("umbra2", "--"), ("peer", ":"))


def called(row):
    """Of a row of cilksort-limits: how many children a process may have."""
    if row.name == "mpi-process":
        return "no library"
    return f"{row.params['limit']:,}" if "limit" in row.params else "no limit"


def deviation(row):
    """The standard deviation of its runs."""
    return statistics.stdev(row.samples) if len(row.samples) > 1 else 0


def limits(measured):
    rows = measured.of("cilksort-limits")
    if not rows:
        return ""
    names = list(dict.fromkeys(called(row) for row in rows))
    series = {}
    for row in rows:
        point = names.index(called(row)), row.median * 1e-9, deviation(row) * 1e-9
        series.setdefault(row.params["input"], []).append(point)
    return section(
        "Children in one process, up to a limit",
        f"Cilksort of {rows[0].params['n']:,} random numbers by three MPI programs, "
        f"{rows[0].params.get('tasks', 0):,} tasks or so, against the number of tasks that a process "
        f"may hold; further ones become processes (the paper's Figure 2). Medians of "
        f"{max(row.rounds for row in rows)} runs, with the standard deviation.",
        charts.lines(
            [(name, points, *style) for (name, points), style in zip(series.items(), COLOURS)],
            "Time of a sort against the number of children in a process",
            "children in a process, at most",
            "seconds",
            log_x=False,
            log_y=True,
            x_names=list(enumerate(names)),
        ),
        table(
            ("children in a process", "input", "median", "deviation", "to no library"),
            [
                (
                    called(row),
                    row.params["input"],
                    amount(row.median, row.unit),
                    amount(deviation(row), row.unit),
                    f"{row.ratio:.3f}" if row.ratio is not None else "",
                )
                for row in rows
            ],
        ),
    )


def child(measured):
    rows = measured.of("mpi-child")
    if not rows:
        return ""
    children = [row for row in rows if "live" in row.params]
    return section(
        "Children of an MPI program, and messages to them",
        "A child that is spawned, gets a number, sends it back and ends, as a fiber of the process and as "
        "a process; and messages one way between two tasks. The limit of a message is memcpy of as many "
        "bytes: on one core, or by two threads in turn, each of which copies what the other has just "
        "written.",
        ranking(children, "Children of an MPI program"),
        ranking([row for row in rows if row not in children], "Messages between tasks"),
        numbers(rows),
    )
