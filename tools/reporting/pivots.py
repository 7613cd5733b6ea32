# SPDX-License-Identifier: BSL-1.0
"""docs/papers.md: CTBPA as in the paper and OpenMP's tasks on more processors than were measured.

A model: what is done in turn is counted, and what a part of it takes comes from the run. Of a graph of
side x side blocks, CTBPA's part is a row of blocks with its hand-over, OpenMP's is a block. What OpenMP's
run took beyond its blocks is the cost of its tasks, with the barriers.
"""
import math

from .tables import number, stem, table

MOST = 64  # processors
SHOWN = (4, 8, 16)


def rows_in_turn(side, cores):
    """CTBPA: row k becomes pivot k when its core has applied pivot k - 1 to all of its rows."""
    done = [0] * cores
    for pivot in range(side):
        maker = pivot % cores
        known = done[maker] = done[maker] + 1
        for core in range(cores):
            rows = len(range(core, side, cores)) - (core == maker)
            done[core] = max(done[core], known) + rows
    return max(done)


def blocks_in_turn(side, cores):
    """OpenMP: the block on the diagonal; those beside it, a barrier; the others, a barrier."""
    return side * (1 + math.ceil(2 * (side - 1) / cores) + math.ceil((side - 1) ** 2 / cores))


def ranges(numbers):
    begins = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(f"{a} to {b}" if a < b else str(a) for a, b in zip(begins, ends)) or f"none up to {MOST}"


def line(pure, openmp, here):
    """Two rows with one size of a block, measured with so many processors."""
    side = math.ceil(pure.params["n"] / pure.params["block"])
    block_ns = pure.median / pure.ratio * here / side**3
    row_ns = pure.median / rows_in_turn(side, here)
    tasks_ns = max(0, openmp.median - block_ns * blocks_in_turn(side, here)) * here  # of all processors

    def over(cores, least_ns=0):
        ns = block_ns * blocks_in_turn(side, cores) + tasks_ns / cores
        return max(ns, least_ns) / (row_ns * rows_in_turn(side, cores))

    def faster(least_ns):
        return ranges([cores for cores in range(2, MOST + 1) if over(cores, least_ns) > 1])

    counted = rows_in_turn(side, here) * here / side**2
    return (pure.params["block"], f"{side**2:,}", 2 * side, f"{number(counted)}, {number(pure.ratio)}",
            *(number(over(cores)) for cores in (here, *SHOWN)), faster(0), faster(tasks_ns))


def pivots(picked):
    here = max(1, picked.measured.processors("apsp"))
    pures, openmps = (
        {row.params["block"]: row for row in picked.rows("apsp", lambda row, name=name: (
            stem(row) == name and row.ratio and row.params["n"] > row.params["block"]))}
        for name in ("umbra-ctbpa-pure", "openmp-gomp"))
    head = ("blocks of", "hand-overs", "barriers", "CTBPA over the limit: counted, measured",
            *(f"OpenMP over CTBPA with {cores}" for cores in (here, *SHOWN)),
            "CTBPA is faster with", "the same, if one processor bears all tasks' cost")
    return table(head, [line(pures[block], openmps[block], here) for block in sorted(pures)
                        if block in openmps])
