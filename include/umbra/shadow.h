/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A shadow is a helper thread that stays beside one thread, its owner. It is created once. The
 * owner hands it a function, which it runs while the owner goes on; fork and join cost about as
 * much as moving one cache line there and back (Hori et al., "Shadow Thread", section 3). The
 * shadow runs on an SMT sibling of the owner's core, where it shares the L1 cache; without a
 * sibling, on the nearest other hardware thread, and its `info` says how near that is.
 *
 *     struct umbra_shadow shadow;
 *
 *     shadow_create(&shadow, NULL);            bind the caller, start the helper beside it
 *     shadow_fork(&shadow, prefetch, &list);   the helper runs prefetch(&list) ...
 *     work();                                  ... while the owner does something else
 *     shadow_join(&shadow);                    prefetch has returned; its effects are visible
 *     shadow_destroy(&shadow);
 *
 * Callers
 *
 *     call                         by           blocks                     wrong use
 *     shadow_create                any thread   until the helper is bound  -EINVAL, -ENODEV, ...
 *     shadow_fork                  the owner    never                      -EBUSY: not yet joined
 *     shadow_join                  the owner    until done                 -EINVAL: nothing forked
 *     umbra_shadow_join_deadline   the owner    until done or deadline     -EINVAL: nothing forked
 *     shadow_destroy               the owner    until done                 -EPERM: the owner lives
 *
 * The owner is the thread that called shadow_create. In any other thread, also in the shadow
 * itself, the owner's calls return -EPERM. After shadow_destroy they return -ESRCH, as long as the
 * struct's memory exists. shadow_destroy first waits for a function that still runs. No call
 * switches fibers.
 *
 * An owner that ends leaves its shadow without an owner: no thread may fork or join, also none that
 * is created later, and one call of shadow_destroy by any thread ends the shadow. Until then the
 * helper keeps its hardware thread; the owner's is free at once.
 *
 * options->wait says how both sides wait: see umbra/wait.h. A shadow that spins (UMBRA_WAIT_SPIN)
 * answers fastest, and keeps its hardware thread busy while it has nothing to do.
 *
 * Signals are blocked in the helper, except those that its own instructions raise, that profilers
 * send, and that the C library keeps for itself (with UMBRA_POSIX_ONLY none are blocked). After
 * fork(2) the child has no helper threads: its parent's shadows are as if destroyed (-ESRCH), an
 * owner has its old binding back, and the child may create shadows of its own.
 *
 * A shadow may be in any memory, malloc's too. It is faster if it begins a cache line:
 * _Alignas(UMBRA_CACHE_LINE), or aligned_alloc(UMBRA_CACHE_LINE, sizeof(struct umbra_shadow)).
 *
 * Invariants
 *   - The slot is one cache line, used in both directions (shadow/protocol.h). If the shadow begins
 *   a
 *     line, words that the owner writes and words that the helper writes share no other line.
 *   - A hardware thread has at most one shadow of this process.
 *   - Fork and join allocate nothing, and make no system call unless a side parks or has parked.
 */
#ifndef UMBRA_SHADOW_H
#define UMBRA_SHADOW_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/shadow/owner.h>
#include <umbra/shadow/protocol.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

/* What a shadow runs. */
typedef void umbra_shadow_fn(void *arg);

/* Where a shadow runs, and how both sides wait. All zero, or NULL for all, is a good default. */
struct umbra_shadow_options {
    struct umbra_topology *topology; /* must outlive the shadow; NULL: look at this machine */
    struct umbra_wait_options wait;  /* both sides; `polite` is added on an SMT sibling */
    bool place_owner;                /* bind the owner to owner_cpu, not to where it runs now */
    bool place_shadow;               /* bind the shadow to shadow_cpu, not to the best free cpu */
    int owner_cpu;                   /* hardware threads by operating-system index */
    int shadow_cpu;
    const int *avoid; /* without place_shadow: none of these cpus is chosen */
    unsigned avoid_count;
};

/* Where a shadow runs. */
struct umbra_shadow_info {
    int owner_cpu;
    int shadow_cpu;
    enum umbra_shared shared; /* the nearest thing that both share; UMBRA_SHARED_CORE: siblings */
    bool bound;               /* false on a synthetic topology */
};

/* A shadow, with its owner's part. In the caller's memory; it must not move while in use. */
struct umbra_shadow {
    UM_ALIGNED(UM_ANY_MEMORY) struct um_slot slot; /* see shadow/protocol.h */
    unsigned char apart[UM_LINE_REST(sizeof(struct um_slot))];

    /* the owner's line */
    struct um_owned owned;         /* the owner, and its binding; shadow/owner.h */
    bool forked;                   /* a function is forked and not joined; owner only */
    pthread_t thread;              /* the helper; set once */
    bool own_topology;             /* made by shadow_create */
    struct umbra_shadow *next;     /* in um_shadows; under its lock */
    struct umbra_shadow_info info; /* set once; any thread may read it */
    int bind_error;                /* helper writes before the first join, owner reads after */
    unsigned char apart_too[UM_LINE_REST(84)]; /* asserted below */

    struct umbra_wait_policy policy; /* of both; set once */
    unsigned char apart_as_well[UM_LINE_REST(sizeof(struct umbra_wait_policy))];

    /* Any thread may ask for their counters (umbra_waiter_stats): how the owner waited in joins,
     * the first of which is that of shadow_create, and how the helper waited for work. */
    struct umbra_waiter owner_waiter;  /* for IDLE; owner waits, helper wakes */
    struct umbra_waiter helper_waiter; /* for RUN or QUIT; helper waits, owner wakes */
};

/*
 * Binds the caller to its hardware thread (options->owner_cpu, or where it runs now). Starts a
 * helper thread on a free SMT sibling of that core, or on the nearest free hardware thread if the
 * core has only one, and waits until the helper is bound. Default placement gives up to SMT-ways -
 * 1 shadows a core; options->place_shadow may name any other hardware thread.
 *
 * Any thread; it becomes the owner. Blocks (some milliseconds where it is the first of the process
 * to look at the machine, or between two processors of a kind, which it measures). Returns 0 or an
 * error; then nothing is kept, the struct is as if destroyed, and umbra_last_error_text() names the
 * processor or option:
 *   -EINVAL      unknown wait mode, back end or gap (UMBRA_WAIT), owner_cpu == shadow_cpu
 *   -EOPNOTSUPP  the forced wait back end cannot execute here
 *   -ENODEV      this process may not use the processor; there is no second hardware thread at all
 *   -ENOSPC      all siblings (without siblings: all other hardware threads) already have a shadow
 *                or an owner, or are in options->avoid
 *   -EBUSY       shadow_cpu already has a shadow; or the caller owns a shadow already, and is bound
 *                to another hardware thread for it
 *   -ENOMEM, -EAGAIN  no memory or no thread; other negative errno from binding. hwloc may end the
 *                     process where memory ends (umbra_topology_create)
 */
UM_LINKONCE int shadow_create(struct umbra_shadow *shadow,
                              const struct umbra_shadow_options *options);

/*
 * Hands fn(arg) to the shadow and returns at once. The owner only; never blocks. What the caller
 * wrote before is visible to fn. Returns 0, -EBUSY (the last fork is not yet joined, done or not),
 * -EINVAL (no function), -EPERM (another thread's shadow), -ESRCH (destroyed).
 */
UM_INLINE int shadow_fork(struct umbra_shadow *shadow, umbra_shadow_fn *fn, void *arg);

/*
 * Waits until the forked function has returned. The owner only; blocks the thread, with all its
 * fibers. What fn wrote is then visible to the caller. Returns 0, -EINVAL (nothing forked), -EPERM,
 * -ESRCH.
 */
UM_INLINE int shadow_join(struct umbra_shadow *shadow);

/* As shadow_join, up to a deadline of umbra_now_ns(); 0 only looks. After -ETIMEDOUT the join is
 * still due. */
UM_INLINE int umbra_shadow_join_deadline(struct umbra_shadow *shadow, uint64_t deadline);

/*
 * Waits for a function that still runs, ends the helper thread, and gives the owner its old binding
 * back, unless the program has set another since. The owner, or any thread if the owner has ended;
 * blocks. Returns 0, -EPERM, -ESRCH.
 */
UM_LINKONCE int shadow_destroy(struct umbra_shadow *shadow);

/* ---- fork and join ---- */

#include <umbra/shadow/helper.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_STATIC_ASSERT(sizeof(struct um_slot) <= UMBRA_CACHE_LINE, "the slot is one line");
UM_STATIC_ASSERT(offsetof(struct umbra_shadow, owned) == UMBRA_CACHE_LINE, "and has it to itself");
UM_STATIC_ASSERT(offsetof(struct umbra_shadow, policy) % UMBRA_CACHE_LINE == 0, "nor shares any");
UM_STATIC_ASSERT(offsetof(struct umbra_shadow, owner_waiter) % UMBRA_CACHE_LINE == 0,
                 "nor does this");
UM_STATIC_ASSERT(__alignof__(struct umbra_shadow) <= UM_ANY_MEMORY, "malloc's memory will do");

/* True if no function runs, so that a join would not wait. Any thread; never blocks. */
UM_INLINE bool um_shadow_done(const struct umbra_shadow *shadow)
{
    return um_slot_look(&shadow->slot) != UM_SLOT_RUN;
}
#endif
