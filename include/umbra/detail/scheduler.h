/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a core does between fibers: messages, timers, work without a place, waiting. Private;
 * included by core.h.
 *
 * An idle core goes through three stages:
 *
 *   looks around   polls its inbox, the count of work without a place, the tasks of the other cores
 *                  (task_protocol.h), and the fiber that ended last (watch_protocol.h), as long as
 *                  the spin phase
 *   dozes          announces itself as idle (idle_protocol.h) and waits on its inbox
 *   sleeps         after linger_cycles, or at once if no fiber lives on it and its shadow is done: counts
 *                  as inactive (quiet_protocol.h), and goes on waiting
 */
#ifndef UMBRA_DETAIL_SCHEDULER_H
#define UMBRA_DETAIL_SCHEDULER_H

#include <sched.h>

#include <umbra/detail/runtime.h>
#include <umbra/detail/sleeper.h>
#include <umbra/detail/watch_protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_LOOKS_AT_TIMERS 16      /* while fibers are ready one look in so many reads the clock */
#define UM_SHADOW_LOOK_NS 10000000 /* how often a sleeping core looks whether its shadow is done */
#define UM_STARVED_NS 1000000      /* until a core without memory for a fiber tries again */
#define UM_OFFERED_AGAIN_NS 1000   /* until a wait is given up that is just offered a signal, */
#define UM_OFFERED_DOUBLINGS 11    /* doubled each time: more than an idle core stays awake */

/* Hands a released node to whoever waits with it. core: the caller's, or NULL: it may not use it.
 * Any thread; never blocks. */
UM_INLINE void um_node_wake(struct um_node *node, struct umbra_core *core)
{
    /* relaxed: fixed as long as the node waits */
    struct umbra_core *home = (struct umbra_core *)um_atomic_load(&node->home, relaxed);

    if (home && home == core)
        um_fiber_make_ready(core, um_node_fiber(node));
    else if (home)
        um_core_post(home, node);
    else
        um_node_wake_thread(node);
}

/* Wakes what a call on an event released. core: the caller's, or NULL. */
UM_INLINE void um_event_wake(struct um_released *out, struct umbra_core *core)
{
    struct um_node *node = out->first;

    while (node) {
        struct um_node *next = node == out->last ? NULL : node->next;

        um_node_wake(node, core);
        node = next;
    }
}

/* ---- messages ---- */

/* detail/join.h: a request to join or detach a fiber of this core. */
UM_LINKONCE void um_join_receive(struct umbra_core *core, struct um_node *node);

/* detail/cancel.h: a fiber of this core is canceled. */
UM_LINKONCE void um_cancel_receive(struct umbra_core *core, struct um_node *node);

UM_INLINE void um_core_begin(struct umbra_core *core, struct um_fiber *fiber, bool stopped)
{
    um_core_count(core, 1);
    if (UM_UNLIKELY(fiber->timer.deadline != 0)) {
        um_timers_add(&core->timers, &fiber->timer);
    } else if (UM_UNLIKELY(stopped) && !um_fiber_permitted(fiber)) {
        um_fiber_set_state(fiber, UMBRA_FIBER_STOPPED);
    } else {
        if (UM_UNLIKELY(stopped)) /* continued before it has come here */
            um_fiber_set_flags(fiber, um_fiber_flags(fiber) & UM_FIBER_KEPT);
        um_fiber_make_ready(core, fiber);
    }
}

/* The core, for a life of a fiber of its own, if it has not ended yet. */
UM_LINKONCE void um_fiber_continue(struct umbra_core *core, struct um_fiber *fiber,
                                   uint64_t generation)
{
    /* acquire: if the fiber is elsewhere again the generation tells; pairs with
     * um_pool_give_back() */
    uint32_t state = um_atomic_load(&fiber->state, acquire);
    uint32_t flags = um_fiber_flags(fiber);

    if (um_fiber_generation(fiber) != generation || state == UMBRA_FIBER_TERMINATED)
        return;
    if (state == UMBRA_FIBER_STOPPED)
        um_fiber_make_ready(core, fiber);
    else /* relaxed: it is for the core itself. If that life has ended, and another one elsewhere
            has changed the flags meanwhile, the permit is for nobody, and is not written */
        um_atomic_cas(&fiber->flags, &flags, (flags & UM_FIBER_KEPT) | um_fiber_permit(generation),
                      relaxed, relaxed);
}

UM_LINKONCE void um_mail_receive(struct umbra_core *core, struct um_node *node)
{
    struct um_fiber *fiber = (struct um_fiber *)((char *)node - offsetof(struct um_fiber, mail));
    /* acq_rel: what the sender wrote before; from here on another mail may be sent. Pairs with
     * umbra_continue() */
    uint64_t generation = um_atomic_exchange(&fiber->mail_for, 0, acq_rel);

    if (generation != um_fiber_generation(fiber))
        return;
    if (um_fiber_home(fiber) == core)
        um_fiber_continue(core, fiber, generation);
    else /* sent to an earlier life, which was elsewhere, and kept for this one */
        umbra_continue((struct umbra_fiber){fiber, generation});
}

UM_LINKONCE void um_core_receive(struct umbra_core *core)
{
    struct um_node *node = um_inbox_take(&core->inbox);

    while (node) {
        struct um_node *next = um_inbox_next(node);

        switch (node->kind) {
        case UM_NODE_WAKE:
            um_fiber_make_ready(core, um_node_fiber(node));
            break;
        case UM_NODE_SPAWN:
        case UM_NODE_ASIDE:
            um_core_begin(core, um_fiber_of_node(node), node->kind == UM_NODE_ASIDE);
            break;
        case UM_NODE_CONTINUE:
            um_mail_receive(core, node);
            break;
        case UM_NODE_CANCEL:
            um_cancel_receive(core, node);
            break;
        default:
            um_join_receive(core, node);
        }
        node = next;
    }
}

/* ---- timers ---- */

UM_INLINE struct um_fiber *um_fiber_of_timer(struct um_timer *timer)
{
    return (struct um_fiber *)((char *)timer - offsetof(struct um_fiber, timer));
}

/* A fiber's time has come: its delay, its sleep, or the deadline of its wait. */
UM_LINKONCE void um_timer_ring(struct umbra_core *core, struct um_fiber *fiber)
{
    enum um_give_up outcome = UM_GAVE_UP;

    if (fiber->claimed)
        outcome = um_claim_give_up(fiber->claimed, fiber->ticket);
    if (outcome == UM_GIVE_UP_LATER) {
        struct um_wait *wait = um_wait_of(&fiber->claimed->node);

        /* who offers may have lost its processor to this very core, which soon sleeps in between */
        fiber->timer.deadline = umbra_deadline((uint64_t)UM_OFFERED_AGAIN_NS << wait->rings);
        if (wait->rings < UM_OFFERED_DOUBLINGS)
            wait->rings++;
        um_timers_add(&core->timers, &fiber->timer);
    } else if (outcome == UM_GAVE_UP) {
        um_fiber_make_ready(core, fiber);
    }
}

UM_LINKONCE void um_core_ring(struct umbra_core *core)
{
    uint64_t now = umbra_cycles();

    while (core->timers.top && core->timers.top->deadline <= now) {
        struct um_timer *timer = core->timers.top;

        um_timers_remove(&core->timers, timer);
        timer->deadline = 0;
        um_timer_ring(core, um_fiber_of_timer(timer));
    }
}

/* ---- work without a place ---- */

UM_LINKONCE struct um_fiber *um_unplaced_take(struct umbra_runtime *runtime,
                                              struct umbra_core *core)
{
    struct um_fiber *fiber;

    pthread_mutex_lock(&runtime->unplaced_lock);
    fiber = runtime->unplaced_first;
    if (fiber) {
        runtime->unplaced_first = fiber->in_pool;
        /* relaxed: no wait has begun with it; under the lock, for umbra_cancel() */
        um_atomic_store(&fiber->node.home, (uintptr_t)core, relaxed);
        /* release: who sees none left sees that this core is active (quiet_protocol.h, Q4) */
        um_atomic_fetch_add(&runtime->unplaced, UINT64_MAX, release);
    }
    pthread_mutex_unlock(&runtime->unplaced_lock);
    return fiber;
}

UM_LINKONCE void um_core_take_unplaced(struct umbra_core *core)
{
    struct um_fiber *fiber = um_unplaced_take(core->runtime, core);

    if (fiber)
        um_core_begin(core, fiber, false);
}

/* detail/tasks.h: shares tasks, which others have asked for. */
UM_LINKONCE void um_core_share(struct umbra_core *core);

UM_LINKONCE void um_core_attend(struct umbra_core *core)
{
    if (um_atomic_load(&core->inbox, relaxed)) /* the exchange that takes it acquires */
        um_core_receive(core);
    if (core->timers.top && (um_ready_empty(core) || ++core->turns % UM_LOOKS_AT_TIMERS == 0))
        um_core_ring(core);
    if (um_atomic_load(core->unplaced, relaxed)) /* the lock that it is taken under acquires */
        um_core_take_unplaced(core);
    if (um_tasks_asked(&core->tasks) && um_tasks_some(&core->tasks))
        um_core_share(core);
}

/* ---- fibers that leave ---- */

/* ..._handling: of a fiber that handles C++ exceptions, which it takes along. */

UM_LINKONCE UM_COLD void um_fiber_leave_handling(struct umbra_core *core, struct um_fiber *from)
{
    struct um_exceptions taken = um_exceptions_take(core->exceptions);

    um_fiber_leave_slowly(core, from);
    *core->exceptions = taken;
}

UM_LINKONCE UM_NOINLINE void um_fiber_leave_slowly(struct umbra_core *core, struct um_fiber *from)
{
    struct um_link *first;
    struct um_fiber *to;

    if (um_atomic_load(&from->waits_for, relaxed) == &um_kind_join_inline) { /* its own */
        um_atomic_store(&from->waits_for, &um_kind_join, relaxed); /* only looked at, both */
        um_atomic_store(&from->waits_at, __builtin_return_address(0), relaxed);
    }
    if (UM_UNLIKELY(um_exceptions_some(core->exceptions))) {
        um_fiber_leave_handling(core, from);
        return;
    }
    um_core_attend(core);
    first = um_link_next(&core->ready);
    if (first == &core->ready) {
        um_atomic_store(&core->current, NULL, relaxed); /* only looked at by others */
        um_context_switch(&from->context, &core->scheduler);
        return;
    }
    to = um_ready_take(core, first);
    if (to != from)
        um_fiber_switch(core, from, to);
}

UM_LINKONCE UM_COLD void um_yield_handling(struct umbra_core *core)
{
    struct um_exceptions taken = um_exceptions_take(core->exceptions);

    um_yield_attending(core);
    *core->exceptions = taken;
}

UM_LINKONCE void um_yield_attending(struct umbra_core *core)
{
    struct um_fiber *from = core ? um_core_current(core) : NULL;

    if (!from) {
        sched_yield();
        return;
    }
    if (!um_fiber_on_stack(from))
        return;
    if (UM_UNLIKELY(um_exceptions_some(core->exceptions))) {
        um_yield_handling(core);
        return;
    }
    um_core_attend(core);
    if (um_ready_empty(core))
        return;
    um_ready_push(core, from);
    um_fiber_switch(core, from, um_ready_pop(core));
}

UM_LINKONCE UM_COLD int um_transfer_handling(struct umbra_core *core, struct umbra_fiber to)
{
    struct um_exceptions taken = um_exceptions_take(core->exceptions);
    int error = um_transfer_slowly(core, to);

    *core->exceptions = taken;
    return error;
}

UM_LINKONCE UM_NOINLINE int um_transfer_slowly(struct umbra_core *core, struct umbra_fiber to)
{
    struct um_fiber *from = core ? um_core_current(core) : NULL;
    struct umbra_core *home;
    uint32_t state;
    bool ended;

    if (!from || !um_fiber_on_stack(from))
        return -EPERM;
    if (UM_UNLIKELY(um_exceptions_some(core->exceptions)))
        return um_transfer_handling(core, to);
    if (!to.block)
        return -ESRCH;
    state = um_atomic_load(&to.block->state, acquire); /* all three: see um_fiber_is() */
    home = (struct umbra_core *)um_atomic_load(&to.block->node.home, acquire);
    ended = um_fiber_has_ended(to.block);
    if (um_fiber_generation(to.block) != to.generation)
        return -ESRCH;
    if (to.block == from)
        return -EINVAL;
    if (ended)
        return -ESRCH;
    if (home != core)
        return -EXDEV;
    if (state != UMBRA_FIBER_STOPPED && state != UMBRA_FIBER_READY)
        return -EBUSY;
    if (state == UMBRA_FIBER_READY)
        um_ready_remove(to.block);
    if (um_fiber_permitted(from))
        um_ready_push(core, from);
    else
        um_fiber_set_state(from, UMBRA_FIBER_STOPPED);
    um_fiber_set_flags(from, um_fiber_flags(from) & UM_FIBER_KEPT);
    um_fiber_set_state(to.block, UMBRA_FIBER_READY);
    um_atomic_store(&from->waits_for, &um_kind_transfer, relaxed); /* only looked at, all three */
    um_atomic_store(&from->waits_at, __builtin_return_address(0), relaxed);
    um_fiber_switch(core, from, to.block);
    um_atomic_store(&from->waits_for, NULL, relaxed);
    return 0;
}

UM_LINKONCE int umbra_continue(struct umbra_fiber fiber)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *block = fiber.block;
    struct umbra_core *home;
    uint64_t pending = 0;

    if (!block)
        return -ESRCH;
    /* acquire: see um_fiber_is(). Read once: in its next life it may have none yet */
    home = (struct umbra_core *)um_atomic_load(&block->node.home, acquire);
    if (um_fiber_has_ended(block) || um_fiber_generation(block) != fiber.generation)
        return -ESRCH;
    if (core && um_core_current(core) && home == core) {
        um_fiber_continue(core, block, fiber.generation);
        return 0;
    }
    if (!home)
        return -EBUSY;
    /* acq_rel: one mail at a time; what the caller wrote before is visible to the fiber, be it this
     * mail or the one that is pending. Pairs with um_mail_receive() */
    while (!um_atomic_cas(&block->mail_for, &pending, fiber.generation, acq_rel, acquire))
        if (pending >= fiber.generation)
            return pending == fiber.generation ? 0 : -ESRCH;
    if (pending == 0)
        um_core_post(home, &block->mail);
    return 0;
}

/* ---- waiting ---- */

/* detail/tasks.h: whether there are tasks to take, of this core or of the next one it looks at, which
 * is asked to share if it has none for others. */
UM_LINKONCE bool um_core_sees_tasks(struct umbra_core *core);

/* Takes a task, if there is any, and makes a fiber ready that runs it. Whether it has. */
UM_LINKONCE bool um_core_take_task(struct umbra_core *core);

/* A core that has announced itself as idle: whether no core shares tasks; all are asked. */
UM_LINKONCE bool um_core_no_tasks(struct umbra_core *core);

/* Whether there may be any. relaxed: a hint; um_core_no_tasks() looks again */
UM_INLINE bool um_core_tasking(const struct umbra_core *core)
{
    return um_atomic_load(&core->runtime->tasking, relaxed) != 0 || um_tasks_some(&core->tasks);
}

/* Whether there is a message, or work without a place. relaxed: whoever takes it acquires */
UM_INLINE bool um_core_has_mail(const struct umbra_core *core)
{
    return (um_atomic_load(&core->inbox, relaxed) | um_atomic_load(core->unplaced, relaxed)) != 0;
}

/* Stage 1. Whether there is something to do. */
UM_INLINE bool um_core_look_around(struct umbra_core *core)
{
    bool tasking = um_core_tasking(core);
    uint64_t start = umbra_cycles();
    uint64_t now = start;
    uint64_t deadline = core->timers.top ? core->timers.top->deadline : UMBRA_NEVER;
    struct um_fiber *watched = core->watched;

    while (now - start < core->look_cycles && now < deadline) {
        for (uint32_t i = 0; i < core->waiter.policy->batch; i++) {
            if (um_core_has_mail(core))
                return true;
            if (tasking && um_core_sees_tasks(core))
                return true;
            if (!watched) {
                um_arch_relax();
                continue;
            }
            if (!um_watch_quiet(&watched->node.link))
                return true;
            um_arch_pause(); /* longer: each look takes the line from where it will be written */
        }
        now = umbra_cycles();
    }
    return now >= deadline;
}

/* Waits on the inbox. Whether it is still empty. */
UM_INLINE bool um_core_wait(struct umbra_core *core, uint64_t deadline)
{
    return umbra_wait_while_equal64(&core->waiter, &core->inbox, 0, UINT64_MAX, deadline) < 0;
}

/* Every inbox, for the judge, who learns of fibers besides; see quiet_protocol.h. */
struct um_census {
    struct umbra_runtime *runtime;
    uint64_t live;
};

UM_LINKONCE bool um_runtime_empty(void *context)
{
    struct um_census *census = context;
    struct umbra_runtime *runtime = census->runtime;

    for (unsigned i = 0; i < runtime->cores; i++)
        /* acquire: pairs with um_core_count(): what a core counted since it became active is not
         * seen without its activity, which is looked at again */
        census->live += um_atomic_load(&runtime->core[i]->live, acquire);
    if (um_atomic_load(&runtime->unplaced, seq_cst))
        return false;
    for (unsigned i = 0; i < runtime->cores; i++)
        if (um_atomic_load(&runtime->core[i]->inbox, seq_cst)) /* Q2 */
            return false;
    return true;
}

/* detail/join.h: threads that join fibers of the runtime get an error. Under its lock. */
UM_LINKONCE void um_joins_end(struct umbra_runtime *runtime, int error);

/* Nobody seems to be active: find out. Under the runtime's lock. Whether there is a verdict now, which
 * those who wait for it (runtime->changed) must be told. */
UM_LINKONCE UM_COLD bool um_runtime_judge_locked(struct umbra_runtime *runtime)
{
    struct um_census census = {.runtime = runtime};

    if (runtime->waiting == 0 || runtime->verdict != UM_VERDICT_NONE ||
        !um_quiet_judge(&runtime->activity, 0, &um_outside, um_runtime_empty, &census))
        return false;
    runtime->verdict = census.live > 0 ? UM_VERDICT_DEADLOCK : UM_VERDICT_ENDED;
    if (runtime->verdict == UM_VERDICT_DEADLOCK)
        um_joins_end(runtime, -EDEADLK);
    return true;
}

/* The same, without the lock, while the runtime cannot end. Who waits is told when the lock is free: if
 * it ran at once, on this processor, it would only wait for that. */
UM_LINKONCE UM_COLD void um_runtime_judge(struct umbra_runtime *runtime)
{
    bool over;

    pthread_mutex_lock(&runtime->lock);
    over = um_runtime_judge_locked(runtime);
    pthread_mutex_unlock(&runtime->lock);
    if (over)
        pthread_cond_broadcast(&runtime->changed);
}

/* Around what a thread that is no core does to an event while it waits for it. */
UM_INLINE void um_outside_call(void)
{
    um_quiet_call(&um_outside);
}

UM_LINKONCE UM_COLD void um_outside_judge(void)
{
    struct umbra_runtime *runtime;

    pthread_mutex_lock(&um_runtimes.lock); /* none of them ends meanwhile */
    for (runtime = um_atomic_load(&um_runtimes.first, relaxed); runtime; runtime = runtime->next)
        um_runtime_judge(runtime);
    pthread_mutex_unlock(&um_runtimes.lock);
}

UM_INLINE void um_outside_call_ends(void)
{
    if (um_quiet_call_ends(&um_outside))
        um_outside_judge();
}

/* Stage 3: nothing but a message can give this core anything to do. */
UM_LINKONCE void um_core_sleep(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;

    if (um_quiet_leave(&runtime->activity))
        um_runtime_judge(runtime);
    um_core_wait(core, UMBRA_NEVER);
    um_quiet_enter(&runtime->activity);
}

/* Stages 2 and 3. */
UM_LINKONCE void um_core_doze(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    struct um_core_more *more = core->more;
    uint64_t deadline = core->timers.top ? core->timers.top->deadline : UMBRA_NEVER;
    uint64_t linger = um_add_saturating(umbra_cycles(), runtime->linger_cycles);
    bool lingers = um_atomic_load(&core->live, relaxed) > 0 || /* its own */
                   (more->has_shadow && !umbra_shadow_done(&more->shadow));

    um_idle_announce(runtime->idle, core->index);
    if (um_idle_none(&runtime->unplaced) && um_core_no_tasks(core) &&
        (!lingers || um_core_wait(core, deadline < linger ? deadline : linger))) {
        if (core->starved)
            um_core_wait(core, um_min_u64(deadline, umbra_deadline(UM_STARVED_NS)));
        else if (deadline != UMBRA_NEVER)
            um_core_wait(core, deadline);
        else if (more->has_shadow && !umbra_shadow_done(&more->shadow))
            um_core_wait(core, umbra_deadline(UM_SHADOW_LOOK_NS));
        else
            um_core_sleep(core);
    }
    um_idle_clear(runtime->idle, core->index);
    core->starved = false;
}

UM_INLINE void um_core_set_state(struct umbra_core *core, enum umbra_core_state state)
{
    um_atomic_store(&core->state, (uint32_t)state, relaxed); /* only looked at */
}

/* Ends the watch. Whether the fiber was launched. */
UM_INLINE bool um_core_unwatch(struct umbra_core *core)
{
    struct um_fiber *fiber = core->watched;
    bool launched = um_watch_end(&fiber->node.link);

    core->watched = NULL;
    if (launched)
        um_core_begin(core, fiber, false);
    return launched;
}

UM_LINKONCE void um_core_idle(struct umbra_core *core)
{
    bool busy;

    um_core_set_state(core, UMBRA_CORE_IDLE);
    busy = um_core_look_around(core);
    if (core->watched)
        busy = um_core_unwatch(core) || busy;
    if (um_core_tasking(core) && um_ready_empty(core) && !um_core_has_mail(core))
        busy = um_core_take_task(core) || busy;
    if (!busy)
        um_core_doze(core);
    um_core_set_state(core, UMBRA_CORE_EXECUTING);
}

/* detail/join.h: a fiber that ended is told to whoever joins it. */
UM_LINKONCE void um_fiber_retire(struct umbra_core *core, struct um_fiber *fiber, void *result);

/* The scheduler's own loop, on its thread's stack: runs when no fiber is ready, until it is told to
 * stop. */
UM_LINKONCE void um_core_loop(struct umbra_core *core)
{
    for (;;) {
        struct um_fiber *ended = core->retiring;

        core->retiring = NULL;
        if (ended)
            um_fiber_retire(core, ended, core->retiring_result);
        if (!core->watched && um_core_attention(core))
            um_core_attend(core);
        if (!um_ready_empty(core)) {
            struct um_fiber *fiber = um_ready_pop(core);

            um_atomic_store(&core->current, fiber, relaxed); /* only looked at by others */
            um_context_switch(&core->scheduler, &fiber->context);
        } else if (!core->watched &&
                   um_atomic_load(&core->runtime->stopping, acquire)) { /* umbra_runtime_destroy */
            return;
        } else {
            um_core_idle(core);
        }
    }
}

/* ---- sleeping ---- */

/* What a blocked fiber waits for, for reports. at: where its wait was called from. */
UM_INLINE void um_fiber_block(struct um_fiber *fiber, const struct um_kind *kind, const void *on,
                              const void *at)
{
    um_atomic_store(&fiber->waits_for, kind, relaxed); /* only looked at by others, all four */
    um_atomic_store(&fiber->waits_on, on, relaxed);
    um_atomic_store(&fiber->waits_at, at, relaxed);
    um_fiber_set_state(fiber, UMBRA_FIBER_BLOCKED);
}

UM_LINKONCE UM_COLD int um_thread_sleep(uint64_t deadline)
{
    struct um_sleeper *sleeper;
    int error = um_sleeper_get(&sleeper);

    if (error == 0)
        um_sleeper_wait(sleeper, deadline); /* nobody wakes it */
    return error;
}

/*
 * Waits until the claim of `wait` is taken or dead, or the deadline has passed. self, core: the calling
 * fiber and its core; NULL: a thread, with the sleeper in `wait`. 0: it was taken, and the waiter woken;
 * -ETIMEDOUT, -ECANCELED: the waiter has given up; -EDEADLK: the claim was ended for a thread
 * (um_joins_end()). What a fiber is said to wait for is set by the caller (um_fiber_block()).
 */
UM_LINKONCE int um_claimed_wait_fiber(struct umbra_core *core, struct um_fiber *self,
                                      struct um_wait *wait, uint64_t deadline)
{
    struct um_claimed *claimed = &wait->claimed;
    int error;

    self->claimed = claimed;
    self->ticket = claimed->ticket;
    self->timer.deadline = deadline;
    if (deadline != UMBRA_NEVER)
        um_timers_add(&core->timers, &self->timer);
    um_fiber_leave(core, self);
    error = um_fiber_woken(self);
    if (um_timers_has(&core->timers, &self->timer))
        um_timers_remove(&core->timers, &self->timer);
    self->timer.deadline = 0;
    self->claimed = NULL;
    /* acquire: pairs with um_claimed_offer() */
    if ((um_atomic_load(&claimed->claim, acquire) & UM_CLAIM_STATE) == UM_CLAIM_TAKEN)
        return 0;
    return error != 0 ? error : -ETIMEDOUT;
}

UM_LINKONCE int um_claimed_wait_thread(struct um_wait *wait, uint64_t deadline)
{
    struct um_claimed *claimed = &wait->claimed;
    unsigned looks = 0;
    enum um_give_up outcome;

    if (um_sleeper_wait(wait->sleeper, deadline) < 0) {
        while ((outcome = um_claim_give_up(claimed, claimed->ticket)) == UM_GIVE_UP_LATER)
            um_thread_look_again(looks++, UMBRA_NEVER);
        if (outcome == UM_GAVE_UP)
            return -ETIMEDOUT;
        um_sleeper_wait(wait->sleeper, UMBRA_NEVER);
    }
    /* acquire: as above */
    return (um_atomic_load(&claimed->claim, acquire) & UM_CLAIM_STATE) == UM_CLAIM_TAKEN ? 0
                                                                                         : -EDEADLK;
}

UM_LINKONCE const struct um_kind um_kind_sleep = {"sleep", NULL};

/* As umbra_sleep_until(); what a fiber is said to do meanwhile, to what and where. */
UM_LINKONCE int um_sleep_at(uint64_t deadline, const struct um_kind *kind, const void *on,
                            const void *at)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self = core ? um_core_current(core) : NULL;

    if (!self)
        return um_thread_sleep(deadline);
    if (!um_fiber_on_stack(self))
        return -EPERM;
    if (um_fiber_barred(self))
        return -ECANCELED;
    um_fiber_block(self, kind, on, at);
    self->timer.deadline = deadline;
    um_timers_add(&core->timers, &self->timer);
    um_fiber_leave(core, self);
    return um_fiber_woken(self);
}

UM_LINKONCE UM_NOINLINE int umbra_sleep_until(uint64_t deadline)
{
    return um_sleep_at(deadline, &um_kind_sleep, NULL, __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_sleep_ns(uint64_t ns)
{
    return um_sleep_at(umbra_deadline(ns), &um_kind_sleep, NULL, __builtin_return_address(0));
}

#endif
