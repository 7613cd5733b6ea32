/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/sync.h: the slow paths of mutex, condition, semaphore, read-write lock,
 * barrier, latch and once. Private; included by that header, after its declarations. W1, W2, G1, G2
 * and G3 are the steps of the table there.
 */
#ifndef UMBRA_IMPL_SYNC_H
#define UMBRA_IMPL_SYNC_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/event.h>
#include <umbra/protocol/barrier.h>
#include <umbra/protocol/claim.h>
#include <umbra/protocol/lock.h>
#include <umbra/protocol/mutex.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* G2, G3. */
UM_INLINE void um_sync_given(um_atomic_u32 *waiters, struct umbra_event *event)
{
    if (UM_UNLIKELY(um_atomic_load(waiters, seq_cst) > 0)) /* against W1 */
        umbra_event_signal(event);
}

/* The identity of the calling fiber in this generation, or of the calling thread: see
 * um_fiber_self(). A fiber of a runtime in another shared object counts as its thread. */
UM_INLINE uintptr_t um_sync_self(void)
{
    struct um_fiber *fiber = um_core_self ? um_core_current(um_core_self) : NULL;

    return fiber ? um_fiber_self(fiber, um_fiber_generation(fiber)) : um_thread_self();
}

/* ---- mutex ---- */

/* The calling fiber holds one mutex more, or one less. */
UM_INLINE void um_mutex_count(uint32_t change)
{
    struct um_fiber *fiber = UMBRA_ASSERT && um_core_self ? um_core_current(um_core_self) : NULL;

    if (fiber)
        fiber->mutexes += change;
}

/* True if the mutex was free and is now the caller's. */
UM_INLINE bool um_mutex_try(struct umbra_mutex *mutex)
{
    bool taken = um_mutex_take_from(&mutex->owner, UM_MUTEX_FREE, um_sync_self());

    if (taken)
        um_mutex_count(1);
    return taken;
}

/* True if a called waiter has not had the mutex for so long that it is promised it. */
UM_INLINE bool um_mutex_overdue(const struct umbra_mutex *mutex)
{
    /* relaxed, both: only fairness depends on them */
    return UM_UNLIKELY(um_mutex_has_called(um_atomic_load(&mutex->waiters, relaxed))) &&
           umbra_cycles() > um_atomic_load(&mutex->due, relaxed);
}

UM_INLINE int umbra_mutex_unlock(struct umbra_mutex *mutex)
{
    /* relaxed: only the caller can have written its own identity */
    if (UM_UNLIKELY(um_atomic_load(&mutex->owner, relaxed) != um_sync_self()))
        return -EPERM;
    um_mutex_count(UINT32_MAX);
    if (UM_UNLIKELY(um_mutex_give(&mutex->owner, &mutex->waiters, um_mutex_overdue(mutex))))
        umbra_event_signal(&mutex->event); /* G3 */
    return 0;
}

/* ---- condition variable ---- */

/*
 * A waiter, in its own frame. It is in the list until it is notified or gives up. A call that
 * notifies all takes the whole list and begins a new round; from then on only that call walks the
 * list. Its waiters, however many, see that their round is over.
 */
struct um_condition_waiter {
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event notified;
    struct um_condition_waiter *next, *prev; /* these and the following: under the list's lock */
    bool listed;                             /* until it is unlinked alone; notify_all leaves it */
    uint64_t round;                          /* in which it began to wait */
};

/* G1, G2: adds `more`. Returns how many signals are due. A waiter that does W1 after G2 sees the
 * new count at W2. */
UM_INLINE uint64_t um_semaphore_give(struct umbra_semaphore *semaphore, uint64_t more)
{
    uint64_t waiters;

    um_atomic_fetch_add(&semaphore->count, more, seq_cst);
    waiters = um_atomic_load(&semaphore->waiters, seq_cst); /* against W1 */
    return more < waiters ? more : waiters;
}

/* ---- read-write lock ---- */

#define UM_RWLOCK_HELD UINT64_C(0xffffffff) /* the number of readers; all bits: a writer */
#define UM_RWLOCK_WRITER UINT64_C(0xffffffff)

/* Of the parties of the present meeting, how many have come. */
UM_INLINE uint32_t um_barrier_come(const struct umbra_barrier *barrier)
{
    uint64_t state = um_atomic_load(&barrier->state, relaxed); /* for display only */

    return (uint32_t)(state / UM_BARRIER_ONE % barrier->parties);
}

#define UM_ONCE_DONE 2u

UM_LINKONCE UM_NOINLINE int um_mutex_wait(struct umbra_mutex *mutex, uint64_t deadline);
UM_LINKONCE bool um_semaphore_take(void *arg);
UM_LINKONCE UM_NOINLINE int um_semaphore_wait(struct umbra_semaphore *semaphore, uint64_t deadline);
UM_LINKONCE bool um_rwlock_take_read(void *arg);
UM_LINKONCE UM_NOINLINE int um_rwlock_wait_read(struct umbra_rwlock *lock, uint64_t deadline);
UM_LINKONCE UM_NOINLINE int um_rwlock_wait_write(struct umbra_rwlock *lock, uint64_t deadline);
UM_LINKONCE UM_NOINLINE int um_once_slow(struct umbra_once *once, void (*fn)(void *arg), void *arg);

#ifdef UMBRA_IMPLEMENTATION

/* ---- waiting, common ---- */

/*
 * Waits for the event with a function that tries to take the resource of `on`. kind, on, at: for
 * reports. at: the place of the program's call, which is the return address of the outermost
 * function that is not inlined.
 */
UM_LINKONCE int um_sync_wait(struct umbra_event *event, um_accept_fn *take, void *arg,
                             uint64_t deadline, const struct um_kind *kind, const void *on,
                             const void *at)
{
    struct um_await await = {.event = &event->event,
                             .accept = take,
                             .arg = arg,
                             .deadline = um_deadline_cycles(deadline),
                             .kind = kind,
                             .on = on,
                             .at = at};

    return um_await_run(&await);
}

/* W1, and its end. seq_cst: against G2 of the giver */
UM_INLINE void um_sync_announce(um_atomic_u32 *waiters, uint32_t change)
{
    um_atomic_fetch_add(waiters, change, seq_cst);
}

struct um_mutex_request {
    struct umbra_mutex *mutex;
    uintptr_t self;
    uint64_t since;     /* when it queued first, a time stamp; waiter, before it queues */
    uint64_t announced; /* 0, UM_MUTEX_FIRM or UM_MUTEX_PATIENT; written as `since` */
    uint32_t gap;       /* polls in place between two looks */
    uint32_t left;      /* of them, before the next look */
    bool crowded;       /* the last look saw a firm waiter */
    bool called;        /* waiter, or the event's holder before it wakes the waiter; so is taken */
    bool taken;
};

#define UM_MUTEX_GAP 64 /* at most; about 1 us */

/*
 * A poll in place: a look, or nothing but the time of a poll. The longer the mutex is held, the
 * rarer the looks: each takes the line from the holder, which then takes it back to unlock. A
 * holder that comes again at once so has many turns for each time that the line moves. Polls
 * without a look, not pauses, make the looks rare, since the spin phase is measured after so many
 * polls, and ends then.
 */
UM_LINKONCE bool um_mutex_spin(struct um_mutex_request *request)
{
    struct umbra_mutex *mutex = request->mutex;

    if (request->left > 0) {
        request->left--;
        return false;
    }
    request->taken = um_mutex_look(&mutex->owner, &mutex->waiters, request->self, request->called);
    /* relaxed: only fairness depends on it */
    request->crowded = um_mutex_has_firm(um_atomic_load(&mutex->waiters, relaxed));
    request->gap = request->gap < UM_MUTEX_GAP ? 2 * request->gap : UM_MUTEX_GAP;
    request->left = request->gap;
    return request->taken;
}

/* True if the waiter has queued for so long that no newcomer may overtake it. */
UM_INLINE bool um_mutex_impatient(const struct um_mutex_request *request, uint64_t now)
{
    return now - request->since > umbra_ns_to_cycles(UMBRA_MUTEX_PATIENCE_NS);
}

/* Calls a patient waiter, takes the mutex for it, or refuses, if callers came first; then it becomes
 * firm if it has queued for long: in its event's holder. */
UM_LINKONCE bool um_mutex_accept_patient(struct um_mutex_request *request)
{
    struct umbra_mutex *mutex = request->mutex;
    enum um_mutex_offer offer =
        um_mutex_offer_patient(&mutex->owner, &mutex->waiters, request->self);

    request->taken = offer == UM_MUTEX_TAKEN;
    request->called = offer == UM_MUTEX_CALLS;
    if (request->called) /* relaxed: only fairness depends on it */
        um_atomic_store(&mutex->due, um_cycles_after(UMBRA_MUTEX_CALL_NS), relaxed);
    if (offer == UM_MUTEX_REFUSED && um_mutex_impatient(request, umbra_cycles())) {
        request->announced = UM_MUTEX_FIRM;
        request->taken = um_mutex_take_as_firm(&mutex->owner, &mutex->waiters, request->self);
        return request->taken;
    }
    return offer != UM_MUTEX_REFUSED;
}

/* Ends a wait in place, or in the event's holder. */
UM_LINKONCE bool um_mutex_accept(void *arg)
{
    struct um_mutex_request *request = arg;

    if (!request->announced || request->called)
        return um_mutex_spin(request);
    if (request->announced == UM_MUTEX_PATIENT)
        return um_mutex_accept_patient(request);
    request->taken = um_mutex_take_announced(&request->mutex->owner, request->self);
    return request->taken;
}

/* Counts the waiter as `as`, or no longer if that is 0, and as one that is not called. */
UM_LINKONCE void um_mutex_announce_as(struct um_mutex_request *request, uint64_t as)
{
    struct umbra_mutex *mutex = request->mutex;
    uint64_t before = request->announced | (request->called ? UM_MUTEX_CALLED : 0);

    um_mutex_announce_change(&mutex->waiters, as - before);
    if (request->called && !request->taken)
        um_mutex_release_promise(&mutex->owner);
    request->announced = as;
    request->called = false;
}

UM_LINKONCE void um_mutex_announce(void *arg)
{
    struct um_mutex_request *request = arg;
    uint64_t now = umbra_cycles();
    bool firm = (request->self & UM_SELF_THREAD) == 0;

    if (!request->announced)
        request->since = now;
    firm |= um_mutex_impatient(request, now);
    um_mutex_announce_as(request, firm ? UM_MUTEX_FIRM : UM_MUTEX_PATIENT);
}

UM_LINKONCE void um_mutex_describe(struct um_text *text, const void *on)
{
    const struct umbra_mutex *mutex = on;
    uintptr_t owner = um_atomic_load(&mutex->owner, relaxed); /* for display only */

    um_report_holder(text, owner <= UM_MUTEX_PROMISED ? UM_MUTEX_FREE : owner);
}

UM_SHARED(const struct um_kind um_kind_mutex, {"mutex", um_mutex_describe});

/* Waits until the mutex is the caller's, as often as it is called in vain. 0 or an error. */
UM_LINKONCE int um_mutex_queue(const struct um_await *await, struct um_mutex_request *request)
{
    struct umbra_mutex *mutex = request->mutex;
    int error;

    do {
        request->gap = 1;
        request->left = 0;
        error = um_await_run(await);
    } while (error == 0 && !request->taken);
    if (request->announced) {
        um_mutex_announce_as(request, 0);
        /* it may have been called last: then no other waiter was. seq_cst: against W1 */
        if (error != 0 && um_atomic_load(&mutex->waiters, seq_cst) > 0)
            umbra_event_signal(&mutex->event);
    }
    return error;
}

UM_LINKONCE int um_mutex_wait_at(struct umbra_mutex *mutex, uint64_t deadline, const void *at)
{
    struct um_mutex_request request = {.mutex = mutex, .self = um_sync_self()};
    struct um_await await = {.event = &mutex->event.event,
                             .accept = um_mutex_accept,
                             .announce = um_mutex_announce,
                             .arg = &request,
                             .crowded = &request.crowded,
                             .kind = &um_kind_mutex,
                             .on = mutex,
                             .at = at};
    int error = 0;

    /* relaxed: only the caller can have written its own identity */
    if (um_atomic_load(&mutex->owner, relaxed) == request.self)
        return -EDEADLK;
    if (!um_mutex_look(&mutex->owner, &mutex->waiters, request.self, false)) {
        if (deadline == 0)
            return -ETIMEDOUT;
        await.deadline = um_deadline_cycles(deadline);
        error = um_mutex_queue(&await, &request);
    }
    if (error == 0)
        um_mutex_count(1);
    return error;
}

UM_LINKONCE UM_NOINLINE int um_mutex_wait(struct umbra_mutex *mutex, uint64_t deadline)
{
    return um_mutex_wait_at(mutex, deadline, __builtin_return_address(0));
}

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

/* True if the waiter could give up, since it had not been notified. */
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

UM_SHARED(const struct um_kind um_kind_condition, {"condition", NULL});

UM_LINKONCE UM_NOINLINE int umbra_condition_wait(struct umbra_condition *condition,
                                                 struct umbra_mutex *mutex, uint64_t deadline)
{
    const void *at = __builtin_return_address(0); /* for reports */
    struct um_condition_waiter waiter = {.notified = UMBRA_EVENT_INIT};
    int error = um_may_wait(); /* after 0 the waits below without a deadline do not fail */

    if (error != 0)
        return error;
    if (um_atomic_load(&mutex->owner, relaxed) != um_sync_self()) /* as in unlock */
        return -EPERM;
    um_condition_append(condition, &waiter);
    umbra_mutex_unlock(mutex);
    error = um_sync_wait(&waiter.notified, NULL, NULL, deadline, &um_kind_condition, condition, at);
    umbra_shield(true);
    if (error != 0 && !um_condition_give_up(condition, &waiter))
        error = um_sync_wait(&waiter.notified, NULL, NULL, UMBRA_NEVER, &um_kind_condition,
                             condition, at);
    if (!um_mutex_try(mutex))
        um_mutex_wait_at(mutex, UMBRA_NEVER, at);
    umbra_shield(false);
    return error;
}

UM_LINKONCE void um_condition_notify_one(struct umbra_condition *condition)
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

UM_LINKONCE void um_condition_notify_all(struct umbra_condition *condition)
{
    struct um_condition_waiter *waiter;

    um_lock_take(&condition->list);
    waiter = condition->first;
    condition->first = condition->last = NULL;
    condition->round++;
    um_lock_release(&condition->list);
    while (waiter) {
        struct um_condition_waiter *next = waiter->next; /* its frame may end at the signal */

        umbra_event_signal(&waiter->notified);
        waiter = next;
    }
}

UM_LINKONCE void umbra_condition_notify(struct umbra_condition *condition, bool all)
{
    if (all)
        um_condition_notify_all(condition);
    else
        um_condition_notify_one(condition);
}

/* ---- counting semaphore ---- */

UM_LINKONCE bool um_semaphore_take(void *arg)
{
    struct umbra_semaphore *semaphore = arg;
    uint64_t count = um_atomic_load(&semaphore->count, seq_cst); /* W2 */

    while (count > 0) /* acquires what the poster wrote */
        if (um_atomic_cas(&semaphore->count, &count, count - 1, seq_cst, seq_cst))
            return true;
    return false;
}

UM_LINKONCE void um_semaphore_describe(struct um_text *text, const void *on)
{
    const struct umbra_semaphore *semaphore = on;

    um_text_add(text, " with count ");
    /* relaxed, here and in the other describe functions: for display only */
    um_text_add_number(text, um_atomic_load(&semaphore->count, relaxed), 10);
    um_text_add(text, ",");
}

UM_SHARED(const struct um_kind um_kind_semaphore, {"semaphore", um_semaphore_describe});

struct um_semaphore_request {
    struct umbra_semaphore *semaphore;
    bool announced; /* waiter; the event's holders do not read it */
};

UM_LINKONCE bool um_semaphore_accept(void *arg)
{
    struct um_semaphore_request *request = arg;

    return um_semaphore_take(request->semaphore);
}

/* W1. Only a waiter that queues does it: a post then signals, and takes the event's line. */
UM_LINKONCE void um_semaphore_announce(void *arg)
{
    struct um_semaphore_request *request = arg;

    request->announced = true;
    um_sync_announce(&request->semaphore->waiters, 1);
}

UM_LINKONCE UM_NOINLINE int um_semaphore_wait(struct umbra_semaphore *semaphore, uint64_t deadline)
{
    struct um_semaphore_request request = {.semaphore = semaphore};
    struct um_await await = {.event = &semaphore->event.event,
                             .accept = um_semaphore_accept,
                             .announce = um_semaphore_announce,
                             .arg = &request,
                             .kind = &um_kind_semaphore,
                             .on = semaphore,
                             .at = __builtin_return_address(0)};
    int error;

    if (deadline == 0)
        return -ETIMEDOUT;
    await.deadline = um_deadline_cycles(deadline);
    error = um_await_run(&await);
    if (request.announced)
        um_sync_announce(&semaphore->waiters, UINT32_MAX);
    return error;
}

#define UM_RWLOCK_WRITER_WAITS (UINT64_C(1) << 32)

UM_LINKONCE bool um_rwlock_take_read(void *arg)
{
    struct umbra_rwlock *lock = arg;
    uint64_t state = um_atomic_load(&lock->state, seq_cst); /* W2 */

    while (state < UM_RWLOCK_WRITER - 1) /* no writer has it or waits */
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

UM_SHARED(const struct um_kind um_kind_read_lock, {"read lock", um_rwlock_describe});
UM_SHARED(const struct um_kind um_kind_write_lock, {"write lock", um_rwlock_describe});

/* One signal releases one reader; each released reader signals the next one. */
UM_LINKONCE UM_NOINLINE int um_rwlock_wait_read(struct umbra_rwlock *lock, uint64_t deadline)
{
    int error;

    if (deadline == 0)
        return -ETIMEDOUT;
    um_sync_announce(&lock->waiters, 1);
    error = um_sync_wait(&lock->event, um_rwlock_take_read, lock, deadline, &um_kind_read_lock,
                         lock, __builtin_return_address(0));
    um_sync_announce(&lock->waiters, UINT32_MAX);
    um_sync_given(&lock->waiters, &lock->event);
    return error;
}

/* A writer that gives up lets in the readers that it kept out. */
UM_LINKONCE UM_NOINLINE int um_rwlock_wait_write(struct umbra_rwlock *lock, uint64_t deadline)
{
    int error;

    if (deadline == 0)
        return -ETIMEDOUT;
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

UM_LINKONCE void um_latch_describe(struct um_text *text, const void *on)
{
    const struct umbra_latch *latch = on;

    um_text_add(text, " with count ");
    um_text_add_number(text, um_atomic_load(&latch->count, relaxed), 10);
    um_text_add(text, ",");
}

UM_SHARED(const struct um_kind um_kind_latch, {"latch", um_latch_describe});

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
    um_text_add_number(text, um_barrier_come(barrier), 10);
    um_text_add(text, " of ");
    um_text_add_number(text, barrier->parties, 10);
    um_text_add(text, " have come,");
}

UM_SHARED(const struct um_kind um_kind_barrier, {"barrier", um_barrier_describe});

UM_LINKONCE bool um_barrier_accept(void *arg)
{
    struct um_barrier_arrival *arrival = arg;

    return um_barrier_is_open(arrival);
}

UM_LINKONCE void um_barrier_queue(void *arg)
{
    struct um_barrier_arrival *arrival = arg;

    um_barrier_announce(arrival);
}

/*
 * True if the barrier opens while the caller looks at it in place: for one batch of looks, which
 * reads no clock. A fiber looks if its core has nothing else to do, a thread from its second wait
 * on: its first one orders what is known of polls. A look asks for nothing to write: it would take
 * the line from the others.
 */
UM_INLINE bool um_barrier_opens_soon(const struct um_barrier_arrival *arrival)
{
    struct umbra_core *core = um_core_self;
    struct um_polls polls;

    if (!um_await_may_look() || (core ? um_core_attention(core) : !um_sleeper_self))
        return false;
    polls = core ? um_polls_load(&core->runtime->polls[UMBRA_POLL_EVENT]) : um_sleepers.polls;
    for (uint32_t i = 0; i < polls.batch; i++) {
        if (um_barrier_is_open(arrival))
            return true;
        um_gap_pass(polls.gap & ~UMBRA_GAP_WRITE, arrival->state);
    }
    return false;
}

/* A party that was not the last waits. */
UM_LINKONCE UM_NOINLINE int um_barrier_await(struct umbra_barrier *barrier,
                                             struct um_barrier_arrival *arrival, uint64_t deadline,
                                             const void *at)
{
    struct um_await await = {.event = &barrier->event.event,
                             .accept = um_barrier_accept,
                             .announce = um_barrier_queue,
                             .arg = arrival,
                             .deadline = um_deadline_cycles(deadline),
                             .kind = &um_kind_barrier,
                             .on = barrier,
                             .at = at};
    int error = um_await_run(&await);

    return error != 0 && um_barrier_leave(arrival) ? error : 0;
}

UM_INLINE int um_barrier_wait(struct umbra_barrier *barrier, uint64_t deadline, const void *at)
{
    struct um_barrier_arrival arrival;

    if (barrier->parties == 0)
        return -EINVAL;
    arrival = um_barrier_arrive(&barrier->state, barrier->parties);
    if (arrival.last) {
        if (arrival.signal) {
            um_barrier_clear(&arrival, barrier->parties);
            umbra_event_signal(&barrier->event);
        }
        return 1;
    }
    return um_barrier_opens_soon(&arrival) ? 0 : um_barrier_await(barrier, &arrival, deadline, at);
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

UM_SHARED(const struct um_kind um_kind_once, {"once", NULL});

UM_LINKONCE UM_NOINLINE int um_once_slow(struct umbra_once *once, void (*fn)(void *arg), void *arg)
{
    uint32_t state = 0;

    if (!fn)
        return -EINVAL;
    if (!um_atomic_cas(&once->state, &state, UM_ONCE_RUNNING, relaxed, relaxed))
        return um_sync_wait(&once->event, NULL, NULL, UMBRA_NEVER, &um_kind_once, once,
                            __builtin_return_address(0));
    fn(arg);
    umbra_event_signal(&once->event);
    um_atomic_store(&once->state, UM_ONCE_DONE, release); /* pairs with umbra_once() */
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
