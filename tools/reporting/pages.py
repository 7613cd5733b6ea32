# SPDX-License-Identifier: BSL-1.0
"""The report: its sections, each from one kernel's rows; what was not measured is left out."""
import math
import pathlib
import re

from . import channel, charts, fine, handover, heat, loop, memcpy, mpi, pair_matrix
from . import prefetch, processors, programs, server, stream, tasks, threshold
from .data import amount
from .headlines import HEAD, SPOKEN, headline_rows
from .parts import cells as rows_of_cells
from .parts import escape, folded, section, table
from .tables import Picked

TITLE = "Umbra on this machine"
WAITS = ("shadow-spin", "shadow-pause", "shadow-two-phase", "shadow-park")  # without such instructions
MOST_COMPARED = 60  # rows of one kernel, side by side

SECTIONS = (
    handover.null_fork,
    pair_matrix.pair_matrix,
    threshold.threshold,
    handover.waiting,
    handover.switch,
    handover.spawn,
    handover.event,
    handover.wake,
    channel.channel,
    server.blocking,
    server.reads,
    server.timers,
    server.echo,
    server.http,
    server.store,
    handover.footprint,
    memcpy.speeds,
    stream.stream,
    fine.fine_grained,
    loop.loop,
    loop.sync,
    loop.team,
    loop.crowd,
    loop.lock,
    loop.openmp,
    prefetch.prefetch,
    tasks.fib,
    tasks.skynet,
    tasks.nqueens,
    tasks.matmul,
    tasks.dispatch,
    tasks.submit,
    tasks.start,
    tasks.cilksort,
    mpi.limits,
    mpi.child,
    programs.gauss,
    programs.gauss_threads,
    programs.apsp,
    programs.bfs,
    programs.spread,
    heat.comparison,
    heat.by_task,
    heat.by_cores,
    tasks.heat_adaptive,
    heat.memory,
)


def ranges(numbers):
    """0-3, 8, in order."""
    found = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def processors_used(processors):
    """Each with its core, or, of many, how many."""
    if len(processors) <= 8:
        return ", ".join(f"{cpu['cpu']} (core {cpu['core']})" for _, cpu in sorted(processors.items()))
    cores = {cpu["core"] for cpu in processors.values()}
    return f"{ranges(processors)}: {len(processors)} on {len(cores)} cores"


def gaps_measured(machines):
    """By place; of several processes that measured, the first."""
    gaps = {}
    for entry in machines:
        for gap in (entry or {}).get("gaps", []):
            gaps.setdefault((gap["pair"], gap["place"]), gap["gap"])
    return ", ".join(f"{place} {gap} (shared: {pair})" for (pair, place), gap in sorted(gaps.items())) or "not measured"


def machine_lines(measured):
    machine = measured.machine
    processors = {}
    for entry in measured.machines.values():
        for cpu in (entry or {}).get("cpus", []):
            processors[cpu["cpu"]] = cpu
    lines = [
        ("Processor", machine.get("processor", "unknown")),
        ("Processors used", processors_used(processors)),
        ("Time stamps", f"{machine.get('cycles_hz', 0) / 1e9:.2f} GHz"),
        ("Waits by", machine.get("wait_backend", "unknown")),
        ("Gaps between polls", gaps_measured(measured.machines.values())),
        ("Kernel", machine.get("kernel", "unknown")),
        ("Compiler", f"{machine.get('compiler', '')} {machine.get('flags', '')}"),
        ("Commit", machine.get("commit", "unknown")),
        ("Stolen time", f"{sum((m or {}).get('stolen_ms', 0) for m in measured.machines.values())} ms"),
    ]
    if machine.get("quota"):
        lines.append(("CPU quota, processors", str(machine["quota"])))
    cannot = []
    if not any(cpu.get("siblings") for cpu in processors.values()):
        cannot.append("SMT siblings: no core here has two hardware threads")
    if machine.get("wait_backend") == "pause":
        forced = [row.name for row in measured.of("null-fork")
                  if row.name.startswith("shadow-") and row.name not in WAITS]
        cannot.append("waiting by monitor instructions, of which this processor has none that can be used" +
                      (f" ({', '.join(forced)}: forced)" if forced else ""))
    return lines, cannot


def page(title, lead, body):
    style = (pathlib.Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>{lead}{body}</main></body></html>\n"
    )


# What contenders' names begin with, beside headlines.SPOKEN.
NAMES = {
    "umbra": "Umbra; what follows says which call or form",
    "shadow": "a helper thread (umbra/shadow.h)",
    "ping-pong": "two threads that answer each other through one cache line: the limit of a hand-over",
    "kernel": "the arithmetic alone, without any hand-over",
    "serial": "one thread, without any library",
    "pthread": "threads of the C library, with its own means of waiting",
    "futex": "a thread that sleeps in the kernel",
    "loop": "one thread that looks at a word",
    "ring": "a ring in memory that both sides poll",
    **SPOKEN,
}


def names(measured):
    """Of the contenders that were measured."""
    known = [row.name for rows in measured.rows.values() for row in rows]
    return [(name, words) for name, words in sorted(NAMES.items()) if any(
        other == name or other.startswith(name + "-") for other in known)]


def report(measured, several):
    lines, cannot = machine_lines(measured)
    first = [[re.sub(r"(\d) (\w?s|×)", "\\1\N{NO-BREAK SPACE}\\2", cell) for cell in row]
             for row in headline_rows(Picked(measured))]
    lead = rows_of_cells(HEAD, first, "words") if first else ""
    lead += "<dl>" + "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in lines) + "</dl>"
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
    lead += "median over rounds; two numbers where it is not the ratio of the medians. The lengths of bars "
    lead += "are logarithmic.</p>"
    lead += folded("The names of contenders", rows_of_cells(("name", "what"), names(measured), "words"))
    if cannot:
        lead += "<p>Not measured here: " + escape("; ".join(cannot)) + ".</p>"
    return page(TITLE, lead, "".join(make(measured) for make in SECTIONS) + processors.processors(several))


def comparison(before, after):
    """Two files, row by row: time to time, or, where both have limits, ratio to ratio."""
    body = []
    for kernel, rows in after.rows.items():
        old = {row.key: row for row in before.of(kernel)}
        pairs = [(old[row.key], row) for row in rows if row.key in old and old[row.key].median > 0]
        if not pairs:
            continue
        told = "The second's median over the first's: below 1 the second is better."
        if len(pairs) > MOST_COMPARED:
            told += f" The {MOST_COMPARED} of {len(pairs):,} that changed most."
            pairs.sort(key=lambda pair: -abs(math.log(pair[1].median / pair[0].median)))
            del pairs[MOST_COMPARED:]
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
                told,
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
