/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The oneTBB side of fine-grained, in a process of its own: an arena of two bound threads
 * (tbb_arena.hpp). Told what to do by child_channel.h.
 *
 *   task-group   run one task, call the other, wait
 *   invoke       parallel_invoke of both
 */
#include <cstring>

#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_group.h>

#include "fine_child.h"
#include "tbb_arena.hpp"

namespace {

tbb::task_arena *arena;
bool by_invoke;

void pairs_in_group(fine_pair *pair, uint64_t n)
{
    tbb::task_group group;

    for (uint64_t i = 0; i < n; i++) {
        group.run([=] { pair->run(pair->sides[1]); });
        pair->run(pair->sides[0]);
        group.wait();
    }
}

void pairs_by_invoke(fine_pair *pair, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        tbb::parallel_invoke([=] { pair->run(pair->sides[0]); },
                             [=] { pair->run(pair->sides[1]); });
}

void batch(child_channel *channel)
{
    fine_pair *pair = fine_child_begin(channel);

    arena->execute([=] {
        uint64_t begin = child_channel_now_ns();

        (by_invoke ? pairs_by_invoke : pairs_in_group)(pair, channel->iterations);
        channel->own_ns = child_channel_now_ns() - begin;
    });
    fine_child_end(channel, pair);
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc == 3 ? child_channel_map(atoi(argv[1])) : nullptr;

    if (channel == nullptr)
        return 2;
    by_invoke = std::strcmp(argv[2], "invoke") == 0;
    bound_threads two(*channel);

    arena = &two.arena;
    child_channel_serve(channel, batch);
}
