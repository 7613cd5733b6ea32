/* SPDX-License-Identifier: BSL-1.0 */
/*
 * OpenMP's row of the kernel cilksort, in a process of its own: compiled once by gcc (libgomp) and
 * once by clang (libomp) together with examples/cilksort/openmp.c.
 */
#define _GNU_SOURCE
#include "cilksort_child.h"

static struct cilksort_child child;

static void batch(struct child_channel *channel)
{
    cilksort_child_batch(channel, &child, sort_openmp);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !cilksort_child_create(&child, channel, argv[2]))
        return 2;
    child_channel_serve(channel, batch);
}
