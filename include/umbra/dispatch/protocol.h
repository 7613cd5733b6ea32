/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A step of a dispatcher: how a hungry worker learns of a value, and how the end of a step is known
 * without a count of tasks. Called by workers and by sources, which queue values; only
 * um_step_stop() may be called by any thread or fiber. Private; read by the model checker as it
 * stands.
 *
 * A worker that finds no value leaves a request: its bit in `asking`. Each side that queues a value
 * answers one request. That is the protocol of idle cores (core/idle.h): the bit before the
 * last look, the value before the look at the bits.
 *
 *   a worker                                       a worker or source that queues a value
 *   R1  its bit in asking         seq_cst          V1  the value, and that there is one   seq_cst
 *   R2  look at every queue       seq_cst          V2  look at asking                     seq_cst
 *   R3  nothing: become inactive, wait             V3  clear a bit; wake that worker
 *   R4  something: take the bit back; if it is gone already, do V2 and V3
 *
 * R4: the answer was to make one more worker look for values. This worker looks anyway; it may take
 * a value that another worker was woken for, and then no worker would look for the value of this
 * answer.
 *
 * A step is over when all sources are complete, nothing is queued, and every worker has an
 * unanswered request. The active are the open sources and the workers that have not asked; only
 * they queue values, and they do so before they become inactive. That is the protocol of quiet
 * (core/quiet.h), with queues in place of inboxes: the side that becomes inactive last checks
 * that nothing is queued and that no side has become active meanwhile. A worker that was woken
 * becomes active before it takes a value. A worker that wakes for nothing does so, too, and makes
 * the check when it asks again and is the last.
 *
 * A worker may yield its processor between two values, with values queued and no request: it
 * becomes inactive, and active again. Other workers may take its queued values meanwhile; if they
 * have done everything, the step is over without it.
 *
 * A step that was stopped is over when none is active, even if values are queued.
 */
#ifndef UMBRA_DISPATCH_PROTOCOL_H
#define UMBRA_DISPATCH_PROTOCOL_H

#include <umbra/core/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifndef UM_MODEL_CHECK
#define UM_STEP_WORKERS 1024 /* at most */
#endif

/* The phase of the user's step: there is none; its caller is a source; its caller waits for its
 * end, or will. */
#define UM_STEP_NONE 0u
#define UM_STEP_OPEN 1u
#define UM_STEP_CLOSED 2u

struct um_step {
    um_atomic_u64 activity; /* open sources and workers that have not asked; core/quiet.h */
    um_atomic_u64 sources;  /* that umbra_source_open() has opened: as holds there */
    um_atomic_u64 asking[UM_STEP_WORKERS / UM_IDLE_BITS]; /* requests; core/idle.h */
    um_atomic_u32 stopped; /* the first error, as unsigned; 0: none. Values stay where they are */
    struct um_quiet_outside nobody; /* without calls: only the active queue values */
};

/* True if no queue has a value. Must look at every queue with seq_cst. */
typedef um_quiet_empty um_step_empty;

/*
 * True if the step was stopped. seq_cst: a worker that was answered before the stop, and enters
 * after um_step_over() has seen the stop, must see it, too: the stop, the look of um_step_over(),
 * the entry and this look are in one order.
 */
UM_INLINE bool um_step_stopped(struct um_step *step)
{
    return um_atomic_load(&step->stopped, seq_cst) != 0;
}

/* Any thread or fiber: no value is begun any more. The first error stays. It is one word, so a late
 * call stops the next step with its error, or does nothing. */
UM_INLINE void um_step_stop(struct um_step *step, int error)
{
    uint32_t none = 0;

    um_atomic_cas(&step->stopped, &none, (uint32_t)error, seq_cst, relaxed);
}

/* A source opens, or a worker wakes or has yielded: before it does anything else. Another is
 * active, or no step is under way, or something is queued. A source of the user's opens and closes
 * by um_quiet_hold() and um_quiet_let_go(). */
UM_INLINE void um_step_enter(struct um_step *step)
{
    um_quiet_enter(&step->activity);
}

/* A source is complete, or a worker has asked (R3) or yields. True if it was the last that was
 * active: then it must check um_step_over(). */
UM_INLINE bool um_step_leave(struct um_step *step)
{
    return um_quiet_leave(&step->activity);
}

/* A worker that has found nothing: R1, R2. True if it should leave and wait; if not, it calls
 * um_step_unask(). */
UM_INLINE bool um_step_ask(struct um_step *step, unsigned worker, um_step_empty *empty,
                           void *context)
{
    um_idle_announce(step->asking, worker);
    return um_step_stopped(step) || empty(context);
}

/* A worker that has found something, or was woken and is active again, takes its request back. True
 * if it was unanswered. If not, and the worker has not waited, it answers another request: R4. */
UM_INLINE bool um_step_unask(struct um_step *step, unsigned worker)
{
    return um_idle_clear(step->asking, worker);
}

/* After a value was queued: V2, V3. The worker to wake, or -1: no request. */
UM_INLINE int um_step_answer(struct um_step *step, unsigned workers)
{
    return um_idle_pick(step->asking, workers);
}

/* For the last that left: true if the step is over. */
UM_INLINE bool um_step_over(struct um_step *step, um_step_empty *empty, void *context)
{
    uint64_t activity;

    if (!um_step_stopped(step))
        return um_quiet_judge(&step->activity, 0, &step->nobody, empty, context);
    activity = um_atomic_load(&step->activity, seq_cst); /* pairs with um_quiet_enter() */
    return (activity & UM_QUIET_ACTIVE) == 0;
}

#endif
