/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The slot: one cache line through which an owner hands a function to a helper thread, and learns
 * that it is done. One owner and one helper; these functions never wait. Private. Checked by
 * tests/model/slot.
 *
 *            owner posts                 helper takes, runs, completes
 *     IDLE --------------> RUN --------------------------------------> IDLE
 *       |  owner dismisses
 *       +----------------> QUIT   (the helper ends; nothing follows)
 *
 * The state alone says which side may touch fn and arg: the owner while IDLE, the helper while RUN.
 * Function, argument and state are in the same line, so one transfer of the line carries a fork and
 * one carries its completion (design, invariant 6).
 *
 * Ordering. Post and complete store the state with seq_cst. That publishes what was written before
 * (fn, arg; the function's effects) to the acquire load with which the other side sees the state,
 * and it is step S1 of wait/park.h, so um_park_wake may follow directly.
 */
#ifndef UMBRA_SHADOW_PROTOCOL_H
#define UMBRA_SHADOW_PROTOCOL_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_SLOT_IDLE 0u
#define UM_SLOT_RUN 1u
#define UM_SLOT_QUIT 2u

typedef void um_slot_fn(void *arg);

struct um_slot {
    um_atomic_u32 state;       /* UM_SLOT_*: owner sets RUN and QUIT, helper sets IDLE; both read */
    um_plain(um_slot_fn *) fn; /* what to run: owner writes while IDLE, helper reads while RUN */
    um_plain(void *) arg;      /* its argument: likewise */
};

/* Owner, after it saw IDLE: hands over a function. um_park_wake must follow. */
UM_INLINE void um_slot_post(struct um_slot *slot, um_slot_fn *fn, void *arg)
{
    um_plain_write(slot->fn, fn);
    um_plain_write(slot->arg, arg);
    /* seq_cst: fn and arg before RUN, pairs with acquire in um_slot_look; step S1 of a park */
    um_atomic_store(&slot->state, UM_SLOT_RUN, seq_cst);
}

/* Owner, while IDLE: tells the helper to end. um_park_wake must follow. */
UM_INLINE void um_slot_dismiss(struct um_slot *slot)
{
    /* seq_cst: the owner's last writes before QUIT, pairs with um_slot_look; step S1 of a park */
    um_atomic_store(&slot->state, UM_SLOT_QUIT, seq_cst);
}

/* Helper, after it saw RUN: runs the function and sets IDLE. um_park_wake must follow. */
UM_INLINE void um_slot_run(struct um_slot *slot)
{
    um_slot_fn *fn = um_plain_read(slot->fn);

    fn(um_plain_read(slot->arg));
    /* seq_cst: the function's effects before IDLE, pairs with um_slot_look; step S1 of a park */
    um_atomic_store(&slot->state, UM_SLOT_IDLE, seq_cst);
}

/* Either side: reads the state, and sees what the other side wrote before it set the state. */
UM_INLINE uint32_t um_slot_look(const struct um_slot *slot)
{
    /* acquire: pairs with the stores of um_slot_post, um_slot_dismiss and um_slot_run */
    return um_atomic_load(&slot->state, acquire);
}

#endif
