# SPDX-License-Identifier: BSL-1.0
"""What the tables of the documents are made of."""
import json
import re


class Picked:
    """A measurement, and which of its rows the tables took."""

    def __init__(self, measured):
        self.measured = measured
        self.ids = set()

    def rows(self, kernel, takes=lambda row: True):
        found = [row for row in self.measured.of(kernel) if takes(row)]
        self.ids.update((kernel, row.name, json.dumps(row.params, sort_keys=True)) for row in found)
        return found


def number(ratio):
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.1f}" if ratio < 100 else f"{ratio:,.0f}"


def times(ratio):
    return f"{number(ratio)} ×" if ratio is not None else ""


def interval(row):
    return f"{number(row.low)} to {number(row.high)}" if row.low is not None else ""


def table(head, rows):
    """Markdown: a head, and rows of as many cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def or_nothing(rows, make):
    return make(rows) if rows else "(Not measured on this machine.)\n"


def code(name):
    return f"`{name}`"


def grid(rows, line_of, column_of, cell_of, corner, spell=str, called=code):
    """A line for each contender, a column for each value of a parameter."""
    columns = sorted({column_of(row) for row in rows})
    lines = {}
    for row in rows:
        lines.setdefault(line_of(row), {})[column_of(row)] = cell_of(row)
    return table(
        (corner, *map(spell, columns)),
        [(called(name), *(cells.get(column, "") for column in columns)) for name, cells in lines.items()],
    )


def stem(row):
    """A contender's name without the numbers that parameters repeat."""
    return re.sub(r"-\d+(x\d+)?$", "", row.name)


def on_all_cores(picked):
    """A step of heat, with every size of a task."""
    rows = picked.rows("heat", lambda row: "task" in row.params and row.unit == "ns" and row.ratio)
    most = max((row.params["cores"] for row in rows), default=0)
    return [row for row in rows if row.params["cores"] == most]
