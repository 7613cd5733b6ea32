/* SPDX-License-Identifier: BSL-1.0 */
/* Argobots' rows: one execution stream on the caller's thread, a second one on the partner's. */
#define _GNU_SOURCE
#include "peers.h"

#include <abt.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

static unsigned users; /* by the caller's thread, as all that is not in a partner's */

/* Streams stay on the processors of the threads that make them. Its pool has stacks of one size. */
static int enter(void)
{
    setenv("ABT_SET_AFFINITY", "0", 1);
    setenv("ABT_THREAD_STACKSIZE", BENCH_TEXT(BENCH_STACK_BYTES), 1);
    if (users == 0 && ABT_init(0, NULL) != ABT_SUCCESS)
        return -EIO;
    users++;
    return 0;
}

static void leave(void)
{
    if (--users == 0)
        ABT_finalize();
}

static ABT_pool main_pool(ABT_xstream stream)
{
    ABT_pool pool = ABT_POOL_NULL;

    ABT_xstream_get_main_pools(stream, 1, &pool);
    return pool;
}

static ABT_pool own_pool(void)
{
    ABT_xstream stream = ABT_XSTREAM_NULL;

    ABT_self_get_xstream(&stream);
    return main_pool(stream);
}

/* ---- switch ---- */

static void yield(void *unused)
{
    (void)unused;
    ABT_self_yield();
}

static void second_yields(void *turns)
{
    turns_second(turns, yield, NULL);
}

static int run_yield(struct turns *turns)
{
    ABT_thread second;

    ABT_thread_create(own_pool(), second_yields, turns, ABT_THREAD_ATTR_NULL, &second);
    turns_first(turns, yield, NULL);
    ABT_thread_free(&second);
    return 0;
}

const struct switch_way argobots_yield = {enter, run_yield, leave};

static ABT_thread sides[2]; /* one of which is suspended */

static void transfer(void *side)
{
    ABT_self_resume_suspend_to(*(ABT_thread *)side);
}

static void second_transfers(void *turns)
{
    ABT_self_suspend();
    turns_second(turns, transfer, &sides[0]);
}

static int run_transfer(struct turns *turns)
{
    ABT_self_get_thread(&sides[0]);
    ABT_thread_create_to(own_pool(), second_transfers, turns, ABT_THREAD_ATTR_NULL, &sides[1]);
    turns_first(turns, transfer, &sides[1]);
    ABT_thread_resume(sides[1]);
    ABT_thread_free(&sides[1]);
    return 0;
}

const struct switch_way argobots_transfer = {enter, run_transfer, leave};

/* ---- spawn ---- */

static void null_thread(void *count)
{
    ++*(uint64_t *)count;
}

static int run_spawn(struct spawned *spawned)
{
    ABT_thread *all = (ABT_thread *)spawned->handles;
    int (*create)(ABT_pool, void (*)(void *), void *, ABT_thread_attr, ABT_thread *) =
        spawned->each == 1 ? ABT_thread_create_to : ABT_thread_create;
    ABT_pool pool = own_pool();

    _Static_assert(sizeof(ABT_thread) <= sizeof(void *), "handles hold threads");
    for (uint64_t i = 0; i < spawned->iterations; i++) {
        for (uint64_t n = 0; n < spawned->each; n++)
            create(pool, null_thread, &spawned->ran, ABT_THREAD_ATTR_NULL, &all[n]);
        for (uint64_t n = 0; n < spawned->each; n++)
            ABT_thread_free(&all[n]);
    }
    return 0;
}

const struct spawn_way argobots_spawn = {enter, run_spawn, leave};

/* ---- event: an eventual, which who has waited for it resets ---- */

static void event_init(void *at)
{
    enter();
    ABT_eventual_create(0, (ABT_eventual *)at);
}

static void event_fini(void *at)
{
    ABT_eventual_free((ABT_eventual *)at);
    leave();
}

static void event_signal(void *at)
{
    ABT_eventual_set(*(ABT_eventual *)at, NULL, 0);
}

static void event_wait(void *at)
{
    ABT_eventual_wait(*(ABT_eventual *)at, NULL);
    ABT_eventual_reset(*(ABT_eventual *)at);
}

static uint64_t event_calls(struct event_pair *pair, uint64_t round_trips)
{
    return event_call(pair, round_trips, event_signal, event_wait);
}

struct partner {
    struct event_pair *pair;
    sem_t ended; /* the partner's thread sleeps, as long as the stream is on its processor */
};

static void event_answers(void *arg)
{
    struct partner *partner = arg;

    event_answer(partner->pair, event_signal, event_wait);
    sem_post(&partner->ended);
}

static void *event_partner(void *pair)
{
    struct partner partner = {.pair = pair};
    ABT_xstream stream;
    ABT_thread thread;

    sem_init(&partner.ended, 0, 0);
    ABT_xstream_create(ABT_SCHED_NULL, &stream);
    ABT_thread_create(main_pool(stream), event_answers, &partner, ABT_THREAD_ATTR_NULL, &thread);
    while (sem_wait(&partner.ended) != 0)
        continue;
    ABT_thread_free(&thread);
    ABT_xstream_free(&stream);
    sem_destroy(&partner.ended);
    return NULL;
}

const struct event_way argobots_event = {event_init, event_fini, event_signal, event_calls,
                                         event_partner};
