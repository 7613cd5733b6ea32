/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Teams. Linked with --wrap for pthread_create and hwloc_set_cpubind, so that each can be made to
 * fail, and for sched_yield, so that its calls can be counted.
 */
#define _GNU_SOURCE /* for sched_getaffinity() */
#include "described.h"

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <umbra/core.h>
#include <umbra/team.h>

/* ---- failures on order ---- */

static int fail_thread;                   /* the call with this number fails; 0: none */
static atomic_bool fail_binds_of_members; /* each in another thread than the test's */
static pthread_t owner;

static bool fails(int *countdown)
{
    return *countdown > 0 && --*countdown == 0;
}

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    return fails(&fail_thread) ? EAGAIN : __real_pthread_create(t, a, fn, arg);
}

int __real_hwloc_set_cpubind(hwloc_topology_t, hwloc_const_cpuset_t, int);
int __wrap_hwloc_set_cpubind(hwloc_topology_t topology, hwloc_const_cpuset_t set, int flags)
{
    if (fail_binds_of_members && !pthread_equal(pthread_self(), owner)) {
        errno = EINVAL; /* as Linux says that a processor is offline */
        return -1;
    }
    return __real_hwloc_set_cpubind(topology, set, flags);
}

/* ---- yields ---- */

static atomic_ulong yields;
static _Thread_local unsigned long own_yields; /* of the calling thread */

int __real_sched_yield(void);
int __wrap_sched_yield(void)
{
    yields++;
    own_yields++;
    return __real_sched_yield();
}

/* ---- what the tests share ---- */

#define MOST 8 /* members */

static struct umbra_team *create(unsigned members, enum umbra_wait_mode mode)
{
    struct umbra_team_options options = {.members = members, .wait.mode = mode};
    struct umbra_team *team = NULL;

    cr_assert_eq(umbra_team_create(&options, &team), 0);
    return team;
}

static cpu_set_t binding(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    return set;
}

/* What each part does: counts, and keeps what it was given. */
struct counts {
    struct umbra_team *team;
    unsigned members;
    uint64_t of[UMBRA_TEAM_MOST]; /* plain: a part of a run is executed by one thread */
};

static void count(unsigned member, unsigned members, void *arg)
{
    struct counts *counts = arg;

    if (member == 0)
        counts->members = members;
    counts->of[member]++;
}

static void check_counts(const struct counts *counts, unsigned members, uint64_t each)
{
    cr_assert_eq(counts->members, members);
    for (unsigned i = 0; i < UMBRA_TEAM_MOST; i++)
        cr_assert_eq(counts->of[i], i < members ? each : 0);
}

static void run_often(unsigned members, enum umbra_wait_mode mode, uint64_t runs)
{
    struct umbra_team *team = create(members, mode);
    struct counts counts = {.team = team};

    for (uint64_t run = 1; run <= runs; run++) {
        cr_assert_eq(umbra_team_run(team, 0, count, &counts), 0);
        check_counts(&counts, members, run);
    }
    cr_assert_eq(umbra_team_destroy(team), 0);
}

/* ---- runs ---- */

Test(team, runs_a_function_once_for_each_member)
{
    for (unsigned members = 1; members <= MOST; members++)
        run_often(members, UMBRA_WAIT_TWO_PHASE, 300);
}

Test(team, works_in_every_wait_mode)
{
    run_often(2, UMBRA_WAIT_SPIN, 30);
    run_often(2, UMBRA_WAIT_MONITOR, 30);
    run_often(2, UMBRA_WAIT_PARK, 300);
    run_often(3, UMBRA_WAIT_PARK, 300);
}

static void add_up(unsigned member, unsigned members, void *arg)
{
    uint64_t **lists = arg;

    for (unsigned i = member; i < 64; i += members)
        lists[1][i] += lists[0][i];
}

static void take_over(unsigned member, unsigned members, void *arg)
{
    uint64_t **lists = arg;

    for (unsigned i = member; i < 64; i += members)
        lists[0][i] = lists[1][63 - i];
}

Test(team, shows_each_run_what_the_runs_and_the_caller_before_it_wrote)
{
    struct umbra_team *team = create(4, UMBRA_WAIT_TWO_PHASE);
    uint64_t a[64], b[64] = {0}, wanted_a[64], wanted_b[64] = {0};
    uint64_t *lists[2] = {a, b}, *wanted[2] = {wanted_a, wanted_b};

    for (unsigned i = 0; i < 64; i++)
        a[i] = wanted_a[i] = i;
    for (int step = 0; step < 500; step++) {
        umbra_team_run(team, 0, add_up, lists);
        umbra_team_run(team, 0, take_over, lists);
        a[step % 64] += (uint64_t)step;
        add_up(0, 1, wanted);
        take_over(0, 1, wanted);
        wanted_a[step % 64] += (uint64_t)step;
    }
    cr_expect_arr_eq(a, wanted_a, sizeof(a));
    cr_expect_arr_eq(b, wanted_b, sizeof(b));
    cr_assert_eq(umbra_team_destroy(team), 0);
}

/* As the members of a team on one processor are there by turns only, their parts are taken. */
Test(team, takes_the_parts_of_members_that_are_not_there)
{
    struct umbra_team *team = create(32, UMBRA_WAIT_TWO_PHASE);
    struct counts counts = {.team = team};
    struct um_team_stats stats = {0};
    uint64_t runs = 0;

    while (stats.taken == 0 && runs < 20000) {
        cr_assert_eq(umbra_team_run(team, 0, count, &counts), 0);
        runs++;
        um_team_stats(team, &stats);
    }
    check_counts(&counts, 32, runs);
    cr_expect_gt(stats.taken, 0);
    cr_expect_eq(stats.runs, runs);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

/* Makes a team whose places are all the processor of the test, and runs it once. */
static void run_crowded(enum umbra_wait_mode mode)
{
    char here[16];
    struct umbra_team_options options = {.members = 3, .cpus = here, .wait.mode = mode};
    struct umbra_team *team = NULL;
    struct counts counts = {0};

    snprintf(here, sizeof(here), "%d", sched_getcpu());
    cr_assert_eq(umbra_team_create(&options, &team), 0);
    cr_assert_eq(umbra_team_run(team, 0, count, &counts), 0);
    check_counts(&counts, 3, 1);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

Test(team, gives_a_shared_processor_to_the_other_members_before_it_sleeps)
{
    run_crowded(UMBRA_WAIT_PARK);
    cr_expect_eq(yields, 0);
    for (int team = 0; team < 1000 && yields == 0; team++)
        run_crowded(UMBRA_WAIT_TWO_PHASE);
    cr_expect_gt(yields, 0);
}

/* ---- runs of some members ---- */

static void run_some(struct umbra_team *team, unsigned members, struct counts *counts)
{
    uint64_t before[MOST];

    memcpy(before, counts->of, sizeof(before));
    cr_assert_eq(umbra_team_run(team, members, count, counts), 0);
    cr_assert_eq(counts->members, members);
    for (unsigned i = 0; i < MOST; i++)
        cr_assert_eq(counts->of[i], before[i] + (i < members), "%u: part %u", members, i);
}

static void run_all_sizes(enum umbra_wait_mode mode, unsigned team_of)
{
    struct umbra_team *team = create(team_of, mode);
    struct counts counts = {.team = team};

    for (unsigned step = 0; step < 600; step++)
        run_some(team, 1 + step * step * 7 % team_of, &counts);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

Test(team, a_run_takes_as_many_members_as_it_says)
{
    run_all_sizes(UMBRA_WAIT_TWO_PHASE, MOST);
    run_all_sizes(UMBRA_WAIT_PARK, 3);
    run_all_sizes(UMBRA_WAIT_PARK, 5);
}

Test(team, a_run_of_more_members_than_the_team_has_is_refused)
{
    struct umbra_team *team = create(2, UMBRA_WAIT_TWO_PHASE);
    struct counts counts = {.team = team};

    cr_expect_eq(umbra_team_run(team, 3, count, &counts), -EINVAL);
    cr_expect_str_eq(umbra_last_error_text(), "a run of 3 members: the team has 2");
    check_counts(&counts, 0, 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

/* Another way to sleep in the word `parked`, at a bell that is none; relaxed: a mark of the test's. */
#define ASLEEP (UM_OS_AT_BELL + 1000000)

static void mark_sleepers(struct umbra_team *team, uint32_t from, uint32_t to)
{
    for (unsigned i = 2; i < MOST; i++)
        um_atomic_cas(&team->member[i].waiter.park.parked, &(uint32_t){from}, to, relaxed, relaxed);
}

/* True if so many runs of two leave the other members asleep, and their waiters as they were. */
static bool leave_the_others_alone(struct umbra_team *team, int runs, struct counts *counts)
{
    bool alone = true;

    mark_sleepers(team, UM_OS_AT_FUTEX, ASLEEP);
    while (runs-- > 0)
        run_some(team, 2, counts);
    for (unsigned i = 2; i < MOST; i++)
        alone = alone && um_atomic_load(&team->member[i].waiter.park.parked, relaxed) == ASLEEP;
    mark_sleepers(team, ASLEEP, UM_OS_AT_FUTEX);
    return alone;
}

Test(team, runs_of_two_leave_the_lines_of_the_others_alone)
{
    struct umbra_team *team = create(MOST, UMBRA_WAIT_PARK);
    struct counts counts = {.team = team};
    int tries = 1;

    run_some(team, MOST, &counts);
    while (!leave_the_others_alone(team, 1000, &counts) && tries < 100)
        tries++; /* one of them has just seen that it is left out */
    cr_expect_lt(tries, 100);
    run_some(team, MOST, &counts);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

/* ---- parts that stay ---- */

static _Thread_local unsigned self_plus_1; /* the member that the thread is */

static void check_self(unsigned member, unsigned members, void *arg)
{
    struct counts *counts = arg;

    (void)members;
    if (self_plus_1 == 0)
        self_plus_1 = member + 1;
    counts->of[member] += self_plus_1 == member + 1;
}

/* Up to so many runs in a second, all parts by their members' threads. */
static void keep_parts(struct umbra_team_options options, uint64_t most)
{
    uint64_t until = umbra_deadline(1000000000), runs = 0;
    struct counts counts = {.team = NULL};
    struct um_team_stats stats;
    struct umbra_team *team;

    options.parts_stay = true;
    cr_assert_eq(umbra_team_create(&options, &team), 0);
    while (runs < most && (runs < 10 || umbra_now_ns() < until)) {
        cr_assert_eq(umbra_team_run(team, 0, check_self, &counts), 0);
        runs++;
    }
    for (unsigned i = 0; i < options.members; i++)
        cr_expect_eq(counts.of[i], runs, "part %u", i);
    um_team_stats(team, &stats);
    cr_expect_eq(stats.taken, 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

Test(team, parts_that_stay_see_their_own_threads_variables)
{
    char here[16];

    snprintf(here, sizeof(here), "%d", sched_getcpu());
    keep_parts((struct umbra_team_options){.members = 2}, 200000);
    keep_parts((struct umbra_team_options){.members = 4, .cpus = here}, 2000);
    keep_parts((struct umbra_team_options){.members = 3, .any_thread = true}, 20000);
}

/* ---- barriers ---- */

#define PHASES 40

struct phases {
    struct umbra_team *team;
    uint64_t come[MOST]; /* plain: ordered by the barriers */
    uint64_t wrong[MOST];
};

/* Between two barriers no part writes what another one reads. */
static void meet(unsigned member, unsigned members, void *arg)
{
    struct phases *phases = arg;

    for (uint64_t phase = 1; phase <= PHASES; phase++) {
        phases->come[member] = phase;
        umbra_team_barrier(phases->team, member);
        for (unsigned i = 0; i < members; i++)
            phases->wrong[member] += phases->come[i] != phase;
        umbra_team_barrier(phases->team, UMBRA_TEAM_SELF);
    }
}

static void meet_often(unsigned members, enum umbra_wait_mode mode)
{
    struct phases phases = {.team = create(members, mode)};

    for (int run = 0; run < 5; run++) {
        cr_assert_eq(umbra_team_run(phases.team, 0, meet, &phases), 0);
        for (unsigned i = 0; i < members; i++) {
            cr_assert_eq(phases.come[i], PHASES);
            cr_assert_eq(phases.wrong[i], 0);
        }
    }
    cr_assert_eq(umbra_team_destroy(phases.team), 0);
}

Test(team, a_barrier_opens_when_all_parts_have_come)
{
    for (unsigned members = 1; members <= MOST; members++)
        meet_often(members, UMBRA_WAIT_TWO_PHASE);
}

Test(team, a_barrier_wakes_parts_that_sleep)
{
    meet_often(2, UMBRA_WAIT_PARK);
    meet_often(5, UMBRA_WAIT_PARK);
}

/* Runs of other sizes, one after another, with barriers: no part counts those that it missed. */
static void meet_in_all_sizes(enum umbra_wait_mode mode)
{
    struct phases phases = {.team = create(MOST, mode)};

    for (unsigned step = 0; step < 40; step++) {
        unsigned members = 1 + step * step * 3 % MOST;

        cr_assert_eq(umbra_team_run(phases.team, members, meet, &phases), 0);
        for (unsigned i = 0; i < members; i++)
            cr_assert_eq(phases.wrong[i], 0, "a run of %u, part %u", members, i);
    }
    cr_assert_eq(umbra_team_destroy(phases.team), 0);
}

Test(team, barriers_meet_in_runs_of_any_size)
{
    meet_in_all_sizes(UMBRA_WAIT_TWO_PHASE);
    meet_in_all_sizes(UMBRA_WAIT_PARK);
}

/* A part of an outer run, in which another team runs: the part 0 of that meets in the outer, too. */
struct nest {
    struct phases *outer;
    unsigned member;
    struct phases inner;
};

static void meet_in_both(unsigned member, unsigned members, void *arg)
{
    struct nest *nest = arg;

    meet(member, members, &nest->inner);
    if (member == 0)
        meet(nest->member, 2, nest->outer);
    meet(member, members, &nest->inner);
}

static void run_inner(unsigned member, unsigned members, void *arg)
{
    struct nest *nest = (struct nest *)arg + member;

    (void)members;
    cr_assert_eq(umbra_team_run(nest->inner.team, 0, meet_in_both, nest), 0);
    meet(member, members, nest->outer);
}

Test(team, parts_meet_by_themselves_from_runs_of_other_teams_inside_them)
{
    struct umbra_team_options inner = {
        .members = 3, .any_thread = true, .bind = UMBRA_TEAM_BIND_NONE};
    struct phases outer = {.team = create(2, UMBRA_WAIT_TWO_PHASE)};
    struct nest nests[2] = {{&outer, 0, {0}}, {&outer, 1, {0}}};

    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(umbra_team_create(&inner, &nests[i].inner.team), 0);
    cr_assert_eq(umbra_team_run(outer.team, 0, run_inner, nests), 0);
    for (unsigned i = 0; i < 2; i++) {
        cr_expect_eq(outer.wrong[i], 0);
        for (unsigned j = 0; j < 3; j++)
            cr_expect_eq(nests[i].inner.wrong[j], 0);
        cr_assert_eq(umbra_team_destroy(nests[i].inner.team), 0);
    }
    cr_assert_eq(umbra_team_destroy(outer.team), 0);
}

/* ---- callers ---- */

static void run_inside(unsigned member, unsigned members, void *arg)
{
    struct counts *counts = arg;
    int error = umbra_team_run(counts->team, 0, count, counts);

    (void)members;
    counts->of[member] =
        (error == -EBUSY || error == -EPERM) && umbra_team_destroy(counts->team) == error;
}

static void *run_outside(void *arg)
{
    struct counts *counts = arg;

    counts->of[0] = umbra_team_run(counts->team, 0, count, counts) == -EPERM &&
                    umbra_team_destroy(counts->team) == -EPERM;
    return NULL;
}

Test(team, refuses_a_run_inside_a_run_and_by_another_thread)
{
    struct umbra_team *team = create(2, UMBRA_WAIT_TWO_PHASE);
    struct counts counts = {.team = team};
    pthread_t thread;

    cr_assert_eq(umbra_team_run(team, 0, run_inside, &counts), 0);
    cr_expect(counts.of[0] == 1 && counts.of[1] == 1);
    counts.of[0] = 0;
    cr_assert_eq(pthread_create(&thread, NULL, run_outside, &counts), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(counts.of[0], 1);
    cr_assert_eq(umbra_team_destroy(team), 0);
    cr_expect_eq(umbra_team_destroy(NULL), 0);
}

static void *team_of_fiber(void *arg)
{
    struct umbra_team *team = create(3, UMBRA_WAIT_TWO_PHASE);
    struct counts *counts = arg;

    for (int i = 0; i < 100; i++)
        cr_assert_eq(umbra_team_run(team, 0, count, counts), 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
    return NULL;
}

Test(team, a_fiber_may_own_a_team)
{
    struct counts counts = {0};

    cr_assert_eq(umbra_run(NULL, team_of_fiber, &counts), 0);
    check_counts(&counts, 3, 100);
}

Test(team, a_child_process_has_no_members)
{
    struct umbra_team *team = create(2, UMBRA_WAIT_TWO_PHASE);
    struct counts counts = {.team = team};
    int status = -1;
    pid_t child;

    cr_assert_eq(umbra_team_run(team, 0, count, &counts), 0);
    child = fork();
    if (child == 0) {
        bool refused = umbra_team_run(team, 0, count, &counts) == -ESRCH;

        _exit(!refused || umbra_team_destroy(team) != 0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    cr_assert_eq(umbra_team_run(team, 0, count, &counts), 0);
    check_counts(&counts, 2, 2);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

/* ---- any thread ---- */

static struct umbra_team *create_for_any_thread(unsigned members)
{
    struct umbra_team_options options = {.members = members, .any_thread = true};
    struct umbra_team *team = NULL;

    cr_assert_eq(umbra_team_create(&options, &team), 0);
    return team;
}

static void in_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, fn, arg), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

/* A thread's visit to a team. */
struct visit {
    struct umbra_team *team;
    struct counts counts;
    pthread_t of_part_0;
    int result;
    bool is_part_0;
};

static void note_thread(unsigned member, unsigned members, void *arg)
{
    struct visit *visit = arg;

    count(member, members, &visit->counts);
    if (member == 0)
        visit->of_part_0 = pthread_self();
}

static void *runs_it(void *arg)
{
    struct visit *visit = arg;

    for (int run = 0; run < 300; run++) {
        visit->result = umbra_team_run(visit->team, 0, note_thread, visit);
        if (visit->result != 0)
            return NULL;
    }
    visit->is_part_0 = pthread_equal(visit->of_part_0, pthread_self());
    return NULL;
}

static void *destroys_it(void *arg)
{
    struct visit *visit = arg;

    visit->result = umbra_team_destroy(visit->team);
    return NULL;
}

Test(team, any_thread_runs_it_in_turn_as_member_0_and_destroys_it)
{
    struct umbra_team *team = create_for_any_thread(3);
    cpu_set_t before = binding(), after;
    struct visit visit;

    for (int thread = 0; thread < 4; thread++) {
        visit = (struct visit){.team = team};
        if (thread == 3)
            runs_it(&visit);
        else
            in_thread(runs_it, &visit);
        cr_expect_eq(visit.result, 0);
        cr_expect(visit.is_part_0);
        check_counts(&visit.counts, 3, 300);
    }
    after = binding();
    cr_expect(CPU_EQUAL(&before, &after));
    in_thread(destroys_it, &visit);
    cr_expect_eq(visit.result, 0);
}

/* The result of another thread's call inside a run. */
static void *visits_a_run(void *arg)
{
    struct visit *visit = arg;

    visit->result = umbra_team_run(visit->team, 0, count, &visit->counts);
    if (umbra_team_destroy(visit->team) != visit->result)
        visit->result = 0;
    return NULL;
}

static void send_a_visitor(unsigned member, unsigned members, void *arg)
{
    struct visit *visit = arg;
    pthread_t thread;

    (void)members;
    if (member != 0)
        visits_a_run(&visit[member]);
    else if (pthread_create(&thread, NULL, visits_a_run, &visit[0]) == 0)
        pthread_join(thread, NULL);
}

Test(team, another_thread_finds_it_busy_during_a_run)
{
    struct umbra_team *team = create_for_any_thread(2);
    struct visit visits[2] = {{.team = team}, {.team = team}};

    cr_assert_eq(umbra_team_run(team, 0, send_a_visitor, visits), 0);
    cr_expect_eq(visits[0].result, -EBUSY);
    cr_expect_eq(visits[1].result, -EBUSY);
    cr_expect_eq(umbra_team_run(team, 0, count, &visits[0].counts), 0);
    check_counts(&visits[0].counts, 2, 1);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

/* Several threads want it at once: each run that is not refused executes all its parts. */
static void *wants_it_often(void *arg)
{
    struct visit *visit = arg;
    uint64_t runs = 0;

    for (int try = 0; try < 2000 && visit->result == 0; try++) {
        int error = umbra_team_run(visit->team, 0, count, &visit->counts);

        runs += error == 0;
        visit->result = error == -EBUSY ? 0 : error;
    }
    for (unsigned i = 0; i < 3; i++)
        visit->result |= visit->counts.of[i] != runs;
    return NULL;
}

Test(team, threads_that_want_it_at_once_run_it_or_are_told)
{
    struct umbra_team *team = create_for_any_thread(3);
    static struct visit visits[3];
    pthread_t threads[3];

    for (int i = 0; i < 3; i++) {
        visits[i].team = team;
        cr_assert_eq(pthread_create(&threads[i], NULL, wants_it_often, &visits[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_eq(visits[i].result, 0);
    }
    cr_assert_eq(umbra_team_destroy(team), 0);
}

static void end_thread(unsigned member, unsigned members, void *arg)
{
    (void)members, (void)arg;
    if (member == 0)
        pthread_exit(NULL);
}

static void *ends_inside_a_run(void *arg)
{
    umbra_team_run(((struct visit *)arg)->team, 0, end_thread, NULL);
    return NULL;
}

Test(team, a_thread_that_ends_inside_a_run_leaves_a_team_that_any_thread_destroys)
{
    struct visit visit = {.team = create_for_any_thread(2)};

    in_thread(ends_inside_a_run, &visit);
    cr_expect_eq(umbra_team_run(visit.team, 0, count, &visit.counts), -EPERM);
    in_thread(destroys_it, &visit);
    cr_expect_eq(visit.result, 0);
}

static void team_in_child(struct umbra_team *team, struct counts *counts)
{
    int error = umbra_team_run(team, 0, count, counts);

    _exit(error != -ESRCH || umbra_team_destroy(team) != 0);
}

Test(team, a_child_process_has_no_members_for_any_thread_either)
{
    struct umbra_team *team = create_for_any_thread(2);
    struct counts counts = {.team = team};
    int status = -1;
    pid_t child = fork();

    if (child == 0)
        team_in_child(team, &counts);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

/* ---- places ---- */

Test(team, has_a_member_for_each_core_and_gives_the_owner_its_binding_back)
{
    struct umbra_topology *topology = NULL;
    struct um_team_stats stats;
    struct umbra_team *team;
    cpu_set_t before, after;
    unsigned quota, cores;

    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    cr_assert_eq(sched_getaffinity(0, sizeof(before), &before), 0);
    cr_assert_eq(umbra_team_create(NULL, &team), 0);
    um_team_stats(team, &stats);
    quota = umbra_topology_info(topology)->quota;
    cores = umbra_topology_info(topology)->cores;
    cr_expect_eq(stats.members, quota != 0 && quota < cores ? quota : cores);
    for (unsigned i = 0; i < stats.members; i++)
        for (unsigned j = 0; j < i; j++)
            cr_expect_neq(umbra_topology_shared(topology, stats.cpus[i], stats.cpus[j]),
                          UMBRA_SHARED_CORE);
    cr_assert_eq(umbra_team_destroy(team), 0);
    cr_assert_eq(sched_getaffinity(0, sizeof(after), &after), 0);
    cr_expect(CPU_EQUAL(&before, &after));
    umbra_topology_destroy(topology);
}

/* On a machine that is described only, nothing is bound. */
static void expect_cpus(const char *list, bool siblings, unsigned members, const int *cpus)
{
    unsigned count = 0;

    struct umbra_topology *topology = NULL;
    struct umbra_team_options options = {.members = members, .cpus = list, .siblings = siblings};
    struct um_team_stats stats;
    struct umbra_team *team = NULL;

    cr_assert_eq(umbra_topology_create(
                     &(struct umbra_topology_options){.synthetic = "l3:2 core:2 pu:2"}, &topology),
                 0);
    options.topology = topology;
    cr_assert_eq(umbra_team_create(&options, &team), 0);
    um_team_stats(team, &stats);
    for (; cpus[count] >= 0; count++)
        cr_expect_eq(stats.cpus[count], cpus[count]);
    cr_expect_eq(stats.members, count);
    cr_assert_eq(umbra_team_destroy(team), 0);
    umbra_topology_destroy(topology);
}

Test(team, stands_where_a_list_says_and_shares_places_that_are_too_few)
{
    expect_cpus("4,2", false, 0, (int[]){4, 2, -1});
    expect_cpus("1-3", false, 5, (int[]){1, 2, 3, 1, 2, -1});
}

Test(team, stands_on_the_first_places_of_a_list_that_are_too_many)
{
    expect_cpus("0-7", false, 1, (int[]){0, -1});
    expect_cpus("4,2", false, 1, (int[]){4, -1});
    expect_cpus("4,2", false, 2, (int[]){4, 2, -1});
    expect_cpus("7,5,3,1", false, 3, (int[]){7, 5, 3, -1});
    expect_cpus("0-7", false, 9, (int[]){0, 1, 2, 3, 4, 5, 6, 7, 0, -1});
}

/* ---- several teams ---- */

static struct umbra_team *create_with(struct umbra_team_options options)
{
    struct umbra_team *team = NULL;

    cr_assert_eq(umbra_team_create(&options, &team), 0);
    return team;
}

/* The team stands on these places, in any order. */
static void expect_on(struct umbra_team *team, uint32_t cpus)
{
    struct um_team_stats stats;
    uint32_t on = 0;

    um_team_stats(team, &stats);
    for (unsigned i = 0; i < stats.members; i++)
        on |= UINT32_C(1) << stats.cpus[i];
    cr_expect_eq(on, cpus, "on %x, not on %x", on, cpus);
}

Test(team, teams_of_a_process_stand_apart)
{
    struct umbra_topology *topology = described("pack:2 core:8 pu:1");
    struct umbra_team_options four = {.members = 4, .topology = topology};
    struct umbra_team *teams[4];

    for (unsigned i = 0; i < 3; i++) {
        teams[i] = create_with(four);
        expect_on(teams[i], UINT32_C(0xf) << 4 * i);
    }
    four.members = 6; /* the four that are free, then the nearest */
    teams[3] = create_with(four);
    expect_on(teams[3], 0xf003);
    umbra_team_destroy(teams[1]);
    four.members = 4;
    teams[1] = create_with(four);
    expect_on(teams[1], 0xf0);
    for (unsigned i = 0; i < 4; i++)
        umbra_team_destroy(teams[i]);
    umbra_topology_destroy(topology);
}

Test(team, a_team_stands_beside_others_on_whole_cores_or_where_its_list_says)
{
    struct umbra_topology *topology = described("core:4 pu:2"); /* cpus 0 and 1 are a core */
    struct umbra_team *teams[4];

    teams[0] = create_with((struct umbra_team_options){.cpus = "3,1", .topology = topology});
    teams[1] = create_with((struct umbra_team_options){.members = 2, .topology = topology});
    expect_on(teams[1], 1 << 4 | 1 << 6);
    teams[2] = create_with((struct umbra_team_options){.cpus = "3,1,4", .topology = topology});
    expect_on(teams[2], 1 << 3 | 1 << 1 | 1 << 4);
    teams[3] = create_with(
        (struct umbra_team_options){.members = 4, .siblings = true, .topology = topology});
    expect_on(teams[3], 1 << 0 | 1 << 2 | 1 << 5 | 1 << 7);
    for (unsigned i = 0; i < 4; i++)
        umbra_team_destroy(teams[i]);
    umbra_topology_destroy(topology);
}

Test(team, a_bound_caller_stays_where_it_is_in_its_next_team)
{
    struct umbra_team *first = create(2, UMBRA_WAIT_TWO_PHASE);
    struct umbra_team *second = create(2, UMBRA_WAIT_TWO_PHASE);

    cr_expect_eq(first->cpus[0], second->cpus[0]);
    cr_expect_eq(first->sharers > 0, first->cpus[1] == second->cpus[1]);
    cr_assert_eq(umbra_team_destroy(first), 0);
    cr_expect_eq(second->sharers > 0, second->cpus[0] == second->cpus[1]);
    cr_assert_eq(umbra_team_destroy(second), 0);
}

Test(team, a_child_process_has_the_places_of_its_parents_teams)
{
    struct umbra_topology *topology = described("core:8 pu:1");
    struct umbra_team_options options = {.members = 4, .topology = topology};
    struct umbra_team *team = create_with(options), *own = NULL;
    int status = -1;
    pid_t child;

    options.members = 1; /* a child of threads under ThreadSanitizer starts none */
    child = fork();
    if (child == 0) {
        bool right = umbra_team_create(&options, &own) == 0 && own->cpus[0] == 0 && !own->sharers;

        _exit(!right || umbra_team_destroy(team) != 0 || umbra_team_destroy(own) != 0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    umbra_team_destroy(team);
    umbra_topology_destroy(topology);
}

static void take_half_a_millisecond(unsigned member, unsigned members, void *arg)
{
    uint64_t until = umbra_deadline(500000);

    (void)members, (void)arg;
    while (member == 1 && umbra_now_ns() < until)
        ;
}

/* True if the caller yields while it waits for the end of one of so many runs. */
static bool yields_at_the_end(struct umbra_team *team, int runs)
{
    unsigned long before = own_yields;

    while (own_yields == before && runs-- > 0) /* the caller may come back late */
        cr_assert_eq(umbra_team_run(team, 0, take_half_a_millisecond, NULL), 0);
    return own_yields != before;
}

static void yield_while_another_team_shares_a_place(struct umbra_team_options options)
{
    struct umbra_topology *topology = described("core:4 pu:1");
    struct umbra_team *team, *others[2];

    options.topology = topology;
    options.cpus = "0,1";
    options.parts_stay = true;
    options.wait.block_cycles = um_ns_to_cycles(10000000);
    team = create_with(options);

    cr_expect_not(yields_at_the_end(team, 3));
    options.cpus = "2,3";
    others[0] = create_with(options);
    cr_expect_not(yields_at_the_end(team, 3));
    options.cpus = "3,1";
    others[1] = create_with(options);
    cr_expect(yields_at_the_end(team, 1000));
    cr_expect(yields_at_the_end(others[0], 1000));
    umbra_team_destroy(others[1]);
    cr_expect_not(yields_at_the_end(team, 3));
    umbra_team_destroy(others[0]);
    umbra_team_destroy(team);
    umbra_topology_destroy(topology);
}

static bool find_no_work(unsigned member, struct umbra_waiter *waiter, void *arg)
{
    (void)member, (void)waiter, (void)arg;
    return false;
}

Test(team, yields_while_another_team_shares_a_place)
{
    static const struct umbra_team_options options[] = {
        {.members = 0}, {.wait.spin_cycles = 1000}, {.idle = find_no_work, .idle_ns = 1000}};

    for (unsigned i = 0; i < 3; i++)
        yield_while_another_team_shares_a_place(options[i]);
}

/* A thread with a team of its own, beside another. */
static void *has_a_team(void *arg)
{
    struct phases phases = {.team = create(2, UMBRA_WAIT_TWO_PHASE)};
    uint64_t *wrong = arg;

    for (int run = 0; run < 30; run++)
        cr_assert_eq(umbra_team_run(phases.team, 0, meet, &phases), 0);
    *wrong = phases.wrong[0] + phases.wrong[1];
    cr_assert_eq(umbra_team_destroy(phases.team), 0);
    return NULL;
}

Test(team, two_threads_run_a_team_each_at_once)
{
    uint64_t wrong[2] = {1, 1};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, has_a_team, &wrong[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_eq(wrong[i], 0);
    }
}

/* ---- other work while waiting ---- */

struct work {
    struct umbra_team *_Atomic team;
    _Atomic unsigned seen; /* which waits have called the function; enum */
    _Atomic uint64_t given, done;
    struct umbra_waiter *_Atomic waiter; /* of member 1 */
    _Atomic bool hold, held;             /* member 1 stays in the function */
};

enum { FOR_A_RUN = 1, AT_A_BARRIER = 2, FOR_THE_END = 4 };

static bool look_for_work(unsigned member, struct umbra_waiter *waiter, void *arg)
{
    struct work *work = arg;
    struct umbra_team *team = work->team;
    uint64_t given;

    if (team && waiter == (member == 0 ? &team->waiter : &team->member[1].waiter))
        work->seen |= member == 0 ? FOR_THE_END : FOR_A_RUN;
    if (team && waiter == &team->member[1].at_barrier)
        work->seen |= AT_A_BARRIER;
    if (member == 0)
        return false;
    work->waiter = waiter;
    while (work->hold) {
        work->held = true;
        sched_yield();
    }
    given = work->given;
    return atomic_exchange(&work->done, given) != given;
}

static struct umbra_team *create_for_work(struct work *work, enum umbra_wait_mode mode)
{
    struct umbra_team_options options = {.members = 2,
                                         .parts_stay = true,
                                         .wait.mode = mode,
                                         .idle = look_for_work,
                                         .idle_ns = mode == UMBRA_WAIT_PARK ? 0 : 1000,
                                         .hook_arg = work};

    *work = (struct work){.team = NULL};
    work->team = create_with(options);
    return work->team;
}

static void until_seen(struct work *work, unsigned wait)
{
    while (!(work->seen & wait))
        sched_yield();
}

/* Each part waits for the other, once at the barrier and once for the end of the run. */
static void wait_for_each_other(unsigned member, unsigned members, void *arg)
{
    struct work *work = arg;

    (void)members;
    if (member == 0)
        until_seen(work, AT_A_BARRIER);
    umbra_team_barrier(work->team, member);
    if (member == 1)
        until_seen(work, FOR_THE_END);
}

static const enum umbra_wait_mode modes[] = {UMBRA_WAIT_TWO_PHASE, UMBRA_WAIT_SPIN,
                                             UMBRA_WAIT_MONITOR, UMBRA_WAIT_PARK};

Test(team, waits_of_each_kind_call_a_function_in_every_mode)
{
    struct work work;

    for (unsigned i = 0; i < 4; i++) {
        create_for_work(&work, modes[i]);
        cr_assert_eq(umbra_team_run(work.team, 0, wait_for_each_other, &work), 0);
        until_seen(&work, FOR_A_RUN);
        cr_assert_eq(umbra_team_destroy(work.team), 0);
    }
}

static void let_go(unsigned member, unsigned members, void *arg)
{
    struct work *work = arg;

    (void)members;
    if (member == 0)
        work->hold = false;
    else
        work->given = 0; /* by the member's own thread, after the function */
}

Test(team, a_run_that_comes_during_the_function_is_executed_after_it)
{
    struct work work;

    for (unsigned i = 0; i < 4; i++) {
        create_for_work(&work, modes[i]);
        while (!work.waiter)
            sched_yield();
        for (uint64_t run = 1; run < 100; run++) {
            work.held = false;
            work.hold = true;
            umbra_wake(work.waiter);
            while (!work.held)
                sched_yield();
            work.given = run;
            cr_assert_eq(umbra_team_run(work.team, 0, let_go, &work), 0);
            cr_assert_eq(work.given, 0);
        }
        cr_assert_eq(umbra_team_destroy(work.team), 0);
    }
}

Test(team, a_sleeping_member_is_woken_for_other_work)
{
    struct work work;

    for (unsigned i = 0; i < 4; i++) {
        create_for_work(&work, modes[i]);
        while (!work.waiter)
            sched_yield();
        for (uint64_t piece = 1; piece < 1000; piece++) {
            work.given = piece;
            umbra_wake(work.waiter);
            while (work.done != piece)
                sched_yield();
        }
        cr_assert_eq(umbra_team_destroy(work.team), 0);
    }
}

/* ---- the threads that a team starts ---- */

struct hooks {
    struct umbra_team *team;
    _Atomic unsigned begun, ended;
    size_t stack[4];
    char name[4][16];
};

static void begin_named(unsigned member, void *arg)
{
    struct hooks *hooks = arg;
    char name[16];

    self_plus_1 = member + 1;
    snprintf(name, sizeof(name), "member %u", member);
    pthread_setname_np(pthread_self(), name);
    hooks->begun |= 1u << member;
}

static void end_named(unsigned member, void *arg)
{
    if (self_plus_1 == member + 1)
        ((struct hooks *)arg)->ended |= 1u << member;
}

static size_t stack_size(void)
{
    pthread_attr_t attributes;
    size_t bytes = 0;

    cr_assert_eq(pthread_getattr_np(pthread_self(), &attributes), 0);
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
    return bytes;
}

static void look_at_thread(unsigned member, unsigned members, void *arg)
{
    struct hooks *hooks = arg;

    (void)members;
    hooks->stack[member] = stack_size();
    pthread_getname_np(pthread_self(), hooks->name[member], sizeof(hooks->name[member]));
}

Test(team, its_threads_have_the_stack_that_was_asked_for_and_call_hooks)
{
    struct hooks hooks = {.team = NULL};
    struct umbra_team_options options = {.members = 4,
                                         .parts_stay = true,
                                         .stack_bytes = 24 << 20,
                                         .begin = begin_named,
                                         .end = end_named,
                                         .hook_arg = &hooks};

    cr_assert_eq(umbra_team_create(&options, &hooks.team), 0);
    cr_expect_eq(hooks.begun, 14);
    cr_assert_eq(umbra_team_run(hooks.team, 0, look_at_thread, &hooks), 0);
    for (unsigned i = 1; i < 4; i++) {
        char name[16];

        snprintf(name, sizeof(name), "member %u", i);
        cr_expect_str_eq(hooks.name[i], name);
        cr_expect_geq(hooks.stack[i], options.stack_bytes);
    }
    cr_expect_eq(hooks.ended, 0);
    cr_assert_eq(umbra_team_destroy(hooks.team), 0);
    cr_expect_eq(hooks.ended, 14);
}

Test(team, hooks_of_a_team_that_cannot_be_made_are_called_in_pairs)
{
    struct hooks hooks = {.team = NULL};
    struct umbra_team_options options = {
        .members = 4, .begin = begin_named, .end = end_named, .hook_arg = &hooks};
    struct umbra_team_options small = {.members = 2, .stack_bytes = 1};

    setenv("UMBRA_WAIT", "gap=fence", 1); /* as below */
    options.wait.block_cycles = 1000;
    small.wait.block_cycles = 1000;
    fail_thread = 3;
    cr_expect_eq(umbra_team_create(&options, &hooks.team), -EAGAIN);
    cr_expect_eq(hooks.begun, 6);
    cr_expect_eq(hooks.ended, 6);
    cr_expect_eq(umbra_team_create(&small, &hooks.team), -EINVAL);
}

Test(team, waits_inside_runs_apart_from_those_between)
{
    const struct umbra_wait_options sleep = {.mode = UMBRA_WAIT_PARK};
    const struct umbra_wait_options none = {.mode = (enum umbra_wait_mode)9};
    struct umbra_team_options options = {
        .members = 2, .wait.mode = UMBRA_WAIT_SPIN, .inside = &sleep};
    struct phases phases = {.team = NULL};

    cr_assert_eq(umbra_team_create(&options, &phases.team), 0);
    cr_assert_eq(umbra_team_run(phases.team, 0, meet, &phases), 0);
    for (unsigned i = 0; i < 2; i++) {
        const struct um_member *member = &phases.team->member[i];

        cr_expect_eq(member->waiter.policy->block_cycles, UMBRA_NEVER);
        cr_expect_eq(member->at_barrier.policy->block_cycles, 0);
    }
    cr_expect_eq(phases.team->waiter.policy->block_cycles, 0);
    cr_assert_eq(umbra_team_destroy(phases.team), 0);
    options.inside = &none;
    cr_expect_eq(umbra_team_create(&options, &phases.team), -EINVAL);
}

/* ---- which threads are bound ---- */

struct bindings {
    struct umbra_team *team;
    cpu_set_t of[2];
};

static void note_binding(unsigned member, unsigned members, void *arg)
{
    struct bindings *bindings = arg;

    (void)members;
    bindings->of[member] = binding();
    umbra_team_barrier(bindings->team, member); /* so that each thread executes its own part */
}

/* Makes a team of two, and says how many processors each of its threads has. */
static void expect_bindings(enum umbra_team_bind bind, int of_caller, int of_member)
{
    struct umbra_team_options options = {.members = 2, .siblings = true, .bind = bind};
    struct bindings bindings = {.team = NULL};

    cr_assert_eq(umbra_team_create(&options, &bindings.team), 0);
    cr_assert_eq(umbra_team_run(bindings.team, 0, note_binding, &bindings), 0);
    cr_expect_eq(CPU_COUNT(&bindings.of[0]), of_caller, "bind %d", (int)bind);
    cr_expect_eq(CPU_COUNT(&bindings.of[1]), of_member, "bind %d", (int)bind);
    cr_assert_eq(umbra_team_destroy(bindings.team), 0);
}

Test(team, binds_the_threads_that_its_option_names)
{
    cpu_set_t whole = binding(), after;
    int all = CPU_COUNT(&whole);

    expect_bindings(UMBRA_TEAM_BIND_ALL, 1, 1);
    expect_bindings(UMBRA_TEAM_BIND_MEMBERS, all, 1);
    expect_bindings(UMBRA_TEAM_BIND_NONE, all, all);
    after = binding();
    cr_expect(CPU_EQUAL(&whole, &after));
}

static void *unbound_team_of_fiber(void *all)
{
    expect_bindings(UMBRA_TEAM_BIND_NONE, 1, *(int *)all);
    return NULL;
}

Test(team, an_unbound_member_has_the_programs_processors_not_the_cores)
{
    cpu_set_t whole = binding();
    int all = CPU_COUNT(&whole);

    cr_assert_eq(umbra_run(NULL, unbound_team_of_fiber, &all), 0);
}

Test(team, refuses_what_cannot_be)
{
    struct umbra_team *team = NULL;
    struct umbra_team_options bind = {.bind = (enum umbra_team_bind)3};
    struct umbra_team_options many = {.members = UMBRA_TEAM_MOST + 1};
    struct umbra_team_options list = {.cpus = "0,x"};
    struct umbra_team_options mode = {.wait.mode = (enum umbra_wait_mode)9};

    cr_expect_eq(umbra_team_create(&many, &team), -EINVAL);
    cr_expect_str_eq(umbra_last_error_text(), "members = 1025: the most is 1024");
    cr_expect_eq(umbra_team_create(&list, &team), -EINVAL);
    cr_expect_eq(umbra_team_create(&mode, &team), -EINVAL);
    cr_expect_str_eq(umbra_last_error_text(), "wait.mode = 9: there is no such mode");
    cr_expect_eq(umbra_team_create(&bind, &team), -EINVAL);
    cr_expect_str_eq(umbra_last_error_text(), "bind = 3: there is no such choice");
    setenv("UMBRA_CORES", "2,3", 1);
    cr_expect_eq(umbra_team_create(NULL, &team), -EINVAL);
    unsetenv("UMBRA_CORES");
    cr_expect_not_null(strstr(umbra_last_error_text(), "UMBRA_CORES=2,3"));
    cr_expect_null(team);
}

Test(team, on_a_machine_with_too_many_processors_wants_to_know_how_many)
{
    struct umbra_topology_options large = {.synthetic = "core:1025 pu:1"};
    struct umbra_team_options options = {.members = 0};
    struct umbra_topology *topology = NULL;
    struct umbra_team *team = NULL;

    cr_assert_eq(umbra_topology_create(&large, &topology), 0);
    options.topology = topology;
    cr_expect_eq(umbra_team_create(&options, &team), -EINVAL);
    cr_expect_str_eq(umbra_last_error_text(), "1025 places: the most is 1024 members");
    umbra_topology_destroy(topology);
}

static void count_part(unsigned number, unsigned members, void *parts)
{
    (void)number;
    (void)members;
    atomic_fetch_add((atomic_uint *)parts, 1);
}

Test(team, measures_later_what_was_put_off)
{
    struct umbra_wait_options wait = {.mode = UMBRA_WAIT_TWO_PHASE};
    struct umbra_team *team, *late;
    atomic_uint parts = 0;

    um_machine_put_off(true);
    team = create(4, UMBRA_WAIT_TWO_PHASE);
    cr_expect_eq(umbra_team_run(team, 0, count_part, &parts), 0);
    um_machine_put_off(false);
    cr_expect_eq(um_team_measure(team, &wait), 0);
    cr_expect_neq(um_machine.wake_ns, 0);
    late = create(4, UMBRA_WAIT_TWO_PHASE);
    cr_expect_eq(team->policy.block_cycles, late->policy.block_cycles);
    cr_expect_eq(team->owner_policy.block_cycles, late->owner_policy.block_cycles);
    cr_expect_eq(umbra_team_run(team, 3, count_part, &parts), 0);
    cr_expect_eq(parts, 7);
    cr_assert_eq(umbra_team_destroy(late), 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

Test(team, keeps_nothing_when_a_thread_cannot_be_started_or_bound)
{
    struct umbra_team_options options = {.members = 3, .wait.block_cycles = 1000};
    struct umbra_team *team = NULL;

    setenv("UMBRA_WAIT", "gap=fence", 1); /* else a probe may start the threads that are counted */
    fail_thread = 2;
    cr_expect_eq(umbra_team_create(&options, &team), -EAGAIN);
    cr_expect_null(team);
    owner = pthread_self();
    fail_binds_of_members = true;
    cr_expect_lt(umbra_team_create(&options, &team), 0);
    cr_expect_eq(strncmp(umbra_last_error_text(), "binding member 1", 16), 0);
    cr_expect_null(team);
    fail_binds_of_members = false;
    cr_assert_eq(umbra_team_create(&options, &team), 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
}
