/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Mutex, condition variable, semaphore, read-write lock, barrier, latch and once, for fibers and
 * plain threads together. Who has to wait waits for an event (umbra/event.h): a fiber lets its core
 * run others, a thread spins and then sleeps.
 *
 * All of them work alike. A word says who has what. The fast path changes the word by one
 * compare-and-swap and touches nothing else. Who cannot have it now announces itself in the word's
 * count of waiters and waits for the object's event with a function that tries to take it:
 *
 *   who waits                                    who gives
 *   W1  waiters + 1                 seq_cst      G1  the resource is free       seq_cst
 *   W2  join the event, whose holder tries to    G2  look at waiters            seq_cst
 *       take the resource for it                 G3  if any: signal the event
 *
 * No wake-up is lost: if W2 finds the resource taken, then W2 comes before G1 in the order of all
 * seq_cst operations, hence W1 before G2, and the giver signals. The signal offers the resource to
 * the waiters in their order (protocol/event.h), each trying once, until one takes it: then
 * it is that waiter's before the waiter runs. A signal that nobody takes stays, and asks the next
 * one to join once more, which does no harm.
 *
 * Newcomers may take what is free past those who wait ("barging"); an unlock that releases a waiter
 * has given the resource away by then, so nobody waits for ever while others come and go.
 *
 * Objects are in the caller's memory, all zero is a good initial state where the initializer says
 * so, and none owns anything: there is nothing to destroy. An object must outlive the call that
 * gives it up, not only the one that it wakes; so who frees a mutex joins its last user first. Any
 * memory will do, malloc's too. Where several cores use an object, it is faster if it begins a cache
 * line, as an event is (umbra/event.h); all but conditions end one, too, so that neighbours in an array
 * are apart.
 */
#ifndef UMBRA_SYNC_H
#define UMBRA_SYNC_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/event.h>
#include <umbra/protocol/event.h>
#include <umbra/protocol/lock.h>

/*
 * Who may call: a fiber, or any other thread; no signal handler, but umbra_semaphore_post_async.
 *
 * Errors of the calls that wait, all of them: -ETIMEDOUT (the deadline, a time stamp made by
 * umbra_deadline(ns), passed first), -EPERM (on an alternate signal stack), -ENOMEM (a thread's
 * first wait, or one with a deadline), and the others of a thread's first wait (umbra_event_wait).
 * What waits may switch fibers, or block a thread. What does not, does neither. Deadlines are
 * UMBRA_NEVER for none.
 */

/* ---- mutex ---- */

struct umbra_mutex {
    struct umbra_event event;
    um_atomic_uptr owner;  /* the fiber or thread that holds it: um_fiber_self(); 0: none */
    um_atomic_u32 waiters; /* who waits for it, or is about to */
    unsigned char apart[UM_LINE_REST(12)];
};

#define UMBRA_MUTEX_INIT                                                                           \
    {                                                                                              \
        .event = UMBRA_EVENT_INIT                                                                  \
    }

/* As the macro, which is for initializers; no caller may use it meanwhile. Neither switches nor blocks, as
 * those of the other types. */
UM_INLINE void umbra_mutex_init(struct umbra_mutex *mutex);

/* Locks, for the calling fiber, or thread. -EDEADLK: the caller holds it already. A fiber that ends
 * holding it leaves it locked for ever, for which see UMBRA_ASSERT (base/base.h). */
UM_ALWAYS_INLINE int umbra_mutex_lock(struct umbra_mutex *mutex);
UM_ALWAYS_INLINE int umbra_mutex_lock_deadline(struct umbra_mutex *mutex, uint64_t deadline);

/* Locks if it is free: whether it was. */
UM_INLINE bool umbra_mutex_try(struct umbra_mutex *mutex);

/* Unlocks. -EPERM: the caller does not hold it. */
UM_INLINE int umbra_mutex_unlock(struct umbra_mutex *mutex);

/* ---- condition variable ---- */

struct umbra_condition {
    struct um_lock list; /* guards the rest, for a few instructions at a time */
    struct um_condition_waiter *first, *last;
    uint64_t round; /* how often all have been notified */
};

#define UMBRA_CONDITION_INIT                                                                       \
    {                                                                                              \
        .first = NULL                                                                              \
    }

UM_INLINE void umbra_condition_init(struct umbra_condition *condition);

/*
 * Unlocks the mutex, waits to be notified, and locks it again, also after an error. It does not
 * return 0 without having been notified, but another may have come first and undone what it was
 * notified of: so check in a loop. With the mutex as it was, nothing waited for, -EPERM (the caller
 * does not hold it, or is on an alternate signal stack) or an error of a thread's first wait. After
 * -ENOMEM with a deadline it may also have been unlocked and locked again.
 */
UM_LINKONCE int umbra_condition_wait(struct umbra_condition *condition, struct umbra_mutex *mutex);
UM_LINKONCE int umbra_condition_wait_deadline(struct umbra_condition *condition,
                                              struct umbra_mutex *mutex, uint64_t deadline);

/* Ends the wait of the one that has waited longest, or of all that wait now. Anybody. */
UM_LINKONCE void umbra_condition_notify(struct umbra_condition *condition);
UM_LINKONCE void umbra_condition_notify_all(struct umbra_condition *condition);

/* ---- counting semaphore ---- */

struct umbra_semaphore {
    struct umbra_event event;
    um_atomic_u64 count;
    um_atomic_u32 waiters;
    unsigned char apart[UM_LINE_REST(12)];
};

#define UMBRA_SEMAPHORE_INIT(initial)                                                              \
    {                                                                                              \
        .event = UMBRA_EVENT_INIT, .count = (initial)                                              \
    }

UM_INLINE void umbra_semaphore_init(struct umbra_semaphore *semaphore, uint64_t initial);

/*
 * Takes one, waiting until there is one; takes one if there is one; adds some, the last also in a
 * signal handler: it is a umbra_event_signal_async for each waiter that it lets go on, with its limit
 * of 65,535. There must be fewer than 2^64 at any time.
 */
UM_ALWAYS_INLINE int umbra_semaphore_wait(struct umbra_semaphore *semaphore);
UM_ALWAYS_INLINE int umbra_semaphore_wait_deadline(struct umbra_semaphore *semaphore,
                                                   uint64_t deadline);
UM_INLINE bool umbra_semaphore_try(struct umbra_semaphore *semaphore);
UM_INLINE void umbra_semaphore_post(struct umbra_semaphore *semaphore, uint64_t more);
UM_INLINE void umbra_semaphore_post_async(struct umbra_semaphore *semaphore, uint64_t more);

/* ---- read-write lock ---- */

/* Many readers or one writer. A writer that waits keeps new readers out. */
struct umbra_rwlock {
    struct umbra_event event;
    um_atomic_u64 state;   /* readers, or UM_RWLOCK_WRITER; and writers that wait, times 2^32 */
    um_atomic_u32 waiters; /* both kinds */
    unsigned char apart[UM_LINE_REST(12)];
};

#define UMBRA_RWLOCK_INIT                                                                          \
    {                                                                                              \
        .event = UMBRA_EVENT_INIT                                                                  \
    }

UM_INLINE void umbra_rwlock_init(struct umbra_rwlock *lock);

/* For reading. Who reads already must not ask again: a writer that waits would keep him out. */
UM_ALWAYS_INLINE int umbra_rwlock_read(struct umbra_rwlock *lock);
UM_ALWAYS_INLINE int umbra_rwlock_read_deadline(struct umbra_rwlock *lock, uint64_t deadline);
UM_INLINE bool umbra_rwlock_try_read(struct umbra_rwlock *lock);

/* For writing. Who has the lock, either way, must not ask: he would wait for himself. */
UM_ALWAYS_INLINE int umbra_rwlock_write(struct umbra_rwlock *lock);
UM_ALWAYS_INLINE int umbra_rwlock_write_deadline(struct umbra_rwlock *lock, uint64_t deadline);
UM_INLINE bool umbra_rwlock_try_write(struct umbra_rwlock *lock);

/* Ends a read or a write. Whose it is, is not known: the caller's, or another's. -EPERM: nobody has
 * the lock. */
UM_INLINE int umbra_rwlock_unlock(struct umbra_rwlock *lock);

/* ---- latch, barrier, once ---- */

/* Open when it has been counted down to 0; then it stays open. */
struct umbra_latch {
    struct umbra_event event;
    um_atomic_u64 count;
    unsigned char apart[UM_LINE_REST(8)];
};

#define UMBRA_LATCH_INIT(initial)                                                                  \
    {                                                                                              \
        .event = {.event = {.word = (initial) ? UMBRA_EVENT_RESET : UMBRA_EVENT_SIGNALED,          \
                            .manual = true}},                                                      \
        .count = (initial)                                                                         \
    }

UM_INLINE void umbra_latch_init(struct umbra_latch *latch, uint64_t initial);

/*
 * Counts down by one; -EINVAL: it is open already. Adds to a latch that is not open; -EINVAL: it is;
 * -EOVERFLOW: the sum would be 2^64 or more, and nothing is added. Waits until it is open.
 *
 * With add a latch waits for fibers whose number is not known before. The 1 is the waiter's own, which
 * keeps the latch from opening while it spawns; a fiber that spawns others adds in the same way, before
 * it counts itself down.
 *
 *     umbra_latch_init(&all, 1);
 *     while (more()) {
 *         umbra_latch_add(&all, 1);                  before the fiber can end
 *         if (umbra_spawn(fn, &all, NULL) != 0)      fn ends with umbra_latch_count_down(&all)
 *             umbra_latch_count_down(&all);
 *     }
 *     umbra_latch_count_down(&all);
 *     umbra_latch_wait(&all, UMBRA_NEVER);
 */
UM_INLINE int umbra_latch_count_down(struct umbra_latch *latch);
UM_INLINE int umbra_latch_add(struct umbra_latch *latch, uint64_t more);
UM_LINKONCE int umbra_latch_wait(struct umbra_latch *latch, uint64_t deadline);

/* Lets `parties` go on when so many have come, again and again. */
struct umbra_barrier {
    struct umbra_event event[2]; /* manual-reset, taking turns */
    um_atomic_u64 state;         /* how often it has opened, times 2^32, and who has come since */
    uint32_t parties;            /* fixed */
    unsigned char apart[UM_LINE_REST(12)];
};

#define UMBRA_BARRIER_INIT(number)                                                                 \
    {                                                                                              \
        .event = {UMBRA_EVENT_INIT_MANUAL, UMBRA_EVENT_INIT_MANUAL}, .parties = (number)           \
    }

UM_INLINE void umbra_barrier_init(struct umbra_barrier *barrier, uint32_t parties);

/*
 * Waits until all parties have come. 1 in the last to come, 0 in the others. After an error, -ETIMEDOUT
 * among them, the caller has not come: the others wait for as many as if it had never called. If the
 * last party comes just when the deadline passes, the barrier opens, and the call returns 0. More
 * callers at a time than parties: undefined.
 */
UM_LINKONCE int umbra_barrier_wait(struct umbra_barrier *barrier);
UM_LINKONCE int umbra_barrier_wait_deadline(struct umbra_barrier *barrier, uint64_t deadline);

struct umbra_once {
    struct umbra_event event;
    um_atomic_u32 state; /* 0: not yet, 1: at it, 2: done */
    unsigned char apart[UM_LINE_REST(4)];
};

#define UMBRA_ONCE_INIT                                                                            \
    {                                                                                              \
        .event = UMBRA_EVENT_INIT_MANUAL                                                           \
    }

UM_INLINE void umbra_once_init(struct umbra_once *once);

/*
 * Calls fn(arg) the first time; returns when it has returned, whoever called it, or an error of the
 * wait for that. fn may wait, but not call the same once.
 */
UM_ALWAYS_INLINE int umbra_once(struct umbra_once *once, void (*fn)(void *arg), void *arg);

#define UM_SYNC_PLACE(type)                                                                        \
    _Static_assert(_Alignof(type) <= UM_ANY_MEMORY, "malloc's memory will do");                    \
    _Static_assert(sizeof(type) % UMBRA_CACHE_LINE == 0, "in an array each has its lines")

#include <umbra/impl/sync.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

_Static_assert(_Alignof(struct umbra_condition) <= UM_ANY_MEMORY, "malloc's memory will do");

/* ---- initial values ---- */

UM_INLINE void umbra_mutex_init(struct umbra_mutex *mutex)
{
    *mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
}

UM_INLINE void umbra_condition_init(struct umbra_condition *condition)
{
    *condition = (struct umbra_condition)UMBRA_CONDITION_INIT;
}

UM_INLINE void umbra_semaphore_init(struct umbra_semaphore *semaphore, uint64_t initial)
{
    *semaphore = (struct umbra_semaphore)UMBRA_SEMAPHORE_INIT(initial);
}

UM_INLINE void umbra_rwlock_init(struct umbra_rwlock *lock)
{
    *lock = (struct umbra_rwlock)UMBRA_RWLOCK_INIT;
}

UM_INLINE void umbra_latch_init(struct umbra_latch *latch, uint64_t initial)
{
    *latch = (struct umbra_latch)UMBRA_LATCH_INIT(initial);
}

UM_INLINE void umbra_barrier_init(struct umbra_barrier *barrier, uint32_t parties)
{
    *barrier = (struct umbra_barrier)UMBRA_BARRIER_INIT(parties);
}

UM_INLINE void umbra_once_init(struct umbra_once *once)
{
    *once = (struct umbra_once)UMBRA_ONCE_INIT;
}

UM_ALWAYS_INLINE int umbra_mutex_lock_deadline(struct umbra_mutex *mutex, uint64_t deadline)
{
    return UM_LIKELY(umbra_mutex_try(mutex)) ? 0 : um_mutex_wait(mutex, deadline);
}

UM_ALWAYS_INLINE int umbra_mutex_lock(struct umbra_mutex *mutex)
{
    return umbra_mutex_lock_deadline(mutex, UMBRA_NEVER);
}

UM_INLINE bool umbra_semaphore_try(struct umbra_semaphore *semaphore)
{
    return um_semaphore_take(semaphore);
}

UM_ALWAYS_INLINE int umbra_semaphore_wait_deadline(struct umbra_semaphore *semaphore,
                                                   uint64_t deadline)
{
    return um_semaphore_take(semaphore) ? 0 : um_semaphore_wait(semaphore, deadline);
}

UM_ALWAYS_INLINE int umbra_semaphore_wait(struct umbra_semaphore *semaphore)
{
    return umbra_semaphore_wait_deadline(semaphore, UMBRA_NEVER);
}

UM_INLINE void umbra_semaphore_post(struct umbra_semaphore *semaphore, uint64_t more)
{
    for (uint64_t due = um_semaphore_give(semaphore, more); due > 0; due--)
        umbra_event_signal(&semaphore->event);
}

UM_INLINE void umbra_semaphore_post_async(struct umbra_semaphore *semaphore, uint64_t more)
{
    for (uint64_t due = um_semaphore_give(semaphore, more); due > 0; due--)
        umbra_event_signal_async(&semaphore->event);
}

UM_INLINE bool umbra_rwlock_try_read(struct umbra_rwlock *lock)
{
    return um_rwlock_take_read(lock);
}

UM_INLINE bool umbra_rwlock_try_write(struct umbra_rwlock *lock)
{
    uint64_t nobody = 0;

    return um_atomic_cas(&lock->state, &nobody, UM_RWLOCK_WRITER, seq_cst, relaxed);
}

UM_ALWAYS_INLINE int umbra_rwlock_read_deadline(struct umbra_rwlock *lock, uint64_t deadline)
{
    return um_rwlock_take_read(lock) ? 0 : um_rwlock_wait_read(lock, deadline);
}

UM_ALWAYS_INLINE int umbra_rwlock_read(struct umbra_rwlock *lock)
{
    return umbra_rwlock_read_deadline(lock, UMBRA_NEVER);
}

UM_ALWAYS_INLINE int umbra_rwlock_write_deadline(struct umbra_rwlock *lock, uint64_t deadline)
{
    return umbra_rwlock_try_write(lock) ? 0 : um_rwlock_wait_write(lock, deadline);
}

UM_ALWAYS_INLINE int umbra_rwlock_write(struct umbra_rwlock *lock)
{
    return umbra_rwlock_write_deadline(lock, UMBRA_NEVER);
}

UM_INLINE int umbra_rwlock_unlock(struct umbra_rwlock *lock)
{
    uint64_t state = um_atomic_load(&lock->state, relaxed); /* only compared */
    uint64_t held;

    do {
        held = state & UM_RWLOCK_HELD;
        if (held == 0)
            return -EPERM;
        /* seq_cst: G1 */
    } while (!um_atomic_cas(&lock->state, &state, state - (held == UM_RWLOCK_WRITER ? held : 1),
                            seq_cst, relaxed));
    if (held == UM_RWLOCK_WRITER || held == 1)
        um_sync_given(&lock->waiters, &lock->event);
    return 0;
}

/* ---- latch ---- */

UM_INLINE int umbra_latch_count_down(struct umbra_latch *latch)
{
    uint64_t count = um_atomic_load(&latch->count, relaxed); /* only compared */

    do {
        if (count == 0)
            return -EINVAL;
        /* acq_rel: what all that counted down wrote before is visible after the wait */
    } while (!um_atomic_cas(&latch->count, &count, count - 1, acq_rel, relaxed));
    if (count == 1)
        umbra_event_signal(&latch->event);
    return 0;
}

UM_INLINE int umbra_latch_add(struct umbra_latch *latch, uint64_t more)
{
    uint64_t count = um_atomic_load(&latch->count, relaxed); /* only compared */

    do {
        if (count == 0)
            return -EINVAL;
        if (more > UINT64_MAX - count)
            return -EOVERFLOW;
        /* relaxed: a number; those that count down go on with each other's writes across it */
    } while (!um_atomic_cas(&latch->count, &count, count + more, relaxed, relaxed));
    return 0;
}

UM_ALWAYS_INLINE int umbra_once(struct umbra_once *once, void (*fn)(void *arg), void *arg)
{
    /* acquire: what fn did; pairs with um_once_slow() */
    if (UM_LIKELY(um_atomic_load(&once->state, acquire) == UM_ONCE_DONE))
        return 0;
    return um_once_slow(once, fn, arg);
}

#endif
