/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Mutex, condition variable, semaphore, read-write lock, barrier, latch and once, for fibers and
 * plain threads together. A caller that has to wait waits for an event (umbra/event.h): a fiber
 * lets its core run other fibers, a thread spins and then sleeps.
 *
 * All of them work alike. A word says which caller has the resource. The fast path changes the word
 * by one compare-and-swap and touches nothing else. A caller that cannot have the resource now is a
 * waiter: it adds itself to a count of waiters, and waits for the object's event with a function
 * that tries to take the resource:
 *
 *   the waiter                                   the giver
 *   W1  waiters + 1                 seq_cst      G1  the resource is free       seq_cst
 *   W2  join the event; the event's holder       G2  look at waiters            seq_cst
 *       tries to take the resource for it        G3  if any: signal the event
 *
 * No wake-up is lost: if W2 finds the resource taken, then W2 comes before G1 in the order of all
 * seq_cst operations, hence W1 before G2, and the giver signals. The signal offers the resource to
 * the waiters in their order (protocol/event.h), to each once, until one takes it; the resource
 * belongs to that waiter before it runs. A signal that no waiter takes stays; the next waiter to
 * join then tries once more, which does no harm.
 *
 * A newcomer may take a free resource before the waiters ("barging"). But a signal that releases a
 * waiter has given it the resource.
 *
 * A semaphore's waiter looks in place before W1: it is a newcomer still. So a post for a waiter
 * that looks touches the semaphore's own line only, not its event.
 *
 * A mutex goes further (protocol/mutex.h). Its waiter first spins in place: a thread for the spin
 * phase of its wait, a fiber for at most UMBRA_SPIN_NS, and only while its core has nothing else to
 * do. If the holder is a fiber of the same core, either it is ready, and the waiter does not spin
 * at all, or it waits itself, and what wakes it ends the waiter's spin. A spinning waiter is no
 * waiter in the table above: other callers may overtake it, its holder too. After that it announces
 * itself and queues. From then on an unlock keeps the mutex for a fiber's queue: the signal gives
 * it to the oldest waiter, and a newcomer does not get it, unless it queues in the few instructions
 * between the two steps of one unlock, or has looked before the waiter came. So a fiber's wait
 * lasts at most the spin phase, one turn for each waiter in front, one for each such newcomer, and
 * one for a thread that was called.
 *
 * A thread that is given a mutex may first have to get a processor, and all others would wait for
 * that: where more threads want a mutex than there are processors, at each turn. So a queued thread
 * is patient at first: an unlock leaves the mutex free, and calls the oldest patient thread, one at
 * a time, which spins again. Where others take the mutex for UMBRA_MUTEX_CALL_NS after the call,
 * the next unlock promises it to the called thread, and no other caller gets it. A thread that spun
 * in vain queues again, at the end. If UMBRA_MUTEX_PATIENCE_NS after it queued first it does so, or
 * a signal finds the mutex taken already, it is overtaken no more than a fiber, and then each
 * unlock gives the mutex to the oldest in the queue. So a thread's wait lasts at most the spin phase
 * and UMBRA_MUTEX_PATIENCE_NS, and for each waiter in front, and for itself, twice:
 * UMBRA_MUTEX_CALL_NS, a turn, and what the system takes to run a thread.
 *
 * Lines that move between cores. The words of a mutex are in one line, M; its event is in another.
 *
 *   lock and unlock, no other caller       none
 *   a turn while another caller spins      none, between two of its looks; a look takes M, and the
 *                                          holder takes it back to unlock: looks become rarer
 *   a spinning caller takes it             M once for the look that finds it free, and the step
 *                                          that takes it
 *   a waiter queues and is given it        M for W1, the event's line for the join; both go back to
 *                                          the holder for G1 and G3, and one line wakes the waiter
 *
 * A barrier has its word in one line, B, and its event in another. A party comes by one step on B,
 * and looks at B in place as a mutex's waiter does; the step of the last party lets all go that
 * look.
 *
 *   a meeting of parties that look      B once for each that comes, and once for each that looks
 *   a party queues and is released      besides, B for its announcement; the event's line for the
 *                                       join and for the signal, and one line wakes it
 *
 * What can go wrong: an error of a wait (below); a lock that its holder never gives up, which the
 * runtime reports as a deadlock once all its cores are idle (umbra/core.h).
 *
 * Objects are in the caller's memory, own nothing, and need not be destroyed; all zero is a good
 * initial state where the initializer says so. An object must outlive the call that gives up the
 * resource, not only the call that it wakes: before a mutex is freed, its last user must be joined.
 * Any memory is allowed, malloc's too. Where several cores use an object, it is faster if it begins
 * a cache line, as an event is (umbra/event.h); all but conditions also end one, so that neighbours
 * in an array share none.
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
 * Callers: a fiber, or any other thread; no signal handler, except for umbra_semaphore_post_async.
 *
 * Calls that wait may switch fibers, or block a thread; all other calls do neither. A call that
 * finds at once what it waits for does not switch: fibers that only meet or hand over in that way
 * let no other fiber of their core run, unless they yield, too. deadline: a time of umbra_now_ns(),
 * as umbra_deadline(ns) makes it, or UMBRA_NEVER. With deadline 0 the calls for a mutex, semaphore
 * or read-write lock only take what is free: they neither switch nor block.
 *
 * Errors of the calls that wait: -ETIMEDOUT (the deadline passed first), -ECANCELED (the calling
 * fiber is canceled), -EPERM (on an alternate signal stack), -ENOMEM (a thread's first wait, or one
 * with a deadline), and the other errors of a thread's first wait (umbra_event_wait).
 */

/* ---- mutex ---- */

/* How long a thread that queued may be overtaken, ns: after it was woken, and in all. */
#define UMBRA_MUTEX_CALL_NS 100000
#define UMBRA_MUTEX_PATIENCE_NS 1000000

struct umbra_mutex {
    struct umbra_event event;
    um_atomic_uptr owner;  /* its holder, a fiber or thread (um_fiber_self()); or FREE, KEPT or
                              PROMISED: protocol/mutex.h */
    um_atomic_u64 waiters; /* fibers and threads that queue, or will: protocol/mutex.h */
    um_atomic_u64 due;     /* until when the called waiter may be overtaken, a time stamp; the call
                              that calls it, read by holders */
    unsigned char apart[UM_LINE_REST(24)];
};

#define UMBRA_MUTEX_INIT UM_MUTEX_INIT

/* Does what the macro does in an initializer; no other call may use the object meanwhile. Neither
 * switches nor blocks. The same is true of the other types. */
UM_INLINE void umbra_mutex_init(struct umbra_mutex *mutex);

/* Locks, for the calling fiber or thread; waits: in place at first, then in a queue that newcomers
 * do not overtake, or not for long (above). -EDEADLK: the caller holds it already. A fiber or
 * thread that ends as the holder leaves it locked for ever, also for a thread that is created
 * later: locks wait, up to their deadlines, and unlocks return -EPERM. UMBRA_ASSERT reports a fiber
 * that does (base/base.h). */
UM_ALWAYS_INLINE int umbra_mutex_lock(struct umbra_mutex *mutex);
UM_ALWAYS_INLINE int umbra_mutex_lock_deadline(struct umbra_mutex *mutex, uint64_t deadline);

/* Unlocks. -EPERM: the caller does not hold it. */
UM_INLINE int umbra_mutex_unlock(struct umbra_mutex *mutex);

/* ---- condition variable ---- */

struct umbra_condition {
    struct um_lock list; /* guards the other fields, for a few instructions at a time */
    struct um_condition_waiter *first, *last;
    uint64_t round; /* how often all waiters have been notified */
};

#define UMBRA_CONDITION_INIT UM_CONDITION_INIT

UM_INLINE void umbra_condition_init(struct umbra_condition *condition);

/*
 * Unlocks the mutex, waits to be notified, and locks it again, also after an error. Does not return
 * 0 without a notification, but another caller may have changed what it was about: check in a loop.
 * These errors leave the mutex as it was, with nothing waited for: -EPERM (the caller does not hold
 * it, or is on an alternate signal stack), and those of a thread's first wait. After -ENOMEM with a
 * deadline the mutex may also have been unlocked and locked again.
 */
UM_LINKONCE int umbra_condition_wait(struct umbra_condition *condition, struct umbra_mutex *mutex,
                                     uint64_t deadline);

/* Ends the wait of the waiter that has waited longest; with `all` of all waiters. Without a waiter
 * nothing happens. The caller need not hold the mutex. */
UM_LINKONCE void umbra_condition_notify(struct umbra_condition *condition, bool all);

/* ---- counting semaphore ---- */

struct umbra_semaphore {
    struct umbra_event event;
    um_atomic_u64 count;
    um_atomic_u32 waiters;
    unsigned char apart[UM_LINE_REST(12)];
};

#define UMBRA_SEMAPHORE_INIT(initial) UM_SEMAPHORE_INIT(initial)

UM_INLINE void umbra_semaphore_init(struct umbra_semaphore *semaphore, uint64_t initial);

/*
 * wait: takes one, and waits while there is none. post: adds `more`; fewer than 2^64 must be there
 * at any time. post_async is for signal handlers, too: it makes one umbra_event_signal_async for
 * each waiter that it releases, so that call's limit of 65,535 signals holds here, too.
 */
UM_ALWAYS_INLINE int umbra_semaphore_wait(struct umbra_semaphore *semaphore, uint64_t deadline);
UM_INLINE void umbra_semaphore_post(struct umbra_semaphore *semaphore, uint64_t more);
UM_INLINE void umbra_semaphore_post_async(struct umbra_semaphore *semaphore, uint64_t more);

/* ---- read-write lock ---- */

/* Many readers or one writer. A writer that waits keeps new readers out. */
struct umbra_rwlock {
    struct umbra_event event;
    um_atomic_u64 state;   /* readers, or UM_RWLOCK_WRITER; and waiting writers times 2^32 */
    um_atomic_u32 waiters; /* both kinds */
    unsigned char apart[UM_LINE_REST(12)];
};

#define UMBRA_RWLOCK_INIT UM_RWLOCK_INIT

UM_INLINE void umbra_rwlock_init(struct umbra_rwlock *lock);

/* Locks for reading. A reader must not lock it again: a waiting writer would
 * keep it out, and wait for it. */
UM_ALWAYS_INLINE int umbra_rwlock_read(struct umbra_rwlock *lock, uint64_t deadline);

/* Locks for writing. A reader or the writer must not call this: it would
 * wait for itself. */
UM_ALWAYS_INLINE int umbra_rwlock_write(struct umbra_rwlock *lock, uint64_t deadline);

/* Ends a read or a write; the lock does not check that it is the caller's. -EPERM: the lock is
 * free. */
UM_INLINE int umbra_rwlock_unlock(struct umbra_rwlock *lock);

/* ---- latch, barrier, once ---- */

/* A latch is open when it has been counted down to 0; then it stays open. */
struct umbra_latch {
    struct umbra_event event;
    um_atomic_u64 count;
    unsigned char apart[UM_LINE_REST(8)];
};

#define UMBRA_LATCH_INIT(initial) UM_LATCH_INIT(initial)

UM_INLINE void umbra_latch_init(struct umbra_latch *latch, uint64_t initial);

/*
 * count_down: counts down by one; -EINVAL: the latch is open already. add: adds to a latch that is
 * not open; -EINVAL: it is open; -EOVERFLOW: the sum would be 2^64 or more, and nothing is added.
 * wait: waits until it is open.
 *
 * With add a latch waits for fibers that were not counted before. The 1 below is the waiter's
 * own: it keeps the latch from opening while the waiter spawns. A fiber that spawns others adds in
 * the same way, before it counts itself down.
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

/* A barrier opens when `parties` callers, at least 1, have come, again and again. */
struct umbra_barrier {
    struct umbra_event event; /* manual-reset, and never reset: of waiters that queue */
    um_atomic_u64 state;      /* callers that have come: protocol/barrier.h */
    uint32_t parties;         /* fixed */
    unsigned char apart[UM_LINE_REST(12)];
};

#define UMBRA_BARRIER_INIT(number) UM_BARRIER_INIT(number)

UM_INLINE void umbra_barrier_init(struct umbra_barrier *barrier, uint32_t parties);

/*
 * Waits until all parties have come. Returns 1 to the last to come, and 0 to the other parties;
 * -EINVAL if the barrier is for 0 parties. After an error, -ETIMEDOUT too, the caller counts as not
 * having come: the others wait for as many as if it had never called. If the last party comes just
 * as the deadline passes, the barrier opens, and the call returns 0. More callers at a time than
 * parties: undefined; callers for which the barrier has opened do not count. Before a barrier is
 * freed, all calls must have returned: the last party still touches it when the others go on.
 */
UM_LINKONCE int umbra_barrier_wait(struct umbra_barrier *barrier);
UM_LINKONCE int umbra_barrier_wait_deadline(struct umbra_barrier *barrier, uint64_t deadline);

struct umbra_once {
    struct umbra_event event;
    um_atomic_u32 state; /* 0: not called, 1: running, 2: done */
    unsigned char apart[UM_LINE_REST(4)];
};

#define UMBRA_ONCE_INIT UM_ONCE_INIT

UM_INLINE void umbra_once_init(struct umbra_once *once);

/*
 * The first call runs fn(arg) in the caller. Every call returns when fn has returned: 0; -EINVAL,
 * with nothing done: there is no fn; or an error of the wait for that. fn may wait, but must not
 * call umbra_once on the same object.
 */
UM_ALWAYS_INLINE int umbra_once(struct umbra_once *once, void (*fn)(void *arg), void *arg);

#define UM_SYNC_PLACE(type)                                                                        \
    static_assert(__alignof__(type) <= UM_ANY_MEMORY, "malloc's memory will do");                  \
    static_assert(sizeof(type) % UMBRA_CACHE_LINE == 0, "in an array each has its lines")

#include <umbra/impl/sync.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_MUTEX_INIT                                                                              \
    {                                                                                              \
        .event = UMBRA_EVENT_INIT                                                                  \
    }

#define UM_CONDITION_INIT                                                                          \
    {                                                                                              \
        .first = NULL                                                                              \
    }

#define UM_SEMAPHORE_INIT(initial)                                                                 \
    {                                                                                              \
        .event = UMBRA_EVENT_INIT, .count = (initial)                                              \
    }

#define UM_RWLOCK_INIT                                                                             \
    {                                                                                              \
        .event = UMBRA_EVENT_INIT                                                                  \
    }

#define UM_LATCH_INIT(initial)                                                                     \
    {                                                                                              \
        .event = {.event = {.word = (initial) ? UMBRA_EVENT_RESET : UMBRA_EVENT_SIGNALED,          \
                            .manual = true}},                                                      \
        .count = (initial)                                                                         \
    }

#define UM_BARRIER_INIT(number)                                                                    \
    {                                                                                              \
        .event = UMBRA_EVENT_INIT_MANUAL, .parties = (number)                                      \
    }

#define UM_ONCE_INIT                                                                               \
    {                                                                                              \
        .event = UMBRA_EVENT_INIT_MANUAL                                                           \
    }

static_assert(__alignof__(struct umbra_condition) <= UM_ANY_MEMORY, "malloc's memory will do");

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
    return UM_LIKELY(um_mutex_try(mutex)) ? 0 : um_mutex_wait(mutex, deadline);
}

UM_ALWAYS_INLINE int umbra_mutex_lock(struct umbra_mutex *mutex)
{
    return umbra_mutex_lock_deadline(mutex, UMBRA_NEVER);
}

UM_ALWAYS_INLINE int umbra_semaphore_wait(struct umbra_semaphore *semaphore, uint64_t deadline)
{
    return um_semaphore_take(semaphore) ? 0 : um_semaphore_wait(semaphore, deadline);
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

/* True if the lock was free and is now the caller's, for writing. */
UM_INLINE bool um_rwlock_try_write(struct umbra_rwlock *lock)
{
    uint64_t nobody = 0;

    return um_atomic_cas(&lock->state, &nobody, UM_RWLOCK_WRITER, seq_cst, relaxed);
}

UM_ALWAYS_INLINE int umbra_rwlock_read(struct umbra_rwlock *lock, uint64_t deadline)
{
    return um_rwlock_take_read(lock) ? 0 : um_rwlock_wait_read(lock, deadline);
}

UM_ALWAYS_INLINE int umbra_rwlock_write(struct umbra_rwlock *lock, uint64_t deadline)
{
    return um_rwlock_try_write(lock) ? 0 : um_rwlock_wait_write(lock, deadline);
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
        /* acq_rel: all writes before the counts are visible after the wait */
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
        /* relaxed: only a number; the release sequence of the counts goes on across it */
    } while (!um_atomic_cas(&latch->count, &count, count + more, relaxed, relaxed));
    return 0;
}

UM_ALWAYS_INLINE int umbra_once(struct umbra_once *once, void (*fn)(void *arg), void *arg)
{
    /* acquire: what fn wrote; pairs with um_once_slow() */
    if (UM_LIKELY(um_atomic_load(&once->state, acquire) == UM_ONCE_DONE))
        return 0;
    return um_once_slow(once, fn, arg);
}

#endif
