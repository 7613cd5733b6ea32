/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/blocking.h: the helper threads of a runtime, and the calls that wait for one.
 * Private; included by that header, after its declarations.
 *
 * Calls stand in a list, oldest first; the list, the counts and the helpers are under the pool's
 * lock. An idle helper sleeps on the word `added`, which changes, under the lock, with each call
 * that is added. So a helper that has seen an empty list, and then sleeps while the word has the
 * value that it read under the same lock, misses no call.
 *
 *   a caller, under the lock                     a helper, under the lock
 *   puts its call into the list                  takes the oldest call: the caller must wait now
 *   adds 1 to `added`; starts a helper if        none: reads `added`, and counts itself as idle
 *   fewer are idle than calls wait               then, without the lock: calls fn, or sleeps while
 *   then, without the lock: wakes one            `added` is what it read
 *
 * A caller that is canceled takes its call out of the list; it does not find it there if a helper
 * has taken it. A helper that leaves looks at the list for a last time under the lock under which
 * it stops counting as a helper, so a call in the list always has a helper.
 */
#ifndef UMBRA_BLOCKING_HELPERS_H
#define UMBRA_BLOCKING_HELPERS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/trace_kinds.h>
#include <umbra/core.h>
#include <umbra/event.h>
#include <umbra/os/os.h>
#include <umbra/topology.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* After so long without a call a helper ends: a thread that sleeps costs memory only, and starting
 * one costs tens of microseconds. */
#define UM_HELPER_IDLE_NS 1000000000

/* A call, in the frame of the fiber that waits for it. */
struct um_blocking_call {
    void (*fn)(void *arg);
    void *arg;
    struct um_blocking_call *next; /* in the pool's list; under its lock */
    bool waits;                    /* is in the list; under the lock */
    struct umbra_event done;       /* signaled by the helper, which touches the call no more */
};

struct um_helper {
    pthread_t thread;
    struct um_blocking_pool *pool;
    struct um_helper *next; /* in `gone`; under the lock */
};

struct um_blocking_pool {
    struct um_attached attached;
    struct umbra_runtime *runtime;
    pthread_mutex_t lock;           /* for all that follows */
    struct um_blocking_call *first; /* calls that no helper has taken, oldest first */
    struct um_blocking_call *last;
    unsigned calls;         /* how many these are */
    unsigned threads;       /* helpers that are there */
    unsigned most;          /* fixed */
    unsigned idle;          /* helpers that sleep, or are about to */
    bool ending;            /* the runtime is being destroyed: helpers end */
    struct um_helper *gone; /* helpers that have ended, to be joined and freed */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u32 added; /* changes with each call; helpers sleep on it */
};

/* The pool of a runtime's helpers, or NULL. Any thread. */
UM_INLINE struct um_blocking_pool *um_blocking_pool_of(struct umbra_runtime *runtime)
{
    /* acquire: the pool's fields; pairs with the release in um_blocking_make() */
    return (struct um_blocking_pool *)um_atomic_load(&runtime->helpers, acquire);
}

#ifdef UMBRA_IMPLEMENTATION

/* ---- the list: under the lock ---- */

UM_LINKONCE void um_blocking_add(struct um_blocking_pool *pool, struct um_blocking_call *call)
{
    if (pool->first)
        pool->last->next = call;
    else
        pool->first = call;
    pool->last = call;
    pool->calls++;
    call->waits = true;
    /* relaxed: helpers read it under the lock, and the kernel compares it once more */
    um_atomic_fetch_add(&pool->added, 1, relaxed);
}

/* Takes out a call that is in the list. */
UM_LINKONCE void um_blocking_remove(struct um_blocking_pool *pool, struct um_blocking_call *call)
{
    struct um_blocking_call *before = NULL;
    struct um_blocking_call *at = pool->first;

    for (; at != call; at = at->next)
        before = at;
    if (before)
        before->next = call->next;
    else
        pool->first = call->next;
    if (pool->last == call)
        pool->last = before;
    pool->calls--;
    call->waits = false;
}

/* The oldest call, which the caller must carry out, or NULL. */
UM_LINKONCE struct um_blocking_call *um_blocking_take(struct um_blocking_pool *pool)
{
    struct um_blocking_call *call = pool->first;

    if (call)
        um_blocking_remove(pool, call);
    return call;
}

/* ---- helpers ---- */

/* Joins and frees helpers that have ended: they are in no list any more. */
UM_LINKONCE UM_COLD void um_helpers_join(struct um_helper *gone)
{
    while (gone) {
        struct um_helper *next = gone->next;

        pthread_join(gone->thread, NULL);
        free(gone);
        gone = next;
    }
}

/* Its functions may start processes, which get the mask and the processors of the thread. */
UM_LINKONCE UM_COLD void um_helper_begin(const struct umbra_runtime *runtime)
{
    um_topology_bind_as(runtime->topology, runtime->processors);
    um_os_unmask_signals(runtime->signals);
}

/* Sleeps, without the lock, until a call is added. False: there has been none for too long, and the
 * helper must end. Under the lock, before and after. */
UM_LINKONCE bool um_helper_sleep(struct um_blocking_pool *pool)
{
    uint64_t deadline = um_os_now_ns() + UM_HELPER_IDLE_NS;
    bool late = false;

    pool->idle++;
    while (!pool->first && !pool->ending && !late) {
        uint32_t added = um_atomic_load(&pool->added, relaxed); /* under the lock */

        pthread_mutex_unlock(&pool->lock);
        late = um_os_futex_wait(&pool->added, added, deadline) == -ETIMEDOUT;
        pthread_mutex_lock(&pool->lock);
    }
    pool->idle--;
    return pool->first || !(late || pool->ending);
}

UM_LINKONCE void um_blocking_execute(struct um_blocking_pool *pool, struct um_blocking_call *call)
{
    call->fn(call->arg);
    umbra_event_signal(&call->done); /* the call may be gone now */
    um_runtime_leave(pool->runtime);
}

/* The calls that are left when the runtime ends are dropped: their fibers never run again. */
UM_LINKONCE UM_COLD void *um_helper_main(void *arg)
{
    struct um_helper *self = arg;
    struct um_blocking_pool *pool = self->pool;

    um_helper_begin(pool->runtime);
    pthread_mutex_lock(&pool->lock);
    while (!pool->ending) {
        struct um_blocking_call *call = um_blocking_take(pool);

        if (call) {
            pthread_mutex_unlock(&pool->lock);
            um_blocking_execute(pool, call);
            pthread_mutex_lock(&pool->lock);
        } else if (!um_helper_sleep(pool)) {
            break;
        }
    }
    pool->threads--;
    self->next = pool->gone;
    pool->gone = self;
    if (pool->ending) /* one wakes the next */
        um_os_futex_wake(&pool->added);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Starts one more helper. 0 or a negative errno. Under the lock: so the helper ends, and is joined,
 * only when its thread is known. */
UM_LINKONCE UM_COLD int um_helper_start(struct um_blocking_pool *pool)
{
    struct um_helper *helper = malloc(sizeof(*helper));
    uint64_t signals;
    int error;

    if (!helper)
        return -ENOMEM;
    helper->pool = pool;
    signals = um_os_mask_signals();
    error = -pthread_create(&helper->thread, NULL, um_helper_main, helper);
    um_os_unmask_signals(signals);
    if (error == 0)
        pool->threads++;
    else
        free(helper);
    return error;
}

/* ---- the pool ---- */

/* The runtime ends: its helpers finish the functions that they are in. */
UM_LINKONCE UM_COLD void um_blocking_end(struct um_attached *attached)
{
    struct um_blocking_pool *pool = (struct um_blocking_pool *)attached;
    struct um_helper *gone;
    unsigned looks = UM_LOOKS_AWAKE;
    unsigned threads;

    do {
        pthread_mutex_lock(&pool->lock);
        pool->ending = true;
        um_atomic_fetch_add(&pool->added, 1, relaxed); /* under the lock */
        threads = pool->threads;
        gone = pool->gone;
        pool->gone = NULL;
        pthread_mutex_unlock(&pool->lock);
        um_os_futex_wake(&pool->added);
        um_helpers_join(gone);
        if (threads > 0)
            um_thread_look_again(looks++, UMBRA_NEVER);
    } while (threads > 0);
    um_helpers_join(pool->gone); /* the last ones; no other thread has the pool now */
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* Makes the pool, unless another fiber has. NULL: no memory. */
UM_LINKONCE UM_COLD struct um_blocking_pool *um_blocking_make(struct umbra_runtime *runtime)
{
    struct um_blocking_pool *pool;

    pthread_mutex_lock(&runtime->lock);
    pool = um_blocking_pool_of(runtime);
    if (!pool && (pool = aligned_alloc(UMBRA_CACHE_LINE, sizeof(*pool))) != NULL) {
        memset(pool, 0, sizeof(*pool));
        pool->attached.end = um_blocking_end;
        pool->runtime = runtime;
        pool->most = runtime->blocking_threads ? runtime->blocking_threads : UMBRA_BLOCKING_THREADS;
        pthread_mutex_init(&pool->lock, NULL);
        /* release: pairs with um_blocking_pool_of() */
        um_atomic_store(&runtime->helpers, &pool->attached, release);
    }
    pthread_mutex_unlock(&runtime->lock);
    return pool;
}

/* ---- a call ---- */

/* Gives the call to the pool: a helper will take it. Else an error, with the call in no list. */
UM_LINKONCE int um_blocking_submit(struct um_blocking_pool *pool, struct um_blocking_call *call)
{
    struct um_helper *gone;
    bool sleepers;
    int error = 0;

    pthread_mutex_lock(&pool->lock);
    um_blocking_add(pool, call);
    if (pool->calls > pool->idle && pool->threads < pool->most)
        error = um_helper_start(pool);
    if (error != 0 && pool->threads == 0)
        um_blocking_remove(pool, call);
    else
        error = 0; /* at the latest the helpers that are there will take it */
    gone = pool->gone;
    pool->gone = NULL;
    sleepers = pool->idle > 0;
    pthread_mutex_unlock(&pool->lock);
    if (sleepers)
        um_os_futex_wake(&pool->added);
    um_helpers_join(gone);
    return um_why_none(error);
}

/* Waits until the call is done. -ECANCELED, -ETIMEDOUT, -ENOMEM: no helper has taken it, and none
 * will. */
UM_LINKONCE int um_blocking_wait(struct um_blocking_pool *pool, struct um_blocking_call *call,
                                 uint64_t deadline, const void *at)
{
    const struct um_kind *kind = &um_kind_system[UM_SYSTEM_BLOCKING];
    struct um_await await = {
        .event = &call->done.event, .deadline = deadline, .kind = kind, .at = at};
    int error = um_await_run(&await);

    if (error == 0)
        return 0;
    pthread_mutex_lock(&pool->lock);
    if (call->waits)
        um_blocking_remove(pool, call);
    else
        error = 0;
    pthread_mutex_unlock(&pool->lock);
    if (error == 0)
        um_event_wait_firm(&call->done, NULL, NULL, kind, NULL, at);
    return error;
}

/* umbra_blocking(), with a deadline (cycles) until which a helper must have taken the call. */
UM_LINKONCE int um_blocking_run(void (*fn)(void *arg), void *arg, uint64_t deadline, const void *at)
{
    struct umbra_runtime *runtime = um_runtime_self();
    struct um_fiber *self = runtime ? um_core_current(um_core_self) : NULL;
    struct um_blocking_call call = {.fn = fn, .arg = arg, .done = UMBRA_EVENT_INIT};
    struct um_blocking_pool *pool;
    int error;

    if (!fn)
        return um_why(-EINVAL, "there is no function to run");
    if (!self) {
        fn(arg);
        return 0;
    }
    if (!um_fiber_on_stack(self))
        return um_why_off_stack();
    if (um_fiber_barred(self))
        return -ECANCELED;
    pool = um_blocking_pool_of(runtime);
    if (!pool && !(pool = um_blocking_make(runtime)))
        return um_why_none(-ENOMEM);
    um_runtime_enter(runtime);
    um_trace_say(UM_TRACE_CALL, (uintptr_t)&call, (uintptr_t)fn);
    error = um_blocking_submit(pool, &call);
    if (error == 0)
        error = um_blocking_wait(pool, &call, deadline, at);
    um_trace_say(UM_TRACE_CALL_OVER, (uintptr_t)&call, (uint64_t)(int64_t)error);
    if (error != 0)
        um_runtime_leave(runtime);
    return error;
}

UM_LINKONCE UM_NOINLINE int umbra_blocking(void (*fn)(void *arg), void *arg)
{
    return um_blocking_run(fn, arg, UMBRA_NEVER, __builtin_return_address(0));
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
