/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Mutex, condition variable, semaphore, read-write lock, barrier and latch, for fibers and
 * plain threads together. A caller that has to wait waits for an event (umbra/event.h): a fiber
 * lets its core run other fibers, a thread spins and then sleeps.
 *
 *     struct umbra_mutex mutex = UMBRA_MUTEX_INIT;       later: mutex = (struct umbra_mutex)UMBRA_...
 *     struct umbra_barrier barrier = UMBRA_BARRIER_INIT(4);
 *
 *     umbra_mutex_lock(&mutex);
 *     sum += part;
 *     umbra_mutex_unlock(&mutex);
 *     umbra_barrier_wait(&barrier, UMBRA_NEVER);         or until umbra_deadline(ns)
 *
 * Mutex, semaphore and read-write lock work alike (wait/waiters.h). A word says what the object
 * has to give, and whether callers wait. The fast path changes the word by one step and
 * touches nothing else. A caller that cannot have the resource now looks in place for a while: a
 * thread for the spin phase of its wait, a fiber for at most UMBRA_SPIN_NS, and only while its core
 * has nothing else to do. Then it is a waiter: it adds itself to the object's list, and waits for
 * an event in its own frame. The caller that gives up the resource gives it to the oldest waiter,
 * and signals that event: the resource belongs to the waiter before it runs. Newcomers do not
 * overtake waiters in the list, except for a mutex, where a waiter may be patient.
 *
 * An object may be freed by its last user, even if the call that gave up the resource has not
 * returned: that call touches the object no more once another caller can have the resource. So a
 * mutex may guard the number of its users, and a semaphore or latch may be in the frame of
 * the caller that waits for it. Two objects need more: before a barrier is freed, the calls of all
 * its parties must have returned; before a condition is freed, the calls of all its waiters.
 *
 * The waiters of a mutex that are fibers are firm: from the first unlock on that comes after they
 * queued they are not overtaken. So a fiber's wait lasts at most the spin phase, and one turn for
 * each waiter in front, for each caller that was looking when it queued, and for a thread that was
 * called.
 *
 * A thread that is given a mutex may first have to get a processor, and all others would wait for
 * that: where more threads want a mutex than there are processors, at each turn. So a queued thread
 * is patient at first: an unlock leaves the mutex free, and calls the oldest patient thread, one at
 * a time, which spins again. Where others take the mutex for UMBRA_MUTEX_CALL_NS after the call,
 * the next unlock promises it to the called thread, and no other caller gets it. A thread that spun
 * in vain queues again, at the end. If it does so UMBRA_MUTEX_PATIENCE_NS after it queued first, it
 * is overtaken no more than a fiber, and then each unlock gives the mutex to the oldest in the
 * queue. A long time in the queue alone does not do that: once all threads had queued for so long,
 * each turn would wait for a thread to run, and so the next ones would queue for so long, too. So a
 * thread's wait lasts at most the spin phase and UMBRA_MUTEX_PATIENCE_NS, and for each waiter in
 * front, and for itself, twice: UMBRA_MUTEX_CALL_NS, a turn, and what the system takes to run a
 * thread.
 *
 * Lines that move between cores. A mutex, a semaphore or a read-write lock is one line, M.
 *
 *   lock and unlock, no other caller       none
 *   a turn while another caller spins      none, between two of its looks; a look takes M, and the
 *                                          holder takes it back to unlock: looks become rarer
 *   a spinning caller takes it             M once for the look that finds it free, and the step
 *                                          that takes it
 *   a waiter queues and is given it        M for the list; it goes back to the holder, which takes
 *                                          the waiter out of it; and one line wakes the waiter
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
 * initial state where the initializer says so. Any memory is allowed, malloc's too. Where several
 * cores use an object, it is faster if it begins a cache line, as an event is (umbra/event.h); all
 * but conditions also end one, so that neighbours in an array share none.
 */
#ifndef UMBRA_SYNC_H
#define UMBRA_SYNC_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/cpu.h>
#include <umbra/event.h>
#include <umbra/event/protocol.h>
#include <umbra/wait/protocol.h>

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
 *
 * A cancel (umbra_cancel) does not end these waits, which a program would not expect to fail: for
 * a mutex, a read-write lock or a barrier, unless they have a deadline other than UMBRA_NEVER;
 * and the lock of the mutex at the end of umbra_condition_wait. It ends the waits for
 * what may never come: of a semaphore, condition or latch. Where a wait that failed must not be
 * taken for one that succeeded, the compiler warns if the result is not looked at (UM_CHECKED).
 */

/* ---- mutex ---- */

/* How long a thread that queued may be overtaken. After it was called: the system may need so long
 * to run it, and the mutex then stands idle for it. In all: some wake-ups, and below the 2 ms in
 * which 9,999 of 10,000 waits are to end. */
#define UMBRA_MUTEX_CALL_NS 100000
#define UMBRA_MUTEX_PATIENCE_NS 1000000

struct umbra_mutex {
    UM_ALIGNED(UM_ANY_MEMORY) um_atomic_u64 word; /* sync/mutex.h */
    um_atomic_uptr owner; /* its holder, a fiber or thread (um_fiber_self()), or 0; the holder */
    um_atomic_u64 due;    /* until when the called waiter may be overtaken, a time stamp; the call
                             that calls it, read by holders */
    struct um_waiters waiters;
    unsigned char apart[UM_LINE_REST(24 + sizeof(struct um_waiters))];
};

#define UMBRA_MUTEX_INIT UM_MUTEX_INIT

/*
 * Locks, for the calling fiber or thread; waits: in place at first, then in a queue that newcomers
 * do not overtake, or not for long (above). A fiber or thread that ends as the holder leaves it
 * locked for ever, also for a thread that is created later: locks wait, up to their deadlines, and
 * unlocks return -EPERM. UMBRA_ASSERT reports a fiber that does (base/base.h).
 *
 * The first does not fail: a fiber that is canceled locks, too, and a caller that cannot wait (on
 * an alternate signal stack; a thread without memory for its first wait) looks in place until the
 * mutex is its own. A holder that locks again waits for itself; UMBRA_ASSERT aborts it. The second
 * returns 0 or an error of the calls that wait, or -EDEADLK: the caller holds it already.
 */
UM_ALWAYS_INLINE void umbra_mutex_lock(struct umbra_mutex *mutex);
UM_ALWAYS_INLINE UM_CHECKED int umbra_mutex_lock_deadline(struct umbra_mutex *mutex,
                                                          uint64_t deadline);

/* Unlocks. -EPERM: the caller does not hold it. */
UM_INLINE int umbra_mutex_unlock(struct umbra_mutex *mutex);

/* ---- condition variable ---- */

struct umbra_condition {
    struct um_lock list; /* guards the other fields, for a few instructions at a time */
    struct um_waiters waiters;
    um_plain(uint64_t) round; /* how often several waiters have been notified together */
};

#define UMBRA_CONDITION_INIT UM_CONDITION_INIT

/*
 * Unlocks the mutex, waits to be notified, and locks it again, also after an error. Does not return
 * 0 without a notification, but another caller may have changed what it was about: check in a loop.
 * These errors leave the mutex as it was, with nothing waited for: -EPERM (the caller does not hold
 * it, or is on an alternate signal stack), -EINVAL (callers wait with another mutex), and those of a
 * thread's first wait. After -ENOMEM with a
 * deadline the mutex may also have been unlocked and locked again.
 */
UM_LINKONCE UM_CHECKED int umbra_condition_wait(struct umbra_condition *condition,
                                                struct umbra_mutex *mutex, uint64_t deadline);

/* Ends the wait of the waiter that has waited longest; with `all` of all waiters: several then
 * queue for the mutex before they wake up. Without a waiter nothing happens. The caller need not
 * hold the mutex. */
UM_LINKONCE void umbra_condition_notify(struct umbra_condition *condition, bool all);

/* ---- counting semaphore ---- */

struct umbra_semaphore {
    UM_ALIGNED(UM_ANY_MEMORY) um_atomic_u64 word; /* sync/semaphore.h */
    struct um_waiters waiters;
    unsigned char apart[UM_LINE_REST(8 + sizeof(struct um_waiters))];
};

#define UMBRA_SEMAPHORE_INIT(initial) UM_SEMAPHORE_INIT(initial)

/*
 * wait: takes one, and waits while there is none; a newcomer does not overtake callers that queue.
 * post: adds `more`; fewer than 2^62 must be there at any time. It touches the semaphore no more
 * once another caller can take what it adds: that caller may free it. post_async is for signal
 * handlers, too: it makes one umbra_event_signal_async for each waiter that it releases. Without a
 * result of 0 the caller of wait has nothing, also if its fiber is canceled.
 */
UM_ALWAYS_INLINE UM_CHECKED int umbra_semaphore_wait(struct umbra_semaphore *semaphore,
                                                     uint64_t deadline);
UM_INLINE void umbra_semaphore_post(struct umbra_semaphore *semaphore, uint64_t more);
UM_INLINE void umbra_semaphore_post_async(struct umbra_semaphore *semaphore, uint64_t more);

/* ---- read-write lock ---- */

/*
 * Many readers or one writer. A caller that waits keeps new readers out; waiters have the lock in
 * their order, and readers between two writers together. So a writer's wait lasts at most the spin
 * phase, in which readers may overtake it, then the reads that have begun, and for the waiters in
 * front: a turn of each writer, and for readers between two writers the longest of their reads.
 */
struct umbra_rwlock {
    UM_ALIGNED(UM_ANY_MEMORY) um_atomic_u64 word; /* sync/rwlock.h */
    struct um_waiters waiters;
    unsigned char apart[UM_LINE_REST(8 + sizeof(struct um_waiters))];
};

#define UMBRA_RWLOCK_INIT UM_RWLOCK_INIT

/* Locks for reading. A reader must not lock it again: a waiting writer would
 * keep it out, and wait for it. The first does not fail, as umbra_mutex_lock. */
UM_ALWAYS_INLINE void umbra_rwlock_read(struct umbra_rwlock *lock);
UM_ALWAYS_INLINE UM_CHECKED int umbra_rwlock_read_deadline(struct umbra_rwlock *lock,
                                                           uint64_t deadline);

/* Locks for writing, in the same two ways. A reader or the writer must not call this: it would
 * wait for itself. */
UM_ALWAYS_INLINE void umbra_rwlock_write(struct umbra_rwlock *lock);
UM_ALWAYS_INLINE UM_CHECKED int umbra_rwlock_write_deadline(struct umbra_rwlock *lock,
                                                            uint64_t deadline);

/* Ends a read or a write; the lock does not check that it is the caller's. -EPERM: the lock is
 * free, as long as no other call uses it meanwhile. */
UM_INLINE int umbra_rwlock_unlock(struct umbra_rwlock *lock);

/* ---- latch, barrier ---- */

/* A latch is open when it has been counted down to 0; then it stays open. */
struct umbra_latch {
    struct umbra_event event;
    um_atomic_u64 count;
    unsigned char apart[UM_LINE_REST(8)];
};

#define UMBRA_LATCH_INIT(initial) UM_LATCH_INIT(initial)

/*
 * count_down: counts down by one; -EINVAL: the latch is open already. add: adds to a latch that is
 * not open; -EINVAL: it is open; -EOVERFLOW: the sum would be 2^64 or more, and nothing is added.
 * wait: waits until it is open. A canceled fiber does not wait: where what is counted uses the
 * waiter's memory, it waits in a shield.
 *
 * With add a latch waits for fibers that were not counted before. The 1 below is the waiter's
 * own: it keeps the latch from opening while the waiter spawns. A fiber that spawns others adds in
 * the same way, before it counts itself down.
 *
 *     struct umbra_latch all = UMBRA_LATCH_INIT(1);
 *     while (more()) {
 *         umbra_latch_add(&all, 1);                  before the fiber can end
 *         if (umbra_spawn(fn, &all, NULL) != 0)      fn ends with umbra_latch_count_down(&all)
 *             umbra_latch_count_down(&all);
 *     }
 *     umbra_latch_count_down(&all);
 *     umbra_shield(true);                            `all` must stay until they have ended
 *     error = umbra_latch_wait(&all, UMBRA_NEVER);
 *     umbra_shield(false);
 */
UM_INLINE int umbra_latch_count_down(struct umbra_latch *latch);
UM_INLINE int umbra_latch_add(struct umbra_latch *latch, uint64_t more);
UM_LINKONCE UM_CHECKED int umbra_latch_wait(struct umbra_latch *latch, uint64_t deadline);

/* A barrier opens when `parties` callers, at least 1, have come, again and again. */
struct umbra_barrier {
    struct umbra_event event; /* manual-reset, and never reset: of waiters that queue */
    um_atomic_u64 state;      /* callers that have come: sync/barrier.h */
    uint32_t parties;         /* fixed */
    unsigned char apart[UM_LINE_REST(12)];
};

#define UMBRA_BARRIER_INIT(number) UM_BARRIER_INIT(number)

/*
 * Waits until all parties have come, until the deadline at the latest. Returns 1 to the last to come, and 0 to the other parties;
 * -EINVAL if the barrier is for 0 parties. After an error, -ETIMEDOUT too, the caller counts as not
 * having come: the others wait for as many as if it had never called. If the last party comes just
 * as the deadline passes, the barrier opens, and the call returns 0. More callers at a time than
 * parties: undefined; callers for which the barrier has opened do not count. Before a barrier is
 * freed, all calls must have returned: the last party still touches it when the others go on.
 * With UMBRA_NEVER a canceled fiber waits, too; with another deadline look at the result.
 */
UM_LINKONCE int umbra_barrier_wait(struct umbra_barrier *barrier, uint64_t deadline);

#define UM_SYNC_PLACE(type)                                                                        \
    UM_STATIC_ASSERT(__alignof__(type) <= UM_ANY_MEMORY, "malloc's memory will do");               \
    UM_STATIC_ASSERT(sizeof(type) % UMBRA_CACHE_LINE == 0, "in an array each has its lines")

UM_SYNC_PLACE(struct umbra_mutex);
UM_SYNC_PLACE(struct umbra_semaphore);
UM_SYNC_PLACE(struct umbra_rwlock);
UM_SYNC_PLACE(struct umbra_barrier);
UM_SYNC_PLACE(struct umbra_latch);

#include <umbra/sync/slow_paths.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_MUTEX_INIT                                                                              \
    {                                                                                              \
        .word = 0                                                                                  \
    }

#define UM_CONDITION_INIT                                                                          \
    {                                                                                              \
        .round = 0                                                                                 \
    }

#define UM_SEMAPHORE_INIT(initial)                                                                 \
    {                                                                                              \
        .word = (initial)*UM_SEMAPHORE_ONE                                                         \
    }

#define UM_RWLOCK_INIT                                                                             \
    {                                                                                              \
        .word = 0                                                                                  \
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

UM_STATIC_ASSERT(__alignof__(struct umbra_condition) <= UM_ANY_MEMORY, "malloc's memory will do");

UM_ALWAYS_INLINE void umbra_mutex_lock(struct umbra_mutex *mutex)
{
    if (UM_UNLIKELY(!um_mutex_try(mutex)))
        um_mutex_wait(mutex);
}

UM_ALWAYS_INLINE int umbra_mutex_lock_deadline(struct umbra_mutex *mutex, uint64_t deadline)
{
    return UM_LIKELY(um_mutex_try(mutex)) ? 0 : um_mutex_wait_deadline(mutex, deadline);
}

UM_ALWAYS_INLINE int umbra_semaphore_wait(struct umbra_semaphore *semaphore, uint64_t deadline)
{
    return um_semaphore_take(&semaphore->word) ? 0 : um_semaphore_wait(semaphore, deadline);
}

UM_INLINE void umbra_semaphore_post(struct umbra_semaphore *semaphore, uint64_t more)
{
    if (um_semaphore_add(&semaphore->word, more))
        um_semaphore_serve(semaphore, false);
}

UM_INLINE void umbra_semaphore_post_async(struct umbra_semaphore *semaphore, uint64_t more)
{
    if (um_semaphore_add(&semaphore->word, more))
        um_semaphore_serve(semaphore, true);
}

UM_ALWAYS_INLINE void umbra_rwlock_read(struct umbra_rwlock *lock)
{
    if (UM_UNLIKELY(!um_rwlock_come(&lock->word)))
        um_rwlock_wait(lock, false);
}

UM_ALWAYS_INLINE int umbra_rwlock_read_deadline(struct umbra_rwlock *lock, uint64_t deadline)
{
    /* a try looks first: tries in vain cost the holder two changes of the word */
    if (deadline == 0)
        return um_rwlock_take(&lock->word, false) ? 0 : -ETIMEDOUT;
    return um_rwlock_come(&lock->word) ? 0 : um_rwlock_wait_deadline(lock, false, deadline);
}

UM_ALWAYS_INLINE void umbra_rwlock_write(struct umbra_rwlock *lock)
{
    if (!um_rwlock_take(&lock->word, true))
        um_rwlock_wait(lock, true);
}

UM_ALWAYS_INLINE int umbra_rwlock_write_deadline(struct umbra_rwlock *lock, uint64_t deadline)
{
    return um_rwlock_take(&lock->word, true) ? 0 : um_rwlock_wait_deadline(lock, true, deadline);
}

UM_INLINE int umbra_rwlock_unlock(struct umbra_rwlock *lock)
{
    enum um_rwlock_given given = um_rwlock_give(&lock->word);

    if (given == UM_RWLOCK_LET_GO)
        um_rwlock_serve(lock);
    return given == UM_RWLOCK_FREE ? um_why(-EPERM, "the lock is free") : 0;
}

/* ---- latch ---- */

UM_INLINE int umbra_latch_count_down(struct umbra_latch *latch)
{
    uint64_t count = um_atomic_load(&latch->count, relaxed); /* only compared */

    do {
        if (count == 0)
            return um_why(-EINVAL, "the latch is open");
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
            return um_why(-EINVAL, "the latch is open");
        if (more > UINT64_MAX - count)
            return um_why(-EOVERFLOW, "the latch's count would be 2^64 or more");
        /* relaxed: only a number; the release sequence of the counts goes on across it */
    } while (!um_atomic_cas(&latch->count, &count, count + more, relaxed, relaxed));
    return 0;
}

#endif
