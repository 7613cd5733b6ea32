/* SPDX-License-Identifier: BSL-1.0 */
/*
 * OpenMP's rows of the kernel heat, in a process of their own: compiled once by gcc (libgomp) and
 * once by clang (libomp) together with examples/heat/openmp.c.
 */
#define _GNU_SOURCE
#include "heat_child.h"

static struct heat_child child;
static struct setting setting;

static spread_fn *const ways[] = {
    [WAY_STATIC] = spread_openmp_static,
    [WAY_DYNAMIC] = spread_openmp_dynamic,
    [WAY_GUIDED] = spread_openmp_guided,
    [WAY_TASKS] = spread_openmp_tasks,
    [WAY_DEPEND] = spread_openmp_depend,
};

static void batch(struct child_channel *channel)
{
    heat_child_batch(channel, &child, ways[heat_case_unpack(channel->problem).way], &setting);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !heat_child_create(&child, argv[2]))
        return 2;
    child_channel_serve(channel, batch);
}
