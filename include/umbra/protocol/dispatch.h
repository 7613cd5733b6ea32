/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A step of a dispatcher: how hungry workers are told of values, and how its end is known without a
 * count of tasks. Private; read by the model checker as it stands.
 *
 * A worker that finds no value leaves a request: its bit in `asking`. Whoever queues a value answers
 * one. That is the protocol of idle cores (protocol/idle.h): the bit before the last look, the value
 * before the look at the bits.
 *
 *   a worker                                       whoever queues a value
 *   R1  its bit in asking         seq_cst          V1  the value, and that there is one   seq_cst
 *   R2  look at every queue       seq_cst          V2  look at asking                     seq_cst
 *   R3  nothing: no more active, wait              V3  clear a bit; wake that worker
 *   R4  something: take the bit back; if it is gone already, V2 and V3 in the place of who cleared it
 *
 * R4: who cleared it meant that somebody looks who would not have looked otherwise. The worker would
 * have; it may take what another was woken for already, and then nobody would look for this value.
 *
 * A step is over when all sources are complete, nothing is queued, and every worker has an unanswered
 * request. Active are the open sources and the workers that have not asked; only they queue values,
 * before they become inactive. That is the protocol of quiet (protocol/quiet.h), with queues for
 * inboxes: who leaves last looks whether nothing is queued and nobody has become active meanwhile.
 * A worker that was woken becomes active before it takes a value, and so does one that wakes for
 * nothing, who then judges in its turn.
 *
 * A worker may rest between two values, with something queued and no request: it becomes inactive,
 * and active again. Others take what is queued meanwhile, or it finds it there still; if they have
 * done everything, the step is over without it.
 *
 * A step that was stopped is over when nobody is active, whatever is queued.
 */
#ifndef UMBRA_PROTOCOL_DISPATCH_H
#define UMBRA_PROTOCOL_DISPATCH_H

#include <umbra/protocol/idle.h>
#include <umbra/protocol/quiet.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifndef UM_MODEL_CHECK
#define UM_STEP_WORKERS 1024 /* at most */
#endif

/* The phase of the user's step: none; its caller is a source; its caller waits for its end, or will. */
#define UM_STEP_NONE 0u
#define UM_STEP_OPEN 1u
#define UM_STEP_CLOSED 2u

struct um_step {
    um_atomic_u64 activity; /* open sources and workers that have not asked; protocol/quiet.h */
    um_atomic_u64 asking[UM_STEP_WORKERS / UM_IDLE_BITS]; /* requests; protocol/idle.h */
    um_atomic_u32 stopped; /* the first error, as unsigned; 0: none. Values stay where they are */
    struct um_quiet_outside nobody; /* all who queue are active */
};

/* Whether nothing is queued for anybody; looks at every queue with seq_cst. */
typedef um_quiet_empty um_step_empty;

/*
 * Whether the step was stopped. seq_cst: who was answered before the stop, and enters after the judge
 * has seen it, must see it, too: stop, the judge's look, the entry and this look are in one order.
 */
UM_INLINE bool um_step_stopped(struct um_step *step)
{
    return um_atomic_load(&step->stopped, seq_cst) != 0;
}

/* Anybody: no value is begun any more. The first error stays: one word, so that whoever is late
 * stops the next step with its error, or not at all. */
UM_INLINE void um_step_stop(struct um_step *step, int error)
{
    uint32_t none = 0;

    um_atomic_cas(&step->stopped, &none, (uint32_t)error, seq_cst, relaxed);
}

/* A source opens, or a worker wakes, or has rested: before it does anything else. Somebody is active,
 * or no step is under way, or something is queued. */
UM_INLINE void um_step_enter(struct um_step *step)
{
    um_quiet_enter(&step->activity);
}

/* A source is complete, or a worker has asked (R3) or rests. Whether it must judge. */
UM_INLINE bool um_step_leave(struct um_step *step)
{
    return um_quiet_leave(&step->activity);
}

/* A worker that has found nothing: R1, R2. Whether it should leave and wait; if not, it unasks. */
UM_INLINE bool um_step_ask(struct um_step *step, unsigned worker, um_step_empty *empty,
                           void *context)
{
    um_idle_announce(step->asking, worker);
    return um_step_stopped(step) || empty(context);
}

/* A worker that has found something, or was woken and is active again, takes its request back. Whether
 * nobody had answered it; if somebody had, and it did not wait, it answers another one: R4. */
UM_INLINE bool um_step_unask(struct um_step *step, unsigned worker)
{
    return um_idle_clear(step->asking, worker);
}

/* Whoever has queued a value: V2, V3. The worker to wake, or -1. */
UM_INLINE int um_step_answer(struct um_step *step, unsigned workers)
{
    return um_idle_pick(step->asking, workers);
}

/* The same, for whoever has queued it for a certain worker. */
UM_INLINE int um_step_answer_rather(struct um_step *step, unsigned workers, unsigned worker)
{
    return um_idle_pick_rather(step->asking, workers, worker);
}

/* Who has left last: whether the step is over. */
UM_INLINE bool um_step_over(struct um_step *step, um_step_empty *empty, void *context)
{
    uint64_t activity;

    if (!um_step_stopped(step))
        return um_quiet_judge(&step->activity, 0, &step->nobody, empty, context);
    activity = um_atomic_load(&step->activity, seq_cst); /* against um_quiet_enter() */
    return (activity & UM_QUIET_ACTIVE) == 0;
}

#endif
