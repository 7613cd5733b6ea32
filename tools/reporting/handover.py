# SPDX-License-Identifier: BSL-1.0
"""Sections about what waiting, switching and handing over cost."""
from .data import amount
from .parts import ranking, section, simple, table

PING_PONG_VARIANTS = ("ping-pong-",)

null_fork = simple(
    "Fork and join on another processor",
    "Handing an empty function to a thread that waits for it on another processor, and getting the "
    "answer. The limit is a cache line that travels there and back.",
    "null-fork",
    PING_PONG_VARIANTS,
    apart=("On the caller's own processor, which hands nothing over", "boost-context", "tbb", "ucontext"),
)
switch = simple(
    "From one fiber to the next",
    "One hand-over on one core. The limit is a bare jump_fcontext of Boost.Context.",
    "switch",
    ("boost-context-",),
)
spawn = simple(
    "Start a fiber, and join it",
    "On the same core the limit is Boost.Context's make and two jumps, for so many at a time; on "
    "another core it is the cache line that travels there and back.",
    "spawn",
    PING_PONG_VARIANTS,
)
event = simple(
    "Signal an event that another core waits for",
    "One way. The limit is the cache line that travels there and back.",
    "event",
    PING_PONG_VARIANTS,
)
footprint = simple(
    "What a blocked fiber costs",
    "Memory a blocked fiber or thread, page tables included; also for one that had called snprintf.",
    "footprint",
)


def waiting(measured):
    rows = measured.of("long-wait") + measured.of("idle")
    if not rows:
        return ""
    cells = [
        (
            row.label,
            f"{row.params['slept_ms'] / 1000:g} s" if "slept_ms" in row.params else "10 ms",
            amount(row.median, row.unit),
            f"{row.params.get('burned_percent', 0):.3f} %",
        )
        for row in rows
    ]
    return section(
        "Waiting long",
        "How long after the signal a waiter runs on, and how much processor time it has used "
        "meanwhile. What sleeps in the kernel cannot be there earlier than a futex.",
        table(("waiter", "waited", "runs on after", "processor time"), cells).replace(
            "<details>", "<details open>"
        ),
    )


def share(row, name, places=0):
    value = row.params.get(name)
    return "" if value is None else f"{value:.{places}f} %"


def wake(measured):
    rows = measured.of("wake")
    if not rows:
        return ""
    cells = [
        (
            row.label,
            *(amount(row.params[name], row.unit) if name in row.params else "" for name in ("p50", "p99", "p999")),
            share(row, "late_percent", 2),
            share(row, "others_percent"),
            share(row, "least_percent"),
        )
        for row in rows
    ]
    woken = [row for row in rows if "p50" in row.params]
    return section(
        "Signal a fiber whose core runs others",
        "From the signal until the waiter runs, while its processor runs others, which work for 5 µs and "
        "then yield. The limit, loop, is one thread that looks at a word between two slices. Late is what "
        "took longer than 7.5 µs, a slice and a half: interrupts and the host make it so, in the limit, too. "
        "The picture is of the medians. The others' part is of their processor's time; the "
        "least is what the one that had the fewest turns had of its equal share. In a storm 32 waiters "
        "are signaled, one each 200 ns.",
        ranking(woken, "wake") if woken else "",
        table(("contender", "median", "99 %", "99.9 %", "late", "the others' part", "least"), cells).replace(
            "<details>", "<details open>"
        ),
    )
