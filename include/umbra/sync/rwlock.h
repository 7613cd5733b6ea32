/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The read-write lock's word. Private. Checked by tests/model/rwlock.
 *
 *   bits    name      meaning
 *   0, 1              LOCKED and SOME, of the waiters (wait/waiters.h)
 *   2       WRITER    a writer holds it
 *   3-63    readers   a number
 *
 * A caller takes the lock if no waiter is in the list; so a writer that waits keeps new readers
 * out. Waiters have it in their order, and the readers between two writers have it together.
 */
#ifndef UMBRA_SYNC_RWLOCK_H
#define UMBRA_SYNC_RWLOCK_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/wait/protocol.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_RWLOCK_WRITER UINT64_C(4)
#define UM_RWLOCK_READER UINT64_C(8)

/* True if a reader, or a writer, may have the lock beside its holders. */
UM_INLINE bool um_rwlock_has_room(uint64_t word, bool writer)
{
    return (word & UM_RWLOCK_WRITER) == 0 && (!writer || word < UM_RWLOCK_READER);
}

/* True if the lock is the caller's. For a caller that is no waiter. */
UM_INLINE bool um_rwlock_take(um_atomic_u64 *word, bool writer)
{
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t share = writer ? UM_RWLOCK_WRITER : UM_RWLOCK_READER;

    while ((now & UM_WAITERS_SOME) == 0 && um_rwlock_has_room(now, writer))
        /* acquire: what the last holders wrote; pairs with um_rwlock_give() */
        if (um_atomic_cas(word, &now, now + share, acquire, relaxed))
            return true;
    return false;
}

enum um_rwlock_given { UM_RWLOCK_GIVEN, UM_RWLOCK_LET_GO, UM_RWLOCK_FREE };

/* G1. LET_GO: the caller has the list now, and must let go. FREE: the lock had no holder. */
UM_INLINE enum um_rwlock_given um_rwlock_give(um_atomic_u64 *word)
{
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t next;
    bool serves;

    do {
        if (now < UM_RWLOCK_WRITER)
            return UM_RWLOCK_FREE;
        next = now - (now & UM_RWLOCK_WRITER ? UM_RWLOCK_WRITER : UM_RWLOCK_READER);
        serves = next == UM_WAITERS_SOME;
        if (serves)
            next |= UM_WAITERS_LOCKED; /* no caller takes it: there are waiters */
        /* release: what the holder did. acquire: as um_waiters_try() */
    } while (!um_atomic_cas(word, &now, next, acq_rel, relaxed));
    return serves ? UM_RWLOCK_LET_GO : UM_RWLOCK_GIVEN;
}

/* Lets go of the list. Returns the first of the waiters that the caller signals, or NULL. While the
 * list is LOCKED and has SOME, holders only leave. */
UM_INLINE struct um_waiter *um_rwlock_let_go(um_atomic_u64 *word, struct um_waiters *list)
{
    struct um_waiters ended = {0, 0, 0};
    struct um_waiter *oldest;
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t given = 0, next;

    do {
        while ((oldest = um_plain_read(list->first)) &&
               um_rwlock_has_room(now + given, um_plain_read(oldest->strict))) {
            given += um_plain_read(oldest->strict) ? UM_RWLOCK_WRITER : UM_RWLOCK_READER;
            um_waiters_take(list, &ended);
        }
        next = ((now + given) & ~UM_WAITERS_BITS) | (oldest ? UM_WAITERS_SOME : 0);
        /* acquire: what the holders wrote, for the waiters. release: pairs with um_waiters_try() */
    } while (!um_atomic_cas(word, &now, next, acq_rel, relaxed));
    return um_plain_read(ended.first);
}

#endif
