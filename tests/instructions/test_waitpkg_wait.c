/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The library's waits on UMONITOR and UMWAIT, executed by the emulator, whose counters prove that
 * they were: `slept_over` and `overslept` stay 0 in a loop that looks again between arming and
 * waiting. The last tests run such a loop without that look, and see the counters rise.
 *
 * The operating system's cap is off, as it would hide a lost wake-up as a short delay.
 */
#define _GNU_SOURCE
#include "runner.h"

#include <stdlib.h>

#include "round_trips.h"
#include "waitpkg_emulator.h"

#define ROUNDS 1500
#define FORGETFUL_ROUNDS 300
#define SECONDS 2        /* for the rounds of one test, at most */
#define THINK_NS 60000   /* longer than a slice, so that some run out */
#define LONG_NS 20000000 /* hundreds of slices */
#define SLICES_LEAST 10  /* of them; else the thread had no processor */
#define ATTEMPTS 50
#define FORKS 3000

static struct rig rig;
static struct shadow_rig shadow_rig;
static struct umbra_waiter waiter;
static struct umbra_wait_policy policy;

/* Installs the emulator and makes a policy that waits by it; faults begin after that. */
static void start(const struct umbra_wait_options *options, const struct waitpkg_faults *faults)
{
    setenv("UMBRA_WAIT", "waitpkg", 1);
    if (waitpkg_emulator_install(NULL) != 0)
        cr_skip_test("the instructions do not raise SIGILL here");
    cr_assert_eq(umbra_wait_policy_init(&policy, options), 0);
    cr_assert_eq(policy.backend, (uint32_t)UMBRA_BACKEND_WAITPKG);
    waitpkg_emulator_set(faults);
}

static const struct umbra_wait_options monitor_only = {.mode = UMBRA_WAIT_MONITOR};

static void explain(const struct waitpkg_counters *c)
{
    fprintf(stderr,
            "# umonitor %llu umwait %llu stores %llu timeouts %llu past %llu spurious %llu"
            " lost %llu delays %llu slept_over %llu overslept %llu\n",
            (unsigned long long)c->umonitor, (unsigned long long)c->umwait,
            (unsigned long long)c->stores, (unsigned long long)c->timeouts,
            (unsigned long long)c->past, (unsigned long long)c->spurious,
            (unsigned long long)c->lost, (unsigned long long)c->delays,
            (unsigned long long)c->slept_over, (unsigned long long)c->overslept);
}

/* What must hold after any number of correct waits, whatever was injected. */
static struct waitpkg_counters check_counters(uint64_t through_monitor)
{
    struct waitpkg_counters seen = waitpkg_emulator_counters();

    explain(&seen);
    cr_assert_gt(seen.umonitor, 0u, "no wait reached the monitor phase");
    cr_assert_gt(seen.umwait, 0u, "no wait reached the monitor's wait");
    cr_assert_geq(seen.umonitor, through_monitor, "what the library counts has been executed");
    cr_assert_eq(seen.unarmed, 0u, "a UMWAIT without UMONITOR is a busy loop");
    cr_assert_eq(seen.slept_over, 0u, "the word is not looked at between arming and waiting");
    cr_assert_leq(seen.overslept, seen.lost, "only a lost arming may cost the whole slice");
    cr_assert_eq(seen.caps + seen.chained, 0u);
    cr_assert_eq(seen.stores + seen.timeouts + seen.past + seen.spurious, seen.umwait);
    return seen;
}

/* ---- round trips ---- */

static struct waitpkg_counters rounds(bool wide, const struct umbra_wait_options *options,
                                      struct waitpkg_faults faults)
{
    uint64_t seed = test_seed();

    faults.seed = seed;
    faults.over = station_over;
    start(options, &faults);
    rig = (struct rig){.policy = policy,
                       .wide = wide,
                       .think_cycles = um_ns_to_cycles(THINK_NS),
                       .seed = seed,
                       .rounds = ROUNDS,
                       .deadline = umbra_deadline(SECONDS * 1000000000ull)};
    cr_assert_eq(rig_run(&rig), 0);
    cr_assert_eq(rig.wrong, 0u);
    return check_counters(rig_monitored(&rig));
}

static struct waitpkg_counters round_trips(bool wide, struct waitpkg_faults faults)
{
    return rounds(wide, &monitor_only, faults);
}

Test(waitpkg, round_trips_on_32_bit_words)
{
    struct waitpkg_counters seen = round_trips(false, (struct waitpkg_faults){0});

    cr_assert_gt(seen.stores, 0u);
    cr_assert_eq(seen.overslept, 0u);
}

Test(waitpkg, round_trips_on_64_bit_words)
{
    struct waitpkg_counters seen = round_trips(true, (struct waitpkg_faults){0});

    cr_assert_gt(seen.stores, 0u);
    cr_assert_eq(seen.overslept, 0u);
}

Test(waitpkg, round_trips_survive_spurious_wake_ups)
{
    struct waitpkg_counters seen =
        round_trips(false, (struct waitpkg_faults){.spurious_per_mille = 500});

    cr_assert_gt(seen.spurious, 0u);
    cr_assert_leq(umbra_waiter_stats(&rig.there.waiter).spurious +
                      umbra_waiter_stats(&rig.back.waiter).spurious,
                  seen.spurious);
}

Test(waitpkg, round_trips_survive_lost_armings)
{
    struct waitpkg_counters seen =
        round_trips(true, (struct waitpkg_faults){.lost_per_mille = 250});

    cr_assert_gt(seen.lost, 0u);
    cr_assert_gt(seen.overslept, 0u, "the deadline alone has ended waits");
}

Test(waitpkg, round_trips_survive_delays_around_arming)
{
    struct waitpkg_counters seen =
        round_trips(false, (struct waitpkg_faults){.delay_per_mille = 500, .delay_cycles = 100000});

    cr_assert_gt(seen.delays, 0u);
    cr_assert_eq(seen.overslept, 0u);
}

Test(waitpkg, round_trips_survive_everything_at_once)
{
    round_trips(true, (struct waitpkg_faults){.spurious_per_mille = 200,
                                              .lost_per_mille = 100,
                                              .delay_per_mille = 300,
                                              .delay_cycles = 50000});
}

/* ---- single waits ---- */

static _Alignas(UMBRA_CACHE_LINE) _Atomic uint64_t word[8];

/* A wait that only its deadline ends; again if the thread had no processor meanwhile. */
static struct waitpkg_counters long_wait(struct waitpkg_faults faults)
{
    struct waitpkg_counters seen = {.umwait = 0};

    start(&monitor_only, NULL);
    for (int i = 0; i < ATTEMPTS && seen.umwait < SLICES_LEAST; i++) {
        uint64_t deadline;

        waitpkg_emulator_set(&faults);
        waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&policy);
        deadline = umbra_deadline(LONG_NS);
        cr_assert_eq(umbra_wait_while_equal(&waiter, word, 0, UINT64_MAX, deadline), -ETIMEDOUT);
        cr_assert_geq(umbra_now_ns() + LONG_NS / 1000, deadline); /* an inexact rate */
        seen = waitpkg_emulator_counters();
    }
    cr_assert_geq(seen.umwait, SLICES_LEAST);
    return seen;
}

Test(waitpkg, a_deadline_ends_a_wait_after_slices_of_which_the_first_is_shallow)
{
    struct waitpkg_counters seen = long_wait((struct waitpkg_faults){0});

    cr_assert_eq(seen.timeouts + seen.past, seen.umwait);
    cr_assert_eq(seen.umonitor, seen.umwait, "armed once for each wait");
    cr_assert_eq(seen.umwait - seen.deep, 1u);
    cr_assert_eq(umbra_waiter_stats(&waiter).timeouts, 1u);
}

Test(waitpkg, a_deadline_in_the_past_waits_for_nothing)
{
    start(&monitor_only, NULL);
    waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&policy);
    cr_assert_eq(umbra_wait_while_equal(&waiter, word, 0, UINT64_MAX, 1), -ETIMEDOUT);
    cr_assert_eq(waitpkg_emulator_counters().umwait, 0u);
}

Test(waitpkg, waits_ended_by_the_cap_are_told_apart)
{
    struct waitpkg_counters seen = long_wait((struct waitpkg_faults){.cap_cycles = 20000});

    cr_assert_gt(seen.caps, 0u);
    cr_assert_eq(umbra_waiter_stats(&waiter).capped, seen.caps);
}

Test(waitpkg, spurious_wake_ups_are_counted)
{
    struct waitpkg_counters seen = long_wait((struct waitpkg_faults){.spurious_per_mille = 1000});
    struct umbra_wait_stats stats = umbra_waiter_stats(&waiter);

    cr_assert_gt(stats.spurious, 0u);
    cr_assert_leq(stats.spurious, seen.spurious);
    cr_assert_eq(stats.capped, 0u);
}

/* ---- the monitor between the two other phases ---- */

/* Phases so short that thinking partners are met in each. */
static const struct umbra_wait_options all_phases = {.spin_cycles = 2000, .block_cycles = 80000};

Test(waitpkg, round_trips_through_all_phases)
{
    uint64_t parked = 0;

    /* not each time: the waiter may be without a processor just while its partner thinks */
    for (int tries = 0; tries < 20 && parked == 0; tries++) {
        rounds(false, &all_phases,
               (struct waitpkg_faults){.delay_per_mille = 100, .delay_cycles = 20000});
        parked = umbra_waiter_stats(&rig.there.waiter).ended[UMBRA_ENDED_PARK];
    }
    cr_assert_gt(parked, 0u);
}

Test(waitpkg, the_monitor_phase_ends_where_parking_begins)
{
    const struct umbra_wait_options options = {.spin_cycles = 1000, .block_cycles = 500000};
    const unsigned waits = 10;
    struct waitpkg_counters seen;

    start(&options, NULL);
    waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&policy);
    for (unsigned i = 0; i < waits; i++)
        cr_assert_eq(
            umbra_wait_while_equal(&waiter, word, 0, UINT64_MAX, umbra_deadline(LONG_NS / waits)),
            -ETIMEDOUT);
    seen = waitpkg_emulator_counters();
    cr_assert_gt(seen.umwait, 0u);
    cr_assert_leq(seen.umwait, waits * (2 + options.block_cycles / policy.slice_cycles));
}

/* ---- shadows ---- */

static _Thread_local bool is_owner; /* of the shadow, that is: waits for its end */

static bool slot_over(const void *line)
{
    uint32_t state = um_slot_look(&shadow_rig.shadow.slot);

    if (line != &shadow_rig.shadow.slot) /* the library tries the instructions on another */
        return false;
    return is_owner ? state != UM_SLOT_RUN : state != UM_SLOT_IDLE;
}

static void forks(const struct umbra_wait_options *wait, struct waitpkg_faults faults)
{
    struct umbra_shadow_options options = {.wait = *wait};
    int error;

    is_owner = true;
    faults.seed = shadow_rig.seed = test_seed();
    faults.over = slot_over;
    start(wait, &faults);
    shadow_rig.rounds = FORKS;
    shadow_rig.think_cycles = um_ns_to_cycles(THINK_NS);
    shadow_rig.deadline = umbra_deadline(SECONDS * 1000000000ull);
    error = shadow_create(&shadow_rig.shadow, &options);
    if (error == -ENODEV)
        cr_skip_test("one hardware thread only");
    cr_assert_eq(error, 0);
    shadow_rig_run(&shadow_rig);
    cr_assert_eq(shadow_destroy(&shadow_rig.shadow), 0);
    cr_assert_eq(shadow_rig.wrong, 0u);
    check_counters(shadow_rig_monitored(&shadow_rig));
}

Test(waitpkg, a_shadow_is_forked_and_joined)
{
    forks(&monitor_only, (struct waitpkg_faults){0});
}

Test(waitpkg, a_shadow_survives_spurious_wake_ups)
{
    forks(&monitor_only, (struct waitpkg_faults){.spurious_per_mille = 500});
}

Test(waitpkg, a_shadow_survives_lost_armings)
{
    forks(&monitor_only, (struct waitpkg_faults){.lost_per_mille = 250});
}

Test(waitpkg, a_shadow_survives_delays_around_arming)
{
    forks(&monitor_only, (struct waitpkg_faults){.delay_per_mille = 500, .delay_cycles = 100000});
}

Test(waitpkg, a_shadow_goes_through_all_phases)
{
    forks(&all_phases, (struct waitpkg_faults){.spurious_per_mille = 200,
                                               .lost_per_mille = 100,
                                               .delay_per_mille = 300,
                                               .delay_cycles = 50000});
    cr_assert_gt(umbra_waiter_stats(&shadow_rig.shadow.helper_waiter).ended[UMBRA_ENDED_PARK], 0u);
}

/* ---- would a broken loop be found? ---- */

/* A wait's result is in before the instruction runs that should have armed for it. */
static void store_before_arming(void *line)
{
    struct station *station = line;

    atomic_store(&station->word64, (uint64_t)1 << 32);
}

/*
 * um_wait_monitors() without its look between arming and waiting. All else is the same text, so
 * that what the tests below find is the missing look.
 */
static bool forgetful_wait(const struct um_wait_cond *cond, uint64_t deadline)
{
    struct um_wait_clock clock = {.now = um_cycles()};
    uint64_t until = um_deadline_cycles(deadline);

    while (clock.now < until) {
        uint64_t slice = um_min_u64(until, clock.now + policy.slice_cycles);

        (void)um_wait_arm(policy.backend, cond);
        um_arch_monitor_wait(policy.backend, slice, false);
        if (um_wait_look(cond))
            return true;
        clock.now = um_cycles();
    }
    return false;
}

Test(waitpkg, a_store_just_before_arming_is_seen_at_once)
{
    struct waitpkg_counters seen;

    start(&monitor_only,
          &(struct waitpkg_faults){.before_arming = store_before_arming, .over = station_over});
    waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&policy);
    cr_assert_eq(umbra_wait_while_equal(&waiter, &rig.there.word64, 0, UINT64_MAX,
                                        umbra_deadline(1000000000)),
                 UMBRA_ENDED_MONITOR);
    seen = waitpkg_emulator_counters();
    cr_assert_eq(seen.umonitor, 1u);
    cr_assert_eq(seen.umwait, 0u);
}

Test(waitpkg, a_loop_without_the_second_look_sleeps_through_that_store)
{
    const struct um_wait_cond cond = {&rig.there.word64, 0, UINT64_MAX, true, false};
    struct waitpkg_counters seen;

    start(&monitor_only,
          &(struct waitpkg_faults){.before_arming = store_before_arming, .over = station_over});
    cr_assert(forgetful_wait(&cond, umbra_deadline(1000000000)));
    seen = waitpkg_emulator_counters();
    cr_assert_eq(seen.umwait, 1u);
    cr_assert_eq(seen.slept_over, 1u);
    cr_assert_eq(seen.overslept, 1u);
}

static void *forgetful_partner(void *unused)
{
    uint64_t state = rig.seed;

    for (uint64_t round = 1; round <= FORGETFUL_ROUNDS; round++) {
        think(&state, rig.think_cycles);
        atomic_store(&rig.there.word64, round << 32);
        while (atomic_load(&rig.back.word64) != round)
            umbra_pause();
    }
    return unused;
}

/* Without the hook: some stores fall into the delay before arming by chance. */
Test(waitpkg, round_trips_find_a_loop_without_the_second_look)
{
    pthread_t partner;
    struct waitpkg_counters seen;

    rig.seed = test_seed() | 1;
    start(&monitor_only, &(struct waitpkg_faults){.seed = rig.seed,
                                                  .delay_per_mille = 1000,
                                                  .delay_cycles = 200000,
                                                  .over = station_over});
    rig.think_cycles = um_ns_to_cycles(THINK_NS);
    cr_assert_eq(pthread_create(&partner, NULL, forgetful_partner, NULL), 0);
    for (uint64_t round = 1; round <= FORGETFUL_ROUNDS; round++) {
        const struct um_wait_cond cond = {&rig.there.word64, (round - 1) << 32, UINT64_MAX, true,
                                          false};

        atomic_store(&rig.there.seen, cond.value);
        cr_assert(forgetful_wait(&cond, umbra_deadline(SECONDS * 1000000000ull)));
        atomic_store(&rig.back.word64, round);
    }
    pthread_join(partner, NULL);
    seen = waitpkg_emulator_counters();
    explain(&seen);
    cr_assert_gt(seen.slept_over, 0u);
    cr_assert_gt(seen.overslept, 0u);
}
