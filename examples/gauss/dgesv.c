/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What LAPACK's dgesv does, by OpenBLAS. LAPACK's matrices go column by column, so that it takes
 * ours for its transpose. That is factored as it is, and then solved for its transpose: by the two
 * calls that dgesv consists of, and without a copy. It always pivots.
 */
#include "variants.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* Fortran's: the length of a text comes last */
void dgetrf_(const int *m, const int *n, double *a, const int *lda, int *exchange, int *info);
void dgetrs_(const char *trans, const int *n, const int *sides, const double *a, const int *lda,
             const int *exchange, double *b, const int *ldb, int *info, size_t trans_length);
void openblas_set_num_threads(int threads);

static int solve(const struct system *system, int *exchange, double *x)
{
    int n = (int)system->n, stride = (int)system->stride, sides = 1, info;

    dgetrf_(&n, &n, system->a, &stride, exchange, &info);
    if (info != 0)
        return -EDOM;
    for (size_t i = 0; i < system->n; i++)
        x[i] = system_row(system, i)[system->n];
    dgetrs_("T", &n, &sides, system->a, &stride, exchange, x, &n, &info, 1);
    for (size_t i = 0; i < system->n; i++)
        system_row(system, i)[system->n] = x[i];
    return 0;
}

int eliminate_dgesv(const struct system *system, const struct setting *setting)
{
    int *exchange = calloc(system->n, sizeof(*exchange));
    double *x = calloc(system->n, sizeof(*x));
    int error = exchange && x ? 0 : -ENOMEM;

    if (system->stride > INT_MAX)
        error = -EOVERFLOW;
    openblas_set_num_threads((int)setting->processors);
    if (!error)
        error = solve(system, exchange, x);
    free(exchange);
    free(x);
    return error;
}
