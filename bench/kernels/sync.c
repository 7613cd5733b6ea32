/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Barriers of two threads, or two fibers, one on each of two processors. The limit is a barrier of one
 * line, a counter and the number of the barrier, at which both only spin. A sample is the time from one
 * barrier to the next. And the rows of sync_locks.c.
 */
#include "child.h"
#include "harness.h"
#include "sync_case.h"
#include "sync_locks.h"
#include "two_sides.h"

#include <pthread.h>
#include <stdlib.h>

#include <umbra/sync.h>
#include <umbra/team.h>

#define ROUNDS 301
#define ROUNDS_QUICK 31

struct contender {
    const char *name;
    sync_barrier *barrier;
    bool fibers; /* or threads */
};

/* ---- barriers ---- */

/* A line on which both spin. */
struct spin_barrier {
    um_atomic_u64 come; /* of this barrier */
    um_atomic_u64 over; /* barriers that are */
};

struct turn {
    struct sync_case barriers;
    struct spin_barrier spin __attribute__((aligned(SYNC_LINE)));
    pthread_barrier_t pthread;
    struct umbra_barrier umbra;
    struct two_sides sides;
    const struct contender *contender;
    uint64_t iterations;
    uint64_t ns;
};

static void meet_spinning(struct sync_case *of, unsigned side)
{
    struct spin_barrier *barrier = &((struct turn *)of->arg)->spin;
    /* relaxed: no other side ends the barrier before this one has come */
    uint64_t over = um_atomic_load(&barrier->over, relaxed);

    (void)side;
    if (um_atomic_fetch_add(&barrier->come, 1, acq_rel) == SYNC_SIDES - 1) {
        um_atomic_store(&barrier->come, 0, relaxed); /* before `over`, which releases it */
        um_atomic_store(&barrier->over, over + 1, release);
    } else {
        while (um_atomic_load(&barrier->over, acquire) == over) /* acquire: as the release says */
            um_arch_relax();
    }
}

static void meet_in_team(struct sync_case *of, unsigned side)
{
    umbra_team_barrier(((struct turn *)of->arg)->sides.team, side);
}

static void meet_by_itself(struct sync_case *of, unsigned side)
{
    (void)side;
    umbra_team_barrier(((struct turn *)of->arg)->sides.team, UMBRA_TEAM_SELF);
}

static void meet_in_pthread(struct sync_case *of, unsigned side)
{
    (void)side;
    pthread_barrier_wait(&((struct turn *)of->arg)->pthread);
}

static void meet_in_fiber(struct sync_case *of, unsigned side)
{
    (void)side;
    umbra_barrier_wait(&((struct turn *)of->arg)->umbra, UMBRA_NEVER);
}

/* ---- turns ---- */

static void meet(void *arg, unsigned side)
{
    struct turn *turn = arg;
    uint64_t begin;

    turn->contender->barrier(&turn->barriers, side); /* both are there */
    begin = bench_now_ns();
    sync_side(&turn->barriers, side, turn->iterations, turn->contender->barrier);
    if (side == 0)
        turn->ns = bench_now_ns() - begin;
}

static int start(struct bench_row *row)
{
    const struct contender *contender = row->arg;
    struct turn *turn = aligned_alloc(SYNC_LINE, sizeof(*turn));
    int error;

    if (turn == NULL)
        return -ENOMEM;
    *turn = (struct turn){.contender = contender, .umbra = UMBRA_BARRIER_INIT(SYNC_SIDES)};
    turn->barriers.arg = turn;
    pthread_barrier_init(&turn->pthread, NULL, SYNC_SIDES);
    row->state = turn;
    error = two_sides_start(&turn->sides, row, contender->fibers);
    if (error != 0)
        free(turn);
    return error;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct turn *turn = row->state;
    int error;

    sync_begin(&turn->barriers, SYNC_SIDES);
    turn->iterations = batch->iterations;
    error = two_sides_run(&turn->sides, meet, turn);
    batch->ns = turn->ns;
    batch->verified = sync_verified(&turn->barriers, batch->iterations);
    return error;
}

static void stop(struct bench_row *row)
{
    struct turn *turn = row->state;

    two_sides_stop(&turn->sides);
    pthread_barrier_destroy(&turn->pthread);
    free(turn);
}

static const struct bench_ops ops = {.start = start, .run = run, .stop = stop};

/* ---- rows ---- */

#define OMP_SETTINGS                                                                               \
    "OMP_NUM_THREADS=2", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",              \
        "OMP_WAIT_POLICY=active"

static const struct child_program gomp = {.file = "sync-child-gomp",
                                          .settings = {OMP_SETTINGS, "GOMP_SPINCOUNT=infinite"},
                                          .problem = SYNC_SIDES};
static const struct child_program llvm = {.file = "sync-child-llvm",
                                          .settings = {OMP_SETTINGS, "KMP_BLOCKTIME=infinite"},
                                          .problem = SYNC_SIDES};

static const struct contender spin = {"spin-barrier", meet_spinning, false};
static const struct contender team = {"umbra-team-barrier", meet_in_team, false};
static const struct contender self = {"umbra-team-barrier-self", meet_by_itself, false};
static const struct contender pthread = {"pthread-barrier", meet_in_pthread, false};
static const struct contender fiber = {"umbra-barrier", meet_in_fiber, true};

static struct bench_row *add(struct bench *bench, const char *name, const struct bench_ops *ops,
                             const void *arg, struct bench_row *limit)
{
    struct bench_row *row = bench_add(bench, name, ops, arg);

    row->limit = limit;
    json_object_set_new(row->params, "parties", json_integer(SYNC_SIDES));
    return row;
}

static int declare(struct bench *bench)
{
    struct bench_row *limit = add(bench, spin.name, &ops, &spin, NULL);

    add(bench, team.name, &ops, &team, limit);
    add(bench, self.name, &ops, &self, limit);
    add(bench, fiber.name, &ops, &fiber, limit);
    add(bench, pthread.name, &ops, &pthread, limit);
    add(bench, "openmp-gomp-barrier", &child_ops, &gomp, limit);
    add(bench, "openmp-llvm-barrier", &child_ops, &llvm, limit);
    sync_locks_declare(bench);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "sync",
    .about = "barriers of two, a read-write lock, and many waiters, on two processors",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
