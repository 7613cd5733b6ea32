/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a waiter is woken. Private; included by fiber.h. A node that an event, a join or a task has
 * released is passed on: to the ready queue if its fiber lives on the caller's core, to the inbox
 * of another core, or to the sleeper of a thread. Any thread may wake. The two functions at the
 * end, by which a fiber begins and blocks, are for its core alone. Nothing here switches, blocks or
 * fails.
 */
#ifndef UMBRA_FIBER_WAKE_H
#define UMBRA_FIBER_WAKE_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/event/protocol.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/runtime.h>
#include <umbra/fiber/sleeper.h>
#include <umbra/fiber/timers.h>
#include <umbra/fiber/trace_record.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* Wakes the waiter of a released node. core: the caller's core; NULL: the caller is on none, or
 * must not touch its ready queue. Any thread; with NULL signal handlers, too. Never blocks. */
UM_INLINE void um_node_wake(struct um_node *node, struct umbra_core *core)
{
    /* relaxed: fixed while the node waits */
    struct umbra_core *home = (struct umbra_core *)um_atomic_load(&node->home, relaxed);

    if (um_tracing() && home && core)
        um_trace_wake(core, um_node_fiber(node), UM_TRACE_WAKE);
    if (home && home == core)
        um_fiber_wake(core, um_node_fiber(node));
    else if (home)
        um_core_post(home, node);
    else
        um_node_wake_thread(node);
}

/* Wakes the waiters that a call on an event has released. core: as in um_node_wake(). */
UM_INLINE void um_event_wake(struct um_released *out, struct umbra_core *core)
{
    struct um_node *node = out->first;

    while (node) {
        struct um_node *next = node == out->last ? NULL : node->next;

        um_node_wake(node, core);
        node = next;
    }
}

#ifdef UMBRA_IMPLEMENTATION

/* ---- messages ---- */

/* How a fiber begins. */
enum um_begin {
    UM_BEGIN_LAST, /* behind the fibers that are ready */
    UM_BEGIN_SENT, /* as one that was woken: another core or thread sent it */
    UM_BEGIN_ASIDE /* stopped, unless umbra_continue() was called before */
};

/* A fiber's life begins on this core: it is ready, delayed, or stopped. The core. */
UM_INLINE void um_core_begin(struct umbra_core *core, struct um_fiber *fiber, enum um_begin how)
{
    um_core_count(core, 1);
    if (UM_UNLIKELY(fiber->timer.deadline != 0)) {
        um_timers_add(&core->timers, &fiber->timer);
    } else if (UM_UNLIKELY(how == UM_BEGIN_ASIDE) && !um_fiber_permitted(fiber)) {
        um_fiber_set_state(fiber, UMBRA_FIBER_STOPPED);
    } else if (how == UM_BEGIN_LAST) {
        um_fiber_make_ready(core, fiber);
    } else {
        if (UM_UNLIKELY(how == UM_BEGIN_ASIDE)) /* the permit is used */
            um_fiber_set_flags(fiber, um_fiber_flags(fiber) & UM_FIBER_KEPT);
        um_fiber_wake(core, fiber);
    }
}

/* ---- sleeping ---- */

/* Marks the fiber as blocked; for reports: what it waits for, and where it called. The core. */
UM_INLINE void um_fiber_block(struct um_fiber *fiber, const struct um_kind *kind, const void *on,
                              const void *at)
{
    um_atomic_store(&fiber->waits_for, kind, relaxed); /* all four: reports only look */
    um_atomic_store(&fiber->waits_on, on, relaxed);
    um_atomic_store(&fiber->waits_at, at, relaxed);
    um_fiber_set_state(fiber, UMBRA_FIBER_BLOCKED);
}

/* For reports: another call has made the fiber's wait one for this. relaxed, both: as above. */
UM_INLINE void um_fiber_waits_now(struct um_fiber *fiber, const struct um_kind *kind,
                                  const void *on)
{
    um_atomic_store(&fiber->waits_for, kind, relaxed);
    um_atomic_store(&fiber->waits_on, on, relaxed);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
