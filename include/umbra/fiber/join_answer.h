/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a join is answered. Private; included by fiber.h. The core that owns a fiber receives
 * requests to join it, and puts the request's node into the word `done`. The fiber's home core
 * finds the node there when the fiber has ended, and answers. Each section below names the core
 * that executes it. The joiner's side is in core/join.h, the word in core/join_word.h.
 */
#ifndef UMBRA_FIBER_JOIN_ANSWER_H
#define UMBRA_FIBER_JOIN_ANSWER_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/protocol.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/pool.h>
#include <umbra/fiber/runtime.h>
#include <umbra/fiber/sleeper.h>
#include <umbra/fiber/wake.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* Ends the life of a fiber that has ended and that is the caller's alone: its next life may begin.
 * Keeps the fiber for `core`, the owner, or (NULL) in its home's depot. Returns the result. */
UM_ALWAYS_INLINE void *um_join_collect(struct umbra_core *core, struct um_fiber *fiber)
{
    void *result = fiber->node.arg;

    if (UM_LIKELY(core != NULL && um_fiber_home(fiber) == core && um_fiber_is_simple(fiber))) {
        um_fiber_fetch_ahead(fiber, 1, 2);
        um_pool_reset(fiber);
        um_pool_keep(core, fiber);
    } else {
        um_pool_give_back(core, fiber);
    }
    return result;
}

/* ---- threads that join ---- */

/* A thread that waits in a join; in the thread's own frame, and in the runtime's list. */
struct um_join_thread {
    struct um_join_thread *next, **link; /* in runtime->joins; under the runtime's lock */
    struct um_wait *wait;
};

#ifdef UMBRA_IMPLEMENTATION

/* SAME if the owner is the home core, too. The owner. */
UM_INLINE enum um_done_sides um_join_sides(const struct umbra_core *core,
                                           const struct um_fiber *fiber)
{
    return um_fiber_home(fiber) == core ? UM_DONE_SAME : UM_DONE_OTHER;
}

/* ---- answers ---- */

/* Answers a request after the caller has taken its claim: the node is the joiner's again. */
UM_LINKONCE void um_join_reply(struct umbra_core *core, struct um_node *node, int status,
                               void *result)
{
    struct um_join_request *request = &um_wait_of(node)->join;

    request->status = status;
    request->result = result;
    node->kind = UM_NODE_WAKE;
    um_node_wake(node, core);
}

/* True if the joiner still waits: the claim is taken, and the caller must reply. If false, the
 * joiner has given up, and the caller's reference to the node is dropped. */
UM_LINKONCE bool um_join_claim(struct um_node *node)
{
    struct um_claimed *claimed = (struct um_claimed *)node;

    if (um_claimed_offer(claimed) == UM_OFFER_TAKEN)
        return true;
    um_claimed_drop(claimed);
    return false;
}

/* Answers a request without a result, if the joiner still waits. */
UM_LINKONCE void um_join_say(struct umbra_core *core, struct um_node *node, int status)
{
    if (um_join_claim(node))
        um_join_reply(core, node, status, NULL);
}

/* ---- the home core: a fiber has ended ---- */

/* Answers the request that was in `done`, which is ANSWERING: only the caller touches the fiber. If
 * the joiner has given up, `done` becomes FINISHED. */
UM_LINKONCE void um_join_answer(struct umbra_core *core, struct um_fiber *fiber,
                                struct um_node *node)
{
    if (core->watched == fiber) { /* the joiner may be of this core, and run next */
        um_watch_end(&fiber->node.link);
        core->watched = NULL;
    }
    if (um_join_claim(node))
        um_join_reply(core, node, 0, um_join_collect(NULL, fiber));
    else /* relaxed: set before `done` had the node */
        um_done_unanswered(&fiber->node.done, (uintptr_t)um_atomic_load(&fiber->owner, relaxed));
}

/* ---- the owner ---- */

/* True if a join may begin where `done` has this value. */
UM_INLINE bool um_join_free(uint64_t done)
{
    return (done & UM_DONE_TAG) == UM_DONE_RUNNING || um_done_given_up(done);
}

/* Begins a join or a detachment: `done`, for which um_join_free() was true, becomes `next`. False:
 * the fiber has ended meanwhile. */
UM_INLINE bool um_join_begin(struct umbra_core *core, struct um_fiber *fiber, uint64_t done,
                             uint64_t next)
{
    if (!um_done_change(&fiber->node.done, um_join_sides(core, fiber), done, next))
        return false;
    if ((done & UM_DONE_TAG) == UM_DONE_ASKED)
        um_claimed_drop((struct um_claimed *)um_done_node(done));
    return true;
}

/* The same with a request's node. */
UM_INLINE bool um_join_begin_asked(struct umbra_core *core, struct um_fiber *fiber, uint64_t done,
                                   struct um_node *node)
{
    /* relaxed: before `done` has the node; readers of `done` acquire */
    um_atomic_store(&fiber->owner, core, relaxed);
    return um_join_begin(core, fiber, done, (uintptr_t)node | UM_DONE_ASKED);
}

/* Executes a request as far as is possible now. False: `done` has changed, look at it again. */
UM_LINKONCE bool um_join_serve(struct umbra_core *core, struct um_fiber *fiber, uint64_t done,
                               struct um_node *node)
{
    bool detach = um_wait_of(node)->join.detach;

    if (um_join_free(done)) {
        if (!detach)
            return um_join_begin_asked(core, fiber, done, node);
        if (!um_join_begin(core, fiber, done, (uintptr_t)core | UM_DONE_DETACHED))
            return false;
        um_join_say(core, node, 0);
    } else if ((done & UM_DONE_TAG) == UM_DONE_ANSWERING ||
               ((done & UM_DONE_TAG) == UM_DONE_FINISHED && um_core_current(core) == fiber)) {
        um_core_post(core, node); /* it is leaving its stack, or being answered: try again later */
    } else if ((done & UM_DONE_TAG) == UM_DONE_FINISHED) {
        if (um_join_claim(node))
            um_join_reply(core, node, 0, um_join_collect(core, fiber));
    } else if (um_atomic_load(&fiber->node.done, acquire) != done) { /* as in um_join_receive() */
        return false;
    } else {
        um_join_say(core, node, -EINVAL);
    }
    return true;
}

/* Receives a request of a thread, or of a fiber of another core. */
UM_LINKONCE void um_join_receive(struct umbra_core *core, struct um_node *node)
{
    struct umbra_fiber handle = um_wait_of(node)->join.fiber;
    uint64_t done;

    do {
        done = um_atomic_load(&handle.block->node.done, acquire); /* pairs with um_done_tell() */
        if (um_fiber_generation(handle.block) != handle.generation) {
            um_join_say(core, node, -ESRCH);
            return;
        }
    } while (!um_join_serve(core, handle.block, done, node));
}

/* Ends the joins of all threads in the runtime's list with an error. Under the runtime's lock. */
UM_LINKONCE UM_COLD void um_joins_end(struct umbra_runtime *runtime, int error)
{
    for (struct um_join_thread *thread = runtime->joins; thread; thread = thread->next) {
        struct um_wait *wait = thread->wait;

        if (um_claim_give_up(&wait->claimed, wait->claimed.ticket) == UM_GAVE_UP) {
            wait->join.status = error;
            um_node_wake_thread(&wait->claimed.node);
        }
    }
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
