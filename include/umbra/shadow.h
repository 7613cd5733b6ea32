/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A shadow is a helper thread that stays beside one thread, its owner. It is created once; the owner
 * hands it a function and gets it back done, at about the price of moving one cache line there and
 * back (Hori et al., "Shadow Thread", section 3). Its place is an SMT sibling of the owner's core,
 * where it shares the L1 cache; without one, the nearest hardware thread, and the result says how
 * near that is.
 *
 *     struct umbra_shadow shadow;
 *
 *     shadow_create(&shadow, NULL);            bind the caller, start the helper beside it
 *     shadow_fork(&shadow, prefetch, &list);   the helper runs prefetch(&list) ...
 *     work();                                  ... while the owner does something else
 *     shadow_join(&shadow);                    prefetch has returned; its effects are visible
 *     shadow_destroy(&shadow);
 *
 * Who may call what
 *
 *     call                         by        blocks                    wrong use
 *     shadow_create                anybody   until the helper is bound -EINVAL, -ENODEV, ...
 *     shadow_fork                  owner     never                     -EBUSY: not yet joined
 *     shadow_join                  owner     until done                -EINVAL: nothing forked
 *     umbra_shadow_join_deadline      owner     until done or deadline    -EINVAL: nothing forked
 *     shadow_destroy               owner     until done                -
 *     umbra_shadow_done            anybody   never
 *     umbra_shadow_info, _stats    anybody   never
 *
 * The owner is the thread that called shadow_create. From any other thread, the shadow itself
 * included, the owner's calls return -EPERM; after shadow_destroy they return -ESRCH, as long as
 * the struct's memory is there. Destroying a shadow that runs waits for it first.
 *
 * How both sides wait is a matter of options->wait: see umbra/wait.h. A shadow that spins
 * (UMBRA_WAIT_SPIN) answers fastest and burns its hardware thread while idle.
 *
 * The helper blocks signals, but those that its own instructions raise, that profilers send, and that
 * the C library keeps for itself (with UMBRA_POSIX_ONLY: none). fork(2): the child has no
 * helper threads. Its parent's shadows are as if destroyed (-ESRCH), and a thread that owned some has
 * its old binding back; it may create its own.
 *
 * A shadow may be in any memory, malloc's too. It is faster if it begins a cache line:
 * _Alignas(UMBRA_CACHE_LINE), or aligned_alloc(UMBRA_CACHE_LINE, sizeof(struct umbra_shadow)).
 *
 * Invariants
 *   - The slot is one cache line, used in both directions (protocol/slot.h), and words written
 *     by the owner and words written by the helper share no other line, if the shadow begins a line.
 *   - A hardware thread holds at most one shadow of this process.
 *   - Fork and join allocate nothing and make no system call unless the other side has parked.
 */
#ifndef UMBRA_SHADOW_H
#define UMBRA_SHADOW_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/impl/cpu_table.h>
#include <umbra/protocol/slot.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

/* What a shadow runs. */
typedef void umbra_shadow_fn(void *arg);

/* Where and how. All zero, or NULL for the whole, is a good default. */
struct umbra_shadow_options {
    struct umbra_topology *topology; /* must outlive the shadow; NULL: look at this machine */
    struct umbra_wait_options wait;  /* both sides; `polite` is added on an SMT sibling */
    bool place_owner;                /* bind the owner to owner_cpu, not to where it runs now */
    bool place_shadow;               /* bind the shadow to shadow_cpu, not to the best free one */
    int owner_cpu;                   /* hardware threads by operating-system index */
    int shadow_cpu;
    const int *avoid; /* the best free one is to be none of these */
    unsigned avoid_count;
};

/* Where a shadow is. */
struct umbra_shadow_info {
    int owner_cpu;
    int shadow_cpu;
    enum umbra_shared shared; /* the nearest thing the two share; UMBRA_SHARED_CORE: siblings */
    bool bound;               /* false on a synthetic topology */
};

/* A shadow and its owner's end of it. In the caller's memory; not to be moved while in use. */
struct umbra_shadow {
    UM_ALIGNED(UM_ANY_MEMORY) struct um_slot slot; /* see protocol/slot.h */
    unsigned char apart[UM_LINE_REST(sizeof(struct um_slot))];

    /* the owner's line */
    um_atomic_uptr owner;            /* um_arch_thread_id, 0: destroyed; owner writes */
    bool forked;                     /* owner: forked and not joined */
    uint32_t resting;                /* joins that are still to rest; owner only */
    um_atomic_u32 rest;              /* length of a rest, in polls, 0: none; owner only */
    pthread_t thread;                /* the helper; set once */
    struct umbra_topology *topology; /* set once */
    bool own_topology;               /* made by shadow_create */
    struct umbra_affinity *saved;    /* the owner's binding before; owner only */
    struct umbra_shadow *next;       /* in um_shadows; under its lock */
    struct umbra_shadow_info info;   /* set once */
    int bind_error;                  /* helper writes before the first join, owner reads after */
    unsigned char apart_too[UM_LINE_REST(84)]; /* asserted below */

    struct umbra_wait_policy policy; /* set once; both read */
    unsigned char apart_as_well[UM_LINE_REST(sizeof(struct umbra_wait_policy))];

    struct umbra_waiter owner_waiter;  /* for IDLE; owner waits, helper wakes */
    struct umbra_waiter helper_waiter; /* for RUN or QUIT; helper waits, owner wakes */
};

/*
 * Binds the caller to its hardware thread (options->owner_cpu or where it runs now), starts a
 * helper thread on a free SMT sibling of that core, or on the nearest free hardware thread when the
 * core has a single one, and waits until it is there. Up to SMT-ways - 1 shadows a core by default
 * placement; options->place_shadow names any other hardware thread.
 *
 * Any thread, which becomes the owner. Blocks (some milliseconds: it reads the topology). Returns
 * 0, or, with nothing kept and the struct as if destroyed, an error, of which umbra_last_error_text()
 * names the processor or option:
 *   -EINVAL      unknown wait mode or back end (UMBRA_WAIT), owner_cpu == shadow_cpu
 *   -EOPNOTSUPP  forced wait back end cannot execute here
 *   -ENODEV      no such or not an allowed processor; no second hardware thread at all
 *   -ENOSPC      all siblings (without siblings: all other hardware threads) already hold a shadow
 *                or another owner, or are to be avoided
 *   -EBUSY       shadow_cpu already holds a shadow; or the caller owns one bound to another place
 *   -ENOMEM, -EAGAIN  memory or thread not to be had; other negative errno from binding
 */
UM_LINKONCE int shadow_create(struct umbra_shadow *shadow,
                              const struct umbra_shadow_options *options);

/*
 * Hands fn(arg) to the shadow and returns at once. The owner only; never blocks. What the caller
 * wrote before is visible to fn. Returns 0, -EBUSY (forked before and not yet joined, done or not),
 * -EPERM (another thread's shadow), -ESRCH (destroyed).
 */
UM_INLINE int shadow_fork(struct umbra_shadow *shadow, umbra_shadow_fn *fn, void *arg);

/*
 * Waits until the forked function has returned. The owner only; blocks the thread. What fn wrote is
 * visible to the caller. Returns 0, -EINVAL (nothing forked), -EPERM, -ESRCH.
 */
UM_INLINE int shadow_join(struct umbra_shadow *shadow);

/* The same up to a deadline of umbra_cycles(): -ETIMEDOUT leaves the fork to be joined later. */
UM_INLINE int umbra_shadow_join_deadline(struct umbra_shadow *shadow, uint64_t deadline);

/*
 * Ends the helper thread, after the function it still runs, and gives the caller its old binding
 * back. The owner only; blocks. Returns 0, -EPERM, -ESRCH.
 */
UM_LINKONCE int shadow_destroy(struct umbra_shadow *shadow);

/* Whether nothing is running, so that a join would not wait. Any thread; never blocks. */
UM_INLINE bool umbra_shadow_done(const struct umbra_shadow *shadow);

/* Where the shadow is. Any thread; never blocks. */
UM_INLINE struct umbra_shadow_info umbra_shadow_info(const struct umbra_shadow *shadow);

/*
 * How the helper waited for work and the owner for joins, the hundred rounds of shadow_create
 * included. Any thread; never blocks.
 */
UM_INLINE struct umbra_wait_stats umbra_shadow_stats(const struct umbra_shadow *shadow);
UM_INLINE struct umbra_wait_stats umbra_shadow_owner_stats(const struct umbra_shadow *shadow);

/* ---- fork and join ---- */

#define UM_SHADOW_RESTING 31 /* joins that rest after one that has found it pays */

#include <umbra/impl/shadow.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

_Static_assert(sizeof(struct um_slot) <= UMBRA_CACHE_LINE, "the slot is one line");
_Static_assert(offsetof(struct umbra_shadow, owner) == UMBRA_CACHE_LINE, "and has it to itself");
_Static_assert(offsetof(struct umbra_shadow, policy) % UMBRA_CACHE_LINE == 0, "nor shares any");
_Static_assert(offsetof(struct umbra_shadow, owner_waiter) % UMBRA_CACHE_LINE == 0,
               "nor does this");
_Static_assert(_Alignof(struct umbra_shadow) <= UM_ANY_MEMORY, "malloc's memory will do");

UM_INLINE bool umbra_shadow_done(const struct umbra_shadow *shadow)
{
    return um_slot_look(&shadow->slot) != UM_SLOT_RUN;
}

UM_INLINE struct umbra_shadow_info umbra_shadow_info(const struct umbra_shadow *shadow)
{
    return shadow->info;
}

UM_INLINE struct umbra_wait_stats umbra_shadow_stats(const struct umbra_shadow *shadow)
{
    return umbra_waiter_stats(&shadow->helper_waiter);
}

UM_INLINE struct umbra_wait_stats umbra_shadow_owner_stats(const struct umbra_shadow *shadow)
{
    return umbra_waiter_stats(&shadow->owner_waiter);
}

#endif
