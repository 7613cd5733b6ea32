/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Teams where more threads want two processors than there are: beside a busy loop, with more members
 * than processors, and two teams at once. A sample is the time of a graph of 250 short nodes with a
 * barrier after each, over a whole batch, so that its worst graphs are in it. The limit is libgomp,
 * which waits passively. Or the time of a run of nothing: two teams at once, three threads that run one
 * in turn, each woken by the one before it, and a run within each part of a run. The limit is libgomp
 * with its default waiting; openmp-gomp waits passively there, too.
 */
#include "child.h"
#include "crowd_case.h"
#include "harness.h"

#define ROUNDS 61
#define ROUNDS_QUICK 5
#define GRAPHS 20 /* of a batch */
#define GRAPHS_QUICK 4
#define RUNS 20000 /* likewise */
#define RUNS_QUICK 4000
#define RUNS_OPENMP 200
#define RUNS_SLOW 20 /* of OpenMP, if each may wait for a slice of the system's */

static struct child_process *passive, *by_default, *active, *umbra;

#define GOMP .file = "crowd-child-gomp"
#define NESTS "OMP_DYNAMIC=false", "OMP_MAX_ACTIVE_LEVELS=2"

static const struct child_program team = {GOMP, .argument = "team", .shared = &umbra};
static const struct child_program gomp_passive = {
    GOMP, .settings = {NESTS, "OMP_WAIT_POLICY=passive"}, .shared = &passive};
static const struct child_program gomp_default = {GOMP, .settings = {NESTS}, .shared = &by_default};
static const struct child_program gomp_active = {
    GOMP, .settings = {NESTS, "OMP_WAIT_POLICY=active"}, .shared = &active};

static struct bench_row *add(struct bench *bench, const char *name,
                             const struct child_program *like, struct child_program *program,
                             uint64_t problem)
{
    struct bench_row *row = bench_add(bench, name, &child_ops, program);
    bool quick = bench_quick(bench) || bench_tiny(bench);

    *program = *like;
    program->problem = problem;
    row->batch = quick ? RUNS_QUICK : RUNS;
    if (crowd_cases[problem].work == CROWD_GRAPH)
        row->batch = quick ? GRAPHS_QUICK : GRAPHS;
    if (crowd_cases[problem].work == CROWD_IN_TURN)
        row->parts = crowd_cases[problem].threads;
    row->cold = true; /* the child runs a graph before */
    json_object_set_new(row->params, "crowd", json_string(crowd_cases[problem].name));
    return row;
}

/* The rows of libgomp in a case of runs; returns their limit. */
static struct bench_row *add_runs(struct bench *bench, struct child_program of[3], uint64_t problem)
{
    struct bench_row *sleeps = add(bench, "openmp-gomp", &gomp_passive, &of[0], problem);
    struct bench_row *spins = add(bench, "openmp-gomp-active", &gomp_active, &of[1], problem);
    struct bench_row *limit = add(bench, "openmp-gomp-default", &gomp_default, &of[2], problem);

    sleeps->limit = spins->limit = limit;
    sleeps->batch = RUNS_OPENMP;
    spins->batch = RUNS_SLOW;
    limit->batch = crowd_cases[problem].work == CROWD_NESTED ? RUNS_SLOW : RUNS_OPENMP;
    return limit;
}

static int declare(struct bench *bench)
{
    static struct child_program programs[CROWD_CASES][4];

    for (unsigned i = 0; i < CROWD_CASES; i++) {
        struct child_program *of = programs[i];
        struct bench_row *limit = crowd_cases[i].work == CROWD_GRAPH
                                      ? add(bench, "openmp-gomp", &gomp_passive, &of[0], i)
                                      : add_runs(bench, of, i);

        add(bench, "umbra-team", &team, &of[3], i)->limit = limit;
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "crowd",
    .about = "graphs and runs of teams with more threads than processors",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
