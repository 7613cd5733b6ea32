/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The arithmetic of elimination, compiled once for each level of the processor's instructions:
 * APPLY is the function's name. rows.c chooses.
 */
#include "rows.h"

rows_apply_fn APPLY;

/* One pivot: the row loses a multiple of it, which takes its k-th element to 0. */
static void apply_one(const struct system *system, double *restrict row, size_t k)
{
    const double *restrict pivot = system_row(system, k);
    double factor = row[k] / pivot[k];

    row[k] = factor;
    for (size_t j = k + 1; j <= system->n; j++)
        row[j] -= factor * pivot[j];
}

/* Four pivots at once: the row is read and written once for all of them. */
static void apply_four(const struct system *system, double *restrict row, size_t k)
{
    const double *restrict p0 = system_row(system, k);
    const double *restrict p1 = system_row(system, k + 1);
    const double *restrict p2 = system_row(system, k + 2);
    const double *restrict p3 = system_row(system, k + 3);
    double f0 = row[k] / p0[k];
    double f1 = (row[k + 1] - f0 * p0[k + 1]) / p1[k + 1];
    double f2 = (row[k + 2] - f0 * p0[k + 2] - f1 * p1[k + 2]) / p2[k + 2];
    double f3 = (row[k + 3] - f0 * p0[k + 3] - f1 * p1[k + 3] - f2 * p2[k + 3]) / p3[k + 3];

    row[k] = f0;
    row[k + 1] = f1;
    row[k + 2] = f2;
    row[k + 3] = f3;
    for (size_t j = k + 4; j <= system->n; j++)
        row[j] = row[j] - f0 * p0[j] - f1 * p1[j] - f2 * p2[j] - f3 * p3[j];
}

void APPLY(const struct system *system, size_t row, size_t from, size_t to)
{
    double *at = system_row(system, row);
    size_t k = from;

    for (; k + 4 <= to; k += 4)
        apply_four(system, at, k);
    for (; k < to; k++)
        apply_one(system, at, k);
}
