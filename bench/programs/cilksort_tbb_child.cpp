// SPDX-License-Identifier: BSL-1.0
// oneTBB's row of the kernel cilksort, in a process of its own.
#include <oneapi/tbb/parallel_sort.h>

#include "cilksort_child.h"
#include "tbb_arena.hpp"

namespace {

cilksort_child child;
bound_threads *bound;

int sort_bound(setting *how)
{
    int *numbers = how->part.numbers;

    bound->arena.execute([&] { tbb::parallel_sort(numbers, numbers + how->part.count); });
    return 0;
}

void batch(child_channel *channel)
{
    cilksort_child_batch(channel, &child, sort_bound);
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc > 2 ? child_channel_map(std::atoi(argv[1])) : nullptr;

    if (channel == nullptr || !cilksort_child_create(&child, channel, argv[2]))
        return 2;
    bound = new bound_threads(*channel, channel->n_cpus);
    child_channel_serve(channel, batch);
}
