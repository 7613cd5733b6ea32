/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What skynet, nqueens and matmul compute, as the public collection runtime-benchmarks (tzcnt on
 * GitHub) defines them, and fib: recursions with a task for each call. The arithmetic is object code
 * that all contenders share; only the recursions are written for each. C and C++.
 *
 *   skynet    a tree of ten children a node; a leaf is its own number, a node the sum of its children
 *   nqueens   places queens row by row; a child for each column that no queen above attacks
 *   matmul    c += a * b by quarters: four products at once, then four that add to the same quarters;
 *             32 x 32 and less by three loops
 */
#ifndef UMBRA_BENCH_FORKS_H
#define UMBRA_BENCH_FORKS_H

#include <stddef.h>
#include <stdint.h>

#include "tasks_case.h"

#define FORKS_WAYS 10   /* children of a node of skynet */
#define FORKS_QUEENS 16 /* columns at most */
#define FORKS_LEAF 32   /* rows of a matrix that is no longer divided */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- nqueens ---- */

struct forks_board {
    signed char column[FORKS_QUEENS]; /* of the queen in each row that has one */
};

/* The columns of row in which no queen above attacks: bit c for column c. n: rows and columns. */
uint32_t forks_free_columns(const struct forks_board *board, unsigned row, unsigned n);

/* The board with one more queen, in the least of these columns. */
static inline struct forks_board forks_place(const struct forks_board *board, unsigned row,
                                             uint32_t columns)
{
    struct forks_board placed = *board;

    placed.column[row] = (signed char)__builtin_ctz(columns);
    return placed;
}

/* ---- matmul ---- */

/* Adds a * b to c. Each has n x n numbers, in rows that begin `width` numbers after one another. */
struct forks_product {
    const uint32_t *a, *b;
    uint32_t *c;
    uint32_t n, width;
};

/* The i-th of the eight products of quarters: 0 to 3 come first, 4 to 7 when these have ended. */
static inline struct forks_product forks_quarter(const struct forks_product *whole, unsigned i)
{
    size_t half = whole->n / 2, width = whole->width;
    size_t row = i / 2 % 2 * half, column = i % 2 * half, middle = i / 4 * half;
    struct forks_product part = *whole;

    part.a += row * width + middle;
    part.b += middle * width + column;
    part.c += row * width + column;
    part.n = (uint32_t)half;
    return part;
}

/* Three loops. */
void forks_multiply(const struct forks_product *leaf);

/* ---- a case ---- */

/* How a contender does each: the recursion from its root. NULL: it does not. */
struct forks_contender {
    uint64_t (*fib)(unsigned n);
    uint64_t (*skynet)(uint64_t first, uint64_t leaves); /* of leaves numbered from first */
    uint64_t (*nqueens)(const struct forks_board *board, unsigned row, unsigned n);
    void (*matmul)(const struct forks_product *whole);
};

/* How many parts a right result is worth: calls of fib; else 1. */
uint64_t forks_parts(const struct tasks_case *work);

/*
 * Runs the case so often, and checks each result. Returns the parts of those that were right; 0 if
 * the contender or this file does not know the case, or without memory. *ns is the time without
 * preparing and checking.
 */
uint64_t forks_batch(const struct forks_contender *contender, const struct tasks_case *work,
                     uint64_t iterations, uint64_t *ns);

#ifdef __cplusplus
}
#endif

#endif
