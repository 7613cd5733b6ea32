/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The library's waits with monitorx forced: on the processor's own MONITORX and MWAITX where it
 * executes them, be it by a hypervisor that traps them, and never sleeps or sleeps too long.
 */
#define _GNU_SOURCE
#include "runner.h"

#include <errno.h>
#include <stdlib.h>

#include "round_trips.h"

#define ROUNDS 400
#define SECONDS 2      /* for the rounds of one test, at most */
#define THINK_NS 30000 /* longer than the instructions take where they are trapped */

static struct rig rig;
static struct shadow_rig shadow_rig;
static struct umbra_waiter waiter;
static struct umbra_wait_policy policy;
static _Alignas(UMBRA_CACHE_LINE) _Atomic uint32_t word;

static const struct umbra_wait_options monitor_only = {.mode = UMBRA_WAIT_MONITOR};
static const struct umbra_wait_options all_phases = {.spin_cycles = 2000, .block_cycles = 80000};

static void start(const struct umbra_wait_options *options)
{
    int error;

    setenv("UMBRA_WAIT", "monitorx", 1);
    error = umbra_wait_policy_init(&policy, options);
    if (error == -EOPNOTSUPP)
        cr_skip_test("MONITORX cannot execute here");
    cr_assert_eq(error, 0);
    cr_assert_eq(policy.backend, (uint32_t)UMBRA_BACKEND_MONITORX);
}

static void round_trips(bool wide, const struct umbra_wait_options *options)
{
    uint64_t seed = test_seed();

    start(options);
    rig = (struct rig){.policy = policy,
                       .wide = wide,
                       .think_cycles = um_ns_to_cycles(THINK_NS),
                       .seed = seed,
                       .rounds = ROUNDS,
                       .deadline = umbra_deadline(SECONDS * 1000000000ull)};
    cr_assert_eq(rig_run(&rig), 0);
    cr_assert_eq(rig.wrong, 0u);
    cr_assert_gt(rig_monitored(&rig), 0u, "no wait reached the monitor phase");
}

Test(monitorx, round_trips_on_32_bit_words)
{
    round_trips(false, &monitor_only);
}

Test(monitorx, round_trips_on_64_bit_words)
{
    round_trips(true, &monitor_only);
}

Test(monitorx, round_trips_through_all_phases)
{
    round_trips(true, &all_phases);
}

Test(monitorx, a_deadline_ends_a_wait)
{
    uint64_t deadline;

    start(&monitor_only);
    waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&policy);
    deadline = umbra_deadline(1000000);
    cr_assert_eq(umbra_wait_while_equal(&waiter, &word, 0, UINT32_MAX, deadline), -ETIMEDOUT);
    cr_assert_geq(umbra_now_ns() + 1000, deadline); /* the time stamp's rate is inexact */
    cr_assert_eq(umbra_waiter_stats(&waiter).timeouts, 1u);
}

static void forks(const struct umbra_wait_options *wait)
{
    struct umbra_shadow_options options = {.wait = *wait};
    int error;

    start(wait);
    shadow_rig.seed = test_seed();
    shadow_rig.rounds = ROUNDS;
    shadow_rig.think_cycles = um_ns_to_cycles(THINK_NS);
    shadow_rig.deadline = umbra_deadline(SECONDS * 1000000000ull);
    error = shadow_create(&shadow_rig.shadow, &options);
    if (error == -ENODEV)
        cr_skip_test("one hardware thread only");
    cr_assert_eq(error, 0);
    shadow_rig_run(&shadow_rig);
    cr_assert_eq(shadow_destroy(&shadow_rig.shadow), 0);
    cr_assert_eq(shadow_rig.wrong, 0u);
    cr_assert_gt(shadow_rig_monitored(&shadow_rig), 0u, "no wait reached the monitor phase");
}

Test(monitorx, a_shadow_is_forked_and_joined)
{
    forks(&monitor_only);
}

Test(monitorx, a_shadow_goes_through_all_phases)
{
    forks(&all_phases);
}
