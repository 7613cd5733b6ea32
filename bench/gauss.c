/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A system of linear equations (examples/gauss) on two processors: by rows, with fibers, threads and
 * OpenMP, each with the same arithmetic and the same grouping, one row a group; and by blocks, with
 * LAPACK beside it. Each contender is a process of its own, which is stopped between its turns. The
 * limit is one processor, row by row.
 */
#include "child.h"
#include "harness.h"

#define UNKNOWNS 2400
#define UNKNOWNS_QUICK 600
#define UNKNOWNS_TINY 61
#define SIDES 160 /* threads or fibers */
#define ROUNDS 5
#define ROUNDS_QUICK 5

static const char *const names[] = {"serial",        "umbra-mu1k",     "umbra-mu2k",
                                    "pthread-mu1",   "pthread-mu2",    "openmp-rows",
                                    "umbra-blocked", "openmp-blocked", "dgesv"};

#define WAYS (sizeof(names) / sizeof(names[0]))

static char arguments[WAYS][64];
static struct child_program programs[WAYS];

static int declare(struct bench *bench)
{
    int n = bench_tiny(bench) ? UNKNOWNS_TINY : bench_quick(bench) ? UNKNOWNS_QUICK : UNKNOWNS;
    struct bench_row *limit = NULL;

    for (size_t w = 0; w < WAYS; w++) {
        struct bench_row *row;

        snprintf(arguments[w], sizeof(arguments[w]), "%s:%d:%d:1", names[w], n, SIDES);
        programs[w] = (struct child_program){.file = "gauss-child",
                                             .argument = arguments[w],
                                             .settings = {"OMP_NUM_THREADS=2", "OMP_DYNAMIC=false",
                                                          "OMP_WAIT_POLICY=active",
                                                          "OPENBLAS_NUM_THREADS=2"}};
        row = bench_add(bench, names[w], &child_ops, &programs[w]);
        json_object_set_new(row->params, "n", json_integer(n));
        json_object_set_new(row->params, "threads", json_integer(SIDES));
        json_object_set_new(row->params, "group", json_integer(1));
        if (w == 0)
            limit = row;
        else
            row->limit = limit;
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "gauss",
    .about = "a system of linear equations, by rows in 160 fibers or threads, and by blocks",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .batch = 1,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
