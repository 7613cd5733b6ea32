/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The citor side of loop, in a process of its own: parallelFor over two parts, static. Its pool
 * binds its threads to the two processors. Told what to do by child_channel.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>

#include <thread>

#include <citor/hints.h>
#include <citor/thread_pool.h>

#include "loop_child.h"

namespace {

citor::ThreadPool *pool;

void batch(child_channel *channel)
{
    uint64_t begin = loop_child_begin(channel);

    for (uint64_t i = 0; i < channel->iterations; i++)
        pool->parallelFor<citor::HintsDefaults>(size_t{0}, size_t{LOOP_PARTS},
                                                [](size_t first, size_t end) {
                                                    for (size_t part = first; part < end; part++)
                                                        loop_part(&loop_child_case, part);
                                                });
    loop_child_end(channel, begin);
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : nullptr;
    cpu_set_t both;

    if (channel == nullptr)
        return 2;
    CPU_ZERO(&both);
    CPU_SET((size_t)channel->cpus[0], &both);
    CPU_SET((size_t)channel->cpus[1], &both);
    sched_setaffinity(0, sizeof both, &both);
    /* PerCpu takes no more threads than there are physical cores */
    citor::ThreadPool threads(LOOP_PARTS, LOOP_PARTS == std::thread::hardware_concurrency()
                                              ? citor::Affinity::PerCpuSmtPair
                                              : citor::Affinity::PerCpu);

    pool = &threads;
    child_channel_serve(channel, batch);
}
