/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/sync.h: the slow paths of mutex, condition, semaphore, read-write lock,
 * barrier and latch. Private; included by that header, after its declarations.
 */
#ifndef UMBRA_SYNC_SLOW_PATHS_H
#define UMBRA_SYNC_SLOW_PATHS_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/event.h>
#include <umbra/sync/barrier.h>
#include <umbra/sync/mutex.h>
#include <umbra/sync/rwlock.h>
#include <umbra/sync/semaphore.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* The identity of the calling fiber in this generation, or of the calling thread: see
 * um_fiber_self(). A fiber of a runtime in another shared object counts as its thread. */
UM_INLINE uintptr_t um_sync_self(void)
{
    struct um_fiber *fiber = um_core_self ? um_core_current(um_core_self) : NULL;

    return fiber ? um_fiber_self(fiber, um_fiber_generation(fiber)) : um_thread_self();
}

/* ---- mutex ---- */

UM_LINKONCE UM_NOINLINE void um_mutex_wait(struct umbra_mutex *mutex);
UM_LINKONCE UM_NOINLINE int um_mutex_wait_deadline(struct umbra_mutex *mutex, uint64_t deadline);
UM_LINKONCE void um_mutex_unlock_slow(struct umbra_mutex *mutex);

/* The calling fiber holds one mutex more, or one less. */
UM_INLINE void um_mutex_count(uint32_t change)
{
    struct um_fiber *fiber = UMBRA_ASSERT && um_core_self ? um_core_current(um_core_self) : NULL;

    if (fiber)
        fiber->mutexes += change;
}

/* The mutex has just become the caller's. */
UM_INLINE void um_mutex_own(struct umbra_mutex *mutex, uintptr_t self)
{
    um_atomic_store(&mutex->owner, self, relaxed); /* only its writer compares it */
    um_mutex_count(1);
}

/* True if the mutex was free and is now the caller's. */
UM_INLINE bool um_mutex_try(struct umbra_mutex *mutex)
{
    bool taken = um_mutex_try_word(&mutex->word);

    if (UM_LIKELY(taken))
        um_mutex_own(mutex, um_sync_self());
    return taken;
}

UM_LINKONCE UM_COLD int um_mutex_refusal(const struct umbra_mutex *mutex);

UM_INLINE int umbra_mutex_unlock(struct umbra_mutex *mutex)
{
    uint64_t held = UM_MUTEX_HELD;

    /* relaxed: only the caller can have written its own identity */
    if (UM_UNLIKELY(um_atomic_load(&mutex->owner, relaxed) != um_sync_self()))
        return um_mutex_refusal(mutex);
    um_mutex_count(UINT32_MAX);
    um_atomic_store(&mutex->owner, 0, relaxed); /* as above */
    /* release: pairs with um_mutex_try_word(). The last step, if there is no waiter */
    if (UM_UNLIKELY(!um_atomic_cas(&mutex->word, &held, 0, release, relaxed)))
        um_mutex_unlock_slow(mutex);
    return 0;
}

/* ---- barrier ---- */

/* Of the parties of the present meeting, how many have come. */
UM_INLINE uint32_t um_barrier_come(const struct umbra_barrier *barrier)
{
    uint64_t state = um_atomic_load(&barrier->state, relaxed); /* for display only */

    return (uint32_t)(state / UM_BARRIER_ONE % barrier->parties);
}

UM_LINKONCE UM_NOINLINE int um_semaphore_wait(struct umbra_semaphore *semaphore, uint64_t deadline);
UM_LINKONCE void um_semaphore_serve(struct umbra_semaphore *semaphore, bool async);
UM_LINKONCE UM_NOINLINE void um_rwlock_wait(struct umbra_rwlock *lock, bool writer);
UM_LINKONCE UM_NOINLINE int um_rwlock_wait_deadline(struct umbra_rwlock *lock, bool writer,
                                                    uint64_t deadline);
UM_LINKONCE void um_rwlock_serve(struct umbra_rwlock *lock);

#ifdef UMBRA_IMPLEMENTATION

/* ---- waiting, common ---- */

/* A waiter, in the frame of its call: in the list of a mutex, semaphore, read-write lock or
 * condition. */
struct um_sync_waiter {
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_waiter waiter;
    um_plain(uint64_t) round;  /* of a condition, in which it began to wait, or UM_NOTIFIED_ALONE;
                                  under the list's lock */
    struct umbra_mutex *mutex; /* of a condition, as fiber; fixed */
    struct um_fiber *fiber;    /* NULL: a thread */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event given; /* its bell */
};

/* A call that waits for a mutex, semaphore or read-write lock. */
struct um_sync_request {
    struct um_sync_waiter waiter;
    void *on;
    um_atomic_u64 *word; /* of the object, as list */
    struct um_waiters *list;
    bool (*look)(void *request);    /* true: the caller has it. Sets crowded */
    void (*prepare)(void *request); /* or NULL: called before the waiter joins the list */
    bool (*try_list)(um_atomic_u64 *word, uint64_t clear, uint64_t set); /* um_waiters_try() */
    struct um_waiter *(*let_go)(um_atomic_u64 *word, struct um_waiters *list); /* of the list */
    uint64_t ends;              /* bits of the word that are cleared as the waiter joins */
    bool crowded;               /* the last look saw waiters that a look would overtake */
    bool firm;                  /* goes on though the fiber is canceled */
    uint64_t deadline;          /* a time stamp */
    const struct um_kind *kind; /* for reports */
    const void *at;
};

/*
 * Joins the list, with others perhaps, or leaves it. joins: those that join; NULL: the waiter
 * leaves. False: it was not in the list any more. Waits while another call has the list, for some
 * instructions. Meanwhile other calls may leave to this one what they give, and end. So a thread
 * that is no core announces it: a runtime is not quiet then (core/quiet.h).
 */
UM_LINKONCE bool um_sync_change(struct um_sync_request *request, const struct um_fiber *self,
                                const struct um_waiters *joins)
{
    struct um_waiter *waiter = &request->waiter.waiter;
    unsigned looks = 0;
    bool changes;

    if (!self)
        um_outside_call();
    while (
        !request->try_list(request->word, joins ? request->ends : 0, joins ? UM_WAITERS_SOME : 0))
        um_thread_look_again(looks++, UMBRA_NEVER);
    changes = joins != NULL || um_plain_read(waiter->listed);
    if (joins)
        um_waiters_append(request->list, joins);
    else if (changes)
        um_waiters_remove(request->list, waiter);
    um_waiters_signal(request->let_go(request->word, request->list), false);
    if (!self)
        um_outside_call_ends();
    return changes;
}

/* Looks in place, then waits in the list. 1: the caller has it by a look; 0: the waiter was taken
 * out of the list; or a negative errno. The caller may wait (um_may_wait()). */
UM_LINKONCE int um_sync_queue(struct um_sync_request *request)
{
    struct umbra_core *core = um_core_self;
    struct umbra_event *given = &request->waiter.given;
    struct um_await await = {.event = &given->event,
                             .accept = request->look,
                             .arg = request,
                             .crowded = &request->crowded,
                             .deadline = request->deadline,
                             .firm = request->firm,
                             .kind = request->kind,
                             .on = request->on,
                             .at = request->at};
    struct um_fiber *self = core ? um_core_current(core) : NULL;
    struct um_waiters one = {NULL, NULL, 0};
    int error = request->look(request) ? 0 : um_await_in_place(&await);

    if (error != -EAGAIN)
        return error == 0 ? 1 : error;
    request->waiter.waiter.bell = given;
    if (request->prepare)
        request->prepare(request);
    um_waiters_add(&one, &request->waiter.waiter);
    um_sync_change(request, self, &one);
    await.accept = NULL;
    error = um_await_end(um_await_queue(&await, core, self));
    if (error == 0 || um_sync_change(request, self, NULL))
        return error;
    um_event_wait_firm(given, NULL, NULL, request->kind, request->on, request->at);
    return 0;
}

/* ---- mutex ---- */

struct um_mutex_request {
    struct um_sync_request sync;
    uintptr_t self;
    uint64_t since; /* when it queued first, a time stamp; 0: not yet */
    uint32_t gap;   /* polls in place between two looks */
    uint32_t left;  /* of them, before the next look */
};

#define UM_MUTEX_GAP 64 /* at most; about 1 us */

/*
 * A poll in place: a look, or nothing but the time of a poll. The longer the mutex is held, the
 * rarer the looks: each takes the line from the holder, which then takes it back to unlock. A
 * holder that comes again at once so has many turns for each time that the line moves. Polls
 * without a look, not pauses, make the looks rare, since the spin phase is measured after so many
 * polls, and ends then.
 */
UM_LINKONCE bool um_mutex_spin(void *arg)
{
    struct um_mutex_request *request = arg;
    struct umbra_mutex *mutex = request->sync.on;

    if (request->left > 0) {
        request->left--;
        return false;
    }
    request->gap = request->gap < UM_MUTEX_GAP ? 2 * request->gap : UM_MUTEX_GAP;
    request->left = request->gap;
    return um_mutex_look(&mutex->word, um_plain_read(request->sync.waiter.waiter.called),
                         &request->sync.crowded);
}

/* The caller has the list, and the mutex: it is given to the oldest waiter, or that one is called,
 * however long it has queued. The caller signals that one. */
UM_LINKONCE struct um_waiter *um_mutex_serve(struct umbra_mutex *mutex)
{
    bool calls = um_plain_read(mutex->waiters.strict) == 0;

    if (calls) /* relaxed: only fairness depends on it. No waiter is called now */
        um_atomic_store(&mutex->due, um_cycles_after(UMBRA_MUTEX_CALL_NS), relaxed);
    return um_mutex_hand_over(&mutex->word, &mutex->waiters, calls);
}

UM_LINKONCE void um_mutex_unlock_slow(struct umbra_mutex *mutex)
{
    /* relaxed, both: only fairness depends on them */
    bool overdue = (um_atomic_load(&mutex->word, relaxed) & UM_MUTEX_CALLED) != 0 &&
                   um_cycles() > um_atomic_load(&mutex->due, relaxed);

    if (um_mutex_give(&mutex->word, overdue))
        um_waiters_signal(um_mutex_serve(mutex), false);
}

/* A waiter has changed the list. */
UM_LINKONCE struct um_waiter *um_mutex_let_list_go(um_atomic_u64 *word, struct um_waiters *list)
{
    struct umbra_mutex *mutex = (struct umbra_mutex *)word; /* its first member */

    return um_mutex_let_go(word, list) ? um_mutex_serve(mutex) : NULL;
}

/* A fiber is firm; a thread is patient at first. One that was called is so no more. */
UM_LINKONCE void um_mutex_prepare(void *arg)
{
    struct um_mutex_request *request = arg;
    struct um_waiter *waiter = &request->sync.waiter.waiter;

    um_plain_write(waiter->strict, (request->self & UM_SELF_THREAD) == 0);
    if (!um_plain_read(waiter->strict)) {
        uint64_t now = um_cycles();

        if (request->since == 0)
            request->since = now;
        um_plain_write(waiter->strict,
                       now - request->since > um_ns_to_cycles(UMBRA_MUTEX_PATIENCE_NS));
    }
    request->sync.ends = um_plain_read(waiter->called) ? UM_MUTEX_CALLED | UM_MUTEX_PROMISED : 0;
    um_plain_write(waiter->called, false);
}

UM_LINKONCE void um_mutex_describe(struct um_text *text, const void *on)
{
    const struct umbra_mutex *mutex = on;

    um_report_holder(text, um_atomic_load(&mutex->owner, relaxed)); /* for display only */
}

UM_SHARED(const struct um_kind um_kind_mutex, {"mutex", um_mutex_describe});

/* Waits until the mutex is the caller's, as often as it is called in vain; `called`: it is called
 * already. 0 or an error. */
UM_LINKONCE int um_mutex_queue(struct umbra_mutex *mutex, uintptr_t self, bool called,
                               uint64_t deadline, const void *at)
{
    struct um_mutex_request request = {
        .sync = {.waiter = {.waiter = {.called = called}, .given = UMBRA_EVENT_INIT},
                 .on = mutex,
                 .word = &mutex->word,
                 .list = &mutex->waiters,
                 .look = um_mutex_spin,
                 .prepare = um_mutex_prepare,
                 .try_list = um_waiters_try,
                 .let_go = um_mutex_let_list_go,
                 .firm = deadline == UMBRA_NEVER,
                 .deadline = um_deadline_cycles(deadline),
                 .kind = &um_kind_mutex,
                 .at = at},
        .self = self};
    int error = um_may_wait();

    if (error != 0)
        return error;
    do {
        request.gap = 1;
        request.left = 0;
        error = um_sync_queue(&request.sync);
    } while (error == 0 && um_plain_read(request.sync.waiter.waiter.called));
    return error < 0 ? error : 0;
}

UM_LINKONCE UM_NOINLINE int um_mutex_wait_deadline(struct umbra_mutex *mutex, uint64_t deadline)
{
    uintptr_t self = um_sync_self();
    bool crowded;
    int error = 0;

    /* relaxed: only the caller can have written its own identity */
    if (um_atomic_load(&mutex->owner, relaxed) == self)
        return um_why(-EDEADLK, "the caller holds the mutex already");
    if (!um_mutex_look(&mutex->word, false, &crowded))
        error = deadline == 0
                    ? -ETIMEDOUT
                    : um_mutex_queue(mutex, self, false, deadline, __builtin_return_address(0));
    if (error == 0)
        um_mutex_own(mutex, self);
    return error;
}

/* A caller that cannot wait in the list looks in place until it has the mutex. called: as
 * um_mutex_queue(). */
UM_LINKONCE void um_mutex_wait_at(struct umbra_mutex *mutex, bool called, const void *at)
{
    uintptr_t self = um_sync_self();
    bool crowded, taken = um_mutex_look(&mutex->word, called, &crowded) ||
                          um_mutex_queue(mutex, self, called, UMBRA_NEVER, at) == 0;

    for (unsigned looks = 0; !taken; looks++) {
        um_why_begin(); /* this is no failure of the call */
        um_thread_look_again(looks, UMBRA_NEVER);
        taken = um_mutex_look(&mutex->word, called, &crowded);
    }
    um_mutex_own(mutex, self);
}

UM_LINKONCE UM_NOINLINE void um_mutex_wait(struct umbra_mutex *mutex)
{
    const void *at = __builtin_return_address(0);

    /* relaxed: only the caller can have written its own identity */
    if (UMBRA_ASSERT && um_atomic_load(&mutex->owner, relaxed) == um_sync_self())
        um_misused("mutex", mutex, " is locked by its holder", at);
    um_mutex_wait_at(mutex, false, at);
}

/* The error for a caller that does not hold the mutex. */
UM_LINKONCE UM_COLD int um_mutex_refusal(const struct umbra_mutex *mutex)
{
    bool held = um_atomic_load(&mutex->owner, relaxed) != 0; /* for display only */

    return um_why(-EPERM, held ? "another caller holds the mutex" : "the mutex is not locked");
}

/* ---- condition variable ---- */

/*
 * A waiter that is notified alone is signaled, and then locks the mutex. Several that are notified
 * together would all wake up to wait for the mutex: they are moved from the condition's list to the
 * mutex's, in the notifier's call, and wake up as they get the mutex, or are called (sync/mutex.h).
 *
 * In between a waiter is in no list, and nothing but the notifier ends its wait. A waiter that wants
 * to give up looks under the condition's lock if its round is over: then it waits for its signal.
 * The mutex stays while it has waiters that do not hold it, and the notifier's last step on it is
 * that by which it lets go of the list (wait/waiters.h).
 */
#define UM_NOTIFIED_ALONE UINT64_MAX /* no round */

UM_SHARED(const struct um_kind um_kind_condition, {"condition", NULL});

/* True if the waiter could give up, since it had not been notified. */
UM_LINKONCE bool um_condition_give_up(struct umbra_condition *condition,
                                      struct um_sync_waiter *waiter)
{
    bool listed;

    um_lock_take(&condition->list);
    listed = um_plain_read(waiter->round) == um_plain_read(condition->round);
    if (listed)
        um_waiters_remove(&condition->waiters, &waiter->waiter);
    um_lock_release(&condition->list);
    return listed;
}

/* A waiter adds itself: true. False: others wait with another mutex. A call that notifies all takes
 * the whole list and begins a new round; its waiters, however many, see that their round is over. */
UM_LINKONCE bool um_condition_append(struct umbra_condition *condition,
                                     struct um_sync_waiter *waiter)
{
    struct um_sync_waiter *oldest;
    bool same;

    um_lock_take(&condition->list);
    um_plain_write(waiter->round, um_plain_read(condition->round));
    oldest = (struct um_sync_waiter *)um_plain_read(condition->waiters.first);
    same = !oldest || oldest->mutex == waiter->mutex;
    if (same)
        um_waiters_add(&condition->waiters, &waiter->waiter);
    um_lock_release(&condition->list);
    return same;
}

UM_LINKONCE UM_NOINLINE int umbra_condition_wait(struct umbra_condition *condition,
                                                 struct umbra_mutex *mutex, uint64_t deadline)
{
    const void *at = __builtin_return_address(0); /* for reports */
    uintptr_t self = um_sync_self();
    struct um_sync_waiter waiter = {
        .waiter = {.bell = &waiter.given, .strict = (self & UM_SELF_THREAD) == 0},
        .mutex = mutex,
        .fiber = um_core_self ? um_core_current(um_core_self) : NULL,
        .given = UMBRA_EVENT_INIT};
    int error = um_may_wait(); /* after 0 the waits below without a deadline do not fail */
    bool moved;

    if (error != 0)
        return error;
    if (um_atomic_load(&mutex->owner, relaxed) != self) /* as in unlock */
        return um_mutex_refusal(mutex);
    if (!um_condition_append(condition, &waiter))
        return um_why(-EINVAL, "other callers wait with another mutex");
    umbra_mutex_unlock(mutex);
    error = um_event_wait_on(&waiter.given, deadline, &um_kind_condition, condition, at);
    if (error != 0 && !um_condition_give_up(condition, &waiter)) {
        um_event_wait_firm(&waiter.given, NULL, NULL, &um_kind_mutex, mutex, at);
        error = 0;
    }
    moved = error == 0 && um_plain_read(waiter.round) != UM_NOTIFIED_ALONE;
    if (moved && !um_plain_read(waiter.waiter.called))
        um_mutex_own(mutex, self);
    else if (!um_mutex_try(mutex))
        um_mutex_wait_at(mutex, um_plain_read(waiter.waiter.called), at);
    return error;
}

/* Moves waiters, which were all of a condition's, to the list of their mutex. */
UM_LINKONCE void um_condition_move(const struct um_waiters *moved)
{
    struct um_waiter *waiter = um_plain_read(moved->first);
    struct umbra_mutex *mutex = ((struct um_sync_waiter *)waiter)->mutex;
    struct um_sync_request request = {.word = &mutex->word,
                                      .list = &mutex->waiters,
                                      .try_list = um_waiters_try,
                                      .let_go = um_mutex_let_list_go};

    for (; waiter; waiter = um_plain_read(waiter->next))
        if (((struct um_sync_waiter *)waiter)->fiber)
            um_fiber_waits_now(((struct um_sync_waiter *)waiter)->fiber, &um_kind_mutex, mutex);
    um_sync_change(&request, um_core_self ? um_core_current(um_core_self) : NULL, moved);
}

UM_LINKONCE void umbra_condition_notify(struct umbra_condition *condition, bool all)
{
    struct um_waiters *list = &condition->waiters;
    struct um_waiters ended = {NULL, NULL, 0};
    struct um_waiter *first;
    bool moves;

    um_lock_take(&condition->list);
    first = um_plain_read(list->first);
    moves = all && first != um_plain_read(list->last);
    if (moves) {
        um_waiters_append(&ended, list);
        um_plain_write(list->first, (struct um_waiter *)NULL);
        um_plain_write(list->last, (struct um_waiter *)NULL);
        um_plain_write(list->strict, 0);
        um_plain_write(condition->round, um_plain_read(condition->round) + 1);
    } else if (first) {
        um_waiters_take(list, &ended);
        um_plain_write(((struct um_sync_waiter *)first)->round, UM_NOTIFIED_ALONE);
    }
    um_lock_release(&condition->list);
    if (moves)
        um_condition_move(&ended);
    else
        um_waiters_signal(first, false);
}

/* ---- counting semaphore ---- */

UM_LINKONCE void um_semaphore_describe(struct um_text *text, const void *on)
{
    const struct umbra_semaphore *semaphore = on;

    um_text_add(text, " with count ");
    /* relaxed, here and in the other describe functions: for display only */
    um_text_add_number(text, um_atomic_load(&semaphore->word, relaxed) / UM_SEMAPHORE_ONE, 10);
    um_text_add(text, ",");
}

UM_SHARED(const struct um_kind um_kind_semaphore, {"semaphore", um_semaphore_describe});

/* The caller has the list. async: as um_waiters_signal(). */
UM_LINKONCE void um_semaphore_serve(struct umbra_semaphore *semaphore, bool async)
{
    um_waiters_signal(um_semaphore_let_go(&semaphore->word, &semaphore->waiters), async);
}

UM_LINKONCE bool um_semaphore_look(void *arg)
{
    struct um_sync_request *request = arg;
    struct umbra_semaphore *semaphore = request->on;

    /* relaxed: only fairness depends on it */
    request->crowded = (um_atomic_load(&semaphore->word, relaxed) & UM_WAITERS_SOME) != 0;
    return um_semaphore_take(&semaphore->word);
}

UM_LINKONCE UM_NOINLINE int um_semaphore_wait(struct umbra_semaphore *semaphore, uint64_t deadline)
{
    struct um_sync_request request = {.waiter = {.given = UMBRA_EVENT_INIT},
                                      .on = semaphore,
                                      .word = &semaphore->word,
                                      .list = &semaphore->waiters,
                                      .look = um_semaphore_look,
                                      .try_list = um_waiters_try,
                                      .let_go = um_semaphore_let_go,
                                      .deadline = um_deadline_cycles(deadline),
                                      .kind = &um_kind_semaphore,
                                      .at = __builtin_return_address(0)};
    int error = deadline == 0 ? -ETIMEDOUT : um_may_wait();

    if (error == 0)
        error = um_sync_queue(&request);
    return error < 0 ? error : 0;
}

/* ---- read-write lock ---- */

UM_LINKONCE void um_rwlock_describe(struct um_text *text, const void *on)
{
    const struct umbra_rwlock *lock = on;
    uint64_t word = um_atomic_load(&lock->word, relaxed);
    uint64_t readers = um_rwlock_readers(word);

    if (word & UM_RWLOCK_WRITER) {
        um_text_add(text, " held by a writer,");
        return;
    }
    um_text_add(text, " held by ");
    um_text_add_number(text, readers, 10);
    um_text_add(text, readers == 1 ? " reader," : " readers,");
}

UM_SHARED(const struct um_kind um_kind_read_lock, {"read lock", um_rwlock_describe});
UM_SHARED(const struct um_kind um_kind_write_lock, {"write lock", um_rwlock_describe});

/* The caller has the list. */
UM_LINKONCE void um_rwlock_serve(struct umbra_rwlock *lock)
{
    um_waiters_signal(um_rwlock_let_go(&lock->word, &lock->waiters), false);
}

UM_LINKONCE bool um_rwlock_look(void *arg)
{
    struct um_sync_request *request = arg;
    struct umbra_rwlock *lock = request->on;

    /* relaxed: only fairness depends on it */
    request->crowded = (um_atomic_load(&lock->word, relaxed) & UM_WAITERS_SOME) != 0;
    return um_rwlock_take(&lock->word, um_plain_read(request->waiter.waiter.strict));
}

/* 0 or an error. A reader has come, and did not find the lock open. at: for reports, where the lock
 * was called. */
UM_LINKONCE int um_rwlock_queue(struct umbra_rwlock *lock, bool writer, uint64_t deadline,
                                const void *at)
{
    struct um_sync_request request = {
        .waiter = {.waiter = {.strict = writer}, .given = UMBRA_EVENT_INIT},
        .on = lock,
        .word = &lock->word,
        .list = &lock->waiters,
        .look = um_rwlock_look,
        .try_list = um_rwlock_try_list,
        .let_go = um_rwlock_let_go,
        .firm = deadline == UMBRA_NEVER,
        .deadline = um_deadline_cycles(deadline),
        .kind = writer ? &um_kind_write_lock : &um_kind_read_lock,
        .at = at};
    int error;

    if (!writer && um_rwlock_let_in(&lock->word))
        return 0;
    error = deadline == 0 ? -ETIMEDOUT : um_may_wait();
    if (error == 0)
        error = um_sync_queue(&request);
    return error < 0 ? error : 0;
}

UM_LINKONCE UM_NOINLINE int um_rwlock_wait_deadline(struct umbra_rwlock *lock, bool writer,
                                                    uint64_t deadline)
{
    return um_rwlock_queue(lock, writer, deadline, __builtin_return_address(0));
}

/* As um_mutex_wait_at(). */
UM_LINKONCE UM_NOINLINE void um_rwlock_wait(struct umbra_rwlock *lock, bool writer)
{
    bool taken = um_rwlock_queue(lock, writer, UMBRA_NEVER, __builtin_return_address(0)) == 0;

    for (unsigned looks = 0; !taken; looks++) {
        um_why_begin(); /* this is no failure of the call */
        um_thread_look_again(looks, UMBRA_NEVER);
        taken = um_rwlock_take(&lock->word, writer);
    }
}

/* ---- latch ---- */

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
    return um_event_wait_on(&latch->event, deadline, &um_kind_latch, latch,
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
    polls = core ? core->runtime->polls : um_sleepers.polls;
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
                             .firm = deadline == UMBRA_NEVER,
                             .kind = &um_kind_barrier,
                             .on = barrier,
                             .at = at};
    int error = um_await_run(&await);

    if (error != 0 && um_barrier_leave(arrival))
        return error;
    if (error != 0)
        um_why_begin(); /* as in um_mutex_wait_at() */
    return 0;
}

UM_LINKONCE UM_NOINLINE int umbra_barrier_wait(struct umbra_barrier *barrier, uint64_t deadline)
{
    const void *at = __builtin_return_address(0); /* for reports */
    struct um_barrier_arrival arrival;

    if (barrier->parties == 0)
        return um_why(-EINVAL, "the barrier is for 0 parties");
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

#endif /* UMBRA_IMPLEMENTATION */

#endif
