/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The verdict that a runtime is quiet: nothing can happen any more. The core or thread that becomes
 * inactive last must judge; it reads one word twice and looks at all inboxes in between. Each core
 * and each thread that holds the runtime enters and leaves. Private; read by the model checker as
 * it stands.
 *
 * The word counts the active: cores that do not sleep, and holds of the runtime by threads outside
 * that may still signal or spawn. Its upper half, the epoch, counts how often one became active.
 *
 *   Q1  a core that is about to park: active - 1
 *   Q2  found 0: read the word, look at every inbox, read the word again
 *   Q3  unchanged, and the inboxes were empty: nothing can happen
 *   Q4  a core that wakes: active + 1, epoch + 1, before it empties its inbox
 *
 * Only the active push, and they push before they become inactive. Suppose both reads found the
 * same word, with 0 active. Then none was active between them, and each push had been made before
 * the first read. A push that no core has taken is seen at Q2. A push that was taken before the
 * look was taken after a Q4; the first read must have counted the epoch of that Q4, and the core
 * that took the push has become inactive again since. So if all inboxes are empty, every message
 * has been handled. A core that wakes between the reads makes them differ; then the verdict is left
 * to its own Q1.
 *
 * Threads that push and do not hold the runtime are outside this argument, as documented at
 * umbra_hold(). But a thread that only waits for an event need not hold the runtime, and still it
 * may execute a signal that a fiber has recorded while the thread held the event
 * (event/protocol.h), and push the fiber that the signal releases. Likewise where it has the list
 * of a semaphore's waiters (wait/waiters.h). So such calls are counted, and Q2 looks at their
 * number before the inboxes: no call was under way, and a call that begins later finds nothing
 * recorded with it, since none is active. If such a call made the judge refuse, the last of these
 * calls judges again:
 *
 *   Q5  the judge: judging = 1       Q7  the call that ends: calls - 1; if it was the last:
 *   Q6  look at calls                Q8  look at judging; if 1: 0, and judge every runtime
 */
#ifndef UMBRA_CORE_QUIET_H
#define UMBRA_CORE_QUIET_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_QUIET_ACTIVE UINT64_C(0xffffffff)
#define UM_QUIET_EPOCH (UINT64_C(1) << 32)

/* A core or thread becomes active: Q4. */
UM_INLINE void um_quiet_enter(um_atomic_u64 *activity)
{
    um_atomic_fetch_add(activity, UM_QUIET_EPOCH + 1, seq_cst); /* before the inbox is emptied */
}

/* A core or thread becomes inactive: Q1. True if none is active now: then the caller must judge. */
UM_INLINE bool um_quiet_leave(um_atomic_u64 *activity)
{
    /* seq_cst: after the leaver's pushes; pairs with the loads of um_quiet_judge() */
    return (um_atomic_fetch_add(activity, UINT64_MAX, seq_cst) & UM_QUIET_ACTIVE) == 1;
}

/*
 * The same for a caller that must not touch the word afterwards, since the runtime may end. True:
 * it was not the last, and has left. False: it is the last; it must leave and judge under the
 * runtime's lock.
 */
UM_INLINE bool um_quiet_leave_others(um_atomic_u64 *activity)
{
    uint64_t value = um_atomic_load(activity, relaxed); /* only compared */

    while ((value & UM_QUIET_ACTIVE) > 1)
        if (um_atomic_cas(activity, &value, value - 1, seq_cst, relaxed)) /* as um_quiet_leave() */
            return true;
    return false;
}

/* A hold that a caller of the library begins: the holder is active, and is counted in `holds`, too.
 * So an end without a beginning is found, and makes no other inactive. */
UM_INLINE void um_quiet_hold(um_atomic_u64 *activity, um_atomic_u64 *holds)
{
    um_quiet_enter(activity);
    um_atomic_fetch_add(holds, 1, release); /* after that; pairs with um_quiet_let_go() */
}

/* Ends a hold. True if there was one: then the caller is active in its place, and must leave. */
UM_INLINE bool um_quiet_let_go(um_atomic_u64 *holds)
{
    uint64_t left = um_atomic_load(holds, relaxed); /* only compared */

    while (left > 0)
        if (um_atomic_cas(holds, &left, left - 1, acquire, relaxed)) /* see um_quiet_hold() */
            return true;
    return false;
}

/* Calls by threads that are no core, and that may execute requests of other calls. */
struct um_quiet_outside {
    um_atomic_u64 calls;   /* calls under way */
    um_atomic_u32 judging; /* 1: a judge has looked at calls; the last call then judges again */
};

/* Such a call begins. */
UM_INLINE void um_quiet_call(struct um_quiet_outside *outside)
{
    um_atomic_fetch_add(&outside->calls, 1, seq_cst); /* before any request is recorded with it */
}

/* Such a call ends: Q7 and Q8. True if the caller must judge, since an earlier judge refused. */
UM_INLINE bool um_quiet_call_ends(struct um_quiet_outside *outside)
{
    return um_quiet_leave(&outside->calls) &&
           um_atomic_load(&outside->judging, seq_cst) != 0 && /* pairs with Q5 */
           um_atomic_exchange(&outside->judging, 0, seq_cst) != 0;
}

/* Q2 and Q3. True if nothing can happen. empty(context) looks at every inbox with seq_cst: true if
 * all are empty. holds: how often the runtime is held by the caller, which does nothing
 * meanwhile. */
typedef bool um_quiet_empty(void *context);

UM_INLINE bool um_quiet_judge(um_atomic_u64 *activity, uint64_t holds,
                              struct um_quiet_outside *outside, um_quiet_empty *empty,
                              void *context)
{
    uint64_t before = um_atomic_load(activity, seq_cst); /* pairs with Q1 and Q4 */

    if ((before & UM_QUIET_ACTIVE) != holds)
        return false;
    um_atomic_store(&outside->judging, 1, seq_cst);                       /* Q5 */
    if (um_atomic_load(&outside->calls, seq_cst) != 0 || !empty(context)) /* Q6 */
        return false;
    return um_atomic_load(activity, seq_cst) == before; /* pairs with Q4 */
}

#endif
