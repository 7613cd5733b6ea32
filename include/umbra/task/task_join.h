/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The slow ways of fork and join: how a joiner takes its task back, or waits for its end, and what
 * misuse is found with UMBRA_ASSERT. Private; included by task.h. The short ways are in umbra/task.h,
 * the core's side in core/find_work.h. The joiner's side of a task's state (task/protocol.h) is here; the
 * model checker reads it.
 */
#ifndef UMBRA_TASK_TASK_JOIN_H
#define UMBRA_TASK_TASK_JOIN_H

#include <sched.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/fiber.h>
#include <umbra/task/protocol.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_LINKONCE void um_task_joined(void *arg);

/* A fork, with UMBRA_ASSERT: aborts if there is no function, or the task is in a list already. */
UM_LINKONCE UM_NOINLINE void um_task_check_fork(struct umbra_task *task, umbra_task_fn *fn);

/* Returns the task's function. The task is the joiner's alone, which may be about to run it. With
 * UMBRA_ASSERT, marks the task as joined. */
UM_INLINE umbra_task_fn *um_task_take_fn(struct umbra_task *task)
{
    umbra_task_fn *fn = task->fn;

    if (UMBRA_ASSERT)
        task->fn = um_task_joined;
    return fn;
}

UM_LINKONCE void um_task_fork_slow(struct umbra_task *task);
UM_LINKONCE UM_NOINLINE int um_task_join_slow(struct umbra_task *task, uint64_t deadline);

#ifdef UMBRA_IMPLEMENTATION

/* ---- a task's state: the joiner ---- */

/* Joiner: true if the task has ended. */
UM_INLINE bool um_task_has_ended(um_atomic_uptr *state)
{
    return um_atomic_load(state, acquire) == UM_TASK_DONE; /* pairs with um_task_end() */
}

/* Joiner, which was woken, or has not found its node: true if it must run the task. */
UM_INLINE bool um_task_was_returned(um_atomic_uptr *state)
{
    return um_atomic_load(state, acquire) == UM_TASK_RETURNED; /* pairs with um_task_return() */
}

/* Joiner. True: its node is in place, and will be woken. False: the task has ended. */
UM_INLINE bool um_task_await(um_atomic_uptr *state, uintptr_t node)
{
    uintptr_t value = UM_TASK_WAITED;

    /* release: the node; acquire: as um_task_has_ended() */
    return um_atomic_cas(state, &value, node, acq_rel, acquire);
}

/* Joiner that has given up: J2. True: it has its node back. False: the task has ended, or is
 * returned. */
UM_INLINE bool um_task_leave(um_atomic_uptr *state, uintptr_t node)
{
    /* acquire: as um_task_has_ended(), for a failure; success needs no order */
    return um_atomic_cas(state, &node, UM_TASK_WAITED, acquire, acquire);
}

/* ---- waiting ---- */

UM_INLINE enum um_look um_task_seen(struct umbra_core *core, void *arg)
{
    struct umbra_task *task = arg;

    if (um_task_has_ended(&task->state))
        return UM_LOOK_OVER;
    return um_core_attention(core) || um_core_sees_tasks(core) ? UM_LOOK_LEAVE : UM_LOOK_AGAIN;
}

/* Waits in place while the core has nothing else to do. True if the task has ended. */
UM_LINKONCE bool um_task_look(struct umbra_core *core, struct umbra_task *task)
{
    struct um_polls polls = {UMBRA_GAP_PAUSE, core->waiter.policy->batch};

    /* with a pause: each look takes the line from the core that will write it */
    return um_look_in_place(core, polls, &task->state, core->in_place_cycles, UMBRA_NEVER,
                            um_task_seen, task);
}

/* A thread that is no core waits for a task's end. */
UM_LINKONCE UM_COLD void um_task_await_thread(struct umbra_task *task)
{
    struct um_sleeper *sleeper;

    if (um_sleeper_get(&sleeper) != 0) { /* no memory: cannot sleep */
        um_why_begin();                  /* the join does not fail */
        if (um_task_await(&task->state, UM_TASK_POLLED))
            while (!um_task_has_ended(&task->state) && !um_task_was_returned(&task->state))
                sched_yield();
        return;
    }
    sleeper->node.kind = UM_NODE_WAKE;
    sleeper->node.flags = 0;
    if (um_task_await(&task->state, (uintptr_t)&sleeper->node))
        um_sleeper_wait(sleeper, UMBRA_NEVER);
}

UM_LINKONCE void um_task_describe(struct um_text *text, const void *on)
{
    const struct umbra_task *task = on;

    if (!task->fn)
        um_text_add(text, " (never started)");
}

UM_SHARED(const struct um_kind um_kind_task, {"task", um_task_describe});

/* The calling fiber's state, from the moment at which its node is where the task's end finds it. */
UM_INLINE void um_task_block(struct um_fiber *self, const void *on, const void *at)
{
    um_fiber_block(self, &um_kind_task, on, at);
    self->withdraw =
        NULL; /* what is awaited is in the joiner's memory: it waits even if canceled */
}

/* Waits for the end of a task that another fiber runs, or until the task is returned. */
UM_LINKONCE void um_task_wait(struct umbra_core *core, struct umbra_task *task, const void *at)
{
    struct um_fiber *self = core ? um_core_current(core) : NULL;

    if (um_task_has_ended(&task->state))
        return;
    if (!self) {
        um_task_await_thread(task);
        return;
    }
    if (um_core_may_look(core) && um_task_look(core, task))
        return;
    self->node.kind = UM_NODE_WAKE;
    self->node.flags = 0;
    if (um_task_await(&task->state, (uintptr_t)&self->node)) {
        um_task_block(self, task, at);
        um_fiber_leave(core, self);
    }
}

/* Waits with a claim, for a task that had not ended. 0: it has ended, or is returned; or a negative
 * errno. */
UM_LINKONCE int um_task_wait_claimed(struct umbra_core *core, struct umbra_task *task,
                                     struct um_wait *wait, uint64_t deadline, const void *at)
{
    uintptr_t node = (uintptr_t)&wait->claimed.node;
    int error = 0;

    if (um_task_await(&task->state, node)) {
        if (wait->fiber) {
            um_task_block(wait->fiber, task, at);
            error = um_claimed_wait_fiber(core, wait->fiber, wait, deadline);
        } else {
            error = um_claimed_wait_thread(wait, deadline);
        }
        if (error != 0 && !um_task_leave(&task->state, node)) {
            um_claimed_drop(&wait->claimed);
            return 0;
        }
    }
    um_claimed_free(&wait->claimed);
    return error;
}

/* As um_task_wait(), with a deadline. 0: it has ended, or is returned; -ETIMEDOUT; -ECANCELED;
 * -EPERM: on an alternate signal stack; -ENOMEM, or another error of a thread's first wait. */
UM_LINKONCE int um_task_wait_deadline(struct umbra_core *core, struct umbra_task *task,
                                      uint64_t deadline, const void *at)
{
    struct um_fiber *self = core ? um_core_current(core) : NULL;
    struct um_sleeper *sleeper = NULL;
    struct um_wait *wait;
    int error = 0;

    if (um_task_has_ended(&task->state))
        return 0;
    if (!self)
        error = um_sleeper_get(&sleeper);
    else if (!um_fiber_on_stack(self))
        error = um_why_off_stack();
    else if (um_core_may_look(core) && um_task_look(core, task))
        return 0;
    else if (um_fiber_barred(self))
        error = -ECANCELED;
    if (error == 0 && um_cycles() >= deadline)
        error = -ETIMEDOUT;
    if (error != 0)
        return error;
    wait = um_wait_take();
    if (!wait)
        return um_why_none(-ENOMEM);
    um_wait_prepare(wait, wait, 0);
    wait->fiber = self;
    wait->sleeper = sleeper;
    wait->claimed.node.accept = NULL;
    /* relaxed: no other thread has the node yet */
    um_atomic_store(&wait->claimed.node.home, self ? (uintptr_t)core : 0, relaxed);
    return um_task_wait_claimed(core, task, wait, deadline, at);
}

/* ---- misuse ---- */

/* With UMBRA_ASSERT, the mark of a joined task, in place of its function. */
UM_LINKONCE void um_task_joined(void *arg)
{
    (void)arg;
}

/* A join begins: with UMBRA_ASSERT, aborts if the task has been joined, or is all zero. */
UM_INLINE void um_task_check(const struct umbra_task *task, const void *at)
{
    if (UMBRA_ASSERT && (task->fn == um_task_joined || !task->fn))
        um_misused("task", task,
                   task->fn ? " has been joined, and is joined again"
                            : " was never started, and is joined",
                   at);
}

/* True if the task is in a list of its core. */
UM_LINKONCE UM_COLD bool um_tasks_have(const struct um_tasks *tasks, const struct umbra_task *task)
{
    uint64_t word = um_atomic_load(&tasks->word, relaxed); /* as in um_fiber_unjoined() */

    for (const struct umbra_task *t = tasks->newest; t; t = t->prev)
        if (t == task)
            return true;
    for (const struct umbra_task *t = tasks->old.next; t != &tasks->old; t = t->next)
        if (t == task)
            return true;
    for (uint32_t i = um_tasks_tail_of(word); i < um_tasks_split_of(word); i++)
        if (um_atomic_load(&tasks->slot[i], relaxed) == (uintptr_t)task)
            return true;
    return false;
}

UM_LINKONCE UM_NOINLINE void um_task_check_fork(struct umbra_task *task, umbra_task_fn *fn)
{
    const char *wrong = NULL;

    if (!fn)
        wrong = " has no function";
    else if (um_core_self && task->fn && task->fn != um_task_joined &&
             um_tasks_have(&um_core_self->tasks, task))
        wrong = " was forked and not joined, and is forked again";
    if (wrong)
        um_misused("task", task, wrong, __builtin_return_address(0));
}

/* A task from outside starts: with UMBRA_ASSERT, aborts if it has been started and waits still. */
UM_INLINE void um_outside_check(struct umbra_runtime *runtime, const struct umbra_task *task,
                                const void *at)
{
    const struct umbra_task *t = NULL;

    if (!UMBRA_ASSERT)
        return;
    um_lock_take(&runtime->outside_lock);
    for (t = runtime->outside_first; t && t != task; t = t->prev)
        ;
    um_lock_release(&runtime->outside_lock);
    if (t)
        um_misused("task", task, " was started and not joined, and is started again", at);
}

/* ---- the slow ways of fork and join ---- */

/* Forks a task on a core that was asked to share, or whose tasks have limits. A thread that is no core
 * runs the task at once. */
UM_LINKONCE void um_task_fork_slow(struct umbra_task *task)
{
    struct umbra_core *core = um_core_self;
    const struct um_task_limits *grain = core ? um_task_limits_of(core) : NULL;

    if (grain && um_task_limits_fork(core, grain, task))
        return;
    if (!core) {
        task->fn(task->arg);
        um_task_begin(task, UM_TASK_DONE);
        return;
    }
    um_tasks_push(&core->tasks, task);
    if (um_tasks_asked(&core->tasks))
        um_core_share(core);
}

/* A join is over: runs the task if it is the joiner's, since it was taken back or returned. */
UM_LINKONCE void um_task_settle(struct umbra_core *core, struct umbra_task *task, bool taken_back)
{
    bool run = taken_back || um_task_was_returned(&task->state);
    umbra_task_fn *fn = um_task_take_fn(task);

    um_task_limits_joined(core, fn, run);
    if (run)
        fn(task->arg);
}

/* A join of a task that is not the newest. at: for reports, where the join was called. */
UM_LINKONCE int um_task_join_at(struct umbra_task *task, uint64_t deadline, const void *at)
{
    struct umbra_core *core = um_core_self;
    bool taken_back;
    int error = 0;

    um_task_check(task, at);
    taken_back = core && um_tasks_take_back(&core->tasks, task);
    if (!taken_back && deadline == UMBRA_NEVER)
        um_task_wait(core, task, at);
    else if (!taken_back)
        error = um_task_wait_deadline(core, task, um_deadline_cycles(deadline), at);
    if (error == 0)
        um_task_settle(core, task, taken_back);
    return error;
}

UM_LINKONCE UM_NOINLINE int um_task_join_slow(struct umbra_task *task, uint64_t deadline)
{
    return um_task_join_at(task, deadline, __builtin_return_address(0));
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
