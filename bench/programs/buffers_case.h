/* SPDX-License-Identifier: BSL-1.0 */
/* One problem of the kernel heat with buffers, and how it is told to its child process. */
#ifndef UMBRA_BENCH_BUFFERS_CASE_H
#define UMBRA_BENCH_BUFFERS_CASE_H

#include <stdbool.h>
#include <stdint.h>

enum buffers_way { BUFFERS_DISPATCH, BUFFERS_DISPATCH_PURE, BUFFERS_SCATTER_GATHER };

struct buffers_case {
    enum buffers_way way;
    unsigned cores; /* at most 256 */
    uint32_t bytes; /* of a task's buffer, at least 8 */
    bool resident;  /* not the time: bytes that are resident, more than without buffers */
};

/* The problem of child_channel.h, there and back. */
static inline uint64_t buffers_case_pack(const struct buffers_case *buffers)
{
    return (uint64_t)buffers->way | (uint64_t)buffers->resident << 2 |
           (uint64_t)(buffers->cores - 1) << 8 | (uint64_t)buffers->bytes << 32;
}

static inline struct buffers_case buffers_case_unpack(uint64_t problem)
{
    return (struct buffers_case){.way = (enum buffers_way)(problem & 3),
                                 .resident = (problem >> 2 & 1) != 0,
                                 .cores = (unsigned)(problem >> 8 & 255) + 1,
                                 .bytes = (uint32_t)(problem >> 32)};
}

#endif
