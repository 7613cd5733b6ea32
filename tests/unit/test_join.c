/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Joins that end early: by a deadline, a deadlock, the end of the runtime. The fiber is still to be
 * joined then, once.
 */
#define _GNU_SOURCE
#include "fibers.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define SOON (5 * MS)

static struct umbra_event go = UMBRA_EVENT_INIT_MANUAL;

static void *waits_for_go(void *arg)
{
    cr_expect_eq(umbra_event_wait(&go, UMBRA_NEVER), 0);
    return arg;
}

static int join_soon(struct umbra_fiber fiber, void **result)
{
    return umbra_join(fiber, umbra_deadline(SOON), result);
}

/* One of this core and one of another, both spawned here. */
static void *joins_its_own(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber fiber[2];

    cr_expect_eq(umbra_spawn(waits_for_go, &fiber[0], &fiber[0]), 0);
    cr_expect_eq(umbra_spawn_with(NULL, &there, waits_for_go, &fiber[1], &fiber[1]), 0);
    for (int i = 0; i < 2; i++) {
        void *result = arg;
        uint64_t start = umbra_now_ns();

        cr_expect_eq(umbra_join(fiber[i], 0, &result), -ETIMEDOUT);
        cr_expect_eq(join_soon(fiber[i], &result), -ETIMEDOUT);
        cr_expect_eq(join_soon(fiber[i], &result), -ETIMEDOUT);
        cr_expect(umbra_now_ns() - start >= 2 * SOON);
        cr_expect_eq(result, arg);
    }
    umbra_event_signal(&go);
    for (int i = 0; i < 2; i++) {
        void *result = arg;

        cr_expect_eq(umbra_join(fiber[i], umbra_deadline(10 * SECOND), &result), 0);
        cr_expect_eq(result, &fiber[i]);
        cr_expect_eq(join_soon(fiber[i], &result), -ESRCH);
    }
    return arg;
}

Test(join, has_a_deadline)
{
    cr_assert_eq(run_cores(2, joins_its_own, NULL), 0);
}

/* A plain join of the owner, and a detachment, after a deadline has passed. */
static void *joins_after_a_deadline(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber fiber[4];

    for (int i = 0; i < 4; i++) {
        cr_expect_eq(umbra_spawn_with(NULL, i % 2 ? &there : NULL, waits_for_go, arg, &fiber[i]),
                     0);
        cr_expect_eq(join_soon(fiber[i], NULL), -ETIMEDOUT);
    }
    cr_expect_eq(umbra_detach(fiber[2]), 0);
    cr_expect_eq(umbra_detach(fiber[3]), 0);
    cr_expect_eq(umbra_detach(fiber[3]), -EINVAL);
    umbra_event_signal(&go);
    cr_expect_eq(umbra_join(fiber[0], UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_join(fiber[1], UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(join, goes_on_after_a_deadline)
{
    cr_assert_eq(run_cores(2, joins_after_a_deadline, NULL), 0);
}

/* ---- others than the owner ---- */

static struct umbra_fiber shared;
static _Atomic int asking;

static void *asks_soon(void *arg)
{
    asking = 1;
    return (void *)(intptr_t)join_soon(shared, arg);
}

static void *asks(void *arg)
{
    asking = 1;
    return (void *)(intptr_t)umbra_join(shared, umbra_deadline(10 * SECOND), arg);
}

static void *waits_of_others(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber first, second;
    void *error, *result = NULL;

    for (int home = 0; home < 2; home++) {
        struct umbra_spawn_options of = on_core((unsigned)home);

        umbra_event_reset(&go);
        cr_expect_eq(umbra_spawn_with(NULL, &of, waits_for_go, &shared, &shared), 0);
        umbra_spawn_with(NULL, &there, asks_soon, NULL, &first);
        cr_expect_eq(umbra_join(first, UMBRA_NEVER, &error), 0);
        cr_expect_eq((intptr_t)error, -ETIMEDOUT, "the first gives up");
        asking = 0;
        umbra_spawn_with(NULL, &there, asks, &result, &second);
        until(&asking);
        umbra_sleep_ns(SOON); /* its request has come here */
        cr_expect_eq(umbra_join(shared, UMBRA_NEVER, NULL), -EINVAL, "the second has asked");
        cr_expect_eq(join_soon(shared, NULL), -EINVAL);
        umbra_event_signal(&go);
        cr_expect_eq(umbra_join(second, UMBRA_NEVER, &error), 0);
        cr_expect_eq((intptr_t)error, 0);
        cr_expect_eq(result, &shared);
    }
    return arg;
}

Test(join, is_the_next_ones_after_a_deadline)
{
    cr_assert_eq(run_cores(2, waits_of_others, NULL), 0);
}

static void *thread_asks(void *arg)
{
    cr_expect_eq(join_soon(shared, NULL), -ETIMEDOUT);
    cr_expect_eq(join_soon(shared, NULL), -ETIMEDOUT);
    asking = 2;
    return (void *)(intptr_t)umbra_join(shared, UMBRA_NEVER, arg);
}

Test(join, of_a_thread_has_a_deadline)
{
    struct umbra_options options = {.cores = 1};
    struct umbra_runtime *runtime;
    pthread_t thread;
    void *error, *result = NULL;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, NULL, waits_for_go, &shared, &shared), 0);
    cr_assert_eq(pthread_create(&thread, NULL, thread_asks, &result), 0);
    until(&asking);
    umbra_event_signal(&go);
    pthread_join(thread, &error);
    cr_assert_eq((intptr_t)error, 0);
    cr_assert_eq(result, &shared);
    cr_assert_eq(umbra_join(shared, umbra_deadline(SOON), NULL), -ESRCH);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

static void *detaches(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)umbra_detach(shared);
}

static void *is_detached_elsewhere(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber other;
    void *error;

    cr_expect_eq(umbra_spawn(waits_for_go, NULL, &shared), 0);
    for (int i = 0; i < 2; i++) {
        umbra_spawn_with(NULL, &there, detaches, NULL, &other);
        cr_expect_eq(umbra_join(other, UMBRA_NEVER, &error), 0);
        cr_expect_eq((intptr_t)error, i == 0 ? 0 : -EINVAL, "once only");
    }
    cr_expect_eq(umbra_join(shared, UMBRA_NEVER, NULL), -EINVAL);
    umbra_event_signal(&go);
    while (umbra_join(shared, UMBRA_NEVER, NULL) != -ESRCH)
        umbra_yield();
    return arg;
}

Test(join, is_for_no_fiber_that_another_core_has_detached)
{
    cr_assert_eq(run_cores(2, is_detached_elsewhere, NULL), 0);
}

/* ---- two callers that ask the owner at once ---- */

static void *thread_joins(void *arg)
{
    int error = umbra_join(shared, umbra_deadline(10 * SECOND), arg);

    asking++;
    return (void *)(intptr_t)error;
}

static void *thread_detaches(void *arg)
{
    int error = umbra_detach(shared);

    (void)arg;
    asking++;
    return (void *)(intptr_t)error;
}

static const struct two_callers {
    void *(*call[2])(void *result);
    bool ended; /* the fiber, before they ask */
    int second; /* what the second gets; the first gets 0 */
} two_callers[] = {
    {{thread_joins, thread_joins}, false, -EINVAL},
    {{thread_joins, thread_detaches}, false, -EINVAL},
    {{thread_detaches, thread_joins}, false, -EINVAL},
    {{thread_detaches, thread_detaches}, false, -EINVAL},
    {{thread_joins, thread_joins}, true, -ESRCH},
    {{thread_joins, thread_detaches}, true, -ESRCH},
    {{thread_detaches, thread_joins}, true, -ESRCH},
    {{thread_detaches, thread_detaches}, true, -ESRCH},
};

/* Until so many threads have asked. The owner, which looks at no request meanwhile. */
static void until_asked(struct umbra_runtime *runtime, unsigned wanted)
{
    unsigned listed = 0;

    while (listed < wanted) {
        sched_yield();
        pthread_mutex_lock(&runtime->lock);
        listed = 0;
        for (struct um_join_thread *thread = runtime->joins; thread; thread = thread->next)
            listed++;
        pthread_mutex_unlock(&runtime->lock);
    }
}

/* The second request comes when the first has been answered, and the fiber's memory lives again. */
static void asks_twice(const struct two_callers *row)
{
    void *error[2], *result[2] = {NULL, NULL};
    pthread_t thread[2];

    umbra_event_reset(&go);
    asking = 0;
    cr_expect_eq(umbra_spawn(waits_for_go, &shared, &shared), 0);
    while (umbra_fiber_info(shared, NULL) != UMBRA_FIBER_BLOCKED)
        umbra_yield();
    if (row->ended)
        umbra_event_signal(&go);
    while (row->ended && umbra_fiber_info(shared, NULL) != UMBRA_FIBER_TERMINATED)
        umbra_yield();
    for (unsigned i = 0; i < 2; i++) {
        cr_expect_eq(pthread_create(&thread[i], NULL, row->call[i], &result[i]), 0);
        until_asked(umbra_runtime_self(), i + 1);
    }
    for (int i = 0; i < 10; i++) {
        struct umbra_fiber next;

        umbra_yield();
        cr_expect_eq(umbra_spawn(ends_at_once, NULL, &next), 0);
        cr_expect_eq(umbra_join(next, UMBRA_NEVER, NULL), 0);
    }
    umbra_event_signal(&go);
    while (asking < 2)
        umbra_yield();
    for (int i = 0; i < 2; i++) {
        int wanted = i == 0 ? 0 : row->second;

        pthread_join(thread[i], &error[i]);
        cr_expect_eq((intptr_t)error[i], wanted, "row %d, caller %d: %d", (int)(row - two_callers),
                     i, (int)(intptr_t)error[i]);
        cr_expect_eq(result[i], i == 0 && row->call[i] == thread_joins ? &shared : NULL);
    }
}

static void *is_asked_twice(void *arg)
{
    for (size_t i = 0; i < sizeof(two_callers) / sizeof(*two_callers); i++)
        asks_twice(&two_callers[i]);
    return arg;
}

Test(join, of_two_callers_is_the_first_ones)
{
    cr_assert_eq(run_cores(1, is_asked_twice, NULL), 0);
}

/* ---- deadlines that pass just when the fiber ends ---- */

#define RACES 3000

static _Atomic unsigned joined;

static void *counts_a_little(void *arg)
{
    for (volatile uintptr_t i = 0; i < (uintptr_t)arg % 500; i++)
        ;
    return arg;
}

/* Gives up after some hundred ns, and then a little later each time. */
static void *joins_impatiently(void *arg)
{
    const struct umbra_fiber *fiber = arg;
    uint64_t patience_ns = 200;
    void *result = NULL;
    int error;

    do {
        patience_ns += patience_ns / 2;
        error = umbra_join(*fiber, umbra_deadline(patience_ns), &result);
    } while (error == -ETIMEDOUT);
    cr_expect_eq(error, 0);
    joined++;
    return result;
}

static void *races(void *arg)
{
    for (uintptr_t i = 0; i < RACES; i++) {
        struct umbra_spawn_options home = on_core(i % 2), from = on_core(i / 2 % 2);
        struct umbra_fiber fiber, joiner;
        void *result;

        cr_expect_eq(umbra_spawn_with(NULL, &home, counts_a_little, (void *)i, &fiber), 0);
        cr_expect_eq(umbra_spawn_with(NULL, &from, joins_impatiently, &fiber, &joiner), 0);
        cr_expect_eq(umbra_join(joiner, UMBRA_NEVER, &result), 0);
        cr_expect_eq((uintptr_t)result, i);
    }
    return arg;
}

Test(join, is_done_once_whatever_deadlines_pass)
{
    cr_assert_eq(run_cores(2, races, NULL), 0);
    cr_assert_eq(joined, RACES);
}

/* ---- fibers that never end ---- */

static void *joins_for_ever(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)umbra_join(shared, UMBRA_NEVER, NULL);
}

/* Until a thread is in umbra_join. */
static void until_a_thread_joins(struct umbra_runtime *runtime)
{
    for (bool joins = false; !joins; umbra_yield()) {
        pthread_mutex_lock(&runtime->lock);
        joins = runtime->joins;
        pthread_mutex_unlock(&runtime->lock);
    }
}

Test(join, of_the_creator_ends_with_a_deadlock)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;
    pthread_t thread;
    void *error;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, NULL, waits_for_go, &shared, &shared), 0);
    cr_assert_eq(umbra_join(shared, UMBRA_NEVER, NULL), -EDEADLK);
    umbra_hold(runtime);
    cr_assert_eq(umbra_join(shared, umbra_deadline(300 * MS), NULL), -ETIMEDOUT,
                 "another holder may end it");
    umbra_release(runtime);
    cr_assert_eq(pthread_create(&thread, NULL, joins_for_ever, NULL), 0);
    until_a_thread_joins(runtime);
    cr_assert_eq(umbra_runtime_wait(runtime), -EDEADLK);
    pthread_join(thread, &error);
    cr_assert_eq((intptr_t)error, -EDEADLK);
    umbra_event_signal(&go);
    cr_assert_eq(umbra_join(shared, UMBRA_NEVER, NULL), 0, "it could be ended after all");
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

Test(join, ends_with_its_runtime)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;
    pthread_t thread;
    void *error;

    for (int i = 0; i < 20; i++) {
        go = (struct umbra_event)
            UMBRA_EVENT_INIT_MANUAL; /* the last runtime's fiber still stands in its list */
        cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
        cr_assert_eq(umbra_spawn_with(runtime, NULL, waits_for_go, &shared, &shared), 0);
        cr_assert_eq(pthread_create(&thread, NULL, joins_for_ever, NULL), 0);
        until_a_thread_joins(runtime);
        cr_assert_eq(umbra_runtime_destroy(runtime), 0);
        pthread_join(thread, &error);
        cr_assert_eq((intptr_t)error, -ECANCELED);
    }
}
