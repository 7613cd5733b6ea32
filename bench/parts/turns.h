/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Two sides that run in turns on one processor, the first of them first: what the kernel `switch`
 * times. Each side takes its turn and leaves; a side that runs out of turn is found out, since then
 * the first has not as many turns behind it as the second and the one that is running. C and C++.
 */
#ifndef UMBRA_BENCH_TURNS_H
#define UMBRA_BENCH_TURNS_H

#include "harness.h"

struct turns {
    uint64_t each;     /* turns for each side */
    uint64_t taken[2]; /* by each side */
    uint64_t disorder; /* not 0 once a side ran out of turn */
    uint64_t ns;       /* from the first turn of the first side until it came back from its last */
};

/* Turn number i of a side. What is read decides a branch only: no turn waits for another's store. */
static inline __attribute__((always_inline)) void turns_take(struct turns *turns, unsigned side,
                                                             uint64_t i)
{
    if (turns->taken[!side] != i + side)
        turns->disorder = 1;
    turns->taken[side] = i + 1;
}

/* All turns of one side. `leave` returns when the side's next turn has come. */
static inline __attribute__((always_inline)) void turns_second(struct turns *turns,
                                                               void (*leave)(void *), void *arg)
{
    for (uint64_t i = 0; i < turns->each; i++) {
        turns_take(turns, 1, i);
        leave(arg);
    }
}

static inline __attribute__((always_inline)) void turns_first(struct turns *turns,
                                                              void (*leave)(void *), void *arg)
{
    uint64_t begin = bench_now_ns();

    for (uint64_t i = 0; i < turns->each; i++) {
        turns_take(turns, 0, i);
        leave(arg);
    }
    turns->ns = bench_now_ns() - begin;
}

#endif
