/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The rows of the kernel heat that need no other runtime, in a process of their own: one processor,
 * the dispatcher, and scatter and gather. Also how much memory a run takes.
 */
#define _GNU_SOURCE
#include "heat_child.h"
#include "resident.h"

#include <umbra.h>

static struct heat_child child;
static struct setting setting;

/* The body's blocks one after the other; a single one is the body as a whole. */
static int spread_blocks(struct body *body, struct setting *how)
{
    struct blocks blocks = blocks_of(body, how->edge);

    for (size_t step = 0; step < how->steps; step++)
        body_sweep_blocks(body, &blocks, step, 0, blocks.all);
    return 0;
}

static spread_fn *const ways[] = {
    [WAY_SERIAL] = spread_blocks,
    [WAY_DISPATCH] = spread_dispatch,
    [WAY_DISPATCH_PURE] = spread_dispatch_pure,
    [WAY_DISPATCH_AHEAD] = spread_dispatch_ahead,
    [WAY_SCATTER_GATHER] = spread_scatter_gather,
};

static int start_runtime(const struct child_channel *channel, unsigned cores)
{
    char cpus[CHILD_CHANNEL_LIST_BYTES];
    struct umbra_options options = {.cpus = child_channel_list(channel, cores, cpus),
                                    .quiet = true};

    return umbra_runtime_create(&options, &setting.runtime);
}

/* ---- memory ---- */

/* A body of its own, and steps in it: what that makes resident. */
static uint64_t body_and_steps(void *arg)
{
    struct child_channel *channel = arg;
    struct heat_case heat = heat_case_unpack(channel->problem);
    struct heat_child own = {.body = {.memory = NULL}};
    const size_t *nodes = child.body.nodes;
    uint64_t before;

    if (start_runtime(channel, heat.cores) != 0)
        return 0;
    before = resident_bytes();
    if (body_create(&own.body, nodes) != 0 || heat_child_begin(&own) != 0)
        return 0;
    heat_child_batch(channel, &own, ways[heat.way], &setting);
    return resident_bytes() - before;
}

static void measure_memory(struct child_channel *channel)
{
    channel->own_ns = resident_elsewhere(body_and_steps, channel) * channel->iterations;
}

static void batch(struct child_channel *channel)
{
    struct heat_case heat = heat_case_unpack(channel->problem);

    if (heat.resident) {
        measure_memory(channel);
        return;
    }
    if (heat.way != WAY_SERIAL && start_runtime(channel, heat.cores) != 0) {
        channel->verified = 0;
        return;
    }
    heat_child_batch(channel, &child, ways[heat.way], &setting);
    umbra_runtime_destroy(setting.runtime);
    setting.runtime = NULL;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !heat_child_create(&child, argv[2]))
        return 2;
    child_channel_serve(channel, batch);
}
