// SPDX-License-Identifier: BSL-1.0
#include <cerrno>
#include <new>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

extern "C" {
#include "variants.h"
}

extern "C" int spread_tbb(struct body *body, struct setting *setting)
{
    const struct blocks blocks = blocks_of(body, setting->edge);

    try {
        tbb::task_arena arena(static_cast<int>(setting->processors));
        tbb::affinity_partitioner same_again;

        arena.execute([&] {
            for (size_t step = 0; step < setting->steps; step++) {
                setting_step(setting, step);
                tbb::parallel_for(
                    tbb::blocked_range<size_t>(0, blocks.all),
                    [&](const tbb::blocked_range<size_t> &some) {
                        body_sweep_blocks(body, &blocks, step, some.begin(), some.end());
                    },
                    same_again);
            }
        });
    } catch (const std::bad_alloc &) {
        return -ENOMEM;
    }
    return 0;
}
