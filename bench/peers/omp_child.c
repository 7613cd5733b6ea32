/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The OpenMP side of null-fork: a parallel region of two threads, in a process of its own. Compiled
 * once by gcc (libgomp) and once by clang (libomp). Told what to do by child_channel.h; the kernel
 * sets the environment that binds the threads and makes them wait actively.
 */
#define _GNU_SOURCE
#include "child_channel.h"

#include <omp.h>

/* What each thread forked to has counted, on lines of their own. */
static struct {
    uint64_t count __attribute__((aligned(CHILD_CHANNEL_LINE)));
} threads[2];

static void batch(struct child_channel *channel)
{
    uint64_t iterations = channel->iterations;
    uint64_t before = threads[1].count;

    for (uint64_t i = 0; i < iterations; i++) {
#pragma omp parallel num_threads(2)
        threads[omp_get_thread_num()].count++;
    }
    channel->verified = channel->elsewhere = threads[1].count - before;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL)
        return 2;
    child_channel_serve(channel, batch);
}
