/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the children of start have in common: each batch is in a process of its own, which has
 * started nothing yet, or is a process that starts nothing. Told what to do by child_channel.h. C and C++.
 */
#ifndef UMBRA_BENCH_START_CHILD_H
#define UMBRA_BENCH_START_CHILD_H

#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child_channel.h"

enum start_problem { START_FIRST, START_AGAIN, START_PROCESS };

enum { START_REFUSED = 2 }; /* main() returns it without a channel */

/* Starts threads, has them do nothing, and ends them; a thread for each processor. Returns 1 if all
 * of that could be done. */
typedef unsigned start_region(const struct child_channel *channel);

static start_region *start_measured;

/* The program itself without arguments, which main() refuses at once. */
static inline void start_process(struct child_channel *channel)
{
    static char name[] = "start";
    char *const arguments[] = {name, NULL};
    uint64_t begin = child_channel_now_ns();

    for (uint64_t i = 0; i < channel->iterations; i++) {
        int status = 0;
        pid_t child;

        if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) != 0)
            break;
        channel->verified +=
            waitpid(child, &status, 0) == child && WEXITSTATUS(status) == START_REFUSED;
    }
    channel->own_ns = child_channel_now_ns() - begin;
}

static inline void start_batch(struct child_channel *channel)
{
    pid_t child;

    channel->verified = 0;
    if (channel->problem == START_PROCESS) {
        start_process(channel);
        return;
    }
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
        return START_REFUSED;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < channel->n_cpus; i++)
        CPU_SET((size_t)channel->cpus[i], &set);
    sched_setaffinity(0, sizeof set, &set);
    start_measured = measured;
    child_channel_serve(channel, start_batch);
    return 0;
}

#endif
