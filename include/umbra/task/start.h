/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Bodies of umbra/task.h: the fork, the start from outside, limits. The slow paths of fork and join
 * are in task/task_join.h, ranges in task/ranges.h. Private; included by task.h, after its
 * declarations.
 */
#ifndef UMBRA_TASK_START_H
#define UMBRA_TASK_START_H

#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core.h>
#include <umbra/task/protocol.h>
#include <umbra/task/task_join.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* ---- fork and join ---- */

UM_ALWAYS_INLINE void umbra_task_fork(struct umbra_task *task, umbra_task_fn *fn, void *arg)
{
    struct um_tasks *tasks = um_tasks_self;

    if (UMBRA_ASSERT)
        um_task_check_fork(task, fn);
    task->fn = fn;
    task->arg = arg;
    if (UM_UNLIKELY(um_tasks_asked(tasks)))
        um_task_fork_slow(task);
    else
        um_tasks_push(tasks, task);
}

#ifdef UMBRA_IMPLEMENTATION

/* Adds a task. Wakes a core for it if one sleeps: a row of tasks wakes each core once. */
UM_LINKONCE void um_outside_add(struct umbra_runtime *runtime, struct umbra_task *task)
{
    task->prev = NULL;
    um_lock_take(&runtime->outside_lock);
    if (runtime->outside_first) {
        runtime->outside_last->prev = task;
    } else {
        runtime->outside_first = task;
        um_idle_added(&runtime->unplaced, UM_IDLE_TASKS);
    }
    runtime->outside_last = task;
    um_lock_release(&runtime->outside_lock);
    um_unplaced_call(runtime);
}

UM_LINKONCE int umbra_task_start(struct umbra_runtime *runtime, struct umbra_task *task,
                                 umbra_task_fn *fn, void *arg)
{
    struct umbra_core *here = um_core_self && um_core_current(um_core_self) ? um_core_self : NULL;

    if (!runtime && here)
        runtime = here->runtime;
    if (!runtime || (runtime->inherited && !(here && here->runtime == runtime)))
        return um_why(-EPERM, runtime ? "the runtime belongs to the parent process"
                                      : "the caller is no fiber, and names no runtime");
    if (!fn)
        return um_why(-EINVAL, "there is no function to run");
    um_outside_check(runtime, task, __builtin_return_address(0));
    task->fn = fn;
    task->arg = arg;
    um_task_begin(task, UM_TASK_WAITED);
    um_outside_add(runtime, task);
    return 0;
}

/* ---- limits ---- */

UM_LINKONCE int umbra_task_set_limits(struct umbra_runtime *runtime,
                                      const struct umbra_task_limits *limits)
{
    struct um_task_limits grain;

    if (runtime->inherited)
        return um_why(-EPERM, "the runtime belongs to the parent process");
    if (!limits)
        return um_task_limits_set(runtime, NULL);
    grain = (struct um_task_limits){.live = limits->live,
                                    .depth = limits->depth,
                                    .choose = limits->choose,
                                    .choose_arg = limits->choose_arg};
    return um_task_limits_set(runtime, &grain);
}

UM_LINKONCE uint64_t um_loop_runs(void); /* task/loop_team.h */

UM_LINKONCE void umbra_task_get_counts(struct umbra_runtime *runtime,
                                       struct umbra_task_counts *counts)
{
    uint64_t became[UM_BECAME] = {0};

    /* relaxed, all: numbers */
    if (!runtime) {
        *counts = (struct umbra_task_counts){.loops = um_loop_runs()};
        return;
    }
    for (unsigned i = 0; i < runtime->cores; i++)
        for (unsigned what = 0; what < UM_BECAME; what++)
            became[what] += um_atomic_load(&runtime->core[i]->more->became[what], relaxed);
    *counts = (struct umbra_task_counts){.inlined = became[UM_BECAME_INLINE],
                                         .called = became[UM_BECAME_CALL],
                                         .fibers = became[UM_BECAME_FIBER],
                                         .live = um_atomic_load(&runtime->granted, relaxed)};
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
