/* SPDX-License-Identifier: BSL-1.0 */
/*
 * umbra_continue: when it comes early, late, or for a life that is over. Control blocks are used
 * again by the next life at once, so that each of these would hit a stranger.
 */
#define _GNU_SOURCE
#include "fibers.h"

#include <errno.h>
#include <pthread.h>

#define LIVES 20000

static void *same(void *arg)
{
    return arg;
}

static struct umbra_fiber stopped_one;
static _Atomic int go_on;

static void *continues_it(void *arg)
{
    until(&go_on);
    return (void *)(intptr_t)umbra_continue(*(struct umbra_fiber *)arg);
}

static void *spins_once(void *arg)
{
    go_on = 1;
    return arg;
}

/* Continued from another core, before and after it stops. */
static void *continued_from_afar(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber other, next;
    void *result = (void *)1;

    stopped_one = umbra_self();
    for (int early = 0; early < 2; early++) {
        go_on = early;
        umbra_spawn_with(NULL, &there, continues_it, &stopped_one, &other);
        if (early)
            cr_expect_eq(umbra_join(other, UMBRA_NEVER, &result), 0);
        umbra_spawn(spins_once, NULL, &next);
        cr_expect_eq(umbra_transfer(next), 0);
        if (!early)
            cr_expect_eq(umbra_join(other, UMBRA_NEVER, &result), 0);
        cr_expect_eq((intptr_t)result, 0);
        cr_expect_eq(umbra_join(next, UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(continued, before_or_after_the_stop)
{
    for (int i = 0; i < 20; i++)
        cr_assert_eq(run_cores(2, continued_from_afar, NULL), 0);
}

/* ---- before it has come to its core ---- */

static _Atomic int arrived, spawned;

static void *transfers_once(void *arg)
{
    struct umbra_spawn_options stopped = {.stopped = true};
    struct umbra_fiber other;

    umbra_spawn_with(NULL, &stopped, same, NULL, &other);
    cr_expect_eq(umbra_transfer(other), 0); /* the permit brings it back */
    cr_expect_eq(umbra_join(other, UMBRA_NEVER, NULL), 0);
    return arg;
}

static void *continues_what_comes(void *arg)
{
    arrived = 1;
    while (!spawned)
        continue; /* no yield: the core must not see its inbox */
    return (void *)(intptr_t)umbra_continue(*(struct umbra_fiber *)arg);
}

static void *overtakes_its_spawn(void *arg)
{
    struct umbra_spawn_options there = on_core(1);

    for (int stopped = 0; stopped < 2; stopped++) {
        struct umbra_fiber other, comes;
        void *result = (void *)1;

        arrived = spawned = 0;
        there.stopped = false;
        umbra_spawn_with(NULL, &there, continues_what_comes, &comes, &other);
        while (!arrived)
            umbra_yield();
        there.stopped = stopped;
        umbra_spawn_with(NULL, &there, stopped ? same : transfers_once, NULL, &comes);
        spawned = 1;
        cr_expect_eq(umbra_join(other, UMBRA_NEVER, &result), 0);
        cr_expect_eq((intptr_t)result, 0);
        cr_expect_eq(umbra_join(comes, UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(continued, before_its_spawn_has_arrived)
{
    cr_assert_eq(run_cores(2, overtakes_its_spawn, NULL), 0);
}

/* ---- after its life, or the one before ---- */

static _Atomic int go;

static void *waits_for_go(void *arg)
{
    while (!go)
        continue;
    return arg;
}

/* The second continue travels with the first, which nobody needed, ahead of the spawn. */
static void *rides_on_the_mail_before(void *arg)
{
    struct umbra_spawn_options there = on_core(1), stopped = on_core(1);

    stopped.stopped = true;
    for (int i = 0; i < LIVES; i++) {
        struct umbra_fiber before, after;

        go = 0;
        umbra_spawn_with(NULL, &there, waits_for_go, NULL, &before);
        cr_expect_eq(umbra_continue(before), 0);
        go = 1;
        cr_expect_eq(umbra_join(before, UMBRA_NEVER, NULL), 0);
        umbra_spawn_with(NULL, &stopped, same, NULL, &after);
        cr_expect_eq(umbra_continue(after), 0);
        cr_expect_eq(umbra_join(after, UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(continued, beside_one_for_an_earlier_life)
{
    cr_assert_eq(run_cores(2, rides_on_the_mail_before, NULL), 0);
}

static _Atomic int stage;
static struct umbra_fiber partner;

static void *begins_on_some_core(void *arg)
{
    *(_Atomic int *)arg = 1;
    while (!go)
        continue;
    return NULL;
}

static void *leaves_until_continued(void *arg)
{
    stage = 1;
    cr_expect_eq(umbra_transfer(partner), 0);
    cr_expect_eq(stage, 2, "resumed though nobody continued it");
    return arg;
}

/* A permit that came too late for a fiber which another core had taken. */
static void *leaves_no_permit(void *arg)
{
    struct umbra_spawn_options stopped = {.stopped = true};
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};

    for (int i = 0; i < 200; i++) {
        struct umbra_fiber taken, next;
        _Atomic int begun = 0;

        go = stage = 0;
        umbra_spawn_with(NULL, &stopped, same, NULL, &partner);
        umbra_spawn_with(NULL, &anywhere, begins_on_some_core, (void *)&begun, &taken);
        while (!begun)
            continue; /* no yield: the other core takes it */
        umbra_continue(taken);
        go = 1;
        while (umbra_fiber_info(taken, NULL) != UMBRA_FIBER_TERMINATED)
            continue;
        umbra_sleep_ns(20000); /* the core that had it gets the mail */
        cr_expect_eq(umbra_join(taken, UMBRA_NEVER, NULL), 0);
        umbra_spawn(leaves_until_continued, NULL, &next);
        until(&stage);
        umbra_yield();
        umbra_yield();
        stage = 2;
        cr_expect_eq(umbra_continue(next), 0);
        cr_expect_eq(umbra_join(next, UMBRA_NEVER, NULL), 0);
        cr_expect_eq(umbra_join(partner, UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(continued, after_its_end_is_for_nobody)
{
    cr_assert_eq(run_cores(2, leaves_no_permit, NULL), 0);
}

/* ---- while its life ends, and another begins without a place ---- */

static _Atomic(struct um_fiber *) seen_block;
static _Atomic uint64_t seen_generation;
static _Atomic int enough, stopped_looking;

static void *continues_what_it_sees(void *arg)
{
    while (!enough) {
        struct umbra_fiber fiber = {seen_block, seen_generation};

        if (fiber.block)
            umbra_continue(fiber);
    }
    stopped_looking = 1;
    return arg;
}

static void *lives_without_a_place(void *arg)
{
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};

    for (int i = 0; i < 20 * LIVES; i++) {
        struct umbra_fiber fiber;

        umbra_spawn_with(NULL, &anywhere, same, NULL, &fiber);
        seen_block = fiber.block;
        seen_generation = fiber.generation;
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
    enough = 1;
    until(&stopped_looking); /* it holds no runtime, so this one must not end before */
    return arg;
}

Test(continued, by_a_thread_while_it_ends)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, continues_what_it_sees, NULL), 0);
    cr_assert_eq(run_cores(1, lives_without_a_place, NULL), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}
