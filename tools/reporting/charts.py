# SPDX-License-Identifier: BSL-1.0
"""Charts as SVG, by Matplotlib. Colours are names that page.css gives values for light and dark."""
import io
import math
import re

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.collections import PatchCollection  # noqa: E402
from matplotlib.colors import to_rgba  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator  # noqa: E402

WIDTH = 5.2  # inches, without names at the left of bars; the page enlarges all by the same factor
BARS_WIDTH = 4.1
ROW = 0.26  # height of a bar with its gap
CELL = 0.3  # of a heat map with many of them; with few they fill the column

# Stand-ins that Matplotlib draws with; in the SVG they become var(--name).
COLOURS = {
    "text": "#010101",
    "faint": "#020202",
    "grid": "#030303",
    "umbra": "#040404",
    "openmp": "#050505",
    "threads": "#060606",
    "peer": "#070707",
    "limit": "#080808",
    "umbra2": "#090909",
    "openmp2": "#0a0a0a",
    "threads2": "#0b0b0b",
}

matplotlib.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "umbra",
        "font.size": 9,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "axes.edgecolor": COLOURS["faint"],
        "axes.labelcolor": COLOURS["text"],
        "text.color": COLOURS["text"],
        "xtick.color": COLOURS["faint"],
        "ytick.color": COLOURS["faint"],
        "xtick.labelcolor": COLOURS["text"],
        "ytick.labelcolor": COLOURS["text"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": COLOURS["grid"],
        "grid.linewidth": 0.7,
        "legend.frameon": False,
        "legend.fontsize": 8.5,
    }
)


def family(name):
    """Which colour a contender has."""
    if name.startswith(("umbra", "shadow")):
        return "umbra"
    if name.startswith("openmp"):
        return "openmp"
    if name.startswith(("pthread", "futex", "semaphore", "memcpy")):
        return "threads"
    return "peer"


def svg(figure, about, classes=""):
    """The figure as an SVG element for HTML; `about` is for those who cannot see it."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", pad_inches=0.04, metadata={"Date": None})
    plt.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    for name, stand_in in COLOURS.items():
        text = text.replace(stand_in, f"var(--{name})")
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"font: [^;\"]*?([\d.]+)px[^;\"]*", r"font-size: \1px", text)
    prefix = re.sub(r"\W+", "-", about.lower())[:40]  # ids must differ between the page's figures
    text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{prefix}-", text)
    width = re.search(r'viewBox="0 0 ([\d.]+)', text).group(1)
    named = f'<svg role="img" aria-label="{about}" class="{classes}" style="--w:{width}px"'
    return text.replace("<svg", named, 1)


def bars(rows, about, annotate, log=True):
    """Horizontal bars: (name, value, family) from top to bottom, with a text at each end."""
    figure, axes = plt.subplots(figsize=(BARS_WIDTH, 0.5 + ROW * len(rows)))
    values = [value for _, value, _ in rows]
    axes.barh(
        range(len(rows)), values, height=0.72, color=[COLOURS[colour] for _, _, colour in rows]
    )
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    if log:
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 3, max(values) * (max(values) / min(values)) ** 0.35 * 3)
    else:
        axes.set_xlim(0, max(values) * 1.35)
    axes.grid(False)  # each bar has its number
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.xaxis.set_minor_locator(NullLocator())
    for at, value in enumerate(values):
        axes.annotate(
            annotate(at), (value, at), (4, 0), textcoords="offset points", va="center", fontsize=8.5
        )
    return svg(figure, about)


def lines(
    series,
    about,
    x_label,
    y_label,
    log_x=True,
    log_y=False,
    x_ticks=None,
    x_names=None,
    floor=None,
    mark=None,
):
    """Lines: (name, [(x, y)], colour, dashes) each, with marks where something was measured.

    A point (x, y, deviation) has a bar from y - deviation to y + deviation.

    x_names: (x, name) instead of numbers; mark: (x, name) of a vertical line.
    """
    figure, axes = plt.subplots(figsize=(WIDTH, 3.1))
    for name, points, colour, style in series:
        if len(points[0]) == 3:
            x, y, deviation = zip(*points)
            axes.errorbar(x, y, deviation, fmt="none", ecolor=COLOURS[colour], capsize=2.5)
            points = list(zip(x, y))
        axes.plot(
            *zip(*points),
            linestyle=style,
            marker="o" if len(points) > 2 else "",
            markersize=3.5,
            linewidth=1.8,
            color=COLOURS[colour],
            label=name,
        )
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    if floor is not None:
        axes.set_ylim(bottom=floor)
    if x_ticks:
        axes.set_xticks(x_ticks, [f"{tick:,}" for tick in x_ticks])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
    if x_names:
        axes.set_xticks(*zip(*x_names))
    if mark:
        axes.axvline(mark[0], color=COLOURS["faint"], linewidth=1, linestyle=(0, (2, 2)))
        axes.annotate(
            mark[1],
            (mark[0], 1),
            (0, 3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
        )
    if log_y:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    figure.legend(loc="upper center", bbox_to_anchor=(0.52, 0.0), ncol=3)
    return svg(figure, about)


def panels(panels, about, x_label, y_label, level, x_ticks=None):
    """Small charts side by side, x logarithmic: (title, series as for lines) each; a line at a level.

    x_ticks: these numbers at the x axis; then y is logarithmic, too.
    """
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, all_axes = plt.subplots(
        rows, columns, figsize=(WIDTH, 0.4 + 1.9 * rows), sharex=True, sharey=True, squeeze=False
    )
    for axes in all_axes.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, series) in zip(all_axes.flat, panels):
        axes.axhline(level, color=COLOURS["limit"], linewidth=1)
        for name, points, colour, style in series:
            axes.plot(
                *zip(*points),
                linestyle=style,
                marker="o",
                markersize=2.2,
                linewidth=1.4,
                color=COLOURS[colour],
                label=name,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        if x_ticks:
            axes.set_xticks(x_ticks)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_locator(NullLocator())
        axes.set_title(title, fontsize=9)
    for axes in all_axes.flat[max(0, len(panels) - columns) : len(panels)]:
        axes.tick_params(labelbottom=True)  # where nothing is below, too
    for axes in all_axes[:, 0]:
        axes.set_ylabel(y_label)
    figure.supxlabel(x_label, fontsize=9)
    figure.tight_layout()
    named = dict(zip(*reversed(all_axes.flat[0].get_legend_handles_labels())))
    figure.legend(
        named.values(), named.keys(), loc="upper center", bbox_to_anchor=(0.52, 0.0), ncol=3
    )
    return svg(figure, about)


def histograms(rows, about, x_label):
    """One below the other on one axis: (name, values, colour); the outermost in a hundred left out."""
    ordered = sorted(value for _, values, _ in rows for value in values)
    low, high = ordered[0], ordered[int(len(ordered) * 0.99)]
    figure, all_axes = plt.subplots(
        len(rows), 1, figsize=(BARS_WIDTH, 0.55 + 0.6 * len(rows)), sharex=True, squeeze=False
    )
    for axes, (name, values, colour) in zip(all_axes[:, 0], rows):
        axes.hist(values, bins=120, range=(low, high), color=COLOURS[colour])
        axes.set_yticks([])
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y", visible=False)
    all_axes[-1, 0].set_xlabel(x_label)
    return svg(figure, about)


def heat_map(names, values, low, high, about, x_label, y_label):
    """A cell for each pair of names, (y, x): value; its colour is on a log scale from low to high."""
    decades = max(1, math.log10(high / low))  # so that a small difference looks small
    size = max(min(WIDTH - 1.2, 1.1 * len(names)), CELL * len(names))
    figure, axes = plt.subplots(figsize=(size + 1.2, size + 0.6))
    axes.add_collection(
        PatchCollection(
            [plt.Rectangle((x - 0.5, y - 0.5), 1, 1) for y, x in values],
            facecolors=[
                to_rgba(COLOURS["umbra"], 0.58 - 0.52 * math.log10(high / value) / decades)
                for value in values.values()
            ],
            linewidths=0,
        )
    )
    for (y, x), value in values.items():
        text = axes.text(
            x, y, cell(value), ha="center", va="center", fontsize=11 if len(names) <= 8 else 6.8
        )
        text.set_in_layout(False)  # or the size of thousands is looked up
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(range(len(names)), names)
        axis.set_tick_params(length=0)
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return svg(figure, about, "large" if size > WIDTH else "")


def cell(value):
    """Three characters or so."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
