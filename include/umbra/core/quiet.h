/* SPDX-License-Identifier: BSL-1.0 */
/*
 * When a runtime is quiet: all cores idle, and nothing outside that could wake a fiber. Private;
 * included by core.h. The last core or thread that becomes inactive counts the fibers that are left:
 * none is the end of a run, some are a deadlock. The words are in protocol/quiet.h.
 */
#ifndef UMBRA_CORE_QUIET_H
#define UMBRA_CORE_QUIET_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/answer.h>
#include <umbra/core/report.h>
#include <umbra/core/runtime.h>
#include <umbra/core/sleeper.h>
#include <umbra/protocol/quiet.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifndef UMBRA_DECLARE

/* Every inbox, for the judge, who learns of fibers besides; see protocol/quiet.h. */
struct um_census {
    struct umbra_runtime *runtime;
    uint64_t live;
};

UM_LINKONCE bool um_runtime_empty(void *context)
{
    struct um_census *census = context;
    struct umbra_runtime *runtime = census->runtime;

    for (unsigned i = 0; i < runtime->cores; i++)
        /* acquire: pairs with um_core_count(): what a core counted since it became active is not
         * seen without its activity, which is looked at again */
        census->live += um_atomic_load(&runtime->core[i]->live, acquire);
    if (um_atomic_load(&runtime->unplaced, seq_cst))
        return false;
    for (unsigned i = 0; i < runtime->cores; i++)
        if (um_atomic_load(&runtime->core[i]->inbox, seq_cst)) /* Q2 */
            return false;
    return true;
}

/* Nobody seems to be active: find out. Under the runtime's lock. Whether there is a verdict now, which
 * those who wait for it (runtime->changed) must be told. */
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

/* The same, without the lock, while the runtime cannot end. Who waits is told when the lock is free: if
 * it ran at once, on this processor, it would only wait for that. */
UM_LINKONCE UM_COLD void um_runtime_judge(struct umbra_runtime *runtime)
{
    bool over;

    pthread_mutex_lock(&runtime->lock);
    over = um_runtime_judge_locked(runtime);
    pthread_mutex_unlock(&runtime->lock);
    if (over)
        pthread_cond_broadcast(&runtime->changed);
}

/* Around what a thread that is no core does to an event while it waits for it. */
UM_INLINE void um_outside_call(void)
{
    um_quiet_call(&um_outside);
}

UM_LINKONCE UM_COLD void um_outside_judge(void)
{
    struct umbra_runtime *runtime;

    pthread_mutex_lock(&um_runtimes.lock); /* none of them ends meanwhile */
    for (runtime = um_atomic_load(&um_runtimes.first, relaxed); runtime; runtime = runtime->next)
        um_runtime_judge(runtime);
    pthread_mutex_unlock(&um_runtimes.lock);
}

UM_INLINE void um_outside_call_ends(void)
{
    if (um_quiet_call_ends(&um_outside))
        um_outside_judge();
}

/* The creator of the runtime waits in a join: are all others waiting, too? Then none of them can end it,
 * and the creator's own hold is for nothing. */
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

#endif /* UMBRA_DECLARE */

#endif
