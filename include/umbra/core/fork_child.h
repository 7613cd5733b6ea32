/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What fork(2) does to runtimes and sleepers: the locks that it takes along, and what a child keeps
 * of its parent's runtimes and cores. Private; included by core.h.
 */
#ifndef UMBRA_CORE_FORK_CHILD_H
#define UMBRA_CORE_FORK_CHILD_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/trace_run.h>
#include <umbra/fiber.h>
#include <umbra/os/fork.h>
#include <umbra/shadow.h>
#include <umbra/stack.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/*
 * The child's only thread was a core. It goes on in the fiber that forked, but as a thread that is
 * no core. UM_FIBER_LOCAL makes the fiber call um_fiber_end() when its function returns; that ends
 * the process.
 */
UM_LINKONCE UM_COLD void um_core_in_child(struct umbra_core *core)
{
    struct um_fiber *fiber = um_core_current(core);

    if (fiber)
        um_fiber_set_flags(fiber, um_fiber_flags(fiber) | UM_FIBER_LOCAL);
    um_core_self = NULL;
    um_tasks_self = &um_tasks_of_none;
}

/* In the child no thread runs the parent's runtimes: they are marked, and leave the list. */
UM_LINKONCE UM_COLD void um_runtimes_in_child(void)
{
    struct umbra_runtime *runtime = um_atomic_load(&um_runtimes.first, relaxed); /* see below */

    um_origin_in_child();
    if (um_core_self)
        um_core_in_child(um_core_self);
    for (; runtime; runtime = um_atomic_load(&runtime->next, relaxed)) { /* the only thread, all */
        runtime->inherited = true;
        for (unsigned i = 0; i < runtime->cores; i++) /* its bell's number may be a file's here */
            um_atomic_store(&runtime->core[i]->waiter.park.parked, 0, relaxed);
    }
    um_atomic_store(&um_runtimes.first, NULL, relaxed);
    um_atomic_store(&um_runtimes.reports, 0, relaxed);
    um_atomic_store(&um_slabs.looking, 0, relaxed);
    um_atomic_store(&um_outside.calls, 0, relaxed);
    um_atomic_store(&um_outside.judging, 0, relaxed);
    um_trace_in_child();
    um_slabs.runtimes = 0; /* the handler stays, until a runtime of the child's own ends */
}

/* Has fork(2) take the locks from now on. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_runtimes_watch_forks(void)
{
    static const struct um_fork_locks locks = {
        {&um_runtimes.lock, &um_slabs.lock, &um_sleepers.lock, &um_sleepers.popping},
        um_runtimes_in_child};

    return um_forks_enter(UM_FORK_RUNTIMES, &locks);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
