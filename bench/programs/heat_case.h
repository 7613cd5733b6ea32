/* SPDX-License-Identifier: BSL-1.0 */
/* One problem of the kernel heat, and how it is told to a child process. C and C++. */
#ifndef UMBRA_BENCH_HEAT_CASE_H
#define UMBRA_BENCH_HEAT_CASE_H

#include <stddef.h>
#include <stdint.h>

enum heat_way {
    WAY_SERIAL, /* block by block; with a block as large as the body: as a whole */
    WAY_DISPATCH,
    WAY_DISPATCH_AHEAD,
    WAY_SCATTER_GATHER,
    WAY_STATIC, /* OpenMP, as the next four */
    WAY_DYNAMIC,
    WAY_GUIDED,
    WAY_TASKS,
    WAY_DEPEND,
    WAY_TBB,
    WAY_MPI,
    WAY_DISPATCH_PURE,
};

struct heat_case {
    enum heat_way way;
    unsigned cores; /* at most 256 */
    size_t edge[3]; /* of a block */
    int resident;   /* not the time: bytes that are resident, of what the run has made itself */
};

/* The problem of child_channel.h, there and back; a block has at most 65535 nodes on an edge. */
static inline uint64_t heat_case_pack(const struct heat_case *heat)
{
    return (uint64_t)heat->way | (uint64_t)(heat->cores - 1) << 4 |
           (uint64_t)(heat->resident != 0) << 12 | (uint64_t)heat->edge[0] << 16 |
           (uint64_t)heat->edge[1] << 32 | (uint64_t)heat->edge[2] << 48;
}

static inline struct heat_case heat_case_unpack(uint64_t problem)
{
    struct heat_case heat;

    heat.way = (enum heat_way)(problem & 15);
    heat.cores = (problem >> 4 & 255) + 1;
    heat.resident = problem >> 12 & 1;
    for (int d = 0; d < 3; d++)
        heat.edge[d] = problem >> (16 + 16 * d) & 65535;
    return heat;
}

#endif
