/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Two sides on two processors and two events, each on its own lines: the caller signals one and
 * waits for the other, the partner the other way round. What the kernel `event` times. C and C++.
 */
#ifndef UMBRA_BENCH_EVENT_PAIR_H
#define UMBRA_BENCH_EVENT_PAIR_H

#include "harness.h"

#define EVENT_BYTES 512 /* room for an event of any contender */
#define EVENT_ALIGNED __attribute__((aligned(BENCH_LINES_ALIGN)))

struct event_pair {
    EVENT_ALIGNED unsigned char there[EVENT_BYTES]; /* caller to partner */
    EVENT_ALIGNED unsigned char back[EVENT_BYTES];  /* partner to caller */
    EVENT_ALIGNED uint64_t answered;                /* partner adds, caller reads after `back` */
    EVENT_ALIGNED bool quit;                        /* caller writes before `there` */
    pthread_t partner;                              /* of this turn */
};

/* A kind of auto-reset event. */
struct event_way {
    void (*init)(void *event);
    void (*fini)(void *event);
    void (*signal)(void *event);                                     /* by the caller's thread */
    uint64_t (*call)(struct event_pair *pair, uint64_t round_trips); /* returns their ns */
    void *(*answer)(void *pair);                                     /* the partner's thread */
};

static inline __attribute__((always_inline)) uint64_t event_call(struct event_pair *pair,
                                                                 uint64_t round_trips,
                                                                 void (*signal)(void *),
                                                                 void (*wait)(void *))
{
    uint64_t begin = bench_now_ns();

    for (uint64_t i = 0; i < round_trips; i++) {
        signal(pair->there);
        wait(pair->back);
    }
    return bench_now_ns() - begin;
}

static inline __attribute__((always_inline)) void
event_answer(struct event_pair *pair, void (*signal)(void *), void (*wait)(void *))
{
    for (;;) {
        wait(pair->there);
        if (pair->quit)
            return;
        pair->answered++;
        signal(pair->back);
    }
}

/* Defines a struct event_way `name` of the four functions name_init, _fini, _signal and _wait. */
#define EVENT_WAY(name)                                                                            \
    static uint64_t name##_call(struct event_pair *pair, uint64_t round_trips)                     \
    {                                                                                              \
        return event_call(pair, round_trips, name##_signal, name##_wait);                          \
    }                                                                                              \
    static void *name##_answer(void *pair)                                                         \
    {                                                                                              \
        event_answer((struct event_pair *)pair, name##_signal, name##_wait);                       \
        return NULL;                                                                               \
    }                                                                                              \
    static const struct event_way name##_event = {name##_init, name##_fini, name##_signal,         \
                                                  name##_call, name##_answer}

#endif
