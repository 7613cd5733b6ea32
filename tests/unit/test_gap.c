/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The gap between two polls: how it is chosen, with invented measurements; what UMBRA_WAIT forces;
 * that everything works with every gap; and the probe between two processors.
 */
#define _GNU_SOURCE /* for sched_setaffinity() */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fibers.h"

/* ---- the choice ---- */

/* A machine that was invented: what a batch takes with each gap, and when it is interrupted. */
struct machine {
    uint32_t took[UM_GAPS];
    uint32_t batches;     /* made so far */
    uint32_t of[UM_GAPS]; /* the same by gap */
    uint32_t spared;      /* batches at the beginning that are not interrupted */
    uint32_t broken_each; /* later one in so many is interrupted; 0: none */
    uint64_t stops;       /* the batch at which the clock stops the measurement; 0: none */
};

static uint32_t batch(void *arg, uint32_t gap)
{
    struct machine *machine = arg;

    machine->of[gap]++;
    if (++machine->batches > machine->spared && machine->broken_each != 0 &&
        machine->batches % machine->broken_each == 0)
        return 0;
    return machine->took[gap];
}

/* All gaps take 1000, but for one. */
static struct machine with(uint32_t gap, uint32_t took)
{
    struct machine machine = {.batches = 0};

    for (uint32_t i = 0; i < UM_GAPS; i++)
        machine.took[i] = 1000;
    machine.took[gap] = took;
    return machine;
}

static uint32_t chosen(struct machine *machine, struct um_figures *figures)
{
    return um_tune(batch, machine, UMBRA_GAP_FENCE, UMBRA_NEVER, figures);
}

Test(gap, the_fastest_is_chosen)
{
    for (uint32_t gap = 0; gap < UM_GAPS; gap++) {
        struct machine machine = with(gap, 900);
        struct um_figures figures;

        if (!um_gap_name(gap))
            continue;
        cr_expect_eq(chosen(&machine, &figures), gap);
        cr_expect_eq(figures.of[gap], 900);
        cr_expect_eq(figures.of[UMBRA_GAP_FENCE], gap == UMBRA_GAP_FENCE ? 900 : 1000);
    }
}

Test(gap, the_usual_one_stays_unless_another_is_faster_by_a_sixteenth)
{
    struct machine equal = with(UMBRA_GAP_PAUSE, 1000);
    struct machine nearly = with(UMBRA_GAP_PAUSE, 945);
    struct machine faster = with(UMBRA_GAP_PAUSE, 930);
    struct um_figures figures;

    cr_expect_eq(chosen(&equal, &figures), UMBRA_GAP_FENCE);
    cr_expect_eq(chosen(&nearly, &figures), UMBRA_GAP_FENCE);
    cr_expect_eq(chosen(&faster, &figures), UMBRA_GAP_PAUSE);
}

/* All others would take most of the time. */
Test(gap, after_some_rounds_only_the_fastest_and_the_usual_one_go_on)
{
    struct machine machine = with(UMBRA_GAP_FENCE, 1000);
    struct um_figures figures;

    machine.took[UMBRA_GAP_CLOCK] = 800;
    machine.took[UMBRA_GAP_PAUSE] = 880;
    machine.took[UMBRA_GAP_PAUSES] = 860;
    machine.took[UMBRA_GAP_NONE] = 900;
    cr_expect_eq(chosen(&machine, &figures), UMBRA_GAP_CLOCK);
    for (uint32_t gap = 0; gap < UM_GAPS; gap++) {
        bool goes_on = gap > UMBRA_GAP_NONE && gap <= UMBRA_GAP_CLOCK;
        uint32_t rounds = goes_on ? UM_TUNE_ROUNDS : UM_TUNE_ROUNDS_ALL;

        cr_expect_eq(machine.of[gap], um_gap_name(gap) ? rounds : 0, "%u", gap);
        cr_expect_eq(figures.of[gap], um_gap_name(gap) ? machine.took[gap] : 0, "%u", gap);
    }
}

Test(gap, a_machine_that_interrupts_every_round_keeps_the_usual_one)
{
    struct machine machine = with(UMBRA_GAP_PAUSE, 10);
    struct um_figures figures;

    machine.broken_each = 3;
    cr_expect_eq(chosen(&machine, &figures), UMBRA_GAP_FENCE);
    cr_expect_eq(figures.of[UMBRA_GAP_PAUSE], 0, "nothing is taken for measured");
}

Test(gap, a_few_interruptions_do_not_matter)
{
    struct machine machine = with(UMBRA_GAP_PAUSE, 900);
    struct um_figures figures;

    machine.broken_each = 40;
    cr_expect_eq(chosen(&machine, &figures), UMBRA_GAP_PAUSE);
}

Test(gap, too_few_rounds_before_the_deadline_keep_the_usual_one)
{
    struct machine machine = with(UMBRA_GAP_PAUSE, 10);
    struct um_figures figures;

    cr_expect_eq(um_tune(batch, &machine, UMBRA_GAP_FENCE, 0, &figures), UMBRA_GAP_FENCE);
    cr_expect_eq(machine.batches, 0, "the deadline had passed");
}

Test(gap, a_batch_has_about_the_same_length_however_far_a_line_travels)
{
    uint32_t ns = (uint32_t)(um_ns_to_cycles(16000) / 1000); /* 1/16 cycles */
    struct um_tune_size near = um_tune_fit(50 * ns);
    struct um_tune_size far = um_tune_fit(700 * ns);
    struct um_tune_size unknown = um_tune_fit(0);

    cr_expect_eq(near.warm + near.turns, UM_TUNE_TURNS_MOST);
    cr_expect_leq(far.warm + far.turns, 21);
    cr_expect_geq(far.warm + far.turns, UM_TUNE_TURNS_LEAST);
    cr_expect_eq(unknown.warm + unknown.turns, UM_TUNE_TURNS_LEAST);
    cr_expect_eq(um_tune_took(um_ns_to_cycles(200000), near), 0, "it was interrupted");
    cr_expect_gt(um_tune_took(1, near), 0);
}

/* ---- what is forced ---- */

Test(gap, umbra_wait_names_a_gap_for_both_places_or_for_one)
{
    struct um_gaps gaps;

    setenv("UMBRA_WAIT", "pause,gap=fence+write,other=pauses", 1);
    cr_assert_eq(um_gaps_forced(&gaps), 0);
    cr_expect_eq(gaps.of[UMBRA_POLL_SLOT], UMBRA_GAP_FENCE | UMBRA_GAP_WRITE);
    cr_expect_eq(gaps.of[UMBRA_POLL_OTHER], UMBRA_GAP_PAUSES);
    setenv("UMBRA_WAIT", "slot=none", 1);
    cr_assert_eq(um_gaps_forced(&gaps), 0);
    cr_expect_eq(gaps.of[UMBRA_POLL_SLOT], UMBRA_GAP_NONE);
    cr_expect_eq(gaps.of[UMBRA_POLL_OTHER], UM_GAPS);
    setenv("UMBRA_WAIT", "pause", 1);
    cr_assert_eq(um_gaps_forced(&gaps), 0);
    cr_expect_eq(gaps.of[UMBRA_POLL_OTHER], UM_GAPS);
    unsetenv("UMBRA_WAIT");
    cr_assert_eq(um_gaps_forced(&gaps), 0);
    cr_expect_eq(gaps.of[UMBRA_POLL_OTHER], UM_GAPS);
}

Test(gap, what_umbra_wait_names_wrongly_is_refused_in_one_line)
{
    static const char *const wrong[][2] = {
        {"gap=lfence", "UMBRA_WAIT: gap=lfence: no gap is called so; there are none, pause"},
        {"event=pause",
         "UMBRA_WAIT: event=pause: no place is called so; there are gap (both), slot"},
        {"slot=pause,slot=fence", "UMBRA_WAIT: slot=fence: the place is named twice"},
        {"pause,gap=", "UMBRA_WAIT: gap=: no gap is called so"},
        {"pause,gap=fence+", "UMBRA_WAIT: gap=fence+: no gap is called so"},
        {"everywhere=pause", "UMBRA_WAIT: everywhere=pause: no place is called so; there are gap"},
        {"pause,pause", "UMBRA_WAIT: pause: no place is called so"},
        {"pause,,gap=none", "UMBRA_WAIT=pause,,gap=none: nothing between commas"},
    };
    struct umbra_wait_policy policy;
    struct umbra_options options = {.cores = 1};
    struct umbra_runtime *runtime;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        setenv("UMBRA_WAIT", wrong[i][0], 1);
        cr_expect_eq(umbra_wait_policy_init(&policy, NULL), -EINVAL, "%s", wrong[i][0]);
        cr_expect_eq(umbra_runtime_create(&options, &runtime), -EINVAL, "%s", wrong[i][0]);
        cr_expect(strstr(umbra_last_error_text(), wrong[i][1]) != NULL, "%s",
                  umbra_last_error_text());
    }
    unsetenv("UMBRA_WAIT");
}

Test(gap, a_forced_gap_is_that_of_a_policy)
{
    struct umbra_wait_options polite = {.polite = true};
    struct umbra_wait_policy policy;

    unsetenv("UMBRA_WAIT");
    cr_assert_eq(umbra_wait_policy_init(&policy, &polite), 0);
    cr_expect_eq(policy.gap, UMBRA_GAP_PAUSE);
    setenv("UMBRA_WAIT", "other=clock+write", 1);
    cr_assert_eq(umbra_wait_policy_init(&policy, &polite), 0);
    cr_expect_eq(policy.gap, UMBRA_GAP_CLOCK, "several may wait: none asks for the line to write");
    cr_expect_gt(policy.batch, 0);
    unsetenv("UMBRA_WAIT");
}

static void counts_member(unsigned member, unsigned members, void *arg)
{
    (void)members;
    ((unsigned *)arg)[member]++;
}

Test(gap, a_team_works_with_a_forced_gap)
{
    struct umbra_team_options options = {.members = 2};
    unsigned counts[2] = {0, 0};
    struct umbra_team *team;

    setenv("UMBRA_WAIT", "pause,gap=clock", 1);
    cr_assert_eq(umbra_team_create(&options, &team), 0);
    for (int i = 0; i < 10; i++)
        cr_expect_eq(umbra_team_run(team, 0, counts_member, counts), 0);
    cr_expect_eq(umbra_team_destroy(team), 0);
    cr_expect(counts[0] == 10 && counts[1] == 10);
    unsetenv("UMBRA_WAIT");
}

/* ---- everything works with every gap ---- */

#define TURNS 200

struct pair {
    struct umbra_event there, back;
    int answered, spawned;
};

static void *answers(void *arg)
{
    struct pair *pair = arg;

    for (int i = 0; i < TURNS; i++) {
        umbra_event_wait(&pair->there, UMBRA_NEVER);
        pair->answered++;
        umbra_event_signal(&pair->back);
    }
    return NULL;
}

static void *counts(void *arg)
{
    ((struct pair *)arg)->spawned++;
    return NULL;
}

static void *calls(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct pair *pair = arg;
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_spawn_with(NULL, &there, answers, pair, &fiber), 0);
    for (int i = 0; i < TURNS; i++) {
        umbra_event_signal(&pair->there);
        umbra_event_wait(&pair->back, UMBRA_NEVER);
    }
    umbra_join(fiber, UMBRA_NEVER, NULL);
    for (int i = 0; i < TURNS; i++) {
        cr_expect_eq(umbra_spawn_with(NULL, &there, counts, pair, &fiber), 0);
        umbra_join(fiber, UMBRA_NEVER, NULL);
    }
    return NULL;
}

/* Two cores hand over to each other, and a fiber and a thread do. */
static void hand_over(void)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;
    struct pair pair;

    pair.there = (struct umbra_event)UMBRA_EVENT_INIT;
    pair.back = (struct umbra_event)UMBRA_EVENT_INIT;
    pair.answered = pair.spawned = 0;
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0, "%s", umbra_last_error_text());
    cr_expect_eq(umbra_runtime_run(runtime, calls, &pair), 0);
    cr_expect_eq(pair.answered, TURNS);
    cr_expect_eq(pair.spawned, TURNS);
    umbra_runtime_destroy(runtime);
}

static void add_one(void *count)
{
    ++*(int *)count;
}

/* A shadow runs functions; true if this machine has a place for one. */
static bool fork_and_join(struct umbra_shadow *shadow)
{
    int count = 0;
    int error = shadow_create(shadow, NULL);

    if (error == -ENODEV || error == -ENOSPC)
        return false;
    cr_assert_eq(error, 0, "%s", umbra_last_error_text());
    for (int i = 0; i < TURNS; i++) {
        cr_expect_eq(shadow_fork(shadow, add_one, &count), 0);
        cr_expect_eq(shadow_join(shadow), 0);
    }
    cr_expect_eq(count, TURNS);
    cr_expect_eq(shadow_destroy(shadow), 0);
    return true;
}

Test(gap, every_gap_works_everywhere)
{
    for (uint32_t gap = 0; gap < UM_GAPS; gap++) {
        struct umbra_shadow shadow;
        char text[64];

        if (!um_gap_name(gap))
            continue;
        snprintf(text, sizeof(text), "gap=%s", um_gap_name(gap));
        setenv("UMBRA_WAIT", text, 1);
        hand_over();
        if (fork_and_join(&shadow)) {
            cr_expect_eq(shadow.policy.gap, gap);
        }
    }
    unsetenv("UMBRA_WAIT");
}

Test(gap, a_measured_gap_works_everywhere_and_is_kept)
{
    struct umbra_shadow shadow;

    unsetenv("UMBRA_WAIT");
    for (int i = 0; i < 2; i++) {
        hand_over();
        fork_and_join(&shadow);
    }
}

/* ---- between two processors ---- */

/* The n-th processor that the caller may use, or -1. */
static int nth_cpu(int n)
{
    cpu_set_t set;

    cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set) && n-- == 0)
            return cpu;
    return -1;
}

/* Probes two processors of this machine as a kind of pair; false: it has one, or is too busy. */
static bool probed(enum umbra_poll_pair pair, uint32_t place)
{
    for (int attempt = 0; attempt < 20 && !um_pair_known(pair, place); attempt++)
        um_probe_pair(pair, place, nth_cpu(0), nth_cpu(1));
    return um_pair_known(pair, place);
}

static void expect_probed_once(uint32_t place)
{
    struct um_pair *pair = &um_machine.pair[UMBRA_PAIR_FARTHER][place];

    cr_expect_eq(um_poll_gap(UMBRA_PAIR_FARTHER, place), UMBRA_GAP_USUAL);
    if (!probed(UMBRA_PAIR_FARTHER, place))
        cr_skip_test("one processor, or others keep both");
    cr_expect_not(um_pair_known(UMBRA_PAIR_L3, place));
    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        cr_expect_eq(pair->figures.of[gap] != 0, um_gap_name(gap) != NULL);
    pair->gap = UMBRA_GAP_CLOCK;
    um_probe_pair(UMBRA_PAIR_FARTHER, place, nth_cpu(0), nth_cpu(1));
    cr_expect_eq(um_poll_gap(UMBRA_PAIR_FARTHER, place), UMBRA_GAP_CLOCK);
    cr_expect_eq(um_poll_gap(UMBRA_PAIR_CORE, place), UMBRA_GAP_PAUSE, "siblings");
}

Test(gap, a_place_is_probed_once_for_a_kind_of_pair_and_by_itself)
{
    unsetenv("UMBRA_WAIT");
    expect_probed_once(UMBRA_POLL_SLOT);
    cr_expect_not(um_pair_known(UMBRA_PAIR_FARTHER, UMBRA_POLL_OTHER));
    expect_probed_once(UMBRA_POLL_OTHER);
}

Test(gap, nothing_is_probed_for_a_place_whose_gap_is_forced)
{
    setenv("UMBRA_WAIT", "slot=fence", 1);
    cr_expect_not(probed(UMBRA_PAIR_FARTHER, UMBRA_POLL_SLOT));
    unsetenv("UMBRA_WAIT");
}

Test(gap, nothing_is_measured_while_that_is_put_off)
{
    unsetenv("UMBRA_WAIT");
    um_machine_put_off(true);
    cr_expect_not(probed(UMBRA_PAIR_FARTHER, UMBRA_POLL_SLOT));
    cr_expect_eq(um_wake_ns(), UM_BLOCK_UNMEASURED_NS);
    cr_expect_eq(um_machine.wake_ns, 0);
    um_machine_put_off(false);
    cr_expect_eq(um_wake_ns(), um_machine.wake_ns);
    cr_expect_neq(um_machine.wake_ns, 0);
}

#ifndef UMBRA_POSIX_ONLY
Test(gap, a_processor_that_is_none_keeps_the_usual_gaps)
{
    unsetenv("UMBRA_WAIT");
    um_probe_pair(UMBRA_PAIR_FARTHER, UMBRA_POLL_OTHER, nth_cpu(0), 1 << 20);
    cr_expect_not(um_pair_known(UMBRA_PAIR_FARTHER, UMBRA_POLL_OTHER));
    um_probe_pair(UMBRA_PAIR_FARTHER, UMBRA_POLL_OTHER, -ENODEV, nth_cpu(0));
    cr_expect_not(um_pair_known(UMBRA_PAIR_FARTHER, UMBRA_POLL_OTHER));
    cr_expect_eq(um_poll_gap(UMBRA_PAIR_FARTHER, UMBRA_POLL_OTHER), UMBRA_GAP_USUAL);
}
#endif

Test(gap, the_caller_stays_where_it_is)
{
    cpu_set_t before, after;

    unsetenv("UMBRA_WAIT");
    cr_assert_eq(sched_getaffinity(0, sizeof(before), &before), 0);
    um_probe_pair(UMBRA_PAIR_FARTHER, UMBRA_POLL_OTHER, nth_cpu(0), nth_cpu(1));
    um_wake_measure();
    cr_assert_eq(sched_getaffinity(0, sizeof(after), &after), 0);
    cr_expect(CPU_EQUAL(&before, &after));
}

/* ---- processes and threads ---- */

static void *probes_canceled(void *returned)
{
    pthread_cancel(pthread_self());
    um_probe_pair(UMBRA_PAIR_FARTHER, UMBRA_POLL_OTHER, nth_cpu(0), nth_cpu(1));
    *(bool *)returned = true;
    pthread_testcancel();
    return NULL;
}

/* Else the threads that measure would go on with the frame of a thread that is gone. */
Test(gap, a_thread_that_is_canceled_ends_after_its_probe)
{
    bool returned = false;
    void *result = NULL;
    pthread_t thread;

    unsetenv("UMBRA_WAIT");
    cr_assert_eq(pthread_create(&thread, NULL, probes_canceled, &returned), 0);
    cr_assert_eq(pthread_join(thread, &result), 0);
    cr_expect_eq(result, PTHREAD_CANCELED);
    cr_expect(returned);
    cr_expect_neq(
        um_atomic_load(&um_machine.pair[UMBRA_PAIR_FARTHER][UMBRA_POLL_OTHER].state, relaxed),
        UM_PAIR_PROBED);
}

/* Runs fn in a child process, which must succeed. */
static void in_process(void (*fn)(void))
{
    int status = -1;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        alarm(20);
        fn();
        _exit(0);
    }
    cr_expect_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
}

static void on_one_processor(void)
{
    struct umbra_topology *topology;
    struct umbra_shadow shadow;
    unsigned cpus;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    cpus = umbra_topology_info(topology)->cpus;
    umbra_topology_destroy(topology);
    if (cpus > 1) /* a sanitizer's own thread still uses them */
        return;
    hand_over();
    cr_expect_not(fork_and_join(&shadow));
    for (uint32_t place = 0; place < UMBRA_POLL_PLACES; place++)
        cr_expect_not(um_pair_known(UMBRA_PAIR_L3, place) ||
                      um_pair_known(UMBRA_PAIR_FARTHER, place));
}

Test(gap, on_one_processor_nothing_is_measured)
{
    unsetenv("UMBRA_WAIT");
    in_process(on_one_processor);
}

Test(gap, a_child_of_fork_has_what_its_parent_has_measured)
{
    struct umbra_shadow shadow;

    unsetenv("UMBRA_WAIT");
    in_process(hand_over); /* before, and after the parent has */
    hand_over();
    fork_and_join(&shadow);
    in_process(hand_over);
}

static void *makes_runtimes(void *arg)
{
    for (int i = 0; i < 3; i++)
        hand_over();
    return arg;
}

Test(gap, threads_may_measure_at_the_same_time)
{
    pthread_t thread[3];

    unsetenv("UMBRA_WAIT");
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, makes_runtimes, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}
