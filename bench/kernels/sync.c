/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Barriers of two threads, or two fibers, one on each of two processors. The limit is a barrier of one
 * line, a counter and the number of the barrier, at which both only spin. A sample is the time from one
 * barrier to the next.
 */
#include "child.h"
#include "harness.h"
#include "in_fiber.h"
#include "sync_case.h"

#include <pthread.h>
#include <stdlib.h>

#include <umbra/sync.h>
#include <umbra/team.h>

#define ROUNDS 301
#define ROUNDS_QUICK 31

struct contender {
    const char *name;
    sync_barrier *barrier;
};

/* ---- barriers of the parts of a team's run ---- */

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
    struct umbra_team *team;
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
    umbra_team_barrier(((struct turn *)of->arg)->team, side);
}

static void meet_in_pthread(struct sync_case *of, unsigned side)
{
    (void)side;
    pthread_barrier_wait(&((struct turn *)of->arg)->pthread);
}

static void meet_in_fiber(struct sync_case *of, unsigned side)
{
    (void)side;
    umbra_barrier_wait(&((struct turn *)of->arg)->umbra);
}

static void meet(struct turn *turn, unsigned side)
{
    uint64_t begin;

    turn->contender->barrier(&turn->barriers, side); /* both are there */
    begin = bench_now_ns();
    sync_side(&turn->barriers, side, turn->iterations, turn->contender->barrier);
    if (side == 0)
        turn->ns = bench_now_ns() - begin;
}

static void team_part(unsigned member, unsigned members, void *arg)
{
    (void)members;
    meet(arg, member);
}

static struct turn *begin_turn(struct bench_row *row)
{
    struct turn *turn = aligned_alloc(SYNC_LINE, sizeof(*turn));

    if (turn == NULL)
        return NULL;
    *turn = (struct turn){.contender = row->arg, .umbra = UMBRA_BARRIER_INIT(SYNC_SIDES)};
    turn->barriers.arg = turn;
    pthread_barrier_init(&turn->pthread, NULL, SYNC_SIDES);
    row->state = turn;
    return turn;
}

static void end_turn(struct turn *turn)
{
    pthread_barrier_destroy(&turn->pthread);
    free(turn);
}

static int start_team(struct bench_row *row)
{
    char cpus[32];
    struct umbra_team_options options = {.cpus = cpus, .topology = bench_topology(row->bench)};
    struct turn *turn = begin_turn(row);
    int error;

    if (turn == NULL)
        return -ENOMEM;
    snprintf(cpus, sizeof cpus, "%d,%d", row->cpus[0], row->cpus[1]);
    error = umbra_team_create(&options, &turn->team);
    if (error != 0)
        end_turn(turn);
    return error;
}

static int run_in_team(struct bench_row *row, struct bench_batch *batch)
{
    struct turn *turn = row->state;
    int error;

    sync_begin(&turn->barriers);
    turn->iterations = batch->iterations;
    error = umbra_team_run(turn->team, team_part, turn);
    batch->ns = turn->ns;
    batch->verified = sync_verified(&turn->barriers, batch->iterations);
    return error;
}

static void stop_team(struct bench_row *row)
{
    struct turn *turn = row->state;

    umbra_team_destroy(turn->team);
    end_turn(turn);
}

static const struct bench_ops team_ops = {
    .start = start_team, .run = run_in_team, .stop = stop_team};

/* ---- barriers of two fibers, each on a core ---- */

struct fibers {
    struct umbra_runtime *runtime;
    struct turn *turn;
};

static void *second_fiber(void *turn)
{
    meet(turn, 1);
    return NULL;
}

static void *first_fiber(void *turn)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 1};
    struct umbra_fiber second;

    if (umbra_spawn_with(NULL, &there, second_fiber, turn, &second) == 0) {
        meet(turn, 0);
        umbra_join(second, NULL);
    }
    return NULL;
}

static int start_fibers(struct bench_row *row)
{
    struct fibers *fibers = calloc(1, sizeof(*fibers));
    int error;

    if (fibers == NULL)
        return -ENOMEM;
    error = in_fiber_cores(row->bench, SYNC_SIDES, &fibers->runtime);
    fibers->turn = error == 0 ? begin_turn(row) : NULL;
    if (fibers->turn == NULL) {
        free(fibers);
        return error != 0 ? error : -ENOMEM;
    }
    row->state = fibers;
    return 0;
}

static int run_in_fibers(struct bench_row *row, struct bench_batch *batch)
{
    struct fibers *fibers = row->state;
    int error;

    sync_begin(&fibers->turn->barriers);
    fibers->turn->iterations = batch->iterations;
    error = in_fiber(fibers->runtime, first_fiber, fibers->turn);
    batch->ns = fibers->turn->ns;
    batch->verified = sync_verified(&fibers->turn->barriers, batch->iterations);
    return error;
}

static void stop_fibers(struct bench_row *row)
{
    struct fibers *fibers = row->state;

    umbra_runtime_destroy(fibers->runtime);
    end_turn(fibers->turn);
    free(fibers);
}

static const struct bench_ops fiber_ops = {
    .start = start_fibers, .run = run_in_fibers, .stop = stop_fibers};

/* ---- rows ---- */

#define OMP_SETTINGS                                                                               \
    "OMP_NUM_THREADS=2", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",              \
        "OMP_WAIT_POLICY=active"

static const struct child_program gomp = {.file = "sync-child-gomp",
                                          .settings = {OMP_SETTINGS, "GOMP_SPINCOUNT=infinite"}};
static const struct child_program llvm = {.file = "sync-child-llvm",
                                          .settings = {OMP_SETTINGS, "KMP_BLOCKTIME=infinite"}};

static const struct contender spin = {"spin-barrier", meet_spinning};
static const struct contender team = {"umbra-team-barrier", meet_in_team};
static const struct contender pthread = {"pthread-barrier", meet_in_pthread};
static const struct contender fiber = {"umbra-barrier", meet_in_fiber};

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
    struct bench_row *limit = add(bench, spin.name, &team_ops, &spin, NULL);

    add(bench, team.name, &team_ops, &team, limit);
    add(bench, fiber.name, &fiber_ops, &fiber, limit);
    add(bench, pthread.name, &team_ops, &pthread, limit);
    add(bench, "openmp-gomp-barrier", &child_ops, &gomp, limit);
    add(bench, "openmp-llvm-barrier", &child_ops, &llvm, limit);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "sync",
    .about = "barriers of two, one on each of two processors",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
