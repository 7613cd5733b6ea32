/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a fiber gives up its core. Private; included by fiber.h. The fast path is inlined where a
 * fiber waits or yields: it takes the next ready fiber and jumps. The slow path first attends to
 * messages and timers, and takes along what the fiber has apart (fiber/own_state.h); work without a
 * place is the scheduler's, which it switches to when that is due.
 *
 * um_fiber_leave() is called by a fiber on its own stack. The slow paths of yield and transfer may
 * be called by any thread, and find out what the caller is: -EPERM, or no effect, where it cannot
 * switch. The jump saves a fiber's context before any other fiber of the core runs; other threads
 * may only ask the core by a message to make it ready.
 */
#ifndef UMBRA_FIBER_SWITCH_H
#define UMBRA_FIBER_SWITCH_H

#include <sched.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/context.h>
#include <umbra/fiber/attend.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/exceptions.h>
#include <umbra/fiber/own_state.h>
#include <umbra/fiber/runtime.h>
#include <umbra/fiber/timers.h>
#include <umbra/fiber/trace_record.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* How the wait ended, when the fiber runs again: 0, or -ECANCELED: by a cancellation. The fiber. */
UM_ALWAYS_INLINE int um_fiber_woken(struct um_fiber *fiber)
{
    return UM_LIKELY(!(um_fiber_flags(fiber) & UM_FIBER_INTERRUPTED))
               ? 0
               : um_fiber_take_interrupt(fiber);
}

UM_LINKONCE UM_NOINLINE void um_fiber_leave_slow(struct umbra_core *core, struct um_fiber *from);

/*
 * Gives up the core; switches. The fiber can already be made ready again, or its function has
 * returned. Returns when the fiber runs again, perhaps without a switch. The fiber.
 */
UM_ALWAYS_INLINE void um_fiber_leave(struct umbra_core *core, struct um_fiber *from)
{
    struct um_link *first = um_link_next(&core->ready);

    if (UM_UNLIKELY(first == &core->ready || um_core_leave_slowly(core)))
        um_fiber_leave_slow(core, from);
    else
        um_fiber_switch(core, from, um_ready_take(core, first));
}

UM_LINKONCE UM_NOINLINE void um_slice_look(struct umbra_core *core);
UM_LINKONCE UM_NOINLINE struct um_fiber *um_yield_slow(struct umbra_core *core);
UM_LINKONCE void um_yield_attending(struct umbra_core *core);
UM_LINKONCE UM_NOINLINE int um_transfer_slow(struct umbra_core *core, struct umbra_fiber to);

#ifdef UMBRA_IMPLEMENTATION

/* ---- fibers that leave ---- */

/* ..._apart: the fiber has something that other fibers of the core must not see, or the core is
 * traced. */

/* As um_fiber_leave_slow(), on a core that is traced, for a fiber that has nothing apart. */
UM_LINKONCE void um_fiber_leave_traced(struct umbra_core *core, struct um_fiber *from)
{
    bool blocked = um_fiber_get_state(from) == UMBRA_FIBER_BLOCKED;
    bool timed = !from->claimed && from->timer.number != 0;
    struct um_link *first;
    struct um_fiber *to;

    um_core_attend(core);
    first = um_link_next(&core->ready);
    to = first == &core->ready || um_unplaced_due(core) ? NULL : um_ready_take(core, first);
    if (to != from) {
        um_trace_leave(core, from, to);
        um_atomic_store(&core->current, to, relaxed); /* other threads only look */
        um_context_switch(&from->context, to ? &to->context : &core->scheduler);
    }
    if (blocked) /* else it begins another life, perhaps on another core */
        um_trace_return(core, from, timed, um_atomic_load(&from->waits_on, relaxed));
}

UM_LINKONCE UM_NOINLINE void um_fiber_leave_with_own(struct umbra_core *core, struct um_fiber *from)
{
    struct um_own_state taken;

    if (!um_own_state_some(core)) {
        um_fiber_leave_traced(core, from);
        return;
    }
    taken = um_own_state_take(core, from);
    if (core->trace)
        um_fiber_leave_traced(core, from);
    else
        um_fiber_leave_slow(core, from);
    um_own_state_put(core, from, taken);
}

/* No other fiber is ready, or the core has something to attend to, or the fiber has something apart:
 * attends, then runs the next fiber, or the scheduler if none is ready or work without a place is
 * due. */
UM_LINKONCE UM_NOINLINE void um_fiber_leave_slow(struct umbra_core *core, struct um_fiber *from)
{
    struct um_link *first;
    struct um_fiber *to;

    if (um_atomic_load(&from->waits_for, relaxed) == &um_kind_join_inline) { /* the fiber's own */
        um_atomic_store(&from->waits_for, &um_kind_join, relaxed); /* both: reports only look */
        um_atomic_store(&from->waits_at, __builtin_return_address(0), relaxed);
    }
    if (UM_UNLIKELY(um_exceptions_some(core->exceptions))) {
        um_fiber_leave_with_own(core, from);
        return;
    }
    um_core_attend(core);
    first = um_link_next(&core->ready);
    if (first == &core->ready || um_unplaced_due(core)) {
        um_atomic_store(&core->current, NULL, relaxed); /* other threads only look */
        um_context_switch(&from->context, &core->scheduler);
        return;
    }
    to = um_ready_take(core, first);
    if (to != from)
        um_fiber_switch(core, from, to);
}

/* As um_yield_slow(), for a fiber that has nothing apart. */
UM_INLINE struct um_fiber *um_yield_next(struct umbra_core *core, struct um_fiber *from)
{
    struct um_fiber *to;

    um_core_attend(core);
    if (um_unplaced_due(core)) {
        um_fiber_set_state(from, UMBRA_FIBER_READY);
        core->yielding = from; /* the scheduler puts it behind that work */
        if (UM_UNLIKELY(core->trace != NULL))
            um_trace_switch(core, UM_TRACE_YIELD, from, NULL);
        um_atomic_store(&core->current, NULL, relaxed); /* other threads only look */
        um_context_switch(&from->context, &core->scheduler);
        return NULL;
    }
    if (um_ready_empty(core)) {
        um_fiber_set_state(from, UMBRA_FIBER_READY); /* nothing waits any more: without SLICE */
        return NULL;
    }
    to = um_ready_turn(core, from, um_link_next(&core->ready));
    if (UM_UNLIKELY(core->trace != NULL))
        um_trace_switch(core, UM_TRACE_YIELD, from, to);
    return to;
}

/* The same, for one that has; switches by itself. */
UM_LINKONCE UM_NOINLINE void um_yield_with_own(struct umbra_core *core, struct um_fiber *from)
{
    struct um_own_state taken = um_own_state_take(core, from);
    struct um_fiber *to = um_yield_next(core, from);

    if (to)
        um_fiber_switch(core, from, to);
    um_own_state_put(core, from, taken);
}

/* True if there is something to attend to at this time: a timer counts when its time has come, and
 * what only a look can say always. relaxed: the core's own word, or a hint */
UM_INLINE bool um_core_attention_at(struct umbra_core *core, uint64_t now)
{
    return um_core_has_mail(core) || um_atomic_load(core->asks, relaxed) != 0 ||
           um_timers_next(&core->timers) <= now || um_core_must_share(core);
}

/*
 * The slow path of yield. core: NULL on a thread that is no core. Returns the fiber that the
 * calling one, which is already in the ready queue, must switch to; or NULL: the yield is over. So
 * the call returns before the switch, and the processor, which pairs calls with returns, foresees
 * where to; but to the scheduler it switches inside. A yield of a thread or of the scheduler gives up the processor; on an alternate signal
 * stack it does nothing.
 */
UM_LINKONCE UM_NOINLINE struct um_fiber *um_yield_slow(struct umbra_core *core)
{
    struct um_fiber *from = core ? um_core_current(core) : NULL;

    if (!from) {
        sched_yield();
        return NULL;
    }
    if (!um_fiber_on_stack(from))
        return NULL;
    if (UM_UNLIKELY(um_exceptions_some(core->exceptions)) && um_own_state_some(core)) {
        um_yield_with_own(core, from);
        return NULL;
    }
    return um_yield_next(core, from);
}

/* Yields by the slow path. core: as above. */
UM_LINKONCE void um_yield_attending(struct umbra_core *core)
{
    struct um_fiber *to = um_yield_slow(core);

    if (to)
        um_fiber_switch(core, um_core_current(core), to);
}

/*
 * umbra_poll() has found that something may wait for the core: begins the share of the running
 * fiber, or yields if that is over. The share belongs to this stay on the core only: every way to
 * give up the core changes the fiber's state, and so clears UM_STATE_SLICE. relaxed, both: the core
 * alone writes the state of a fiber that runs.
 */
UM_LINKONCE UM_NOINLINE void um_slice_look(struct umbra_core *core)
{
    struct um_fiber *fiber = um_core_current(core);
    uint64_t now = um_cycles();
    uint32_t state;

    /* on an alternate signal stack the fiber may be about to leave: its state is not this call's */
    if (!fiber || !um_fiber_on_stack(fiber) ||
        (um_ready_empty(core) && !um_core_attention_at(core, now)))
        return;
    state = um_atomic_load(&fiber->state, relaxed);
    if (!(state & UM_STATE_SLICE)) {
        core->slice_end = um_add_saturating(now, core->share_cycles);
        um_atomic_store(&fiber->state, state | UM_STATE_SLICE, relaxed);
    } else if (now >= core->slice_end) {
        um_atomic_store(&fiber->state, state & ~UM_STATE_SLICE, relaxed);
        core->turns_between = 1; /* this slice was long: the timers are looked at now */
        um_yield_attending(core);
    }
}

UM_LINKONCE int um_transfer_next(struct umbra_core *core, struct um_fiber *from,
                                 struct umbra_fiber to, const void *at);

UM_LINKONCE UM_NOINLINE int um_transfer_with_own(struct umbra_core *core, struct um_fiber *from,
                                                 struct umbra_fiber to, const void *at)
{
    struct um_own_state taken;
    int error;

    if (!um_own_state_some(core))
        return um_transfer_next(core, from, to, at);
    taken = um_own_state_take(core, from);
    error = um_transfer_next(core, from, to, at);
    um_own_state_put(core, from, taken);
    return error;
}

/* Switches from a fiber that transfers to `to`, out of the ready queue. */
UM_LINKONCE void um_transfer_switch(struct umbra_core *core, struct um_fiber *from,
                                    struct um_fiber *to)
{
    bool stopped = um_fiber_get_state(from) == UMBRA_FIBER_STOPPED;

    if (UM_UNLIKELY(core->trace != NULL))
        um_trace_switch(core, UM_TRACE_TRANSFER, from, to);
    um_fiber_switch(core, from, to);
    if (UM_UNLIKELY(core->trace != NULL) && stopped)
        um_trace_return(core, from, false, NULL);
}

/* As um_transfer_slow(), for a fiber that has nothing apart. at: where the transfer was called. */
UM_LINKONCE int um_transfer_next(struct umbra_core *core, struct um_fiber *from,
                                 struct umbra_fiber to, const void *at)
{
    struct umbra_core *home;
    uint32_t state;
    bool ended;

    if (!to.block)
        return um_why_ended();
    state = um_atomic_load(&to.block->state, acquire) & UM_STATE_BITS; /* see um_fiber_is(), 3x */
    home = (struct umbra_core *)um_atomic_load(&to.block->node.home, acquire);
    ended = um_fiber_has_ended(to.block);
    if (um_fiber_generation(to.block) != to.generation)
        return um_why_ended();
    if (to.block == from)
        return um_why(-EINVAL, "the fiber is the caller");
    if (ended)
        return um_why_ended();
    if (home != core)
        return um_why(-EXDEV, home ? "the fiber is on another core" : "the fiber has no core yet");
    if (state != UMBRA_FIBER_STOPPED && state != UMBRA_FIBER_READY)
        return um_why(-EBUSY, state == UMBRA_FIBER_BLOCKED ? "the fiber is blocked"
                                                           : "the fiber is delayed, or on its way");
    if (state == UMBRA_FIBER_READY)
        um_ready_remove(core, to.block);
    if (um_fiber_permitted(from))
        um_fiber_make_ready(core, from);
    else
        um_fiber_set_state(from, UMBRA_FIBER_STOPPED);
    um_fiber_set_flags(from, um_fiber_flags(from) & UM_FIBER_KEPT);
    um_fiber_set_state(to.block, UMBRA_FIBER_READY);
    um_atomic_store(&from->waits_for, &um_kind_transfer, relaxed); /* only looked at, all three */
    um_atomic_store(&from->waits_at, at, relaxed);
    um_transfer_switch(core, from, to.block);
    um_atomic_store(&from->waits_for, NULL, relaxed);
    return 0;
}

UM_LINKONCE UM_NOINLINE int um_transfer_slow(struct umbra_core *core, struct umbra_fiber to)
{
    struct um_fiber *from = core ? um_core_current(core) : NULL;
    const void *at = __builtin_return_address(0);

    if (!from || !um_fiber_on_stack(from))
        return from ? um_why_off_stack() : um_why(-EPERM, "the caller is no fiber");
    if (UM_UNLIKELY(um_exceptions_some(core->exceptions)))
        return um_transfer_with_own(core, from, to, at);
    return um_transfer_next(core, from, to, at);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
