# SPDX-License-Identifier: BSL-1.0
"""Sections about what a task costs."""
from .parts import numbers, section, simple
from .server import charts_by

fib = simple(
    "A task for each second call",
    "Fibonacci numbers by recursion, a task for one of the two calls; time a call. The limit is the "
    "same recursion by calls that cannot be inlined, on one core.",
    "fib",
)
_NO_LEVELS = (
    "The limit is the same by calls, on one core; all others use all processors. fork-union has no "
    "tasks in tasks: it hands out the first levels, and calls below."
)
skynet = simple(
    "A tree of tasks",
    "A tree with ten children a node, each a task that does nothing but sum up; time of the whole tree. "
    + _NO_LEVELS,
    "skynet",
)
nqueens = simple(
    "A search by tasks",
    "All ways to place queens that do not attack each other, a task for each place in the next row; "
    "time of the whole search. " + _NO_LEVELS,
    "nqueens",
)
matmul = simple(
    "A product by quarters",
    "A product of two matrices of integers, a task for each quarter, down to 32 x 32; time of the whole "
    "product. " + _NO_LEVELS,
    "matmul",
)
dispatch = simple(
    "Hand out what does nothing",
    "Ten thousand functions that only count, handed out one by one; wall time a function. Rows that "
    "end in -task make a task of each, the others share out a loop; umbra-dispatch-pure is the paper's own "
    "dispatcher, on ports.",
    "dispatch",
)
heat_adaptive = simple(
    "Tasks that are made while a step runs",
    "A step of heat with blocks that are looked at more closely where it is steep: a worker, or the "
    "task, of a steep block adds a task for each of its pieces, so the number of tasks changes from step to "
    "step. On so many processors; the limit is one, by calls.",
    "heat-adaptive",
)
submit = simple(
    "Work from outside",
    "A thread that is no core gives null functions to a runtime of one thread on another processor, one "
    "or a thousand in a row, and waits for all; time a function.",
    "submit",
)
cilksort = simple(
    "A sort by tasks",
    "Cilksort of random, sorted and reversed numbers: quarters are sorted, and merged by halves at "
    "medians, a task for each part down to 2,048 numbers. Tasks are made unless a first look finds the "
    "numbers in order, or in the opposite order. tbb is its parallel_sort, which looks whether they "
    "are in order. mpi-in-process are three MPI programs whose children are fibers of one "
    "process; mpi-process the same as processes, of fewer numbers. The limit is the C library's qsort.",
    "cilksort",
)


def start(measured):
    rows = measured.of("start")
    if not rows:
        return ""
    return section(
        "Starts",
        "Threads, one for each processor, begin, do nothing, and end: for the first time in a process, when "
        "the library also looks at the machine and measures, and again. The limit is pthread_create and "
        "pthread_join. umbra-omp is the program of openmp-gomp under libumbra_omp.so, whose threads sleep "
        "where libgomp's end. process: the whole program without a region; the limit is libgomp's.",
        *charts_by(rows, "start", str, "start", reverse=True),
        numbers(rows),
    )
