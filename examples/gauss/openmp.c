/* SPDX-License-Identifier: BSL-1.0 */
#include "rows.h"
#include "variants.h"

int eliminate_openmp(const struct system *system, const struct setting *setting)
{
#pragma omp parallel num_threads((int)setting->processors)
    for (size_t k = 0; k < system->n; k++) {
#pragma omp for schedule(static)
        for (size_t row = k + 1; row < system->n; row++)
            rows_apply(system, row, k, k + 1);
    }
    return 0;
}
