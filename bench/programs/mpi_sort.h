/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Rows of the three MPI programs in examples/cilksort: a sample is one run of cilksort-start under an
 * MPICH that can spawn, with Umbra's library or without. Its own time counts, from before the first
 * spawn; not what it takes to start MPI. Every run's numbers must be in order, and as many tasks as
 * its size has.
 */
#ifndef UMBRA_BENCH_MPI_SORT_H
#define UMBRA_BENCH_MPI_SORT_H

#include "harness.h"

#define MPI_SORT_NO_LIBRARY (-1) /* as limit: all tasks are processes */
#define MPI_SORT_NO_LIMIT 0

struct mpi_sort {
    size_t count, cutoff;
    const char *input; /* a word that cilksort-start knows */
    unsigned seed;
    long limit; /* of tasks in a process, or one of the above */
    /* Set by its runs: */
    size_t tasks;
};

/* A row; its parameters are n, input, limit, and, when it has run, tasks. */
struct bench_row *mpi_sort_row(struct bench *bench, const char *name, const struct mpi_sort *sort);

#endif
