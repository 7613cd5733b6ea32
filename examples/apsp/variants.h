/* SPDX-License-Identifier: BSL-1.0 */
/* The ways to find all shortest paths; all but the first with the same arithmetic (blocks.h). */
#ifndef APSP_VARIANTS_H
#define APSP_VARIANTS_H

#include "blocks.h"

struct umbra_runtime;

struct setting {
    size_t processors;             /* threads, or cores of the cooperative scheduler */
    struct umbra_runtime *runtime; /* with so many cores, or NULL: a new one each time */
    bool
        alone; /* a core that would wait does not work on rows of others, to see what that brings */
};

/*
 * Takes the lengths of edges to the lengths of shortest paths. 0 or a negative errno; -EDOM: there
 * is a cycle of negative length through *vertex.
 */
typedef int solve_fn(struct blocks *blocks, const struct setting *setting, size_t *vertex);

solve_fn solve_plain; /* Floyd and Warshall's three loops, on one processor */

/*
 * Block by block (Venkataraman et al. 2003): for each k the k-th block of the diagonal, then the
 * other blocks of its row and column, then the rest. Tasks with a barrier after each of the three,
 * or tasks that say what they depend on.
 */
solve_fn solve_openmp_tasks;
solve_fn solve_openmp_depend;

/*
 * CTBPA (Karasik and Prihozhy 2020): a fiber a row of blocks, an event a row, no barrier. See
 * ctbpa.c.
 */
solve_fn solve_ctbpa;
solve_fn solve_ctbpa_pure; /* as its paper has it */

#endif
