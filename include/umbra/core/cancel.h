/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cancelling fibers. Private; included by core.h.
 *
 * Only the home core changes a fiber's flags, so a cancellation is a message to that core. The core
 * sets CANCELED and, if the fiber is blocked in a wait that can be interrupted, ends the wait. From
 * then on the fiber finds BARRED before each wait, unless it is shielded. A fiber without a place
 * has no home yet: the canceller sets CANCELED, under the lock of the list that has the fiber. Any
 * thread or fiber may cancel, but not a signal handler; errors: -ESRCH, -EPERM, -ENOMEM.
 *
 *   blocked in                        ended by (withdraw in struct um_fiber: um_withdraw_...)
 *   a wait with a claim               its claim, as a deadline would (wait/claim.h)
 *   a join of a fiber it owns         `done`, which is RUNNING again (core/join_word.h)
 *   a sleep                           its timer
 *   a wait for one event              the event: the fiber's node is taken out of its queue
 *   (without a deadline: the join of
 *   a task, a lock, a barrier)        not at all
 *
 * If the wait is just ending by itself, the wake-up is on its way, and the cancellation comes too
 * late for this wait. If another thread is offering a signal to the claim, or holds the event, the
 * core posts the message to its own inbox again.
 */
#ifndef UMBRA_CORE_CANCEL_H
#define UMBRA_CORE_CANCEL_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/fiber.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

UM_LINKONCE void umbra_shield(bool begin)
{
    struct um_fiber *self = um_core_self ? um_core_current(um_core_self) : NULL;
    uint32_t flags = self ? um_fiber_flags(self) : 0;

    if (self && begin) {
        if (!(flags & UM_FIBER_SHIELDED))
            self->shields = 0;
        self->shields++;
        um_fiber_set_barred(self, flags | UM_FIBER_SHIELDED);
    } else if ((flags & UM_FIBER_SHIELDED) && --self->shields == 0) {
        um_fiber_set_barred(self, flags & ~UM_FIBER_SHIELDED);
    }
}

/* ---- any thread ---- */

/* Cancels a fiber that had no place. NULL: done; else the core that has taken the fiber since,
 * which must get the message. */
UM_LINKONCE struct umbra_core *um_cancel_unplaced(struct umbra_fiber fiber)
{
    struct umbra_core *spawner = fiber.block->slab->owner; /* its list had the fiber */
    struct umbra_core *home;

    um_lock_take(&spawner->spawned.lock);
    home = um_fiber_home(fiber.block);
    if (!home && um_fiber_generation(fiber.block) == fiber.generation)
        um_fiber_set_barred(fiber.block, um_fiber_flags(fiber.block) | UM_FIBER_CANCELED);
    um_lock_release(&spawner->spawned.lock);
    return home;
}

UM_LINKONCE int umbra_cancel(struct umbra_fiber fiber)
{
    struct umbra_core *core = um_core_self && um_core_current(um_core_self) ? um_core_self : NULL;
    struct umbra_core *home;
    struct um_wait *message;

    if (!fiber.block)
        return um_why_ended();
    /* acquire: see um_fiber_is() */
    home = (struct umbra_core *)um_atomic_load(&fiber.block->node.home, acquire);
    if (um_fiber_has_ended(fiber.block) || um_fiber_generation(fiber.block) != fiber.generation)
        return um_why_ended();
    if (fiber.block->runtime->inherited)
        return um_why(-EPERM, "the fiber is the parent process's");
    if (!home)
        home = um_cancel_unplaced(fiber);
    if (!home)
        return 0;
    message = um_wait_take();
    if (!message)
        return um_why_none(-ENOMEM);
    message->cancel.fiber = fiber;
    message->claimed.node.kind = UM_NODE_CANCEL;
    if (home == core)
        um_cancel_receive(core, &message->claimed.node);
    else
        um_core_post(home, &message->claimed.node);
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
