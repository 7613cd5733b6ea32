/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The read-write lock's word. Private. Checked by tests/model/rwlock.
 *
 *   bits    name      meaning
 *   0, 1              LOCKED and SOME, of the waiters (wait/waiters.h)
 *   2       WRITER    a writer holds it
 *   3-32    left      readers that have left
 *   33      LAST      the list is taken, as with LOCKED, by the last reader that left
 *   34-63   came      readers that have come
 *
 * The lock is closed while it has SOME or WRITER, else open: a caller takes an open one. So a writer
 * that waits keeps new readers out. Waiters have it in their order, and the readers between two
 * writers have it together: the call that lets go of the list gives it to all of them in one step.
 *
 * A reader comes by one step, which adds to `came`, and leaves by one, which adds to `left`.
 *
 *   open      came - left readers hold it
 *   closed    -left readers hold it, modulo 2^30; `came` have come in vain
 *
 * The step that closes the lock sets both numbers so. Readers that come in vain do not change
 * `left`: of those that held it, the last one carries into LAST as it leaves, whatever others do in
 * between. That one has the list then, by the step by which it leaves, if no call has it LOCKED.
 *
 * A reader that finds the lock closed takes its share of `came` back, and waits. If the lock has
 * been opened meanwhile, the reader holds it: the step that opens the lock makes all that came in
 * vain its holders. It does not matter if the lock is closed again by then, nor which of them takes
 * back: those that have not looked again are as many as `came` says and as were made holders. So
 * one that finds nothing to take back is a holder.
 *
 * A reader that comes and finds that very many have come sets both numbers back.
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
#define UM_RWLOCK_CLOSED (UM_WAITERS_SOME | UM_RWLOCK_WRITER)
#define UM_RWLOCK_LEFT UINT64_C(8)
#define UM_RWLOCK_LAST (UINT64_C(1) << 33)
#define UM_RWLOCK_CAME (UINT64_C(1) << 34)
#define UM_RWLOCK_MANY (UINT64_C(1) << 63) /* 2^29 have come */
#define UM_RWLOCK_NUMBER UINT64_C(0x3fffffff)

/* The readers that hold the lock; for a word without WRITER. */
UM_INLINE uint64_t um_rwlock_readers(uint64_t word)
{
    uint64_t came = word & UM_RWLOCK_CLOSED ? 0 : word / UM_RWLOCK_CAME;

    return (came - word / UM_RWLOCK_LEFT) & UM_RWLOCK_NUMBER;
}

/* What follows `now`: with the first three bits as in `bits`, and so many readers that hold it. */
UM_INLINE uint64_t um_rwlock_next(uint64_t now, uint64_t bits, uint64_t readers)
{
    uint64_t in_vain = now & UM_RWLOCK_CLOSED ? now / UM_RWLOCK_CAME : 0;

    if ((bits & UM_RWLOCK_CLOSED) == 0)
        return bits + (readers + in_vain) * UM_RWLOCK_CAME;
    return bits + ((0 - readers) & UM_RWLOCK_NUMBER) * UM_RWLOCK_LEFT + in_vain * UM_RWLOCK_CAME;
}

/* A reader comes. True: it holds the lock. Else um_rwlock_let_in() follows. */
UM_INLINE bool um_rwlock_come(um_atomic_u64 *word)
{
    /* acquire: what the last writer wrote; pairs with um_rwlock_end_write() and um_rwlock_let_go() */
    uint64_t before = um_atomic_fetch_add(word, UM_RWLOCK_CAME, acquire);

    return (before & (UM_RWLOCK_CLOSED | UM_RWLOCK_MANY)) == 0;
}

/* True: the reader holds the lock. Else it has come in vain, and is no longer counted. */
UM_INLINE bool um_rwlock_let_in(um_atomic_u64 *word)
{
    uint64_t now = um_atomic_load(word, acquire); /* acquire, all: as in um_rwlock_come() */
    uint64_t next;
    bool closed;

    do {
        closed = (now & UM_RWLOCK_CLOSED) != 0;
        if (closed ? now < UM_RWLOCK_CAME : now < UM_RWLOCK_MANY)
            return true;
        next = closed ? now - UM_RWLOCK_CAME
                      : um_rwlock_next(now, now & UM_WAITERS_LOCKED, um_rwlock_readers(now));
    } while (!um_atomic_cas(word, &now, next, acquire, acquire));
    return !closed;
}

/* True if the lock is the caller's. For a caller that is no waiter, and is not counted. */
UM_INLINE bool um_rwlock_take(um_atomic_u64 *word, bool writer)
{
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */

    if (!writer)
        return (now & UM_RWLOCK_CLOSED) == 0 && (um_rwlock_come(word) || um_rwlock_let_in(word));
    while ((now & UM_RWLOCK_CLOSED) == 0 && um_rwlock_readers(now) == 0)
        /* acquire: what the last holders wrote; pairs with um_rwlock_give() */
        if (um_atomic_cas(word, &now, (now & UM_WAITERS_LOCKED) | UM_RWLOCK_WRITER, acquire,
                          relaxed))
            return true;
    return false;
}

/* As um_waiters_try(). set: SOME, which closes the lock, or 0. */
UM_INLINE bool um_rwlock_try_list(um_atomic_u64 *word, uint64_t clear, uint64_t set)
{
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t bits;

    (void)clear;
    while ((now & (UM_WAITERS_LOCKED | UM_RWLOCK_LAST)) == 0) {
        bits = (now & UM_RWLOCK_CLOSED) | set | UM_WAITERS_LOCKED;
        /* acquire: the list as the last call left it; pairs with um_rwlock_let_go() */
        if (um_atomic_cas(word, &now, um_rwlock_next(now, bits, um_rwlock_readers(now)), acquire,
                          relaxed))
            return true;
    }
    return false;
}

enum um_rwlock_given { UM_RWLOCK_GIVEN, UM_RWLOCK_LET_GO, UM_RWLOCK_FREE };

/* The rest of um_rwlock_give() for a writer, which holds the lock until now. */
UM_INLINE enum um_rwlock_given um_rwlock_end_write(um_atomic_u64 *word)
{
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t bits;

    do {
        bits = now & UM_WAITERS_BITS;
        if (bits == UM_WAITERS_SOME)
            bits = UM_WAITERS_SOME | UM_WAITERS_LOCKED;
        /* acquire: as um_waiters_try(). What the writer did is released by the step before */
    } while (!um_atomic_cas(word, &now, um_rwlock_next(now, bits, 0), acquire, relaxed));
    return (now & UM_WAITERS_BITS) == UM_WAITERS_SOME ? UM_RWLOCK_LET_GO : UM_RWLOCK_GIVEN;
}

/* G1. LET_GO: the caller has the list now, and must let go. FREE: the lock had no holder. The step
 * is that of a reader. */
UM_INLINE enum um_rwlock_given um_rwlock_give(um_atomic_u64 *word)
{
    /* release: what the holder did. acquire: as um_waiters_try() */
    uint64_t before = um_atomic_fetch_add(word, UM_RWLOCK_LEFT, acq_rel);
    uint64_t readers = um_rwlock_readers(before);

    if (before & UM_RWLOCK_WRITER)
        return um_rwlock_end_write(word);
    if (readers == 0) { /* relaxed: the caller held nothing */
        um_atomic_fetch_add(word, 0 - UM_RWLOCK_LEFT, relaxed);
        return UM_RWLOCK_FREE;
    }
    return readers == 1 && (before & UM_WAITERS_BITS) == UM_WAITERS_SOME ? UM_RWLOCK_LET_GO
                                                                         : UM_RWLOCK_GIVEN;
}

/* Lets go of the list. Returns the first of the waiters that the caller signals, or NULL. While the
 * list has waiters the lock is closed: holders only leave. */
UM_INLINE struct um_waiter *um_rwlock_let_go(um_atomic_u64 *word, struct um_waiters *list)
{
    struct um_waiters ended = {0, 0, 0};
    struct um_waiter *oldest;
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t given = 0, writer = 0, readers, next;

    do {
        readers = um_rwlock_readers(now) + given;
        while ((oldest = um_plain_read(list->first)) && ((now | writer) & UM_RWLOCK_WRITER) == 0 &&
               (readers == 0 || !um_plain_read(oldest->strict))) {
            if (um_plain_read(oldest->strict))
                writer = UM_RWLOCK_WRITER;
            else
                given++, readers++;
            um_waiters_take(list, &ended);
        }
        next = um_rwlock_next(
            now, (now & UM_RWLOCK_WRITER) | writer | (oldest ? UM_WAITERS_SOME : 0), readers);
        /* acquire: what the holders wrote, for the waiters. release: pairs with um_waiters_try() */
    } while (!um_atomic_cas(word, &now, next, acq_rel, relaxed));
    return um_plain_read(ended.first);
}

#endif
