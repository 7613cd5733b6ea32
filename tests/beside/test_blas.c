/* SPDX-License-Identifier: BSL-1.0 */
/* Matrix products of a BLAS with threads of its own (OpenBLAS) in fibers. */
#define _GNU_SOURCE
#include "beside.h"

#include <math.h>

#define N 192 /* large enough for OpenBLAS to use several threads */

/* Fortran's, which every BLAS has. */
void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc);

static double a[N * N], b[N * N];

/* Column-major, as Fortran has it. */
static void fill(void)
{
    for (int i = 0; i < N * N; i++) {
        a[i] = i % 17 - 8;
        b[i] = i % 13 - 6;
    }
}

static void multiply(void *c)
{
    static const int n = N;
    static const double one = 1, zero = 0;

    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
}

/* All numbers are small integers, so sums are exact in every order. */
static int wrong_elements(const double *c)
{
    int wrong = 0;

    for (int column = 0; column < N; column++)
        for (int row = 0; row < N; row++) {
            double sum = 0;

            for (int k = 0; k < N; k++)
                sum += a[row + k * N] * b[k + column * N];
            wrong += fabs(sum - c[row + column * N]) > 0;
        }
    return wrong;
}

static void *multiplies(void *c)
{
    for (int i = 0; i < 3; i++) {
        cr_expect(core_is_bound());
        cr_expect_eq(umbra_core_unbound(multiply, c), 0);
        cr_expect(core_is_bound(), "after product %d", i);
        cr_expect_eq(wrong_elements(c), 0);
    }
    return NULL;
}

/* Of all threads the core's alone is bound when its fiber counts. */
static void *multiplies_and_counts(void *c)
{
    struct census_of_threads census;

    multiplies(c);
    census = count_threads();
    if (CPU_COUNT(&allowed) > 1)
        cr_expect_eq(census.all, census.threads - 1, "%d of %d", census.all, census.threads);
    return NULL;
}

Test(blas, product_in_a_fiber_is_right_and_only_its_core_is_bound_after)
{
    static double c[N * N];

    note_allowed();
    fill();
    cr_assert_eq(run_cores(1, multiplies_and_counts, c), 0);
}

static void *multiply_on_each_core(void *arg)
{
    static double c[2][N * N];
    struct umbra_fiber fiber[2];

    for (unsigned i = 0; i < 2; i++) {
        struct umbra_spawn_options there = on_core(i);

        cr_expect_eq(umbra_spawn_with(NULL, &there, multiplies, c[i], &fiber[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(blas, products_of_several_cores_at_once_are_right)
{
    note_allowed();
    fill();
    cr_assert_eq(run_cores(2, multiply_on_each_core, NULL), 0);
}
