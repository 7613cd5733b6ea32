/* SPDX-License-Identifier: BSL-1.0 */
/* One problem of the kernel cilksort, and how it is told to a child process. C and C++. */
#ifndef UMBRA_BENCH_CILKSORT_CASE_H
#define UMBRA_BENCH_CILKSORT_CASE_H

#include <stdint.h>

enum cilksort_way { WAY_QSORT, WAY_SERIAL, WAY_UMBRA, WAY_OPENMP, WAY_TBB };

struct cilksort_case {
    enum cilksort_way way;
    unsigned input; /* enum input of examples/cilksort */
};

/* The problem of child_channel.h, there and back. */
static inline uint64_t cilksort_case_pack(const struct cilksort_case *sort)
{
    return (uint64_t)sort->way | (uint64_t)sort->input << 4;
}

static inline struct cilksort_case cilksort_case_unpack(uint64_t problem)
{
    struct cilksort_case sort;

    sort.way = (enum cilksort_way)(problem & 15);
    sort.input = problem >> 4 & 15;
    return sort;
}

#endif
