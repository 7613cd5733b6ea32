# SPDX-License-Identifier: BSL-1.0
"""The section about STREAM: bandwidth against elements, threads and nodes, and where pages lie."""
from . import charts
from .data import size
from .parts import enlarged, numbers, section, table

STYLES = {
    "openmp-triad": ("openmp", "-"),
    "umbra-partitioned": ("umbra", "-"),
    "umbra-huge": ("umbra2", "--"),
    "umbra-local": ("threads", "-"),
    "umbra-interleaved": ("peer", "--"),
}


def rate(row):
    """Bytes a nanosecond: GB/s."""
    return row.params["bytes"] / row.median


def power(elements):
    return f"2^{elements.bit_length() - 1}"


def curve(rows):
    """Triad on all processors and nodes, against the number of elements."""
    most = max(row.params["threads"] for row in rows)
    series = {}
    for row in rows:
        if row.params["threads"] == most and "nodes" not in row.params and row.name in STYLES:
            series.setdefault(row.name, {})[row.params["elements"]] = rate(row)
    ticks = sorted({x for points in series.values() for x in points})
    shown = ticks if len(ticks) < 9 else ticks[::3]
    return charts.lines(
        [(name, sorted(series[name].items()), *STYLES[name]) for name in STYLES if name in series],
        "Bandwidth of the triad",
        "elements",
        "GB/s",
        x_ticks=shown,
        x_names=[(tick, power(tick)) for tick in shown],
        floor=0,
    )


def matrix(rows):
    """From the threads of each node to the memory of each."""
    pairs = {(row.params["node"], row.params["from"]): rate(row) for row in rows if row.name == "umbra-node"}
    nodes = sorted({end for pair in pairs for end in pair})
    if len(nodes) < 2:
        return ""
    place = {node: at for at, node in enumerate(nodes)}
    values = {(place[x], place[y]): value for (x, y), value in pairs.items()}
    about = "GB/s of the triad: threads of one node, memory of another"
    drawn = charts.heat_map(nodes, values, min(values.values()), max(values.values()), about,
                            "memory of node", "threads of node")
    return enlarged(drawn, "From node to node (the paper's Figure 6)", "nodes")


def other_rows(rows):
    """What is no part of the curve: fewer threads, some nodes, one node, other operations."""
    cells = []
    most = max(row.params["threads"] for row in rows)
    for row in rows:
        params = row.params
        nodes = params.get("nodes", f"{params['from']} to {params['node']}" if "node" in params else "all")
        if params["operation"] == "triad" and params["threads"] == most and nodes == "all":
            continue
        cells.append((row.name, params["operation"], power(params["elements"]), params["threads"], nodes,
                      f"{rate(row):.1f}", f"{1 / row.ratio:.2f}" if row.ratio else ""))
    head = ("contender", "operation", "elements", "threads", "nodes", "GB/s", "times OpenMP's")
    return table(head, cells)


def pages(rows):
    """Where the pages of an array lie."""
    cells = []
    for row in rows:
        if "pages" not in row.params or row.params["operation"] != "triad":
            continue
        lie = ", ".join(f"node {node}: {count}" for node, count in row.params["pages"].items())
        cells.append((row.name, size(row.params["elements"] * 8), row.params["threads"], lie,
                      f"{row.params['placed'] * 100:.0f} %"))
    return table(("contender", "array", "threads", "pages", "on the node asked for"), cells)


def stream(measured):
    rows = measured.of("stream")
    triad = [row for row in rows if row.params.get("operation") == "triad"]
    if not triad:
        return ""
    return section(
        "Bandwidth of memory",
        "STREAM's triad, copy, scale and add; bytes are counted as STREAM counts them. Partitioned "
        "arrays have a part on each NUMA node, which its own threads use (the paper's Figure 8); local "
        "ones lie where their first thread is, interleaved ones on all nodes in turns (Figure 7).",
        curve(triad),
        matrix(triad),
        other_rows(rows),
        pages(triad),
        numbers(rows),
    )
