/* SPDX-License-Identifier: BSL-1.0 */
/*
 * C++ fibers that leave their core while the C++ runtime has exceptions in hand for them: each way to
 * leave, with fibers of the same core that do the same, and with some that handle none. What throws is
 * in exceptions.cpp, what calls Umbra here.
 */
#include "exceptions.h"
#include "fibers.h"

#define FIBERS 6  /* a core */
#define TIMES 100 /* that each of them handles its exceptions */
#define NAMES 10  /* apart */

static leave_fn *way;
static struct umbra_fiber ring[FIBERS];
static struct umbra_event turn[2 * FIBERS];
static struct umbra_mutex mutex;

/* What fiber i does, or its neighbour, which handles no exceptions. */
static void *handles(void *arg)
{
    intptr_t wrong = 0;

    for (int i = 0; i < TIMES; i++)
        wrong += handle_exceptions((int)(intptr_t)arg * NAMES, way, arg);
    return (void *)wrong;
}

static void *handles_none(void *arg)
{
    return (void *)(intptr_t)handle_none(TIMES, way, arg);
}

static void *fibers_of_two_kinds(void *arg)
{
    unsigned cores = umbra_runtime_cores(umbra_runtime_self());
    struct umbra_fiber fibers[2 * FIBERS];
    unsigned count = cores * FIBERS;
    void *wrong;

    for (unsigned i = 0; i < count; i++) {
        struct umbra_spawn_options there = on_core(i % cores);

        cr_expect_eq(umbra_spawn_with(NULL, &there, i % 3 == 2 ? handles_none : handles,
                                      (void *)(uintptr_t)i, &fibers[i]),
                     0);
    }
    for (unsigned i = 0; i < count; i++) {
        cr_expect_eq(umbra_join(fibers[i], UMBRA_NEVER, &wrong), 0);
        cr_expect_eq((intptr_t)wrong, 0, "fiber %u saw others' exceptions", i);
    }
    return arg;
}

static void leaves_by(leave_fn *leave, unsigned cores)
{
    way = leave;
    cr_assert_eq(run_cores(cores, fibers_of_two_kinds, NULL), 0);
}

/* ---- yield ---- */

static void yields(void *arg)
{
    (void)arg;
    umbra_yield();
}

Test(exceptions, stay_with_a_fiber_that_yields)
{
    leaves_by(yields, 1);
    leaves_by(yields, 2);
}

static void *sleeps_for_long(void *stop)
{
    while (!*(_Atomic int *)stop)
        umbra_sleep_ns(MS);
    return NULL;
}

static void *with_a_timer(void *arg)
{
    _Atomic int stop = 0;
    struct umbra_fiber sleeper;

    cr_expect_eq(umbra_spawn(sleeps_for_long, (void *)&stop, &sleeper), 0);
    umbra_yield();
    fibers_of_two_kinds(NULL);
    stop = 1;
    cr_expect_eq(umbra_join(sleeper, UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(exceptions, stay_with_a_fiber_that_yields_while_another_sleeps)
{
    way = yields;
    cr_assert_eq(run_cores(1, with_a_timer, NULL), 0);
}

/* ---- waits ---- */

static void *nothing(void *arg)
{
    return arg;
}

static void joins(void *arg)
{
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_spawn(nothing, arg, &fiber), 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
}

Test(exceptions, stay_with_a_fiber_that_joins)
{
    leaves_by(joins, 1);
    leaves_by(joins, 2);
}

static void sleeps(void *arg)
{
    cr_expect_eq(umbra_sleep_ns(1000 + (uintptr_t)arg % 3 * 1000), 0);
}

Test(exceptions, stay_with_a_fiber_that_sleeps)
{
    leaves_by(sleeps, 1);
}

static void locks(void *arg)
{
    (void)arg;
    umbra_mutex_lock(&mutex);
    umbra_yield();
    umbra_mutex_unlock(&mutex);
}

Test(exceptions, stay_with_a_fiber_that_locks)
{
    mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
    leaves_by(locks, 1);
    leaves_by(locks, 2);
}

static void *signals(void *event)
{
    umbra_event_signal(event);
    return NULL;
}

static void waits(void *arg)
{
    struct umbra_event *event = &turn[(uintptr_t)arg];
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};

    cr_expect_eq(umbra_spawn_with(NULL, &anywhere, signals, event, NULL), 0);
    cr_expect_eq(
        umbra_event_wait(event, (uintptr_t)arg % 2 ? umbra_deadline(60 * SECOND) : UMBRA_NEVER), 0);
}

Test(exceptions, stay_with_a_fiber_that_waits)
{
    for (int i = 0; i < 2 * FIBERS; i++)
        turn[i] = (struct umbra_event)UMBRA_EVENT_INIT;
    leaves_by(waits, 1);
    leaves_by(waits, 2);
}

/* ---- transfer ---- */

static void transfers(void *arg)
{
    cr_expect_eq(umbra_transfer(ring[((uintptr_t)arg + 1) % FIBERS]), 0);
}

/* Each leaves as often as the others. Once the first has ended, they stand where they left last. */
static void *in_a_ring(void *arg)
{
    struct umbra_spawn_options stopped = {.where = UMBRA_HERE, .stopped = true};
    void *wrong;

    for (uintptr_t i = 0; i < FIBERS; i++)
        cr_expect_eq(umbra_spawn_with(NULL, &stopped, handles, (void *)i, &ring[i]), 0);
    for (int i = 0; i < FIBERS; i++) {
        cr_expect_eq(umbra_continue(ring[i]), 0);
        cr_expect_eq(umbra_join(ring[i], UMBRA_NEVER, &wrong), 0);
        cr_expect_eq((intptr_t)wrong, 0, "fiber %d saw others' exceptions", i);
    }
    return arg;
}

Test(exceptions, stay_with_a_fiber_that_transfers)
{
    way = transfers;
    cr_assert_eq(run_cores(1, in_a_ring, NULL), 0);
}

static struct unreachable unreachable;

static void transfers_to_none(void *arg)
{
    (void)arg;
    transfer_in_vain(&unreachable);
    umbra_yield();
}

/* All on core 0. */
static void *transfer_to_none(void *arg)
{
    struct umbra_fiber fibers[FIBERS];
    void *wrong;

    make_unreachable(&unreachable);
    for (uintptr_t i = 0; i < FIBERS; i++)
        cr_expect_eq(umbra_spawn(i % 3 == 2 ? handles_none : handles, (void *)i, &fibers[i]), 0);
    for (int i = 0; i < FIBERS; i++) {
        cr_expect_eq(umbra_join(fibers[i], UMBRA_NEVER, &wrong), 0);
        cr_expect_eq((intptr_t)wrong, 0, "fiber %d saw others' exceptions", i);
    }
    end_unreachable(&unreachable);
    return arg;
}

Test(exceptions, stay_with_a_fiber_whose_transfer_is_refused)
{
    way = transfers_to_none;
    cr_assert_eq(run_cores(2, transfer_to_none, NULL), 0);
}
