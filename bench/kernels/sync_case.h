/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the sides of a barrier do in the kernels sync and team: they meet again and again. Once in
 * SYNC_CHECKED barriers each side writes its place before one barrier, and after it reads the place of
 * the next side, which the next barrier then keeps; this is checked for all contenders alike.
 */
#ifndef UMBRA_BENCH_SYNC_CASE_H
#define UMBRA_BENCH_SYNC_CASE_H

#include <stdint.h>

#define SYNC_SIDES 2   /* of the kernel sync */
#define SYNC_MOST 256  /* of team */
#define SYNC_NULL 1024 /* added to a child's problem: functions that do nothing, not barriers */
#define SYNC_LINE 128
#define SYNC_CHECKED 64

struct sync_case {
    struct {
        uint64_t place __attribute__((aligned(SYNC_LINE))); /* the barrier it has come to */
        uint64_t wrong
            __attribute__((aligned(SYNC_LINE))); /* places of the next side that were not */
        uint64_t barriers;
    } side[SYNC_MOST];
    unsigned sides;
    void *arg; /* for the barrier */
};

/* One barrier of a side. */
typedef void sync_barrier(struct sync_case *of, unsigned side);

static inline void sync_begin(struct sync_case *of, unsigned sides)
{
    of->sides = sides;
    for (unsigned side = 0; side < sides; side++)
        of->side[side].place = of->side[side].wrong = of->side[side].barriers = 0;
}

/* One side's barriers. */
static inline void sync_side(struct sync_case *of, unsigned side, uint64_t n, sync_barrier *barrier)
{
    unsigned next = side + 1 < of->sides ? side + 1 : 0;

    for (uint64_t i = 1; i <= n; i++) {
        if (i % SYNC_CHECKED == 0)
            of->side[side].place = i;
        barrier(of, side);
        if (i % SYNC_CHECKED == 0)
            of->side[side].wrong += of->side[next].place != i;
    }
    of->side[side].barriers = n;
}

/* How many barriers of a batch of n were right: all or none. */
static inline uint64_t sync_verified(const struct sync_case *of, uint64_t n)
{
    for (unsigned side = 0; side < of->sides; side++)
        if (of->side[side].wrong != 0 || of->side[side].barriers != n)
            return 0;
    return n;
}

#endif
