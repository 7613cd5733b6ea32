/* SPDX-License-Identifier: BSL-1.0 */
/*
 * OpenMP's rows of the kernel heat-adaptive, in processes of their own: compiled once by gcc (libgomp) and
 * once by clang (libomp) together with examples/heat/adaptive_openmp.c.
 */
#define _GNU_SOURCE
#include "heat_adaptive_child.h"

static struct heat_adaptive_child child;

static void batch(struct child_channel *channel)
{
    heat_adaptive_batch(channel, &child, adaptive_openmp);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !heat_adaptive_create(&child, channel, argv[2]))
        return 2;
    child_channel_serve(channel, batch);
}
