/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Sleepers: how threads that are no core wait for what fibers wait for. And the memory of waits
 * that more than one thread may end (struct um_wait). Private.
 *
 * A thread takes a sleeper at its first wait and keeps it until the thread ends. Any thread or
 * fiber may take a wait's memory, but not a signal handler. Both return an error if there is no
 * memory. A signaller may look at such an object a moment after the wait is over. So both kinds
 * stay allocated. So does the key of thread-specific data that says when a thread ends. A shared
 * object that has them is never unloaded (um_os_keep_loaded()).
 */
#ifndef UMBRA_FIBER_SLEEPER_H
#define UMBRA_FIBER_SLEEPER_H

#include <pthread.h>
#include <stdlib.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core/protocol.h>
#include <umbra/cpu.h>
#include <umbra/fiber/control_block.h>
#include <umbra/os/os.h>
#include <umbra/os/run_once.h>
#include <umbra/wait.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_sleeper {
    struct um_node node;                                     /* home 0 */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_waiter waiter; /* set up once */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u32 woken;        /* 1: wait is over; signallers set */
    struct um_sleeper *next; /* in um_sleepers.idle; under its lock */
};

/* What a joiner asks the owner of a fiber, and the answer. */
struct um_join_request {
    struct umbra_fiber fiber;
    bool detach; /* only detach it */
    int status;  /* answer, as `result`; written by the side that takes the claim */
    void *result;
};

/* What a core is asked: to cancel a fiber that lives there. */
struct um_cancel_request {
    struct umbra_fiber fiber;
};

/* A claimed node, and the waiter that it stands for. */
struct um_wait {
    struct um_claimed claimed;
    union {
        struct um_join_request join;     /* UM_NODE_JOIN */
        struct um_cancel_request cancel; /* UM_NODE_CANCEL: a message without a waiter */
    };
    struct um_fiber *fiber;     /* the waiting fiber, or NULL */
    struct um_sleeper *sleeper; /* of the waiting thread, or NULL */
};

/* ---- waking ---- */

UM_INLINE struct um_wait *um_wait_of(struct um_node *node)
{
    return (struct um_wait *)node;
}

/* The fiber that waits with a node; not for a thread's node (home 0). */
UM_INLINE struct um_fiber *um_node_fiber(struct um_node *node)
{
    return node->flags & UM_NODE_CLAIMED ? um_wait_of(node)->fiber : um_fiber_of_node(node);
}

/* Wakes the thread that waits with a released node. Any thread or handler; never blocks. */
UM_INLINE void um_node_wake_thread(struct um_node *node)
{
    struct um_sleeper *sleeper =
        node->flags & UM_NODE_CLAIMED ? um_wait_of(node)->sleeper : (struct um_sleeper *)node;

    um_signal32(&sleeper->woken, 1, &sleeper->waiter);
}

#ifdef UMBRA_IMPLEMENTATION

struct um_sleepers {
    pthread_mutex_t lock;
    struct um_sleeper *idle;         /* of threads that have ended; under lock */
    struct um_run_once once;         /* for policy and error */
    pthread_key_t key;               /* its destructor is um_sleeper_forget(); um_runtimes_init() */
    struct umbra_wait_policy policy; /* of all sleepers */
    struct um_polls polls;           /* of threads that look at an event in place */
    int error;                       /* of um_sleepers_init(), which runs once */
    char why[UM_WHY_BYTES];          /* likewise: the reason of error */
    pthread_mutex_t popping;         /* one thread at a time takes idle waits: no ABA */
};

UM_SHARED(struct um_sleepers um_sleepers, {.lock = PTHREAD_MUTEX_INITIALIZER,
                                           .once = {UM_RUN_NEVER},
                                           .popping = PTHREAD_MUTEX_INITIALIZER});

/* Counts the calls on events by threads that are no core. One count for all runtimes, since such a
 * thread does not know of which runtime the waiting fibers are. */
UM_SHARED(struct um_quiet_outside um_outside, {0, 0});

UM_SHARED(UM_THREAD_LOCAL struct um_sleeper *um_sleeper_self, NULL);

/* The thread that has this sleeper ends, or could not keep it: the sleeper is idle. */
UM_LINKONCE UM_COLD void um_sleeper_forget(void *arg)
{
    struct um_sleeper *sleeper = arg;

    pthread_mutex_lock(&um_sleepers.lock);
    sleeper->next = um_sleepers.idle;
    um_sleepers.idle = sleeper;
    pthread_mutex_unlock(&um_sleepers.lock);
    um_sleeper_self = NULL;
}

/* Forks are known, and the object stays. Before the first sleeper, and before the first runtime, since
 * fibers wait without a sleeper. 0, -EAGAIN or -ENOMEM. In core/start_stop.h */
UM_LINKONCE UM_COLD int um_runtimes_begin(void);

UM_LINKONCE UM_COLD void um_sleepers_init(void)
{
    um_sleepers.error = umbra_wait_policy_init(&um_sleepers.policy, NULL);
    um_sleepers.polls = um_polls_with(um_poll_gap(um_pair_of_threads(), UMBRA_POLL_OTHER));
    if (um_sleepers.error == 0)
        um_sleepers.error = um_runtimes_begin();
    memcpy(um_sleepers.why, um_why_text, sizeof(um_sleepers.why));
}

/* An idle sleeper, or a new one. NULL: no memory. */
UM_LINKONCE UM_COLD struct um_sleeper *um_sleeper_take(void)
{
    struct um_sleeper *sleeper;

    pthread_mutex_lock(&um_sleepers.lock);
    sleeper = um_sleepers.idle;
    if (sleeper) {
        um_sleepers.idle = sleeper->next;
    } else if ((sleeper = aligned_alloc(UMBRA_CACHE_LINE, sizeof(*sleeper))) != NULL) {
        *sleeper = (struct um_sleeper){.node = {.kind = UM_NODE_WAKE}};
        um_waiter_init(&sleeper->waiter, &um_sleepers.policy);
    }
    pthread_mutex_unlock(&um_sleepers.lock);
    return sleeper;
}

/* The first wait of the calling thread. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_sleeper_make(void)
{
    struct um_sleeper *sleeper;

    um_once_in_process(&um_sleepers.once, um_sleepers_init);
    if (um_sleepers.error != 0)
        return um_why(um_sleepers.error, "%s", um_sleepers.why);
    sleeper = um_sleeper_take();
    if (!sleeper)
        return um_why_none(-ENOMEM);
    if (pthread_setspecific(um_sleepers.key, sleeper) != 0) {
        um_sleeper_forget(sleeper);
        return um_why_none(-ENOMEM);
    }
    um_sleeper_self = sleeper;
    return 0;
}

/* The calling thread's sleeper. 0; -ENOMEM or another error only if the thread has none yet. */
UM_INLINE int um_sleeper_get(struct um_sleeper **sleeper)
{
    int error = UM_LIKELY(um_sleeper_self != NULL) ? 0 : um_sleeper_make();

    *sleeper = um_sleeper_self;
    if (error == 0)
        um_atomic_store(&um_sleeper_self->woken, 0,
                        relaxed); /* its thread; before others know it */
    return error;
}

/* Blocks until the sleeper is woken (0) or the deadline has passed (-ETIMEDOUT). Its thread. */
UM_INLINE int um_sleeper_wait(struct um_sleeper *sleeper, uint64_t deadline)
{
    int end = um_wait_until_equal32(&sleeper->waiter, &sleeper->woken, 1, 1, deadline);

    return end < 0 ? end : 0;
}

/* After so many looks, 1 to 6 us, the other thread is taken to have lost its processor: it needs a
 * thousandth for its instructions. Then a nap: more than that thread needs to be scheduled
 * again. */
#define UM_LOOKS_AWAKE 100
#define UM_NAP_NS 50000

/* How often the length of a nap doubles. An idle core goes to sleep in the kernel only after up to
 * 0.2 ms (wait/probe.h), or 1 ms with a dispatcher's worker. The last naps are longer (1.6
 * ms), since the other thread may wait for this very processor. */
#define UM_NAP_DOUBLINGS 5

/* A nap's length, in the unit of the first one's. */
UM_INLINE uint64_t um_nap(uint64_t first, unsigned naps)
{
    return first << (naps < UM_NAP_DOUBLINGS ? naps : UM_NAP_DOUBLINGS);
}

/* Waits between two looks at what another thread is about to do. looks: how many were made. The
 * first times it is a pause; later a nap, so that the other thread may have this processor, but no
 * longer than until the deadline, a time stamp. Any thread; a nap blocks. */
UM_LINKONCE void um_thread_look_again(unsigned looks, uint64_t deadline)
{
    um_atomic_u32 nobody = 0; /* no other thread has its address */
    uint64_t now;

    if (looks < UM_LOOKS_AWAKE) {
        um_arch_pause();
        return;
    }
    now = um_cycles();
    if (now < deadline)
        um_os_futex_wait(&nobody, 0,
                         um_os_now_ns() + um_min_u64(um_nap(UM_NAP_NS, looks - UM_LOOKS_AWAKE),
                                                     um_cycles_to_ns(deadline - now)));
}

/* ---- waits that more than one thread may end ---- */

/* The memory of a wait. Any thread, but not a signal handler. NULL: no memory. */
UM_LINKONCE struct um_wait *um_wait_take(void)
{
    struct um_wait *wait;
    uint64_t first;

    pthread_mutex_lock(&um_sleepers.popping);
    first = um_atomic_load(&um_claimed_idle, acquire); /* pairs with um_claimed_free() */
    while (first) {
        wait = (struct um_wait *)(uintptr_t)first;
        /* relaxed: no other thread takes one out now, so the link stays. acquire: as above */
        if (um_atomic_cas(&um_claimed_idle, &first,
                          um_atomic_load(&wait->claimed.node.link, relaxed), acquire, acquire))
            break;
    }
    pthread_mutex_unlock(&um_sleepers.popping);
    if (!first) {
        wait = aligned_alloc(64, (sizeof(*wait) + 63) & ~(size_t)63);
        if (!wait)
            return NULL;
        memset(wait, 0, sizeof(*wait));
    }
    um_atomic_store(&wait->claimed.node.link, 0, relaxed); /* the caller's alone now */
    return wait;
}

/* Prepares one node of a wait for any of several events; `index` says which event. The waiter. */
UM_INLINE void um_wait_prepare(struct um_wait *wait, struct um_wait *group, unsigned index)
{
    /* relaxed: only the waiter changes a claim while no wait uses it */
    uint64_t base = (um_atomic_load(&group->claimed.claim, relaxed) >> UM_CLAIM_SHIFT) + 1;

    if (wait == group)
        um_atomic_store(&group->claimed.claim, base << UM_CLAIM_SHIFT, relaxed); /* as above */
    else
        base--;
    wait->claimed.group = &group->claimed;
    wait->claimed.ticket = base << UM_CLAIM_SHIFT | (uint64_t)index << UM_CLAIM_INDEX_SHIFT;
    wait->claimed.node.kind = UM_NODE_WAKE;
    wait->claimed.node.flags = UM_NODE_CLAIMED;
    um_atomic_store(&wait->claimed.refs, 2, relaxed); /* one of the waiter, one of the queue */
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
