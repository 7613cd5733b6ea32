/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The oneTBB side of loop, in a process of its own: parallel_for over two parts, static, in an arena
 * of two bound threads (tbb_arena.hpp). Told what to do by child_channel.h.
 */
#include <oneapi/tbb/parallel_for.h>

#include "loop_child.h"
#include "tbb_arena.hpp"

namespace {

tbb::task_arena *arena;

void batch(child_channel *channel)
{
    arena->execute([=] {
        uint64_t begin = loop_child_begin(channel);

        for (uint64_t i = 0; i < channel->iterations; i++)
            tbb::parallel_for(
                size_t{0}, size_t{LOOP_PARTS},
                [](size_t part) { loop_part(&loop_child_case, part); }, tbb::static_partitioner());
        loop_child_end(channel, begin);
    });
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : nullptr;

    if (channel == nullptr)
        return 2;
    bound_threads two(*channel);

    arena = &two.arena;
    child_channel_serve(channel, batch);
}
