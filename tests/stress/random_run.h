/* SPDX-License-Identifier: BSL-1.0 */
/* What random runs have in common: a seed that is printed and can be given back, and a length. */
#ifndef STRESS_RANDOM_RUN_H
#define STRESS_RANDOM_RUN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <umbra/cpu.h>

static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13; /* xorshift64, Marsaglia 2003 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* UMBRA_SEED, or the time; printed. */
static inline uint64_t seed_of_run(void)
{
    const char *given = getenv("UMBRA_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : umbra_now_ns();

    seed = seed ? seed : 1;
    fprintf(stderr, "UMBRA_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* UMBRA_STRESS_MS from now, 1000 unless set. */
static inline uint64_t end_of_run_ns(void)
{
    const char *given = getenv("UMBRA_STRESS_MS");

    return umbra_now_ns() + (given ? strtoull(given, NULL, 0) : 1000) * 1000000;
}

#endif
