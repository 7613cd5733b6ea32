# SPDX-License-Identifier: BSL-1.0
"""The section about messages through ports."""
from .handover import PING_PONG_VARIANTS
from .parts import enlarged, numbers, ranking, section

PLACES = (
    ("Both sides on one core", 1, "umbra-transfer"),
    ("Each side on a core of its own", 2, "ping-pong"),
)


def port(measured):
    rows = [row for row in measured.of("port") if not row.name.startswith(PING_PONG_VARIANTS)]
    charts = []
    for title, cores, limit in PLACES:
        drawn = [row for row in rows if limit in (row.name, row.limit)]
        if drawn:
            charts.append(enlarged(ranking(drawn, title), title, f"port-{cores}"))
    if not charts:
        return ""
    return section(
        "A message through a port",
        "Two sides send each other messages over ports of their own; one message, one way. On one core "
        "the limit is a bare hand-over from one fiber to another, on two it is the cache line that "
        "travels there and back. A mailbox is a pointer and an event, for what a wait costs without a "
        "port; pthread-cond are queues of threads. Of items so many are sent and received together.",
        *charts,
        numbers(measured.of("port")),
    )
