/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Giving work to an idle core by its handover (core/handover.h), and waiting for its end. Private;
 * included by task.h. Fibers give; a giver may switch while it waits. The owner's side is in
 * core/find_work.h: a handover is open while a fiber that has run a task stays for more.
 *
 * While the giver's fiber is blocked, its own core, if idle, takes what no other core has begun: so
 * a piece, like a task that is left behind, waits for no core that has found something else. A core
 * counts the pieces of its fibers, and looks at other cores' handovers only while there are any. It
 * sees what it gave itself, without any order between cores.
 *
 * A piece moves one line there and back. A task that is shared and stolen (task/protocol.h) moves
 * four: the request, the word, the task and its state.
 */
#ifndef UMBRA_TASK_HAND_OVER_RANGE_H
#define UMBRA_TASK_HAND_OVER_RANGE_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/fiber.h>
#include <umbra/task/task_join.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* Hands that a giver looks at, before it shares the work instead: each look may move a line. */
#define UM_HANDOVERS_TRIED 8

/* A piece that the giver must take back or wait for. handover NULL: no handover was open. */
struct um_piece {
    struct um_handover *handover;
    uint64_t number;
};

/*
 * Claims the handover of a core, first of that which took the last piece. The caller, a fiber, then
 * writes what it gives, and gives it. None is claimed while tasks have limits, which count forks.
 */
UM_INLINE struct um_piece um_core_claim_hand(struct umbra_core *core)
{
    struct umbra_runtime *runtime = core->runtime;
    unsigned tries = runtime->cores < UM_HANDOVERS_TRIED ? runtime->cores : UM_HANDOVERS_TRIED;
    unsigned other = core->last_taker;
    struct um_piece piece = {NULL, 0};

    if (um_limits_look(&runtime->task_limits) || !um_core_current(core))
        return piece;
    while (tries-- > 0) {
        struct um_handover *handover = &runtime->core[other]->handover;

        piece.number = other == core->index ? 0 : um_handover_claim(handover);
        if (piece.number != 0) {
            piece.handover = handover;
            core->pieces++;
            handover->waiter = &um_core_current(core)->node;
            break;
        }
        other = other + 1 < runtime->cores ? other + 1 : 0;
    }
    if (other != core->last_taker)
        core->last_taker = other;
    return piece;
}

UM_INLINE enum um_look um_piece_seen(struct umbra_core *core, void *arg)
{
    const struct um_piece *piece = arg;

    if (um_handover_ended(piece->handover, piece->number))
        return UM_LOOK_OVER;
    return um_core_attention(core) || um_core_sees_tasks(core) ? UM_LOOK_LEAVE : UM_LOOK_AGAIN;
}

/* Waits in place while the core has nothing else to do. True if the piece's work has ended. */
UM_INLINE bool um_piece_look(struct umbra_core *core, const struct um_piece *piece)
{
    return um_look_in_place(core, core->runtime->polls, piece->handover, core->in_place_cycles,
                            UMBRA_NEVER, um_piece_seen, (void *)piece);
}

/*
 * Waits for the end of a piece that was taken. The giver's fiber; in the child of a
 * fork(2), where no thread runs the work, for ever. on, at: for reports.
 */
UM_LINKONCE void um_piece_wait(const struct um_piece *piece, const void *on, const void *at)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self;

    while (!core && !um_handover_ended(piece->handover, piece->number))
        um_thread_sleep(UINT64_MAX); /* for ever */
    if (um_handover_ended(piece->handover, piece->number))
        return;
    if (um_core_may_look(core) && um_piece_look(core, piece))
        return;
    self = um_core_current(core);
    self->node.kind = UM_NODE_WAKE;
    self->node.flags = 0;
    if (um_handover_await(piece->handover, piece->number)) {
        um_task_block(self, on, at);
        um_fiber_leave(core, self);
    }
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
