/* SPDX-License-Identifier: BSL-1.0 */
#include "rows.h"
#include "variants.h"

/* The next column's largest element is noted while its rows are at hand. */
static void eliminate_pivoting(const struct system *system)
{
    struct pivot pivot = rows_first_pivot(system);

    for (size_t k = 0; k < system->n; k++) {
        rows_exchange(system, k, pivot.row);
        pivot = pivot_none(k + 1);
        for (size_t row = k + 1; row < system->n; row++) {
            rows_apply(system, row, row + 1, k, k + 1);
            pivot_offer_row(&pivot, system, row, k + 1);
        }
    }
}

int eliminate_serial(const struct system *system, const struct setting *setting)
{
    if (setting->pivoting) {
        eliminate_pivoting(system);
        return 0;
    }
    for (size_t k = 0; k < system->n; k++)
        for (size_t row = k + 1; row < system->n; row++)
            rows_apply(system, row, row + 1, k, k + 1);
    return 0;
}
