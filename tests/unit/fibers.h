/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the tests of fibers share. Inside a fiber they only cr_expect: an assertion that fails ends
 * the test by a long jump, which must not leave the fiber's stack.
 */
#ifndef UMBRA_TESTS_FIBERS_H
#define UMBRA_TESTS_FIBERS_H

#include <runner.h>

#include <umbra.h>

#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

/* Runs fn in a fiber of a runtime with so many cores, which share processors if they must. */
static inline int run_cores(unsigned cores, umbra_fiber_fn *fn, void *arg)
{
    struct umbra_options options = {.cores = cores, .oversubscribe = true, .quiet = true};

    return umbra_run(&options, fn, arg);
}

static inline struct umbra_spawn_options on_core(unsigned core)
{
    return (struct umbra_spawn_options){.where = UMBRA_ON_CORE, .core = core};
}

/* Yields until *flag is not 0; from any fiber. */
static inline void until(const _Atomic int *flag)
{
    while (!*flag)
        umbra_yield();
}

#endif
