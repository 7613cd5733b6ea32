# SPDX-License-Identifier: BSL-1.0
"""The section about streams through channels and ports, and messages there and back."""
from .handover import PING_PONG_VARIANTS
from .parts import enlarged, numbers, ranking, section

# A chart's title, the cores of its rows, their limit, and the chart's name.
PLACES = (
    ("A stream on one core", 1, "ring", "stream-1"),
    ("A stream to another core", 2, "ring", "stream-2"),
    ("Both sides on one core", 1, "umbra-transfer", "port-1"),
    ("Each side on a core of its own", 2, "ping-pong", "port-2"),
)


def belongs(row, cores, limit):
    """True if the row is that limit, or is compared with it, on so many cores."""
    return limit in (row.name, row.limit) and row.params.get("cores", cores) == cores


def channel(measured):
    rows = [row for row in measured.of("channel") if not row.name.startswith(PING_PONG_VARIANTS)]
    charts = []
    for title, cores, limit, name in PLACES:
        drawn = [row for row in rows if belongs(row, cores, limit)]
        if drawn:
            charts.append(enlarged(ranking(drawn, title), title, name))
    if not charts:
        return ""
    return section(
        "Channels and ports",
        "A stream: one side sends numbers as fast as it can, the other receives them; one number. The "
        "limit is a ring of values that both sides poll. There and back: two sides send each other "
        "messages over ports of their own; one message, one way. On one core "
        "the limit is a bare hand-over from one fiber to another, on two it is the cache line that "
        "travels there and back. A mailbox is a pointer and an event, for what a wait costs without a "
        "port; pthread-cond are queues of threads. Of items so many are sent and received together.",
        *charts,
        numbers(measured.of("channel")),
    )
