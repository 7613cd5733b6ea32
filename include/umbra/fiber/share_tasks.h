/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a core shares its tasks with other cores. Private; included by fiber.h. The owner publishes
 * tasks when another core has asked, and wakes a core that is idle. Any core may look at the tasks
 * of the others, and ask them to share. Taking and running tasks is in core/find_work.h; the words are
 * in task/protocol.h.
 */
#ifndef UMBRA_FIBER_SHARE_TASKS_H
#define UMBRA_FIBER_SHARE_TASKS_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/protocol.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/runtime.h>
#include <umbra/fiber/task_limits.h>
#include <umbra/task/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* True if the core has tasks that have not started. The core. */
UM_INLINE bool um_core_has_tasks(struct umbra_core *core)
{
    return um_tasks_some(&core->tasks) || um_tasks_shared(&core->tasks);
}

/* ---- sharing ---- */

/* Wakes one sleeping core, since tasks are shared: O3 and O4. True if more cores sleep. */
UM_LINKONCE bool um_core_call_another(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    int other = um_idle_pick(runtime->idle, runtime->cores);
    uint64_t idle = 0;

    if (other >= 0)
        um_core_poke(runtime->core[other]);
    for (unsigned i = 0; i * UM_IDLE_BITS < runtime->cores; i++)
        idle |=
            um_atomic_load(&runtime->idle[i], relaxed); /* a hint: a core that sleeps later asks */
    return idle != 0;
}

/* Shares private tasks: O2. The core has some, and none of its tasks is shared. */
UM_INLINE void um_core_publish(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;

    if (!um_atomic_load(&runtime->tasking, relaxed))    /* never cleared */
        um_atomic_store(&runtime->tasking, 1, relaxed); /* a hint; a poked core sees it */
    um_tasks_publish(&core->tasks);
}

/*
 * Answers a request, when the core has tasks: O1 to O4 of task/protocol.h. If some tasks are shared
 * already, no more are published; but a core is woken all the same, since the core that was woken
 * for them may have found other work, or none was woken.
 */
UM_LINKONCE void um_core_share(struct umbra_core *core)
{
    um_tasks_answer(&core->tasks);
    um_task_limits_of(core);
    if (um_tasks_some(&core->tasks) && !um_tasks_shared(&core->tasks))
        um_core_publish(core);
    if (um_core_call_another(core))
        um_tasks_ask(&core->tasks);
}

/* Looks at the next core in turn, at times at this core itself. True if that core has tasks to
 * take. If another core shares none it is asked to. */
UM_LINKONCE bool um_core_sees_tasks(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    struct um_tasks *tasks;

    if (core->starved)
        return false;
    core->victim = core->victim + 1 < runtime->cores ? core->victim + 1 : 0;
    tasks = &runtime->core[core->victim]->tasks;
    if (core->victim == core->index)
        return um_core_has_tasks(core);
    if (um_tasks_shared(tasks))
        return true;
    if (!um_tasks_asked(tasks))
        um_tasks_ask(tasks);
    return false;
}

/* For a core that has announced itself as idle: asks all other cores to share (H2, H3). True if the
 * core may sleep: there are no tasks to take. */
UM_LINKONCE bool um_core_no_tasks(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    bool any = false;

    for (unsigned i = 0; i < runtime->cores; i++) {
        struct umbra_core *other = runtime->core[i];

        if (other != core)
            um_tasks_ask(&other->tasks);
        any = any || um_tasks_shared(&other->tasks);
    }
    return !(any || um_tasks_some(&core->tasks));
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
