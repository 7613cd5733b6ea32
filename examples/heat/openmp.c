/* SPDX-License-Identifier: BSL-1.0 */
/* One parallel region for all steps; the end of a step's loop, or a taskwait, is its barrier, but for
 * tasks that wait for those next to them. */
#include "variants.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

int spread_openmp_static(struct body *body, struct setting *setting)
{
    struct blocks blocks = blocks_of(body, setting->edge);

#pragma omp parallel num_threads((int)setting->processors)
    for (size_t step = 0; step < setting->steps; step++) {
#pragma omp master
        setting_step(setting, step);
#pragma omp for collapse(3) schedule(static)
        for (size_t z = 0; z < blocks.count[Z]; z++)
            for (size_t y = 0; y < blocks.count[Y]; y++)
                for (size_t x = 0; x < blocks.count[X]; x++)
                    body_sweep_at(body, &blocks, step, (size_t[]){x, y, z});
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
#pragma omp for collapse(3) schedule(dynamic, 1)
        for (size_t z = 0; z < blocks.count[Z]; z++)
            for (size_t y = 0; y < blocks.count[Y]; y++)
                for (size_t x = 0; x < blocks.count[X]; x++)
                    body_sweep_at(body, &blocks, step, (size_t[]){x, y, z});
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
#pragma omp for collapse(3) schedule(guided)
        for (size_t z = 0; z < blocks.count[Z]; z++)
            for (size_t y = 0; y < blocks.count[Y]; y++)
                for (size_t x = 0; x < blocks.count[X]; x++)
                    body_sweep_at(body, &blocks, step, (size_t[]){x, y, z});
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

/* ---- tasks that wait for those next to them, without an end of each step ---- */

/* The next block in a direction, or the one before; at the body's end the block itself. */
static size_t next_to(const struct blocks *blocks, size_t number, int direction, bool before)
{
    size_t stride = 1, at;

    for (int d = X; d < direction; d++)
        stride *= blocks->count[d];
    at = number / stride % blocks->count[direction];
    if (at == (before ? 0 : blocks->count[direction] - 1))
        return number;
    return before ? number - stride : number + stride;
}

/* gcc takes variables that only tasks depend on for unused. */
#pragma GCC diagnostic ignored "-Wunused-variable"

/* A block's task. states: a place for each block in either array. */
static void depend(struct body *body, const struct setting *setting, const struct blocks *blocks,
                   size_t step, size_t number, char *states)
{
    char *from = states + step % 2 * blocks->all, *to = states + (step + 1) % 2 * blocks->all;
    size_t left = next_to(blocks, number, X, true), right = next_to(blocks, number, X, false);
    size_t before = next_to(blocks, number, Y, true), behind = next_to(blocks, number, Y, false);
    size_t below = next_to(blocks, number, Z, true), above = next_to(blocks, number, Z, false);

#pragma omp task depend(out : to[number])                                                          \
    depend(in : from[number], from[left], from[right], from[before], from[behind], from[below],    \
               from[above])
    {
        if (number == 0)
            setting_step(setting, step);
        body_sweep_block(body, blocks, step, number);
    }
}

int spread_openmp_depend(struct body *body, struct setting *setting)
{
    struct blocks blocks = blocks_of(body, setting->edge);
    char *states = malloc(2 * blocks.all);

    if (!states)
        return -ENOMEM;
#pragma omp parallel num_threads((int)setting->processors)
#pragma omp single
    for (size_t step = 0; step < setting->steps; step++)
        for (size_t number = 0; number < blocks.all; number++)
            depend(body, setting, &blocks, step, number, states);
    free(states);
    return 0;
}
