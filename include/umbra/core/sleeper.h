/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How threads that are no core wait for what fibers wait for, and the memory of waits that more
 * than one may end. Private.
 *
 * Both kinds of object are not given back to the system while the program or shared object that has
 * them is loaded: a signaller may look at them a moment after the wait is over. A thread keeps the
 * sleeper it has first used until it ends.
 *
 * A shared object that is unloaded takes the key and all of this memory with it, after its own
 * destructors; then no call that waits, or that has ended such a wait, may be under way. A program that
 * exits has other threads in the midst of that, so there the memory stays. What tells the two apart is
 * an order: a handler of atexit() is called before destructors at the exit, but after them when its
 * shared object is unloaded.
 *
 *     at the exit     um_sleepers_at_exit()    um_sleepers_unload()        um_sleepers_end()
 *     unloading       um_sleepers_unload()     um_sleepers_at_exit()       um_sleepers_end()
 *
 * Without the order of the second line the memory would stay, too.
 */
#ifndef UMBRA_CORE_SLEEPER_H
#define UMBRA_CORE_SLEEPER_H

#include <pthread.h>
#include <stdlib.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/fiber.h>
#include <umbra/cpu.h>
#include <umbra/os/os.h>
#include <umbra/os/run_once.h>
#include <umbra/protocol/claim.h>
#include <umbra/protocol/quiet.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_sleeper {
    struct um_node node;                                     /* home 0 */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_waiter waiter; /* set up once */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u32 woken;        /* 1: the wait is over; wakers set */
    struct um_sleeper *next;  /* in um_sleepers.idle; under its lock */
    struct um_sleeper *older; /* in um_sleepers.newest; fixed */
};

/* What a joiner asks of a fiber's owner, and the answer. */
struct um_join_request {
    struct umbra_fiber fiber;
    bool detach; /* only detach it */
    int status;  /* of the answer, as the result; the one that takes the claim */
    void *result;
};

/* For a core: a fiber of its own is canceled. */
struct um_cancel_request {
    struct umbra_fiber fiber;
};

/* A claimed node, and who waits with it. */
struct um_wait {
    struct um_claimed claimed;
    union {
        struct um_join_request join;     /* UM_NODE_JOIN */
        struct um_cancel_request cancel; /* UM_NODE_CANCEL: a message, in which none waits */
    };
    struct um_fiber *fiber;     /* the one that waits, or NULL */
    struct um_sleeper *sleeper; /* the thread that waits, or NULL */
    unsigned rings; /* how often its deadline came while it was offered a signal; its core */
    struct um_waits *among; /* fixed */
};

#define UM_WAITS_AT_ONCE 64 /* how many are allocated together */

struct um_waits {
    UM_ALIGNED(64) struct um_wait wait[UM_WAITS_AT_ONCE];
    struct um_waits *older; /* in um_sleepers.waits; fixed */
    unsigned idle;          /* how many of them are; um_waits_end() */
};

/* What atexit() does in a shared object, and the object (Itanium C++ ABI). ThreadSanitizer's atexit()
 * would keep the handler when the object is gone. */
int um_at_exit_of(void (*handler)(void *arg), void *arg, void *object) __asm__("__cxa_atexit");
extern char um_object __asm__("__dso_handle") UM_HIDDEN;

/* ---- waking ---- */

UM_INLINE struct um_wait *um_wait_of(struct um_node *node)
{
    return (struct um_wait *)node;
}

/* A node that was released wakes its waiter. core: the caller's, if it may use it; else NULL. */
UM_INLINE struct um_fiber *um_node_fiber(struct um_node *node)
{
    return node->flags & UM_NODE_CLAIMED ? um_wait_of(node)->fiber : um_fiber_of_node(node);
}

UM_INLINE struct um_sleeper *um_node_sleeper(struct um_node *node)
{
    return node->flags & UM_NODE_CLAIMED ? um_wait_of(node)->sleeper : (struct um_sleeper *)node;
}

UM_INLINE void um_node_wake_thread(struct um_node *node)
{
    struct um_sleeper *sleeper = um_node_sleeper(node);

    umbra_signal32(&sleeper->woken, 1, &sleeper->waiter);
}

#ifndef UMBRA_DECLARE

struct um_sleepers {
    pthread_mutex_t lock;
    struct um_sleeper *idle;         /* of threads that have ended; under lock */
    struct um_sleeper *newest;       /* of all; under lock */
    struct um_run_once once;         /* for policy and error */
    pthread_key_t key;               /* its destructor makes the sleeper idle; under lock */
    bool has_key;                    /* under lock, as the next two */
    bool exiting;                    /* see above */
    bool unloading;                  /* see above */
    struct umbra_wait_policy policy; /* of all */
    int error;
    pthread_mutex_t popping;  /* one thread at a time takes waits out: no ABA */
    struct um_waits *waits;   /* all, the newest first; under popping */
};

UM_SHARED struct um_sleepers um_sleepers = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                              .once = {UM_RUN_NEVER},
                                              .popping = PTHREAD_MUTEX_INITIALIZER};

/* Threads that are no core and are doing something to an event: of all runtimes, since a thread does
 * not know whose fibers wait for it. */
UM_SHARED struct um_quiet_outside um_outside = {0, 0};

UM_SHARED _Thread_local struct um_sleeper *um_sleeper_self = NULL;

UM_LINKONCE UM_COLD void um_sleeper_forget(void *arg)
{
    struct um_sleeper *sleeper = arg;

    pthread_mutex_lock(&um_sleepers.lock);
    sleeper->next = um_sleepers.idle;
    um_sleepers.idle = sleeper;
    pthread_mutex_unlock(&um_sleepers.lock);
    um_sleeper_self = NULL;
}

/* fork(2): the child has none of the threads that were in the midst of something. */
UM_LINKONCE UM_COLD void um_sleepers_before_fork(void)
{
    pthread_mutex_lock(&um_sleepers.lock);
    pthread_mutex_lock(&um_sleepers.popping);
}

UM_LINKONCE UM_COLD void um_sleepers_in_parent(void)
{
    pthread_mutex_unlock(&um_sleepers.popping);
    pthread_mutex_unlock(&um_sleepers.lock);
}

UM_LINKONCE UM_COLD void um_sleepers_in_child(void)
{
    um_atomic_store(&um_outside.calls, 0, relaxed); /* the only thread, both */
    um_atomic_store(&um_outside.judging, 0, relaxed);
    um_sleepers_in_parent();
}

UM_LINKONCE UM_COLD void um_sleepers_at_exit(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&um_sleepers.lock);
    um_sleepers.exiting = true;
    pthread_mutex_unlock(&um_sleepers.lock);
}

UM_LINKONCE UM_COLD void um_sleepers_init(void)
{
    um_sleepers.error = umbra_wait_policy_init(&um_sleepers.policy, NULL);
    if (um_sleepers.error == 0)
        um_sleepers.error =
            -pthread_atfork(um_sleepers_before_fork, um_sleepers_in_parent, um_sleepers_in_child);
    if (um_sleepers.error == 0 && um_at_exit_of(um_sleepers_at_exit, NULL, &um_object) != 0)
        um_sleepers.error = -ENOMEM;
    if (um_sleepers.error != 0)
        return;
    pthread_mutex_lock(&um_sleepers.lock);
    um_sleepers.error = -pthread_key_create(&um_sleepers.key, um_sleeper_forget);
    um_sleepers.has_key = um_sleepers.error == 0;
    pthread_mutex_unlock(&um_sleepers.lock);
}

/* Gives the calling thread a sleeper until it ends. A program that is exiting may have no key any more:
 * then for good. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_sleeper_keep(struct um_sleeper *sleeper)
{
    int error = 0;

    pthread_mutex_lock(&um_sleepers.lock);
    if (um_sleepers.has_key)
        error = -pthread_setspecific(um_sleepers.key, sleeper);
    pthread_mutex_unlock(&um_sleepers.lock);
    return error;
}

/* A sleeper that no thread has. NULL: no memory. */
UM_LINKONCE UM_COLD struct um_sleeper *um_sleeper_take(void)
{
    struct um_sleeper *sleeper;

    pthread_mutex_lock(&um_sleepers.lock);
    sleeper = um_sleepers.idle;
    if (sleeper) {
        um_sleepers.idle = sleeper->next;
    } else if ((sleeper = aligned_alloc(UMBRA_CACHE_LINE, sizeof(*sleeper))) != NULL) {
        *sleeper =
            (struct um_sleeper){.node = {.kind = UM_NODE_WAKE}, .older = um_sleepers.newest};
        umbra_waiter_init(&sleeper->waiter, &um_sleepers.policy);
        um_sleepers.newest = sleeper;
    }
    pthread_mutex_unlock(&um_sleepers.lock);
    return sleeper;
}

UM_LINKONCE UM_COLD int um_sleeper_make(void)
{
    struct um_sleeper *sleeper;

    um_once_in_process(&um_sleepers.once, um_sleepers_init);
    if (um_sleepers.error != 0)
        return um_sleepers.error;
    sleeper = um_sleeper_take();
    if (!sleeper)
        return -ENOMEM;
    if (um_sleeper_keep(sleeper) != 0) {
        um_sleeper_forget(sleeper);
        return -ENOMEM;
    }
    um_sleeper_self = sleeper;
    return 0;
}

/* The calling thread's sleeper. 0, or -ENOMEM and the like the first time. */
UM_INLINE int um_sleeper_get(struct um_sleeper **sleeper)
{
    int error = UM_LIKELY(um_sleeper_self != NULL) ? 0 : um_sleeper_make();

    *sleeper = um_sleeper_self;
    if (error == 0)
        um_atomic_store(&um_sleeper_self->woken, 0,
                        relaxed); /* its owner; before it is given out */
    return error;
}

/* The thread: until it is woken, or a deadline passes (-ETIMEDOUT). */
UM_INLINE int um_sleeper_wait(struct um_sleeper *sleeper, uint64_t deadline)
{
    int end = umbra_wait_until_equal32(&sleeper->waiter, &sleeper->woken, 1, 1, deadline);

    return end < 0 ? end : 0;
}

#define UM_LOOKS_AWAKE 100 /* before another is taken for one that has lost its processor */
#define UM_NAP_NS 50000    /* more than that needs to be run again */

/* Naps double. An idle core sleeps in the kernel only when it has waited for up to 0.2 ms
 * (impl/block.h), or 1 ms with a dispatcher's worker: the last naps are longer, since the processor
 * may be what the other thread waits for. */
#define UM_NAP_DOUBLINGS 5

/* A nap's length, in the unit of the first one's. */
UM_INLINE uint64_t um_nap(uint64_t first, unsigned naps)
{
    return first << (naps < UM_NAP_DOUBLINGS ? naps : UM_NAP_DOUBLINGS);
}

/* Between two looks at what another thread is about to do, after so many: a pause, or a nap, so that
 * it may have this processor, until a time stamp at the latest. */
UM_LINKONCE void um_thread_look_again(unsigned looks, uint64_t deadline)
{
    um_atomic_u32 nobody = 0; /* nobody knows of it */
    uint64_t now;

    if (looks < UM_LOOKS_AWAKE) {
        um_arch_pause();
        return;
    }
    now = umbra_cycles();
    if (now < deadline)
        um_os_futex_wait(&nobody, 0,
                         um_os_now_ns() + um_min_u64(um_nap(UM_NAP_NS, looks - UM_LOOKS_AWAKE),
                                                     umbra_cycles_to_ns(deadline - now)));
}

/* ---- waits that more than one may end ---- */

/* 64 more, of which one is the caller's. NULL: no memory. */
UM_LINKONCE UM_COLD struct um_wait *um_waits_make(void)
{
    struct um_waits *waits = aligned_alloc(64, sizeof(*waits));

    if (!waits)
        return NULL;
    memset(waits, 0, sizeof(*waits));
    for (unsigned i = 0; i < UM_WAITS_AT_ONCE; i++) {
        waits->wait[i].among = waits;
        if (i > 0)
            um_claimed_free(&waits->wait[i].claimed);
    }
    pthread_mutex_lock(&um_sleepers.popping);
    waits->older = um_sleepers.waits;
    um_sleepers.waits = waits;
    pthread_mutex_unlock(&um_sleepers.popping);
    return &waits->wait[0];
}

/* A wait's memory. Any thread, but not a signal handler. NULL: no memory. */
UM_LINKONCE struct um_wait *um_wait_take(void)
{
    struct um_wait *wait;
    uint64_t first;

    pthread_mutex_lock(&um_sleepers.popping);
    first = um_atomic_load(&um_claimed_idle, acquire); /* pairs with um_claimed_free() */
    while (first) {
        wait = (struct um_wait *)(uintptr_t)first;
        /* relaxed: nobody else takes any out, so the link stays. acquire: as above */
        if (um_atomic_cas(&um_claimed_idle, &first,
                          um_atomic_load(&wait->claimed.node.link, relaxed), acquire, acquire))
            break;
    }
    pthread_mutex_unlock(&um_sleepers.popping);
    if (!first && !(wait = um_waits_make()))
        return NULL;
    um_atomic_store(&wait->claimed.node.link, 0, relaxed); /* its owner's now */
    return wait;
}

_Static_assert(sizeof(struct um_waits) % 64 == 0, "as aligned_alloc() asks for");

/* ---- the end of what is loaded ---- */

/* Takes all that are idle here out, and counts them. */
UM_LINKONCE UM_COLD void um_waits_count_idle(void)
{
    /* acquire: pairs with um_claimed_free() */
    uint64_t link = um_atomic_exchange(&um_claimed_idle, 0, acquire);

    while (link) {
        struct um_wait *wait = (struct um_wait *)(uintptr_t)link;

        wait->among->idle++;
        link = um_atomic_load(&wait->claimed.node.link, relaxed); /* the only thread */
    }
}

/*
 * Frees those that are idle here together with all which were allocated with them. One that is not may
 * be a message on its way to a core of another object's, or idle in another object, which has freed it.
 */
UM_LINKONCE UM_COLD void um_waits_end(void)
{
    struct um_waits *waits = um_sleepers.waits;

    um_waits_count_idle();
    um_sleepers.waits = NULL;
    while (waits) {
        struct um_waits *older = waits->older;

        if (waits->idle == UM_WAITS_AT_ONCE)
            free(waits);
        waits = older;
    }
}

/* Every file has an entry for each destructor, so that they are called more than once. */
UM_LINKONCE UM_COLD __attribute__((__destructor__)) void um_sleepers_unload(void)
{
    pthread_mutex_lock(&um_sleepers.lock);
    um_sleepers.unloading = um_sleepers.has_key && !um_sleepers.exiting;
    pthread_mutex_unlock(&um_sleepers.lock);
}

/* By its priority after all other destructors, and after handlers of atexit() and C++ objects. The key
 * goes in each case: at the exit some handler may unload objects. */
UM_LINKONCE UM_COLD __attribute__((__destructor__(101))) void um_sleepers_end(void)
{
    struct um_sleeper *sleeper = NULL;

    pthread_mutex_lock(&um_sleepers.lock);
    if (um_sleepers.has_key)
        pthread_key_delete(um_sleepers.key);
    um_sleepers.has_key = false;
    if (um_sleepers.unloading) {
        sleeper = um_sleepers.newest;
        um_sleepers.newest = um_sleepers.idle = NULL;
        um_waits_end();
    }
    um_sleepers.unloading = false;
    pthread_mutex_unlock(&um_sleepers.lock);
    while (sleeper) {
        struct um_sleeper *older = sleeper->older;

        free(sleeper);
        sleeper = older;
    }
}

/* Sets up one of the waits of a group for a new wait; `index` says which event. The waiter. */
UM_INLINE void um_wait_prepare(struct um_wait *wait, struct um_wait *group, unsigned index)
{
    /* relaxed: only the waiter changes a claim that is not being waited with */
    uint64_t base = (um_atomic_load(&group->claimed.claim, relaxed) >> UM_CLAIM_SHIFT) + 1;

    if (wait == group)
        um_atomic_store(&group->claimed.claim, base << UM_CLAIM_SHIFT, relaxed); /* as above */
    else
        base--;
    wait->claimed.group = &group->claimed;
    wait->claimed.ticket = base << UM_CLAIM_SHIFT | (uint64_t)index << UM_CLAIM_INDEX_SHIFT;
    wait->claimed.node.kind = UM_NODE_WAKE;
    wait->claimed.node.flags = UM_NODE_CLAIMED;
    wait->rings = 0;
    um_atomic_store(&wait->claimed.refs, 2, relaxed); /* the waiter's and the queue's */
}

#endif /* UMBRA_DECLARE */

#endif
