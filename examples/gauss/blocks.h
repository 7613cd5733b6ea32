/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Elimination by blocks: the pivots go in panels, runs of consecutive columns. A panel is factored
 * by itself; then its pivots are applied to the columns to its right, in strips, each in one go:
 * a product of matrices, which reads and writes the strip once for all of the panel's pivots.
 *
 * The strips are numbered from left to right. Each lies within one panel's columns; the right-hand
 * side is one more, the last. Panel k is applied to the strips of panel k + 1 and all after them.
 *
 *   panel    0            1            2         right-hand side
 *   strips   0 1          2 3          4         5
 */
#ifndef GAUSS_BLOCKS_H
#define GAUSS_BLOCKS_H

#include "system.h"
#include "variants.h"

#define BLOCKS_STRIP 96 /* columns of a strip, at most: whole tiles of every kernel */
#define BLOCKS_DEFAULT                                                                             \
    192 /* columns of a panel: few passes over the matrix, and a tile's operands
                              fit into a second-level cache */

struct panel {
    size_t first;
    size_t end;       /* one past the last column, and pivot */
    double *packed;   /* the multipliers, in the order in which the kernel reads them */
    size_t *exchange; /* pivot i was in this row; NULL: exchange none. By i - first */
};

/* Columns. */
struct strip {
    size_t first;
    size_t end;
};

/* The arithmetic, for one level of the processor's instructions. */
struct blocks_kernel {
    /* Eliminates within the panel's columns, and packs its multipliers. */
    void (*factor)(const struct system *system, const struct panel *panel, double *scratch);
    /* Exchanges rows of the strip as the panel's were, then applies its pivots to it. */
    void (*apply)(const struct system *system, const struct panel *panel, struct strip strip,
                  double *scratch);
};
extern const struct blocks_kernel *blocks_kernel; /* chosen for this processor before main */

#define BLOCKS_TILE 24 /* rows and columns of a kernel's tile, at most */

struct blocks {
    const struct system *system;
    size_t block; /* columns of a panel */
    size_t panels;
    size_t strips;
    size_t buffers; /* for packed panels, which use them in turn: panel k that of k - buffers */
    struct panel *panel;
    double *packed;         /* the buffers */
    size_t *exchange;       /* the panels', or NULL */
    double *scratch;        /* all processors' */
    size_t scratch_doubles; /* of one of them */
};

/* Cuts a system up. 0 or -ENOMEM; it is to be destroyed then, too. */
int blocks_create(struct blocks *blocks, const struct system *system, const struct setting *setting,
                  size_t buffers);
void blocks_destroy(struct blocks *blocks);

static inline double *blocks_scratch(const struct blocks *blocks, size_t processor)
{
    return blocks->scratch + processor * blocks->scratch_doubles;
}

/* The first strip of a panel; of the one past the last: the right-hand side. */
size_t blocks_first_strip(const struct blocks *blocks, size_t panel);
struct strip blocks_strip(const struct blocks *blocks, size_t strip);

#endif
