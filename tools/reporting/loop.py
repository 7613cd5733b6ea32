# SPDX-License-Identifier: BSL-1.0
"""Sections about short parallel loops, barriers and locks."""
import math

from . import charts
from .data import amount, break_even
from .parts import numbers, section, simple

STYLES = {
    "serial": ("limit", "-"),
    "shadow": ("umbra2", "--"),
    "umbra-team": ("umbra", "-"),
    "umbra-task": ("umbra2", ":"),
    "umbra-parallel-for": ("umbra", ":"),
    "umbra-parallel-for-grain-0": ("umbra", "--"),
    "umbra-parallel-for-main": ("umbra2", "-"),
    "openmp-gomp": ("openmp", "-"),
    "openmp-llvm": ("openmp2", "--"),
    "tbb": ("peer", "-"),
    "fork-union": ("threads", "-"),
    "citor": ("threads2", "--"),
}


def loop(measured):
    series, faster = {}, {}
    rows = sorted(measured.of("loop"), key=lambda row: row.params.get("work_ns", math.inf))
    for row in rows:
        if not row.params.get("work_ns") or row.name not in STYLES:
            continue
        series.setdefault(row.name, []).append((row.params["work_ns"], row.median))
        if row.ratio:
            faster.setdefault(row.name, []).append((row.params["work_ns"], 1 / row.ratio))
    if not faster:
        return ""
    even = [(name, *break_even(faster[name]), charts.family(name)) for name in STYLES if name in faster]

    def even_note(at):
        return f"{even[at][2]} {amount(even[at][1], 'ns')}".strip()

    return section(
        "A short parallel loop",
        "A loop of two parts, one for each of two processors: time of a loop against what it takes on one "
        "processor, and from which length on two are faster, interpolated. The parts are the same object "
        "code for all. The table also has a team that any thread may run, and two members of eight, beside "
        "the team of two that its creator runs; and 10,000 indices from main, beside two threads that divide "
        "them by hand.",
        charts.lines(
            [(name, series[name], *STYLES[name]) for name in STYLES if name in series],
            "Time of a short parallel loop",
            "on one processor, ns",
            "a loop, ns",
            log_y=True,
        ),
        charts.bars(
            [(name, value, colour) for name, value, _, colour in even],
            "Length of a loop from which on two processors are faster than one",
            even_note,
        ),
        numbers(rows),
    )


sync = simple(
    "Barriers of two",
    "Two threads, or two fibers on two cores, that meet again and again; time from one barrier to the "
    "next. The limit is a barrier of one line on which both only spin. The table also has a read-write lock "
    "of which one turn in a hundred writes, time of a turn, beside two steps on one line; and a condition "
    "that a hundred wait for, time for each of them.",
    "sync",
    leave_out=("fetch-adds", "pthread-rwlock", "umbra-rwlock", "pthread-broadcast", "umbra-broadcast"),
)

team = simple(
    "Teams of so many",
    "On so many processors a barrier of all, and a run of a function that only counts on all; time from one "
    "barrier to the next, or of a run. The limit is a barrier of one line on which all only spin.",
    "team",
)

crowd = simple(
    "More threads than processors",
    "Graphs of 250 short nodes with a barrier after each, on two processors: beside a busy loop, with more "
    "members than processors, and two teams at once; time of a graph, over batches with their worst. The "
    "limit is libgomp with passive waiting. And the time of a run of nothing: by two threads at once, each with "
    "its team, by three threads that run one in turn, and in each part of a run; the limit is libgomp with its "
    "default waiting.",
    "crowd",
)

lock = simple(
    "A mutex that two want",
    "Two threads, or two fibers on two cores, that lock the same mutex again and again; time of a turn, "
    "without and with 130 ns of work between two turns of a side. The limit is pthread's mutex with the "
    "same work.",
    "lock",
)

openmp = simple(
    "An OpenMP program, unmodified",
    "Constructs of OpenMP in a program of gcc's, on two processors, under libgomp and under "
    "libumbra_omp.so. fib: all tasks of fib(12); producer: a task. The limit of a row is libgomp's.",
    "openmp",
)
