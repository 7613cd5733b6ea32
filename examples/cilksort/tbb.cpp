// SPDX-License-Identifier: BSL-1.0
#include <cerrno>
#include <new>

#include <tbb/parallel_sort.h>
#include <tbb/task_arena.h>

extern "C" {
#include "variants.h"
}

extern "C" int sort_tbb(struct setting *setting)
{
    int *numbers = setting->part.numbers;

    setting->tasks = 0;
    try {
        tbb::task_arena arena(static_cast<int>(setting->processors));

        arena.execute([&] { tbb::parallel_sort(numbers, numbers + setting->part.count); });
    } catch (const std::bad_alloc &) {
        return -ENOMEM;
    }
    return 0;
}
