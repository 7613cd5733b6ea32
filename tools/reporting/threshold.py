# SPDX-License-Identifier: BSL-1.0
"""The section about how long to spin before waiting coolly."""
import math

from . import charts
from .data import amount
from .parts import section, table

MIDDLE, LONG = 10_000, 10_000_000  # partner_ns of the kernel's rows that wait
EXPONENTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
EVERYBODY = "All processors waiting for what does not come (the paper's Figure 8)"
INFINITY = 10  # where it is drawn: one further than 10 to the tenth

NAMES = [
    (0, "0"),
    *((at, "10" + "".join(EXPONENTS[int(digit)] for digit in str(at + 1))) for at in range(1, INFINITY)),
    (INFINITY, "∞"),
]


def is_default(row):
    return row.params.get("default", False)


def position(threshold):
    """Where a threshold is drawn: 0, then one step for each power of ten."""
    return math.log10(threshold) - 1 if threshold > 0 else 0


def series(rows, unit, value):
    return sorted((position(row.params[unit]), value(row)) for row in rows if unit in row.params)


def curve(rows, spin, value, about, y_label, **how):
    """By polls and by cycles, each up to infinity."""
    end = [(INFINITY, value(spin))]
    default = next((row for row in rows if is_default(row)), None)
    mark = None
    if default:
        cycles = default.params["cycles"]
        mark = (position(cycles), f"default, {cycles:,} cycles")
    drawn = [
        (name, points + end, colour, style)
        for name, points, colour, style in (
            ("threshold in polls", series(rows, "iterations", value), "umbra", "-"),
            ("threshold in cycles", series(rows, "cycles", value), "umbra2", "--"),
        )
        if points
    ]
    level = value(spin)
    drawn.append(("spinning for ever", [(0, level), (INFINITY, level)], "limit", ":"))
    return charts.lines(
        drawn, about, "threshold", y_label, log_x=False, x_names=NAMES, mark=mark, **how
    )


def shares(row):
    """What ended the waits, in per cent: spin, monitor, park."""
    ended = (row.params.get(f"ended_{name}_percent", 0) for name in ("spin", "monitor", "park"))
    return " / ".join(f"{share:.0f}" for share in ended)


def name_of(row):
    if is_default(row):
        return f"default, {row.params['cycles']:,} cycles"
    for unit, name in (("iterations", "polls"), ("cycles", "cycles")):
        if unit in row.params:
            alone = unit == "iterations" and row.params[unit] == 0
            return f"{row.params[unit]:,} {name}" + f", {row.params.get('monitor')} alone" * alone
    return "∞ (spin)"


def burned(row):
    return f"{row.params['burned_percent']:.2f} %" if row else ""


def ratio(row):
    return "" if row is None or row.ratio is None else f"{row.ratio:.2f}"


def in_numbers(groups):
    """One line for each threshold, over what the partner does."""
    waits = [{name_of(row): row for row in groups.get(length, [])} for length in (MIDDLE, LONG)]
    cells = []
    for row in sorted(groups[0], key=lambda row: row.limit is None):  # infinity last, as in Table 2
        middle, long = (by_name.get(name_of(row)) for by_name in waits)
        cells.append(
            (
                name_of(row),
                amount(row.median, row.unit),
                ratio(row),
                shares(middle) if middle else "",
                shares(long) if long else "",
                burned(long),
                amount(long.median, long.unit) if long else "",
            )
        )
    return table(
        (
            "threshold",
            "cost",
            "ratio",
            "10 µs by",
            "10 ms by",
            "burned",
            "back after",
        ),
        cells,
    )


def energy(rows):
    """All processors waiting: against time, one line for each threshold."""
    curves = [(row, row.params["energy"]) for row in rows if isinstance(row.params.get("energy"), dict)]
    if not curves:
        return (
            "<p>Power and temperature while all processors wait (the paper's Figure 8): not available "
            "here.</p>"
        )
    drawings = []
    styles = (("umbra", "-"), ("umbra2", "-"), ("peer", "--"), ("openmp", "-"), ("openmp2", "--"))
    for key, title in (("watts", "Power, W"), ("celsius", "Temperature, °C")):
        drawn = [
            (
                name_of(row),
                [((at + 1) * found["every_s"], value) for at, value in enumerate(found[key])],
                *(("limit", ":") if row.limit is None else styles[i % len(styles)]),
            )
            for i, (row, found) in enumerate(curves)
            if found.get(key)
        ]
        if drawn:
            chart = charts.lines(
                drawn, f"All processors waiting: {title}", "seconds", title, log_x=False, floor=0
            )
            drawings.append(f"<figure><figcaption>{EVERYBODY}</figcaption>{chart}</figure>")
        else:
            drawings.append(f"<p>{title.split(',')[0]} while all processors wait: not available here.</p>")
    return "".join(drawings)


def worst_above(groups, round_trip, hz):
    """The highest ratio to spinning among thresholds above four round trips."""
    limit = 4 * round_trip.median * hz / 1e9
    ratios = [
        row.ratio
        for row in groups[0]
        if row.ratio is not None
        and row.params.get("spin_cycles", row.params.get("cycles", 0)) > limit
    ]
    return limit, max(ratios, default=None)


def threshold(measured):
    rows = [row for row in measured.of("threshold") if "partner_ns" in row.params]
    groups = {}
    for row in rows:
        groups.setdefault(row.params["partner_ns"], []).append(row)
    spins = {length: next((r for r in group if r.limit is None), None) for length, group in groups.items()}
    if not spins.get(0) or not spins.get(LONG):
        return ""
    text = (
        "A wait spins until the threshold, then waits more coolly: by monitor instructions where "
        "there are any, else with growing pauses, and at last asleep in the kernel (the paper's "
        "Table 2 and Figure 8). The first chart is the price of a null fork, the second the "
        "processor time of a thread that waits for 10 ms. "
    )
    round_trip = measured.row("threshold", "ping-pong")
    if round_trip:
        hz = (measured.machines["threshold"] or {}).get("cycles_hz", 0)
        limit, worst = worst_above(groups, round_trip, hz)
        if worst is not None:
            text += (
                f"Above four round trips of a cache line, here {limit:,.0f} cycles, a threshold costs at "
                f"most {worst:.2f} × spinning for ever. "
            )
    default = next((row for row in groups[LONG] if is_default(row)), None)
    if default:
        text += f"At the default a wait of 10 ms burns {burned(default)} of its processor."
    paper = next((row for row in groups[0] if "monitor" in row.params), None)
    if paper:
        text += (
            " Thresholds in polls are the paper's: after them there is only "
            + ("a growing pause, since no monitor instruction executes here"
               if paper.params["monitor"] == "pause" else paper.params["monitor"])
            + ", and no sleep; 0 is that alone. Thresholds in cycles are Umbra's."
        )
    text += (
        " The numbers say by which phase waits of 10 µs and of 10 ms ended, in per cent: spin / monitor or "
        "pauses / sleep. A spin that sees its processor taken away ends early."
    )
    return section(
        "How long to spin",
        text,
        curve(
            groups[0],
            spins[0],
            lambda row: row.median,
            "Fork and join against the threshold",
            "fork and join, ns",
            floor=0,
        ),
        curve(
            groups[LONG],
            spins[LONG],
            lambda row: max(row.params["burned_percent"], 0.01),
            "Processor time of a wait of 10 ms against the threshold",
            "burned, % of a processor",
            log_y=True,
        ),
        in_numbers(groups),
        energy(groups[LONG]),
    )
