/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What fork(2) does to runtimes and sleepers: the locks that it takes along, and what a child keeps
 * of its parent's runtimes and cores. Private; included by core.h. Called by pthread_atfork's handlers
 * only.
 */
#ifndef UMBRA_CORE_FORK_CHILD_H
#define UMBRA_CORE_FORK_CHILD_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/trace_run.h>
#include <umbra/fiber.h>
#include <umbra/os/run_once.h>
#include <umbra/shadow.h>
#include <umbra/stack.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

UM_SHARED(UM_THREAD_LOCAL unsigned um_runtimes_forks, 0); /* um_fork_begins() */

/* Before fork(2). The child has none of the runtimes' threads, so the caller takes their locks. */
UM_LINKONCE UM_COLD void um_runtimes_before_fork(void)
{
    if (!um_fork_begins(&um_runtimes_forks))
        return;
    pthread_mutex_lock(&um_runtimes.lock);
    pthread_mutex_lock(&um_slabs.lock);
    pthread_mutex_lock(&um_sleepers.lock);
    pthread_mutex_lock(&um_sleepers.popping);
}

UM_LINKONCE UM_COLD void um_runtimes_in_parent(void)
{
    if (!um_fork_ends(&um_runtimes_forks))
        return;
    pthread_mutex_unlock(&um_sleepers.popping);
    pthread_mutex_unlock(&um_sleepers.lock);
    pthread_mutex_unlock(&um_slabs.lock);
    pthread_mutex_unlock(&um_runtimes.lock);
}

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

    if (!um_fork_ends(&um_runtimes_forks))
        return;
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
    pthread_mutex_unlock(&um_sleepers.popping);
    pthread_mutex_unlock(&um_sleepers.lock);
    pthread_mutex_unlock(&um_slabs.lock);
    pthread_mutex_unlock(&um_runtimes.lock);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
