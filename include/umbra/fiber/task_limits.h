/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Limits of tasks: whether a fork leaves a task for other cores, or runs it. Private; included by
 * fiber.h; the interface is in umbra/task.h.
 *
 * A fork on a core without limits is as it always is, to the instruction. A core with limits forks
 * and joins by the slow way: its thread's um_tasks_self points to the tasks of a thread that is no
 * core, which is always asked and has no newest task. Only the core's own thread changes that:
 *
 *   any thread   L1  grain = limits, release        the core   C1  asked = 0  (task/protocol.h: O1)
 *                L2  asked = 1, seq_cst                        C2  load grain, acquire; set the pointer
 *
 * If C1 clears the `asked` of L2, C2 sees L1. If not, `asked` stays, and the next fork is slow.
 *
 * A fork that the limits allow is granted: the task's function becomes um_grant_run(), which knows
 * the program's. Since the fast join would call that one itself, the core keeps to the slow way as
 * long as it has a granted task that is not joined, even if the limits are gone.
 */
#ifndef UMBRA_FIBER_TASK_LIMITS_H
#define UMBRA_FIBER_TASK_LIMITS_H

#include <stdlib.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/environment.h>
#include <umbra/base/why.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/runtime.h>
#include <umbra/task/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* umbra/task.h: what a program may look at to decide about a fork. */
struct umbra_task_choice {
    umbra_task_fn *fn; /* of the task, as the next */
    void *arg;
    uint64_t depth; /* tasks that the forker runs in: 0: none */
    uint64_t live;  /* granted tasks that have not ended, of all cores */
};

/* True: leave the task for other cores; false: run it now. In the forker, which it must neither
 * switch nor let fork. */
typedef bool umbra_task_choose_fn(const struct umbra_task_choice *choice, void *arg);

/* Limits; not changed once they are published. */
struct um_task_limits {
    uint64_t live;                /* granted tasks that have not ended, at most */
    uint64_t depth;               /* a fork at this depth is not granted */
    umbra_task_choose_fn *choose; /* or NULL */
    void *choose_arg;
    struct um_task_limits *before; /* a core may still read it: freed with the runtime */
};

/* What the program forked, of a granted task. */
struct um_grant {
    umbra_task_fn *fn;
    void *arg;
    struct umbra_runtime *runtime;
    uint32_t depth; /* of the task */
};

#ifdef UMBRA_IMPLEMENTATION

/* ---- limits ---- */

/* The limits, or NULL; from now on the core forks as they want it. The core: C2. */
UM_LINKONCE const struct um_task_limits *um_task_limits_of(struct umbra_core *core)
{
    const struct um_task_limits *grain =
        (const struct um_task_limits *)um_limits_look(&core->runtime->task_limits); /* C2 */

    um_tasks_self = grain || core->more->grants > 0 ? &um_tasks_of_none : &core->tasks;
    return grain;
}

/* Publishes limits, which are copied; NULL: none; 0 in them: no limit. 0 or -ENOMEM. Any thread. */
UM_LINKONCE UM_COLD int um_task_limits_set(struct umbra_runtime *runtime,
                                           const struct um_task_limits *limits)
{
    struct um_task_limits *grain = limits ? malloc(sizeof(*grain)) : NULL;

    if (limits && !grain)
        return um_why_none(-ENOMEM);
    pthread_mutex_lock(&runtime->lock);
    if (grain) {
        *grain = *limits;
        grain->live = limits->live ? limits->live : UINT64_MAX;
        grain->depth = limits->depth ? limits->depth : UINT64_MAX;
        grain->before = runtime->old_limits;
        runtime->old_limits = grain;
    }
    um_limits_publish(&runtime->task_limits, (uintptr_t)grain); /* L1 */
    pthread_mutex_unlock(&runtime->lock);
    for (unsigned i = 0; runtime->core && i < runtime->cores && runtime->core[i]; i++)
        um_tasks_ask(&runtime->core[i]->tasks); /* L2 */
    return 0;
}

UM_LINKONCE UM_COLD void um_task_limits_free(struct umbra_runtime *runtime)
{
    while (runtime->old_limits) {
        struct um_task_limits *grain = runtime->old_limits;

        runtime->old_limits = grain->before;
        free(grain);
    }
}

/* Limits that the environment sets, of a runtime that is being created. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_task_limits_from_environment(struct umbra_runtime *runtime)
{
    struct um_task_limits grain = {.choose = NULL};
    int error = um_environment_number("UMBRA_TASK_LIVE", 0, UINT64_MAX, 0, &grain.live);

    if (error == 0)
        error = um_environment_number("UMBRA_TASK_DEPTH", 0, UINT64_MAX, 0, &grain.depth);
    if (error != 0 || (grain.live | grain.depth) == 0)
        return error;
    return um_task_limits_set(runtime, &grain);
}

/* ---- forks ---- */

UM_INLINE void um_task_limits_count(struct umbra_core *core, enum um_became what)
{
    /* relaxed, both: only the core writes; readers want numbers and no order */
    uint64_t count = um_atomic_load(&core->more->became[what], relaxed);

    um_atomic_store(&core->more->became[what], count + 1, relaxed);
}

/* The function of a granted task. */
UM_LINKONCE void um_grant_run(void *arg)
{
    struct um_grant grant = *(struct um_grant *)arg;
    struct um_fiber *self = um_core_current(um_core_self);
    uint32_t depth = self->task_depth;

    free(arg);
    self->task_depth = grant.depth;
    grant.fn(grant.arg);
    self->task_depth = depth;
    um_atomic_fetch_add(&grant.runtime->granted, UINT64_MAX,
                        relaxed); /* a number; orders nothing */
}

/* Asks the limits. Returns the grant, or NULL. `granted` counts the task already. */
UM_LINKONCE struct um_grant *um_task_limits_ask(struct umbra_core *core,
                                                const struct um_task_limits *grain,
                                                const struct umbra_task_choice *choice)
{
    struct um_grant *grant;

    if (choice->live >= grain->live || choice->depth >= grain->depth ||
        (grain->choose && !grain->choose(choice, grain->choose_arg)))
        return NULL;
    grant = malloc(sizeof(*grant));
    if (grant)
        *grant = (struct um_grant){.fn = choice->fn,
                                   .arg = choice->arg,
                                   .runtime = core->runtime,
                                   .depth = (uint32_t)choice->depth + 1};
    return grant;
}

/* A fork where there are limits. True: the task has been run; false: it is granted, and must be put
 * into the core's list. */
UM_LINKONCE bool um_task_limits_fork(struct umbra_core *core, const struct um_task_limits *grain,
                                     struct umbra_task *task)
{
    struct um_fiber *self = um_core_current(core);
    struct umbra_task_choice choice = {.fn = task->fn, .arg = task->arg, .depth = self->task_depth};
    struct um_grant *grant;

    /* relaxed, as the next: a number; forks that count at the same time do not exceed it */
    choice.live = um_atomic_fetch_add(&core->runtime->granted, 1, relaxed);
    grant = um_task_limits_ask(core, grain, &choice);
    if (grant) {
        task->fn = um_grant_run;
        task->arg = grant;
        core->more->grants++;
        return false;
    }
    um_atomic_fetch_add(&core->runtime->granted, UINT64_MAX, relaxed);
    um_task_limits_count(core, UM_BECAME_INLINE);
    self->task_depth++;
    task->fn(task->arg);
    self->task_depth--;
    um_task_begin(task, UM_TASK_DONE);
    return true;
}

/* A join is about to run a task's function, or has seen its end. The core that forked it. */
UM_INLINE void um_task_limits_joined(struct umbra_core *core, umbra_task_fn *fn, bool called)
{
    if (!core || fn != um_grant_run)
        return;
    core->more->grants--;
    if (called)
        um_task_limits_count(core, UM_BECAME_CALL);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
