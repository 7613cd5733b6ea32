/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The oneTBB side of submit, in a process of its own: null functions enqueued in an arena of one
 * worker, which has the second processor, and a wait for all. Told what to do by child_channel.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>

#include <atomic>

#include <oneapi/tbb/task_arena.h>

#include "child_channel.h"

namespace {

tbb::task_arena *arena;
std::atomic<uint64_t> ran;

void bind(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

void row(uint64_t count)
{
    uint64_t end = ran.load(std::memory_order_relaxed) + count;

    for (uint64_t i = 0; i < count; i++)
        arena->enqueue([] { ran.fetch_add(1, std::memory_order_release); });
    while (ran.load(std::memory_order_acquire) != end)
        std::atomic_signal_fence(std::memory_order_seq_cst);
}

void batch(child_channel *channel)
{
    uint64_t before = ran.load(std::memory_order_relaxed), begin = child_channel_now_ns();

    for (uint64_t i = 0; i < channel->iterations; i++)
        row(channel->problem);
    channel->own_ns = child_channel_now_ns() - begin;
    channel->verified = ran.load(std::memory_order_relaxed) - before;
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : nullptr;

    if (channel == nullptr)
        return 2;
    tbb::task_arena one(1, 0);

    arena = &one;
    bind(channel->cpus[1]); /* the worker inherits this */
    row(1);
    bind(channel->cpus[0]);
    child_channel_serve(channel, batch);
}
