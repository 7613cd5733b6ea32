/* SPDX-License-Identifier: BSL-1.0 */
/*
 * umbra/blocking.h: blocking functions on helper threads, while the core executes other fibers.
 *
 * Linked with --wrap for pthread_create and the allocator, so that each can be made to fail, and for
 * pthread_mutex_unlock, so that a call can come just then.
 */
#define _GNU_SOURCE
#include "fibers.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <umbra/blocking.h>

static atomic_int fail_thread, fail_memory; /* how many calls will fail */

static bool fails(atomic_int *left)
{
    return *left > 0 && atomic_fetch_sub(left, 1) > 0;
}

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    return fails(&fail_thread) ? EAGAIN : __real_pthread_create(t, a, fn, arg);
}

void *__real_malloc(size_t);
void *__wrap_malloc(size_t size)
{
    return fails(&fail_memory) ? NULL : __real_malloc(size);
}

void *__real_aligned_alloc(size_t, size_t);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails(&fail_memory) ? NULL : __real_aligned_alloc(alignment, size);
}

static struct um_blocking_pool *_Atomic watched; /* its helper stops once where it falls asleep */
static _Atomic int falls_asleep;

int __real_pthread_mutex_unlock(pthread_mutex_t *);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct um_blocking_pool *pool = watched;
    bool sleeps = pool && mutex == &pool->lock && !um_core_self && pool->idle > 0;
    uint32_t added = sleeps ? um_atomic_load(&pool->added, relaxed) : 0;
    int error = __real_pthread_mutex_unlock(mutex);

    if (sleeps) {
        watched = NULL;
        falls_asleep = 1;
        while (um_atomic_load(&pool->added, relaxed) == added)
            sched_yield();
    }
    return error;
}

/* Runs fn in a fiber of a runtime with so many cores and at most so many helpers. */
static int run_helpers(unsigned cores, unsigned helpers, umbra_fiber_fn *fn, void *arg)
{
    struct umbra_options options = {
        .cores = cores, .oversubscribe = true, .quiet = true, .blocking_threads = helpers};

    return umbra_run(&options, fn, arg);
}

static unsigned helpers_of(struct umbra_runtime *runtime)
{
    struct um_blocking_pool *pool = um_blocking_pool_of(runtime);
    unsigned threads;

    if (!pool)
        return 0;
    pthread_mutex_lock(&pool->lock);
    threads = pool->threads;
    pthread_mutex_unlock(&pool->lock);
    return threads;
}

/* ---- a call that blocks until a byte comes ---- */

struct reading {
    int pipe[2];
    char byte;
    ssize_t got;
    int error; /* of the call */
    pthread_t thread;
    _Atomic int begun;
    struct umbra_fiber fiber;
};

static void reads(void *arg)
{
    struct reading *reading = arg;

    reading->thread = pthread_self();
    reading->begun = 1;
    reading->got = read(reading->pipe[0], &reading->byte, 1);
}

static void *reads_blocking(void *arg)
{
    struct reading *reading = arg;

    reading->error = umbra_blocking(reads, reading);
    return NULL;
}

static void open_reading(struct reading *reading)
{
    *reading = (struct reading){.error = 1};
    cr_expect_eq(pipe(reading->pipe), 0);
}

static void spawn_reading(struct reading *reading)
{
    open_reading(reading);
    cr_expect_eq(umbra_spawn(reads_blocking, reading, &reading->fiber), 0);
}

static void end_reading(struct reading *reading)
{
    cr_expect_eq(write(reading->pipe[1], "x", 1), 1);
    umbra_join(reading->fiber, UMBRA_NEVER, NULL);
    close(reading->pipe[0]);
    close(reading->pipe[1]);
}

static void *core_goes_on(void *unused)
{
    struct reading reading;

    (void)unused;
    spawn_reading(&reading);
    until(&reading.begun); /* on this core, which the call does not stop */
    end_reading(&reading);
    cr_expect_eq(reading.error, 0);
    cr_expect_eq(reading.got, 1);
    cr_expect_eq(reading.byte, 'x');
    cr_expect(!pthread_equal(reading.thread, pthread_self()));
    return NULL;
}

Test(blocking, its_core_executes_other_fibers)
{
    cr_assert_eq(run_helpers(1, 0, core_goes_on, NULL), 0);
}

static void *alone(void *arg)
{
    struct reading *reading = arg;

    reading->error = umbra_blocking(reads, reading);
    return NULL;
}

static void *writes_late(void *arg)
{
    struct reading *reading = arg;

    while (!reading->begun)
        usleep(100);
    usleep(20000); /* in which the core falls asleep */
    cr_expect_eq(write(reading->pipe[1], "x", 1), 1);
    return NULL;
}

Test(blocking, a_call_under_way_is_no_deadlock)
{
    struct reading reading;
    pthread_t thread;

    open_reading(&reading);
    cr_assert_eq(pthread_create(&thread, NULL, writes_late, &reading), 0);
    cr_expect_eq(run_helpers(1, 0, alone, &reading), 0);
    cr_expect_eq(reading.got, 1);
    pthread_join(thread, NULL);
}

Test(blocking, a_thread_that_is_no_core_calls_by_itself)
{
    struct reading reading;

    open_reading(&reading);
    cr_assert_eq(write(reading.pipe[1], "x", 1), 1);
    cr_assert_eq(umbra_blocking(reads, &reading), 0);
    cr_assert_eq(reading.got, 1);
    cr_assert(pthread_equal(reading.thread, pthread_self()));
}

/* ---- the limit ---- */

#define CALLS 200

static atomic_int under_way, most_under_way, order[CALLS], next_order;

static void takes_a_moment(void *arg)
{
    int now = atomic_fetch_add(&under_way, 1) + 1;
    int most = most_under_way;

    while (now > most && !atomic_compare_exchange_weak(&most_under_way, &most, now))
        ;
    order[atomic_fetch_add(&next_order, 1)] = *(int *)arg;
    usleep(50);
    atomic_fetch_sub(&under_way, 1);
}

static void *calls(void *arg)
{
    cr_expect_eq(umbra_blocking(takes_a_moment, arg), 0);
    return NULL;
}

static void *many_calls(void *arg)
{
    static int number[CALLS];
    struct umbra_fiber fiber[CALLS];

    for (int i = 0; i < CALLS; i++) {
        number[i] = i;
        cr_expect_eq(umbra_spawn(calls, &number[i], &fiber[i]), 0);
    }
    for (int i = 0; i < CALLS; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    cr_expect(helpers_of(umbra_runtime_self()) <= *(unsigned *)arg);
    return NULL;
}

Test(blocking, calls_beyond_the_limit_wait)
{
    unsigned helpers = 3;

    cr_assert_eq(run_helpers(2, helpers, many_calls, &helpers), 0);
    cr_expect_eq(next_order, CALLS);
    cr_expect_leq(most_under_way, 3);
}

Test(blocking, calls_are_taken_in_the_order_in_which_they_came)
{
    unsigned helpers = 1;

    cr_assert_eq(run_helpers(1, helpers, many_calls, &helpers), 0);
    cr_assert_eq(next_order, CALLS);
    for (int i = 0; i < CALLS; i++)
        cr_expect_eq(order[i], i);
}

static void nothing(void *unused)
{
    (void)unused;
}

static void *grows_and_shrinks(void *unused)
{
    struct reading reading[5];

    (void)unused;
    cr_expect_eq(helpers_of(umbra_runtime_self()), 0);
    for (int i = 0; i < 5; i++)
        spawn_reading(&reading[i]);
    for (int i = 0; i < 5; i++)
        until(&reading[i].begun);
    cr_expect_eq(helpers_of(umbra_runtime_self()), 5);
    for (int i = 0; i < 5; i++)
        end_reading(&reading[i]);
    while (helpers_of(umbra_runtime_self()) > 0)
        umbra_sleep_ns(10 * MS);
    cr_expect_eq(umbra_blocking(nothing, NULL), 0); /* and grows again */
    cr_expect_eq(helpers_of(umbra_runtime_self()), 1);
    return NULL;
}

Test(blocking, the_pool_grows_with_the_calls_and_shrinks_without)
{
    cr_assert_eq(run_helpers(1, 0, grows_and_shrinks, NULL), 0);
}

/* A call comes when the helper has seen that there is none, and does not sleep yet. Of several calls
 * the one that ends soonest: the others lose their processors. A helper that missed them would take
 * each after UM_HELPER_IDLE_NS. */
static void *calls_one_that_falls_asleep(void *unused)
{
    uint64_t least = UMBRA_NEVER;

    (void)unused;
    cr_expect_eq(umbra_blocking(nothing, NULL), 0);
    for (int i = 0; i < 5 && least >= SECOND / 2; i++) {
        uint64_t start, took;

        falls_asleep = 0;
        watched = um_blocking_pool_of(umbra_runtime_self());
        cr_expect_eq(umbra_blocking(nothing, NULL), 0);
        until(&falls_asleep);
        start = umbra_now_ns();
        cr_expect_eq(umbra_blocking(nothing, NULL), 0);
        took = umbra_now_ns() - start;
        least = took < least ? took : least;
    }
    cr_expect_lt(least, SECOND / 2);
    return NULL;
}

Test(blocking, a_helper_that_falls_asleep_misses_no_call)
{
    cr_assert_eq(run_helpers(1, 1, calls_one_that_falls_asleep, NULL), 0);
}

/* ---- cancellation ---- */

static void *cancels(void *unused)
{
    struct reading taken, waiting[2];

    (void)unused;
    spawn_reading(&taken);
    until(&taken.begun);
    for (int i = 0; i < 2; i++) {
        spawn_reading(&waiting[i]); /* no helper is left for it */
        while (umbra_fiber_info(waiting[i].fiber, NULL) != UMBRA_FIBER_SYSTEM_CALL)
            umbra_yield();
    }
    for (int i = 1; i >= 0; i--) { /* the one behind, then the first in the queue */
        cr_expect_eq(umbra_cancel(waiting[i].fiber), 0);
        umbra_join(waiting[i].fiber, UMBRA_NEVER, NULL);
        cr_expect_eq(waiting[i].error, -ECANCELED);
        cr_expect_eq(waiting[i].begun, 0);
    }
    cr_expect_eq(umbra_cancel(taken.fiber), 0);
    for (int i = 0; i < 10; i++)
        umbra_yield();
    cr_expect_eq(umbra_fiber_info(taken.fiber, NULL), UMBRA_FIBER_SYSTEM_CALL);
    end_reading(&taken);
    cr_expect_eq(taken.error, 0);
    cr_expect_eq(taken.got, 1);
    return NULL;
}

Test(blocking, a_cancel_ends_a_call_that_no_helper_has_taken)
{
    cr_assert_eq(run_helpers(1, 1, cancels, NULL), 0);
}

static void *called_when_canceled(void *arg)
{
    umbra_cancel(umbra_self());
    *(int *)arg = umbra_blocking(nothing, NULL);
    return NULL;
}

Test(blocking, a_canceled_fiber_begins_no_call)
{
    int error = 0;

    cr_assert_eq(run_helpers(1, 1, called_when_canceled, &error), 0);
    cr_assert_eq(error, -ECANCELED);
}

/* ---- failures ---- */

/* Yields until a helper is idle. */
static void await_idle_helper(void)
{
    struct um_blocking_pool *pool = um_blocking_pool_of(umbra_runtime_self());
    bool idle = false;

    while (!idle) {
        umbra_yield();
        pthread_mutex_lock(&pool->lock);
        idle = pool->idle > 0;
        pthread_mutex_unlock(&pool->lock);
    }
}

static void *fails_to_start(void *unused)
{
    struct reading taken, waiting;

    (void)unused;
    fail_memory = 1;
    cr_expect_eq(umbra_blocking(nothing, NULL), -ENOMEM); /* for the pool */
    fail_thread = 1;
    cr_expect_eq(umbra_blocking(nothing, NULL), -EAGAIN);
    fail_memory = 1;
    cr_expect_eq(umbra_blocking(nothing, NULL), -ENOMEM); /* for a helper */
    cr_expect_eq(umbra_blocking(nothing, NULL), 0);
    await_idle_helper(); /* else a second one is started */
    spawn_reading(&taken);
    until(&taken.begun);
    fail_thread = 1; /* then the call waits for the helper that is there */
    spawn_reading(&waiting);
    while (fail_thread > 0)
        umbra_yield();
    end_reading(&taken);
    until(&waiting.begun);
    end_reading(&waiting);
    cr_expect_eq(taken.error, 0);
    cr_expect_eq(waiting.error, 0);
    return NULL;
}

Test(blocking, no_helper_can_be_started)
{
    cr_assert_eq(run_helpers(1, 4, fails_to_start, NULL), 0);
}

/* ---- reports ---- */

static void *dumps(void *arg)
{
    struct reading reading;
    int before = dup(2);
    int out[2];
    char text[4096];
    ssize_t length;

    (void)arg;
    spawn_reading(&reading);
    until(&reading.begun);
    while (umbra_fiber_info(reading.fiber, NULL) != UMBRA_FIBER_SYSTEM_CALL)
        umbra_yield();
    cr_expect_eq(pipe(out), 0);
    cr_expect_eq(dup2(out[1], 2), 2);
    umbra_dump(umbra_runtime_self(), 2);
    dup2(before, 2);
    length = read(out[0], text, sizeof(text) - 1);
    text[length > 0 ? length : 0] = 0;
    cr_expect_not_null(strstr(text, "core 0, system call, waits for blocking call at "));
    end_reading(&reading);
    return NULL;
}

Test(blocking, a_dump_shows_the_system_call)
{
    cr_assert_eq(run_helpers(1, 0, dumps, NULL), 0);
}

/* ---- the end ---- */

static atomic_int slow_done;

static void slow(void *begun)
{
    *(_Atomic int *)begun = 1;
    usleep(50000);
    slow_done = 1;
}

static void *calls_slow(void *begun)
{
    umbra_blocking(slow, begun);
    return NULL;
}

Test(blocking, the_runtime_is_destroyed_only_when_its_calls_have_ended)
{
    struct umbra_options options = {.cores = 1, .oversubscribe = true, .quiet = true};
    struct umbra_spawn_options spawn = on_core(0);
    struct umbra_runtime *runtime;
    _Atomic int begun = 0;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, &spawn, calls_slow, (void *)&begun, NULL), 0);
    while (!begun)
        usleep(100);
    umbra_runtime_destroy(runtime);
    cr_assert_eq(slow_done, 1);
}
