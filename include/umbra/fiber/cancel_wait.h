/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How the wait of a canceled fiber is ended. Private; included by fiber.h. Only the thread of the
 * fiber's home core executes this. If another thread is about to end the wait, the wait is left to
 * that thread. The canceller's side is in core/cancel.h, with a table of the waits.
 */
#ifndef UMBRA_FIBER_CANCEL_WAIT_H
#define UMBRA_FIBER_CANCEL_WAIT_H

#include <umbra/base/base.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/runtime.h>
#include <umbra/fiber/sleeper.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* Receives the message of umbra_cancel(): a fiber of this core is canceled. Posts the message again
 * if the fiber's wait can be ended only later. */
UM_LINKONCE void um_cancel_receive(struct umbra_core *core, struct um_node *node)
{
    struct um_wait *message = um_wait_of(node);
    struct umbra_fiber handle = message->cancel.fiber;
    struct um_fiber *fiber = handle.block;
    bool ended = um_fiber_has_ended(fiber); /* first: see um_fiber_is() */
    enum um_give_up result = UM_GIVE_UP_TOO_LATE;

    if (!ended && um_fiber_generation(fiber) == handle.generation) {
        um_fiber_set_barred(fiber, um_fiber_flags(fiber) | UM_FIBER_CANCELED);
        if (um_fiber_get_state(fiber) == UMBRA_FIBER_BLOCKED && um_fiber_barred(fiber) &&
            fiber->withdraw)
            result = fiber->withdraw(core, fiber);
        if (result == UM_GIVE_UP_LATER) {
            um_core_post(core, node);
            return;
        }
        if (result == UM_GAVE_UP) {
            um_fiber_set_flags(fiber, um_fiber_flags(fiber) | UM_FIBER_INTERRUPTED);
            um_fiber_wake(core, fiber);
        }
    }
    um_claimed_free(&message->claimed);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
