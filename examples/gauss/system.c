/* SPDX-License-Identifier: BSL-1.0 */
/* See system.h. */
#define _DEFAULT_SOURCE /* madvise */
#include "system.h"

#include "../huge_pages.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_DOUBLES 8 /* in a cache line */

int system_create(struct system *system, size_t n)
{
    /* an odd number of lines a row: rows do not all begin in the same set of a cache */
    size_t stride = ((n + LINE_DOUBLES) / LINE_DOUBLES | 1) * LINE_DOUBLES;

    system->n = n;
    system->stride = stride;
    system->a = NULL;
    if (n <= SIZE_MAX / sizeof(double) / stride)
        system->a = huge_pages_alloc(n * stride * sizeof(double));
    return system->a ? 0 : -ENOMEM;
}

void system_destroy(struct system *system)
{
    free(system->a);
}

/* splitmix64 (Steele, Lea, Flood 2014), as a double of -1 to 1. */
static double random_unit(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double)(int64_t)z / 9223372036854775808.0;
}

void system_generate(struct system *system, uint64_t seed)
{
    for (size_t i = 0; i < system->n; i++) {
        double *row = system_row(system, i);
        double sum = 0;

        for (size_t j = 0; j < system->stride; j++)
            row[j] = j <= system->n ? random_unit(&seed) : 0;
        for (size_t j = 0; j < system->n; j++)
            sum += fabs(row[j]);
        row[i] = sum;
    }
}

int system_read(struct system *system, struct mm_reader *from)
{
    struct mm_entry entry;
    int got;

    memset(system->a, 0, system->n * system->stride * sizeof(double));
    while ((got = mm_next(from, &entry)) == 1) {
        system_row(system, entry.row)[entry.column] += entry.value;
        if (from->symmetric && entry.row != entry.column)
            system_row(system, entry.column)[entry.row] += entry.value;
    }
    for (size_t i = 0; i < system->n && got == 0; i++)
        for (size_t j = 0; j < system->n; j++)
            system_row(system, i)[system->n] += system_row(system, i)[j];
    return got;
}

int system_read_rhs(struct system *system, struct mm_reader *from)
{
    struct mm_entry entry;
    int got;

    for (size_t i = 0; i < system->n; i++)
        system_row(system, i)[system->n] = 0;
    while ((got = mm_next(from, &entry)) == 1)
        system_row(system, entry.row)[system->n] += entry.value;
    return got;
}

void system_copy(struct system *to, const struct system *from)
{
    memcpy(to->a, from->a, from->n * from->stride * sizeof(double));
}

double system_residual(const struct system *system, const double *x)
{
    double worst = 0;

    for (size_t i = 0; i < system->n; i++) {
        const double *row = system_row(system, i);
        double residual = row[system->n];

        for (size_t j = 0; j < system->n; j++)
            residual -= row[j] * x[j];
        if (!(fabs(residual) <= worst)) /* not a number counts, too */
            worst = fabs(residual);
    }
    return worst;
}

double system_backward_error(const struct system *system, const double *x)
{
    double residual = system_residual(system, x), a = 0, b = 0, most = 0;

    for (size_t i = 0; i < system->n; i++) {
        const double *row = system_row(system, i);
        double sum = 0;

        for (size_t j = 0; j < system->n; j++)
            sum += fabs(row[j]);
        a = fmax(a, sum);
        b = fmax(b, fabs(row[system->n]));
        most = fmax(most, fabs(x[i]));
    }
    return residual > 0 ? residual / (a * most + b) : residual;
}
