/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a core shows its tasks to the others. Private; included by core.h. The owner publishes tasks when
 * a core is hungry and pokes one that is idle; any core may ask whether there are some to take.
 * Taking and running them is in tasks.h, the words are in protocol/task.h.
 */
#ifndef UMBRA_CORE_SHARE_H
#define UMBRA_CORE_SHARE_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/fiber.h>
#include <umbra/core/runtime.h>
#include <umbra/protocol/idle.h>
#include <umbra/protocol/task.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifndef UMBRA_DECLARE

/* Whether a core has tasks that nobody has started. The core. */
UM_INLINE bool um_core_has_tasks(struct umbra_core *core)
{
    return um_tasks_some(&core->tasks) || um_tasks_shared(&core->tasks);
}

/* ---- sharing ---- */

/* Something is shared: wakes a core that sleeps. Whether more of them sleep. */
UM_LINKONCE bool um_core_call_another(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    int other = um_idle_pick(runtime->idle, runtime->cores);
    uint64_t idle = 0;

    if (other >= 0)
        um_core_poke(runtime->core[other]);
    for (unsigned i = 0; i * UM_IDLE_BITS < runtime->cores; i++)
        idle |=
            um_atomic_load(&runtime->idle[i], relaxed); /* a hint; who sleeps later asks first */
    return idle != 0;
}

/* Shares private tasks, of which there are some, while none are shared: O2. */
UM_INLINE void um_core_publish(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;

    if (!um_atomic_load(&runtime->tasking, relaxed))    /* only ever set */
        um_atomic_store(&runtime->tasking, 1, relaxed); /* a hint, but to those who are called */
    um_tasks_publish(&core->tasks);
}

/*
 * Somebody has asked, and there are tasks: O1 to O4 of protocol/task.h. Those that are shared already
 * are enough; but who was called for them may have got other work, or nobody was.
 */
UM_LINKONCE void um_core_share(struct umbra_core *core)
{
    um_tasks_answer(&core->tasks);
    if (um_tasks_some(&core->tasks) && !um_tasks_shared(&core->tasks))
        um_core_publish(core);
    if (um_core_call_another(core))
        um_tasks_ask(&core->tasks);
}

/* whether there are tasks to take, of this core or of the next one it looks at, which
 * is asked to share if it has none for others. */
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

/* A core that has announced itself as idle: whether no core shares tasks; all are asked. */
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
    return core->starved || !(any || um_tasks_some(&core->tasks));
}

#endif /* UMBRA_DECLARE */

#endif
