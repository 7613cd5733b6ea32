// SPDX-License-Identifier: BSL-1.0
// oneTBB's row of the kernel heat, in a process of its own with examples/heat/tbb.cpp.
#include <atomic>

#include <oneapi/tbb/parallel_for.h>

#include "heat_child.h"
#include "tbb_arena.hpp"

namespace {

heat_child child;
setting how;

// Until each thread has been in the arena that binds it: the arenas of spread_tbb do not.
void bind_threads(const child_channel &channel)
{
    bound_threads bound(channel, channel.n_cpus);
    const int all = static_cast<int>(channel.n_cpus);
    std::atomic<int> here{0};

    bound.arena.execute([&] {
        tbb::parallel_for(
            0, all,
            [&](int) {
                here++;
                while (here < all)
                    ;
            },
            tbb::simple_partitioner());
    });
}

void batch(child_channel *channel)
{
    heat_child_batch(channel, &child, spread_tbb, &how);
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc > 2 ? child_channel_map(std::atoi(argv[1])) : nullptr;

    if (channel == nullptr || !heat_child_create(&child, argv[2]))
        return 2;
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, channel->n_cpus);
    bind_threads(*channel);
    child_channel_serve(channel, batch);
}
