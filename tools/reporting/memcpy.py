# SPDX-License-Identifier: BSL-1.0
"""The section about copying memory with the help of a shadow."""
from . import charts
from .data import size
from .parts import numbers, section, table

# By contender and size of a block; those that are not here are in the table only.
STYLES = {
    ("memcpy", None): ("limit", "-"),
    ("shadow-memcpy", None): ("umbra", "-"),
    ("shadow-memcpy-asleep", None): ("umbra2", "--"),
    ("prefetch", None): ("threads", "-"),
    ("prefetch-window", None): ("threads2", "--"),
    ("block", 256): ("openmp", ":"),
    ("block", 1024): ("openmp", "--"),
    ("block", 4096): ("openmp", "-"),
    ("block", 16384): ("openmp2", "-"),
    ("block", 65536): ("openmp2", "--"),
    ("split", None): ("peer", "-"),
}


def name_of(variant):
    contender, block = variant
    return contender if block is None else f"{contender}, {size(block)}"


def by_variant(rows, value):
    """Points (bytes, value) of each contender and block, in the order of STYLES."""
    series = {}
    for row in rows:
        key = row.name, row.params.get("block")
        series.setdefault(key, []).append((row.params["bytes"], value(row)))
    order = list(STYLES)
    return {
        key: sorted(series[key])
        for key in sorted(series, key=lambda k: order.index(k) if k in order else len(order))
    }


def chart(series, about, y_label, floor):
    ticks = sorted({x for points in series.values() for x, _ in points})
    drawn = [(name_of(key), points, *STYLES[key]) for key, points in series.items() if key in STYLES]
    shown = [tick for i, tick in enumerate(ticks) if (len(ticks) - 1 - i) % 2 == 0 or len(ticks) < 9]
    return charts.lines(
        drawn,
        about,
        "bytes",
        y_label,
        x_ticks=shown,
        x_names=[(tick, size(tick)) for tick in shown],
        floor=floor,
    )


def speeds(measured):
    rows = measured.of("memcpy")
    if not rows:
        return ""
    relative = by_variant(rows, lambda row: 1 / row.ratio if row.ratio else 1.0)
    absolute = by_variant(rows, lambda row: row.params["bytes"] / row.median)
    cells = []
    for key, points in relative.items():
        best, speed = max(points, key=lambda point: point[1])
        worst, least = min(points, key=lambda point: point[1])
        if key != ("memcpy", None):
            cells.append(
                (
                    name_of(key),
                    size(best),
                    f"{speed:.2f}",
                    f"{dict(absolute[key])[best]:.1f} GB/s",
                    size(worst),
                    f"{least:.2f}",
                )
            )
    return section(
        "Copying memory with the help of a shadow",
        "Memory that is in no cache, copied by glibc's memcpy alone and with a helper on another "
        "processor that prefetches, copies every other block, or copies half; fork and join are in the "
        "time (the paper's Figure 13). shadow-memcpy is what the library offers: it is memcpy where "
        "the helper cannot win, and otherwise both copy towards each other.",
        chart(relative, "Speed of copies against memcpy", "times as fast as memcpy", 0),
        chart(absolute, "Rate of copies", "GB/s copied", 0),
        table(("way", "best at", "there", "rate", "worst at", "there"), cells).replace(
            "<details>", "<details open>"
        ),
        numbers(rows),
    )
