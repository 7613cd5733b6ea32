/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The OpenMP side of fine-grained, in a process of its own, compiled once by gcc (libgomp) and once
 * by clang (libomp); the tasks come compiled. Told what to do by child_channel.h; the kernel sets
 * the environment that binds the threads and makes them wait actively.
 *
 *   parallel   a parallel region a pair, each thread its own task
 *   loop       one region that stands, and in it a loop of two turns, static, a pair
 *   sections   one region that stands, and in it two sections a pair
 *   tasks      one region that stands, and in it a task and a taskwait a pair, while the other
 *              thread waits for tasks in the barrier at the region's end
 */
#define _GNU_SOURCE
#include "fine_child.h"

#include <omp.h>
#include <string.h>

typedef void way_fn(struct fine_pair *pair, struct child_channel *channel);

static void pairs_in_parallel(struct fine_pair *pair, struct child_channel *channel)
{
    uint64_t begin = child_channel_now_ns();

    for (uint64_t i = 0; i < channel->iterations; i++) {
#pragma omp parallel num_threads(2)
        pair->run(pair->sides[omp_get_thread_num()]);
    }
    channel->own_ns = child_channel_now_ns() - begin;
}

static void pairs_in_loop(struct fine_pair *pair, struct child_channel *channel)
{
    uint64_t n = channel->iterations;

#pragma omp parallel num_threads(2)
    {
        uint64_t begin = child_channel_now_ns();

        for (uint64_t i = 0; i < n; i++) {
#pragma omp for schedule(static, 1)
            for (int s = 0; s < 2; s++)
                pair->run(pair->sides[s]);
        }
#pragma omp master
        channel->own_ns = child_channel_now_ns() - begin;
    }
}

static void pairs_in_sections(struct fine_pair *pair, struct child_channel *channel)
{
    uint64_t n = channel->iterations;

#pragma omp parallel num_threads(2)
    {
        uint64_t begin = child_channel_now_ns();

        for (uint64_t i = 0; i < n; i++) {
#pragma omp sections
            {
#pragma omp section
                pair->run(pair->sides[0]);
#pragma omp section
                pair->run(pair->sides[1]);
            }
        }
#pragma omp master
        channel->own_ns = child_channel_now_ns() - begin;
    }
}

static void pairs_in_tasks(struct fine_pair *pair, struct child_channel *channel)
{
#pragma omp parallel num_threads(2)
#pragma omp master
    {
        uint64_t begin = child_channel_now_ns();

        for (uint64_t i = 0; i < channel->iterations; i++) {
#pragma omp task
            pair->run(pair->sides[1]);
            pair->run(pair->sides[0]);
#pragma omp taskwait
        }
        channel->own_ns = child_channel_now_ns() - begin;
    }
}

static const struct {
    const char *name;
    way_fn *run;
} ways[] = {
    {"parallel", pairs_in_parallel},
    {"loop", pairs_in_loop},
    {"sections", pairs_in_sections},
    {"tasks", pairs_in_tasks},
};

static way_fn *run_pairs;

static void batch(struct child_channel *channel)
{
    struct fine_pair *pair = fine_child_begin(channel);

    run_pairs(pair, channel);
    fine_child_end(channel, pair);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    for (size_t w = 0; channel != NULL && w < sizeof(ways) / sizeof(ways[0]); w++)
        if (strcmp(ways[w].name, argv[2]) == 0)
            run_pairs = ways[w].run;
    if (run_pairs == NULL)
        return 2;
    child_channel_serve(channel, batch);
}
