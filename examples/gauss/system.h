/* SPDX-License-Identifier: BSL-1.0 */
/* A system of linear equations: where it comes from, and how good an answer is. */
#ifndef GAUSS_SYSTEM_H
#define GAUSS_SYSTEM_H

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

void system_copy(struct system *to, const struct system *from);

/*
 * The backward error of x: the largest residual of an equation, over the largest that |A||x| + |b|
 * allows for it (Oettli and Prager 1964). A few times n times 1.1e-16 is as good as can be.
 */
double system_backward_error(const struct system *system, const double *x);

#endif
