/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Waiting for another thread to change a word: fast when the change is near, cool when it is not.
 *
 *   phase     what it does                                     left after
 *   spin      load, short gap, load ...                        spin_cycles
 *   monitor   arm the processor's monitor on the word's line,  block_cycles, counted from the
 *             look again, wait for a store; without such       start of the wait
 *             instructions: pauses with a growing gap
 *   park      sleep in the kernel (futex)                      -
 *
 * This is the two-phase wait of Hori et al. ("Shadow Thread", section 2.2, Figure 7) with a third
 * phase, so that an oversubscribed or virtual machine gets its processor back. Not to park for as
 * long as parking costs is never more than twice as slow as the best choice in hindsight (Karlin et
 * al., 1990); the default of block_cycles is twice that cost, measured once (impl/block.h says
 * why twice). A dispatcher's workers let their cores park later (umbra/dispatch.h).
 *
 * Use. One struct umbra_waiter for each thread that waits; it may wait on any word, one at a time.
 * Bind the threads apart (umbra/topology.h): a waiter that shares the processor of the thread it
 * waits for keeps it from running until it parks.
 *
 *     waiting thread                                     signalling thread
 *     umbra_wait_while_equal32(&waiter, &word, 0,        data = ...;
 *                              UINT32_MAX, UMBRA_NEVER); umbra_signal32(&word, 1, &waiter);
 *     ... data ...
 *
 * What the signaller wrote before the signal is visible after the wait. The signaller looks at the
 * waiter after it stored the word, so the waiter must outlive that call, not only the wait. A plain
 * store to the word ends phases 1 and 2 as well, but wakes nobody who has parked. The word should
 * have a cache line of its own: any store to its line wakes a monitor. So should the waiter, which may
 * be in any memory, but saves the signaller a transfer if nothing that others write is on its first
 * line: _Alignas(UMBRA_CACHE_LINE), or aligned_alloc(UMBRA_CACHE_LINE, bytes).
 *
 * Memory order. umbra_signal stores with seq_cst and loads `parked` with seq_cst; the proof that no
 * wake-up is lost is in protocol/park.h. Loads in phases 1 and 2 are acquire.
 *
 * Deadlines are absolute time stamps of umbra_cycles(): umbra_deadline(ns) makes one.
 *
 * UMBRA_WAIT in the environment forces a back end: auto, pause, waitpkg, monitorx, mwait, wfe,
 * wfet, zawrs or power-wait. A forced back end is used even where measurement advises against it.
 */
#ifndef UMBRA_WAIT_H
#define UMBRA_WAIT_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/protocol/park.h>

/* Default length of the spin phase, ns: the bound that folly uses as well. */
#ifndef UMBRA_SPIN_NS
#define UMBRA_SPIN_NS 2000
#endif

enum umbra_wait_mode {
    UMBRA_WAIT_TWO_PHASE, /* spin, monitor, park: the default */
    UMBRA_WAIT_SPIN,      /* spin for ever: lowest latency, burns the processor */
    UMBRA_WAIT_MONITOR,   /* monitor at once (with back end pause: after spinning), never park */
    UMBRA_WAIT_PARK       /* park at once */
};

/* How to wait. All zero is a good default. */
struct umbra_wait_options {
    enum umbra_wait_mode mode;
    const char *backend;   /* as UMBRA_WAIT, which overrules it; NULL or "auto": measured choice */
    uint64_t spin_cycles;  /* two-phase: length of phase 1; 0: UMBRA_SPIN_NS, 1: none */
    uint64_t block_cycles; /* two-phase: when to park; 0: measured, UMBRA_NEVER: never */
    bool polite;           /* the word's writer shares the core (SMT): spin with pause */
};

/* A chosen way to wait; read-only after umbra_wait_policy_init, may be shared by threads. */
struct umbra_wait_policy {
    uint64_t spin_cycles;      /* length of phase 1, time-stamp cycles; 0: none */
    uint64_t block_cycles;     /* start of phase 3, cycles after the start; UMBRA_NEVER: none */
    uint64_t slice_cycles;     /* longest single monitor wait */
    uint64_t preempted_cycles; /* a batch of polls this long was interrupted */
    uint32_t backend;          /* enum umbra_backend */
    uint32_t poll_cycles;      /* measured cost of one poll of phase 1 */
    uint32_t batch;            /* polls between two looks at the clock in phase 1 */
    bool polite;               /* phase 1 pauses instead of polling as fast as is useful */
};

/* How a wait ended. */
enum umbra_wait_end { UMBRA_ENDED_SPIN, UMBRA_ENDED_MONITOR, UMBRA_ENDED_PARK };

/* What a waiter has seen so far. */
struct umbra_wait_stats {
    uint64_t ended[3];  /* waits ended in each phase, by enum umbra_wait_end */
    uint64_t timeouts;  /* waits ended by their deadline */
    uint64_t spurious;  /* monitor waits that returned early with nothing changed */
    uint64_t capped;    /* monitor waits ended by the operating system's cap */
    uint64_t preempted; /* times the processor was seen to be taken away while spinning */
    uint64_t cycles;    /* spent waiting; short spins by poll count times poll_cycles */
};

/*
 * The same as a waiter keeps it. Only the waiting thread writes, with a relaxed load and store each
 * (nothing is ordered by a count); anybody may read.
 */
struct um_wait_counters {
    um_atomic_u64 ended[3];
    um_atomic_u64 timeouts;
    um_atomic_u64 spurious;
    um_atomic_u64 capped;
    um_atomic_u64 preempted;
    um_atomic_u64 cycles; /* clocked ones */
    um_atomic_u64 polls;  /* polls of phase 1 whose cycles nobody clocked */
};

/* A thread's means to wait. The counters are a line further on, because signallers read the first line
 * on every signal; so far that they are on another line wherever the waiter is. */
struct umbra_waiter {
    UM_ALIGNED(UM_ANY_MEMORY) struct um_park park; /* waiter and signallers */
    const struct umbra_wait_policy *policy;        /* fixed at init */
    unsigned char apart[UM_LINE_REST(2 * sizeof(void *))];
    struct um_wait_counters count; /* waiter; any thread reads */
    /* waiter: phase 3 not before so many cycles after a time stamp; a length, since a clock may be set
     * back */
    uint64_t awake_since, awake_cycles;
    uint64_t robbed; /* waiter: when somebody kept the processor that it had lent; cycles */
    unsigned char apart_too[UM_LINE_REST(sizeof(struct um_wait_counters) + 3 * sizeof(uint64_t))];
};

/*
 * Makes a policy. Chooses the back end: forced by UMBRA_WAIT or options->backend, else the best
 * one that the processor announces and that measurement accepts (once per process, some 10 us for
 * each). The default block_cycles is twice the cost of a kernel wake-up on another processor,
 * measured once per process with two short-lived threads (about 1 ms); give a value to avoid that.
 * Bound to a single processor it cannot be measured, and is 40 us. options may be NULL. Any thread;
 * blocks for those times. Returns 0, -EINVAL (no such back end or mode), -EOPNOTSUPP (forced
 * back end cannot execute here), policy untouched on failure; umbra_last_error_text() says more.
 */
UM_LINKONCE int umbra_wait_policy_init(struct umbra_wait_policy *policy,
                                       const struct umbra_wait_options *options);

/* Prepares a waiter; the policy must outlive it. Any thread; never blocks. */
UM_INLINE void umbra_waiter_init(struct umbra_waiter *waiter,
                                 const struct umbra_wait_policy *policy);

/*
 * Waits while (*word & mask) == value; `until` waits while it differs. deadline: time stamp, or
 * UMBRA_NEVER. The thread that owns the waiter. Blocks the calling thread. Returns how the wait
 * ended (enum umbra_wait_end), or -ETIMEDOUT; a condition that already holds beats the deadline.
 */
UM_INLINE int umbra_wait_while_equal32(struct umbra_waiter *waiter, const _Atomic uint32_t *word,
                                       uint32_t value, uint32_t mask, uint64_t deadline);
UM_INLINE int umbra_wait_until_equal32(struct umbra_waiter *waiter, const _Atomic uint32_t *word,
                                       uint32_t value, uint32_t mask, uint64_t deadline);
UM_INLINE int umbra_wait_while_equal64(struct umbra_waiter *waiter, const _Atomic uint64_t *word,
                                       uint64_t value, uint64_t mask, uint64_t deadline);
UM_INLINE int umbra_wait_until_equal64(struct umbra_waiter *waiter, const _Atomic uint64_t *word,
                                       uint64_t value, uint64_t mask, uint64_t deadline);

/*
 * Stores value in the word and wakes the waiter if it has parked; only then is there a system call.
 * umbra_wake does the second half alone, after the caller changed the word with a seq_cst
 * operation of its own. Any thread; never blocks. umbra_wake returns whether it woke somebody.
 */
UM_INLINE void umbra_signal32(_Atomic uint32_t *word, uint32_t value, struct umbra_waiter *waiter);
UM_INLINE void umbra_signal64(_Atomic uint64_t *word, uint64_t value, struct umbra_waiter *waiter);
UM_INLINE bool umbra_wake(struct umbra_waiter *waiter);

/* The time stamp that is ns nanoseconds ahead. Any thread; never blocks. */
UM_INLINE uint64_t umbra_deadline(uint64_t ns);

/* A copy of the waiter's counters. Any thread, at any time; never blocks. */
UM_INLINE struct umbra_wait_stats umbra_waiter_stats(const struct umbra_waiter *waiter);

#include <umbra/impl/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

_Static_assert(_Alignof(struct umbra_waiter) <= UM_ANY_MEMORY, "malloc's memory will do");
_Static_assert(offsetof(struct umbra_waiter, count) == UMBRA_CACHE_LINE,
               "counters off the line that signallers read");
_Static_assert(sizeof(struct umbra_waiter) % UMBRA_CACHE_LINE == 0, "and in an array, too");

UM_INLINE int umbra_wait_while_equal32(struct umbra_waiter *waiter, const _Atomic uint32_t *word,
                                       uint32_t value, uint32_t mask, uint64_t deadline)
{
    return um_wait_run(waiter, (struct um_wait_cond){word, value, mask, false, false}, deadline);
}

UM_INLINE int umbra_wait_until_equal32(struct umbra_waiter *waiter, const _Atomic uint32_t *word,
                                       uint32_t value, uint32_t mask, uint64_t deadline)
{
    return um_wait_run(waiter, (struct um_wait_cond){word, value, mask, false, true}, deadline);
}

UM_INLINE int umbra_wait_while_equal64(struct umbra_waiter *waiter, const _Atomic uint64_t *word,
                                       uint64_t value, uint64_t mask, uint64_t deadline)
{
    return um_wait_run(waiter, (struct um_wait_cond){word, value, mask, true, false}, deadline);
}

UM_INLINE int umbra_wait_until_equal64(struct umbra_waiter *waiter, const _Atomic uint64_t *word,
                                       uint64_t value, uint64_t mask, uint64_t deadline)
{
    return um_wait_run(waiter, (struct um_wait_cond){word, value, mask, true, true}, deadline);
}

/* ---- signals, deadlines, counters ---- */

UM_INLINE bool umbra_wake(struct umbra_waiter *waiter)
{
    return um_park_wake(&waiter->park);
}

UM_INLINE void umbra_signal32(_Atomic uint32_t *word, uint32_t value, struct umbra_waiter *waiter)
{
    um_atomic_store(word, value, seq_cst); /* step S1 of protocol/park.h; pairs with um_wait_look */
    um_park_wake(&waiter->park);
}

UM_INLINE void umbra_signal64(_Atomic uint64_t *word, uint64_t value, struct umbra_waiter *waiter)
{
    um_atomic_store(word, value, seq_cst); /* step S1 of protocol/park.h; pairs with um_wait_look */
    um_park_wake(&waiter->park);
}

UM_INLINE uint64_t umbra_deadline(uint64_t ns)
{
    return um_add_saturating(um_arch_cycles(), umbra_ns_to_cycles(ns));
}

UM_INLINE void umbra_waiter_init(struct umbra_waiter *waiter,
                                 const struct umbra_wait_policy *policy)
{
    *waiter = (struct umbra_waiter){.policy = policy};
}

UM_INLINE struct umbra_wait_stats umbra_waiter_stats(const struct umbra_waiter *waiter)
{
    const struct um_wait_counters *count = &waiter->count;
    uint64_t polls = um_atomic_load(&count->polls, relaxed);
    struct umbra_wait_stats stats = {.timeouts = um_atomic_load(&count->timeouts, relaxed),
                                     .spurious = um_atomic_load(&count->spurious, relaxed),
                                     .capped = um_atomic_load(&count->capped, relaxed),
                                     .preempted = um_atomic_load(&count->preempted, relaxed),
                                     .cycles = um_atomic_load(&count->cycles, relaxed) +
                                               polls * waiter->policy->poll_cycles};

    for (int end = 0; end < 3; end++)
        stats.ended[end] = um_atomic_load(&count->ended[end], relaxed);
    return stats;
}

#endif
