# SPDX-License-Identifier: BSL-1.0
"""What the sections of a report are made of."""
import html

from . import charts
from .data import amount, three


def escape(text):
    return html.escape(str(text))


def table(head, rows):
    """Rows of cells; all but the first are numbers. The numbers behind a chart, folded away."""
    lines = ["<details><summary>The numbers</summary><div class=wide><table><thead><tr>"]
    lines += [f"<th>{escape(cell)}</th>" for cell in head]
    lines.append("</tr></thead><tbody>")
    for row in rows:
        lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    lines.append("</tbody></table></div></details>")
    return "".join(lines)


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
                f"{row.ratio:.2f}" if row.ratio is not None else "",
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
        ratio = f" · {three(row.ratio)}×" if row.ratio is not None else ""
        return amount(row.median, row.unit) + ratio

    return charts.bars(
        [
            (row.label, row.median, "limit" if row.name in limits else charts.family(row.name))
            for row in rows
        ],
        about,
        note,
    )


def simple(title, text, kernel, leave_out=()):
    """A section that is one ranking."""

    def make(measured):
        rows = [row for row in measured.of(kernel) if not row.name.startswith(tuple(leave_out))]
        if not rows:
            return ""
        return section(title, text, ranking(rows, title), numbers(measured.of(kernel)))

    return make
