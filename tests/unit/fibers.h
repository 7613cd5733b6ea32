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

/* The processor of a core, or its state; -EINVAL: no such core. */
static inline int core_cpu(struct umbra_runtime *runtime, unsigned core)
{
    struct umbra_core_info info;
    int error = umbra_core_info(runtime, core, &info);

    return error == 0 ? info.cpu : error;
}

static inline int core_state(struct umbra_runtime *runtime, unsigned core)
{
    struct umbra_core_info info;
    int error = umbra_core_info(runtime, core, &info);

    return error == 0 ? (int)info.state : error;
}

/* The shadow of the calling fiber's core, or NULL. */
static inline struct umbra_shadow *own_shadow(void)
{
    struct umbra_core_info info = {.shadow = NULL};

    if (umbra_runtime_self())
        umbra_core_info(umbra_runtime_self(), (unsigned)umbra_core_index(), &info);
    return info.shadow;
}

/* Yields until *flag is not 0; from any fiber. */
static inline void until(const _Atomic int *flag)
{
    while (!*flag)
        umbra_yield();
}

#endif
