/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a core finds work and runs it: tasks of its own and of other cores, what was put into its
 * handover, work without a place. Private; included by core.h. Fork and join are in umbra/task.h,
 * sharing in fiber/share_tasks.h.
 *
 * A core that has nothing else to do runs tasks, in a fiber: first its own, which blocked fibers
 * have left, then those of other cores, the oldest first. So a core that has tasks never sleeps,
 * and the thread that judges whether the runtime is quiet (core/quiet.h) need not look at
 * tasks.
 *
 * Any thread or fiber may fork and join; in a thread that is no core a fork runs the task at once.
 * A core without memory for a fiber is starved: it takes no task until it has waited, for 1 ms at
 * most (core/loop.h). What is joined needs no memory: a task that no core has begun is run by its
 * joiner, which takes it back if it was forked, and is given it by a starved core if it was started
 * from outside.
 */
#ifndef UMBRA_CORE_FIND_WORK_H
#define UMBRA_CORE_FIND_WORK_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/handover.h>
#include <umbra/core/make.h>
#include <umbra/core/spawn.h>
#include <umbra/fiber.h>
#include <umbra/task/protocol.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* What a core has found to do: a task, or what it has taken from a handover (core/handover.h); or
 * neither. */
struct um_work {
    struct umbra_task *task;
    struct um_handover *handover;
};

UM_INLINE bool um_work_none(struct um_work work)
{
    return !work.task && !work.handover;
}

/* ---- taking ---- */

/* Takes the oldest of the core's own tasks; NULL: none is left. */
UM_INLINE struct umbra_task *um_core_take_own(struct umbra_core *core)
{
    struct umbra_task *task = um_tasks_steal(&core->tasks);

    while (!task && um_tasks_some(&core->tasks)) {
        um_core_publish(core);
        task = um_tasks_steal(&core->tasks);
    }
    if (um_tasks_asked(&core->tasks) && um_core_has_tasks(core))
        um_core_share(core);
    return task;
}

/* Takes a task of another core; NULL: it shares none, and has been asked to. */
UM_INLINE struct umbra_task *um_core_take_from(struct umbra_core *core, struct umbra_core *other)
{
    struct umbra_task *task = um_tasks_steal(&other->tasks);

    if (!task && !um_tasks_asked(&other->tasks))
        um_tasks_ask(&other->tasks);
    if (task && um_tasks_shared(&other->tasks))
        um_core_call_another(core);
    else if (task)
        um_tasks_ask_early(&other->tasks);
    return task;
}

/* Steps 1 and 2 of um_core_find_work(). */
UM_INLINE struct um_work um_core_own_work(struct umbra_core *core)
{
    if (um_handover_take(&core->handover))
        return (struct um_work){.handover = &core->handover};
    return (struct um_work){.task = um_core_take_own(core)};
}

/*
 * The order in which a core that has nothing else to do looks for work:
 *
 *   1  its handover: what another core has given to it
 *   2  its own tasks, the oldest first: blocked fibers have left them
 *   3  tasks of other cores, first of the one that had some last; one that shares none is asked to
 *   4  what fibers of this core gave to cores that have found other work (task/hand_over_range.h)
 *
 * Work without a place, a fiber or a task from outside, is taken before all these, and by busy cores
 * as well: um_unplaced_due(), um_core_take_unplaced(). Of fibers a core takes first its own newest,
 * then the oldest of another core. The core, in a fiber or in the scheduler.
 */
UM_LINKONCE struct um_work um_core_find_work(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    struct um_work work = um_core_own_work(core);
    unsigned first = core->victim;

    for (unsigned i = 0; i < runtime->cores && um_work_none(work); i++) {
        unsigned other = (first + i) % runtime->cores;

        core->victim = other;
        if (other != core->index)
            work.task = um_core_take_from(core, runtime->core[other]);
    }
    for (unsigned i = 0; core->pieces > 0 && i < runtime->cores && um_work_none(work); i++)
        if (um_handover_take(&runtime->core[i]->handover))
            work.handover = &runtime->core[i]->handover;
    return work;
}

/* ---- running ---- */

/* Runs what was taken from a handover, and wakes the giver. The core's own handover is open again
 * if the core has nothing else to do. */
UM_INLINE void um_handover_run(struct umbra_core *core, struct um_handover *handover)
{
    const struct um_given *given = &handover->given;
    struct um_node *waiting;

    um_trace(core, UM_TRACE_TASK, given->fn ? (uintptr_t)given->fn : (uintptr_t)given->run,
             (uintptr_t)given);
    given->run(given);
    waiting = um_handover_end(handover, handover == &core->handover && um_ready_empty(core) &&
                                            !um_core_attention(core));
    if (waiting)
        um_node_wake(waiting, core);
}

/* Runs a task that was taken, and wakes its joiner. Then the task's memory is the joiner's. */
UM_INLINE void um_task_run(struct umbra_core *core, struct umbra_task *task)
{
    struct um_node *waiting;

    if (task->fn == um_grant_run)
        um_task_limits_count(core, UM_BECAME_FIBER);
    um_trace(core, UM_TRACE_TASK, (uintptr_t)task->fn, (uintptr_t)task);
    task->fn(task->arg);
    waiting = um_task_end(&task->state);
    if (waiting)
        um_node_wake(waiting, core);
}

/* ---- work without a place: fibers, and tasks from outside (core/idle.h) ---- */

/* Takes a fiber without a place out of the list of a core, perhaps another, for this one: the newest
 * or the oldest; or NULL. */
UM_LINKONCE struct um_fiber *um_unplaced_take(struct umbra_core *core, struct umbra_core *from,
                                              bool newest)
{
    struct um_unplaced_link *link;
    struct um_fiber *fiber = NULL;

    if (!um_unplaced_some(&from->spawned))
        return NULL;
    um_lock_take(&from->spawned.lock);
    link = um_unplaced_pop(&from->spawned, newest, core->unplaced);
    if (link) {
        fiber = um_fiber_of_unplaced(link);
        /* relaxed: the node waits for nothing yet; under the lock, for um_cancel_unplaced() */
        um_atomic_store(&fiber->node.home, (uintptr_t)core, relaxed);
    }
    um_lock_release(&from->spawned.lock);
    return fiber;
}

/* Takes the oldest, or NULL. With `polite` none while fibers without a place wait, too. */
UM_LINKONCE struct umbra_task *um_outside_take(struct umbra_runtime *runtime, bool polite)
{
    uint64_t count = um_atomic_load(&runtime->unplaced, relaxed); /* a hint */
    struct umbra_task *task;

    if (count < UM_IDLE_TASKS || (polite && (uint32_t)count != 0))
        return NULL;
    um_lock_take(&runtime->outside_lock);
    task = runtime->outside_first;
    if (task)
        runtime->outside_first = task->prev;
    if (task && !task->prev)
        um_idle_emptied(&runtime->unplaced, UM_IDLE_TASKS);
    um_lock_release(&runtime->outside_lock);
    return task;
}

/* Puts back a task that was taken, as the oldest. Under the lock. */
UM_LINKONCE UM_COLD void um_outside_put_back(struct umbra_runtime *runtime, struct umbra_task *task)
{
    task->prev = runtime->outside_first;
    runtime->outside_first = task;
    if (task->prev)
        return;
    runtime->outside_last = task;
    um_idle_added(&runtime->unplaced, UM_IDLE_TASKS);
}

/* There is no memory for a fiber: the core gives each task that is being joined back to its joiner,
 * which runs it. Under the lock. */
UM_LINKONCE UM_COLD void um_outside_return(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    struct umbra_task **link = &runtime->outside_first;
    struct umbra_task *last = NULL;

    while (*link) {
        struct umbra_task *task = *link;
        struct umbra_task *next = task->prev; /* the task may be gone soon */
        struct um_node *waiting;

        if (um_task_return(&task->state, &waiting)) {
            *link = next;
            if (waiting)
                um_node_wake(waiting, core);
        } else {
            last = task;
            link = &task->prev;
        }
    }
    runtime->outside_last = last;
    if (!last)
        um_idle_emptied(&runtime->unplaced, UM_IDLE_TASKS);
}

UM_INLINE enum um_look um_work_seen(struct umbra_core *core, void *arg)
{
    struct um_work *work = arg;

    if (um_handover_take(&core->handover)) {
        work->handover = &core->handover;
        return UM_LOOK_OVER;
    }
    if (um_core_attention(core))
        return UM_LOOK_LEAVE;
    um_handover_open(&core->handover); /* a giver that took its piece back has closed it */
    if (um_core_sees_tasks(core))
        *work = um_core_find_work(core);
    return um_work_none(*work) ? UM_LOOK_AGAIN : UM_LOOK_OVER;
}

/* The next work for a fiber that has done this, or none: the core has something else to do, or
 * there is no work. The fiber stays with an open handover while an idle core looks around: what
 * comes finds a fiber that is ready to run it. */
UM_INLINE struct um_work um_work_next(struct umbra_core *core, struct um_work last)
{
    struct um_work work = {NULL, NULL};

    if (!um_ready_empty(core) || um_core_own_words(core))
        return work;
    if (um_core_attention(core)) {
        work.task = um_outside_take(core->runtime, true);
        return work;
    }
    /* after a piece the next piece is most likely, and may come at once */
    work = last.handover ? um_core_own_work(core) : um_core_find_work(core);
    if (um_work_none(work))
        um_look_in_place(core, core->runtime->polls, &core->handover, core->look_cycles,
                         UMBRA_NEVER, um_work_seen, &work);
    return work;
}

/* A fiber that works: first what it was made for, then more, as long as the core has nothing else to
 * do. Each piece has a life of the fiber to itself: a handle that one task gave away does not cancel
 * the next. A task that leaves something behind, a cancellation or a fiber-local value, is the last
 * one, as is one that has forked, in the child process. */
UM_LINKONCE void um_work_run(struct um_work work)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self = um_core_current(core);

    for (;;) {
        if (work.handover)
            um_handover_run(core, work.handover);
        else
            um_task_run(core, work.task);
        if (um_fiber_flags(self) & UM_FIBER_KEPT)
            work = (struct um_work){NULL, NULL};
        else
            work = um_work_next(core, work);
        um_handover_close(&core->handover);
        if (um_work_none(work))
            return;
        um_pool_reset(self);
        um_fiber_set_state(self, UMBRA_FIBER_READY); /* a share of its own: without SLICE */
    }
}

UM_LINKONCE void *um_task_fiber(void *task)
{
    um_work_run((struct um_work){.task = task});
    return NULL;
}

UM_LINKONCE void *um_handover_fiber(void *handover)
{
    um_work_run((struct um_work){.handover = handover});
    return NULL;
}

/* Makes a fiber that the core has taken ready for work. */
UM_LINKONCE void um_work_start(struct umbra_core *core, struct um_fiber *fiber, struct um_work work)
{
    if (work.handover)
        um_fiber_prepare(fiber, core, um_handover_fiber, work.handover, NULL);
    else
        um_fiber_prepare(fiber, core, um_task_fiber, work.task, NULL);
    if (um_tracing())
        um_trace_spawn(core, fiber);
    um_core_count(core, 1);
    um_fiber_make_ready(core, fiber);
}

/* Takes a task from outside, if there is one, and makes a fiber ready that runs it. Without memory for
 * a fiber the task waits on, for its joiner: an idle core is woken for it, and this one tries again
 * after a while. */
UM_LINKONCE void um_core_take_outside(struct umbra_core *core)
{
    struct umbra_task *task = um_outside_take(core->runtime, false);
    struct um_fiber *fiber;

    if (!task)
        return;
    core->starved = um_pool_take(core, core, 0, &fiber) != 0;
    if (core->starved) {
        um_lock_take(&core->runtime->outside_lock);
        um_outside_put_back(core->runtime, task);
        um_outside_return(core);
        um_lock_release(&core->runtime->outside_lock);
        um_unplaced_call(core->runtime);
        return;
    }
    um_work_start(core, fiber, (struct um_work){.task = task});
}

#define UM_UNPLACED_TURN 1024 /* see core/unplaced.h */

/* Takes work without a place: one fiber and one task, so that neither waits for all of the other
 * kind. */
UM_LINKONCE void um_core_take_unplaced(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    struct um_fiber *fiber = NULL;
    bool turn = ++core->takes % UM_UNPLACED_TURN == 0;
    unsigned first = core->index + (turn ? core->takes / UM_UNPLACED_TURN : 0);

    core->passed = 0;
    for (unsigned i = 0; i < runtime->cores && !fiber; i++) {
        struct umbra_core *from = runtime->core[(first + i) % runtime->cores];

        fiber = um_unplaced_take(core, from, from == core && !turn);
    }
    if (fiber)
        um_core_begin(core, fiber, UM_BEGIN_LAST);
    um_core_take_outside(core);
}

/* True if um_core_find_work() may find some. Asks no core to share. */
UM_INLINE bool um_core_could_take(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    bool any = um_tasks_some(&core->tasks) || um_handover_holds(&core->handover);

    for (unsigned i = 0; i < runtime->cores && !any; i++)
        any = um_tasks_shared(&runtime->core[i]->tasks) ||
              (core->pieces > 0 && um_handover_holds(&runtime->core[i]->handover));
    return any && !core->starved;
}

/* Takes work, if there is any, and makes a fiber ready for it. True if it did; false also without
 * memory for a fiber: the core is starved then. */
UM_LINKONCE bool um_core_take_work(struct umbra_core *core)
{
    struct um_fiber *fiber;
    struct um_work work;

    if (!um_core_could_take(core))
        return false;
    if (um_pool_take(core, core, 0, &fiber) != 0) {
        core->starved = true;
        if (um_core_has_tasks(core))
            um_core_share(core); /* other cores may have memory */
        return false;
    }
    work = um_core_find_work(core);
    if (um_work_none(work)) {
        um_pool_keep(core, fiber);
        return false;
    }
    um_work_start(core, fiber, work);
    return true;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
