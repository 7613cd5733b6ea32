/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The mutex's word: whether it is held, and by which rules the next caller gets it. Private.
 * Checked by tests/model/mutex.
 *
 *   bit            set where                                    by
 *   LOCKED, SOME   the list of waiters: wait/waiters.h
 *   HELD           a caller has it, or a call that has the      the taker
 *                  list gives it
 *   FIRM           a waiter in the list is not to be overtaken  the call that has the list
 *   CALLED         a waiter was called: it is out of the        the call that has the list; the
 *                  list, without the mutex, and spins           called waiter clears it
 *   PROMISED       only the called waiter takes it              unlock; cleared with CALLED
 *
 * Waiters are firm, or patient: those may be overtaken for a while. A newcomer takes a mutex that
 * is not HELD, unless a waiter is firm or was promised it.
 *
 *   the holder, in unlock                               the word, in one step
 *   no waiter, or LOCKED                                HELD is cleared
 *   only patient ones, and one is CALLED                HELD is cleared; if the called one has
 *                                                       waited too long, it is PROMISED
 *   a firm one, or none is called                       LOCKED: the holder has the list
 *
 * With the list, the oldest waiter leaves it: where one is firm, the oldest gets the mutex, HELD as
 * it is, when LOCKED is cleared. Else it is called, and the step that clears LOCKED clears HELD,
 * too: the called one competes with callers that come, so a mutex is not idle while a thread is on
 * its way to a processor. If it spins in vain it queues again, and clears CALLED, after some time as
 * a firm waiter.
 *
 * A waiter that lets go of the list and finds the mutex not HELD, nor promised, and a waiter that
 * could be given it or called, makes it HELD first, and gives it as a holder would.
 */
#ifndef UMBRA_SYNC_MUTEX_H
#define UMBRA_SYNC_MUTEX_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/wait/protocol.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_MUTEX_HELD UINT64_C(4)
#define UM_MUTEX_FIRM UINT64_C(8)
#define UM_MUTEX_CALLED UINT64_C(16)
#define UM_MUTEX_PROMISED UINT64_C(32)

/* True if a caller may take the mutex. called: it was called. */
UM_INLINE bool um_mutex_is_free(uint64_t word, bool called)
{
    if ((word & UM_MUTEX_PROMISED) != 0)
        return called && (word & UM_MUTEX_HELD) == 0;
    return (word & (UM_MUTEX_HELD | UM_MUTEX_FIRM)) == 0;
}

/* True if the mutex was free, without waiters, and is the caller's now. */
UM_INLINE bool um_mutex_try_word(um_atomic_u64 *word)
{
    uint64_t now = 0;

    /* acquire: what the last holder wrote; pairs with um_mutex_give() */
    return um_atomic_cas(word, &now, UM_MUTEX_HELD, acquire, relaxed);
}

/* A caller that is not in the list looks: true if the mutex is its own now. firm: if not, whether a
 * waiter is firm. */
UM_INLINE bool um_mutex_look(um_atomic_u64 *word, bool called, bool *firm)
{
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t ends = called ? UM_MUTEX_CALLED | UM_MUTEX_PROMISED : 0;

    while (um_mutex_is_free(now, called))
        /* acquire: as um_mutex_try_word() */
        if (um_atomic_cas(word, &now, (now & ~ends) | UM_MUTEX_HELD, acquire, relaxed))
            return true;
    *firm = (now & UM_MUTEX_FIRM) != 0;
    return false;
}

/* An unlock. overdue: the called waiter, if any, has waited too long. True if the caller, still the
 * holder, has the list now, and must hand the mutex over. */
UM_INLINE bool um_mutex_give(um_atomic_u64 *word, bool overdue)
{
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t next;
    bool promised, serves;

    do {
        promised = overdue && (now & UM_MUTEX_CALLED) != 0;
        serves = !promised && (now & UM_WAITERS_BITS) == UM_WAITERS_SOME &&
                 ((now & UM_MUTEX_FIRM) != 0 || (now & UM_MUTEX_CALLED) == 0);
        next = serves ? now | UM_WAITERS_LOCKED : now & ~UM_MUTEX_HELD;
        if (promised)
            next |= UM_MUTEX_PROMISED;
        /* release: what the holder wrote. acquire: as um_waiters_try() */
    } while (!um_atomic_cas(word, &now, next, acq_rel, relaxed));
    return serves;
}

/* The word's bits that tell of the list. */
UM_INLINE uint64_t um_mutex_list_bits(struct um_waiters *list)
{
    return (um_plain_read(list->first) ? UM_WAITERS_SOME : 0) |
           (um_plain_read(list->strict) > 0 ? UM_MUTEX_FIRM : 0);
}

/* Lets go of the list, which has waiters, and of the mutex: for a caller that holds both. Returns
 * the waiter that it signals. calls: it is called, if no waiter is firm and none is called. */
UM_INLINE struct um_waiter *um_mutex_hand_over(um_atomic_u64 *word, struct um_waiters *list,
                                               bool calls)
{
    struct um_waiters ended = {0, 0, 0};
    struct um_waiter *waiter = um_waiters_take(list, &ended);
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t clear = UM_WAITERS_BITS | UM_MUTEX_FIRM | (calls ? UM_MUTEX_HELD : 0);
    uint64_t set = um_mutex_list_bits(list) | (calls ? UM_MUTEX_CALLED : 0);

    um_plain_write(waiter->called, calls);
    /* release: what the holder wrote, and the list; pairs with the takers and um_waiters_try() */
    while (!um_atomic_cas(word, &now, (now & ~clear) | set, release, relaxed))
        continue;
    return waiter;
}

/* Lets go of the list, for a waiter. True if the caller has the list still, and the mutex, and must
 * hand both over. */
UM_INLINE bool um_mutex_let_go(um_atomic_u64 *word, struct um_waiters *list)
{
    uint64_t bits = um_mutex_list_bits(list);
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */
    uint64_t next;
    bool serves;

    do {
        serves = (bits & UM_WAITERS_SOME) != 0 &&
                 (now & (UM_MUTEX_HELD | UM_MUTEX_PROMISED)) == 0 &&
                 ((bits & UM_MUTEX_FIRM) != 0 || (now & UM_MUTEX_CALLED) == 0);
        next = serves ? now | UM_MUTEX_HELD : (now & ~(UM_WAITERS_BITS | UM_MUTEX_FIRM)) | bits;
        /* release: the list, as above. acquire: what the last holder wrote, for the waiter */
    } while (!um_atomic_cas(word, &now, next, acq_rel, relaxed));
    return serves;
}

#endif
