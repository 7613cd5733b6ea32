/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "fibers.h"

#include <umbra/io.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- results ---- */

static void *same(void *arg)
{
    return arg;
}

static void *where_it_runs(void *arg)
{
    *(int *)arg = umbra_core_index();
    return arg;
}

static void *returns_results(void *arg)
{
    struct umbra_fiber fiber;
    void *result = NULL;

    cr_expect_eq(umbra_spawn(same, &fiber, &fiber), 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
    cr_expect_eq(result, &fiber);
    cr_expect_eq(umbra_spawn(same, NULL, &fiber), 0);
    umbra_yield(); /* it ends before the join */
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
    cr_expect_null(result);
    return arg;
}

Test(fiber, join_gives_what_the_function_returned)
{
    cr_assert_eq(run_cores(1, returns_results, NULL), 0);
}

/* Only a hint: whoever asks, and whatever has become of the fiber. */
static void *is_fetched_and_joined(void *arg)
{
    struct umbra_fiber fiber;
    void *result = NULL;

    cr_expect_eq(umbra_spawn(same, &fiber, &fiber), 0);
    umbra_fetch_ahead(fiber);
    umbra_fetch_ahead(umbra_self());
    cr_expect_eq(umbra_fiber_info(fiber, NULL), UMBRA_FIBER_READY);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
    cr_expect_eq(result, &fiber);
    umbra_fetch_ahead(fiber); /* stale */
    *(struct umbra_fiber *)arg = fiber;
    return arg;
}

Test(fiber, fetching_one_ahead_changes_nothing)
{
    struct umbra_fiber gone = {0};

    umbra_fetch_ahead(gone);
    cr_assert_eq(run_cores(1, is_fetched_and_joined, &gone), 0);
    umbra_fetch_ahead(gone); /* nor is its memory there */
}

static void *joins_across_cores(void *arg)
{
    for (unsigned core = 0; core < 3; core++) {
        struct umbra_spawn_options there = on_core(core);
        struct umbra_fiber fiber;
        int index = -1;
        void *result = NULL;

        cr_expect_eq(umbra_spawn_with(NULL, &there, where_it_runs, &index, &fiber), 0);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
        cr_expect_eq(result, &index);
        cr_expect_eq(index, (int)core);
    }
    return arg;
}

Test(fiber, joins_a_fiber_of_another_core)
{
    cr_assert_eq(run_cores(3, joins_across_cores, NULL), 0);
}

static void *joins_for_another(void *arg)
{
    return (void *)(intptr_t)umbra_join(*(struct umbra_fiber *)arg, UMBRA_NEVER, NULL);
}

static void *sleeps_a_little(void *arg)
{
    umbra_sleep_ns(under_valgrind ? 200 * MS : 2 * MS);
    return arg;
}

static _Atomic int told;

static void *ends_when_told(void *arg)
{
    until(&told);
    return arg;
}

/* Neither the fiber's core nor the one that spawned it. */
static void *third_core_joins(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber fiber, joiner;
    void *result = (void *)1;

    cr_expect_eq(umbra_spawn_with(NULL, &there, sleeps_a_little, NULL, &fiber), 0);
    there.core = 2;
    cr_expect_eq(umbra_spawn_with(NULL, &there, joins_for_another, &fiber, &joiner), 0);
    cr_expect_eq(umbra_join(joiner, UMBRA_NEVER, &result), 0);
    cr_expect_eq((intptr_t)result, 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), -ESRCH);
    return arg;
}

/* The core watches the fiber that ended last, and gets it past its inbox: no reason to be early. */
static int begun[3];
static int begun_count;

static void *notes(void *arg)
{
    begun[begun_count++] = *(int *)arg;
    return NULL;
}

static void *begin_in_their_order(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    int number[3] = {0, 1, 2};
    struct umbra_fiber fiber[3];

    for (int round = 0; round < 5000; round++) {
        int first = round % 3; /* so many of them before the one that is watched */

        umbra_spawn_with(NULL, &there, same, NULL, &fiber[first]);
        umbra_join(fiber[first], UMBRA_NEVER, NULL);
        begun_count = 0;
        for (int i = 0; i < 3; i++) {
            there.stack_bytes = i == first ? 0 : 100000; /* the others are not the watched one */
            umbra_spawn_with(NULL, &there, notes, &number[i], &fiber[i]);
        }
        there.stack_bytes = 0;
        for (int i = 0; i < 3; i++)
            umbra_join(fiber[i], UMBRA_NEVER, NULL);
        cr_expect(begun[0] == 0 && begun[1] == 1 && begun[2] == 2);
    }
    return arg;
}

Test(fiber, those_of_one_spawner_begin_in_their_order)
{
    cr_assert_eq(run_cores(2, begin_in_their_order, NULL), 0);
}

/* A fiber asks the other core, whose it is, to join one of its own core, which is just ending. */
static struct umbra_fiber ending;

static void *ends_after_a_while(void *arg)
{
    uint64_t begin = um_cycles();

    umbra_yield();
    while (um_cycles() - begin < (uintptr_t)arg)
        continue;
    return NULL;
}

static void *joins_the_ending(void *arg)
{
    cr_expect_eq(umbra_join(ending, UMBRA_NEVER, NULL), 0);
    return arg;
}

static void *asked_while_they_end(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    uintptr_t while_cycles = 1;

    for (int i = 0; i < 20000; i++) {
        struct umbra_fiber joiner;

        while_cycles = while_cycles * 75 % 65537; /* Lehmer 1951 */
        umbra_spawn_with(NULL, &there, ends_after_a_while, (void *)(while_cycles % 3000), &ending);
        umbra_spawn_with(NULL, &there, joins_the_ending, NULL, &joiner);
        cr_expect_eq(umbra_join(joiner, UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(fiber, may_end_while_another_core_is_asked_for_it)
{
    cr_assert_eq(run_cores(2, asked_while_they_end, NULL), 0);
}

Test(fiber, joins_from_a_third_core)
{
    cr_assert_eq(run_cores(3, third_core_joins, NULL), 0);
}

Test(fiber, is_spawned_and_joined_by_a_plain_thread)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;
    int index = -1;
    void *result = NULL;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (int round = 0; round < 100; round++) {
        struct umbra_spawn_options there = on_core(1);

        cr_assert_eq(umbra_spawn_with(runtime, &there, where_it_runs, &index, &fiber), 0);
        cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
        cr_assert_eq(index, 1);
        cr_assert_eq(result, &index);
        cr_assert_eq(umbra_spawn_with(runtime, NULL, where_it_runs, &index, &fiber), 0);
        cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
        cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, &result), -ESRCH);
    }
    cr_assert_eq(umbra_spawn(same, NULL, NULL), -EPERM);
    cr_assert_eq(umbra_spawn_with(NULL, NULL, same, NULL, NULL), -EPERM);
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

/* ---- joining wrongly ---- */

static void *wrong_joins(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber fiber, joiner, none = {NULL, 0};
    void *result = NULL;

    cr_expect_eq(umbra_join(umbra_self(), UMBRA_NEVER, NULL), -EDEADLK);
    cr_expect_eq(umbra_join(none, UMBRA_NEVER, NULL), -ESRCH);
    cr_expect_eq(umbra_continue(none), -ESRCH);
    cr_expect_eq(umbra_fiber_info(none, NULL), -ESRCH);
    umbra_spawn(same, NULL, &fiber);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), -ESRCH);
    cr_expect_eq(umbra_detach(fiber), -ESRCH);
    umbra_spawn(sleeps_a_little, NULL, &fiber);
    umbra_spawn(joins_for_another, &fiber, &joiner);
    umbra_yield(); /* the joiner waits */
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), -EINVAL);
    cr_expect_eq(umbra_join(joiner, UMBRA_NEVER, &result), 0);
    cr_expect_eq((intptr_t)result, 0);
    umbra_spawn_with(NULL, &there, ends_when_told, NULL, &fiber);
    cr_expect_eq(umbra_detach(fiber), 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), -EINVAL);
    told = 1;
    umbra_spawn(same, NULL, &fiber);
    umbra_yield();
    cr_expect_eq(umbra_detach(fiber), 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), -ESRCH);
    return arg;
}

Test(fiber, wrong_joins_are_told)
{
    cr_assert_eq(run_cores(2, wrong_joins, NULL), 0);
}

static void *wrong_spawns(void *arg)
{
    struct umbra_spawn_options options = on_core(2);
    struct umbra_fiber fiber = {(struct um_fiber *)arg, 7};

    cr_expect_eq(umbra_spawn_with(NULL, &options, same, NULL, &fiber), -EINVAL);
    options = (struct umbra_spawn_options){.stack_bytes = 100};
    cr_expect_eq(umbra_spawn_with(NULL, &options, same, NULL, &fiber), -EINVAL);
    options = (struct umbra_spawn_options){.stack_bytes = ((size_t)1 << 50) + 1};
    cr_expect_eq(umbra_spawn_with(NULL, &options, same, NULL, &fiber), -EINVAL);
    cr_expect(strstr(umbra_last_error_text(), "the most") != NULL, "no reason");
    options = (struct umbra_spawn_options){.stack_bytes = (size_t)1 << 50};
    cr_expect_eq(umbra_spawn_with(NULL, &options, same, NULL, &fiber), -ENOMEM);
    options = (struct umbra_spawn_options){.stack_bytes = (size_t)1 << 47};
    cr_expect_eq(umbra_spawn_with(NULL, &options, same, NULL, &fiber), -ENOMEM);
    options = (struct umbra_spawn_options){.where = UMBRA_ANYWHERE, .delay_ns = 1};
    cr_expect_eq(umbra_spawn_with(NULL, &options, same, NULL, &fiber), -EINVAL);
    options = (struct umbra_spawn_options){.where = UMBRA_ANYWHERE, .stopped = true};
    cr_expect_eq(umbra_spawn_with(NULL, &options, same, NULL, &fiber), -EINVAL);
    options = (struct umbra_spawn_options){.delay_ns = 1, .stopped = true};
    cr_expect_eq(umbra_spawn_with(NULL, &options, same, NULL, &fiber), -EINVAL);
    cr_expect_eq(fiber.generation, 7, "untouched on failure");
    cr_expect_eq(umbra_spawn(same, NULL, &fiber), 0, "everything still works");
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(fiber, wrong_spawns_are_told)
{
    cr_assert_eq(run_cores(2, wrong_spawns, NULL), 0);
}

/* Spawned stopped, on this core and on another; begun by a transfer, or by umbra_continue. */
static void *begins_others(void *arg)
{
    struct umbra_spawn_options here = {.stopped = true}, there = on_core(1);
    struct umbra_fiber by_transfer, by_continue, remote;
    void *result = NULL;

    there.stopped = true;
    cr_expect_eq(umbra_spawn_with(NULL, &here, same, &here, &by_transfer), 0);
    cr_expect_eq(umbra_spawn_with(NULL, &here, same, &here, &by_continue), 0);
    cr_expect_eq(umbra_spawn_with(NULL, &there, same, &there, &remote), 0);
    umbra_yield();
    cr_expect_eq(umbra_fiber_info(by_transfer, NULL), UMBRA_FIBER_STOPPED);
    umbra_continue(umbra_self()); /* so that the transfer leaves this one ready */
    cr_expect_eq(umbra_transfer(by_transfer), 0);
    cr_expect_eq(umbra_fiber_info(by_transfer, NULL), UMBRA_FIBER_TERMINATED);
    cr_expect_eq(umbra_fiber_info(by_continue, NULL), UMBRA_FIBER_STOPPED);
    cr_expect_eq(umbra_continue(by_continue), 0);
    cr_expect_eq(umbra_continue(remote), 0);
    cr_expect_eq(umbra_join(by_transfer, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_join(by_continue, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_join(remote, UMBRA_NEVER, &result), 0);
    cr_expect_eq(result, &there);
    return arg;
}

Test(fiber, may_be_spawned_stopped)
{
    cr_assert_eq(run_cores(2, begins_others, NULL), 0);
}

static void *leaves_one_stopped(void *arg)
{
    struct umbra_spawn_options stopped = {.stopped = true};

    cr_expect_eq(umbra_spawn_with(NULL, &stopped, same, NULL, NULL), 0);
    return arg;
}

Test(fiber, one_that_stays_stopped_is_a_deadlock)
{
    cr_assert_eq(run_cores(2, leaves_one_stopped, NULL), -EDEADLK);
}

/* ---- many ---- */

static void *adds_one(void *arg)
{
    ++*(_Atomic int *)arg;
    return arg;
}

static void *many_everywhere(void *arg)
{
    static _Atomic int ran[300];
    static struct umbra_fiber fibers[300];
    enum umbra_where where[] = {UMBRA_HERE, UMBRA_ANYWHERE, UMBRA_ON_CORE};

    for (unsigned k = 0; k < 3; k++) {
        struct umbra_spawn_options options = {.where = where[k], .core = 1};

        for (int i = 0; i < 300; i++)
            cr_expect_eq(umbra_spawn_with(NULL, &options, adds_one, &ran[i], &fibers[i]), 0);
        for (int i = 0; i < 300; i++)
            cr_expect_eq(umbra_join(fibers[i], UMBRA_NEVER, NULL), 0);
        for (int i = 0; i < 300; i++)
            cr_expect_eq(umbra_spawn_with(NULL, &options, adds_one, &ran[i], NULL), 0);
    }
    *(_Atomic int **)arg = ran;
    return NULL;
}

Test(fiber, many_run_once_each)
{
    _Atomic int *ran = NULL;

    cr_assert_eq(run_cores(2, many_everywhere, &ran), 0);
    for (int i = 0; i < 300; i++)
        cr_assert_eq(ran[i], 6);
}

static _Atomic int sharing[2];

static void *meets(void *arg)
{
    (void)arg;
    sharing[umbra_core_index()]++;
    while (!sharing[0] || !sharing[1]) /* only another core can make this end */
        ;
    return NULL;
}

static void *spawns_anywhere(void *arg)
{
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};
    struct umbra_fiber fiber[2];

    for (int i = 0; i < 2; i++)
        cr_expect_eq(umbra_spawn_with(NULL, &anywhere, meets, NULL, &fiber[i]), 0);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(fiber, an_idle_core_takes_what_has_no_place)
{
    for (int i = 0; i < 20; i++) {
        sharing[0] = sharing[1] = 0;
        cr_assert_eq(run_cores(2, spawns_anywhere, NULL), 0);
    }
}

/* ---- order ---- */

static char order[64];

static void *writes_thrice(void *arg)
{
    for (int i = 0; i < 3; i++) {
        strcat(order, arg);
        umbra_yield();
    }
    return NULL;
}

static void *yields_in_order(void *arg)
{
    struct umbra_fiber fiber[3];
    static char name[3][2] = {"a", "b", "c"};

    for (int i = 0; i < 3; i++)
        umbra_spawn(writes_thrice, name[i], &fiber[i]);
    for (int i = 0; i < 3; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    return arg;
}

Test(fiber, yield_is_first_in_first_out)
{
    cr_assert_eq(run_cores(1, yields_in_order, NULL), 0);
    cr_assert_str_eq(order, "abcabcabc");
}

/* ---- transfer ---- */

static struct umbra_fiber ring[3];

static void *passes_on(void *arg)
{
    size_t me = (size_t)(uintptr_t)arg;

    for (int i = 0; i < 4; i++) {
        char letter[2] = {(char)('0' + me), 0};

        strcat(order, letter);
        if (i < 3 || me < 2)
            cr_expect_eq(umbra_transfer(ring[(me + 1) % 3]), 0);
    }
    if (me > 0) /* the last one ends; the others were left stopped */
        cr_expect_eq(umbra_continue(ring[me - 1]), 0);
    return NULL;
}

static void *transfers_in_a_ring(void *arg)
{
    for (size_t i = 0; i < 3; i++)
        umbra_spawn(passes_on, (void *)(uintptr_t)i, &ring[i]);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_join(ring[i], UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(fiber, transfer_goes_where_it_is_told)
{
    order[0] = 0;
    cr_assert_eq(run_cores(1, transfers_in_a_ring, NULL), 0);
    cr_assert_str_eq(order, "012012012012");
}

static void *stays_blocked(void *arg)
{
    umbra_event_wait(arg, UMBRA_NEVER);
    return NULL;
}

static void *stops(void *arg)
{
    umbra_transfer(*(struct umbra_fiber *)arg);
    return NULL;
}

static void *wrong_transfers(void *arg)
{
    struct umbra_event never = UMBRA_EVENT_INIT, elsewhere = UMBRA_EVENT_INIT;
    struct umbra_spawn_options there = on_core(1);
    struct umbra_spawn_options late = {.delay_ns = 100 * MS};
    struct umbra_fiber self = umbra_self();
    struct umbra_fiber blocked, far, ended, stopped, delayed, none = {NULL, 0};

    cr_expect_eq(umbra_transfer(self), -EINVAL);
    cr_expect_eq(umbra_transfer(none), -ESRCH);
    umbra_spawn(stays_blocked, &never, &blocked);
    umbra_spawn(same, NULL, &ended);
    umbra_spawn_with(NULL, &late, same, NULL, &delayed);
    umbra_yield();
    cr_expect_eq(umbra_transfer(blocked), -EBUSY);
    cr_expect_eq(umbra_transfer(delayed), -EBUSY);
    cr_expect_eq(umbra_transfer(ended), -ESRCH);
    umbra_join(ended, UMBRA_NEVER, NULL);
    cr_expect_eq(umbra_transfer(ended), -ESRCH);
    umbra_spawn_with(NULL, &there, stays_blocked, &elsewhere, &far);
    cr_expect_eq(umbra_transfer(far), -EXDEV);
    umbra_spawn(stops, &self, &stopped);
    cr_expect_eq(umbra_transfer(stopped), 0, "to one that is ready");
    cr_expect_eq(umbra_fiber_info(stopped, NULL), UMBRA_FIBER_STOPPED);
    cr_expect_eq(umbra_continue(self), 0); /* a permit: this side stays ready */
    cr_expect_eq(umbra_transfer(stopped), 0);
    cr_expect_eq(umbra_join(stopped, UMBRA_NEVER, NULL), 0);
    umbra_event_signal(&never);
    umbra_event_signal(&elsewhere);
    cr_expect_eq(umbra_join(blocked, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_join(far, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_join(delayed, UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(fiber, wrong_transfers_are_told)
{
    cr_assert_eq(run_cores(2, wrong_transfers, NULL), 0);
    cr_assert_eq(umbra_transfer((struct umbra_fiber){NULL, 0}), -EPERM);
}

/* ---- time ---- */

static void *sleeps(void *arg)
{
    uint64_t start = umbra_now_ns();

    cr_expect_eq(umbra_sleep_ns(3 * MS), 0);
    cr_expect_geq(umbra_now_ns() - start, 3 * MS - 1000);
    start = umbra_now_ns();
    cr_expect_eq(umbra_sleep_ns(0), 0);
    cr_expect_lt(umbra_now_ns() - start, SECOND);
    return arg;
}

/* Whether the delays began together, or nearly: else they say nothing about the order. */
static bool sleep_in_order(void)
{
    struct umbra_fiber fiber[3];
    static char name[3][2] = {"x", "y", "z"};
    uint64_t delay[3] = {6 * MS, 2 * MS, 4 * MS};
    uint64_t start = umbra_now_ns(), took;

    order[0] = 0;
    for (int i = 0; i < 3; i++) {
        struct umbra_spawn_options late = {.delay_ns = delay[i]};

        umbra_spawn_with(NULL, &late, writes_thrice, name[i], &fiber[i]);
        cr_expect_eq(umbra_fiber_info(fiber[i], NULL), UMBRA_FIBER_CREATED);
    }
    took = umbra_now_ns() - start;
    for (int i = 0; i < 3; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    cr_expect_geq(umbra_now_ns() - start, 6 * MS - 1000);
    return took < MS;
}

static void *sleep_order(void *arg)
{
    bool in_order = false;

    for (int i = 0; i < 100 && !in_order; i++)
        in_order = sleep_in_order();
    cr_expect(in_order, "three spawns always took 1 ms");
    return sleeps(arg);
}

Test(fiber, sleeps_and_delays_keep_their_time)
{
    uint64_t start;

    cr_assert_eq(run_cores(1, sleep_order, NULL), 0);
    cr_assert_eq(order[0], 'y');
    cr_assert_eq(order[8], 'x');
    start = umbra_now_ns();
    cr_assert_eq(umbra_sleep_ns(2 * MS), 0, "a plain thread");
    cr_assert_geq(umbra_now_ns() - start, 2 * MS - 1000);
}

/* ---- an idle core with timers ---- */

/* How often the calling thread has given its processor up by itself. */
static long given_up(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

struct sleeps {
    uint64_t ns; /* of each */
    long in_kernel;
};

static void *sleeps_often(void *arg)
{
    struct sleeps *sleeps = arg;
    long before;

    umbra_sleep_ns(sleeps->ns);
    before = given_up();
    for (int i = 0; i < 20; i++)
        umbra_sleep_ns(sleeps->ns);
    sleeps->in_kernel = given_up() - before;
    return NULL;
}

/* How many of 20 sleeps are in the kernel, where a wait polls for so long. */
static long sleeps_in_kernel(uint64_t ns, uint64_t block_ns)
{
    struct umbra_options options = {.cores = 1, .wait.block_cycles = um_ns_to_cycles(block_ns)};
    struct sleeps sleeps = {.ns = ns};

    cr_assert_eq(umbra_run(&options, sleeps_often, &sleeps), 0);
    return sleeps.in_kernel;
}

Test(fiber, a_core_that_has_timers_alone_sleeps_in_the_kernel)
{
    cr_assert_geq(sleeps_in_kernel(5 * MS, 8 * MS), 15);
    cr_assert_gt(sleeps_in_kernel(90000, 200000), 0); /* although a wait polls for longer */
}

Test(fiber, a_core_whose_waits_poll_for_long_polls_for_near_timers)
{
    cr_assert_lt(sleeps_in_kernel(5 * MS, 1000 * MS), 5);
}

/* The shortest of many sleeps of 20 us. */
static void *sleeps_briefly(void *least)
{
    for (int i = 0; i < 300; i++) {
        uint64_t begin = umbra_now_ns(), took;

        umbra_sleep_ns(20000);
        took = umbra_now_ns() - begin;
        if (took < *(uint64_t *)least)
            *(uint64_t *)least = took;
    }
    return NULL;
}

Test(fiber, a_brief_sleep_is_not_left_to_the_kernel)
{
    uint64_t least = UMBRA_NEVER;

    cr_assert_eq(run_cores(1, sleeps_briefly, &least), 0);
    cr_assert_geq(least, 19000u);
    cr_assert_lt(least, 50000u);
}

/* ---- names, states, local values ---- */

static void *named(void *arg)
{
    struct umbra_spawn_options options = {.name = "a name that is longer than the room for it"};
    struct umbra_fiber fiber, plain;
    struct umbra_fiber_info info;

    umbra_spawn_with(NULL, &options, same, NULL, &fiber);
    cr_expect_eq(umbra_fiber_info(fiber, &info), UMBRA_FIBER_READY);
    cr_expect_str_eq(info.name, "a name that is longer t");
    cr_expect_eq(umbra_fiber_info(umbra_self(), NULL), UMBRA_FIBER_EXECUTING);
    umbra_yield();
    cr_expect_eq(umbra_fiber_info(fiber, NULL), UMBRA_FIBER_TERMINATED);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(umbra_fiber_info(fiber, &info), -ESRCH);
    umbra_spawn(same, NULL, &plain); /* the same memory, without the name */
    cr_expect_eq(umbra_fiber_info(plain, &info), UMBRA_FIBER_READY);
    cr_expect_str_eq(info.name, "");
    umbra_join(plain, UMBRA_NEVER, NULL);
    return arg;
}

/* Two letters at the end of the room of 23 bytes, the first of which has so many bytes there. */
static void *named_in_utf_8(void *arg)
{
    static const char *const letters[] = {"\u00e9", "\u20ac", "\U0001f600"};

    for (unsigned i = 0; i < 3; i++)
        for (int there = 0; there <= (int)i + 2; there++) {
            char name[40], wanted[40];
            struct umbra_spawn_options options = {.name = name};
            struct umbra_fiber_info info;
            struct umbra_fiber fiber;

            snprintf(name, sizeof(name), "%0*d%s%s", 23 - there, 0, letters[i], letters[i]);
            snprintf(wanted, sizeof(wanted), "%0*d%s", 23 - there, 0,
                     there == (int)i + 2 ? letters[i] : "");
            umbra_spawn_with(NULL, &options, same, NULL, &fiber);
            umbra_fiber_info(fiber, &info);
            cr_expect_str_eq(info.name, wanted);
            umbra_join(fiber, UMBRA_NEVER, NULL);
        }
    return arg;
}

Test(fiber, a_name_is_cut_off_between_characters)
{
    cr_assert_eq(run_cores(1, named_in_utf_8, NULL), 0);
}

Test(fiber, names_and_states)
{
    cr_assert_eq(run_cores(1, named, NULL), 0);
    cr_assert_str_eq(um_fiber_state_name(UMBRA_FIBER_BLOCKED), "blocked");
    cr_assert_str_eq(um_fiber_state_name((enum umbra_fiber_state)99), "?");
    cr_assert_eq(umbra_core_index(), -1);
    cr_assert_null(umbra_self().block);
}

static unsigned key, second_key;
static int destroyed;

static void destroy(void *value)
{
    destroyed++;
    if (value == &destroyed) /* sets a new value: another round */
        umbra_local_set(key, &key);
}

static void *has_local(void *arg)
{
    cr_expect_null(umbra_local_get(key));
    cr_expect_eq(umbra_local_set(key, arg), 0);
    cr_expect_eq(umbra_local_set(second_key + 1, arg), -EINVAL, "no such key yet");
    cr_expect_eq(umbra_local_set(second_key, &second_key), 0);
    umbra_yield();
    cr_expect_eq(umbra_local_get(key), arg);
    cr_expect_eq(umbra_local_get(second_key), &second_key);
    return NULL;
}

static void *locals(void *arg)
{
    struct umbra_fiber fiber[2];

    umbra_spawn(has_local, &destroyed, &fiber[0]);
    umbra_spawn(has_local, &order, &fiber[1]);
    umbra_join(fiber[0], UMBRA_NEVER, NULL);
    umbra_join(fiber[1], UMBRA_NEVER, NULL);
    cr_expect_null(umbra_local_get(key));
    return arg;
}

Test(fiber, local_values_and_their_destructors)
{
    unsigned last = 0;

    cr_assert_eq(umbra_local_create(destroy, &key), 0);
    cr_assert_eq(umbra_local_create(NULL, &second_key), 0);
    cr_assert_eq(run_cores(1, locals, NULL), 0);
    cr_assert_eq(destroyed, 3);
    cr_assert_eq(umbra_local_set(key, &key), -EPERM);
    for (int i = 2; i < UMBRA_LOCAL_KEYS; i++)
        cr_assert_eq(umbra_local_create(NULL, &last), 0);
    cr_assert_eq(umbra_local_create(NULL, &last), -ENOSPC);
    cr_assert_eq(last, UMBRA_LOCAL_KEYS - 1);
}

static _Thread_local int of_the_thread;

static void *keeps_its_thread(void *arg)
{
    int *address = &of_the_thread;

    for (int i = 0; i < 100; i++) {
        errno = i;
        umbra_yield();
        cr_expect_eq(address, &of_the_thread);
        cr_expect_eq(umbra_core_index(), 1);
    }
    return arg;
}

static void *spawns_keepers(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber fiber[4];

    for (int i = 0; i < 4; i++)
        umbra_spawn_with(NULL, &there, keeps_its_thread, NULL, &fiber[i]);
    for (int i = 0; i < 4; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    return arg;
}

Test(fiber, never_leaves_its_core)
{
    cr_assert_eq(run_cores(2, spawns_keepers, NULL), 0);
}

static void *fails_to_find(void *arg)
{
    errno = ENOENT;
    return arg;
}

static void *is_interrupted(void *arg)
{
    int *address = &errno;
    struct umbra_fiber other;
    int kept;

    cr_expect_eq(umbra_spawn(fails_to_find, NULL, &other), 0);
    errno = EINTR;
    kept = errno;
    umbra_yield();
    cr_expect_eq(errno, ENOENT, "the other fiber's");
    cr_expect_eq(address, &errno);
    cr_expect_eq(kept, EINTR);
    umbra_join(other, UMBRA_NEVER, NULL);
    return arg;
}

Test(fiber, errno_is_the_threads_and_a_switch_may_change_it)
{
    cr_assert_eq(run_cores(1, is_interrupted, NULL), 0);
}

/* ---- alternate signal stacks ---- */

enum { SAID = 9 };

static int said[SAID];
static struct umbra_fiber neighbour, far;
static struct umbra_task away;
static struct umbra_event idle_event = UMBRA_EVENT_INIT;

static void runs_nothing(void *arg)
{
    (void)arg;
}

static void is_away(void *arg)
{
    (void)arg;
    until(&told);
}

static void on_alternate_stack(int number)
{
    (void)number;
    said[0] = umbra_transfer(neighbour);
    said[1] = umbra_event_wait(&idle_event, UMBRA_NEVER);
    said[2] = umbra_sleep_ns(1);
    said[3] = umbra_join(neighbour, UMBRA_NEVER, NULL);
    said[4] = umbra_event_wait(&idle_event, umbra_deadline(SECOND));
    said[5] = umbra_join(far, UMBRA_NEVER, NULL);
    said[6] = umbra_blocking(runs_nothing, NULL);
    said[7] = umbra_io_read(0, said, 1, UMBRA_IO_HERE, UMBRA_NEVER, NULL);
    said[8] = umbra_task_join(&away, umbra_deadline(SECOND));
    umbra_yield();
}

static void *spawns_far(void *arg)
{
    umbra_spawn(ends_when_told, NULL, &far);
    return arg;
}

static void *raises(void *arg)
{
    struct sigaction action = {.sa_handler = on_alternate_stack, .sa_flags = SA_ONSTACK};
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, before;
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber spawner;

    umbra_spawn_with(NULL, &there, spawns_far, NULL, &spawner); /* which is its owner */
    umbra_join(spawner, UMBRA_NEVER, NULL);
    umbra_spawn(same, NULL, &neighbour);
    umbra_task_start(NULL, &away, is_away, NULL);
    sigaltstack(&stack, &before);
    sigaction(SIGUSR1, &action, NULL);
    pthread_kill(pthread_self(), SIGUSR1);
    for (int i = 0; i < SAID; i++)
        cr_expect_eq(said[i], -EPERM, "call %d said %d", i, said[i]);
    told = 1;
    cr_expect_eq(umbra_join(neighbour, UMBRA_NEVER, NULL), 0, "everything still works");
    cr_expect_eq(umbra_join(far, UMBRA_NEVER, NULL), 0);
    umbra_task_join(&away, UMBRA_NEVER);
    sigaltstack(&before, NULL);
    free(stack.ss_sp);
    return arg;
}

Test(fiber, nothing_blocks_on_an_alternate_signal_stack)
{
    cr_assert_eq(run_cores(2, raises, NULL), 0);
}

/* ---- stacks ---- */

static void *uses_its_stack(void *arg)
{
    volatile char room[100000];

    for (size_t i = 0; i < sizeof(room); i += 1000)
        room[i] = 1;
    umbra_yield();
    return arg;
}

static long stack_used(struct umbra_fiber fiber)
{
    struct umbra_fiber_info info;
    int state = umbra_fiber_info(fiber, &info);

    return state < 0 ? state : (long)info.stack_used;
}

static void *sizes(void *arg)
{
    struct umbra_spawn_options options = {.stack_bytes = 150000};
    struct umbra_fiber fiber;

    for (int i = 0; i < 4; i++) {
        if (i == 3)
            options.stack_bytes = UMBRA_STACK_BYTES; /* the usual one, said aloud */
        cr_expect_eq(umbra_spawn_with(NULL, &options, uses_its_stack, NULL, &fiber), 0);
        umbra_yield();
        cr_expect_geq(stack_used(fiber), 100000);
        cr_expect_lt(stack_used(fiber), 150000 * 2);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
    cr_expect_eq(stack_used(fiber), -ESRCH);
    cr_expect_lt(stack_used(umbra_self()), UMBRA_STACK_BYTES);
    return arg;
}

static void *leaves_a_hole(void *arg)
{
    char room[200000];

    room[0] = 1; /* the pages above stay as they are, but for the last */
    __asm__ volatile("" : : "r"(room) : "memory"); /* else a compiler keeps what is used of it */
    umbra_yield();
    return arg;
}

static void *holes(void *arg)
{
    struct umbra_spawn_options options = {.stack_bytes = 300000};
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_spawn_with(NULL, &options, leaves_a_hole, NULL, &fiber), 0);
    umbra_yield();
    cr_expect_geq(stack_used(fiber), 200000);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(fiber, a_hole_does_not_hide_how_much_was_used)
{
    cr_assert_eq(run_cores(1, holes, NULL), 0);
}

Test(fiber, stacks_have_the_size_that_was_asked_for)
{
    cr_assert_eq(run_cores(1, sizes, NULL), 0);
}

/* ---- limits ---- */

#define MORE_SPACE ((size_t)100 << 20)

static struct umbra_event wanted = UMBRA_EVENT_INIT_MANUAL;

static void *waits_until_wanted(void *arg)
{
    umbra_event_wait(&wanted, UMBRA_NEVER);
    return arg;
}

/* Writes how many fibers it could start. */
static void *uses_up_the_address_space(void *count)
{
    int error = 0;

    while (error == 0) {
        error = umbra_spawn(waits_until_wanted, NULL, NULL);
        umbra_yield();
        *(size_t *)count += error == 0;
    }
    cr_expect_eq(error, -ENOMEM);
    umbra_event_signal(&wanted);
    return NULL;
}

/* Forbids the process all but so much more address space than it has. */
static void limit_space(size_t bytes)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    struct rlimit limit;

    if (!file || fscanf(file, "%lu", &pages) != 1)
        cr_skip_test("no /proc/self/statm");
    fclose(file);
    limit.rlim_cur = limit.rlim_max = pages * (size_t)sysconf(_SC_PAGESIZE) + bytes;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

Test(fiber, address_space_is_used_to_its_limit_and_then_refused)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct umbra_runtime *runtime;
    size_t count = 0;

#if defined(UM_CONTEXT_ASAN) || defined(UM_CONTEXT_TSAN)
    cr_skip_test("a sanitizer needs address space of its own");
#endif
    if (under_valgrind)
        cr_skip_test("Valgrind ends the program where its malloc finds no memory");
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    limit_space(MORE_SPACE);
    cr_assert_eq(umbra_runtime_run(runtime, uses_up_the_address_space, &count), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
    cr_assert_gt(count,
                 MORE_SPACE / 10 * 8 / (UMBRA_STACK_BYTES + um_guard_bytes(UMBRA_STACK_BYTES)));
}
