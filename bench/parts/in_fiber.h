/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a row that measures fibers needs: a runtime on the kernel's processors, and batches in a fiber
 * of it. The harness's thread, which shares the first of these processors, sleeps meanwhile; so the
 * clock is read in the fiber, which begins when that has fallen asleep. C.
 */
#ifndef UMBRA_BENCH_IN_FIBER_H
#define UMBRA_BENCH_IN_FIBER_H

#include <stdio.h>

#include <umbra/core.h>

#include "harness.h"

#define IN_FIBER_ASLEEP_NS 400000 /* after which the harness's thread sleeps */

/* A runtime with a core on each of the first `cores` processors of the kernel. 0 or a negative
 * errno. */
static inline int in_fiber_cores(const struct bench *bench, unsigned cores,
                                 struct umbra_runtime **runtime)
{
    char cpus[8 * BENCH_MAX_CPUS];
    int length = 0;
    struct umbra_options options = {.cpus = cpus, .topology = bench_topology(bench), .quiet = true};

    for (unsigned i = 0; i < cores; i++)
        length += snprintf(cpus + length, sizeof cpus - (size_t)length, "%s%d", i > 0 ? "," : "",
                           bench_cpu(bench, i));
    return umbra_runtime_create(&options, runtime);
}

/* Runs body(arg) in a fiber on core 0 and waits until it has ended. 0 or a negative errno. */
static inline int in_fiber(struct umbra_runtime *runtime, umbra_fiber_fn *body, void *arg)
{
    struct umbra_spawn_options first = {.where = UMBRA_ON_CORE, .delay_ns = IN_FIBER_ASLEEP_NS};
    struct umbra_fiber fiber;
    int error = umbra_spawn_with(runtime, &first, body, arg, &fiber);

    return error != 0 ? error : umbra_join(fiber, UMBRA_NEVER, NULL);
}

#endif
