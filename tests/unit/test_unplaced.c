/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Fibers without a place (core/unplaced.h): in which order cores take them, and what happens to one
 * that no core has taken yet. A core is held by a fiber that does not give it up.
 */
#define _GNU_SOURCE /* usleep */
#include "fibers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static const struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};

#define FIBERS 5

static char order[FIBERS + 1];
static _Atomic int begun;
static _Atomic int held;
static _Atomic int let_go;
static struct umbra_fiber fiber[FIBERS];

static void *notes(void *number)
{
    int at = begun;

    order[at] = (char)('0' + (intptr_t)number);
    begun = at + 1; /* all run on the same core */
    return number;
}

static void reset(void)
{
    memset(order, 0, sizeof order);
    begun = held = let_go = 0;
}

static void spawn_all(struct umbra_runtime *runtime, umbra_fiber_fn *fn)
{
    for (intptr_t i = 0; i < FIBERS; i++)
        cr_expect_eq(umbra_spawn_with(runtime, &anywhere, fn, (void *)i, &fiber[i]), 0);
}

static void join_all(void)
{
    for (intptr_t i = 0; i < FIBERS; i++) {
        void *result = NULL;

        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, &result), 0);
        cr_expect_eq((intptr_t)result, i);
    }
}

static void *holds_its_core(void *arg)
{
    held = 1;
    while (!let_go)
        sched_yield();
    return arg;
}

/* ---- order ---- */

static void *spawns_at_home(void *arg)
{
    spawn_all(NULL, notes);
    join_all();
    return arg;
}

Test(unplaced, a_core_takes_its_newest_first)
{
    reset();
    cr_assert_eq(run_cores(1, spawns_at_home, NULL), 0);
    cr_expect_str_eq(order, "43210");
}

static void *is_robbed(void *arg)
{
    struct umbra_spawn_options there = on_core(1);

    cr_expect_eq(umbra_spawn_with(NULL, &there, holds_its_core, NULL, NULL), 0);
    while (!held)
        sched_yield();
    spawn_all(NULL, notes);
    let_go = 1;
    while (begun < FIBERS)
        sched_yield(); /* the processor, not this core */
    join_all();
    return arg;
}

Test(unplaced, another_core_takes_the_oldest_first)
{
    reset();
    cr_assert_eq(run_cores(2, is_robbed, NULL), 0);
    cr_expect_str_eq(order, "01234");
}

static struct umbra_runtime *create(void)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct umbra_runtime *runtime;

    reset();
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, &anywhere, holds_its_core, NULL, NULL), 0);
    while (!held)
        sched_yield();
    return runtime;
}

static void end(struct umbra_runtime *runtime)
{
    let_go = 1;
    cr_expect_eq(umbra_runtime_wait(runtime), 0);
    umbra_runtime_destroy(runtime);
}

Test(unplaced, those_from_outside_go_by_the_same_order)
{
    struct umbra_runtime *runtime = create();

    spawn_all(runtime, notes);
    let_go = 1;
    join_all();
    end(runtime);
    cr_expect_str_eq(order, "43210");
}

#define LINKS_MOST 5000

static _Atomic int links;

/* Spawns a fiber that does the same, until the oldest has run. */
static void *spawns_its_successor(void *arg)
{
    if (!begun && links++ < LINKS_MOST)
        cr_expect_eq(umbra_spawn_with(NULL, &anywhere, spawns_its_successor, NULL, NULL), 0);
    return arg;
}

static void *begins_a_chain(void *arg)
{
    struct umbra_fiber oldest;

    links = 0;
    cr_expect_eq(umbra_spawn_with(NULL, &anywhere, notes, NULL, &oldest), 0);
    spawns_its_successor(NULL);
    cr_expect_eq(umbra_join(oldest, UMBRA_NEVER, NULL), 0);
    cr_expect_lt(links, LINKS_MOST);
    return arg;
}

Test(unplaced, the_oldest_does_not_wait_for_ever)
{
    reset();
    cr_assert_eq(run_cores(1, begins_a_chain, NULL), 0);
}

/* ---- a fiber in the list of a core that is held ---- */

/* The first fiber of the chain is in core 1's hands when that has begun it. */
static void *begins_a_chain_on(void *core)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 1};
    struct umbra_fiber oldest;
    uint64_t end = umbra_now_ns() + 10 * SECOND;

    links = -20 * LINKS_MOST;
    cr_expect_eq(umbra_spawn_with(NULL, &there, spawns_its_successor, NULL, NULL), 0);
    while (links == -20 * LINKS_MOST)
        sched_yield();
    cr_expect_eq(umbra_spawn_with(NULL, &anywhere, notes, NULL, &oldest), 0);
    while (!begun && umbra_now_ns() < end) /* this core is held */
        sched_yield();
    cr_expect(begun, "no other core has taken it");
    begun = 1; /* the chain ends */
    cr_expect_eq(umbra_join(oldest, UMBRA_NEVER, NULL), 0);
    return core;
}

Test(unplaced, one_in_a_held_cores_list_begins_on_a_core_that_has_its_own)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};

    reset();
    cr_assert_eq(umbra_run(&options, begins_a_chain_on, NULL), 0);
}

static void *holds_until_it_began(void *late)
{
    uint64_t end = umbra_now_ns() + SECOND;

    while (!begun && umbra_now_ns() < end)
        sched_yield();
    *(int *)late += !begun;
    return late;
}

/* The core that is called for the fiber has just been sent another, which does not give it up. */
Test(unplaced, a_core_that_is_called_and_has_a_fiber_calls_another)
{
    struct umbra_spawn_options first = {.where = UMBRA_ON_CORE, .core = 0};
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    struct umbra_runtime *runtime;
    struct umbra_fiber holder, unplaced;
    int late = 0;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (int i = 0; i < 40 && late == 0; i++) {
        reset();
        usleep(2000); /* both cores sleep */
        cr_assert_eq(umbra_spawn_with(runtime, &first, holds_until_it_began, &late, &holder), 0);
        cr_assert_eq(umbra_spawn_with(runtime, &anywhere, notes, NULL, &unplaced), 0);
        cr_expect_eq(umbra_join(holder, UMBRA_NEVER, NULL), 0);
        cr_expect_eq(umbra_join(unplaced, UMBRA_NEVER, NULL), 0);
    }
    cr_expect_eq(late, 0, "it waited for a core that had work, while another slept");
    cr_expect_eq(umbra_runtime_wait(runtime), 0);
    umbra_runtime_destroy(runtime);
}

static int turns;

static void *yields_until_it_began(void *arg)
{
    while (!begun && turns < 1000) {
        turns++;
        umbra_yield();
    }
    return arg;
}

static void *spawns_beside_others(void *arg)
{
    turns = 0;
    for (int i = 0; i < 2; i++)
        cr_expect_eq(umbra_spawn(yields_until_it_began, NULL, NULL), 0);
    umbra_yield();
    cr_expect_eq(umbra_spawn_with(NULL, &anywhere, notes, NULL, NULL), 0);
    yields_until_it_began(NULL);
    cr_expect_leq(turns, 32);
    return arg;
}

Test(unplaced, beside_ready_fibers_one_begins_after_a_few_turns)
{
    reset();
    cr_assert_eq(run_cores(1, spawns_beside_others, NULL), 0);
    cr_expect_eq(begun, 1);
}

/* ---- trees ---- */

#define WAYS 10
#define LEVELS 4 /* 11,111 fibers */

static _Atomic int alive;
static _Atomic int most;

static void *node(void *level)
{
    struct umbra_fiber child[WAYS];
    intptr_t below = (intptr_t)level - 1;
    intptr_t sum = 1;
    int now = ++alive;
    int before = most;

    while (before < now && !atomic_compare_exchange_weak(&most, &before, now))
        ;
    for (int i = 0; i < WAYS && below >= 0; i++)
        cr_expect_eq(umbra_spawn_with(NULL, &anywhere, node, (void *)below, &child[i]), 0);
    for (int i = 0; i < WAYS && below >= 0; i++) {
        void *result = NULL;

        cr_expect_eq(umbra_join(child[i], UMBRA_NEVER, &result), 0);
        sum += (intptr_t)result;
    }
    alive--;
    return (void *)sum;
}

static void *grows_a_tree(void *nodes)
{
    *(intptr_t *)nodes = (intptr_t)node((void *)LEVELS);
    return NULL;
}

Test(unplaced, of_a_tree_few_fibers_live_at_a_time)
{
    for (unsigned cores = 1; cores <= 3; cores++) {
        intptr_t nodes = 0;

        alive = most = 0;
        cr_assert_eq(run_cores(cores, grows_a_tree, &nodes), 0);
        cr_expect_eq(nodes, 11111);
        cr_expect_lt(most, 1000, "cores: %u, at once: %d", cores, (int)most);
    }
}

/* ---- one that no core has taken yet ---- */

static void *sleeps(void *number)
{
    return umbra_sleep_ns(1) == -ECANCELED ? (void *)-1 : number;
}

/* The newest, the oldest and one between them. */
Test(unplaced, one_is_canceled_before_it_begins)
{
    struct umbra_runtime *runtime = create();

    spawn_all(runtime, sleeps);
    for (int i = 0; i < FIBERS; i += 2)
        cr_expect_eq(umbra_cancel(fiber[i]), 0);
    let_go = 1;
    for (intptr_t i = 0; i < FIBERS; i++) {
        void *result = NULL;

        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, &result), 0);
        cr_expect_eq((intptr_t)result, i % 2 ? i : -1);
    }
    end(runtime);
}

static void *joins_and_detaches(void *arg)
{
    spawn_all(NULL, notes);
    cr_expect_eq(umbra_join(fiber[0], 0, NULL), -ETIMEDOUT);
    cr_expect_eq(umbra_detach(fiber[2]), 0);
    for (int i = 0; i < FIBERS; i++)
        if (i != 2)
            cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(unplaced, one_is_joined_or_detached_before_it_begins)
{
    reset();
    cr_assert_eq(run_cores(1, joins_and_detaches, NULL), 0);
    cr_expect_eq(begun, FIBERS);
}

static void *waits_for_ever(void *event)
{
    begun++;
    umbra_event_wait(event, UMBRA_NEVER);
    begun++;
    return NULL;
}

static void *lets_go(void *unused)
{
    struct timespec time = {.tv_nsec = 10 * (long)MS}; /* until the end has begun, most likely */

    nanosleep(&time, NULL);
    let_go = 1;
    return unused;
}

/* The core is held until its end has been asked for. */
Test(unplaced, those_that_are_left_begin_before_the_core_ends)
{
    struct umbra_event never = UMBRA_EVENT_INIT;
    struct umbra_runtime *runtime = create();
    pthread_t thread;

    for (int i = 0; i < FIBERS; i++)
        cr_expect_eq(umbra_spawn_with(runtime, &anywhere, waits_for_ever, &never, NULL), 0);
    cr_assert_eq(pthread_create(&thread, NULL, lets_go, NULL), 0);
    cr_expect_eq(umbra_runtime_destroy(runtime), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(begun, FIBERS);
}

/* ---- many at once ---- */

#define SPAWNERS 3
#define ROUNDS 300

static _Atomic int ended;

static void *counts(void *arg)
{
    ended++;
    return arg;
}

static void *spawns_and_cancels(void *runtime)
{
    struct umbra_fiber mine[8];

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 8; i++)
            cr_expect_eq(umbra_spawn_with(runtime, &anywhere, counts, NULL, &mine[i]), 0);
        umbra_cancel(mine[round % 8]); /* it may have ended */
        for (int i = 0; i < 8; i++)
            cr_expect_eq(umbra_join(mine[i], UMBRA_NEVER, NULL), 0);
    }
    return NULL;
}

Test(unplaced, threads_and_fibers_spawn_and_cancel_at_once)
{
    struct umbra_options options = {.cores = 3, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;
    pthread_t thread[SPAWNERS];

    ended = 0;
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (int i = 0; i < SPAWNERS; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, spawns_and_cancels, runtime), 0);
        cr_expect_eq(umbra_spawn_with(runtime, &anywhere, spawns_and_cancels, NULL, NULL), 0);
    }
    for (int i = 0; i < SPAWNERS; i++)
        pthread_join(thread[i], NULL);
    cr_expect_eq(umbra_runtime_wait(runtime), 0);
    umbra_runtime_destroy(runtime);
    cr_expect_eq(ended, 2 * SPAWNERS * ROUNDS * 8);
}
