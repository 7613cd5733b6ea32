/* SPDX-License-Identifier: BSL-1.0 */
/*
 * When nothing can happen any more: how the last core that falls asleep knows that it is the last.
 * Private; read by the model checker as it stands.
 *
 * One word counts the active: cores that are not asleep, and holders (threads outside that may
 * still signal or spawn). Its upper half counts how often somebody became active.
 *
 *   Q1  a core that is about to park: active - 1
 *   Q2  found 0: read the word, look at every inbox, read the word again
 *   Q3  unchanged, and the inboxes were empty: nothing can happen
 *   Q4  a core that wakes: active + 1, epoch + 1, before it empties its inbox
 *
 * Only active ones push, and they push before they become inactive. Suppose the word was the same
 * and 0 at both reads. Then nobody was active between them, and each push had been made before the
 * first. A push that nobody has taken is seen at Q2. One that was taken before the look was taken
 * after a Q4, whose epoch the first read would have had to count, and whoever took it has become
 * inactive again since. So if all inboxes are empty every message has been worked off. A core that
 * wakes between the reads makes them differ; what it does is for its own Q1 to judge.
 *
 * Threads that push without holding are outside this argument, as documented at umbra_hold(). But a
 * thread that only waits for an event need not hold, and yet may carry out a signal which a fiber
 * has left with it (protocol/event.h), and push the fiber that this releases. So calls that may do
 * so are counted, and Q2 looks at their number before the inboxes: no call had begun, and none that
 * begins later has anything left with it, since nobody is active. If it is such a call that makes
 * the judge refuse, the last of them judges again:
 *
 *   Q5  the judge: judging = 1       Q7  who leaves last: calls - 1
 *   Q6  look at calls                Q8  look at judging; if 1: 0, and judge every runtime
 */
#ifndef UMBRA_PROTOCOL_QUIET_H
#define UMBRA_PROTOCOL_QUIET_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_QUIET_ACTIVE UINT64_C(0xffffffff)
#define UM_QUIET_EPOCH (UINT64_C(1) << 32)

/* Becomes active: Q4. */
UM_INLINE void um_quiet_enter(um_atomic_u64 *activity)
{
    um_atomic_fetch_add(activity, UM_QUIET_EPOCH + 1, seq_cst); /* before the inbox is emptied */
}

/* Becomes inactive: Q1. Whether nobody is left: then somebody must judge. */
UM_INLINE bool um_quiet_leave(um_atomic_u64 *activity)
{
    /* seq_cst: after the leaver's pushes; pairs with the loads of um_quiet_judge() */
    return (um_atomic_fetch_add(activity, UINT64_MAX, seq_cst) & UM_QUIET_ACTIVE) == 1;
}

/*
 * The same for one who must not touch the word afterwards, since the runtime may end: unless it is
 * the last. Whether it left; else it leaves and judges in one, under the runtime's lock.
 */
UM_INLINE bool um_quiet_leave_others(um_atomic_u64 *activity)
{
    uint64_t value = um_atomic_load(activity, relaxed); /* only compared */

    while ((value & UM_QUIET_ACTIVE) > 1)
        if (um_atomic_cas(activity, &value, value - 1, seq_cst, relaxed)) /* as um_quiet_leave() */
            return true;
    return false;
}

/* Threads that are no core, in the midst of a call that may do what others left. */
struct um_quiet_outside {
    um_atomic_u64 calls;   /* how many */
    um_atomic_u32 judging; /* somebody has looked at it */
};

/* Such a call begins. */
UM_INLINE void um_quiet_call(struct um_quiet_outside *outside)
{
    um_atomic_fetch_add(&outside->calls, 1, seq_cst); /* before anything is left with it */
}

/* It ends: Q7 and Q8. Whether the caller must judge, since somebody else could not. */
UM_INLINE bool um_quiet_call_ends(struct um_quiet_outside *outside)
{
    return um_quiet_leave(&outside->calls) &&
           um_atomic_load(&outside->judging, seq_cst) != 0 && /* against Q5 */
           um_atomic_exchange(&outside->judging, 0, seq_cst) != 0;
}

/* Q2 and Q3. empty(context) looks at every inbox with seq_cst. True if nothing can happen. holds: how
 * often the caller itself holds the runtime, which does nothing meanwhile. */
typedef bool um_quiet_empty(void *context);

UM_INLINE bool um_quiet_judge(um_atomic_u64 *activity, uint64_t holds,
                              struct um_quiet_outside *outside, um_quiet_empty *empty,
                              void *context)
{
    uint64_t before = um_atomic_load(activity, seq_cst); /* against Q1 and Q4 */

    if ((before & UM_QUIET_ACTIVE) != holds)
        return false;
    um_atomic_store(&outside->judging, 1, seq_cst);                       /* Q5 */
    if (um_atomic_load(&outside->calls, seq_cst) != 0 || !empty(context)) /* Q6 */
        return false;
    return um_atomic_load(activity, seq_cst) == before; /* against Q4 */
}

#endif
