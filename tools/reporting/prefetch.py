# SPDX-License-Identifier: BSL-1.0
"""The section about prefetching: speed-ups against the work on an item."""
from . import charts
from .data import amount, size
from .parts import section, table

NAMES = (("inline-prefetch", "peer", "--"), ("shadow-prefetch", "umbra", "-"))
KERNEL = "prefetch"


def prefetch(measured):
    rows = measured.of(KERNEL)
    if not rows:
        return ""
    groups, cells = {}, []
    for row in rows:
        where = row.params["workload"], row.params["bytes"]
        work = row.params["work"]
        points = groups.setdefault(where, {}).setdefault(row.name, [])
        points.append((work, 1 / row.ratio if row.ratio else 1))
        cells.append(
            (
                f"{where[0]}, {size(where[1])}, work {work}: {row.name}",
                amount(row.median, row.unit),
                f"{1 / row.ratio:.2f}" if row.ratio else "",
            )
        )
    drawings = []
    for (workload, count), names in groups.items():
        works = sorted({work for work, _ in names.get("plain", [])})
        if len(works) < 2:
            continue
        title = f"{workload}, {size(count)}"
        drawn = [
            (f"{name}: {title}", sorted(names[name]), colour, style)
            for name, colour, style in NAMES
            if name in names
        ]
        drawn.append(("plain", [(works[0], 1), (works[-1], 1)], "limit", ":"))
        drawings.append(
            charts.lines(
                drawn,
                f"Speed-up by prefetching, {title}",
                "work on an item, rounds",
                "speed-up over plain",
                log_x=False,
                x_ticks=works,
                floor=0,
            )
        )
    return section(
        "A shadow that prefetches",
        "How many times as fast as the plain loop, against the work on each item: with prefetch "
        "instructions in line, as far ahead as the data allow (in a list, one node), and with the loop "
        "as it is and a shadow that goes through the same items ahead of it. Where a loop is simple "
        "enough to look ahead in, in-line prefetch needs no second processor.",
        *drawings,
        table(("workload, size, work", "an item", "speed-up"), cells),
    )
