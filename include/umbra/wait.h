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
 * al., 1990); the default of block_cycles is twice that cost, measured once (detail/block.h says
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
 * wake-up is lost is in detail/park_protocol.h. Loads in phases 1 and 2 are acquire.
 *
 * Deadlines are absolute time stamps of umbra_cycles(): umbra_deadline(ns) makes one.
 *
 * UMBRA_WAIT in the environment forces a back end: auto, pause, waitpkg, monitorx, mwait, wfe,
 * wfet, zawrs or power-wait. A forced back end is used even where measurement advises against it.
 */
#ifndef UMBRA_WAIT_H
#define UMBRA_WAIT_H

#include <sched.h>

#include <umbra/cpu.h>
#include <umbra/detail/atomic.h>
#include <umbra/detail/backend.h>
#include <umbra/detail/base.h>
#include <umbra/detail/block.h>
#include <umbra/detail/os.h>
#include <umbra/detail/park_protocol.h>
#include <umbra/detail/why.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

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

_Static_assert(_Alignof(struct umbra_waiter) <= UM_ANY_MEMORY, "malloc's memory will do");
_Static_assert(offsetof(struct umbra_waiter, count) == UMBRA_CACHE_LINE,
               "counters off the line that signallers read");
_Static_assert(sizeof(struct umbra_waiter) % UMBRA_CACHE_LINE == 0, "and in an array, too");

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

/* ---- the wait itself ---- */

UM_INLINE void um_count(um_atomic_u64 *counter, uint64_t more)
{
    um_atomic_store(counter, um_atomic_load(counter, relaxed) + more, relaxed);
}

#define UM_BATCH_NS 400  /* time between two looks at the clock while spinning */
#define UM_BATCH_LEAST 4 /* and the same in polls */
#define UM_BATCH_MOST 128
#define UM_PAUSE_BATCH 16     /* pauses between two looks at the clock, at least */
#define UM_PAUSE_MOST 64      /* longest gap between two polls, in pauses */
#define UM_SLICE_NS 50000     /* a monitor wait's longest slice: below Linux's 100,000-cycle cap */
#define UM_PREEMPTED_NS 50000 /* a batch of polls that takes longer was interrupted */

/* A condition on a word: over when ((word & mask) == value) == equal. */
struct um_wait_cond {
    const void *word; /* _Atomic uint64_t if wide, else _Atomic uint32_t */
    uint64_t value;
    uint64_t mask;
    bool wide;
    bool equal;
};

UM_INLINE bool um_wait_over(const struct um_wait_cond *cond, uint64_t seen)
{
    return ((seen & cond->mask) == cond->value) == cond->equal;
}

/* acquire: pairs with the store of umbra_signal or with any release store to the word */
UM_INLINE bool um_wait_look(const struct um_wait_cond *cond)
{
    return um_wait_over(cond, cond->wide
                                  ? um_atomic_load((const um_atomic_u64 *)cond->word, acquire)
                                  : um_atomic_load((const um_atomic_u32 *)cond->word, acquire));
}

/* seq_cst: step W2 of park_protocol.h; pairs with the store of umbra_signal (S1) */
UM_LINKONCE UM_COLD bool um_wait_look_parked(void *context)
{
    const struct um_wait_cond *cond = context;

    return um_wait_over(cond, cond->wide
                                  ? um_atomic_load((const um_atomic_u64 *)cond->word, seq_cst)
                                  : um_atomic_load((const um_atomic_u32 *)cond->word, seq_cst));
}

/* Arms the monitor on the word's line and looks again, so that no store falls between. */
UM_INLINE bool um_wait_arm(uint32_t backend, const struct um_wait_cond *cond)
{
    return um_wait_over(cond, cond->wide ? um_arch_arm_load64(backend, cond->word)
                                         : um_arch_arm_load32(backend, cond->word));
}

/* One batch of polls: how many it took until the wait was over, or 0 when it is not over yet. */
UM_INLINE uint32_t um_wait_poll(const struct um_wait_cond *cond, bool polite, uint32_t batch)
{
    for (uint32_t polls = 1; polls <= batch; polls++) {
        if (polite)
            um_arch_pause();
        else
            um_arch_relax();
        if (um_wait_look(cond))
            return polls;
    }
    return 0;
}

/* The clock of one long wait, in time stamps. */
struct um_wait_clock {
    uint64_t start;
    uint64_t now;
    uint64_t deadline;
};

UM_INLINE uint64_t um_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

UM_INLINE uint64_t um_add_saturating(uint64_t a, uint64_t b)
{
    return a > UMBRA_NEVER - b ? UMBRA_NEVER : a + b;
}

/* Rest of phase 1, after its first batch, which nobody clocked. Whether the wait is over. */
UM_INLINE bool um_wait_spin(struct umbra_waiter *waiter, const struct um_wait_cond *cond,
                            struct um_wait_clock *clock)
{
    const struct umbra_wait_policy *policy = waiter->policy;
    uint64_t first = (uint64_t)policy->batch * policy->poll_cycles;
    uint64_t rest = policy->spin_cycles > first ? policy->spin_cycles - first : 0;

    while (clock->now - clock->start < rest && clock->now < clock->deadline) {
        uint64_t before = clock->now;
        uint32_t polls = um_wait_poll(cond, policy->polite, policy->batch);

        um_count(&waiter->count.polls, polls);
        if (polls > 0)
            return true;
        clock->now = um_arch_cycles();
        if (clock->now - before > policy->preempted_cycles) {
            um_count(&waiter->count.preempted, 1);
            if (policy->block_cycles != UMBRA_NEVER)
                break;
        }
    }
    return false;
}

/* Phase 2 without a monitor: pauses, the gap between two looks doubling, until a time stamp. */
UM_INLINE bool um_wait_pauses(const struct um_wait_cond *cond, struct um_wait_clock *clock,
                              uint64_t until)
{
    uint32_t gap = 1;
    uint32_t unclocked = 0;

    while (clock->now < until) {
        for (uint32_t i = 0; i < gap; i++)
            um_arch_pause();
        if (um_wait_look(cond))
            return true;
        unclocked += gap;
        gap = gap < UM_PAUSE_MOST ? 2 * gap : gap;
        if (unclocked >= UM_PAUSE_BATCH) {
            clock->now = um_arch_cycles();
            unclocked = 0;
        }
    }
    return false;
}

/* Phase 2 with a monitor, in slices: no monitor is trusted to wake us for ever. */
UM_INLINE bool um_wait_monitors(struct umbra_waiter *waiter, const struct um_wait_cond *cond,
                                struct um_wait_clock *clock, uint64_t until)
{
    const struct umbra_wait_policy *policy = waiter->policy;
    bool deep = false; /* the first slice in the state that wakes fastest */

    while (clock->now < until) {
        uint64_t slice = um_min_u64(until, clock->now + policy->slice_cycles);
        bool capped;

        if (um_wait_arm(policy->backend, cond))
            return true;
        capped = um_arch_monitor_wait(policy->backend, slice, deep);
        if (um_wait_look(cond))
            return true;
        clock->now = um_arch_cycles();
        if (capped)
            um_count(&waiter->count.capped, 1);
        else if (clock->now < slice)
            um_count(&waiter->count.spurious, 1);
        deep = true;
    }
    return false;
}

/* Phase 2 up to the deadline or the start of phase 3. Whether the wait is over. */
UM_INLINE bool um_wait_monitor(struct umbra_waiter *waiter, const struct um_wait_cond *cond,
                               struct um_wait_clock *clock)
{
    const struct umbra_wait_policy *policy = waiter->policy;
    uint64_t until =
        um_min_u64(clock->deadline, um_add_saturating(clock->start, policy->block_cycles));

    if (policy->backend == UMBRA_BACKEND_PAUSE)
        return um_wait_pauses(cond, clock, until);
    return um_wait_monitors(waiter, cond, clock, until);
}

/* Whether somebody ran here since there were so many switches. If that is not known: yes. */
UM_INLINE bool um_wait_switched(uint64_t switches)
{
    return switches == UM_OS_UNKNOWN || um_os_preempted() != switches;
}

/*
 * Before phase 3, if the waiter's owner expects more soon: looks, and lends the processor to whoever
 * else can run each time. Who keeps it ends that, for a while: a thread that sleeps would have it back
 * when it is woken. Not so a host that takes the processor away: it would keep it. Whether the wait is
 * over.
 */
UM_LINKONCE UM_COLD bool um_wait_awake(struct umbra_waiter *waiter, const struct um_wait_cond *cond,
                                       struct um_wait_clock *clock)
{
    bool over = false;
    uint64_t switches;

    if (um_arch_cycles() - waiter->awake_since >= waiter->awake_cycles)
        return false;
    switches = um_os_preempted();
    while (!over && (clock->now = um_arch_cycles()) < clock->deadline &&
           clock->now - waiter->awake_since < waiter->awake_cycles) {
        sched_yield();
        over = um_wait_look(cond);
        if (um_arch_cycles() - clock->now > waiter->policy->preempted_cycles &&
            um_wait_switched(switches)) {
            waiter->robbed = um_arch_cycles(); /* it may have been long */
            waiter->awake_cycles = 0;
        }
    }
    return over;
}

/* Phase 3 up to the deadline. Whether the wait is over. */
UM_INLINE bool um_wait_park(struct umbra_waiter *waiter, struct um_wait_cond *cond,
                            struct um_wait_clock *clock)
{
    uint64_t deadline_ns = UMBRA_NEVER;

    if (clock->deadline != UMBRA_NEVER) {
        clock->now = um_arch_cycles();
        if (clock->now >= clock->deadline)
            return um_wait_look(cond);
        deadline_ns =
            um_add_saturating(um_os_now_ns(), umbra_cycles_to_ns(clock->deadline - clock->now));
    }
    return um_park_until(&waiter->park, um_wait_look_parked, cond, deadline_ns) == 0;
}

/* A wait that its first batch of polls did not end: the rest of phase 1, phases 2 and 3. */
UM_LINKONCE UM_NOINLINE int um_wait_long(struct umbra_waiter *waiter, struct um_wait_cond cond,
                                         uint64_t deadline)
{
    const struct umbra_wait_policy *policy = waiter->policy;
    struct um_wait_clock clock = {.deadline = deadline};
    int end;

    clock.start = clock.now = um_arch_cycles();
    if (um_wait_spin(waiter, &cond, &clock)) {
        um_count(&waiter->count.cycles, clock.now - clock.start);
        um_count(&waiter->count.ended[UMBRA_ENDED_SPIN], 1);
        return UMBRA_ENDED_SPIN;
    }
    if (um_wait_monitor(waiter, &cond, &clock) || um_wait_awake(waiter, &cond, &clock))
        end = UMBRA_ENDED_MONITOR;
    else if (policy->block_cycles != UMBRA_NEVER && um_wait_park(waiter, &cond, &clock))
        end = UMBRA_ENDED_PARK;
    else
        end = um_wait_look(&cond) ? UMBRA_ENDED_MONITOR : -ETIMEDOUT;
    um_count(&waiter->count.cycles, um_arch_cycles() - clock.start);
    if (end < 0)
        um_count(&waiter->count.timeouts, 1);
    else
        um_count(&waiter->count.ended[end], 1);
    return end;
}

/*
 * The part that is inlined: a look, and the first batch of polls. The model checker has a stand-in
 * for it and for um_wait_long in tests/model/users.hpp. Short waits never read the clock,
 * whose cost is a good part of a cache line's way between two cores.
 */
UM_INLINE int um_wait_run(struct umbra_waiter *waiter, const struct um_wait_cond cond,
                      uint64_t deadline)
{
    const struct umbra_wait_policy *policy = waiter->policy;

    if (um_wait_look(&cond)) {
        um_count(&waiter->count.ended[UMBRA_ENDED_SPIN], 1);
        return UMBRA_ENDED_SPIN;
    }
    if (UM_LIKELY(policy->spin_cycles > 0)) {
        uint32_t polls = um_wait_poll(&cond, policy->polite, policy->batch);

        if (UM_LIKELY(polls > 0)) {
            um_count(&waiter->count.polls, polls);
            um_count(&waiter->count.ended[UMBRA_ENDED_SPIN], 1);
            return UMBRA_ENDED_SPIN;
        }
        um_count(&waiter->count.polls, policy->batch);
    }
    return um_wait_long(waiter, cond, deadline);
}

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

#define UM_ROBBED_NS 100000000 /* so long who kept the processor is taken to want it again */

/* Its owner: phase 3 not before so many cycles after a time stamp, now, or what it has said before;
 * unless it parks at once, or others want its processor. */
UM_LINKONCE void um_waiter_stay_awake(struct umbra_waiter *waiter, uint64_t now, uint64_t cycles)
{
    if (waiter->policy->block_cycles == 0 ||
        now - waiter->robbed < umbra_ns_to_cycles(UM_ROBBED_NS) ||
        now - waiter->awake_since + cycles <= waiter->awake_cycles)
        return;
    waiter->awake_since = now;
    waiter->awake_cycles = cycles;
}

/* ---- signals, deadlines, counters ---- */

UM_INLINE bool umbra_wake(struct umbra_waiter *waiter)
{
    return um_park_wake(&waiter->park);
}

UM_INLINE void umbra_signal32(_Atomic uint32_t *word, uint32_t value, struct umbra_waiter *waiter)
{
    um_atomic_store(word, value, seq_cst); /* step S1 of park_protocol.h; pairs with um_wait_look */
    um_park_wake(&waiter->park);
}

UM_INLINE void umbra_signal64(_Atomic uint64_t *word, uint64_t value, struct umbra_waiter *waiter)
{
    um_atomic_store(word, value, seq_cst); /* step S1 of park_protocol.h; pairs with um_wait_look */
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

/* ---- making a policy ---- */

/* Cost of one poll of phase 1, in cycles: a batch on a word that nobody writes. */
UM_LINKONCE UM_COLD uint32_t um_wait_poll_cycles(bool polite)
{
    um_atomic_u32 word = 0;
    struct um_wait_cond cond = {&word, 0, UINT32_MAX, false, false};
    uint64_t least = UMBRA_NEVER;

    for (int trial = 0; trial < 9; trial++) {
        uint64_t start = um_arch_cycles();

        um_wait_poll(&cond, polite, UM_BATCH_LEAST);
        least = um_min_u64(least, um_arch_cycles() - start);
    }
    return (uint32_t)(least / UM_BATCH_LEAST) + 1;
}

UM_LINKONCE UM_COLD uint32_t um_wait_batch(uint32_t poll_cycles)
{
    uint64_t polls = umbra_ns_to_cycles(UM_BATCH_NS) / poll_cycles;

    if (polls < UM_BATCH_LEAST)
        return UM_BATCH_LEAST;
    return polls > UM_BATCH_MOST ? UM_BATCH_MOST : (uint32_t)polls;
}

/* So that no batch is longer than phase 1, which there is not if it is shorter than two polls. */
UM_LINKONCE UM_COLD void um_wait_fit_batch(struct umbra_wait_policy *policy)
{
    uint64_t polls = policy->spin_cycles / policy->poll_cycles;

    policy->batch = um_wait_batch(policy->poll_cycles);
    if (polls < 2)
        policy->spin_cycles = 0;
    else if (polls < policy->batch)
        policy->batch = (uint32_t)polls;
}

/* Thresholds of a mode: phase 1's length and phase 3's start, in cycles. */
UM_LINKONCE UM_COLD void um_wait_thresholds(struct umbra_wait_policy *policy,
                                            const struct umbra_wait_options *options)
{
    uint64_t spin = options->spin_cycles;
    uint64_t block = options->block_cycles;

    switch (options->mode) {
    case UMBRA_WAIT_SPIN:
        spin = block = UMBRA_NEVER;
        break;
    case UMBRA_WAIT_MONITOR: /* pauses are no monitor: they must not be slower than a spin */
        spin = policy->backend == UMBRA_BACKEND_PAUSE ? umbra_ns_to_cycles(UMBRA_SPIN_NS) : 0;
        block = UMBRA_NEVER;
        break;
    case UMBRA_WAIT_PARK:
        spin = block = 0;
        break;
    case UMBRA_WAIT_TWO_PHASE:
        spin = spin ? spin : umbra_ns_to_cycles(UMBRA_SPIN_NS);
        block = block ? block : um_block_cycles(um_block_ns());
        break;
    }
    policy->spin_cycles = spin;
    policy->block_cycles = block;
}

UM_LINKONCE int umbra_wait_policy_init(struct umbra_wait_policy *policy,
                                       const struct umbra_wait_options *options)
{
    static const struct umbra_wait_options defaults = {0};
    struct umbra_wait_policy made = {0};
    int error;

    um_why_begin();
    options = options ? options : &defaults;
    if ((unsigned)options->mode > UMBRA_WAIT_PARK)
        return um_why(-EINVAL, "wait.mode = %d: there is no such mode", (int)options->mode);
    error = um_backend_choose(options->backend, &made.backend);
    if (error)
        return error;
    um_wait_thresholds(&made, options);
    made.slice_cycles = umbra_ns_to_cycles(UM_SLICE_NS);
    made.preempted_cycles = umbra_ns_to_cycles(UM_PREEMPTED_NS);
    made.polite = options->polite;
    made.poll_cycles = um_wait_poll_cycles(made.polite);
    um_wait_fit_batch(&made);
    *policy = made;
    return 0;
}

#endif
