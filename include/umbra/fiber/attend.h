/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a core attends to between two fibers: the messages in its inbox, its timers, its ring,
 * and thieves that ask for tasks. Private; included by fiber.h. Work without a place is left to the
 * scheduler (core/loop.h).
 *
 * The core's own thread executes it, in a fiber that yields or blocks or in the scheduler's loop.
 * Only umbra_continue() may be called by any thread, but not by a signal handler. Nothing here
 * switches. A message for a life that has ended is dropped.
 */
#ifndef UMBRA_FIBER_ATTEND_H
#define UMBRA_FIBER_ATTEND_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/protocol.h>
#include <umbra/cpu.h>
#include <umbra/fiber/cancel_wait.h>
#include <umbra/fiber/completions.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/join_answer.h>
#include <umbra/fiber/runtime.h>
#include <umbra/fiber/share_tasks.h>
#include <umbra/fiber/sleeper.h>
#include <umbra/fiber/timers.h>
#include <umbra/fiber/trace_record.h>
#include <umbra/fiber/wake.h>
#include <umbra/task/protocol.h>
#include <umbra/wait.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* While fibers are ready, one call in so many reads the clock, for the timers: so many that the looks
 * are about UM_LOOK_NS apart, of which a look costs a hundredth, and no more than UM_TURNS_MOST: 16
 * empty turns are below 0.2 us. */
#define UM_TURNS_MOST 16
#define UM_LOOK_NS 1000

/* From a deadline during an offer to the next try to give up. An idle core sleeps before that. */
#define UM_OFFERED_AGAIN_NS 1000000

/* umbra_continue() for one life of a fiber, if that life still goes on here. The core. */
UM_LINKONCE void um_fiber_continue(struct umbra_core *core, struct um_fiber *fiber,
                                   uint64_t generation)
{
    /* acquire: if the fiber has gone back to another core, the generation below shows it; pairs
     * with um_pool_give_back() */
    uint32_t state = um_atomic_load(&fiber->state, acquire);
    uint32_t flags = um_fiber_flags(fiber);

    if (um_fiber_generation(fiber) != generation || state == UMBRA_FIBER_TERMINATED)
        return;
    if (state == UMBRA_FIBER_STOPPED)
        um_fiber_wake(core, fiber);
    else /* relaxed: the permit is for this core. If that life has ended, and a later one on another
            core has changed the flags, the comparison fails and no permit is written */
        um_atomic_cas(&fiber->flags, &flags, (flags & UM_FIBER_KEPT) | um_fiber_permit(generation),
                      relaxed, relaxed);
}

/* A message UM_NODE_CONTINUE. The core. */
UM_LINKONCE void um_mail_receive(struct umbra_core *core, struct um_node *node)
{
    struct um_fiber *fiber = (struct um_fiber *)((char *)node - offsetof(struct um_fiber, mail));
    /* acq_rel: what the sender wrote before is visible; from here on mail may be sent again. Pairs
     * with umbra_continue() */
    uint64_t generation = um_atomic_exchange(&fiber->mail_for, 0, acq_rel);

    if (generation != um_fiber_generation(fiber))
        return;
    if (um_fiber_home(fiber) == core)
        um_fiber_continue(core, fiber, generation);
    else /* sent for an earlier life, to its home; a later call let it count for this life */
        umbra_continue((struct umbra_fiber){fiber, generation});
}

/* Takes all messages out of the inbox and carries them out, oldest first. The core. */
UM_LINKONCE void um_core_receive(struct umbra_core *core)
{
    struct um_node *node = um_inbox_take(&core->inbox);

    /* relaxed, both: a hint for the timekeeper; the core alone writes it */
    um_atomic_store(&core->attended, um_atomic_load(&core->attended, relaxed) + 1, relaxed);
    while (node) {
        struct um_node *next = um_inbox_next(node);

        switch (node->kind) {
        case UM_NODE_WAKE:
            um_fiber_wake(core, um_node_fiber(node));
            break;
        case UM_NODE_SPAWN:
        case UM_NODE_ASIDE:
            um_core_begin(core, um_fiber_of_node(node),
                          node->kind == UM_NODE_ASIDE ? UM_BEGIN_ASIDE : UM_BEGIN_SENT);
            break;
        case UM_NODE_CONTINUE:
            um_mail_receive(core, node);
            break;
        case UM_NODE_CANCEL:
            um_cancel_receive(core, node);
            break;
        default:
            um_join_receive(core, node);
        }
        node = next;
    }
}

/* ---- timers ---- */

/* The end of a fiber's delay or sleep, or the deadline of its wait, has come. The core. */
UM_LINKONCE void um_timer_ring(struct umbra_core *core, struct um_fiber *fiber)
{
    enum um_give_up outcome = UM_GAVE_UP;

    if (fiber->claimed)
        outcome = um_claim_give_up(fiber->claimed, fiber->ticket);
    if (outcome == UM_GIVE_UP_LATER) {
        /* the thread that offers may have lost its processor to this core, which sleeps meanwhile */
        fiber->timer.deadline = um_cycles_after(UM_OFFERED_AGAIN_NS);
        um_timers_add(&core->timers, &fiber->timer);
    } else if (outcome == UM_GAVE_UP) {
        um_fiber_wake(core, fiber);
    }
}

/* Sets after how many turns the clock is read again, by how long the turns since the last look took:
 * after each, if they are long. The core. */
UM_LINKONCE void um_core_pace(struct umbra_core *core, uint64_t now)
{
    uint64_t took = now - core->rang;
    uint64_t aim = um_ns_to_cycles(UM_LOOK_NS) * core->turns;

    if (core->turns > 0)
        core->turns_between =
            took > aim ? 1 : (uint32_t)um_min_u64(aim / (took + 1) + 1, UM_TURNS_MOST);
    core->turns = 0;
    core->rang = now;
}

/* Rings all timers that have passed their deadline. The core. */
UM_LINKONCE void um_core_ring(struct umbra_core *core)
{
    uint64_t now = um_cycles();
    struct um_timer *timer;

    um_core_pace(core, now);
    while ((timer = um_timers_take(&core->timers, now)) != NULL) {
        timer->deadline = 0;
        um_timer_ring(core, (struct um_fiber *)((char *)timer - offsetof(struct um_fiber, timer)));
    }
}

/* Attends to all of these. The core; never switches. */
UM_LINKONCE void um_core_attend(struct umbra_core *core)
{
    if (um_atomic_load(&core->inbox, relaxed)) /* um_inbox_take() acquires */
        um_core_receive(core);
    if (core->timers.set > 0 && (um_ready_empty(core) || ++core->turns >= core->turns_between))
        um_core_ring(core);
    if (um_atomic_load(core->asks, relaxed)) /* a hint; the ring takes what there is */
        core->more->completions->attend(core->more->completions, false);
    if (um_core_must_share(core))
        um_core_share(core);
}

UM_LINKONCE int umbra_continue(struct umbra_fiber fiber)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *block = fiber.block;
    struct umbra_core *home;
    uint64_t pending = 0;

    if (!block)
        return um_why_ended();
    /* acquire: see um_fiber_is(). Read once: in its next life the fiber may have no home yet */
    home = (struct umbra_core *)um_atomic_load(&block->node.home, acquire);
    if (um_fiber_has_ended(block) || um_fiber_generation(block) != fiber.generation)
        return um_why_ended();
    if (um_tracing() && core && um_core_current(core))
        um_trace_wake(core, block, UM_TRACE_CONTINUE);
    if (core && um_core_current(core) && home == core) {
        um_fiber_continue(core, block, fiber.generation);
        return 0;
    }
    if (!home)
        return um_why(-EBUSY, "the fiber has no core yet");
    /* acq_rel: one mail at a time. What the caller wrote before is visible to the fiber, by this
     * mail or by the one that is pending. Pairs with um_mail_receive() */
    while (!um_atomic_cas(&block->mail_for, &pending, fiber.generation, acq_rel, acquire))
        if (pending >= fiber.generation)
            return pending == fiber.generation ? 0 : um_why_ended();
    if (pending == 0)
        um_core_post(home, &block->mail);
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
