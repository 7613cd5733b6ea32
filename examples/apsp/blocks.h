/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The distances, in square blocks, and the arithmetic on blocks that all variants share.
 *
 * "No path" is INFINITY for float. For int32 it is a number so large that it survives: twice it is
 * no overflow, and what is left of it after adding any path's length, which may be negative, is
 * still above half of it (graph_longest() is asked first).
 */
#ifndef APSP_BLOCKS_H
#define APSP_BLOCKS_H

#include "graph.h"

enum element { FLOAT32, INT32 };

#define ELEMENT_BYTES 4
#define INT32_NO_PATH (INT32_MAX / 2)
#define INT32_LONGEST (INT32_NO_PATH / 8) /* where weights are negative */

/* c = min(from, a + b), as a product of matrices. c may be from, but neither a nor b. */
typedef void relax_fn(void *c, const void *from, const void *a, const void *b, size_t block);

/* c = min(c, c + b), where b has shortest paths (close_fn). */
typedef void relax_right_fn(void *c, const void *b, size_t block);

/*
 * Shortest paths within a block; scratch is room for another. The vertex on a negative cycle that was
 * found, or `block`.
 */
typedef size_t close_fn(void *d, size_t block, void *scratch);

struct arithmetic {
    relax_fn *relax;
    relax_right_fn *relax_right;
    close_fn *close;
};

/*
 * The best that this processor can execute. Where nothing is negative, floats are compared by their
 * bits, as whole numbers: many processors have other units for that than for adding floats.
 */
struct arithmetic arithmetic_for(enum element element, bool negative);

/* A block's rows begin `stride` elements apart; what is beyond `block` is filled with no path. */
#define VECTOR_ELEMENTS 8
#define TILE_ROWS 8 /* at most */

static inline size_t block_stride(size_t block)
{
    return (block + VECTOR_ELEMENTS - 1) / VECTOR_ELEMENTS * VECTOR_ELEMENTS;
}

static inline size_t block_bytes(size_t block)
{
    size_t rows = (block + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;

    return (rows * block_stride(block) * ELEMENT_BYTES + 63) / 64 * 64;
}

/* n x n distances as side x side blocks, each in one piece, row by row. */
struct blocks {
    enum element element;
    size_t n;
    size_t block; /* rows of a block */
    size_t side;
    struct arithmetic arithmetic; /* since they were filled */
    char *at;
};

static inline void *block_at(const struct blocks *blocks, size_t i, size_t j)
{
    return blocks->at + (i * blocks->side + j) * block_bytes(blocks->block);
}

/* Room for n vertices. 0 or -ENOMEM: before anything has been touched. */
int blocks_create(struct blocks *blocks, enum element element, size_t n, size_t block);
void blocks_destroy(struct blocks *blocks);

/* The graph's edges; 0 from a vertex to itself. */
void blocks_fill(struct blocks *blocks, const struct graph *graph);

/* INFINITY: no path. */
double blocks_distance(const struct blocks *blocks, size_t from, size_t to);

#endif
