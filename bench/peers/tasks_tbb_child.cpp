/* SPDX-License-Identifier: BSL-1.0 */
/* The oneTBB side of fib and dispatch, in a process of its own; see tbb_child.cpp. */
#include <cstring>

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_group.h>

#include "tasks_case.h"
#include "tbb_arena.hpp"

namespace {

tasks_case work;
tbb::task_arena *arena;

struct alignas(CHILD_CHANNEL_LINE) {
    uint64_t count;
} ran[2]; /* what each thread has */

long fib(int n)
{
    long two;

    if (n < 2)
        return n;
    tbb::task_group group;
    group.run([&two, n] { two = fib(n - 2); });
    long one = fib(n - 1);
    group.wait();
    return one + two;
}

void null_function()
{
    ran[tbb::this_task_arena::current_thread_index()].count++;
}

void once(child_channel *channel)
{
    if (std::strcmp(work.kind, "fib") == 0) {
        if (static_cast<uint64_t>(fib(static_cast<int>(work.size))) == tasks_fib(work.size))
            channel->verified += tasks_calls(work.size);
        return;
    }
    tbb::parallel_for(
        tbb::blocked_range<unsigned>(0, work.size, 1),
        [](const tbb::blocked_range<unsigned> &range) {
            for (unsigned i = range.begin(); i < range.end(); i++)
                null_function();
        },
        tbb::simple_partitioner());
}

void batch(child_channel *channel)
{
    uint64_t before = ran[0].count + ran[1].count;

    channel->verified = 0;
    arena->execute([=] {
        for (uint64_t i = 0; i < channel->iterations; i++)
            once(channel);
    });
    channel->verified += ran[0].count + ran[1].count - before;
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc == 3 ? child_channel_map(atoi(argv[1])) : nullptr;

    if (channel == nullptr || !tasks_case_read(argv[2], &work) || work.cores > 2)
        return 2;
    bound_threads cores(*channel, work.cores);

    arena = &cores.arena;
    child_channel_serve(channel, batch);
}
