/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The ForkUnion side of loop, in a process of its own: for_threads of a pool of two, the caller one
 * of them, each with the part of its number. Told what to do by child_channel.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>

#include <fork_union.hpp>

#include "loop_child.h"

namespace {

namespace fu = ashvardanian::fork_union;

/* its pool yields to the system between two polls unless told to pause */
#if defined(__x86_64__)
typedef fu::basic_pool<std::allocator<std::thread>, fu::x86_pause_t> two_threads;
#else
typedef fu::basic_pool_t two_threads;
#endif

two_threads *pool;

void batch(child_channel *channel)
{
    uint64_t begin = loop_child_begin(channel);

    for (uint64_t i = 0; i < channel->iterations; i++)
        pool->for_threads([](size_t part) noexcept { loop_part(&loop_child_case, part); });
    loop_child_end(channel, begin);
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : nullptr;
    cpu_set_t own;

    if (channel == nullptr)
        return 2;
    /* the pool's thread inherits its processor, then the caller goes to its own */
    CPU_ZERO(&own);
    CPU_SET((size_t)channel->cpus[1], &own);
    sched_setaffinity(0, sizeof own, &own);
    two_threads two;

    if (!two.try_spawn(LOOP_PARTS))
        return 2;
    CPU_ZERO(&own);
    CPU_SET((size_t)channel->cpus[0], &own);
    sched_setaffinity(0, sizeof own, &own);
    pool = &two;
    child_channel_serve(channel, batch);
}
