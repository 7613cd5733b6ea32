/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Two threads that signal each other in turn, each after a random while, so that signals fall
 * before, between and after the steps of the other's wait. Shared by the tests that force a back
 * end.
 */
#ifndef UMBRA_TESTS_ROUND_TRIPS_H
#define UMBRA_TESTS_ROUND_TRIPS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <umbra/shadow.h>
#include <umbra/wait.h>

/* What one thread waits on. Its line also says what the waiter has seen, for station_over. */
struct station {
    _Alignas(UMBRA_CACHE_LINE) _Atomic uint64_t word64; /* the sender writes */
    _Atomic uint32_t word32;                            /* the sender writes */
    _Atomic uint64_t seen; /* value the waiter waits to see replaced; the waiter writes */
    _Alignas(UMBRA_CACHE_LINE) uint64_t payload; /* the sender writes before it signals */
    struct umbra_waiter waiter;                  /* the receiver's */
};

struct rig {
    struct station there, back;
    struct umbra_wait_policy policy;
    bool wide;             /* 64-bit words, of which the upper half alone changes */
    uint64_t think_cycles; /* longest while before a signal */
    uint64_t seed;
    uint64_t rounds;   /* at most */
    uint64_t deadline; /* time stamp after which only RIG_LEAST rounds are filled up */
    uint64_t done;     /* rounds that were completed */
    uint64_t wrong;    /* of them, with a wrong value, payload or result */
    uint64_t partner_wrong;
};

#define RIG_END UINT64_MAX /* payload of the last message */
#define RIG_LEAST 100      /* rounds that are made however slow the machine is */

static inline bool station_over(const void *line)
{
    const struct station *station = line;
    /* relaxed: the waiter reads what it wrote itself; the words only matter as they are now */
    uint64_t seen = atomic_load_explicit(&station->seen, memory_order_relaxed);

    return atomic_load_explicit(&station->word64, memory_order_relaxed) !=
               (seen & ~(uint64_t)UINT32_MAX) ||
           atomic_load_explicit(&station->word32, memory_order_relaxed) != (uint32_t)seen;
}

/* UMBRA_TEST_SEED, or a new one; printed, so that a failure can be repeated. */
static inline uint64_t test_seed(void)
{
    const char *given = getenv("UMBRA_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : um_cycles();

    fprintf(stderr, "# UMBRA_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* Lets a random while pass, by xorshift64. */
static inline void think(uint64_t *state, uint64_t most_cycles)
{
    uint64_t start = um_cycles();
    uint64_t cycles;

    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    cycles = most_cycles > 0 ? *state % most_cycles : 0;
    while (um_cycles() - start < cycles)
        umbra_pause();
}

/* `seen` holds a round's number: in the upper half if wide, else in the lower. */
static inline uint64_t rig_value(const struct rig *rig, uint64_t round)
{
    return rig->wide ? round << 32 : (uint32_t)round;
}

static inline void send_round(const struct rig *rig, struct station *to, uint64_t round,
                              uint64_t payload)
{
    to->payload = payload;
    if (rig->wide)
        umbra_signal(&to->word64, rig_value(rig, round), &to->waiter);
    else
        umbra_signal(&to->word32, (uint32_t)rig_value(rig, round), &to->waiter);
}

/* Waits for a round: until it is there, or while the round before is, in turn. Whether it came. */
static inline bool receive_round(const struct rig *rig, struct station *at, uint64_t round)
{
    uint64_t old = rig_value(rig, round - 1), new = rig_value(rig, round);
    struct umbra_waiter *waiter = &at->waiter;
    int end;

    atomic_store_explicit(&at->seen, old, memory_order_relaxed); /* for station_over only */
    if (rig->wide && round % 2)
        end = umbra_wait_while_equal(waiter, &at->word64, old, UINT64_MAX, UMBRA_NEVER);
    else if (rig->wide)
        end = umbra_wait_until_equal(waiter, &at->word64, new, UINT64_MAX, UMBRA_NEVER);
    else if (round % 2)
        end = umbra_wait_while_equal(waiter, &at->word32, (uint32_t)old, UINT32_MAX, UMBRA_NEVER);
    else
        end = umbra_wait_until_equal(waiter, &at->word32, (uint32_t) new, UINT32_MAX, UMBRA_NEVER);
    return end >= 0 && (rig->wide ? atomic_load(&at->word64) : atomic_load(&at->word32)) == new;
}

static inline bool rig_goes_on(uint64_t rounds, uint64_t deadline, uint64_t done)
{
    return done < rounds && (done < RIG_LEAST || umbra_now_ns() < deadline);
}

static inline void *rig_partner(void *arg)
{
    struct rig *rig = arg;
    uint64_t state = ~rig->seed | 1;

    for (uint64_t round = 1;; round++) {
        rig->partner_wrong += !receive_round(rig, &rig->there, round);
        if (rig->there.payload == RIG_END)
            return NULL;
        rig->partner_wrong += rig->there.payload != 3 * round;
        think(&state, rig->think_cycles);
        send_round(rig, &rig->back, round, 5 * round);
    }
}

/* Makes the rounds. 0 or what pthread_create returned; the rig says how it went. */
static inline int rig_run(struct rig *rig)
{
    uint64_t state = rig->seed | 1;
    uint64_t round = 1;
    pthread_t partner;
    int error;

    rig->there.waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&rig->policy);
    rig->back.waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&rig->policy);
    error = pthread_create(&partner, NULL, rig_partner, rig);
    if (error)
        return error;
    for (; rig_goes_on(rig->rounds, rig->deadline, rig->done); round++) {
        think(&state, rig->think_cycles);
        send_round(rig, &rig->there, round, 3 * round);
        rig->wrong += !receive_round(rig, &rig->back, round);
        rig->wrong += rig->back.payload != 5 * round;
        rig->done++;
    }
    send_round(rig, &rig->there, round, RIG_END);
    pthread_join(partner, NULL);
    rig->wrong += rig->partner_wrong;
    return 0;
}

/*
 * How often the two sides' waits went through the monitor phase, as far as their counters show it:
 * ended there, or came back from the instruction early.
 */
static inline uint64_t monitored(struct umbra_wait_stats one, struct umbra_wait_stats other)
{
    return one.ended[UMBRA_ENDED_MONITOR] + one.spurious + other.ended[UMBRA_ENDED_MONITOR] +
           other.spurious;
}

static inline uint64_t rig_monitored(const struct rig *rig)
{
    return monitored(umbra_waiter_stats(&rig->there.waiter), umbra_waiter_stats(&rig->back.waiter));
}

/* ---- a shadow that is forked and joined ---- */

struct shadow_rig {
    struct umbra_shadow shadow;
    uint64_t think_cycles, seed, rounds, deadline, done, wrong; /* as in struct rig */
    uint64_t shadow_state;                                      /* of the shadow's random whiles */
    uint64_t square;                                            /* written by the shadow */
    uint64_t number;                                            /* written by the owner */
};

static inline void shadow_square(void *arg)
{
    struct shadow_rig *rig = arg;

    think(&rig->shadow_state, rig->think_cycles);
    rig->square = rig->number * rig->number;
}

/* The shadow must have been created. */
static inline void shadow_rig_run(struct shadow_rig *rig)
{
    uint64_t state = rig->seed | 1;

    rig->shadow_state = ~rig->seed | 1;
    while (rig_goes_on(rig->rounds, rig->deadline, rig->done)) {
        rig->number = ++rig->done;
        think(&state, rig->think_cycles);
        rig->wrong += shadow_fork(&rig->shadow, shadow_square, rig) != 0;
        think(&state, rig->think_cycles / 2);
        rig->wrong += shadow_join(&rig->shadow) != 0;
        rig->wrong += rig->square != rig->number * rig->number;
    }
}

static inline uint64_t shadow_rig_monitored(const struct shadow_rig *rig)
{
    return monitored(umbra_waiter_stats(&rig->shadow.helper_waiter),
                     umbra_waiter_stats(&rig->shadow.owner_waiter));
}

#endif
