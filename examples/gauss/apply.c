/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The arithmetic of elimination by rows, compiled once for each level of the processor's
 * instructions: APPLY is the function's name. rows.c chooses.
 *
 * What bounds it is not the arithmetic but fetching the pivots, which are in a second-level cache at
 * best, and the row itself. So several rows have a pivot applied at once where there are several,
 * and a row several pivots.
 */
#include "rows.h"
#include "vec.h"

#include <string.h>

#define ROWS 4 /* at once, with FEW pivots */
#define FEW 4
#define MANY 8 /* pivots at once, with one row */

rows_apply_fn APPLY;

/* The multiples of pivots that a row loses, which take its elements from the k-th on to 0. */
INLINE void take_factors(const struct system *system, double *row, size_t k, double *factor,
                         const size_t pivots)
{
#pragma GCC unroll 8
    for (size_t p = 0; p < pivots; p++) {
        factor[p] = row[k + p];
#pragma GCC unroll 8
        for (size_t q = 0; q < p; q++)
            factor[p] -= factor[q] * system_row(system, k + q)[k + p];
        factor[p] /= system_row(system, k + p)[k + p];
    }
    memcpy(row + k, factor, pivots * sizeof(*factor));
}

/* Elements from the j-th to before the `end`-th lose their multiples of the pivots, one at a time. */
INLINE void apply_to_few(const struct system *system, double *row, const double *pivot,
                         double factor[ROWS][MANY], size_t j, size_t end, const size_t rows,
                         const size_t pivots)
{
    for (; j < end; j++)
        for (size_t r = 0; r < rows; r++)
            for (size_t p = 0; p < pivots; p++)
                row[r * system->stride + j] -= factor[r][p] * pivot[p * system->stride + j];
}

/* Some pivots, from the k-th on, for some consecutive rows. */
INLINE void apply(const struct system *system, size_t first, size_t k, const size_t rows,
                  const size_t pivots)
{
    double factor[ROWS][MANY];
    double *row = system_row(system, first);
    const double *pivot = system_row(system, k);
    size_t j = k + pivots, end = system->n + 1;
    size_t aligned = (j + LANES - 1) / LANES * LANES; /* rows begin on a cache line */

    if (aligned > end)
        aligned = end;
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
        take_factors(system, row + r * system->stride, k, factor[r], pivots);
    apply_to_few(system, row, pivot, factor, j, aligned, rows, pivots);
    j = aligned;
    for (; j + LANES <= end; j += LANES) {
        vec left[ROWS];

#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
            left[r] = load(row + r * system->stride + j);
#pragma GCC unroll 8
        for (size_t p = 0; p < pivots; p++) {
            vec of_pivot = load(pivot + p * system->stride + j);

#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++)
                left[r] -= splat(factor[r][p]) * of_pivot;
        }
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
            store(row + r * system->stride + j, left[r]);
    }
    apply_to_few(system, row, pivot, factor, j, end, rows, pivots);
}

/* One row and one pivot. Apart from the rest, since it takes little of the stack: who meets others at
 * each pivot has it in no near cache. */
static __attribute__((noinline)) void apply_one(const struct system *system, size_t row, size_t k)
{
    apply(system, row, k, 1, 1);
}

static __attribute__((noinline)) void apply_all(const struct system *system, size_t first,
                                                size_t end, size_t from, size_t to)
{
    for (; first + ROWS <= end; first += ROWS) {
        size_t k = from;

        for (; k + FEW <= to; k += FEW)
            apply(system, first, k, ROWS, FEW);
        for (; k < to; k++)
            apply(system, first, k, ROWS, 1);
    }
    for (; first < end; first++) {
        size_t k = from;

        for (; k + MANY <= to; k += MANY)
            apply(system, first, k, 1, MANY);
        if (k + FEW <= to) {
            apply(system, first, k, 1, FEW);
            k += FEW;
        }
        for (; k < to; k++)
            apply(system, first, k, 1, 1);
    }
}

void APPLY(const struct system *system, size_t first, size_t end, size_t from, size_t to)
{
    if (end == first + 1 && to == from + 1)
        apply_one(system, first, from);
    else
        apply_all(system, first, end, from, to);
}
