/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Rows for the programs in examples/ that are measured: each a child process (child.h) that has one
 * problem and solves it over and over; and one for their arithmetic. They are for declare, and never
 * fail: the program ends when there is no memory.
 */
#ifndef UMBRA_BENCH_PROGRAM_ROWS_H
#define UMBRA_BENCH_PROGRAM_ROWS_H

#include "harness.h"

struct apsp_case;
struct blocks;

/* A system of n equations. */
struct gauss_case {
    const char *way; /* as examples/gauss has it */
    size_t n;
    size_t sides; /* threads or fibers, where the way is by rows */
    size_t group; /* rows that go to one of them together */
};

/* name is kept. */
struct bench_row *gauss_row(struct bench *bench, const char *name, const struct gauss_case *gauss);

/* Into the row's params. */
void apsp_state(const struct apsp_case *apsp, struct bench_row *row);

enum openmp { GOMP, LLVM, NO_OPENMP };

/* order: "tasks" or "depend"; without OpenMP, "ctbpa" or "pure". */
struct bench_row *apsp_row(struct bench *bench, const char *name, enum openmp openmp,
                           const char *order, const struct apsp_case *apsp);

/*
 * The arithmetic of these blocks on all processors, everything in their caches, for 20 ms: the time
 * that as many relaxations would take as the problem has. blocks is kept.
 */
struct bench_row *roofline_row(struct bench *bench, const char *name, const struct apsp_case *apsp,
                               const struct blocks *blocks);

#endif
