/* SPDX-License-Identifier: BSL-1.0 */
/* Fibers that hold their core: safe points (umbra_poll), and the watchdog. */
#define _GNU_SOURCE
#include "child.h"
#include "fibers.h"

#include <stdatomic.h>
#include <stdlib.h>

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
    umbra_join(fiber, NULL);
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
    umbra_join(fiber, NULL);
    return arg;
}

Test(slice, a_safe_point_lets_a_sleeper_run_whose_time_has_come)
{
    cr_assert_eq(with_share(polls_beside_a_sleeper), 0);
}

#define POLLS 100000

static void *polls_often(void *arg)
{
    struct umbra_fiber fiber;

    umbra_spawn(lets_itself_in, NULL, &fiber);
    for (int i = 0; i < POLLS; i++)
        umbra_poll();
    cr_expect_eq(atomic_load(&let_in), 0, "no share, no yield");
    umbra_join(fiber, NULL);
    return arg;
}

Test(slice, without_a_share_a_safe_point_does_nothing)
{
    cr_assert_eq(run_cores(1, polls_often, NULL), 0);
    umbra_poll(); /* nor on a thread that is no core */
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
        umbra_join(fiber[i], NULL);
    cr_expect_eq(all.turns, TURNS, "%d turns", all.turns);
    return arg;
}

Test(slice, fibers_that_compute_take_turns)
{
    cr_assert_eq(with_share(several_compute), 0);
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
        umbra_join(fiber[i], NULL);
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
    cr_assert_str_eq(umbra_last_error_text(), "UMBRA_WATCHDOG=soon: no number of milliseconds");
    setenv("UMBRA_WATCHDOG", "1000", 1);
    cr_assert_eq(umbra_runtime_create(NULL, &runtime), 0);
    umbra_runtime_destroy(runtime);
}
