/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What grows with the number of processors: accesses of atomic words, counted and not timed, on 2 to
 * 64 synthetic processors. All waits sleep, so that no poll is counted. For each operation how many
 * the thread that begins it makes until it returns (the path of its caller), and how many all threads
 * make. The bounds say how they may grow: not at all, as the logarithm, or as the number.
 */
#define _GNU_SOURCE
#include <umbra/base/atomic.h>

static _Thread_local unsigned long own; /* accesses of the thread */
static unsigned long everyones;

/* Used in place of a plain expression: counts. */
__attribute__((__used__)) void count_access(void);
void count_access(void)
{
    own++;
    __atomic_fetch_add(&everyones, 1, __ATOMIC_RELAXED);
}

#undef um_atomic_load
#undef um_atomic_store
#undef um_atomic_exchange
#undef um_atomic_fetch_add
#undef um_atomic_fetch_or
#undef um_atomic_fetch_and
#undef um_atomic_cas
#define um_atomic_load(p, order) (count_access(), atomic_load_explicit((p), memory_order_##order))
#define um_atomic_store(p, value, order)                                                           \
    (count_access(), atomic_store_explicit((p), (value), memory_order_##order))
#define um_atomic_exchange(p, value, order)                                                        \
    (count_access(), atomic_exchange_explicit((p), (value), memory_order_##order))
#define um_atomic_fetch_add(p, value, order)                                                       \
    (count_access(), atomic_fetch_add_explicit((p), (value), memory_order_##order))
#define um_atomic_fetch_or(p, value, order)                                                        \
    (count_access(), atomic_fetch_or_explicit((p), (value), memory_order_##order))
#define um_atomic_fetch_and(p, value, order)                                                       \
    (count_access(), atomic_fetch_and_explicit((p), (value), memory_order_##order))
#define um_atomic_cas(p, expected, value, order, failed)                                           \
    (count_access(), atomic_compare_exchange_strong_explicit(                                      \
                         (p), (expected), (value), memory_order_##order, memory_order_##failed))

#define UMBRA_IMPLEMENTATION
#include <umbra/core.h>
#include <umbra/sync.h>
#include <umbra/team.h>

#include <runner.h>

#include "described.h"

#include <stdio.h>
#include <unistd.h>

enum { MOST = 64, TURNS = 30 };

/* Of some turns the least, or the most: a thread that was just about to sleep makes others. */
struct counts {
    bool most;
    unsigned turns;
    unsigned long caller, all;
};

static void keep_one(const struct counts *counts, unsigned long *kept, unsigned long count)
{
    if (counts->turns == 0 || (counts->most ? count > *kept : count < *kept))
        *kept = count;
}

static void keep(struct counts *counts, unsigned long caller, unsigned long all)
{
    keep_one(counts, &counts->caller, caller);
    keep_one(counts, &counts->all, all);
    counts->turns++;
}

static unsigned long all_accesses(void)
{
    return __atomic_load_n(&everyones, __ATOMIC_RELAXED);
}

static struct umbra_topology *describe_processors(void)
{
    struct umbra_topology *topology = NULL;

    cr_assert_eq(umbra_topology_create(
                     &(struct umbra_topology_options){.synthetic = "core:64 pu:1"}, &topology),
                 0);
    return topology;
}

/* ---- a team ---- */

static struct umbra_team *create_team(struct umbra_topology *topology, unsigned members)
{
    struct umbra_team_options options = {
        .members = members, .parts_stay = true, .wait.mode = UMBRA_WAIT_PARK, .topology = topology};
    struct umbra_team *team = NULL;

    cr_assert_eq(umbra_team_create(&options, &team), 0);
    return team;
}

static void do_nothing(unsigned member, unsigned members, void *arg)
{
    (void)member, (void)members, (void)arg;
}

static void run_of_nothing(unsigned processors, struct counts *counts)
{
    struct umbra_topology *topology = describe_processors();
    struct umbra_team *team = create_team(topology, processors);

    for (int turn = 0; turn < TURNS; turn++) {
        unsigned long caller = own, all = all_accesses();

        cr_assert_eq(umbra_team_run(team, 0, do_nothing, NULL), 0);
        caller = own - caller;
        usleep(1000); /* they fall asleep */
        keep(counts, caller, all_accesses() - all);
    }
    umbra_team_destroy(team);
    umbra_topology_destroy(topology);
}

struct barriers {
    struct umbra_team *team;
    struct counts *counts;
};

static void come(unsigned member, unsigned members, void *arg)
{
    struct barriers *barriers = arg;

    (void)members;
    for (int turn = 0; turn < TURNS; turn++) {
        unsigned long caller = own;

        umbra_team_barrier(barriers->team, member);
        if (member == 0)
            keep(barriers->counts, own - caller, own - caller);
    }
}

static void barrier(unsigned processors, struct counts *counts)
{
    struct umbra_topology *topology = describe_processors();
    struct barriers barriers = {create_team(topology, processors), counts};

    cr_assert_eq(umbra_team_run(barriers.team, 0, come, &barriers), 0);
    umbra_team_destroy(barriers.team);
    umbra_topology_destroy(topology);
}

/* ---- a runtime ---- */

struct cores {
    unsigned processors;
    struct counts *counts;
    struct umbra_mutex mutex;
    struct umbra_condition cond;
    _Atomic unsigned waiting, woken; /* not counted */
    unsigned wakes;                  /* under the mutex */
};

static void run_cores(unsigned processors, struct counts *counts, void *(*fn)(void *))
{
    struct cores cores = {.processors = processors, .counts = counts};
    struct umbra_topology *topology = describe_processors();
    struct umbra_options options = {
        .cores = processors, .topology = topology, .quiet = true, .wait.mode = UMBRA_WAIT_PARK};

    cr_assert_eq(umbra_run(&options, fn, &cores), 0);
    umbra_topology_destroy(topology);
}

static void *end_at_once(void *arg)
{
    return arg;
}

static void *spawn_anywhere(void *arg)
{
    static const struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};
    struct cores *cores = arg;

    for (int turn = 0; turn < TURNS; turn++) {
        unsigned long caller, all;
        struct umbra_fiber fiber;

        umbra_sleep_ns(1000000); /* the others fall asleep */
        caller = own;
        all = all_accesses();
        cr_assert_eq(umbra_spawn_with(NULL, &anywhere, end_at_once, NULL, &fiber), 0);
        caller = own - caller;
        cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
        keep(cores->counts, caller, all_accesses() - all);
    }
    return NULL;
}

static void spawns(unsigned processors, struct counts *counts)
{
    run_cores(processors, counts, spawn_anywhere);
}

static void *wait_for_all(void *arg)
{
    struct cores *cores = arg;
    unsigned seen;

    umbra_mutex_lock(&cores->mutex);
    for (int turn = 0; turn < TURNS; turn++) {
        seen = cores->wakes;
        cores->waiting++;
        while (cores->wakes == seen)
            cr_assert_eq(umbra_condition_wait(&cores->cond, &cores->mutex, UMBRA_NEVER), 0);
        cores->woken++;
    }
    umbra_mutex_unlock(&cores->mutex);
    return NULL;
}

static void *wake_all(void *arg)
{
    struct cores *cores = arg;
    struct umbra_fiber fiber[MOST];

    for (unsigned i = 1; i < cores->processors; i++)
        cr_assert_eq(umbra_spawn_with(NULL, &(struct umbra_spawn_options){UMBRA_ON_CORE, .core = i},
                                      wait_for_all, cores, &fiber[i]),
                     0);
    for (int turn = 0; turn < TURNS; turn++) {
        unsigned long caller, all;

        do
            umbra_sleep_ns(1000000);
        while (cores->waiting < (cores->processors - 1) * (unsigned)(turn + 1));
        umbra_mutex_lock(&cores->mutex);
        cores->wakes++;
        umbra_mutex_unlock(&cores->mutex);
        caller = own;
        all = all_accesses();
        umbra_condition_notify(&cores->cond, true);
        caller = own - caller;
        while (cores->woken < (cores->processors - 1) * (unsigned)(turn + 1))
            umbra_sleep_ns(1000000);
        keep(cores->counts, caller, all_accesses() - all);
    }
    for (unsigned i = 1; i < cores->processors; i++)
        cr_assert_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    return NULL;
}

static void wakes(unsigned processors, struct counts *counts)
{
    run_cores(processors, counts, wake_all);
}

/* ---- the table ---- */

enum growth { NOT, AS_LOGARITHM, AS_NUMBER };

/* all: AS_NUMBER if it is not said. What a caller does for each processor has a reason. */
static const struct row {
    const char *what;
    void (*count)(unsigned processors, struct counts *counts);
    enum growth caller;
} rows[] = {
    /* each member has a line that says that it sleeps, and one that says that its part has ended: the
     * caller reads all, a store and a load each. A tree would add a hand-over a level to each run */
    {"run of nothing", run_of_nothing, AS_NUMBER},
    {"barrier of a team", barrier, AS_LOGARITHM},
    {"spawn anywhere", spawns, NOT},
    /* the waiters are moved to the queue of the mutex; each is woken by the one before it */
    {"wake of all", wakes, AS_NUMBER},
};

/* How often as much there may be as with one other processor, where there are 2^steps. */
static unsigned long times(enum growth growth, unsigned steps)
{
    return growth == NOT ? 1 : growth == AS_LOGARITHM ? steps : (1ul << steps) - 1;
}

static void expect_at_most(const struct row *row, const char *by, unsigned long count,
                           unsigned long most)
{
    cr_expect_leq(count, most, "%s: %lu by %s, of at most %lu", row->what, count, by, most);
}

Test(growth, no_operation_grows_faster_than_the_number_of_processors)
{
    static const unsigned sizes[] = {1, 3, 4, 6}; /* 2 to the power of them */

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct counts one = {0}; /* for one other processor; by all: the most of those before */

        for (unsigned k = 0; k < 4; k++) {
            unsigned processors = 1u << sizes[k];
            struct counts counts = {.most = processors == 2};
            unsigned long others = times(AS_NUMBER, sizes[k]);

            rows[i].count(processors, &counts);
            fprintf(stderr, "%s, %u processors: %lu by the caller, %lu by all\n", rows[i].what,
                    processors, counts.caller, counts.all);
            if (processors == 2)
                one.caller = counts.caller;
            /* Twice, and thrice, that: in a turn threads sleep, or do not yet, and one that waits for
             * the others' end looks again and again. Another growth would be more at 64. */
            expect_at_most(&rows[i], "the caller", counts.caller,
                           2 * one.caller * times(rows[i].caller, sizes[k]));
            if (processors > 2)
                expect_at_most(&rows[i], "all", counts.all, 3 * one.all * others);
            if (counts.all / others >= one.all)
                one.all = counts.all / others + 1;
        }
    }
}
