# SPDX-License-Identifier: BSL-1.0
"""Sections about what a task costs."""
from .parts import simple

fib = simple(
    "A task for each second call",
    "Fibonacci numbers by recursion, a task for one of the two calls; time a call. The limit is the "
    "same recursion by calls that cannot be inlined, on one core.",
    "fib",
)
dispatch = simple(
    "Hand out what does nothing",
    "Ten thousand functions that only count, handed out one by one; wall time a function. Rows that "
    "end in -task make a task of each, the others share out a loop.",
    "dispatch",
)
