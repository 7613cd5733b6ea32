/* SPDX-License-Identifier: BSL-1.0 */
/* One parallel region for all steps; the end of a step's loop is its barrier. */
#include "variants.h"

int spread_openmp_static(struct body *body, struct setting *setting)
{
    struct blocks blocks = blocks_of(body, setting->edge);

#pragma omp parallel num_threads((int)setting->processors)
    for (size_t step = 0; step < setting->steps; step++) {
#pragma omp master
        setting_step(setting, step);
#pragma omp for schedule(static)
        for (size_t number = 0; number < blocks.all; number++)
            body_sweep_block(body, &blocks, step, number);
    }
    return 0;
}

int spread_openmp_dynamic(struct body *body, struct setting *setting)
{
    struct blocks blocks = blocks_of(body, setting->edge);

#pragma omp parallel num_threads((int)setting->processors)
    for (size_t step = 0; step < setting->steps; step++) {
#pragma omp master
        setting_step(setting, step);
#pragma omp for schedule(dynamic, 1)
        for (size_t number = 0; number < blocks.all; number++)
            body_sweep_block(body, &blocks, step, number);
    }
    return 0;
}

int spread_openmp_guided(struct body *body, struct setting *setting)
{
    struct blocks blocks = blocks_of(body, setting->edge);

#pragma omp parallel num_threads((int)setting->processors)
    for (size_t step = 0; step < setting->steps; step++) {
#pragma omp master
        setting_step(setting, step);
#pragma omp for schedule(guided)
        for (size_t number = 0; number < blocks.all; number++)
            body_sweep_block(body, &blocks, step, number);
    }
    return 0;
}

int spread_openmp_tasks(struct body *body, struct setting *setting)
{
    struct blocks blocks = blocks_of(body, setting->edge);

#pragma omp parallel num_threads((int)setting->processors)
#pragma omp single
    for (size_t step = 0; step < setting->steps; step++) {
        setting_step(setting, step);
        for (size_t number = 0; number < blocks.all; number++) {
#pragma omp task firstprivate(step, number) shared(blocks)
            body_sweep_block(body, &blocks, step, number);
        }
#pragma omp taskwait
    }
    return 0;
}
