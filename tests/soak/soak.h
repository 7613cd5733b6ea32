/* SPDX-License-Identifier: BSL-1.0 */
/* What the files of the soak program share: see soak.c. */
#ifndef SOAK_H
#define SOAK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <umbra.h>

#define CORES 8u

/* A load: one thread or fiber repeats its round until half of the time is over. A round starts what
 * it needs, counts what that did, and leaves nothing behind. */
struct load {
    const char *name;
    void (*round)(struct load *load);
    bool outside;             /* the rounds are in a thread that is no core */
    uint64_t random;          /* the repeating thread or fiber */
    _Atomic uint64_t rounds;  /* that have ended */
    _Atomic uint64_t done;    /* operations; any participant */
    _Atomic uint64_t refused; /* set-ups that had too few processors at the moment */
    _Atomic uint64_t lost;    /* operations too few or too many, and errors */
};

extern struct load soak_loads[];
extern const unsigned soak_load_count;
extern struct umbra_runtime *soak_runtime;

static inline uint64_t soak_random(uint64_t *state)
{
    *state ^= *state << 13; /* xorshift64, Marsaglia 2003 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Counts `had` operations of a round, and what is missing from `wanted`. */
void soak_count(struct load *load, const char *what, uint64_t had, uint64_t wanted);

/* Counts an error, and prints it; 0 is none. True if there was none. */
bool soak_check(struct load *load, const char *what, int error);

/* A round: a signal for a fiber, and one for a thread that waits for a condition of pthread's, with
 * the time that each wait needed to end. */
void wakes_round(struct load *load);

/* Prints what the rounds measured. */
void wakes_print(void);

#endif
