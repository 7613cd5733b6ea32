/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The mutex's two words: which caller holds it, and how many callers have announced that they
 * queue. Private. Checked by tests/model/mutex.
 *
 *   owner    FREE      any caller takes it
 *            KEPT      only an announced waiter takes it; any caller, if there is no firm one
 *            PROMISED  only the called waiter takes it
 *            else      the identity of its holder, a fiber or thread
 *   waiters  firm      waiters that are not overtaken, a number
 *            patient   waiters that may be overtaken for a while, a number
 *            CALLED    one patient waiter was called: it is out of the queue, and spins
 *
 *   the waiter, after it spun                    the holder, in unlock
 *   W1  waiters + 1                  seq_cst     G1  owner = KEPT, or FREE if it sees no firm waiter;
 *   W2  join the event; its holder                   PROMISED if the called one has waited too long
 *       looks at owner for it        seq_cst     G2  look at waiters              seq_cst
 *   W3  at the end: waiters - 1      seq_cst     G3  if any, and none is called or one is firm:
 *                                                    signal the event
 *
 * At W2, and at each later signal, a firm waiter takes a mutex that is FREE or KEPT, a patient one
 * only one that is KEPT. For a patient waiter that finds it FREE the event's holder sets CALLED, if
 * it is not set, and wakes it: it then competes with callers that come. So a mutex is not idle
 * while a thread is on its way to a processor. If the called waiter spins in vain, it clears CALLED
 * and goes back to W1, after some time as a firm waiter. After that time one that is refused
 * becomes firm in the queue: else it could stay there as long as others take the mutex between G1
 * and the offer.
 *
 * No wake-up is lost: if W2 finds the mutex held, then W2 comes before G1 in the order of all
 * seq_cst operations, hence W1 before G2, and the holder signals, or a waiter is called. A called
 * waiter that takes the mutex unlocks it, and signals; another one clears CALLED before its next
 * W2, and the same holds for all that queue. The choice in G1 needs no order for that, except
 * PROMISED: the called waiter may clear CALLED meanwhile. The holder looks at CALLED after G1, and
 * that waiter at owner after CALLED, all seq_cst: one of them sees the other, makes it KEPT, and
 * signals or joins.
 *
 * From the first unlock that sees a firm waiter on, all unlocks see it until its wait ends, since
 * each happens after the one before. So a firm waiter that has queued is no longer overtaken by
 * callers that come and take. Three may still be first: the called waiter, one that queues between
 * G1 and G3, and one that stands still between its look, when no firm waiter was there, and its
 * step, until KEPT is there again for this waiter (each such caller once).
 *
 * KEPT without a firm waiter: all have given up. The next caller takes it, since it looks at
 * waiters.
 */
#ifndef UMBRA_PROTOCOL_MUTEX_H
#define UMBRA_PROTOCOL_MUTEX_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_MUTEX_FREE ((uintptr_t)0)
#define UM_MUTEX_KEPT ((uintptr_t)2) /* no identity: a thread's is odd, a fiber's an address */
#define UM_MUTEX_PROMISED ((uintptr_t)4)

#define UM_MUTEX_FIRM UINT64_C(1)
#define UM_MUTEX_PATIENT (UINT64_C(1) << 32)
#define UM_MUTEX_CALLED (UINT64_C(1) << 63)

UM_INLINE bool um_mutex_has_firm(uint64_t waiters)
{
    return (waiters & (UM_MUTEX_PATIENT - 1)) > 0;
}

UM_INLINE bool um_mutex_has_called(uint64_t waiters)
{
    return waiters >= UM_MUTEX_CALLED;
}

/* True if `owner` was `from` and is the caller's now. For a caller without W1. */
UM_INLINE bool um_mutex_take_from(um_atomic_uptr *owner, uintptr_t from, uintptr_t self)
{
    /* acquire: what the last holder wrote; pairs with G1 */
    return um_atomic_cas(owner, &from, self, acquire, relaxed);
}

/* A caller that is in no queue looks at a mutex that it did not get at once. called: it was called. */
UM_INLINE bool um_mutex_look(um_atomic_uptr *owner, um_atomic_u64 *waiters, uintptr_t self,
                             bool called)
{
    /* acquire: where KEPT is seen, so is the waiter that G1 saw; pairs with G1 */
    uintptr_t now = um_atomic_load(owner, acquire);

    if (now == UM_MUTEX_FREE || (now == UM_MUTEX_PROMISED && called))
        return um_mutex_take_from(owner, now, self);
    /* relaxed: a new waiter that this misses tries, too, and one of them gets it */
    if (now == UM_MUTEX_KEPT && !um_mutex_has_firm(um_atomic_load(waiters, relaxed)))
        return um_mutex_take_from(owner, now, self);
    return false;
}

/* W1, W3, and the change of a called waiter that queues again. */
UM_INLINE void um_mutex_announce_change(um_atomic_u64 *waiters, uint64_t change)
{
    um_atomic_fetch_add(waiters, change, seq_cst); /* against G2 */
}

/* After a called waiter has cleared CALLED and is not the holder: before its W2, or its end. */
UM_INLINE void um_mutex_release_promise(um_atomic_uptr *owner)
{
    uintptr_t promised = UM_MUTEX_PROMISED;

    /* seq_cst: against G1 of a holder that saw CALLED. It hands on what the last holder wrote */
    um_atomic_cas(owner, &promised, UM_MUTEX_KEPT, seq_cst, seq_cst);
}

/* W2, and each later offer, for a firm waiter. */
UM_INLINE bool um_mutex_take_announced(um_atomic_uptr *owner, uintptr_t self)
{
    uintptr_t now = um_atomic_load(owner, seq_cst); /* W2, against G1 */

    while (now == UM_MUTEX_FREE || now == UM_MUTEX_KEPT)
        /* acquires what the last holder wrote; failed: W2 again */
        if (um_atomic_cas(owner, &now, self, seq_cst, seq_cst))
            return true;
    return false;
}

enum um_mutex_offer { UM_MUTEX_REFUSED, UM_MUTEX_TAKEN, UM_MUTEX_CALLS };

/* The same for a patient waiter: it has the mutex, or is called, or stays in the queue. */
UM_INLINE enum um_mutex_offer um_mutex_offer_patient(um_atomic_uptr *owner, um_atomic_u64 *waiters,
                                                     uintptr_t self)
{
    uintptr_t now = um_atomic_load(owner, seq_cst); /* W2, against G1 */

    while (now == UM_MUTEX_KEPT)
        /* acquires what the last holder wrote; failed: W2 again */
        if (um_atomic_cas(owner, &now, self, seq_cst, seq_cst))
            return UM_MUTEX_TAKEN;
    if (now != UM_MUTEX_FREE)
        return UM_MUTEX_REFUSED;
    /* relaxed: a holder that misses it signals once too often */
    if (um_mutex_has_called(um_atomic_fetch_or(waiters, UM_MUTEX_CALLED, relaxed)))
        return UM_MUTEX_REFUSED;
    return UM_MUTEX_CALLS;
}

/* A patient waiter that was refused becomes a firm one, in the queue: W1 and W2 of that. */
UM_INLINE bool um_mutex_take_as_firm(um_atomic_uptr *owner, um_atomic_u64 *waiters, uintptr_t self)
{
    um_mutex_announce_change(waiters, UM_MUTEX_FIRM - UM_MUTEX_PATIENT);
    return um_mutex_take_announced(owner, self);
}

/* G1 and G2, for the holder. overdue: the called waiter, if any, has waited too long. True if the
 * holder must signal the event (G3). */
UM_INLINE bool um_mutex_give(um_atomic_uptr *owner, um_atomic_u64 *waiters, bool overdue)
{
    uint64_t now = um_atomic_load(waiters, relaxed); /* relaxed: see above */
    uintptr_t next = um_mutex_has_firm(now) ? UM_MUTEX_KEPT : UM_MUTEX_FREE;

    if (overdue && um_mutex_has_called(now))
        next = UM_MUTEX_PROMISED;
    um_atomic_store(owner, next, seq_cst);  /* G1: releases what the holder wrote */
    now = um_atomic_load(waiters, seq_cst); /* G2, against W1 and the end of CALLED */
    if (next == UM_MUTEX_PROMISED) {
        if (um_mutex_has_called(now))
            return false;
        um_mutex_release_promise(owner);
        now = um_atomic_load(waiters, seq_cst); /* G2 again, since the owner has changed */
    }
    return now > 0 && (um_mutex_has_firm(now) || !um_mutex_has_called(now));
}

#endif
