# SPDX-License-Identifier: BSL-1.0
"""What the sections of a report are made of."""
import html

from . import charts
from .data import amount, three


def escape(text):
    return html.escape(str(text))


def cells(head, rows, style=""):
    """Rows of cells; all but the first are numbers, unless the style says otherwise."""
    lines = [f"<div class=wide><table{style and f' class={style}'}><thead><tr>"]
    lines += [f"<th>{escape(cell)}</th>" for cell in head]
    lines.append("</tr></thead><tbody>")
    for row in rows:
        lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    lines.append("</tbody></table></div>")
    return "".join(lines)


def folded(summary, text):
    return f"<details><summary>{escape(summary)}</summary>{text}</details>"


def table(head, rows):
    """The numbers behind a chart, folded away."""
    return folded("The numbers", cells(head, rows))


def enlarged(drawn, caption, name):
    """A figure; one that does not fit at its own size has a switch between that and the column's."""
    switch = ""
    if 'class="large"' in drawn:
        switch = f'<input type=checkbox id="full-{escape(name)}"><label for="full-{escape(name)}">'
        switch += "in full size</label>"
    return f"<figure><figcaption>{escape(caption)}</figcaption>{switch}{drawn}</figure>"


def section(title, text, *parts):
    body = "".join(f"<figure>{part}</figure>" if part.startswith("<svg") else part for part in parts)
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{body}</section>"


MOST_APART = 1.25  # of two ratios that count as one


def ratio(row, rows):
    """To its limit: the median of the rounds' quotients. Both, where the quotient of the medians that
    stand beside it is another: a limit whose rounds differ much."""
    if row.ratio is None:
        return ""
    limits = [limit for limit in rows if limit.name == row.limit]
    quotient = row.median / limits[0].median if len(limits) == 1 and limits[0].median > 0 else row.ratio
    if row.low is None or row.low / MOST_APART <= quotient <= row.high * MOST_APART:
        return f"{three(row.ratio)}×"
    return f"{three(min(row.ratio, quotient))} to {three(max(row.ratio, quotient))}×"


def numbers(rows):
    differ = len({row.rounds for row in rows}) > 1
    return table(
        ("contender", "median", "5 %", "95 %", "to its limit", "limit") + ("rounds",) * differ,
        [
            (
                row.label,
                amount(row.median, row.unit),
                amount(row.p5, row.unit) if row.p5 is not None else "",
                amount(row.p95, row.unit) if row.p95 is not None else "",
                ratio(row, rows),
                row.limit or "",
                *(row.rounds,) * differ,
            )
            for row in rows
        ],
    )


def ranking(rows, about):
    """Bars from fast to slow, limits in their own colour."""
    rows = sorted(rows, key=lambda row: row.median)
    limits = {row.limit for row in rows}

    def note(at):
        row = rows[at]
        told = ratio(row, rows)
        return amount(row.median, row.unit) + (f" · {told}" if told else "")

    return charts.bars(
        [
            (row.label, row.median, "limit" if row.name in limits else charts.family(row.name))
            for row in rows
        ],
        about,
        note,
    )


def by_limit(rows, apart):
    """(caption, rows) with one limit each; those apart last. No caption if there is one."""
    limits = list(dict.fromkeys(row.limit for row in rows if row.limit and row.name not in apart))
    groups = [(f"Limit: {limit}", [row for row in rows if limit in (row.limit, row.name)
                                   and row.name not in apart]) for limit in limits]
    drawn = [row for _, group in groups for row in group]
    rest = [row for row in rows if row not in drawn and row.name not in apart]
    if groups:
        groups[0][1].extend(rest)
    else:
        groups = [("", rest)]
    beside = [row for row in rows if row.name in apart]
    if beside:
        groups.append((apart[0], beside))
    return groups if len(groups) > 1 else [("", groups[0][1])]


def simple(title, text, kernel, leave_out=(), apart=()):
    """A section of a ranking for each limit. apart: a caption, and contenders that do something else."""

    def make(measured):
        rows = [row for row in measured.of(kernel) if not row.name.startswith(tuple(leave_out))]
        if not rows:
            return ""
        charts_ = [
            enlarged(ranking(group, f"{caption}: {title}"), caption, f"{kernel}-{at}")
            if caption else ranking(group, title)
            for at, (caption, group) in enumerate(by_limit(rows, apart)) if group
        ]
        return section(title, text, *charts_, numbers(measured.of(kernel)))

    return make
