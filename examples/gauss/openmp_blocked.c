/* SPDX-License-Identifier: BSL-1.0 */
#include "blocks.h"
#include "variants.h"

#include <omp.h>

static void eliminate(const struct blocks *blocks, size_t processor)
{
    for (size_t k = 0; k < blocks->panels; k++) {
#pragma omp single
        blocks_kernel->factor(blocks->system, &blocks->panel[k], blocks_scratch(blocks, processor));
#pragma omp for schedule(dynamic)
        for (size_t s = blocks_first_strip(blocks, k + 1); s < blocks->strips; s++)
            blocks_kernel->apply(blocks->system, &blocks->panel[k], blocks_strip(blocks, s),
                                 blocks_scratch(blocks, processor));
    }
}

int eliminate_openmp_blocked(const struct system *system, const struct setting *setting)
{
    struct blocks blocks;
    int error = blocks_create(&blocks, system, setting, 1);

    if (!error) {
#pragma omp parallel num_threads((int)setting->processors)
        eliminate(&blocks, (size_t)omp_get_thread_num());
    }
    blocks_destroy(&blocks);
    return error;
}
