/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The list of waiters of a mutex, semaphore, read-write lock, condition or port. Private. Checked
 * by tests/model/mutex, semaphore, rwlock and port.
 *
 * A waiter is in the memory of its call. A call that has the list takes waiters out of it and
 * chains them; when it has let go of the list it signals the bell of each (um_waiters_signal()).
 * The list of a condition or port is under a lock (wait/lock.h). What follows is about the other
 * objects, and how a call gives one up for good.
 *
 * An object has one word and a list. Two bits of the word are the list's:
 *
 *   LOCKED   a call has the list: it alone touches the list and the links of its waiters
 *   SOME     waiters are in the list, or one is about to be
 *
 * The other bits say what the object has to give. A waiter's bell is an event of its own, in the
 * frame of its call.
 *
 *   the waiter                                   the giver, in one step:
 *   W1  LOCKED and SOME                          G1  the resource is free, if the list is empty or
 *   W2  adds itself to the list                      LOCKED; else LOCKED
 *   W3  lets go (below)                          G2  in the latter case: lets go
 *   W4  waits for its own event
 *
 * To let go is to take the waiters out of the list for which the word has the resource, to change
 * the word by one compare-and-swap, which takes their shares, and clears LOCKED, and to signal the
 * waiters' own events after that. If the word has changed meanwhile, since a giver found LOCKED,
 * more waiters may come out. So a giver never waits: the call that has the list gives in its place.
 * Only waiters wait for LOCKED, for some instructions, and they are never signal handlers.
 *
 * No wake-up is lost: resource and list are in one word. The step that clears LOCKED leaves no
 * waiter in the list that could have its share.
 *
 * The last user may free the object. A giver's last step on it either makes the resource free, or
 * clears LOCKED. Before that step no caller can have what it gives: a newcomer finds the resource
 * taken, or waiters before it; and a waiter that was taken out is in its call until its event is
 * signaled, which comes after. A waiter's own event is in its frame, and a signal does not touch an
 * event after it has released the waiter (event/protocol.h).
 *
 * A waiter that gives up takes the list, and itself out of it, and lets go. If it is not in the
 * list any more it was given its share: then it waits for its signal, which is on its way.
 */
#ifndef UMBRA_WAIT_WAITERS_H
#define UMBRA_WAIT_WAITERS_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_WAITERS_LOCKED UINT64_C(1)
#define UM_WAITERS_SOME UINT64_C(2)
#define UM_WAITERS_BITS (UM_WAITERS_LOCKED | UM_WAITERS_SOME)

struct umbra_event;

/* A waiter. All fields: the waiter before it adds itself; then the call that has the list. */
struct um_waiter {
    um_plain(struct um_waiter *) next; /* in the list; then of those that were taken out together */
    um_plain(struct um_waiter *) prev; /* in the list */
    struct umbra_event
        *bell; /* signaled when the wait has ended; fixed. A port's source has none */
    um_plain(bool) listed;
    um_plain(bool) strict; /* of a mutex: firm; of a read-write lock: a writer */
    um_plain(bool) called; /* of a mutex: out of the list without it, to compete */
};

/* The list, oldest first, or waiters that were taken out. All zero: empty. */
struct um_waiters {
    um_plain(struct um_waiter *) first;
    um_plain(struct um_waiter *) last;
    um_plain(uint64_t) strict; /* waiters of the list that are strict */
};

/* True if the caller has the list now. It changes the word's bits `clear` and `set` in that step.
 * */
UM_INLINE bool um_waiters_try(um_atomic_u64 *word, uint64_t clear, uint64_t set)
{
    uint64_t now = um_atomic_load(word, relaxed); /* only compared */

    while ((now & UM_WAITERS_LOCKED) == 0)
        /* acquire: the list as the last call left it; pairs with the step that clears LOCKED */
        if (um_atomic_cas(word, &now, (now & ~clear) | set | UM_WAITERS_LOCKED, acquire, relaxed))
            return true;
    return false;
}

/* Adds waiters, at least one, that were added to `more`, in their order. For a call that has the
 * list, as the next ones. */
UM_INLINE void um_waiters_append(struct um_waiters *list, const struct um_waiters *more)
{
    struct um_waiter *first = um_plain_read(more->first);
    struct um_waiter *last = um_plain_read(list->last);

    um_plain_write(first->prev, last);
    if (last)
        um_plain_write(last->next, first);
    else
        um_plain_write(list->first, first);
    um_plain_write(list->last, um_plain_read(more->last));
    um_plain_write(list->strict, um_plain_read(list->strict) + um_plain_read(more->strict));
}

/* Adds a waiter at the end. */
UM_INLINE void um_waiters_add(struct um_waiters *list, struct um_waiter *waiter)
{
    struct um_waiters one = {waiter, waiter, um_plain_read(waiter->strict)};

    um_plain_write(waiter->next, (struct um_waiter *)0);
    um_plain_write(waiter->listed, true);
    um_waiters_append(list, &one);
}

UM_INLINE void um_waiters_remove(struct um_waiters *list, struct um_waiter *waiter)
{
    struct um_waiter *next = um_plain_read(waiter->next);
    struct um_waiter *prev = um_plain_read(waiter->prev);

    um_plain_write(waiter->listed, false);
    if (next)
        um_plain_write(next->prev, prev);
    else
        um_plain_write(list->last, prev);
    if (prev)
        um_plain_write(prev->next, next);
    else
        um_plain_write(list->first, next);
    um_plain_write(list->strict, um_plain_read(list->strict) - um_plain_read(waiter->strict));
}

/* The wait of a waiter that is in no list has ended: it is one of those that the caller signals. */
UM_INLINE void um_waiters_end(struct um_waiters *ended, struct um_waiter *waiter)
{
    um_plain_write(waiter->next, (struct um_waiter *)0);
    if (um_plain_read(ended->first))
        um_plain_write(um_plain_read(ended->last)->next, waiter);
    else
        um_plain_write(ended->first, waiter);
    um_plain_write(ended->last, waiter);
}

/* Takes the oldest waiter out of the list, to be signaled. */
UM_INLINE struct um_waiter *um_waiters_take(struct um_waiters *list, struct um_waiters *ended)
{
    struct um_waiter *waiter = um_plain_read(list->first);

    um_waiters_remove(list, waiter);
    um_waiters_end(ended, waiter);
    return waiter;
}

#endif
