/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How the wait of a canceled fiber is ended. Private; included by fiber.h. Only the thread of the
 * fiber's home core executes this. If another thread is about to end the wait, the wait is left to
 * that thread. The canceller's side is in core/cancel.h, with a table of the waits.
 */
#ifndef UMBRA_FIBER_CANCEL_WAIT_H
#define UMBRA_FIBER_CANCEL_WAIT_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/protocol.h>
#include <umbra/event/protocol.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/join_answer.h>
#include <umbra/fiber/runtime.h>
#include <umbra/fiber/sleeper.h>
#include <umbra/fiber/timers.h>
#include <umbra/fiber/wake.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* ---- a blocked fiber: its home core ---- */

/* Ends the join of a fiber that the joiner's core owns: `done` is RUNNING again. */
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

/* Ends the wait for one event: takes the fiber's node out of the event's queue. */
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

/* Ends a sleep. The deadline goes, too: the next life of the fiber is not delayed. */
UM_LINKONCE void um_interrupt_sleep(struct umbra_core *core, struct um_fiber *self)
{
    um_timers_remove(&core->timers, &self->timer);
    self->timer.deadline = 0;
}

/* Ends a wait with a claim, as its deadline would. */
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

/* Ends the wait of a blocked fiber, if possible now, and makes it ready. LATER: try again. */
UM_LINKONCE enum um_withdraw um_fiber_interrupt(struct umbra_core *core, struct um_fiber *fiber)
{
    enum um_withdraw result = UM_WITHDRAWN;

    if (fiber->claimed)
        result = um_interrupt_claim(fiber);
    else if (um_timers_has(&core->timers, &fiber->timer))
        um_interrupt_sleep(core, fiber);
    else if ((uintptr_t)um_atomic_load(&fiber->waits_on, relaxed) & 1) /* this core's own */
        result = um_interrupt_join(core, fiber);
    else
        result = um_interrupt_event(core, fiber);
    if (result == UM_WITHDRAWN) {
        um_fiber_set_flags(fiber, um_fiber_flags(fiber) | UM_FIBER_INTERRUPTED);
        um_fiber_wake(core, fiber);
    }
    return result;
}

/* Receives the message of umbra_cancel(): a fiber of this core is canceled. Posts the message again
 * if the fiber's wait can be ended only later. */
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

#endif /* UMBRA_IMPLEMENTATION */

#endif
