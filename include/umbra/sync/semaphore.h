/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The semaphore's word. Private. Checked by tests/model/semaphore.
 *
 *   bits    meaning
 *   0, 1    LOCKED and SOME, of the waiters (wait/waiters.h)
 *   2-63    the count
 *
 * A caller takes one if the count is not 0 and no waiter is in the list. What is posted while there
 * are some is theirs first. Signal handlers post, too: a post that finds LOCKED, perhaps of the
 * very call that it interrupts, only adds.
 */
#ifndef UMBRA_SYNC_SEMAPHORE_H
#define UMBRA_SYNC_SEMAPHORE_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/wait/protocol.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_SEMAPHORE_ONE UINT64_C(4)

/* True if the caller has one. For a caller that is no waiter. */
UM_INLINE bool um_semaphore_take(um_atomic_u64 *word)
{
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */

    while (now >= UM_SEMAPHORE_ONE && (now & UM_WAITERS_SOME) == 0)
        /* acquire: what the poster wrote; pairs with um_semaphore_add() */
        if (um_atomic_cas(word, &now, now - UM_SEMAPHORE_ONE, acquire, relaxed))
            return true;
    return false;
}

/* G1. True if the caller has the list now, and must let go. */
UM_INLINE bool um_semaphore_add(um_atomic_u64 *word, uint64_t more)
{
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t list;

    do /* release: what the poster wrote. acquire: as um_waiters_try() */
        list = (now & UM_WAITERS_BITS) == UM_WAITERS_SOME ? UM_WAITERS_LOCKED : 0;
    while (!um_atomic_cas(word, &now, (now + more * UM_SEMAPHORE_ONE) | list, acq_rel, relaxed));
    return list != 0;
}

/* Lets go of the list. Returns the first of the waiters that the caller signals, or NULL. While the
 * list is LOCKED and has SOME, the count only grows. */
UM_INLINE struct um_waiter *um_semaphore_let_go(um_atomic_u64 *word, struct um_waiters *list)
{
    struct um_waiters ended = {0, 0, 0};
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t given = 0, next;

    do {
        while (um_plain_read(list->first) && now - given >= UM_SEMAPHORE_ONE) {
            um_waiters_take(list, &ended);
            given += UM_SEMAPHORE_ONE;
        }
        next =
            ((now - given) & ~UM_WAITERS_BITS) | (um_plain_read(list->first) ? UM_WAITERS_SOME : 0);
        /* acquire: what the posters wrote, for the waiters. release: pairs with um_waiters_try() */
    } while (!um_atomic_cas(word, &now, next, acq_rel, relaxed));
    return um_plain_read(ended.first);
}

#endif
