/* SPDX-License-Identifier: BSL-1.0 */
/* Floating-point control words: a core's, or a fiber's own (own_float_control). */
#include "fibers.h"

#include <fenv.h>
#include <pthread.h>
#include <stdlib.h>

static const struct umbra_spawn_options own = {.where = UMBRA_HERE, .own_float_control = true};

static struct umbra_event event;
static struct umbra_fiber one, other;

/* Sets a mode and asks for it, since not every processor's words are exchanged. */
static bool exchanges(void)
{
    uint64_t before = um_arch_float_control();
    bool some;

    fesetround(FE_UPWARD);
    some = um_arch_float_control() != before;
    fesetround(FE_TONEAREST);
    return some;
}

#define NEEDS_EXCHANGE                                                                             \
    if (!exchanges())                                                                              \
    cr_skip_test("this processor's control words are not exchanged")

/* All control words, without the exceptions that MXCSR, x87 and FPSCR have seen. */
static uint64_t words(void)
{
    return um_arch_float_control() & ~UINT64_C(0x003f00000000003f);
}

static void *sets_and_yields(void *arg)
{
    uint64_t own_words;

    fesetround(FE_UPWARD);
    own_words = words();
    for (int i = 0; i < 3; i++) {
        umbra_yield();
        cr_expect_eq(fegetround(), FE_UPWARD);
        cr_expect_eq(words(), own_words);
    }
    return arg;
}

static void *looks_and_yields(void *arg)
{
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(fegetround(), FE_TONEAREST);
        cr_expect_eq(words(), *(uint64_t *)arg);
        umbra_yield();
    }
    return arg;
}

static void *two_take_turns(void *arg)
{
    uint64_t cores_words = words();

    cr_expect_eq(umbra_spawn_with(NULL, &own, sets_and_yields, NULL, &one), 0);
    cr_expect_eq(umbra_spawn(looks_and_yields, &cores_words, &other), 0);
    cr_expect_eq(umbra_join(one, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(fegetround(), FE_TONEAREST);
    cr_expect_eq(umbra_join(other, UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(float_control, its_own_stays_with_the_fiber)
{
    NEEDS_EXCHANGE;
    cr_assert_eq(run_cores(1, two_take_turns, NULL), 0);
}

/* By each way that leaves the core: to the scheduler, to a named fiber, to the next. */
static void *leaves_in_all_ways(void *arg)
{
    fesetround(FE_DOWNWARD);
    cr_expect_eq(umbra_sleep_ns(1000), 0);
    cr_expect_eq(fegetround(), FE_DOWNWARD);
    cr_expect_eq(umbra_event_wait(&event, UMBRA_NEVER), 0);
    cr_expect_eq(fegetround(), FE_DOWNWARD);
    cr_expect_eq(umbra_transfer(other), 0);
    cr_expect_eq(fegetround(), FE_DOWNWARD);
    return arg;
}

static void *transfers_back(void *arg)
{
    cr_expect_eq(fegetround(), FE_TONEAREST);
    cr_expect_eq(umbra_continue(one), 0);
    return arg;
}

static void *meets_it(void *arg)
{
    struct umbra_spawn_options stopped = {.stopped = true};

    event = (struct umbra_event)UMBRA_EVENT_INIT;
    cr_expect_eq(umbra_spawn_with(NULL, &stopped, transfers_back, NULL, &other), 0);
    cr_expect_eq(umbra_spawn_with(NULL, &own, leaves_in_all_ways, NULL, &one), 0);
    cr_expect_eq(umbra_sleep_ns(100000), 0);
    cr_expect_eq(fegetround(), FE_TONEAREST);
    umbra_event_signal(&event);
    cr_expect_eq(umbra_join(one, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_join(other, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(fegetround(), FE_TONEAREST);
    return arg;
}

Test(float_control, every_way_to_leave_exchanges_it)
{
    NEEDS_EXCHANGE;
    cr_assert_eq(run_cores(1, meets_it, NULL), 0);
}

static void *transfers_to_none(void *arg)
{
    uint64_t own_words;

    fesetround(FE_UPWARD);
    own_words = words();
    for (int i = 0; i < 2; i++) {
        transfer_in_vain(arg);
        cr_expect_eq(words(), own_words);
        umbra_yield();
        cr_expect_eq(words(), own_words);
    }
    return NULL;
}

static void *sees_it_refused(void *arg)
{
    uint64_t cores_words = words();
    struct unreachable unreachable;

    make_unreachable(&unreachable);
    cr_expect_eq(umbra_spawn_with(NULL, &own, transfers_to_none, &unreachable, &one), 0);
    while (umbra_fiber_info(one, NULL) != UMBRA_FIBER_TERMINATED) {
        umbra_yield();
        cr_expect_eq(words(), cores_words);
    }
    cr_expect_eq(umbra_join(one, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(words(), cores_words);
    end_unreachable(&unreachable);
    return arg;
}

Test(float_control, a_transfer_that_is_refused_leaves_it_to_the_fiber)
{
    NEEDS_EXCHANGE;
    cr_assert_eq(run_cores(2, sees_it_refused, NULL), 0);
}

static void *has(void *arg)
{
    cr_expect_eq(fegetround(), *(int *)arg);
    fesetround(FE_TOWARDZERO);
    return arg;
}

static void *spawns_with_a_mode(void *arg)
{
    int mode = FE_UPWARD;

    fesetround(mode);
    cr_expect_eq(umbra_spawn_with(NULL, &own, has, &mode, &one), 0);
    fesetround(FE_TONEAREST);
    cr_expect_eq(umbra_join(one, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(fegetround(), FE_TONEAREST);
    return arg;
}

Test(float_control, its_own_is_at_first_the_spawners)
{
    NEEDS_EXCHANGE;
    cr_assert_eq(run_cores(1, spawns_with_a_mode, NULL), 0);
}

#ifdef UM_CONTEXT_IN_LINE
static void *sets_the_cores(void *arg)
{
    fesetround(FE_UPWARD);
    return arg;
}

static void *is_told(void *arg)
{
    cr_expect_eq(umbra_spawn(sets_the_cores, NULL, &one), 0);
    cr_expect_eq(umbra_join(one, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    return arg;
}

/* As docs/limits.md says. */
Test(float_control, without_its_own_a_fiber_changes_its_cores)
{
    cr_assert_eq(run_cores(1, is_told, NULL), 0);
}
#endif

#ifdef __x86_64__
static volatile long double nothing = 0, unit = 1, result;

static void *traps_divisions(void *arg)
{
    uint16_t control = 0x037f & ~4; /* divisions by zero are not masked */

    __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(control));
    umbra_yield();
    result = unit + unit;
    return arg;
}

static void *divides(void *arg)
{
    result = unit / nothing;
    umbra_yield();
    return arg;
}

static void *both(void *arg)
{
    cr_expect_eq(umbra_spawn_with(NULL, &own, traps_divisions, NULL, &one), 0);
    cr_expect_eq(umbra_spawn(divides, NULL, &other), 0);
    umbra_join(one, UMBRA_NEVER, NULL);
    umbra_join(other, UMBRA_NEVER, NULL);
    return arg;
}

Test(float_control, exception_that_another_fiber_lets_pass_does_not_trap)
{
    NEEDS_EXCHANGE;
    cr_expect_eq(run_cores(1, both, NULL), 0);
}
#endif
