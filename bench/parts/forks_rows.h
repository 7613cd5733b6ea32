/* SPDX-License-Identifier: BSL-1.0 */
/* The rows of skynet, nqueens and matmul: all contenders on all processors, and calls on one. */
#ifndef UMBRA_BENCH_FORKS_ROWS_H
#define UMBRA_BENCH_FORKS_ROWS_H

#include "forks.h"
#include "harness.h"

/* The size with --tiny, with --quick, and without: that of the collection. */
struct forks_sizes {
    unsigned tiny, quick, full;
};

/* Adds the rows. kind: as in struct tasks_case; the recursion by calls, by tasks, and by fibers or
 * NULL. */
void forks_declare(struct bench *bench, const char *kind, const struct forks_sizes *sizes,
                   const struct forks_contender *calls, const struct forks_contender *tasks,
                   const struct forks_contender *fibers);

/* For struct bench_kernel: how many times as fast as the calls. */
void forks_remark(const struct bench *bench, FILE *out);

#endif
