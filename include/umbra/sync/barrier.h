/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The barrier's word: how many callers have come since it was made, and if waiters queue. Private.
 * Checked by tests/model/barrier.
 *
 *   bits    name      meaning
 *   0, 1    QUEUED    waiters queue, or will, for a meeting with an even, or odd, number
 *   2-63    come      arrivals, of all meetings
 *
 * The barrier opens for meeting m, counted from 0, when `come` is (m + 1) times the parties. So the
 * step by which the last party comes is also the one that lets the others go: one read-modify-write
 * for each party, and no other store. A waiter looks at the word in place; only one that queues
 * needs a signal.
 *
 *   a waiter of meeting m                        the last party of meeting m
 *   W1  QUEUED of m = 1, unless it is open       G1  come + 1; looks at QUEUED of m in that step
 *   W2  join the event; its holder looks if      G2  if it was 1: QUEUED of m = 0, unless the
 *       the barrier is open for m                    barrier is open for m + 1, too
 *                                                G3  and signal the event
 *
 * No wake-up is lost: W1 and G1 change one word. If W1 comes first, G1 finds it, and the signal
 * offers the waiter its end, however late it joins, since the event stays signaled. If G1 comes
 * first, W1 finds the barrier open, and so does W2, which comes after it.
 *
 * Two bits, since a party may come to meeting m + 1 and queue before the last party of meeting m
 * has done G2, which must not take that bit away. No third: a meeting m + 2 begins only when the
 * barrier is open for m + 1, and then a late G2 leaves the bit, which may be that of a waiter of m
 * + 2. (The last party of m is late so if another thread comes to m + 1 in its place.) A bit that
 * stays costs a signal for no waiter.
 *
 * A waiter that gives up takes its arrival back, unless the barrier is open for it; its bit stays.
 *
 * Order. Each arrival is acq_rel, and looks are acquire: what each party wrote before it came is
 * visible to all that go on. The other steps only change numbers, and an arrival that follows them
 * goes on with the release sequence of those before.
 */
#ifndef UMBRA_SYNC_BARRIER_H
#define UMBRA_SYNC_BARRIER_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_BARRIER_ONE UINT64_C(4) /* an arrival */

/* A party's arrival. */
struct um_barrier_arrival {
    um_atomic_u64 *state;
    uint64_t open;   /* the barrier is open for the party from this word on */
    uint64_t queued; /* QUEUED of its meeting */
    bool last;       /* its arrival has opened the barrier */
    bool signal;     /* and waiters queue: um_barrier_clear() and a signal must follow */
};

/* G1, or the arrival of a party that is not the last. parties: not 0. */
UM_INLINE struct um_barrier_arrival um_barrier_arrive(um_atomic_u64 *state, uint32_t parties)
{
    /* acq_rel: pairs with itself, and with the looks in um_barrier_is_open() and um_barrier_leave() */
    uint64_t before = um_atomic_fetch_add(state, UM_BARRIER_ONE, acq_rel);
    uint64_t come = before / UM_BARRIER_ONE;
    uint64_t meeting = come / parties;
    uint64_t all = (meeting + 1) * parties;
    struct um_barrier_arrival arrival;

    arrival.state = state;
    arrival.open = all * UM_BARRIER_ONE;
    arrival.queued = 1 + (meeting & 1);
    arrival.last = come + 1 == all;
    arrival.signal = arrival.last && (before & arrival.queued) != 0;
    return arrival;
}

/* W2, and each look in place. */
UM_INLINE bool um_barrier_is_open(const struct um_barrier_arrival *arrival)
{
    /* acquire: pairs with um_barrier_arrive() of the last party */
    return um_atomic_load(arrival->state, acquire) >= arrival->open;
}

/* W1. A compare-and-swap, since a bit that is set when the barrier is open stays for a later
 * meeting. */
UM_INLINE void um_barrier_announce(const struct um_barrier_arrival *arrival)
{
    uint64_t state = um_atomic_load(arrival->state, relaxed); /* only compared */

    /* relaxed: only a bit, which G1 finds in the word that it changes */
    while (state < arrival->open && (state & arrival->queued) == 0 &&
           !um_atomic_cas(arrival->state, &state, state | arrival->queued, relaxed, relaxed))
        continue;
}

/* G2. A signal must follow. */
UM_INLINE void um_barrier_clear(const struct um_barrier_arrival *arrival, uint32_t parties)
{
    uint64_t next = arrival->open + parties * UM_BARRIER_ONE;
    uint64_t state = um_atomic_load(arrival->state, relaxed); /* only compared */

    /* relaxed: while the next meeting is not over, no W1 sets this bit again */
    while (state < next &&
           !um_atomic_cas(arrival->state, &state, state & ~arrival->queued, relaxed, relaxed))
        continue;
}

/* Takes an arrival back. False: it is too late, the barrier is open for the party. */
UM_INLINE bool um_barrier_leave(const struct um_barrier_arrival *arrival)
{
    /* acquire, both: the caller goes on if it is open; pairs with um_barrier_arrive() */
    uint64_t state = um_atomic_load(arrival->state, acquire);

    do {
        if (state >= arrival->open)
            return false;
    } while (!um_atomic_cas(arrival->state, &state, state - UM_BARRIER_ONE, acquire, acquire));
    return true;
}

#endif
