/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cancelling fibers. Private; included by core.h.
 *
 * A fiber's home core alone changes its flags, so a cancellation is a message to it: the core sets
 * CANCELED and, if the fiber is blocked in a wait that can be interrupted, ends the wait. From then on
 * the fiber finds BARRED before each wait.
 *
 *   blocked in                        ended by
 *   a wait with a claim               its claim, as a deadline would (claim_protocol.h)
 *   a join of a fiber it owns         `done`, which is RUNNING again (join_protocol.h)
 *   a sleep                           its timer
 *   a wait for one event              the event, out of whose queue the fiber's node is taken
 *   (a task's join)                   not at all
 *
 * Where the wait just ends by itself, the wake-up is on its way, and the cancellation comes too late
 * for this wait. Where another thread is at the claim or holds the event, the message goes into the
 * core's inbox again.
 */
#ifndef UMBRA_DETAIL_CANCEL_H
#define UMBRA_DETAIL_CANCEL_H

#include <umbra/detail/join.h>
#include <umbra/detail/scheduler.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* ---- the fiber's flags: the fiber, or its home core ---- */

/* After CANCELED or the shields have changed. */
UM_INLINE void um_fiber_set_barred(struct um_fiber *fiber, uint32_t flags)
{
    bool barred = (flags & (UM_FIBER_CANCELED | UM_FIBER_SHIELDED)) == UM_FIBER_CANCELED;

    um_fiber_set_flags(fiber, (flags & ~UM_FIBER_BARRED) | (barred ? UM_FIBER_BARRED : 0));
}

UM_LINKONCE int um_fiber_take_interrupt(struct um_fiber *fiber)
{
    um_fiber_set_flags(fiber, um_fiber_flags(fiber) & ~UM_FIBER_INTERRUPTED);
    return -ECANCELED;
}

UM_LINKONCE void umbra_shield(void)
{
    struct um_fiber *self = um_core_self ? um_core_current(um_core_self) : NULL;
    uint32_t flags;

    if (!self)
        return;
    flags = um_fiber_flags(self);
    if (!(flags & UM_FIBER_SHIELDED))
        self->shields = 0;
    self->shields++;
    um_fiber_set_barred(self, flags | UM_FIBER_SHIELDED);
}

UM_LINKONCE void umbra_unshield(void)
{
    struct um_fiber *self = um_core_self ? um_core_current(um_core_self) : NULL;
    uint32_t flags = self ? um_fiber_flags(self) : 0;

    if ((flags & UM_FIBER_SHIELDED) && --self->shields == 0)
        um_fiber_set_barred(self, flags & ~UM_FIBER_SHIELDED);
}

/* ---- a blocked fiber: its home core ---- */

/* The join of a fiber that the joiner's core owns. */
UM_LINKONCE enum um_withdraw um_interrupt_join(struct umbra_core *core, struct um_fiber *self)
{
    /* relaxed: this core's own */
    uintptr_t on = (uintptr_t)um_atomic_load(&self->waits_on, relaxed);
    struct um_fiber *fiber = (struct um_fiber *)(on - 1); /* um_waits_on_fiber() */

    return um_done_change(&fiber->node.done, um_join_sides(core, fiber),
                          (uintptr_t)&self->node | UM_DONE_JOINED,
                          (uintptr_t)core | UM_DONE_RUNNING)
               ? UM_WITHDRAWN
               : UM_WITHDRAW_TOO_LATE;
}

UM_LINKONCE enum um_withdraw um_interrupt_event(struct umbra_core *core, struct um_fiber *self)
{
    struct um_released out = {NULL, NULL};
    enum um_withdraw result;

    if (!self->waits_in)
        return UM_WITHDRAW_TOO_LATE;
    result = um_event_withdraw_plain(self->waits_in, &self->node, &out);
    um_event_wake(&out, core);
    return result;
}

UM_LINKONCE enum um_withdraw um_interrupt_claim(struct um_fiber *self)
{
    switch (um_claim_give_up(self->claimed, self->ticket)) {
    case UM_GAVE_UP:
        return UM_WITHDRAWN;
    case UM_GIVE_UP_LATER:
        return UM_WITHDRAW_LATER;
    default:
        return UM_WITHDRAW_TOO_LATE;
    }
}

/* Ends the wait of a blocked fiber, if it can be ended now. */
UM_LINKONCE enum um_withdraw um_fiber_interrupt(struct umbra_core *core, struct um_fiber *fiber)
{
    enum um_withdraw result = UM_WITHDRAWN;

    if (fiber->claimed)
        result = um_interrupt_claim(fiber);
    else if (um_timers_has(&core->timers, &fiber->timer))
        um_timers_remove(&core->timers, &fiber->timer);
    else if ((uintptr_t)um_atomic_load(&fiber->waits_on, relaxed) & 1) /* this core's own */
        result = um_interrupt_join(core, fiber);
    else
        result = um_interrupt_event(core, fiber);
    if (result == UM_WITHDRAWN) {
        um_fiber_set_flags(fiber, um_fiber_flags(fiber) | UM_FIBER_INTERRUPTED);
        um_fiber_make_ready(core, fiber);
    }
    return result;
}

UM_LINKONCE void um_cancel_receive(struct umbra_core *core, struct um_node *node)
{
    struct um_wait *message = um_wait_of(node);
    struct umbra_fiber handle = message->cancel.fiber;
    struct um_fiber *fiber = handle.block;
    bool ended = um_fiber_has_ended(fiber); /* first: see um_fiber_is() */

    if (!ended && um_fiber_generation(fiber) == handle.generation) {
        um_fiber_set_barred(fiber, um_fiber_flags(fiber) | UM_FIBER_CANCELED);
        if (um_fiber_get_state(fiber) == UMBRA_FIBER_BLOCKED && um_fiber_barred(fiber) &&
            um_fiber_interrupt(core, fiber) == UM_WITHDRAW_LATER) {
            um_core_post(core, node);
            return;
        }
    }
    um_claimed_free(&message->claimed);
}

/* ---- any thread ---- */

/* A fiber without a place: 0, or its core since, to which the message must go. */
UM_LINKONCE struct umbra_core *um_cancel_unplaced(struct umbra_fiber fiber)
{
    struct umbra_runtime *runtime = fiber.block->runtime;
    struct umbra_core *home;

    pthread_mutex_lock(&runtime->unplaced_lock);
    home = um_fiber_home(fiber.block);
    if (!home && um_fiber_generation(fiber.block) == fiber.generation)
        um_fiber_set_barred(fiber.block, um_fiber_flags(fiber.block) | UM_FIBER_CANCELED);
    pthread_mutex_unlock(&runtime->unplaced_lock);
    return home;
}

UM_LINKONCE int umbra_cancel(struct umbra_fiber fiber)
{
    struct umbra_core *core = um_core_self && um_core_current(um_core_self) ? um_core_self : NULL;
    struct umbra_core *home;
    struct um_wait *message;

    if (!fiber.block)
        return -ESRCH;
    /* acquire: see um_fiber_is() */
    home = (struct umbra_core *)um_atomic_load(&fiber.block->node.home, acquire);
    if (um_fiber_has_ended(fiber.block) || um_fiber_generation(fiber.block) != fiber.generation)
        return -ESRCH;
    if (fiber.block->runtime->inherited)
        return -EPERM;
    if (!home)
        home = um_cancel_unplaced(fiber);
    if (!home)
        return 0;
    message = um_wait_take();
    if (!message)
        return -ENOMEM;
    message->cancel.fiber = fiber;
    message->claimed.node.kind = UM_NODE_CANCEL;
    if (home == core)
        um_cancel_receive(core, &message->claimed.node);
    else
        um_core_post(home, &message->claimed.node);
    return 0;
}

#endif
