/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The mutex's two words: which caller holds it, and how many callers have announced that they queue.
 * Private. Checked by tests/model/mutex.
 *
 *   owner    FREE      any caller takes it
 *            KEPT      only an announced waiter takes it; any caller, if there is none
 *            else      the identity of its holder, a fiber or thread
 *
 *   the waiter, after it spun                    the holder, in unlock
 *   W1  waiters + 1                  seq_cst     G1  owner = KEPT, or FREE if it sees no waiter
 *   W2  join the event; its holder               G2  look at waiters              seq_cst
 *       tries to take owner for it   seq_cst     G3  if any: signal the event
 *   W3  at the end: waiters - 1      seq_cst
 *
 * No wake-up is lost: if W2 finds the mutex held, then W2 comes before G1 in the order of all
 * seq_cst operations, hence W1 before G2, and the holder signals. W2 takes KEPT as well as FREE, so
 * the choice in G1 needs no order: it decides only which callers may take the mutex before the
 * signal has offered it to the queue. From the first unlock that sees a waiter on, all unlocks see
 * it until its wait ends, since each happens after the one before. So a waiter that has queued is no
 * longer overtaken by callers that come and take. Two may still be first: one that queues between G1
 * and G3, and one that stands still between its look, when no waiter was there, and its step, until
 * KEPT is there again for this waiter (each such caller once).
 *
 * KEPT without a waiter: all have given up. The next caller takes it, since it looks at waiters.
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

/* True if `owner` was `from` and is the caller's now. For a caller without W1. */
UM_INLINE bool um_mutex_take_from(um_atomic_uptr *owner, uintptr_t from, uintptr_t self)
{
    /* acquire: what the last holder wrote; pairs with G1 */
    return um_atomic_cas(owner, &from, self, acquire, relaxed);
}

/* A caller that has not announced itself looks at a mutex that it did not get at once. */
UM_INLINE bool um_mutex_look(um_atomic_uptr *owner, um_atomic_u32 *waiters, uintptr_t self)
{
    /* acquire: where KEPT is seen, so is the waiter that G1 saw; pairs with G1 */
    uintptr_t now = um_atomic_load(owner, acquire);

    if (now == UM_MUTEX_FREE)
        return um_mutex_take_from(owner, now, self);
    /* relaxed: a new waiter that this misses tries, too, and one of them gets it */
    if (now == UM_MUTEX_KEPT && um_atomic_load(waiters, relaxed) == 0)
        return um_mutex_take_from(owner, now, self);
    return false;
}

/* W1, W3. */
UM_INLINE void um_mutex_announce_change(um_atomic_u32 *waiters, uint32_t change)
{
    um_atomic_fetch_add(waiters, change, seq_cst); /* against G2 */
}

/* W2, and each later offer, for a waiter that has announced itself. */
UM_INLINE bool um_mutex_take_announced(um_atomic_uptr *owner, uintptr_t self)
{
    uintptr_t now = um_atomic_load(owner, seq_cst); /* W2, against G1 */

    while (now == UM_MUTEX_FREE || now == UM_MUTEX_KEPT)
        /* acquires what the last holder wrote; failed: W2 again */
        if (um_atomic_cas(owner, &now, self, seq_cst, seq_cst))
            return true;
    return false;
}

/* G1 and G2, for the holder. True if it must signal the event (G3). */
UM_INLINE bool um_mutex_give(um_atomic_uptr *owner, um_atomic_u32 *waiters)
{
    /* relaxed: see above */
    bool keep = um_atomic_load(waiters, relaxed) > 0;

    /* G1: releases what the holder wrote */
    um_atomic_store(owner, keep ? UM_MUTEX_KEPT : UM_MUTEX_FREE, seq_cst);
    return um_atomic_load(waiters, seq_cst) > 0; /* G2, against W1 */
}

#endif
