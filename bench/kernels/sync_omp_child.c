/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The OpenMP side of sync and team, in a process of its own: the barrier of a region, or regions that
 * do nothing, of as many threads as the problem says. Compiled once by gcc (libgomp) and once by clang
 * (libomp). Told what to do by child_channel.h; the kernel sets the environment that binds the threads
 * and makes them wait actively.
 */
#define _GNU_SOURCE
#include "child_channel.h"
#include "sync_case.h"

#include <omp.h>

static struct sync_case barriers;

static void barrier(struct sync_case *of, unsigned side)
{
    (void)of;
    (void)side;
#pragma omp barrier
}

static void meet(struct child_channel *channel, unsigned sides)
{
    uint64_t n = channel->iterations;

#pragma omp parallel num_threads(sides)
    {
        uint64_t begin;

#pragma omp barrier
        begin = child_channel_now_ns();
        sync_side(&barriers, (unsigned)omp_get_thread_num(), n, barrier);
#pragma omp master
        channel->own_ns = child_channel_now_ns() - begin;
    }
}

static void fork_null(const struct child_channel *channel, unsigned sides)
{
    for (uint64_t i = 0; i < channel->iterations; i++) {
#pragma omp parallel num_threads(sides)
        barriers.side[omp_get_thread_num()].barriers++;
    }
}

static void batch(struct child_channel *channel)
{
    unsigned sides = (unsigned)channel->problem % SYNC_NULL;

    sync_begin(&barriers, sides);
    if (channel->problem < SYNC_NULL)
        meet(channel, sides);
    else
        fork_null(channel, sides);
    channel->verified = sync_verified(&barriers, channel->iterations);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL)
        return 2;
    child_channel_serve(channel, batch);
}
