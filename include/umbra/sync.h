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
 * the waiters in their order (detail/event_protocol.h), each trying once, until one takes it: then
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

#include <umbra/detail/base.h>
#include <umbra/detail/lock_protocol.h>
#include <umbra/event.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

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
 * holding it leaves it locked for ever, for which see UMBRA_ASSERT (detail/base.h). */
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

UM_SYNC_PLACE(struct umbra_mutex);
UM_SYNC_PLACE(struct umbra_semaphore);
UM_SYNC_PLACE(struct umbra_rwlock);
UM_SYNC_PLACE(struct umbra_latch);
UM_SYNC_PLACE(struct umbra_barrier);
UM_SYNC_PLACE(struct umbra_once);
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

/* ---- waiting, common ---- */

/*
 * Waits for the event with a function that tries to take what `on` guards. kind, on, at: for reports.
 * at is where the program called: the return address of the outermost function that is not inlined.
 */
UM_LINKONCE int um_sync_wait(struct umbra_event *event, um_accept_fn *take, void *arg,
                             uint64_t deadline, const struct um_kind *kind, const void *on,
                             const void *at)
{
    struct um_await await = {.event = &event->event,
                             .accept = take,
                             .arg = arg,
                             .deadline = deadline,
                             .kind = kind,
                             .on = on,
                             .at = at};

    return um_await_run(&await);
}

/* W1, and its end. seq_cst: against G2 of whoever gives */
UM_INLINE void um_sync_announce(um_atomic_u32 *waiters, uint32_t change)
{
    um_atomic_fetch_add(waiters, change, seq_cst);
}

/* G2, G3. */
UM_INLINE void um_sync_given(um_atomic_u32 *waiters, struct umbra_event *event)
{
    if (UM_UNLIKELY(um_atomic_load(waiters, seq_cst) > 0)) /* against W1 */
        umbra_event_signal(event);
}

/* The calling fiber in this life, or thread: see um_fiber_self(). A fiber of a runtime in another
 * shared object counts as its thread. */
UM_INLINE uintptr_t um_sync_self(void)
{
    struct um_fiber *fiber = um_core_self ? um_core_current(um_core_self) : NULL;

    return fiber ? um_fiber_self(fiber, um_fiber_generation(fiber))
                 : um_arch_thread_id() | UM_SELF_THREAD;
}

/* ---- mutex ---- */

struct um_mutex_request {
    struct umbra_mutex *mutex;
    uintptr_t self;
};

UM_LINKONCE bool um_mutex_take(void *arg)
{
    struct um_mutex_request *request = arg;
    uintptr_t nobody = 0;

    /* seq_cst: W2; also acquires what the last owner wrote */
    return um_atomic_cas(&request->mutex->owner, &nobody, request->self, seq_cst, relaxed);
}

/* The calling fiber has one more, or one less. */
UM_INLINE void um_mutex_count(uint32_t change)
{
    struct um_fiber *fiber = UMBRA_ASSERT && um_core_self ? um_core_current(um_core_self) : NULL;

    if (fiber)
        fiber->mutexes += change;
}

UM_INLINE bool umbra_mutex_try(struct umbra_mutex *mutex)
{
    struct um_mutex_request request = {mutex, um_sync_self()};
    bool taken = um_mutex_take(&request);

    if (taken)
        um_mutex_count(1);
    return taken;
}

UM_LINKONCE void um_mutex_describe(struct um_text *text, const void *on)
{
    const struct umbra_mutex *mutex = on;

    um_report_holder(text, um_atomic_load(&mutex->owner, relaxed)); /* only looked at */
}

UM_LINKONCE const struct um_kind um_kind_mutex = {"mutex", um_mutex_describe};

UM_LINKONCE int um_mutex_wait_at(struct umbra_mutex *mutex, uint64_t deadline, const void *at)
{
    struct um_mutex_request request = {mutex, um_sync_self()};
    int error;

    if (um_atomic_load(&mutex->owner, relaxed) == request.self) /* nobody else writes that */
        return -EDEADLK;
    um_sync_announce(&mutex->waiters, 1);
    error =
        um_sync_wait(&mutex->event, um_mutex_take, &request, deadline, &um_kind_mutex, mutex, at);
    um_sync_announce(&mutex->waiters, UINT32_MAX);
    if (error == 0)
        um_mutex_count(1);
    return error;
}

UM_LINKONCE UM_NOINLINE int um_mutex_wait(struct umbra_mutex *mutex, uint64_t deadline)
{
    return um_mutex_wait_at(mutex, deadline, __builtin_return_address(0));
}

UM_ALWAYS_INLINE int umbra_mutex_lock_deadline(struct umbra_mutex *mutex, uint64_t deadline)
{
    return UM_LIKELY(umbra_mutex_try(mutex)) ? 0 : um_mutex_wait(mutex, deadline);
}

UM_ALWAYS_INLINE int umbra_mutex_lock(struct umbra_mutex *mutex)
{
    return umbra_mutex_lock_deadline(mutex, UMBRA_NEVER);
}

UM_INLINE int umbra_mutex_unlock(struct umbra_mutex *mutex)
{
    if (UM_UNLIKELY(um_atomic_load(&mutex->owner, relaxed) != um_sync_self())) /* as above */
        return -EPERM;
    um_mutex_count(UINT32_MAX);
    um_atomic_store(&mutex->owner, 0, seq_cst); /* G1; releases what the owner wrote */
    um_sync_given(&mutex->waiters, &mutex->event);
    return 0;
}

/* ---- condition variable ---- */

/*
 * One that waits: in its own frame, and in the list until it is notified or gives up. Who notifies all
 * takes the list and begins a new round: the list is his then, and those in it see that they are of an
 * older round, however many they are.
 */
struct um_condition_waiter {
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event notified;
    struct um_condition_waiter *next, *prev; /* under the list's lock, as what follows */
    bool listed;                             /* until it is taken from the list alone */
    uint64_t round;                          /* in which it came */
};

UM_LINKONCE void um_condition_append(struct umbra_condition *condition,
                                     struct um_condition_waiter *waiter)
{
    um_lock_take(&condition->list);
    waiter->listed = true;
    waiter->round = condition->round;
    waiter->prev = condition->last;
    if (condition->last)
        condition->last->next = waiter;
    else
        condition->first = waiter;
    condition->last = waiter;
    um_lock_release(&condition->list);
}

/* Under the list's lock. */
UM_LINKONCE void um_condition_unlink(struct umbra_condition *condition,
                                     struct um_condition_waiter *waiter)
{
    waiter->listed = false;
    if (waiter->next)
        waiter->next->prev = waiter->prev;
    else
        condition->last = waiter->prev;
    if (waiter->prev)
        waiter->prev->next = waiter->next;
    else
        condition->first = waiter->next;
}

/* Whether the waiter could give up: it had not been notified. */
UM_LINKONCE bool um_condition_give_up(struct umbra_condition *condition,
                                      struct um_condition_waiter *waiter)
{
    bool listed;

    um_lock_take(&condition->list);
    listed = waiter->listed && waiter->round == condition->round;
    if (listed)
        um_condition_unlink(condition, waiter);
    um_lock_release(&condition->list);
    return listed;
}

UM_LINKONCE const struct um_kind um_kind_condition = {"condition", NULL};

/* at: for reports */
UM_LINKONCE int um_condition_wait(struct umbra_condition *condition, struct umbra_mutex *mutex,
                                  uint64_t deadline, const void *at)
{
    struct um_condition_waiter waiter = {.notified = UMBRA_EVENT_INIT};
    int error = um_may_wait(); /* then what waits without a deadline below does not fail */

    if (error != 0)
        return error;
    if (um_atomic_load(&mutex->owner, relaxed) != um_sync_self()) /* as in unlock */
        return -EPERM;
    um_condition_append(condition, &waiter);
    umbra_mutex_unlock(mutex);
    error = um_sync_wait(&waiter.notified, NULL, NULL, deadline, &um_kind_condition, condition, at);
    umbra_shield();
    if (error != 0 && !um_condition_give_up(condition, &waiter))
        error = um_sync_wait(&waiter.notified, NULL, NULL, UMBRA_NEVER, &um_kind_condition,
                             condition, at);
    if (!umbra_mutex_try(mutex))
        um_mutex_wait_at(mutex, UMBRA_NEVER, at);
    umbra_unshield();
    return error;
}

UM_LINKONCE UM_NOINLINE int umbra_condition_wait_deadline(struct umbra_condition *condition,
                                                          struct umbra_mutex *mutex,
                                                          uint64_t deadline)
{
    return um_condition_wait(condition, mutex, deadline, __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_condition_wait(struct umbra_condition *condition,
                                                 struct umbra_mutex *mutex)
{
    return um_condition_wait(condition, mutex, UMBRA_NEVER, __builtin_return_address(0));
}

UM_LINKONCE void umbra_condition_notify(struct umbra_condition *condition)
{
    struct um_condition_waiter *waiter;

    um_lock_take(&condition->list);
    waiter = condition->first;
    if (waiter)
        um_condition_unlink(condition, waiter);
    um_lock_release(&condition->list);
    if (waiter)
        umbra_event_signal(&waiter->notified);
}

UM_LINKONCE void umbra_condition_notify_all(struct umbra_condition *condition)
{
    struct um_condition_waiter *waiter;

    um_lock_take(&condition->list);
    waiter = condition->first;
    condition->first = condition->last = NULL;
    condition->round++;
    um_lock_release(&condition->list);
    while (waiter) {
        struct um_condition_waiter *next = waiter->next; /* it may be gone once it is signaled */

        umbra_event_signal(&waiter->notified);
        waiter = next;
    }
}

/* ---- counting semaphore ---- */

UM_LINKONCE bool um_semaphore_take(void *arg)
{
    struct umbra_semaphore *semaphore = arg;
    uint64_t count = um_atomic_load(&semaphore->count, seq_cst); /* W2 */

    while (count > 0) /* acquire: what the poster wrote */
        if (um_atomic_cas(&semaphore->count, &count, count - 1, seq_cst, seq_cst))
            return true;
    return false;
}

UM_INLINE bool umbra_semaphore_try(struct umbra_semaphore *semaphore)
{
    return um_semaphore_take(semaphore);
}

UM_LINKONCE void um_semaphore_describe(struct um_text *text, const void *on)
{
    const struct umbra_semaphore *semaphore = on;

    um_text_add(text, " with count ");
    /* relaxed, here and in what describes the others: only looked at */
    um_text_add_number(text, um_atomic_load(&semaphore->count, relaxed), 10);
    um_text_add(text, ",");
}

UM_LINKONCE const struct um_kind um_kind_semaphore = {"semaphore", um_semaphore_describe};

UM_LINKONCE UM_NOINLINE int um_semaphore_wait(struct umbra_semaphore *semaphore, uint64_t deadline)
{
    int error;

    um_sync_announce(&semaphore->waiters, 1);
    error = um_sync_wait(&semaphore->event, um_semaphore_take, semaphore, deadline,
                         &um_kind_semaphore, semaphore, __builtin_return_address(0));
    um_sync_announce(&semaphore->waiters, UINT32_MAX);
    return error;
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

/* G1, G2: adds some. How many signals are due: who announces himself after G2 sees the count at W2. */
UM_INLINE uint64_t um_semaphore_give(struct umbra_semaphore *semaphore, uint64_t more)
{
    uint64_t waiters;

    um_atomic_fetch_add(&semaphore->count, more, seq_cst);
    waiters = um_atomic_load(&semaphore->waiters, seq_cst); /* against W1 */
    return more < waiters ? more : waiters;
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

/* ---- read-write lock ---- */

#define UM_RWLOCK_HELD UINT64_C(0xffffffff) /* how many readers; a writer: all of them */
#define UM_RWLOCK_WRITER UINT64_C(0xffffffff)
#define UM_RWLOCK_WRITER_WAITS (UINT64_C(1) << 32)

UM_LINKONCE bool um_rwlock_take_read(void *arg)
{
    struct umbra_rwlock *lock = arg;
    uint64_t state = um_atomic_load(&lock->state, seq_cst); /* W2 */

    while (state < UM_RWLOCK_WRITER - 1) /* no writer, and none that waits */
        if (um_atomic_cas(&lock->state, &state, state + 1, seq_cst, seq_cst))
            return true;
    return false;
}

/* For a writer that has announced itself. */
UM_LINKONCE bool um_rwlock_take_write(void *arg)
{
    struct umbra_rwlock *lock = arg;
    uint64_t state = um_atomic_load(&lock->state, seq_cst); /* W2 */

    while ((state & UM_RWLOCK_HELD) == 0)
        if (um_atomic_cas(&lock->state, &state, (state - UM_RWLOCK_WRITER_WAITS) | UM_RWLOCK_WRITER,
                          seq_cst, seq_cst))
            return true;
    return false;
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

UM_LINKONCE void um_rwlock_describe(struct um_text *text, const void *on)
{
    const struct umbra_rwlock *lock = on;
    uint64_t state = um_atomic_load(&lock->state, relaxed);

    if ((state & UM_RWLOCK_HELD) == UM_RWLOCK_WRITER) {
        um_text_add(text, " held by a writer,");
        return;
    }
    um_text_add(text, " held by ");
    um_text_add_number(text, state & UM_RWLOCK_HELD, 10);
    um_text_add(text, (state & UM_RWLOCK_HELD) == 1 ? " reader," : " readers,");
}

UM_LINKONCE const struct um_kind um_kind_read_lock = {"read lock", um_rwlock_describe};
UM_LINKONCE const struct um_kind um_kind_write_lock = {"write lock", um_rwlock_describe};

/* One signal releases one reader: each that was released lets the next one ask. */
UM_LINKONCE UM_NOINLINE int um_rwlock_wait_read(struct umbra_rwlock *lock, uint64_t deadline)
{
    int error;

    um_sync_announce(&lock->waiters, 1);
    error = um_sync_wait(&lock->event, um_rwlock_take_read, lock, deadline, &um_kind_read_lock,
                         lock, __builtin_return_address(0));
    um_sync_announce(&lock->waiters, UINT32_MAX);
    um_sync_given(&lock->waiters, &lock->event);
    return error;
}

/* A writer that gives up lets the readers in that it kept out. */
UM_LINKONCE UM_NOINLINE int um_rwlock_wait_write(struct umbra_rwlock *lock, uint64_t deadline)
{
    int error;

    um_atomic_fetch_add(&lock->state, UM_RWLOCK_WRITER_WAITS, seq_cst);
    um_sync_announce(&lock->waiters, 1);
    error = um_sync_wait(&lock->event, um_rwlock_take_write, lock, deadline, &um_kind_write_lock,
                         lock, __builtin_return_address(0));
    if (error != 0)
        um_atomic_fetch_add(&lock->state, 0 - UM_RWLOCK_WRITER_WAITS, seq_cst); /* G1 */
    um_sync_announce(&lock->waiters, UINT32_MAX);
    if (error != 0)
        um_sync_given(&lock->waiters, &lock->event);
    return error;
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

UM_LINKONCE void um_latch_describe(struct um_text *text, const void *on)
{
    const struct umbra_latch *latch = on;

    um_text_add(text, " with count ");
    um_text_add_number(text, um_atomic_load(&latch->count, relaxed), 10);
    um_text_add(text, ",");
}

UM_LINKONCE const struct um_kind um_kind_latch = {"latch", um_latch_describe};

UM_LINKONCE UM_NOINLINE int umbra_latch_wait(struct umbra_latch *latch, uint64_t deadline)
{
    return um_sync_wait(&latch->event, NULL, NULL, deadline, &um_kind_latch, latch,
                        __builtin_return_address(0));
}

/* ---- barrier ---- */

UM_LINKONCE void um_barrier_describe(struct um_text *text, const void *on)
{
    const struct umbra_barrier *barrier = on;

    um_text_add(text, " where ");
    um_text_add_number(text, (uint32_t)um_atomic_load(&barrier->state, relaxed), 10);
    um_text_add(text, " of ");
    um_text_add_number(text, barrier->parties, 10);
    um_text_add(text, " have come,");
}

UM_LINKONCE const struct um_kind um_kind_barrier = {"barrier", um_barrier_describe};

/*
 * Takes an arrival back: true if all have not come yet, and then they cannot before there is another. If
 * they have, the barrier has opened, or the last to come is about to.
 */
UM_LINKONCE bool um_barrier_leave(struct umbra_barrier *barrier, uint64_t opened)
{
    uint64_t state = um_atomic_load(&barrier->state, relaxed); /* only compared */

    do {
        if (state >> 32 != opened || (uint32_t)state == barrier->parties)
            return false;
        /* relaxed: a number; the others go on with each other's writes across it */
    } while (!um_atomic_cas(&barrier->state, &state, state - 1, relaxed, relaxed));
    return true;
}

/*
 * A caller that gives up and comes again finds the event it has left: none opens, and so none resets the
 * other event, before all who wait for that have returned, since they are among the parties.
 */
UM_LINKONCE int um_barrier_wait(struct umbra_barrier *barrier, uint64_t deadline, const void *at)
{
    struct umbra_event *mine;
    uint64_t state, opened;
    int error = um_may_wait(); /* then the firm wait below does not fail */

    if (error != 0)
        return error;
    /* acq_rel: what each party wrote before is visible to all after */
    state = um_atomic_fetch_add(&barrier->state, 1, acq_rel);
    opened = state >> 32;
    mine = &barrier->event[opened & 1];
    if ((uint32_t)state + 1 < barrier->parties) {
        error = um_sync_wait(mine, NULL, NULL, deadline, &um_kind_barrier, barrier, at);
        if (error != 0 && um_barrier_leave(barrier, opened))
            return error;
        if (error != 0)
            um_event_wait_firm(mine, NULL, NULL, &um_kind_barrier, barrier, at);
        return 0;
    }
    /* the other event's waiters have all come here since; nobody comes before the signal */
    umbra_event_reset(&barrier->event[~opened & 1]);
    um_atomic_store(&barrier->state, (opened + 1) << 32, release); /* pairs with the next to come */
    umbra_event_signal(mine);
    return 1;
}

UM_LINKONCE UM_NOINLINE int umbra_barrier_wait(struct umbra_barrier *barrier)
{
    return um_barrier_wait(barrier, UMBRA_NEVER, __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_barrier_wait_deadline(struct umbra_barrier *barrier,
                                                        uint64_t deadline)
{
    return um_barrier_wait(barrier, deadline, __builtin_return_address(0));
}

/* ---- once ---- */

#define UM_ONCE_RUNNING 1u
#define UM_ONCE_DONE 2u

UM_LINKONCE const struct um_kind um_kind_once = {"once", NULL};

UM_LINKONCE UM_NOINLINE int um_once_slowly(struct umbra_once *once, void (*fn)(void *arg),
                                           void *arg)
{
    uint32_t state = 0;

    if (!um_atomic_cas(&once->state, &state, UM_ONCE_RUNNING, relaxed, relaxed))
        return um_sync_wait(&once->event, NULL, NULL, UMBRA_NEVER, &um_kind_once, once,
                            __builtin_return_address(0));
    fn(arg);
    umbra_event_signal(&once->event);
    um_atomic_store(&once->state, UM_ONCE_DONE, release); /* pairs with umbra_once() */
    return 0;
}

UM_ALWAYS_INLINE int umbra_once(struct umbra_once *once, void (*fn)(void *arg), void *arg)
{
    /* acquire: what fn did; pairs with um_once_slowly() */
    if (UM_LIKELY(um_atomic_load(&once->state, acquire) == UM_ONCE_DONE))
        return 0;
    return um_once_slowly(once, fn, arg);
}

#endif
