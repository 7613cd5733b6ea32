/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a core does between fibers: messages, timers, work without a place, waiting. Private;
 * included by core.h. The core's own thread executes all of this, on its own stack.
 *
 * A core that has lacked memory for a task's fiber waits for a message, for 1 ms at most, before it
 * looks for tasks again. An idle core goes through three stages:
 *
 *   looks around   polls, at least once, its inbox, the count of work without a place, the tasks of the other cores
 *                  (task/protocol.h), and the fiber that ended last (core/watch.h), for
 *                  look_cycles
 *   dozes          announces itself as idle (core/idle.h) and waits on its inbox
 *   sleeps         after linger_cycles, or at once if no fiber lives on it and its shadow is done:
 *                  counts as inactive (core/quiet.h), and goes on waiting; not while a timer is
 *                  set, its ring is to bring something, or its shadow runs
 *
 * If a timer ended the last wait, not a message, the next wait is taken for such a one: unless a sleep
 * is brief, the core sleeps at once, and serves all timers that are due when it wakes up.
 *
 * A core that waits for longer also gives back the stacks of idle fibers (core/trim.h), and looks for
 * messages between two stacks.
 */
#ifndef UMBRA_CORE_LOOP_H
#define UMBRA_CORE_LOOP_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/context.h>
#include <umbra/core/find_work.h>
#include <umbra/core/idle.h>
#include <umbra/core/judge_quiet.h>
#include <umbra/core/make.h>
#include <umbra/core/quiet.h>
#include <umbra/core/trim.h>
#include <umbra/core/watch.h>
#include <umbra/cpu.h>
#include <umbra/fiber.h>
#include <umbra/shadow.h>
#include <umbra/task/protocol.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* How often a dozing core looks at its running shadow: only when reports of deadlocks begin. Until
 * a core without memory for a fiber tries again: a program out of memory is slow anyway. */
#define UM_SHADOW_LOOK_NS 10000000
#define UM_STARVED_NS 1000000

/* ---- waiting ---- */

/* True if there may be tasks. relaxed: a hint; um_core_no_tasks() looks again */
UM_INLINE bool um_core_tasking(const struct umbra_core *core)
{
    return um_atomic_load(&core->runtime->tasking, relaxed) != 0 || um_tasks_some(&core->tasks);
}

UM_INLINE enum um_look um_core_seen(struct umbra_core *core, void *arg)
{
    const bool *tasking = arg;

    return um_core_has_mail(core) || um_completions_look(core) ||
                   (*tasking && um_core_sees_tasks(core)) ||
                   (core->watched && !um_watch_quiet(&core->watched->node.link))
               ? UM_LOOK_OVER
               : UM_LOOK_AGAIN;
}

/* Stage 1. True if there is something to do. */
UM_INLINE bool um_core_look_around(struct umbra_core *core)
{
    bool tasking = um_core_tasking(core);
    uint64_t deadline = um_timers_next(&core->timers);
    struct um_fiber *watched = core->watched;
    const void *word = watched ? &watched->node.link : &core->inbox;

    return um_look_in_place(core, um_completions_polls(core, core->runtime->polls), word,
                            core->timers.brief > 0 ? UMBRA_NEVER : core->look_cycles, deadline,
                            um_core_seen, &tasking) ||
           um_cycles() >= deadline;
}

/* Sleeps at once, until a message comes or the deadline. True if nothing came. */
UM_LINKONCE bool um_core_park(struct umbra_core *core, uint64_t deadline)
{
    struct um_wait_cond cond = {&core->inbox, 0, UINT64_MAX, true, false};
    struct um_wait_clock clock = {.start = um_cycles(), .deadline = deadline};
    bool over = um_wait_park(&core->waiter, &cond, &clock);

    um_count(&core->waiter.count.cycles, um_cycles() - clock.start);
    um_count(over ? &core->waiter.count.ended[UMBRA_ENDED_PARK] : &core->waiter.count.timeouts, 1);
    return !over;
}

/* Waits for a message, or for the completions, until a deadline. True if nothing came. */
UM_INLINE bool um_core_wait(struct umbra_core *core, uint64_t deadline)
{
    if (core->more->completions)
        return um_completions_wait(core, deadline);
    if (core->parks)
        return um_core_park(core, deadline);
    return um_wait_while_equal64(&core->waiter, &core->inbox, 0, UINT64_MAX, deadline) < 0;
}

/* As um_core_wait(), for long; gives back the stacks of idle fibers meanwhile. */
UM_LINKONCE void um_core_rest(struct umbra_core *core, uint64_t deadline)
{
    uint64_t due = um_cycles_after(UM_TRIM_WAIT_NS);

    if (due < core->more->trim_next)
        due = core->more->trim_next;
    if (due >= deadline || (um_core_wait(core, due) && um_trim(core, deadline)))
        um_core_wait(core, deadline);
}

/* Stages 2 and 3. */
UM_LINKONCE void um_core_doze(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    struct um_core_more *more = core->more;
    uint64_t deadline = um_timers_next(&core->timers);
    uint64_t linger = um_add_saturating(um_cycles(), runtime->linger_cycles);
    bool lingers = !core->parks && (um_atomic_load(&core->live, relaxed) > 0 || /* its own */
                                    (more->has_shadow && !um_shadow_done(&more->shadow)));

    um_idle_announce(runtime->idle, core->index);
    if (um_idle_none(&runtime->unplaced) && um_core_no_tasks(core) &&
        (!lingers || um_core_wait(core, deadline < linger ? deadline : linger))) {
        bool only_mail =
            deadline == UMBRA_NEVER && !(more->completions && more->completions->under_way > 0);

        if (only_mail && more->has_shadow && !um_shadow_done(&more->shadow)) {
            only_mail = false;
            deadline = um_cycles_after(UM_SHADOW_LOOK_NS);
        }
        if (only_mail && um_quiet_leave(&runtime->activity))
            um_runtime_judge(runtime);
        um_core_rest(core, deadline);
        if (only_mail)
            um_quiet_enter(&runtime->activity);
    }
    core->called = !um_idle_clear(runtime->idle, core->index);
}

UM_INLINE void um_core_set_state(struct umbra_core *core, enum umbra_core_state state)
{
    um_atomic_store(&core->state, (uint32_t)state, relaxed); /* only queries read it */
}

/* Ends the watch. True if the fiber was launched; then it has begun. */
UM_INLINE bool um_core_unwatch(struct umbra_core *core)
{
    struct um_fiber *fiber = core->watched;
    bool launched = um_watch_end(&fiber->node.link);

    core->watched = NULL;
    if (launched)
        um_core_begin(core, fiber, UM_BEGIN_SENT);
    return launched;
}

/* True if the next wait will probably end by a timer: where timers are dense, one wake-up serves many.
 * Not while a brief sleep is under way, or the core is to stay awake; nor if the options let waits poll
 * for longer than any wake-up costs, and the timer is within half of that. */
UM_INLINE bool um_core_should_park(const struct umbra_core *core, uint64_t deadline)
{
    uint64_t block = core->runtime->policy.block_cycles;
    uint64_t now;

    if (!core->rung || core->timers.brief > 0 || deadline == UMBRA_NEVER)
        return false;
    now = um_cycles();
    return now - core->waiter.awake_since >= core->waiter.awake_cycles &&
           deadline >
               um_add_saturating(now, block > um_ns_to_cycles(UM_BLOCK_MOST_NS) ? block / 2 : 0);
}

/* No fiber is ready: stage 1, then a task, then stages 2 and 3. Returns when there may be something
 * to do. */
UM_LINKONCE void um_core_idle(struct umbra_core *core)
{
    struct umbra_wait_stats before;
    uint64_t deadline = um_timers_next(&core->timers);
    bool busy;

    um_core_set_state(core, UMBRA_CORE_IDLE);
    core->passed = 0; /* none is ready */
    if (UM_UNLIKELY(core->trace != NULL)) {
        before = umbra_waiter_stats(&core->waiter);
        um_trace_idle(core);
    }
    /* Memory for the fiber of a task was missing: waits for a message, or a while. Without a bit in
     * idle: the core could do nothing with tasks that it was woken for, and of two such cores each
     * would wake the other. */
    if (UM_UNLIKELY(core->starved))
        um_core_wait(core, um_min_u64(deadline, um_cycles_after(UM_STARVED_NS)));
    core->starved = false;
    core->parks = um_core_should_park(core, deadline);
    busy = !core->parks && um_core_look_around(core);
    if (core->watched)
        busy = um_core_unwatch(core) || busy;
    if ((um_core_tasking(core) || core->pieces > 0 || um_handover_holds(&core->handover)) &&
        um_ready_empty(core) && !um_core_has_mail(core))
        busy = um_core_take_work(core) || busy;
    /* acquire: a fiber may have taken the poke of um_runtime_stop(), and the watch has hidden it */
    if (!busy && !core->starved && !um_atomic_load(&core->runtime->stopping, acquire))
        um_core_doze(core);
    core->parks = false;
    core->rung = um_ready_empty(core) && !um_core_has_mail(core) && um_cycles() >= deadline;
    if (UM_UNLIKELY(core->trace != NULL))
        um_trace_busy(core, &before);
    um_core_set_state(core, UMBRA_CORE_EXECUTING);
}

/* The scheduler's loop, on its thread's stack: runs if no fiber is ready, until the core stops. */
UM_LINKONCE void um_core_loop(struct umbra_core *core)
{
    for (;;) {
        struct um_fiber *ended = core->retiring;

        core->retiring = NULL;
        if (ended)
            um_fiber_retire(core, ended, core->retiring_result);
        if (core->watched && !um_ready_empty(core)) /* its end was the answer to a join here */
            um_core_unwatch(core);
        if (!core->watched && um_core_attention_words(core)) {
            um_core_attend(core);
            if (um_unplaced_due(core))
                um_core_take_unplaced(core);
            else if (core->called && !um_idle_none(&core->runtime->unplaced))
                um_unplaced_call(core->runtime); /* this core has fibers of its own by now */
            core->called = false;
        }
        if (core->yielding)
            um_ready_push(core, core->yielding);
        core->yielding = NULL;
        if (!um_ready_empty(core)) {
            struct um_fiber *fiber = um_ready_take(core, um_link_next(&core->ready));

            if (UM_UNLIKELY(core->trace != NULL))
                um_trace_switch(core, UM_TRACE_RUN, NULL, fiber);
            um_atomic_store(&core->current, fiber, relaxed); /* other threads only read it */
            um_context_switch(&core->scheduler, &fiber->context);
        } else if (!core->watched &&
                   um_atomic_load(&core->runtime->stopping, acquire)) { /* umbra_runtime_destroy */
            return;
        } else {
            um_core_idle(core);
        }
    }
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
