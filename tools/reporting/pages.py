# SPDX-License-Identifier: BSL-1.0
"""The report's sections, each from one kernel's rows; what was not measured is left out."""
import html
import pathlib

from . import charts
from .data import amount, three

TITLE = "Umbra on this machine"


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


def section(title, text, *parts):
    body = "".join(f"<figure>{part}</figure>" if part.startswith("<svg") else part for part in parts)
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{body}</section>"


def numbers(rows):
    return table(
        ("contender", "median", "5 %", "95 %", "to its limit", "limit"),
        [
            (
                row.label,
                amount(row.median, row.unit),
                amount(row.p5, row.unit) if row.p5 is not None else "",
                amount(row.p95, row.unit) if row.p95 is not None else "",
                f"{row.ratio:.2f}" if row.ratio is not None else "",
                row.limit or "",
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


PING_PONG_VARIANTS = ("ping-pong-",)

null_fork = simple(
    "Fork and join on another processor",
    "Handing an empty function to a thread that waits for it on another processor, and getting the "
    "answer. The limit is a cache line that travels there and back.",
    "null-fork",
    PING_PONG_VARIANTS,
)
switch = simple(
    "From one fiber to the next",
    "One hand-over on one core. The limit is a bare jump_fcontext of Boost.Context.",
    "switch",
    ("boost-context-",),
)
spawn = simple(
    "Start a fiber, and join it",
    "On the same core the limit is Boost.Context's make and two jumps, for so many at a time; on "
    "another core it is the cache line that travels there and back.",
    "spawn",
    PING_PONG_VARIANTS,
)
event = simple(
    "Signal an event that another core waits for",
    "One way. The limit is the cache line that travels there and back.",
    "event",
    PING_PONG_VARIANTS,
)
footprint = simple(
    "What a blocked fiber costs",
    "Memory a blocked fiber or thread, page tables included; also for one that had called snprintf.",
    "footprint",
)


def waiting(measured):
    rows = measured.of("long-wait") + measured.of("idle")
    if not rows:
        return ""
    cells = [
        (
            row.label,
            f"{row.params['slept_ms'] / 1000:g} s" if "slept_ms" in row.params else "10 ms",
            amount(row.median, row.unit),
            f"{row.params.get('burned_percent', 0):.3f} %",
        )
        for row in rows
    ]
    return section(
        "Waiting long",
        "How long after the signal a waiter runs on, and how much processor time it has used "
        "meanwhile. What sleeps in the kernel cannot be there earlier than a futex.",
        table(("waiter", "waited", "runs on after", "processor time"), cells).replace(
            "<details>", "<details open>"
        ),
    )


def gauss(measured):
    rows = measured.of("gauss")
    if not rows:
        return ""
    return section(
        "A system of linear equations",
        f"Gaussian elimination of {rows[0].params['n']:,} unknowns on two processors: row by row with "
        f"{rows[0].params.get('threads', 160)} fibers or threads, one row a group, and by blocks, with "
        "LAPACK's dgesv (OpenBLAS) beside it. The limit is one processor, row by row.",
        ranking(rows, "Gaussian elimination"),
        numbers(rows),
    )


STYLES = {
    "umbra-mu1k": ("umbra", "-"),
    "umbra-mu2k": ("umbra2", "--"),
    "pthread-mu1": ("threads", "-"),
    "pthread-mu2": ("threads2", "--"),
    "umbra-ctbpa": ("umbra", "-"),
    "openmp-gomp": ("openmp", "-"),
    "openmp-gomp-depend": ("openmp", "--"),
    "openmp-llvm": ("openmp2", "-"),
    "openmp-llvm-depend": ("openmp2", "--"),
}


def gauss_threads(measured):
    serial = measured.row("gauss-threads", "serial")
    rows = measured.of("gauss-threads")
    if not serial:
        return ""
    series = {}
    for row in rows:
        if row.params.get("group") == 1 and row.ratio:
            name = row.name.rsplit("-", 1)[0]
            series.setdefault(name, []).append((row.params["threads"], 1 / row.ratio))
    openmp = measured.row("gauss-threads", "openmp-rows")
    counts = sorted({x for points in series.values() for x, _ in points})
    drawn = [(name, sorted(series[name]), *STYLES[name]) for name in STYLES if name in series]
    if openmp:
        level = 1 / openmp.ratio
        drawn.append(("openmp-rows", [(counts[0], level), (counts[-1], level)], "openmp", ":"))
    return section(
        "The same, against the number of fibers or threads",
        f"Speed-up over one processor, {serial.params['n']:,} unknowns, one row a group, on a "
        "logarithmic scale (the paper's Figure 5). Fibers may be as many as there are rows.",
        charts.lines(
            drawn,
            "Speed-up against the number of fibers or threads",
            "fibers or threads",
            "speed-up",
            log_y=True,
            x_ticks=counts,
        ),
        numbers(rows),
    )


def spread(measured):
    rows = measured.of("spread")
    if not rows:
        return ""
    stolen = (measured.machines["spread"] or {}).get("stolen_ms", 0)
    by_name = {row.name: row for row in rows}

    def width(row):
        return row.p95 - row.p5

    cells = []
    for row in rows:
        of = by_name.get(row.limit)
        cells.append(
            (
                row.name,
                *(amount(value, "ns") for value in (row.p5, row.median, row.p95)),
                amount(width(row), "ns"),
                f"{width(row) / width(of):.1f} × {of.name}" if of else "",
            )
        )
    drawings = []
    for title, names in (
        ("Gaussian elimination by rows", ("umbra-mu1k", "pthread-mu1", "openmp-rows")),
        ("Gaussian elimination by rows, strict", ("umbra-mu2k", "pthread-mu2")),
        ("Gaussian elimination by blocks", ("umbra-blocked", "openmp-blocked")),
        ("All-pairs shortest paths", tuple(name for name in STYLES if "mu" not in name[-4:])),
    ):
        shown = [by_name[name] for name in names if name in by_name and by_name[name].samples]
        if shown:
            drawings.append(
                charts.histograms(
                    [
                        (row.name, [v / 1e6 for v in row.samples], charts.family(row.name))
                        for row in shown
                    ],
                    f"Run times: {title}",
                    f"{title}: run time, ms",
                )
            )
    return section(
        "How much run times differ",
        f"{rows[0].rounds:,} alternated runs of each (the paper's Tables 1 and 2, Figures 6 and 8). The "
        f"spread is what lies between 5 and 95 % of the runs; {stolen} ms were stolen from this "
        "machine meanwhile.",
        table(("contender", "5 %", "median", "95 %", "spread", ""), cells).replace(
            "<details>", "<details open>"
        ),
        *drawings,
    )


def apsp(measured):
    rows = measured.of("apsp")
    if not rows:
        return ""
    series = {}
    for row in rows:
        if row.ratio:
            block = row.params["block"]
            name = row.name.removesuffix(f"-{block}")
            series.setdefault(name, []).append((block, 100 / row.ratio))
    blocks = sorted({x for points in series.values() for x, _ in points})
    return section(
        "All-pairs shortest paths, against the size of a block",
        f"{rows[0].params['n']:,} vertices on two processors, in per cent of what the arithmetic alone "
        "reaches with everything in the caches (the paper's Figure 7). The arithmetic is the same "
        "in all; on two processors there is little for anyone to win at large blocks.",
        charts.lines(
            [(name, sorted(series[name]), *STYLES[name]) for name in STYLES if name in series],
            "Speed against the size of a block",
            "rows of a block",
            "% of the roofline",
            log_x=False,
            x_ticks=blocks,
            floor=0,
        ),
        numbers(rows),
    )


SECTIONS = (
    null_fork,
    waiting,
    switch,
    spawn,
    event,
    footprint,
    gauss,
    gauss_threads,
    apsp,
    spread,
)


def machine_lines(measured):
    machine = measured.machine
    processors = {}
    for entry in measured.machines.values():
        for cpu in (entry or {}).get("cpus", []):
            processors[cpu["cpu"]] = cpu
    lines = [
        ("Processor", machine.get("processor", "unknown")),
        (
            "Processors used",
            ", ".join(
                f"{cpu['cpu']} (core {cpu['core']})" for _, cpu in sorted(processors.items())
            ),
        ),
        ("Time stamps", f"{machine.get('cycles_hz', 0) / 1e9:.2f} GHz"),
        ("Waits by", machine.get("wait_backend", "unknown")),
        ("Kernel", machine.get("kernel", "unknown")),
        ("Compiler", f"{machine.get('compiler', '')} {machine.get('flags', '')}"),
        ("Commit", machine.get("commit", "unknown")),
        ("Stolen time", f"{sum((m or {}).get('stolen_ms', 0) for m in measured.machines.values())} ms"),
    ]
    cannot = []
    if not any(cpu.get("siblings") for cpu in processors.values()):
        cannot.append("SMT siblings: no core here has two hardware threads")
    if machine.get("wait_backend") == "pause":
        cannot.append("waiting by monitor instructions: this processor has none that can be used")
    return lines, cannot


def page(title, lead, body):
    style = (pathlib.Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>{lead}{body}</main></body></html>\n"
    )


def report(measured):
    lines, cannot = machine_lines(measured)
    lead = "<dl>" + "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in lines) + "</dl>"
    lead += "<p class=key>" + "".join(
        f'<span class="chip" style="--c:var(--{colour})">{name}</span>'
        for colour, name in (
            ("umbra", "Umbra"),
            ("limit", "the limit"),
            ("openmp", "OpenMP"),
            ("threads", "threads"),
            ("peer", "others"),
        )
    )
    lead += "</p><p>Medians of many rounds in which all took turns; × is the ratio to the limit, the "
    lead += "median over rounds.</p>"
    if cannot:
        lead += "<p>Not measured here: " + escape("; ".join(cannot)) + ".</p>"
    return page(TITLE, lead, "".join(make(measured) for make in SECTIONS))


def comparison(before, after):
    """Two files, row by row: time to time, or, where both have limits, ratio to ratio."""
    body = []
    for kernel, rows in after.rows.items():
        old = {row.key: row for row in before.of(kernel)}
        pairs = [(old[row.key], row) for row in rows if row.key in old and old[row.key].median > 0]
        if not pairs:
            continue
        names = [row.label for _, row in pairs]
        change = [row.median / was.median for was, row in pairs]
        drawn = [
            (name, value, charts.family(row.name)) for name, value, (_, row) in zip(names, change, pairs)
        ]
        cells = [
            (
                row.label,
                amount(was.median, was.unit),
                amount(row.median, row.unit),
                f"{value:.2f}",
                f"{was.ratio:.2f}" if was.ratio else "",
                f"{row.ratio:.2f}" if row.ratio else "",
            )
            for value, (was, row) in zip(change, pairs)
        ]
        body.append(
            section(
                kernel,
                "The second's median over the first's: below 1 the second is better.",
                charts.bars(drawn, kernel, lambda at, c=change: f"{c[at]:.2f}", log=False),
                table(
                    ("contender", "first", "second", "second / first", "first to limit", "second to limit"),
                    cells,
                ),
            )
        )
    if not body:
        raise ValueError(f"{before.path}, {after.path}: no contender is in both")
    lead = "<dl>"
    for name, measured in (("First", before), ("Second", after)):
        machine = measured.machine
        lead += f"<dt>{name}</dt><dd>{escape(measured.path)}: {escape(machine.get('processor', '?'))}, "
        lead += f"commit {escape(machine.get('commit', '?'))}, {escape(machine.get('kernel', '?'))}</dd>"
    return page("Two measurements of Umbra", lead + "</dl>", "".join(body))
