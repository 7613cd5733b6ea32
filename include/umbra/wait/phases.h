/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/wait.h: the two-phase wait on one word, its policy, and its counters.
 * Private; included by that header, after its declarations.
 */
#ifndef UMBRA_WAIT_PHASES_H
#define UMBRA_WAIT_PHASES_H

#include <sched.h>

#include <umbra/arch/backends.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/cpu.h>
#include <umbra/os/os.h>
#include <umbra/wait/gap.h>
#include <umbra/wait/machine.h>
#include <umbra/wait/monitor.h>
#include <umbra/wait/park.h>
#include <umbra/wait/probe.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* ---- the wait itself ---- */

UM_INLINE void um_count(um_atomic_u64 *counter, uint64_t more)
{
    um_atomic_store(counter, um_atomic_load(counter, relaxed) + more, relaxed);
}

/* A condition on a word: over when ((word & mask) == value) == equal. */
struct um_wait_cond {
    const void *word; /* um_atomic_u64 if wide, else um_atomic_u32 */
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

/* Arms the monitor on the word's line, then looks again, so that no store is missed in between. */
UM_INLINE bool um_wait_arm(uint32_t backend, const struct um_wait_cond *cond)
{
    return um_wait_over(cond, cond->wide
                                  ? um_arch_arm_load64(backend, (const um_atomic_u64 *)cond->word)
                                  : um_arch_arm_load32(backend, (const um_atomic_u32 *)cond->word));
}

/* One batch of polls. Returns how many it took until the wait was over, or 0: it is not over. */
UM_INLINE uint32_t um_wait_poll(const struct um_wait_cond *cond, uint32_t gap, uint32_t batch)
{
    for (uint32_t polls = 1; polls <= batch; polls++) {
        um_gap_pass(gap, cond->word);
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

/* ---- deadlines: outside ns of umbra_now_ns(), inside cycles ---- */

/* The time stamp ns nanoseconds from now, at most UMBRA_NEVER. */
UM_INLINE uint64_t um_cycles_after(uint64_t ns)
{
    return um_add_saturating(um_arch_cycles(), um_ns_to_cycles(ns));
}

/* The time stamp of a deadline that a program gave. 0 and UMBRA_NEVER stay; of a time that has
 * passed it is the present one. */
UM_INLINE uint64_t um_deadline_cycles(uint64_t deadline)
{
    uint64_t now;

    if (deadline == 0 || deadline == UMBRA_NEVER)
        return deadline;
    now = umbra_now_ns();
    return um_cycles_after(deadline > now ? deadline - now : 0);
}

#define UM_NOT_SHARED UINT64_MAX

/* True if phase 2 yields. relaxed: nothing is ordered by it */
UM_INLINE bool um_wait_shares(const struct umbra_wait_policy *policy)
{
    return policy->robbed && um_atomic_load(policy->robbed, relaxed) != UM_NOT_SHARED;
}

/* What is left of phase 1 after its first batch, which read no clock. True if the wait is over. */
UM_INLINE bool um_wait_spin(struct umbra_waiter *waiter, const struct um_wait_cond *cond,
                            struct um_wait_clock *clock)
{
    const struct umbra_wait_policy *policy = waiter->policy;
    uint64_t first = (uint64_t)policy->batch * policy->poll_cycles;
    uint64_t spin = um_wait_shares(policy) ? policy->shared_spin_cycles : policy->spin_cycles;
    uint64_t rest = spin > first ? spin - first : 0;

    while (clock->now - clock->start < rest && clock->now < clock->deadline) {
        uint64_t before = clock->now;
        uint32_t polls = um_wait_poll(cond, policy->gap, policy->batch);

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

/* Phase 2 with a monitor, in slices, since a monitor may miss a store. True if the wait is over. */
UM_INLINE bool um_wait_monitors(struct umbra_waiter *waiter, const struct um_wait_cond *cond,
                                struct um_wait_clock *clock, uint64_t until)
{
    const struct umbra_wait_policy *policy = waiter->policy;
    bool deep = false; /* the first slice is in the state that wakes fastest */

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

UM_LINKONCE UM_NOINLINE int um_wait_long(struct umbra_waiter *waiter, struct um_wait_cond cond,
                                         uint64_t deadline);

/*
 * The part that is inlined: a look, and the first batch of polls. The model checker has a stand-in
 * for it and for um_wait_long in tests/model/users.hpp. A short wait never reads the clock: that
 * costs a good part of the time in which a cache line moves between two cores. As a call it would
 * pass its condition in memory, written in parts and read as a whole, which waits for the parts.
 */
UM_ALWAYS_INLINE int um_wait_run(struct umbra_waiter *waiter, const struct um_wait_cond cond,
                                 uint64_t deadline)
{
    const struct umbra_wait_policy *policy = waiter->policy;

    if (um_wait_look(&cond)) {
        um_count(&waiter->count.ended[UMBRA_ENDED_SPIN], 1);
        return UMBRA_ENDED_SPIN;
    }
    if (UM_LIKELY(policy->spin_cycles > 0)) {
        uint32_t polls = um_wait_poll(&cond, policy->gap, policy->batch);

        if (UM_LIKELY(polls > 0)) {
            um_count(&waiter->count.polls, polls);
            um_count(&waiter->count.ended[UMBRA_ENDED_SPIN], 1);
            return UMBRA_ENDED_SPIN;
        }
        um_count(&waiter->count.polls, policy->batch);
    }
    return um_wait_long(waiter, cond, deadline);
}

/* If a thread kept the processor, no yields for so long: some scheduler's turns. */
#define UM_ROBBED_NS 100000000

UM_LINKONCE void um_waiter_stay_awake(struct umbra_waiter *waiter, uint64_t now, uint64_t cycles);

#ifdef UMBRA_IMPLEMENTATION

/* Time between two looks at the clock while spinning: a deadline may be late by so much, and a look
 * costs 10 to 25 ns. Bounds of a batch, in polls: the measured length of a poll decides between
 * them. */
#define UM_BATCH_NS 400
#define UM_BATCH_LEAST 4
#define UM_BATCH_MOST 128

/* Pauses between two looks at the clock, at least: 0.2 to 1 us. The longest gap between two polls,
 * in pauses: 0.6 to 4 us, against at least 5 us that the wait has lasted. */
#define UM_PAUSE_BATCH 16
#define UM_PAUSE_MOST 64

#define UM_SLICE_NS 50000 /* a monitor wait's longest slice: below Linux's 100,000-cycle cap */

/* A batch of polls that takes longer was interrupted: a scheduler's turn is longer, a batch a
 * hundredth. */
#define UM_PREEMPTED_NS 50000

/* seq_cst: step W2 of wait/park.h; pairs with the store of umbra_signal (S1) */
UM_LINKONCE UM_COLD bool um_wait_look_parked(void *context)
{
    const struct um_wait_cond *cond = context;

    return um_wait_over(cond, cond->wide
                                  ? um_atomic_load((const um_atomic_u64 *)cond->word, seq_cst)
                                  : um_atomic_load((const um_atomic_u32 *)cond->word, seq_cst));
}

/* Phase 2 without a monitor, up to a time stamp: pauses, with a gap between two looks that doubles.
 * True if the wait is over. */
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

/*
 * Phase 2 where the waiter shares its processor with the threads that it waits for, up to a time
 * stamp: yields to them, and looks after each yield. Another process may get the processor so, and
 * keep it for a scheduler's turn. If a yield lasts that long, all waiters with the same `robbed`
 * park without yields for 100 ms: a parked thread gets the processor back when it is woken. True if
 * the wait is over.
 */
UM_LINKONCE UM_NOINLINE bool um_wait_yields(const struct umbra_wait_policy *policy,
                                            const struct um_wait_cond *cond,
                                            struct um_wait_clock *clock, uint64_t until)
{
    /* relaxed, here and below: a time, which orders nothing */
    uint64_t robbed = um_atomic_load(policy->robbed, relaxed);
    bool over = false;

    if (um_arch_cycles() - robbed < um_ns_to_cycles(UM_ROBBED_NS))
        return false;
    while (!over && clock->now < until) {
        uint64_t before = clock->now;

        sched_yield();
        over = um_wait_look(cond);
        clock->now = um_arch_cycles();
        if (clock->now - before >= policy->yield_cycles) {
            /* not where the processor is no longer shared */
            if (robbed != UM_NOT_SHARED)
                um_atomic_cas(policy->robbed, &robbed, clock->now, relaxed, relaxed);
            until = clock->now;
        }
    }
    return over;
}

/* Calls a wait's function for other work. True if there was some: the times of the wait begin anew. */
UM_INLINE bool um_wait_idle(struct umbra_waiter *waiter, struct um_wait_clock *clock)
{
    if (!waiter->policy->idle(waiter, waiter->policy->idle_arg))
        return false;
    clock->start = um_arch_cycles();
    return true;
}

/* Phase 2 with such a function, until the time to sleep comes. True if the wait is over. */
UM_LINKONCE UM_NOINLINE bool um_wait_idles(struct umbra_waiter *waiter,
                                           const struct um_wait_cond *cond,
                                           struct um_wait_clock *clock)
{
    const struct umbra_wait_policy *policy = waiter->policy;

    do {
        if (um_wait_look(cond))
            return true;
        if (!um_wait_idle(waiter, clock)) {
            if (um_wait_shares(policy))
                sched_yield();
            else
                um_arch_pause();
        }
        clock->now = um_arch_cycles();
    } while (clock->now - clock->start < policy->block_cycles && clock->now < clock->deadline);
    return um_wait_look(cond);
}

/* Such a wait, when its thread parks. */
struct um_idle_wait {
    struct um_wait_cond *cond;
    struct umbra_waiter *waiter;
    struct um_wait_clock *clock;
};

/* W2 of wait/park.h, for the waited word and for what the function looks at. */
UM_LINKONCE UM_COLD bool um_wait_look_idle(void *context)
{
    struct um_idle_wait *wait = context;

    return um_wait_look_parked(wait->cond) || um_wait_idle(wait->waiter, wait->clock);
}

/* Phase 2 up to the deadline or the start of phase 3. True if the wait is over. */
UM_INLINE bool um_wait_monitor(struct umbra_waiter *waiter, const struct um_wait_cond *cond,
                               struct um_wait_clock *clock)
{
    const struct umbra_wait_policy *policy = waiter->policy;
    uint64_t until =
        um_min_u64(clock->deadline, um_add_saturating(clock->start, policy->block_cycles));

    if (policy->idle != NULL)
        return um_wait_idles(waiter, cond, clock);
    if (um_wait_shares(policy))
        return um_wait_yields(policy, cond, clock, until);
    if (policy->backend == UMBRA_BACKEND_PAUSE)
        return um_wait_pauses(cond, clock, until);
    return um_wait_monitors(waiter, cond, clock, until);
}

/* True if the switch count changed or is unknown: another thread may have run on this processor. */
UM_INLINE bool um_wait_switched(uint64_t switches)
{
    return switches == UM_OS_UNKNOWN || um_os_preempted() != switches;
}

/*
 * Before phase 3, if the waiter's owner expects more work soon: looks, and yields the processor to
 * other threads each time. If a thread keeps the processor, the waiter stops yielding for 100 ms
 * and parks: a sleeping thread gets the processor back when it is woken. A host that takes the
 * processor away does not change the switch count, and does not end the yields: it would not give
 * the processor back to a parked waiter. True if the wait is over.
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
            waiter->robbed = um_arch_cycles(); /* not clock->now: the yield may have been long */
            waiter->awake_cycles = 0;
        }
    }
    return over;
}

/* Phase 3 up to the deadline. True if the wait is over, or its function has found work. */
UM_INLINE bool um_wait_park(struct umbra_waiter *waiter, struct um_wait_cond *cond,
                            struct um_wait_clock *clock)
{
    struct um_idle_wait idle = {cond, waiter, clock};
    uint64_t deadline_ns = UMBRA_NEVER;

    if (clock->deadline != UMBRA_NEVER) {
        clock->now = um_arch_cycles();
        if (clock->now >= clock->deadline)
            return um_wait_look(cond);
        deadline_ns =
            um_add_saturating(um_os_now_ns(), um_cycles_to_ns(clock->deadline - clock->now));
    }
    if (waiter->policy->idle != NULL)
        return um_park_until(&waiter->park, um_wait_look_idle, &idle, deadline_ns) == 0;
    return um_park_until(&waiter->park, um_wait_look_parked, cond, deadline_ns) == 0;
}

/* A wait that its first batch of polls did not end: what is left of phase 1, and phases 2 and 3. */
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
    do {
        if (um_wait_monitor(waiter, &cond, &clock) || um_wait_awake(waiter, &cond, &clock))
            end = UMBRA_ENDED_MONITOR;
        else if (policy->block_cycles != UMBRA_NEVER && um_wait_park(waiter, &cond, &clock))
            end = UMBRA_ENDED_PARK;
        else
            end = um_wait_look(&cond) ? UMBRA_ENDED_MONITOR : -ETIMEDOUT;
    } while (end == UMBRA_ENDED_PARK && policy->idle != NULL && !um_wait_look(&cond));
    um_count(&waiter->count.cycles, um_arch_cycles() - clock.start);
    if (end < 0)
        um_count(&waiter->count.timeouts, 1);
    else
        um_count(&waiter->count.ended[end], 1);
    return end;
}

/*
 * The waiter's owner: phase 3 begins at least `cycles` after `now`, or later if an earlier call
 * said so. No effect if the policy parks at once, or if another thread kept the processor in the
 * last 100 ms.
 */
UM_LINKONCE void um_waiter_stay_awake(struct umbra_waiter *waiter, uint64_t now, uint64_t cycles)
{
    if (waiter->policy->block_cycles == 0 || now - waiter->robbed < um_ns_to_cycles(UM_ROBBED_NS) ||
        now - waiter->awake_since + cycles <= waiter->awake_cycles)
        return;
    waiter->awake_since = now;
    waiter->awake_cycles = cycles;
}

/* ---- making a policy ---- */

#define UM_BLOCK_LEAST_NS 5000 /* when a wait sleeps, at the soonest */

/* Cycles after which a wait should park: twice the cost of a wake-up, 5 to 200 us. */
UM_LINKONCE UM_COLD uint64_t um_block_cycles(void)
{
    uint64_t ns = 2 * um_wake_ns();

    ns = ns < UM_BLOCK_LEAST_NS ? UM_BLOCK_LEAST_NS : ns;
    return um_ns_to_cycles(ns > UM_BLOCK_MOST_NS ? UM_BLOCK_MOST_NS : ns);
}

UM_LINKONCE UM_COLD uint32_t um_wait_batch(uint32_t poll_cycles)
{
    uint64_t polls = um_ns_to_cycles(UM_BATCH_NS) / poll_cycles;

    if (polls < UM_BATCH_LEAST)
        return UM_BATCH_LEAST;
    return polls > UM_BATCH_MOST ? UM_BATCH_MOST : (uint32_t)polls;
}

/* How a place polls with a gap. */
UM_LINKONCE UM_COLD struct um_polls um_polls_with(uint32_t gap)
{
    return (struct um_polls){gap, um_wait_batch(um_poll_cycles(gap))};
}

/* Sets gap and batch, which is not longer than phase 1. A phase 1 of less than two polls is left
 * out. */
UM_LINKONCE UM_COLD void um_wait_set_gap(struct umbra_wait_policy *policy, uint32_t gap)
{
    uint64_t polls;

    policy->gap = gap;
    policy->poll_cycles = um_poll_cycles(gap);
    policy->batch = um_wait_batch(policy->poll_cycles);
    polls = policy->spin_cycles / policy->poll_cycles;
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
    case UMBRA_WAIT_MONITOR: /* pauses are no monitor: without a spin they would be slower */
        spin = policy->backend == UMBRA_BACKEND_PAUSE ? um_ns_to_cycles(UMBRA_SPIN_NS) : 0;
        block = UMBRA_NEVER;
        break;
    case UMBRA_WAIT_PARK:
        spin = block = 0;
        break;
    case UMBRA_WAIT_TWO_PHASE:
        spin = spin ? spin : um_ns_to_cycles(UMBRA_SPIN_NS);
        block = block ? block : um_block_cycles();
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
    struct um_gaps forced;
    int error;

    um_why_begin();
    options = options ? options : &defaults;
    if ((unsigned)options->mode > UMBRA_WAIT_PARK)
        return um_why(-EINVAL, "wait.mode = %d: there is no such mode", (int)options->mode);
    error = um_backend_choose(options->backend, &made.backend);
    if (!error)
        error = um_gaps_forced(&forced);
    if (error)
        return error;
    um_wait_thresholds(&made, options);
    made.slice_cycles = um_ns_to_cycles(UM_SLICE_NS);
    made.preempted_cycles = um_ns_to_cycles(UM_PREEMPTED_NS);
    made.polite = options->polite;
    /* several threads may wait on one word, and would take its line from each other */
    um_wait_set_gap(
        &made, um_poll_gap(made.polite ? UMBRA_PAIR_CORE : um_pair_of_threads(), UMBRA_POLL_OTHER) &
                   ~UMBRA_GAP_WRITE);
    *policy = made;
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
