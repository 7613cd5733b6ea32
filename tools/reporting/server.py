# SPDX-License-Identifier: BSL-1.0
"""The sections about waiting for the kernel: what it costs, and a server in three ways."""
from .data import amount
from .parts import enlarged, numbers, ranking, section, table


def blocking(measured):
    rows = measured.of("blocking")
    if not rows:
        return ""
    return section(
        "Waiting for the kernel",
        "What it costs to have a function called on a helper thread, and to pass a byte through a pipe to "
        "another fiber of the core by the ring or by epoll. Below: two fibers of a core that signal each "
        "other in turns, alone and beside fibers that wait in reads and sleeps on the same core.",
        numbers(rows),
    )


def http(measured):
    rows = measured.of("http")
    if not rows:
        return ""
    charts = []
    for connections in sorted({row.params["connections"] for row in rows}):
        title = f"{connections:,} connections"
        drawn = [row for row in rows if row.params["connections"] == connections]
        charts.append(enlarged(ranking(drawn, title), title, f"http-{connections}"))
    return section(
        "A server of HTTP/1.1",
        "The same requests and answers with a fiber a connection, with a state machine on epoll, and with a "
        "thread a connection: the server on one processor, wrk on another, over the loopback interface. A "
        "bar is the time of a run over the requests answered.",
        *charts,
        numbers(rows),
        table(
            ("contender", "connections", "p99", "p99.9", "without an answer"),
            [
                (row.name, f"{row.params['connections']:,}",
                 *(amount(row.params[name] * 1000, "ns") if name in row.params else ""
                   for name in ("p99_us", "p999_us")),
                 str(row.params.get("lost", "")))
                for row in rows
            ],
        ),
    )
