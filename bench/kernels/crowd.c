/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Teams where more threads want two processors than there are: beside a busy loop, with more members
 * than processors, and two teams at once. A sample is the time of a graph of 250 short nodes with a
 * barrier after each, over a whole batch, so that its worst graphs are in it. The limit is libgomp,
 * which waits passively.
 */
#include "child.h"
#include "crowd_case.h"
#include "harness.h"

#define ROUNDS 61
#define ROUNDS_QUICK 5
#define GRAPHS 20 /* of a batch */
#define GRAPHS_QUICK 4

static struct child_process *gomp, *umbra;

static const struct child_program openmp = {
    .file = "crowd-child-gomp",
    .settings = {"OMP_DYNAMIC=false", "OMP_WAIT_POLICY=passive"},
    .shared = &gomp};
static const struct child_program team = {
    .file = "crowd-child-gomp", .argument = "team", .shared = &umbra};

static struct bench_row *add(struct bench *bench, const char *name, struct child_program *program,
                             uint64_t problem)
{
    struct bench_row *row = bench_add(bench, name, &child_ops, program);

    program->problem = problem;
    row->batch = bench_quick(bench) || bench_tiny(bench) ? GRAPHS_QUICK : GRAPHS;
    row->cold = true; /* the child runs a graph before */
    json_object_set_new(row->params, "crowd", json_string(crowd_cases[problem].name));
    return row;
}

static int declare(struct bench *bench)
{
    static struct child_program programs[CROWD_CASES][2];

    for (unsigned i = 0; i < CROWD_CASES; i++) {
        struct bench_row *limit;

        programs[i][0] = openmp;
        programs[i][1] = team;
        limit = add(bench, "openmp-gomp", &programs[i][0], i);
        add(bench, "umbra-team", &programs[i][1], i)->limit = limit;
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "crowd",
    .about = "graphs of teams with more threads than processors",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
