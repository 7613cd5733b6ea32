/* SPDX-License-Identifier: BSL-1.0 */
/* A system of linear equations: where it comes from, and how good an answer is. */
#ifndef GAUSS_SYSTEM_H
#define GAUSS_SYSTEM_H

#include "matrix_market.h"

#include <stddef.h>
#include <stdint.h>

/*
 * n equations. Row i begins at a + i * stride, on a cache line of its own: n coefficients, then the
 * right-hand side. Elimination works in place: it leaves the multipliers below the diagonal.
 */
struct system {
    size_t n;
    size_t stride; /* doubles */
    double *a;
};

static inline double *system_row(const struct system *system, size_t i)
{
    return system->a + i * system->stride;
}

/* Room for n equations. 0, or -ENOMEM: before anything has been touched. */
int system_create(struct system *system, size_t n);
void system_destroy(struct system *system);

/* Coefficients and right-hand sides of -1 to 1 from the seed, and diagonals that dominate. */
void system_generate(struct system *system, uint64_t seed);

/*
 * Coefficients from an open square matrix; right-hand sides so that the answer is all ones, but for
 * rounding. 0 or a negative errno: then from->problem says why.
 */
int system_read(struct system *system, struct mm_reader *from);

/* Right-hand sides from an open matrix of n rows and one column. The same. */
int system_read_rhs(struct system *system, struct mm_reader *from);

void system_copy(struct system *to, const struct system *from);

/* The residual's norm: the largest of |b - Ax|. */
double system_residual(const struct system *system, const double *x);

/*
 * The backward error of x: by how much, relative to their norms, coefficients and right-hand sides
 * had to change for x to be exact (Rigal and Gaches 1967): the residual over |A||x| + |b|, all
 * largest norms. A few times n times 1.1e-16 is as good as can be. To ask this of each equation by
 * itself would be too much: where it meets only zeros of the answer, their rounding is all it has.
 */
double system_backward_error(const struct system *system, const double *x);

#endif
