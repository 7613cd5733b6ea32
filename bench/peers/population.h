/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A population of blocked fibers, counted and weighed: what the kernel `footprint` measures. Each
 * measurement is a process of its own, so that none profits from memory another one left. C and
 * C++.
 */
#ifndef UMBRA_BENCH_POPULATION_H
#define UMBRA_BENCH_POPULATION_H

#include "harness.h"

struct population {
    uint64_t capacity; /* the most there will be */
    uint64_t made;     /* so far; the next one's number */
    bool prints;       /* each calls snprintf before it blocks */
    uint64_t blocked;  /* fibers add one each, atomically */
    uint64_t sum;      /* of the numbers of those that went on to their end, likewise */
    void *state;       /* the way's own */
};

/* All return 0 or a negative errno, and are called in the measuring process. */
struct population_way {
    uint64_t stack_bytes;                       /* of each */
    bool guarded;                               /* an overflow faults */
    int (*open)(struct population *population); /* or NULL */
    /* Make fibers, each running until it blocks, until there are n. */
    int (*grow)(struct population *population, uint64_t n);
    int (*release)(struct population *population); /* let all end, and wait until they have */
};

#ifdef __cplusplus
extern "C" {
#endif

/* What fiber number i does first, and last. */
void population_enter(struct population *population);
void population_leave(struct population *population, uint64_t i);

#ifdef __cplusplus
}
#endif

#endif
