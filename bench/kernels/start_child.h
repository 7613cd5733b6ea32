/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the children of start have in common: each batch is in a process of its own, which has
 * started nothing yet. Told what to do by child_channel.h. C and C++.
 */
#ifndef UMBRA_BENCH_START_CHILD_H
#define UMBRA_BENCH_START_CHILD_H

#include <sched.h>
#include <sys/wait.h>

#include "child_channel.h"

enum start_problem { START_FIRST, START_AGAIN };

/* Starts threads, has them do nothing, and ends them; a thread for each processor. Returns 1 if all
 * of that could be done. */
typedef unsigned start_region(const struct child_channel *channel);

static start_region *start_measured;

static inline void start_batch(struct child_channel *channel)
{
    pid_t child;

    channel->verified = 0;
    child = fork();
    if (child == 0) {
        uint64_t begin;

        if (channel->problem == START_AGAIN)
            start_measured(channel);
        begin = child_channel_now_ns();
        for (uint64_t i = 0; i < channel->iterations; i++)
            channel->verified += start_measured(channel);
        channel->own_ns = child_channel_now_ns() - begin;
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

/* main() of a child, which may use the processors that it is told of. */
static inline int start_child(int argc, char **argv, start_region *measured)
{
    struct child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : NULL;
    cpu_set_t set;

    if (channel == NULL)
        return 2;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < channel->n_cpus; i++)
        CPU_SET((size_t)channel->cpus[i], &set);
    sched_setaffinity(0, sizeof set, &set);
    start_measured = measured;
    child_channel_serve(channel, start_batch);
    return 0;
}

#endif
