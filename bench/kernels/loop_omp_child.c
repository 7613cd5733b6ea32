/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The OpenMP side of loop, in a process of its own: a parallel loop of two parts, static. Compiled
 * once by gcc (libgomp) and once by clang (libomp). Told what to do by child_channel.h; the kernel
 * sets the environment that binds the threads and makes them wait actively.
 */
#define _GNU_SOURCE
#include "loop_child.h"

static void batch(struct child_channel *channel)
{
    uint64_t n = channel->iterations;
    uint64_t begin = loop_child_begin(channel);

    for (uint64_t i = 0; i < n; i++) {
#pragma omp parallel for schedule(static, 1) num_threads(LOOP_PARTS)
        for (size_t part = 0; part < LOOP_PARTS; part++)
            loop_part(&loop_child_case, part);
    }
    loop_child_end(channel, begin);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL)
        return 2;
    child_channel_serve(channel, batch);
}
