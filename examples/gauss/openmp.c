/* SPDX-License-Identifier: BSL-1.0 */
#include "rows.h"
#include "variants.h"

/* As in serial.c: each thread notes the largest element of its rows. */
static void eliminate_pivoting(const struct system *system, const struct setting *setting)
{
    struct pivot pivot = rows_first_pivot(system);

#pragma omp parallel num_threads((int)setting->processors)
    for (size_t k = 0; k < system->n; k++) {
        struct pivot best = pivot_none(k + 1);

#pragma omp single
        {
            rows_exchange(system, k, pivot.row);
            pivot = best;
        }
#pragma omp for schedule(static) nowait
        for (size_t row = k + 1; row < system->n; row++) {
            rows_apply(system, row, row + 1, k, k + 1);
            pivot_offer_row(&best, system, row, k + 1);
        }
#pragma omp critical(offer)
        pivot_offer(&pivot, &best);
#pragma omp barrier
    }
}

int eliminate_openmp(const struct system *system, const struct setting *setting)
{
    if (setting->pivoting) {
        eliminate_pivoting(system, setting);
        return 0;
    }
#pragma omp parallel num_threads((int)setting->processors)
    for (size_t k = 0; k < system->n; k++) {
#pragma omp for schedule(static)
        for (size_t row = k + 1; row < system->n; row++)
            rows_apply(system, row, row + 1, k, k + 1);
    }
    return 0;
}
