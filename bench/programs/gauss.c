/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A system of linear equations (examples/gauss) on all processors: by rows, with fibers, threads,
 * OpenMP and a team, each with the same arithmetic and the same grouping, one row a group; and by
 * blocks, with LAPACK beside it; the paper's cooperative forms as they are (-pure), and ours without
 * one of what it adds (-no-...). Each contender is a process of its own, which is stopped between
 * its turns. The limit is one processor, row by row.
 */
#include "harness.h"
#include "program_rows.h"

#define UNKNOWNS 2400
#define UNKNOWNS_QUICK 600
#define UNKNOWNS_TINY 61
#define SIDES 160 /* threads or fibers */
#define ROUNDS 5
#define ROUNDS_QUICK 3

static const char *const names[] = {"serial",
                                    "umbra-mu1k",
                                    "umbra-mu2k",
                                    "umbra-mu1k-pure",
                                    "umbra-mu1k-no-runs",
                                    "umbra-mu2k-pure",
                                    "umbra-mu2k-no-runs",
                                    "umbra-mu2k-no-turns",
                                    "umbra-mu2k-no-fetch",
                                    "pthread-mu1",
                                    "pthread-mu2",
                                    "openmp-rows",
                                    "umbra-team",
                                    "umbra-blocked",
                                    "openmp-blocked",
                                    "dgesv"};

#define WAYS (sizeof(names) / sizeof(names[0]))

static int declare(struct bench *bench)
{
    struct gauss_case gauss = {.n = bench_tiny(bench)    ? UNKNOWNS_TINY
                                    : bench_quick(bench) ? UNKNOWNS_QUICK
                                                         : UNKNOWNS,
                               .sides = SIDES,
                               .group = 1};
    struct bench_row *limit = NULL;

    for (size_t w = 0; w < WAYS; w++) {
        struct bench_row *row;

        gauss.way = names[w];
        row = gauss_row(bench, names[w], &gauss);
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
