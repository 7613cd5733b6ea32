# SPDX-License-Identifier: BSL-1.0
"""What the kernels in bench/ measured: JSON objects, one a line, machines before their rows."""
import json
import math

# Parameters in which rows of one kernel and one name differ.
TELLING = (
    "count",
    "cores",
    "items",
    "task",
    "workload",
    "bytes",
    "block",
    "work",
    "from",
    "to",
    "iterations",
    "cycles",
    "partner_ns",
    "input",
    "limit",
    "live",
    "others",
    "multiplications",
    "indices",
    "crowd",
)


def rows_of(path):
    """Each row of a file: the machine it was on, or None; its line; the row."""
    machine = row = None
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                kernel = entry["bench"]
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"{path}:{number}: no line of a benchmark") from None
            if kernel == "machine":
                machine = entry
                continue
            try:
                row = Row(entry)
            except KeyError as error:
                raise ValueError(f"{path}:{number}: {error} is missing") from None
            yield machine, entry, row
    if row is None:
        raise ValueError(f"{path}: no line of a benchmark")


class Measured:
    """One file: rows by kernel, and the machine that the first of them ran on."""

    def __init__(self, path):
        self.path = path
        self.machines = {}  # by kernel
        self.rows = {}  # by kernel, in the kernel's order
        for machine, entry, row in rows_of(path):
            self.machines.setdefault(entry["bench"], machine)
            self.rows.setdefault(entry["bench"], []).append(row)
        self.machine = next(iter(self.machines.values())) or {}

    def check_whole(self):
        """The figures of the documents are not: they lack what no table there needs."""
        for rows in self.rows.values():
            if any(row.min is None for row in rows):
                raise ValueError(f"{self.path}: these are figures of documents, not a measurement")

    def of(self, kernel):
        return self.rows.get(kernel, [])

    def processors(self, kernel):
        """How many the kernel used."""
        return len((self.machines.get(kernel) or {}).get("cpus", []))

    def row(self, kernel, contender):
        return next((row for row in self.of(kernel) if row.name == contender), None)


class Row:
    """One contender with one set of parameters."""

    def __init__(self, entry):
        self.name = entry["contender"]
        self.params = entry.get("params", {})
        self.unit = entry["unit"]
        self.rounds = entry["rounds"]
        self.median = entry["median"]
        self.min, self.p5, self.p95 = (entry.get(key) for key in ("min", "p5", "p95"))
        self.limit = entry.get("limit")
        self.ratio = entry.get("ratio")
        self.low, self.high = entry.get("ratio_low"), entry.get("ratio_high")  # 95 % of the median
        self.samples = entry.get("samples", [])

    @property
    def key(self):
        """What tells it from the others of its kernel: some have rows for several."""
        return self.name, *(self.params.get(name) for name in TELLING)

    @property
    def label(self):
        told = [name for name in TELLING if self.params.get(name) is not None]
        if "bytes" not in told and "block" in told:
            told.remove("block")  # the name says it
        return self.name + "".join(tell(name, self.params[name]) for name in told)


def tell(name, value):
    """A parameter, for a label."""
    if isinstance(value, str):
        return f" {value}"
    if name == "count":
        return f", {value:,}"
    if name == "bytes":
        return f", {size(value)}"
    return f", {name} {value:,}"


def amount(value, unit):
    """For people: three digits, and the unit that makes them readable."""
    if unit == "ns":
        for factor, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
            if value >= factor:
                return f"{three(value / factor)} {name}"
    return f"{three(value)} {unit}"


def break_even(points):
    """From which size on a pair is faster than one processor: (size, "", "below" or "above").

    Between the largest size that is not faster and the next, straight on a logarithmic scale of
    sizes; the smallest or the largest size where there is none below or above.
    """
    slower = [at for at, (_, speed_up) in enumerate(points) if speed_up < 1]
    if not slower:
        return points[0][0], "below"
    if slower[-1] + 1 == len(points):
        return points[-1][0], "above"
    (left, low), (right, high) = points[slower[-1] : slower[-1] + 2]
    return left * math.exp(math.log(right / left) * (1 - low) / (high - low)), ""


def size(amount_of_bytes):
    """In the unit of which it is a whole number, or in bytes."""
    for factor, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if amount_of_bytes >= factor and amount_of_bytes % factor == 0:
            return f"{amount_of_bytes // factor} {name}"
    return f"{amount_of_bytes} bytes"


def three(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 100 or value < 10 else f"{value:.1f}"
