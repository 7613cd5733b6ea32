# SPDX-License-Identifier: BSL-1.0
"""The sections about waiting for the kernel, what it costs, and about servers in several ways."""
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


def reads(measured):
    rows = measured.of("reads")
    if not rows:
        return ""
    return section(
        "Reads of files",
        "4 KiB of a file that the page cache has, by 1 and 64 fibers of one core: by umbra/io.h, in the form with "
        "helper threads and in the form with the ring. The limit is pread, which stops the core where the "
        "page cache lacks something.",
        *charts_by(rows, "fibers", "fibers: {:,}".format, "reads"),
        numbers(rows),
    )


def timers(measured):
    rows = measured.of("timers")
    if not rows:
        return ""
    return section(
        "Timers",
        "Fibers of two cores that sleep for 1 to 50 ms, again and again: the processor time of a sleep. The limit is "
        "a heap and Boost.Context by hand.",
        *charts_by(rows, "fibers", "fibers: {:,}".format, "timers"),
        numbers(rows),
        table(
            ("contender", "fibers", "late, half at most, us", "99.9 % at most, us"),
            [
                (row.label, *(f"{row.params[name]:,}" for name in ("fibers", "late_p50_us", "late_p999_us")))
                for row in rows
            ],
        ),
    )


def echo(measured):
    rows = measured.of("echo")
    if not rows:
        return ""
    return section(
        "Messages over many connections",
        "64 bytes that a server sends back, over 64 and 1,000 connections of the loopback interface: with a fiber "
        "a connection by umbra/io.h, where the core waits in epoll or in its ring. The limit is a loop by hand on "
        "epoll; of pairs, a fiber for two connections with two receives at once, it is a fiber a connection. Asio is "
        "Boost.Asio with callbacks, photon a fiber a connection of PhotonLibOS in its io_uring. The client is a "
        "thread on another processor.",
        *charts_by(rows, "connections", "echo, {:,} connections".format, "echo"),
        numbers(rows),
    )


def charts_by(rows, parameter, title, mark, reverse=False):
    """A ranking of the rows for each value of the parameter."""
    for value in sorted({row.params[parameter] for row in rows}, reverse=reverse):
        drawn = [row for row in rows if row.params[parameter] == value]
        yield enlarged(ranking(drawn, title(value)), title(value), f"{mark}-{value}")


def http(measured):
    rows = measured.of("http")
    if not rows:
        return ""
    return section(
        "A server of HTTP/1.1",
        "The same requests and answers with a fiber a connection, with a state machine on epoll, and with a "
        "thread a connection: the server on one processor, wrk on another, over the loopback interface. A "
        "bar is the time of a run over the requests answered.",
        *charts_by(rows, "connections", "{:,} connections".format, "http"),
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


def store(measured):
    rows = measured.of("kv")
    if not rows:
        return ""
    return section(
        "Short requests beside long ones",
        "A store on two processors, where one request in a hundred takes a hundred times as long as the others. "
        "A bar is the time that 99.9 % of the answers to short requests do not exceed, counted from their "
        "arrival: by fibers with safe points (umbra-kv) and without (umbra-held), by a loop on epoll, and by "
        "threads. At a load of 100 % the requests alone would keep both processors busy.",
        *charts_by(rows, "load_percent", "A load of {} %".format, "kv", reverse=True),
        numbers(rows),
        table(
            ("contender", "load", "median", "99 %", "99.9 %", "long ones, median"),
            [
                (row.name, f"{row.params['load_percent']} %",
                 *(amount(row.params[name] * 1000, "ns") if name in row.params else "" for name in ("p50_us", "p99_us")),
                 amount(row.median, row.unit),
                 amount(row.params["long_us"] * 1000, "ns") if "long_us" in row.params else "")
                for row in rows
            ],
        ),
    )
