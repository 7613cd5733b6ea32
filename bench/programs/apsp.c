/* SPDX-License-Identifier: BSL-1.0 */
/*
 * All-pairs shortest paths (examples/apsp) on all processors, block by block: the cooperative form, as
 * its paper has it and with what is added here,
 * OpenMP's tasks with barriers and with dependences, each with the same arithmetic, at several
 * sizes of a block. The limit is that arithmetic on all processors with everything in their
 * caches: the time it would take for as many relaxations.
 */
#include "harness.h"
#include "in_fiber.h"
#include "program_rows.h"

#include <errno.h>
#include <stdlib.h>

#include <apsp_case.h>
#include <umbra.h>
#include <variants.h>

#define VERTICES 2400
#define VERTICES_QUICK 960
#define VERTICES_TINY 96
#define ROUNDS 11
#define ROUNDS_QUICK 5
#define ROW_NAME 40
#define COOPERATIVE 3

static const size_t block_sizes[] = {120, 48, 80, 160, 240}; /* the first has the plain names */

/* One problem at one size of a block, and what its rows share. */
struct problem {
    struct apsp_case apsp;
    struct blocks blocks; /* to compute in; the in-process rows take turns */
    struct way {
        struct problem *problem;
        const struct cooperative *how;
    } way[COOPERATIVE];
    char names[COOPERATIVE + 5][ROW_NAME];
};

/* Ours; as its paper has it; and ours where no core helps another. */
static const struct cooperative {
    const char *name;
    solve_fn *solve;
    bool alone;
} cooperative[COOPERATIVE] = {
    {"umbra-ctbpa", solve_ctbpa, false},
    {"umbra-ctbpa-pure", solve_ctbpa_pure, false},
    {"umbra-ctbpa-no-help", solve_ctbpa, true},
};

#define PROBLEMS (sizeof(block_sizes) / sizeof(block_sizes[0]))

static struct graph graph;
static struct problem problems[PROBLEMS];

/* ---- in this process ---- */

static int run_ctbpa(struct bench_row *row, struct bench_batch *batch)
{
    const struct way *way = row->arg;
    struct setting all = {
        .processors = bench_cpus(row->bench), .runtime = row->state, .alone = way->how->alone};
    struct problem *problem = way->problem;

    for (uint64_t i = 0; i < batch->iterations; i++) {
        size_t vertex;
        uint64_t begin;
        int error;

        blocks_fill(&problem->blocks, &graph);
        begin = bench_now_ns();
        error = way->how->solve(&problem->blocks, &all, &vertex);
        batch->ns += bench_now_ns() - begin;
        if (error != 0)
            return error;
        batch->verified += apsp_checksum(&problem->blocks) == problem->apsp.checksum;
    }
    return 0;
}

static int start_runtime(struct bench_row *row)
{
    row->state = NULL;
    return in_fiber_cores(row->bench, bench_cpus(row->bench), (struct umbra_runtime **)&row->state);
}

static void stop_runtime(struct bench_row *row)
{
    umbra_runtime_destroy(row->state);
}

static const struct bench_ops ctbpa_ops = {
    .start = start_runtime, .run = run_ctbpa, .stop = stop_runtime};

/* ---- rows ---- */

/* The first problem's rows have plain names. */
static const char *name_row(struct problem *problem, unsigned which, const char *name)
{
    snprintf(problem->names[which], ROW_NAME, problem == problems ? "%s" : "%s-%zu", name,
             problem->apsp.block);
    return problem->names[which];
}

static void add_problem(struct bench *bench, struct problem *problem)
{
    static const struct {
        const char *name, *order;
        enum openmp openmp;
    } others[] = {
        {"openmp-gomp", "tasks", GOMP},
        {"openmp-gomp-depend", "depend", GOMP},
        {"openmp-llvm", "tasks", LLVM},
        {"openmp-llvm-depend", "depend", LLVM},
    };
    struct bench_row *limit = roofline_row(bench, name_row(problem, 0, "kernel-roofline"),
                                           &problem->apsp, &problem->blocks);

    for (unsigned i = 0; i < COOPERATIVE; i++) {
        struct bench_row *row = bench_add(bench, name_row(problem, i + 1, cooperative[i].name),
                                          &ctbpa_ops, &problem->way[i]);

        problem->way[i] = (struct way){problem, &cooperative[i]};
        apsp_state(&problem->apsp, row);
        row->limit = limit;
    }
    for (unsigned i = 0; i < 4; i++)
        apsp_row(bench, name_row(problem, COOPERATIVE + 1 + i, others[i].name), others[i].openmp,
                 others[i].order, &problem->apsp)
            ->limit = limit;
}

static int declare(struct bench *bench)
{
    size_t n = bench_tiny(bench) ? VERTICES_TINY : bench_quick(bench) ? VERTICES_QUICK : VERTICES;
    int error = apsp_case_graph(n, &graph);

    for (size_t p = 0; p < PROBLEMS && error == 0; p++) {
        struct problem *problem = &problems[p];

        problem->apsp = (struct apsp_case){.n = n, .block = block_sizes[p]};
        if (p > 0)
            problem->apsp.checksum = problems[0].apsp.checksum;
        else if (!bench_lists(bench))
            error = apsp_case_expect(&problem->apsp, &graph);
        if (error == 0)
            error = blocks_create(&problem->blocks, FLOAT32, n, block_sizes[p]);
        if (error == 0)
            blocks_fill(&problem->blocks, &graph);
        if (error == 0)
            add_problem(bench, problem);
    }
    return error;
}

static const struct bench_kernel kernel = {
    .name = "apsp",
    .about = "all-pairs shortest paths in blocks",
    .cpus = 2,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .batch = 1,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
