/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the child processes of the kernel heat-adaptive have in common: a body with a hot spot, argument
 * "NODES:STEPS:PROCESSORS", and the check that a run's result is the serial one, bit for bit. Each
 * runs one way of examples/heat/adaptive_ways.h. C and C++.
 */
#ifndef UMBRA_BENCH_HEAT_ADAPTIVE_CHILD_H
#define UMBRA_BENCH_HEAT_ADAPTIVE_CHILD_H

#include <stdio.h>
#include <stdlib.h>

#include "child_channel.h"

#ifdef __cplusplus
extern "C" {
#endif
#include <adaptive_ways.h>
#ifdef __cplusplus
}
#endif

#define HEAT_ADAPTIVE_BLOCK 8 /* coarse nodes on an edge */
#define HEAT_ADAPTIVE_BOUND 0.005

struct heat_adaptive_child {
    struct adaptive expected, body;
    struct adaptive_run run; /* of body */
};

/* True if the argument names a body and there is memory; expected is then the serial result. */
static inline int heat_adaptive_create(struct heat_adaptive_child *child,
                                       const struct child_channel *channel, const char *argument)
{
    const size_t edge[3] = {HEAT_ADAPTIVE_BLOCK, HEAT_ADAPTIVE_BLOCK, HEAT_ADAPTIVE_BLOCK};
    struct adaptive_run *run = &child->run;
    size_t n;

    if (sscanf(argument, "%zu:%zu:%zu", &n, &run->steps, &run->processors) != 3 ||
        run->processors > channel->n_cpus)
        return 0;
    const size_t nodes[3] = {n, n, n};
    if (adaptive_create(&child->expected, nodes, edge, HEAT_ADAPTIVE_BOUND) != 0 ||
        adaptive_create(&child->body, nodes, edge, HEAT_ADAPTIVE_BOUND) != 0 ||
        adaptive_heat_spot(&child->expected) != 0)
        return 0;
    run->adaptive = &child->expected;
    if (adaptive_serial(run) != 0)
        return 0;
    run->adaptive = &child->body;
    return 1;
}

/* A batch: all steps, channel->iterations times; only they are timed. */
static inline void heat_adaptive_batch(struct child_channel *channel,
                                       struct heat_adaptive_child *child, adaptive_fn *way)
{
    struct adaptive_run *run = &child->run;
    uint64_t ns = 0, right = 0;

    for (uint64_t i = 0; i < channel->iterations; i++) {
        uint64_t begin;
        int error = adaptive_heat_spot(&child->body);

        begin = child_channel_now_ns();
        if (error == 0)
            error = way(run);
        ns += child_channel_now_ns() - begin;
        right += error == 0 && adaptive_same(&child->expected, &child->body, run->steps);
    }
    channel->own_ns = ns > 0 ? ns : 1;
    channel->verified = right * run->steps;
    channel->elsewhere = 0;
}

#endif
