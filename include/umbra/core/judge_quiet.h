/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Judging that a runtime is quiet: all cores are asleep, and no thread outside holds the runtime or
 * is in a call that could wake a fiber. Private; included by core.h. The last core or thread that
 * becomes inactive judges, and counts the fibers that are left: none is the end of a run, some are
 * a deadlock. The words, and why the verdict is right, are in core/quiet.h.
 */
#ifndef UMBRA_CORE_JUDGE_QUIET_H
#define UMBRA_CORE_JUDGE_QUIET_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/quiet.h>
#include <umbra/core/report.h>
#include <umbra/fiber.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* What um_runtime_empty() looks at, and the fibers that it counts. */
struct um_census {
    struct umbra_runtime *runtime;
    uint64_t live;
};

/* True if every inbox is empty and no work is without a place; for um_quiet_judge(). Counts the
 * live fibers, too. */
UM_LINKONCE bool um_runtime_empty(void *context)
{
    struct um_census *census = context;
    struct umbra_runtime *runtime = census->runtime;

    for (unsigned i = 0; i < runtime->cores; i++)
        /* acquire: pairs with um_core_count(). If this load sees a count that a core made since it
         * became active, um_quiet_judge() sees that activity when it reads the word again */
        census->live += um_atomic_load(&runtime->core[i]->live, acquire);
    if (um_atomic_load(&runtime->unplaced, seq_cst))
        return false;
    for (unsigned i = 0; i < runtime->cores; i++)
        if (um_atomic_load(&runtime->core[i]->inbox, seq_cst)) /* Q2 */
            return false;
    return true;
}

/* Judges, when no core or holder seems to be active. Under the runtime's lock. True if there is a
 * new verdict: the caller must then wake the threads that wait for it (runtime->changed). */
UM_LINKONCE UM_COLD bool um_runtime_judge_locked(struct umbra_runtime *runtime)
{
    struct um_census census = {.runtime = runtime};

    if (runtime->waiting == 0 || runtime->verdict != UM_VERDICT_NONE ||
        !um_quiet_judge(&runtime->activity, 0, &um_outside, um_runtime_empty, &census))
        return false;
    runtime->verdict = census.live > 0 ? UM_VERDICT_DEADLOCK : UM_VERDICT_ENDED;
    if (runtime->verdict == UM_VERDICT_DEADLOCK)
        um_joins_end(runtime, -EDEADLK);
    return true;
}

/* The same, and wakes the threads that wait. The caller does not have the lock, and knows that the
 * runtime cannot end meanwhile. The threads are woken after the lock is free: a thread that ran at
 * once, on this processor, would only wait for the lock. */
UM_LINKONCE UM_COLD void um_runtime_judge(struct umbra_runtime *runtime)
{
    bool over;

    pthread_mutex_lock(&runtime->lock);
    over = um_runtime_judge_locked(runtime);
    pthread_mutex_unlock(&runtime->lock);
    if (over)
        pthread_cond_broadcast(&runtime->changed);
}

/* The library itself begins something that may still wake a fiber, and ends it: as a hold, but no
 * release of the user's ends it. Any thread or fiber; the last end may block while the report of a
 * deadlock is written. */
UM_INLINE void um_runtime_enter(struct umbra_runtime *runtime)
{
    um_quiet_enter(&runtime->activity);
}

UM_LINKONCE void um_runtime_leave(struct umbra_runtime *runtime)
{
    if (um_quiet_leave_others(&runtime->activity) || runtime->inherited)
        return;
    /* There is no verdict, and the runtime cannot end, until the lock is free again. */
    pthread_mutex_lock(&runtime->lock);
    if (um_quiet_leave(&runtime->activity) && um_runtime_judge_locked(runtime))
        pthread_cond_broadcast(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
}

/* Begins a call by which a thread that is no core joins or leaves an event's queue: the call may
 * execute the requests of other threads (core/quiet.h). */
UM_INLINE void um_outside_call(void)
{
    um_quiet_call(&um_outside);
}

/* Judges every runtime: a thread does not know which fibers its call might have woken. */
UM_LINKONCE UM_COLD void um_outside_judge(void)
{
    struct umbra_runtime *runtime;

    pthread_mutex_lock(&um_runtimes.lock); /* no runtime ends meanwhile */
    for (runtime = um_atomic_load(&um_runtimes.first, relaxed); runtime; runtime = runtime->next)
        um_runtime_judge(runtime);
    pthread_mutex_unlock(&um_runtimes.lock);
}

/* Ends such a call. */
UM_INLINE void um_outside_call_ends(void)
{
    if (um_quiet_call_ends(&um_outside))
        um_outside_judge();
}

/* For the thread that created the runtime, while it waits in a join. If nothing but its own hold
 * keeps the runtime from being quiet, nothing can end the join: reports the deadlock, and ends the
 * joins of all threads with -EDEADLK. */
UM_LINKONCE UM_COLD void um_join_judge(struct umbra_runtime *runtime)
{
    struct um_census census = {.runtime = runtime};

    pthread_mutex_lock(&runtime->lock);
    if (runtime->waiting == 0 &&
        um_quiet_judge(&runtime->activity, 1, &um_outside, um_runtime_empty, &census) &&
        census.live > 0) {
        if (runtime->report)
            um_report_deadlock(runtime);
        um_joins_end(runtime, -EDEADLK);
    }
    pthread_mutex_unlock(&runtime->lock);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
