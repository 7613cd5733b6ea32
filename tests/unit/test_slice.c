/* SPDX-License-Identifier: BSL-1.0 */
/* Fibers that hold their core: safe points (umbra_poll), and the watchdog. */
#define _GNU_SOURCE
#include "child.h"
#include "fibers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define SHARE_NS UINT64_C(200000)
#define PATIENCE_NS (20 * SECOND)

static atomic_int let_in; /* the other fiber has run */

static void *lets_itself_in(void *arg)
{
    atomic_store(&let_in, 1);
    return arg;
}

/* Computes, with safe points, until the other fiber has run. */
static void *polls(void *arg)
{
    uint64_t late = umbra_deadline(PATIENCE_NS);

    while (!atomic_load(&let_in) && umbra_now_ns() < late)
        umbra_poll();
    cr_expect(atomic_load(&let_in));
    return arg;
}

static void *polls_beside_one(void *arg)
{
    struct umbra_fiber fiber;

    umbra_spawn(lets_itself_in, NULL, &fiber);
    polls(NULL);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

static int with_share(umbra_fiber_fn *fn)
{
    struct umbra_options options = {.cores = 1, .share_ns = SHARE_NS};

    return umbra_run(&options, fn, NULL);
}

Test(slice, a_safe_point_yields_when_the_share_is_used_up)
{
    cr_assert_eq(with_share(polls_beside_one), 0);
}

static void *sleeps_a_little(void *arg)
{
    umbra_sleep_ns(MS);
    return lets_itself_in(arg);
}

static void *polls_beside_a_sleeper(void *arg)
{
    struct umbra_fiber fiber;

    umbra_spawn(sleeps_a_little, NULL, &fiber);
    umbra_yield(); /* it sleeps now */
    polls(NULL);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

Test(slice, a_safe_point_lets_a_sleeper_run_whose_time_has_come)
{
    cr_assert_eq(with_share(polls_beside_a_sleeper), 0);
}

/* ---- what comes from outside ---- */

static void *from_outside(void *runtime)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 0};

    return (void *)(intptr_t)umbra_spawn_with(runtime, &there, lets_itself_in, NULL, NULL);
}

static void *polls_beside_a_thread(void *arg)
{
    void *error = arg;
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, from_outside, umbra_runtime_self()), 0);
    polls(NULL);
    pthread_join(thread, &error);
    cr_expect_null(error);
    return arg;
}

Test(slice, a_safe_point_lets_a_fiber_run_that_a_thread_has_sent)
{
    cr_assert_eq(with_share(polls_beside_a_thread), 0);
}

static void *polls_beside_one_without_a_place(void *arg)
{
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};

    cr_assert_eq(umbra_spawn_with(NULL, &anywhere, lets_itself_in, NULL, NULL), 0);
    return polls(arg);
}

Test(slice, a_safe_point_lets_a_fiber_without_a_place_run)
{
    cr_assert_eq(with_share(polls_beside_one_without_a_place), 0);
}

static atomic_int step; /* of the tasks: 1 the first one runs, 2 it may end */

static void waits_for_a_second(void *arg)
{
    uint64_t late = umbra_deadline(PATIENCE_NS);

    atomic_store(&step, 1);
    while (atomic_load(&step) < 2 && umbra_now_ns() < late)
        umbra_pause();
    (void)arg;
}

static void does_nothing(void *arg)
{
    (void)arg;
}

static void lets_task_in(void *arg)
{
    lets_itself_in(arg);
}

static void *forks_and_polls(void *arg)
{
    uint64_t late = umbra_deadline(PATIENCE_NS);
    struct umbra_task first, answer, second;

    umbra_task_fork(&first, waits_for_a_second, NULL);
    while (atomic_load(&step) < 1 && umbra_now_ns() < late)
        umbra_poll();
    umbra_task_fork(&answer, does_nothing, NULL); /* a question that is left is answered by it */
    umbra_task_fork(&second, lets_task_in, NULL); /* the other core is busy, and does not ask */
    atomic_store(&step, 2);
    polls(NULL);
    umbra_task_join(&second, UMBRA_NEVER);
    umbra_task_join(&answer, UMBRA_NEVER);
    umbra_task_join(&first, UMBRA_NEVER);
    return arg;
}

/* The other core has ended its first task, and asks for the second one. */
Test(slice, a_safe_point_gives_an_idle_core_a_task)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .share_ns = SHARE_NS};

    cr_assert_eq(umbra_run(&options, forks_and_polls, NULL), 0);
}

/* ---- shares that are not over ---- */

#define POLLS 100000

static void *polls_often(void *arg)
{
    struct umbra_fiber fiber;

    umbra_spawn(lets_itself_in, NULL, &fiber);
    for (int i = 0; i < POLLS; i++)
        umbra_poll();
    cr_expect_eq(atomic_load(&let_in), 0, "a safe point has yielded");
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

Test(slice, without_a_share_a_safe_point_does_nothing)
{
    cr_assert_eq(run_cores(1, polls_often, NULL), 0);
    umbra_poll(); /* nor on a thread that is no core */
}

Test(slice, before_the_share_is_used_up_a_safe_point_does_nothing)
{
    struct umbra_options options = {.cores = 1, .share_ns = UMBRA_NEVER};

    cr_assert_eq(umbra_run(&options, polls_often, NULL), 0);
}

#define STAYS 20
#define STAY_NS (SHARE_NS / 8)

static void *counts_turns(void *arg)
{
    int *turns = arg;

    while (*turns >= 0) {
        ++*turns;
        umbra_yield();
    }
    return NULL;
}

/* Yields again and again after a part of its share: the share begins anew, so that no safe point
 * yields. A stay in which the system has taken the processor does not count. */
static void *stays_shortly(void *arg)
{
    struct umbra_fiber fiber;
    int turns = 0, more = 0, good = 0;

    umbra_spawn(counts_turns, &turns, &fiber);
    for (int i = 0; i < STAYS; i++) {
        uint64_t begin, took = 0;

        umbra_yield();
        turns = 0;
        for (begin = umbra_now_ns(); took < STAY_NS; took = umbra_now_ns() - begin)
            umbra_poll();
        good += took < SHARE_NS / 2;
        more += took < SHARE_NS / 2 && turns > 0;
    }
    cr_expect_eq(more, 0, "%d of %d stays", more, good);
    turns = -1;
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

Test(slice, a_share_begins_anew_when_the_fiber_has_given_up_its_core)
{
    cr_assert_eq(with_share(stays_shortly), 0);
}

/* ---- turns ---- */

#define SIDES 3
#define TURNS 20

struct turns {
    int last;
    int turns;
};

struct side {
    struct turns *all;
    int number;
};

static void *takes_turns(void *arg)
{
    struct side *side = arg;
    uint64_t late = umbra_deadline(PATIENCE_NS);

    while (side->all->turns < TURNS && umbra_now_ns() < late) {
        if (side->all->last != side->number) {
            side->all->last = side->number;
            side->all->turns++;
        }
        umbra_poll();
    }
    return NULL;
}

static void *several_compute(void *arg)
{
    struct turns all = {.last = -1};
    struct side side[SIDES];
    struct umbra_fiber fiber[SIDES];

    for (int i = 0; i < SIDES; i++) {
        side[i] = (struct side){&all, i};
        umbra_spawn(takes_turns, &side[i], &fiber[i]);
    }
    for (int i = 0; i < SIDES; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    cr_expect_eq(all.turns, TURNS, "%d turns", all.turns);
    return arg;
}

Test(slice, fibers_that_compute_take_turns)
{
    cr_assert_eq(with_share(several_compute), 0);
}

/* ---- a sleeper beside fibers that compute ---- */

struct sliced {
    int last;     /* the side that has run last */
    int late;     /* turns that began when the sleeper's time had come */
    uint64_t due; /* its time; 0: it has run */
    bool quit;
};

struct sliced_side {
    struct sliced *all;
    int number;
};

static void *counts_late_turns(void *arg)
{
    struct sliced_side *side = arg;

    while (!side->all->quit) {
        if (side->all->last != side->number) {
            side->all->last = side->number;
            side->all->late += side->all->due != 0 && umbra_now_ns() > side->all->due;
        }
        umbra_poll();
    }
    return NULL;
}

static void *turns_quickly(void *arg)
{
    struct sliced *all = arg;

    while (!all->quit)
        umbra_yield();
    return NULL;
}

/* After it the core reads the clock in one turn of several only. */
static void sleep_beside_quick_turns(void)
{
    struct sliced all = {.last = -1};
    struct umbra_fiber fiber[2];

    for (int i = 0; i < 2; i++)
        umbra_spawn(turns_quickly, &all, &fiber[i]);
    umbra_sleep_ns(MS);
    all.quit = true;
    for (int i = 0; i < 2; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
}

static void *sleeps_beside_several(void *arg)
{
    struct sliced all = {.last = -1};
    struct sliced_side side[SIDES];
    struct umbra_fiber fiber[SIDES];

    sleep_beside_quick_turns();
    for (int i = 0; i < SIDES; i++) {
        side[i] = (struct sliced_side){&all, i};
        umbra_spawn(counts_late_turns, &side[i], &fiber[i]);
    }
    all.due = umbra_deadline(5 * SHARE_NS);
    umbra_sleep_ns(5 * SHARE_NS);
    all.due = 0;
    all.quit = true;
    for (int i = 0; i < SIDES; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    cr_expect_leq(all.late, 2, "%d turns", all.late);
    return arg;
}

Test(slice, a_sleep_ends_with_the_share_in_which_its_time_comes)
{
    cr_assert_eq(with_share(sleeps_beside_several), 0);
}

/* ---- the watchdog ---- */

#define LIMIT_MS 20

static void *hogs(void *arg)
{
    uint64_t end = umbra_deadline((uint64_t)(uintptr_t)arg * MS);

    umbra_yield();
    while (umbra_now_ns() < end)
        umbra_pause();
    return NULL;
}

static void *hogs_beside_one(void *arg)
{
    struct umbra_spawn_options named = {.name = "hog"};
    struct umbra_fiber fiber[2];

    umbra_spawn_with(NULL, &named, hogs, arg, &fiber[0]);
    umbra_spawn(hogs, NULL, &fiber[1]);
    umbra_yield();
    umbra_yield();
    for (int i = 0; i < 2; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    return NULL;
}

static int hog_is_watched(void)
{
    struct umbra_options options = {.cores = 1, .watchdog_ms = LIMIT_MS};

    return umbra_run(&options, hogs_beside_one, (void *)(uintptr_t)(20 * LIMIT_MS));
}

Test(slice, the_watchdog_names_a_fiber_that_holds_its_core)
{
    struct child child = in_child(hog_is_watched);

    cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    cr_assert(says(&child, "umbra: fiber \"hog\" 0x"));
    cr_assert(says(&child, " has held core 0 for "));
    cr_assert(says(&child, " ms while others were ready"));
}

static void *hogs_alone(void *arg)
{
    return hogs(arg);
}

static int lone_hog_is_watched(void)
{
    setenv("UMBRA_WATCHDOG", "20", 1);
    return umbra_run(NULL, hogs_alone, (void *)(uintptr_t)(5 * LIMIT_MS));
}

Test(slice, the_watchdog_is_silent_while_no_other_is_ready)
{
    struct child child = in_child(lone_hog_is_watched);

    cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    cr_assert(!says(&child, "has held"));
}

Test(slice, the_environment_sets_the_watchdog)
{
    struct umbra_runtime *runtime;

    setenv("UMBRA_WATCHDOG", "soon", 1);
    cr_assert_eq(umbra_runtime_create(NULL, &runtime), -EINVAL);
    cr_assert_str_eq(umbra_last_error_text(),
                     "UMBRA_WATCHDOG=soon: not a number from 0 to 4294967295");
    setenv("UMBRA_WATCHDOG", "1000", 1);
    cr_assert_eq(umbra_runtime_create(NULL, &runtime), 0);
    umbra_runtime_destroy(runtime);
}

static uint32_t marked_in_handler;

static uint32_t share_mark(void)
{
    return um_atomic_load(&um_core_current(um_core_self)->state, relaxed) & UM_STATE_SLICE;
}

static void polls_in_handler(int number)
{
    (void)number;
    umbra_poll();
    marked_in_handler = share_mark();
}

static void *polls_on_alternate_stack(void *arg)
{
    struct sigaction action = {.sa_handler = polls_in_handler, .sa_flags = SA_ONSTACK};
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, before;
    struct umbra_fiber fiber;

    umbra_spawn(lets_itself_in, NULL, &fiber);
    sigaltstack(&stack, &before);
    sigaction(SIGUSR1, &action, NULL);
    pthread_kill(pthread_self(), SIGUSR1);
    cr_expect_eq(marked_in_handler, 0);
    umbra_poll();
    cr_expect_neq(share_mark(), 0, "it would have been marked");
    umbra_join(fiber, UMBRA_NEVER, NULL);
    sigaltstack(&before, NULL);
    free(stack.ss_sp);
    return arg;
}

/* The fiber may be about to leave: its state says how. */
Test(slice, a_safe_point_on_an_alternate_signal_stack_writes_nothing)
{
    cr_assert_eq(with_share(polls_on_alternate_stack), 0);
}

static void *continues(void *arg)
{
    umbra_continue(*(struct umbra_fiber *)arg);
    return NULL;
}

static void *polls_after_a_permit(void *arg)
{
    struct umbra_fiber self = umbra_self();
    uint64_t late = umbra_deadline(PATIENCE_NS);
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, continues, &self), 0);
    while (share_mark() == 0 && umbra_now_ns() < late)
        umbra_poll();
    cr_expect_neq(share_mark(), 0);
    umbra_yield(); /* what waited was a permit, and no fiber is ready now */
    cr_expect_eq(share_mark(), 0);
    pthread_join(thread, NULL);
    return arg;
}

Test(slice, a_share_ends_when_nothing_waits_any_more)
{
    struct umbra_options options = {.cores = 1, .share_ns = PATIENCE_NS};

    cr_assert_eq(umbra_run(&options, polls_after_a_permit, NULL), 0);
}

/* ---- the watchdog's thread ---- */

static atomic_int handled;

static void handles(int number)
{
    (void)number;
    handled++;
}

static void *blocks_signal(void *arg)
{
    pthread_sigmask(SIG_BLOCK, arg, NULL);
    return NULL;
}

Test(slice, the_watchdog_handles_no_signal_of_the_program)
{
    struct umbra_options options = {.cores = 1, .watchdog_ms = LIMIT_MS};
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE};
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;
    sigset_t set, pending;

#ifdef UMBRA_POSIX_ONLY
    cr_skip_test("UMBRA_POSIX_ONLY masks no signals");
#endif
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    signal(SIGUSR1, handles);
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    /* now all other threads block it: so it waits, unless the watchdog takes it */
    blocks_signal(&set);
    cr_assert_eq(umbra_spawn_with(runtime, &there, blocks_signal, &set, &fiber), 0);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    kill(getpid(), SIGUSR1);
    umbra_sleep_ns(5 * MS);
    sigpending(&pending);
    cr_expect(sigismember(&pending, SIGUSR1));
    cr_expect_eq(handled, 0);
    signal(SIGUSR1, SIG_IGN); /* which drops it */
    umbra_runtime_destroy(runtime);
}
