/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A team against the number of its members: a barrier of all, and a run of a function that only counts
 * on all. The limit is a barrier of one line, a counter and the number of the barrier, at which all only
 * spin. A sample is the time from one barrier to the next, or of a run.
 */
#include "child.h"
#include "harness.h"
#include "sync_case.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <umbra/team.h>

#define ROUNDS 101
#define ROUNDS_QUICK 15
#define CONTENDERS 6

struct contender {
    const char *name;
    sync_barrier *barrier;      /* NULL: a run */
    struct child_program child; /* or in a process of its own */
    unsigned problem;           /* of which, besides how many members */
    struct child_process **process;
};

/* One contender with so many members. */
struct entry {
    const struct contender *contender;
    unsigned members;
    struct child_program program;
};

struct turn {
    struct sync_case barriers;
    um_atomic_u64 come __attribute__((aligned(SYNC_LINE))); /* of this barrier */
    um_atomic_u64 over;                                     /* barriers that are */
    pthread_barrier_t pthread;
    struct umbra_team *team;
    const struct entry *entry;
    uint64_t iterations, ns;
};

static void meet_spinning(struct sync_case *of, unsigned side)
{
    struct turn *turn = of->arg;
    /* relaxed: no other side ends the barrier before this one has come */
    uint64_t over = um_atomic_load(&turn->over, relaxed);

    (void)side;
    if (um_atomic_fetch_add(&turn->come, 1, acq_rel) == of->sides - 1) {
        um_atomic_store(&turn->come, 0, relaxed); /* before `over`, which releases it */
        um_atomic_store(&turn->over, over + 1, release);
    } else {
        while (um_atomic_load(&turn->over, acquire) == over) /* acquire: as the release says */
            um_arch_relax();
    }
}

static void meet_in_team(struct sync_case *of, unsigned side)
{
    umbra_team_barrier(((struct turn *)of->arg)->team, side);
}

static void meet_in_pthread(struct sync_case *of, unsigned side)
{
    (void)side;
    pthread_barrier_wait(&((struct turn *)of->arg)->pthread);
}

/* ---- turns ---- */

static void meet(unsigned member, unsigned members, void *arg)
{
    struct turn *turn = arg;
    sync_barrier *barrier = turn->entry->contender->barrier;
    uint64_t begin;

    (void)members;
    barrier(&turn->barriers, member); /* all are there */
    begin = bench_now_ns();
    sync_side(&turn->barriers, member, turn->iterations, barrier);
    if (member == 0)
        turn->ns = bench_now_ns() - begin;
}

static void count(unsigned member, unsigned members, void *arg)
{
    struct turn *turn = arg;

    (void)members;
    turn->barriers.side[member].barriers++;
}

static int start_team(struct bench_row *row, unsigned members, struct umbra_team **team)
{
    char cpus[8 * BENCH_MAX_CPUS];
    struct umbra_team_options options = {.cpus = cpus, .topology = bench_topology(row->bench)};
    int length = 0;

    for (unsigned i = 0; i < members; i++)
        length += snprintf(cpus + length, sizeof cpus - (size_t)length, "%s%d", i > 0 ? "," : "",
                           bench_cpu(row->bench, i));
    return umbra_team_create(&options, team);
}

static int start(struct bench_row *row)
{
    const struct entry *entry = row->arg;
    struct turn *turn = aligned_alloc(SYNC_LINE, sizeof(*turn));
    int error;

    if (turn == NULL)
        return -ENOMEM;
    *turn = (struct turn){.entry = entry};
    turn->barriers.arg = turn;
    pthread_barrier_init(&turn->pthread, NULL, entry->members);
    row->state = turn;
    error = start_team(row, entry->members, &turn->team);
    if (error != 0)
        free(turn);
    return error;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct turn *turn = row->state;
    uint64_t begin;
    int error = 0;

    sync_begin(&turn->barriers, turn->entry->members);
    turn->iterations = batch->iterations;
    if (turn->entry->contender->barrier) {
        error = umbra_team_run(turn->team, 0, meet, turn);
    } else {
        begin = bench_now_ns();
        for (uint64_t i = 0; i < batch->iterations && error == 0; i++)
            error = umbra_team_run(turn->team, 0, count, turn);
        turn->ns = bench_now_ns() - begin;
    }
    batch->ns = turn->ns;
    batch->verified = sync_verified(&turn->barriers, batch->iterations);
    return error;
}

static void stop(struct bench_row *row)
{
    struct turn *turn = row->state;

    umbra_team_destroy(turn->team);
    pthread_barrier_destroy(&turn->pthread);
    free(turn);
}

static const struct bench_ops ops = {.start = start, .run = run, .stop = stop};

/* ---- rows ---- */

static struct child_process *gomp;

#define GOMP                                                                                       \
    {                                                                                              \
        .file = "sync-child-gomp", .settings = {                                                   \
            "OMP_DYNAMIC=false",                                                                   \
            "OMP_PROC_BIND=close",                                                                 \
            "OMP_PLACES=%d",                                                                       \
            "OMP_WAIT_POLICY=active",                                                              \
            "GOMP_SPINCOUNT=infinite"                                                              \
        }                                                                                          \
    }

static const struct contender contenders[CONTENDERS] = {
    {.name = "spin-barrier", .barrier = meet_spinning},
    {.name = "umbra-team-barrier", .barrier = meet_in_team},
    {.name = "umbra-team-run"},
    {.name = "pthread-barrier", .barrier = meet_in_pthread},
    {.name = "openmp-gomp-barrier", .child = GOMP, .process = &gomp},
    {.name = "openmp-gomp-run", .child = GOMP, .problem = SYNC_NULL, .process = &gomp},
};

static void add(struct bench *bench, unsigned members, struct entry entry[CONTENDERS])
{
    struct bench_row *limit = NULL;

    for (size_t c = 0; c < CONTENDERS; c++) {
        const struct contender *contender = &contenders[c];
        struct bench_row *row;

        entry[c] = (struct entry){contender, members, contender->child};
        entry[c].program.problem = contender->problem + members;
        entry[c].program.shared = contender->process;
        row = bench_add(bench, contender->name, contender->process ? &child_ops : &ops,
                        contender->process ? (void *)&entry[c].program : (void *)&entry[c]);
        row->limit = limit;
        limit = limit ? limit : row;
        json_object_set_new(row->params, "cores", json_integer(members));
    }
}

static int declare(struct bench *bench)
{
    static struct entry entries[BENCH_COUNTS][CONTENDERS];
    unsigned counts[BENCH_COUNTS], n = bench_cpu_counts(bench, counts);

    for (unsigned i = 0; i < n; i++)
        if (counts[i] > 1)
            add(bench, counts[i], entries[i]);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "team",
    .about = "a barrier, and a run of nothing, of teams of so many members",
    .cpus = 2,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
