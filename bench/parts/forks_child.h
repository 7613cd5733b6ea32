/* SPDX-License-Identifier: BSL-1.0 */
/* What child processes share that run the cases of forks.h, told by child_channel.h. C and C++. */
#ifndef UMBRA_BENCH_FORKS_CHILD_H
#define UMBRA_BENCH_FORKS_CHILD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>

#include "child_channel.h"
#include "forks.h"

/* The channel and the case that the arguments name; NULL: they are wrong, or too many cores. */
static inline struct child_channel *forks_child_open(int argc, char **argv, struct tasks_case *work)
{
    struct child_channel *channel = argc == 3 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !tasks_case_read(argv[2], work) || work->cores > channel->n_cpus)
        return NULL;
    return channel;
}

/* Threads that are started from now on stay on the processors of the case. */
static inline void forks_child_bind(const struct child_channel *channel,
                                    const struct tasks_case *work)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned i = 0; i < work->cores; i++)
        CPU_SET((size_t)channel->cpus[i], &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* A batch. */
static inline void forks_child_batch(struct child_channel *channel, const struct tasks_case *work,
                                     const struct forks_contender *contender)
{
    channel->verified = forks_batch(contender, work, channel->iterations, &channel->own_ns);
}

#endif
