/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Waiting for another thread to change a word: fast when the change is near, cool when it is not.
 *
 *   phase     what it does                                     left after
 *   spin      load, short gap, load ...                        spin_cycles
 *   monitor   arm the processor's monitor on the word's line,  block_cycles, counted from the
 *             look again, wait for a store; without such       start of the wait
 *             instructions: pauses with a growing gap;
 *             where members of teams share a processor:
 *             sched_yield() between looks; in a team with
 *             a function for it, calls of that
 *   park      sleep in the kernel (futex)                      -
 *
 * This is the two-phase wait of Hori et al. ("Shadow Thread", section 2.2, Figure 7) with a third
 * phase, so that an oversubscribed or virtual machine gets its processor back. A wait that parks
 * after the time that parking costs is never more than twice as slow as the best choice in
 * hindsight (Karlin et al., 1990); the default of block_cycles is twice that cost, measured once
 * (wait/probe.h says why). A dispatcher's workers let their cores park later
 * (umbra/dispatch.h).
 *
 * Use. Each thread that waits has one struct umbra_waiter; it may wait on any word, on one at a
 * time. Bind the threads apart (umbra/topology.h): a waiter on the same processor as its signaller
 * keeps the signaller from running until the waiter parks.
 *
 *     waiting thread                                     signalling thread
 *     umbra_wait_while_equal(&waiter, &word, 0,          data = ...;
 *                            UINT32_MAX, UMBRA_NEVER);   umbra_signal(&word, 1, &waiter);
 *     ... data ...
 *
 * What the signaller wrote before the signal is visible after the wait. The signaller looks at the
 * waiter after it stored the word, so the waiter must outlive that call, not only the wait. A plain
 * store to the word ends phases 1 and 2 as well, but does not wake a parked waiter. The word should
 * have a cache line of its own: any store to its line wakes a monitor. The waiter may be in any
 * memory, but the signaller saves a line transfer if the waiter begins a line, so that no other
 * thread writes to its first line: _Alignas(UMBRA_CACHE_LINE), or aligned_alloc.
 *
 * Callers. Only the thread that owns a waiter waits with it. A wait blocks that thread and never
 * switches fibers, so a fiber that waits here stops its core: fibers wait for events. Any thread
 * may signal, wake or read counters.
 *
 * Memory order. umbra_signal stores with seq_cst and loads `parked` with seq_cst; the proof that no
 * wake-up is lost is in wait/park.h. Loads in phases 1 and 2 are acquire.
 *
 * Deadlines, here and everywhere, are times of umbra_now_ns(); umbra_deadline(ns) makes one.
 * Inside, a wait counts in cycles, converted once, so a long one may end too early by as much as
 * the rate of the time stamp is wrong (umbra/cpu.h): up to 0.05 % if it was measured.
 *
 * UMBRA_WAIT in the environment forces a back end: auto, pause, waitpkg, monitorx, mwait, wfe,
 * wfet, zawrs or power-wait. A forced back end is used even where measurement advises against it.
 * After it, or instead of it, UMBRA_WAIT may name the gap between two polls (wait/gap.h), of both
 * places or of one: UMBRA_WAIT=pause,gap=fence or UMBRA_WAIT=slot=fence,other=pause+write. The
 * place `slot` is that of shadows and teams, `other` that of all other waits; the gaps are none,
 * pause, pauses, fence and clock, each also with +write. Gaps that are not forced are measured
 * (wait/probe.h), once per process for each kind of pair of processors: by the first shadow, team
 * or runtime that has two such processors. What was found is told by um_wait_report() of the back
 * ends (wait/monitor.h), and by um_machine of the gaps (wait/machine.h).
 */
#ifndef UMBRA_WAIT_H
#define UMBRA_WAIT_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/wait/gap.h>
#include <umbra/wait/park.h>

/* Default length of the spin phase: folly uses the same bound. By default no wait sleeps before
 * 5 us, so it only decides when pauses begin to grow. */
#ifndef UMBRA_SPIN_NS
#define UMBRA_SPIN_NS 2000
#endif

enum umbra_wait_mode {
    UMBRA_WAIT_TWO_PHASE, /* spin, monitor, park: the default */
    UMBRA_WAIT_SPIN,      /* spin for ever: lowest latency, keeps the processor busy */
    UMBRA_WAIT_MONITOR,   /* monitor at once (with back end pause: after spinning), never park */
    UMBRA_WAIT_PARK       /* park at once */
};

/* How to wait. All zero is a good default. */
struct umbra_wait_options {
    enum umbra_wait_mode mode;
    const char *backend;   /* a name as in UMBRA_WAIT, which overrules it; NULL, "auto": measured */
    uint64_t spin_cycles;  /* two-phase: length of phase 1; 0: UMBRA_SPIN_NS, 1: none */
    uint64_t block_cycles; /* two-phase: when to park; 0: measured, UMBRA_NEVER: never */
    bool polite;           /* the word's writer shares the core (SMT): spin with pause */
};

struct umbra_waiter;

/* A chosen way to wait. Read-only after umbra_wait_policy_init; threads may share it. */
struct umbra_wait_policy {
    uint64_t spin_cycles;      /* length of phase 1, time-stamp cycles; 0: none */
    uint64_t block_cycles;     /* start of phase 3, cycles after the start; UMBRA_NEVER: none */
    uint64_t slice_cycles;     /* longest single monitor wait */
    uint64_t preempted_cycles; /* a batch of polls that took this long was interrupted */
    /* What follows, up to idle_arg, is 0 but where a team sets it, robbed never without a phase 3 */
    uint64_t shared_spin_cycles; /* length of phase 1 where phase 2 yields */
    uint64_t yield_cycles;       /* a yield that lasts so long lent the processor to a process */
    um_atomic_u64 *robbed; /* if not NULL, and not UM_NOT_SHARED there, phase 2 yields: when a yield
                                  last lent the processor, a time stamp */
    bool (*idle)(struct umbra_waiter *waiter, void *arg); /* if not NULL, phase 2 calls it, and the
                                  last look before the thread sleeps. True: the wait begins anew */
    void *idle_arg;
    uint32_t backend;     /* enum umbra_wait_backend */
    uint32_t poll_cycles; /* measured cost of one poll of phase 1 */
    uint32_t batch;       /* polls between two looks at the clock in phase 1 */
    uint32_t gap;         /* between two polls of phase 1: enum umbra_gap, UMBRA_GAP_WRITE */
    bool polite;          /* phase 1 pauses instead of polling as fast as is useful */
};

/* How a wait ended. */
enum umbra_wait_end { UMBRA_ENDED_SPIN, UMBRA_ENDED_MONITOR, UMBRA_ENDED_PARK };

/* What a waiter has seen so far. */
struct umbra_wait_stats {
    uint64_t ended[3];  /* waits ended in each phase, by enum umbra_wait_end */
    uint64_t timeouts;  /* waits ended by their deadline */
    uint64_t spurious;  /* monitor waits that returned early with nothing changed */
    uint64_t capped;    /* monitor waits ended by the operating system's cap */
    uint64_t preempted; /* how often the waiter lost its processor while it spun */
    uint64_t cycles;    /* spent waiting; short spins by poll count times poll_cycles */
};

/*
 * The same counters as a waiter keeps them. Only the waiting thread writes, with a relaxed load and
 * store each (nothing is ordered by a count); any thread may read.
 */
struct um_wait_counters {
    um_atomic_u64 ended[3];
    um_atomic_u64 timeouts;
    um_atomic_u64 spurious;
    um_atomic_u64 capped;
    um_atomic_u64 preempted;
    um_atomic_u64 cycles; /* read from the clock */
    um_atomic_u64 polls;  /* polls of phase 1 that `cycles` does not include */
};

/* A thread's means to wait. Signallers read the first line at every signal, so the counters stand a
 * whole line further on: they are on another line wherever the waiter begins. */
struct umbra_waiter {
    UM_ALIGNED(UM_ANY_MEMORY) struct um_park park; /* waiter and signallers */
    const struct umbra_wait_policy *policy;        /* fixed at init */
    unsigned char apart[UM_LINE_REST(2 * sizeof(void *))];
    struct um_wait_counters count; /* waiter; any thread reads */
    /* waiter: phase 3 begins at least awake_cycles after awake_since, a time stamp. It is a length,
     * since a clock may be set back */
    uint64_t awake_since, awake_cycles;
    uint64_t robbed; /* waiter: when another thread kept the processor after a yield; time stamp */
    unsigned char apart_too[UM_LINE_REST(sizeof(struct um_wait_counters) + 3 * sizeof(uint64_t))];
};

/*
 * Makes a policy. The back end is the one that UMBRA_WAIT or options->backend forces, else the best
 * one that the processor announces and that measurement accepts (once per process, some 10 us for
 * each back end). The default block_cycles is twice the cost of a kernel wake-up on another
 * processor, measured once per process with two short-lived threads (about 1 ms); give a value to
 * avoid that. A process bound to one processor cannot measure it: it is then 40 us. options may be
 * NULL. Any thread; blocks for those times, and never switches fibers. Returns 0, -EINVAL (no such
 * back end, mode, place or gap), -EOPNOTSUPP (the forced back end cannot execute here); the policy
 * is untouched on failure, and umbra_last_error_text() says more.
 */
UM_LINKONCE int umbra_wait_policy_init(struct umbra_wait_policy *policy,
                                       const struct umbra_wait_options *options);

/* Initializer of a waiter; the policy must outlive it. */
#define UMBRA_WAITER_INIT(how) UM_WAITER_INIT(how)

/*
 * Waits while (*word & mask) == value; `until` waits while it differs. word points to an _Atomic
 * uint32_t or uint64_t, in C++ to a std::atomic of one; value and mask have that type. deadline: of
 * umbra_now_ns(), or UMBRA_NEVER. Only the thread that owns the waiter; blocks it, and never
 * switches fibers. Returns how the wait ended (enum umbra_wait_end), or -ETIMEDOUT. If the wait is
 * over at the call, the deadline does not matter.
 */
#define umbra_wait_while_equal(waiter, word, value, mask, deadline)                                \
    UM_BY_WIDTH(word, um_wait_while_equal)                                                         \
    ((waiter), (word), (value), (mask), um_deadline_cycles(deadline))
#define umbra_wait_until_equal(waiter, word, value, mask, deadline)                                \
    UM_BY_WIDTH(word, um_wait_until_equal)                                                         \
    ((waiter), (word), (value), (mask), um_deadline_cycles(deadline))

/*
 * Stores value in the word, and wakes the waiter if it has parked; only then is there a system
 * call. umbra_wake does the second half alone: the caller has changed the word with a seq_cst
 * operation of its own. It returns true if it woke a parked waiter. Any thread; never blocks.
 */
#define umbra_signal(word, value, waiter) UM_BY_WIDTH(word, um_signal)((word), (value), (waiter))
UM_INLINE bool umbra_wake(struct umbra_waiter *waiter);

/* Of two functions with names that end with 32 and 64, the one for the width of *word. */
#ifdef __cplusplus
#define UM_BY_WIDTH(word, function) function
#else
#define UM_BY_WIDTH(word, function)                                                                \
    _Generic((word),                                                                               \
        _Atomic uint32_t *: function##32,                                                          \
        const _Atomic uint32_t *: function##32,                                                    \
        _Atomic uint64_t *: function##64,                                                          \
        const _Atomic uint64_t *: function##64)
#endif

/* The time ns nanoseconds from now, umbra_now_ns() + ns, at most UMBRA_NEVER. Any thread; never
 * blocks. */
UM_INLINE uint64_t umbra_deadline(uint64_t ns);

/* A copy of the waiter's counters. Any thread, at any time; never blocks. */
UM_INLINE struct umbra_wait_stats umbra_waiter_stats(const struct umbra_waiter *waiter);

#include <umbra/wait/phases.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_WAITER_INIT(how)                                                                        \
    {                                                                                              \
        .policy = (how)                                                                            \
    }

UM_STATIC_ASSERT(__alignof__(struct umbra_waiter) <= UM_ANY_MEMORY, "malloc's memory will do");
UM_STATIC_ASSERT(offsetof(struct umbra_waiter, count) == UMBRA_CACHE_LINE,
                 "counters off the line that signallers read");
UM_STATIC_ASSERT(sizeof(struct umbra_waiter) % UMBRA_CACHE_LINE == 0, "and in an array, too");

UM_INLINE int um_wait_while_equal32(struct umbra_waiter *waiter, const um_atomic_u32 *word,
                                    uint32_t value, uint32_t mask, uint64_t deadline)
{
    return um_wait_run(waiter, (struct um_wait_cond){word, value, mask, false, false}, deadline);
}

UM_INLINE int um_wait_until_equal32(struct umbra_waiter *waiter, const um_atomic_u32 *word,
                                    uint32_t value, uint32_t mask, uint64_t deadline)
{
    return um_wait_run(waiter, (struct um_wait_cond){word, value, mask, false, true}, deadline);
}

UM_INLINE int um_wait_while_equal64(struct umbra_waiter *waiter, const um_atomic_u64 *word,
                                    uint64_t value, uint64_t mask, uint64_t deadline)
{
    return um_wait_run(waiter, (struct um_wait_cond){word, value, mask, true, false}, deadline);
}

UM_INLINE int um_wait_until_equal64(struct umbra_waiter *waiter, const um_atomic_u64 *word,
                                    uint64_t value, uint64_t mask, uint64_t deadline)
{
    return um_wait_run(waiter, (struct um_wait_cond){word, value, mask, true, true}, deadline);
}

/* ---- signals, deadlines, counters ---- */

UM_INLINE bool umbra_wake(struct umbra_waiter *waiter)
{
    return um_park_wake(&waiter->park);
}

UM_INLINE void um_signal32(um_atomic_u32 *word, uint32_t value, struct umbra_waiter *waiter)
{
    um_atomic_store(word, value, seq_cst); /* step S1 of wait/park.h; pairs with um_wait_look */
    um_park_wake(&waiter->park);
}

UM_INLINE void um_signal64(um_atomic_u64 *word, uint64_t value, struct umbra_waiter *waiter)
{
    um_atomic_store(word, value, seq_cst); /* step S1 of wait/park.h; pairs with um_wait_look */
    um_park_wake(&waiter->park);
}

UM_INLINE uint64_t umbra_deadline(uint64_t ns)
{
    return um_add_saturating(umbra_now_ns(), ns);
}

UM_INLINE void um_waiter_init(struct umbra_waiter *waiter, const struct umbra_wait_policy *policy)
{
    *waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(policy);
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

#ifdef __cplusplus
/* What _Generic does in C, for words of std::atomic: it has the layout of the number in it. */
#define UM_BY_WIDTH_IN_CXX(bits)                                                                   \
    template <template <typename> class Atomic>                                                    \
    UM_INLINE int um_wait_while_equal(struct umbra_waiter *waiter,                                 \
                                      const Atomic<uint##bits##_t> *word, uint##bits##_t value,    \
                                      uint##bits##_t mask, uint64_t deadline)                      \
    {                                                                                              \
        UM_STATIC_ASSERT(sizeof(*word) == sizeof(value), "an atomic that needs no lock");          \
        return um_wait_while_equal##bits(waiter, (const um_atomic_u##bits *)word, value, mask,     \
                                         deadline);                                                \
    }                                                                                              \
    template <template <typename> class Atomic>                                                    \
    UM_INLINE int um_wait_until_equal(struct umbra_waiter *waiter,                                 \
                                      const Atomic<uint##bits##_t> *word, uint##bits##_t value,    \
                                      uint##bits##_t mask, uint64_t deadline)                      \
    {                                                                                              \
        UM_STATIC_ASSERT(sizeof(*word) == sizeof(value), "an atomic that needs no lock");          \
        return um_wait_until_equal##bits(waiter, (const um_atomic_u##bits *)word, value, mask,     \
                                         deadline);                                                \
    }                                                                                              \
    template <template <typename> class Atomic>                                                    \
    UM_INLINE void um_signal(Atomic<uint##bits##_t> *word, uint##bits##_t value,                   \
                             struct umbra_waiter *waiter)                                          \
    {                                                                                              \
        UM_STATIC_ASSERT(sizeof(*word) == sizeof(value), "an atomic that needs no lock");          \
        um_signal##bits((um_atomic_u##bits *)word, value, waiter);                                 \
    }

extern "C++" { /* also where a user includes this inside extern "C" */
UM_BY_WIDTH_IN_CXX(32)
UM_BY_WIDTH_IN_CXX(64)
}
#endif

#endif
