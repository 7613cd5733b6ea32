/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Joining and detaching fibers: the joiner's side. Private; included by core.h. The answering side
 * is in fiber/join_answer.h. The word by which home core and owner agree is in core/join_word.h.
 *
 *   the joiner                             joins by
 *   a fiber of the owner, no deadline      its own node in `done`
 *   a fiber of the owner, with a deadline  a node with a claim in `done`
 *   any other fiber, or a thread           a node with a claim, sent to the owner, which puts it there
 *
 * Threads that wait are in a list of the runtime (um_join_thread): a deadlock, or the end of the
 * runtime, ends their waits. Any thread or fiber may join, but not a signal handler; the errors are
 * listed at umbra_join().
 */
#ifndef UMBRA_CORE_JOIN_H
#define UMBRA_CORE_JOIN_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/cancel.h>
#include <umbra/core/inbox.h>
#include <umbra/core/join_word.h>
#include <umbra/core/judge_quiet.h>
#include <umbra/cpu.h>
#include <umbra/fiber.h>
#include <umbra/wait.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_LINKONCE enum um_give_up um_withdraw_join(struct umbra_core *core, struct um_fiber *self);

/* The calling fiber is about to wait for a fiber that its own core spawned and runs. */
UM_INLINE void um_join_block(struct um_fiber *self, struct um_fiber *fiber)
{
    um_atomic_store(&self->waits_for, &um_kind_join_inline, relaxed); /* both: reports read it */
    um_atomic_store(&self->waits_on, um_waits_on_fiber(fiber), relaxed);
    self->withdraw = um_withdraw_join;
    um_fiber_set_state(self, UMBRA_FIBER_BLOCKED);
    /* relaxed: only this core acts on it */
    um_atomic_store(&fiber->node.done, (uintptr_t)&self->node | UM_DONE_JOINED, relaxed);
}

UM_LINKONCE UM_NOINLINE int um_join_outline(struct umbra_fiber fiber, uint64_t deadline,
                                            void **result);

/*
 * The common case, inlined up to the switch: each return after a switch would be mispredicted,
 * since the processor's stack of return addresses is that of the fiber that left.
 */
UM_ALWAYS_INLINE int umbra_join(struct umbra_fiber handle, uint64_t deadline, void **result)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self = core ? um_core_current(core) : NULL;
    struct um_fiber *fiber = handle.block;
    void *value;
    uint64_t done;

    if (UM_UNLIKELY(deadline != UMBRA_NEVER || !self || !fiber || fiber == self ||
                    !um_fiber_on_stack(self)))
        return um_join_outline(handle, deadline, result);
    /* acquire: see um_fiber_is(). If this core is owner and home, no other core writes `done` */
    done = um_atomic_load(&fiber->node.done, acquire);
    if (UM_UNLIKELY(um_fiber_home(fiber) != core ||
                    um_fiber_generation(fiber) != handle.generation))
        return um_join_outline(handle, deadline, result);
    if (UM_LIKELY(done == ((uintptr_t)core | UM_DONE_RUNNING) && !um_fiber_barred(self))) {
        um_join_block(self, fiber);
        um_fiber_leave(core, self);
        if (um_fiber_woken(self) != 0)
            return -ECANCELED;
    } else if (UM_UNLIKELY(done != ((uintptr_t)core | UM_DONE_FINISHED))) {
        return um_join_outline(handle, deadline, result);
    }
    value = um_join_collect(core, fiber);
    if (result)
        *result = value;
    return 0;
}

#ifdef UMBRA_IMPLEMENTATION

/* Ends the join of a fiber that the joiner's core owns: `done` is RUNNING again. */
UM_LINKONCE enum um_give_up um_withdraw_join(struct umbra_core *core, struct um_fiber *self)
{
    /* relaxed: this core's own */
    uintptr_t on = (uintptr_t)um_atomic_load(&self->waits_on, relaxed);
    struct um_fiber *fiber = (struct um_fiber *)(on - 1); /* um_waits_on_fiber() */

    return um_done_change(&fiber->node.done, um_join_sides(core, fiber),
                          (uintptr_t)&self->node | UM_DONE_JOINED,
                          (uintptr_t)core | UM_DONE_RUNNING)
               ? UM_GAVE_UP
               : UM_GIVE_UP_TOO_LATE;
}

UM_INLINE enum um_look um_join_seen(struct umbra_core *core, void *arg)
{
    struct um_fiber *fiber = arg;

    /* acquire: pairs with um_done_tell() */
    if (um_atomic_load(&fiber->node.done, acquire) == ((uintptr_t)core | UM_DONE_FINISHED))
        return UM_LOOK_OVER;
    return um_core_attention(core) ? UM_LOOK_LEAVE : UM_LOOK_AGAIN;
}

/* A fiber of the owner joins a fiber that has not ended, without a deadline. 0 or -ECANCELED. */
UM_LINKONCE int um_join_wait(struct umbra_core *core, struct um_fiber *fiber, uint64_t done,
                             const void *at)
{
    struct um_fiber *self = um_core_current(core);

    self->node.kind = UM_NODE_WAKE;
    if (!um_join_begin(core, fiber, done, (uintptr_t)&self->node | UM_DONE_JOINED))
        return 0;
    um_fiber_block(self, &um_kind_join, um_waits_on_fiber(fiber), at);
    self->withdraw = um_withdraw_join;
    um_fiber_leave(core, self);
    return um_fiber_woken(self);
}

/* ---- a request ---- */

/* A join or detachment: arguments, caller, result. */
struct um_join {
    struct umbra_fiber fiber;
    uint64_t deadline;
    bool detach;
    void *result;          /* what the fiber returned */
    const void *at;        /* for reports: where the join was called */
    struct um_fiber *self; /* the caller; NULL: a thread */
    struct umbra_core *core;
    struct um_sleeper *sleeper;
};

/* Makes the node of a request. 0 or -ENOMEM. */
UM_LINKONCE int um_join_prepare(const struct um_join *join, struct um_wait **result)
{
    struct um_wait *wait = um_wait_take();

    if (!wait)
        return um_why_none(-ENOMEM);
    um_wait_prepare(wait, wait, 0);
    wait->fiber = join->self;
    wait->sleeper = join->sleeper;
    wait->join = (struct um_join_request){.fiber = join->fiber, .detach = join->detach};
    wait->claimed.node.kind = UM_NODE_JOIN;
    wait->claimed.node.accept = NULL;
    /* relaxed: no other thread has the node yet */
    um_atomic_store(&wait->claimed.node.home, (uintptr_t)join->core, relaxed);
    *result = wait;
    return 0;
}

/* Says why another core, or the end of the runtime, refused a request. Returns the error. */
UM_LINKONCE UM_COLD int um_join_why(int error)
{
    if (error == -ESRCH)
        um_why(error, "the fiber was joined before, or ended detached");
    else if (error == -EINVAL)
        um_why(error, "the fiber is detached, or another caller is joining it");
    else if (error == -EDEADLK)
        um_why(error, "deadlock: the fiber waits for what no fiber that is left can do");
    return error;
}

/* After the wait: returns its error, or else the answer. The node is no longer the caller's. */
UM_LINKONCE int um_join_answered(struct um_join *join, struct um_wait *wait, int error)
{
    if (error != 0) {
        um_claimed_drop(&wait->claimed);
        return um_join_why(error);
    }
    join->result = wait->join.result;
    error = wait->join.status;
    um_claimed_free(&wait->claimed);
    return error == 0 ? 0 : um_join_why(error);
}

/* A fiber of the owner joins with a deadline. *begun: false if the fiber has ended meanwhile. */
UM_LINKONCE int um_join_wait_deadline(struct um_join *join, uint64_t done, bool *begun)
{
    struct um_fiber *fiber = join->fiber.block;
    struct um_wait *wait;
    int error = um_join_prepare(join, &wait);

    if (error != 0)
        return error;
    *begun = um_join_begin_asked(join->core, fiber, done, &wait->claimed.node);
    if (!*begun) {
        um_claimed_free(&wait->claimed);
        return 0;
    }
    um_fiber_block(join->self, &um_kind_join, um_waits_on_fiber(fiber), join->at);
    error = um_claimed_wait_fiber(join->core, join->self, wait, join->deadline);
    return um_join_answered(join, wait, error);
}

/* A fiber of another core asks the owner. */
UM_LINKONCE int um_join_ask_fiber(struct um_join *join, struct umbra_core *owner)
{
    struct um_wait *wait;
    int error = um_join_prepare(join, &wait);

    if (error != 0)
        return error;
    um_fiber_block(join->self, &um_kind_join,
                   owner->runtime == join->core->runtime
                       ? um_waits_on_fiber(join->fiber.block)
                       : (const void *)join->fiber.block, /* that runtime may end first */
                   join->at);
    um_core_post(owner, &wait->claimed.node);
    error = um_claimed_wait_fiber(join->core, join->self, wait, join->deadline);
    return um_join_answered(join, wait, error);
}

/* A thread enters the list and asks the owner, both under the lock, so that the end of the runtime
 * finds the request. 0, or -ECANCELED: the runtime is ending. */
UM_LINKONCE UM_COLD int um_join_thread_begin(struct um_join_thread *thread,
                                             struct umbra_core *owner)
{
    struct umbra_runtime *runtime = owner->runtime;
    int error = 0;

    pthread_mutex_lock(&runtime->lock);
    if (um_atomic_load(&runtime->stopping, relaxed)) { /* set under the lock */
        error = -ECANCELED;
    } else {
        thread->next = runtime->joins;
        thread->link = &runtime->joins;
        if (thread->next)
            thread->next->link = &thread->next;
        runtime->joins = thread;
        um_core_post(owner, &thread->wait->claimed.node);
    }
    pthread_mutex_unlock(&runtime->lock);
    return error;
}

UM_LINKONCE UM_COLD void um_join_thread_end(struct um_join_thread *thread,
                                            struct umbra_runtime *runtime)
{
    pthread_mutex_lock(&runtime->lock);
    *thread->link = thread->next;
    if (thread->next)
        thread->next->link = thread->link;
    pthread_cond_broadcast(&runtime->changed); /* umbra_runtime_destroy() may wait for it */
    pthread_mutex_unlock(&runtime->lock);
}

#define UM_JOIN_LOOK_NS 100000000 /* how often the creator looks for a deadlock: for people */

/* The joiner created the runtime and holds it, so no core can find a deadlock: the joiner looks. */
UM_LINKONCE UM_COLD void um_join_thread_look(struct um_join_thread *thread,
                                             struct umbra_runtime *runtime, uint64_t deadline)
{
    while (um_sleeper_wait(thread->wait->sleeper,
                           um_min_u64(deadline, um_cycles_after(UM_JOIN_LOOK_NS))) < 0 &&
           um_cycles() < deadline)
        um_join_judge(runtime);
}

UM_LINKONCE UM_COLD int um_join_ask_thread(struct um_join *join, struct umbra_core *owner)
{
    struct umbra_runtime *runtime = owner->runtime;
    struct um_join_thread thread;
    int error = um_sleeper_get(&join->sleeper);

    if (error == 0)
        error = um_join_prepare(join, &thread.wait);
    if (error != 0)
        return error;
    error = um_join_thread_begin(&thread, owner);
    if (error != 0) {
        um_claimed_free(&thread.wait->claimed);
        return error;
    }
    if (runtime->creator == um_thread_self())
        um_join_thread_look(&thread, runtime, join->deadline);
    error = um_claimed_wait_thread(thread.wait, join->deadline);
    um_join_thread_end(&thread, runtime);
    if (error == -EDEADLK)
        error = thread.wait->join.status; /* um_joins_end() */
    return um_join_answered(join, thread.wait, error);
}

/* ---- any caller ---- */

UM_LINKONCE int um_join_ask(struct um_join *join, struct umbra_core *owner)
{
    int error;

    if (owner->runtime != um_runtime_self() && owner->runtime->inherited)
        return um_why(-EPERM, "the fiber is the parent process's");
    if (!join->self)
        return um_join_ask_thread(join, owner);
    if (!um_fiber_on_stack(join->self))
        return um_why_off_stack();
    if (join->detach)
        umbra_shield(true);
    error = um_fiber_barred(join->self) ? -ECANCELED : um_join_ask_fiber(join, owner);
    if (join->detach)
        umbra_shield(false);
    return error;
}

/* Joins or detaches a fiber that has not ended, and that the caller's core owns. -EAGAIN: `done`
 * has changed, look at it again. */
UM_LINKONCE int um_join_own_running(struct um_join *join, uint64_t done)
{
    struct um_fiber *fiber = join->fiber.block;
    struct umbra_core *core = join->core;
    bool begun;
    int error;

    if (join->detach)
        return um_join_begin(core, fiber, done, (uintptr_t)core | UM_DONE_DETACHED) ? 0 : -EAGAIN;
    if (!um_fiber_on_stack(join->self))
        return um_why_off_stack();
    if (um_fiber_barred(join->self))
        return -ECANCELED;
    /* waits in place while the core has nothing else to do */
    if (um_core_may_look(core) &&
        um_look_in_place(core, core->runtime->polls, &fiber->node.done, core->in_place_cycles,
                         UMBRA_NEVER, um_join_seen, fiber))
        return -EAGAIN;
    if (join->deadline == UMBRA_NEVER) {
        error = um_join_wait(core, fiber, done, join->at);
        if (error == 0)
            join->result = um_join_collect(core, fiber);
        return error;
    }
    if (um_cycles() >= join->deadline)
        return -ETIMEDOUT;
    error = um_join_wait_deadline(join, done, &begun);
    return error == 0 && !begun ? -EAGAIN : error;
}

/* The caller's core is the owner. -EAGAIN: look at `done` again. */
UM_LINKONCE int um_join_own(struct um_join *join, uint64_t done)
{
    struct um_fiber *fiber = join->fiber.block;

    if ((done & UM_DONE_TAG) == UM_DONE_FINISHED) {
        join->result = um_join_collect(join->core, fiber);
        return 0;
    }
    if (um_join_free(done))
        return um_join_own_running(join, done);
    if ((done & UM_DONE_TAG) == UM_DONE_ANSWERING) { /* another core is just answering */
        if (!um_fiber_on_stack(join->self))
            return um_why_off_stack();
        um_yield_attending(join->core);
        return -EAGAIN;
    }
    return um_atomic_load(&fiber->node.done, acquire) != done /* as below */
               ? -EAGAIN
               : um_why(-EINVAL, "another caller is joining the fiber");
}

UM_LINKONCE int um_join_slow(struct um_join *join)
{
    struct um_fiber *fiber = join->fiber.block;
    struct umbra_core *owner;
    uint64_t done, tag;
    int error;

    join->core = um_core_self && um_core_current(um_core_self) ? um_core_self : NULL;
    join->self = join->core ? um_core_current(join->core) : NULL;
    if (!fiber)
        return um_why(-ESRCH, "the handle is of no fiber");
    do {
        /* acquire: pairs with um_done_tell(), um_done_change(). The generation is read later, see
         * um_fiber_is() */
        done = um_atomic_load(&fiber->node.done, acquire);
        tag = done & UM_DONE_TAG;
        owner = tag <= UM_DONE_FINISHED
                    ? (struct umbra_core *)(uintptr_t)(done & ~UM_DONE_TAG)
                    : um_atomic_load(&fiber->owner, relaxed); /* ordered by the load of `done` */
        if (um_fiber_generation(fiber) != join->fiber.generation)
            return um_join_why(-ESRCH);
        if (fiber == join->self && !join->detach)
            return um_why(-EDEADLK, "the fiber is the caller");
        if (tag == UM_DONE_DETACHED || tag == UM_DONE_JOINED || tag == UM_DONE_TOLD)
            return um_why(-EINVAL, tag == UM_DONE_DETACHED ? "the fiber is detached"
                                                           : "another caller is joining the fiber");
        error = owner == join->core ? um_join_own(join, done) : um_join_ask(join, owner);
    } while (error == -EAGAIN);
    return error;
}

UM_LINKONCE UM_NOINLINE int um_join_outline(struct umbra_fiber fiber, uint64_t deadline,
                                            void **result)
{
    struct um_join join = {.fiber = fiber,
                           .deadline = um_deadline_cycles(deadline),
                           .at = __builtin_return_address(0)};
    int error = um_join_slow(&join);

    if (error == 0 && result)
        *result = join.result;
    return error;
}

UM_LINKONCE UM_NOINLINE int umbra_detach(struct umbra_fiber fiber)
{
    struct um_join join = {
        .fiber = fiber, .deadline = UMBRA_NEVER, .detach = true, .at = __builtin_return_address(0)};

    return um_join_slow(&join);
}

/* ---- the end of a runtime: its cores have stopped ---- */

/* Answers -ECANCELED to a request that no core will answer. A joiner that is a fiber of this
 * runtime gets no answer, since it never runs again. */
UM_LINKONCE UM_COLD void um_join_cancel(const struct umbra_runtime *runtime, struct um_node *node)
{
    /* relaxed: fixed while the joiner waits */
    const struct umbra_core *home = (const struct umbra_core *)um_atomic_load(&node->home, relaxed);

    if (!home || home->runtime != runtime)
        um_join_say(NULL, node, -ECANCELED);
}

UM_LINKONCE UM_COLD void um_joins_cancel_inbox(struct umbra_core *core)
{
    struct um_node *node = um_inbox_take(&core->inbox);

    while (node) {
        struct um_node *next = um_inbox_next(node);

        if (node->kind == UM_NODE_JOIN)
            um_join_cancel(core->runtime, node);
        else if (node->kind == UM_NODE_CANCEL)
            um_claimed_free((struct um_claimed *)node);
        node = next;
    }
}

UM_LINKONCE UM_COLD void um_joins_cancel_fiber(struct um_fiber *fiber)
{
    uint64_t done = um_atomic_load(&fiber->node.done, acquire); /* pairs with um_done_change() */

    if ((done & UM_DONE_TAG) == UM_DONE_ASKED)
        um_join_cancel(fiber->runtime, um_done_node(done));
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
