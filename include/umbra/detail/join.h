/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Joining fibers. Private; included by core.h.
 *
 * Every fiber has an owner, the core that spawned it, and only fibers of the owner touch `done`
 * besides the fiber's own core. Anybody else asks the owner by a message. So that a fiber is joined
 * once is settled by one core, and where owner and home are the same, without atomic operations.
 *
 *   done                who changes it             to what
 *   owner, RUNNING      owner (owner == home)      node JOINED or ASKED; owner, DETACHED
 *                       owner (another home)       the same, by compare-and-swap
 *                       home, when it ends         owner, FINISHED (another owner: by
 *                                                  compare-and-swap)
 *   owner, FINISHED     owner                      owner, RUNNING: the fiber is idle again
 *   node, JOINED        the joiner, once woken     as above
 *   node, ASKED         home, when it ends         as above, the request answered
 *   owner, DETACHED     home, when it ends         as above
 */
#ifndef UMBRA_DETAIL_JOIN_H
#define UMBRA_DETAIL_JOIN_H

#include <umbra/detail/fiber_pool.h>
#include <umbra/detail/scheduler.h>
#include <umbra/detail/spawn.h>

#define UM_GAPS 8 /* a look with its gap takes as long as so many without */

/* What a joiner asks of the owner, and the answer. In the asking function's frame. */
struct um_join_request {
    struct umbra_fiber fiber;
    bool detach; /* only detach it */
    int status;
    void *result;
};

/* The fiber has ended and is the caller's: its next life may begin. Keeps it for the owner's core,
 * or (core NULL) in its home's depot. */
UM_INLINE void *um_join_collect(struct umbra_core *core, struct um_fiber *fiber)
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

/* ---- the home core: a fiber has ended ---- */

UM_LINKONCE void um_join_reply(struct umbra_core *core, struct um_node *node, int status,
                               void *result)
{
    struct um_join_request *request = node->arg;

    request->status = status;
    request->result = result;
    node->kind = UM_NODE_WAKE;
    um_node_wake(node, core);
}

/* A fiber that has ended was asked for; it is still in nobody else's hands. */
UM_LINKONCE void um_join_answer(struct umbra_core *core, struct um_fiber *fiber,
                                struct um_node *node)
{
    if (core->watched == fiber) { /* whom the answer wakes may be of this core, and run next */
        um_watch_end(&fiber->node.link);
        core->watched = NULL;
    }
    um_join_reply(core, node, 0, um_join_collect(NULL, fiber));
}

/* The fiber's context is saved; its end may be known, and its memory used again. */
UM_LINKONCE void um_fiber_retire(struct umbra_core *core, struct um_fiber *fiber, void *result)
{
    /* acquire, also below: the fields of the joiner's node; pairs with um_done_change() */
    uint64_t done = um_atomic_load(&fiber->node.done, acquire);

    fiber->node.arg = result;
    if (fiber->slab->owner == core) { /* else it came without a place, and goes home again */
        um_fiber_set_state(fiber, UMBRA_FIBER_CREATED); /* of its next life, while it is at hand */
        if (um_ready_empty(core)) {
            core->watched = fiber;
            um_watch_begin(&fiber->node.link);
        }
    }
    while ((done & UM_DONE_TAG) == UM_DONE_RUNNING)
        /* acq_rel: the fiber's result and its saved context; pairs with um_join_finished() */
        if (um_atomic_cas(&fiber->node.done, &done, done | UM_DONE_FINISHED, acq_rel, acquire))
            return;
    if ((done & UM_DONE_TAG) == UM_DONE_JOINED)
        um_node_wake(um_done_node(done), core);
    else if ((done & UM_DONE_TAG) == UM_DONE_ASKED)
        um_join_answer(core, fiber, um_done_node(done));
    else
        um_join_collect(NULL, fiber);
}

/* ---- the owner ---- */

/* From RUNNING to something else; false: it has FINISHED meanwhile. The owner. */
UM_INLINE bool um_done_change(struct umbra_core *core, struct um_fiber *fiber, uint64_t done)
{
    uint64_t running = (uintptr_t)core | UM_DONE_RUNNING;

    if (um_fiber_home(fiber) == core) {
        um_atomic_store(&fiber->node.done, done, relaxed); /* only this core looks */
        return true;
    }
    /* acq_rel: the joiner's node for the home core, or the result from it; pairs with
     * um_fiber_retire() */
    return um_atomic_cas(&fiber->node.done, &running, done, acq_rel, acquire);
}

/* A request, from whoever is not of the owner. */
UM_LINKONCE void um_join_receive(struct umbra_core *core, struct um_node *node)
{
    struct um_join_request *request = node->arg;
    struct um_fiber *fiber = request->fiber.block;
    bool detach = request->detach; /* once the node is in `done` the request may be answered */
    uint64_t done;

    done = um_atomic_load(&fiber->node.done, acquire); /* pairs with um_fiber_retire() */
    if (um_fiber_generation(fiber) != request->fiber.generation) {
        um_join_reply(core, node, -ESRCH, NULL);
        return;
    }
    if ((done & UM_DONE_TAG) == UM_DONE_FINISHED && um_core_current(core) == fiber) {
        um_core_post(core, node); /* it is just leaving its stack: ask again after that */
    } else if (done == ((uintptr_t)core | UM_DONE_RUNNING) &&
               um_done_change(core, fiber,
                              detach ? (uintptr_t)core | UM_DONE_DETACHED
                                     : (uintptr_t)node | UM_DONE_ASKED)) {
        if (detach)
            um_join_reply(core, node, 0, NULL);
    } else if ((done & UM_DONE_TAG) <= UM_DONE_FINISHED) {
        um_join_reply(core, node, 0, um_join_collect(core, fiber));
    } else {
        um_join_reply(core, node, -EINVAL, NULL);
    }
}

/* Waits in place while the core has nothing else to do. Whether the fiber has ended. */
UM_INLINE bool um_join_look(struct umbra_core *core, struct um_fiber *fiber)
{
    uint64_t finished = (uintptr_t)core | UM_DONE_FINISHED;
    uint64_t start = umbra_cycles();

    do {
        for (uint32_t i = 0; i < core->waiter.policy->batch; i += UM_GAPS) {
            /* acquire: pairs with um_fiber_retire() */
            if (um_atomic_load(&fiber->node.done, acquire) == finished)
                return true;
            if (um_core_attention(core))
                return false;
            um_arch_pause(); /* each look takes the line from where it will be written */
            um_arch_pause();
        }
    } while (umbra_cycles() - start < core->in_place_cycles);
    return false;
}

/* A fiber of the owner is about to wait for one of the same home. */
UM_INLINE void um_join_block(struct um_fiber *self, struct um_fiber *fiber)
{
    um_atomic_store(&self->waits_for, um_waits_for_join, relaxed); /* only looked at, both */
    um_atomic_store(&self->waits_on, um_waits_on_fiber(fiber), relaxed);
    um_fiber_set_state(self, UMBRA_FIBER_BLOCKED);
    /* relaxed: only this core looks */
    um_atomic_store(&fiber->node.done, (uintptr_t)&self->node | UM_DONE_JOINED, relaxed);
}

/* A fiber of the owner joins one that has not ended, or of another home. */
UM_LINKONCE int um_join_wait(struct umbra_core *core, struct um_fiber *fiber, const void *at)
{
    struct um_fiber *self = um_core_current(core);

    if (!um_fiber_on_stack(self))
        return -EPERM;
    if (um_ready_empty(core) && um_join_look(core, fiber))
        return 0;
    self->node.kind = UM_NODE_WAKE;
    if (um_done_change(core, fiber, (uintptr_t)&self->node | UM_DONE_JOINED)) {
        um_fiber_block(self, "join", um_waits_on_fiber(fiber), at);
        um_fiber_leave(core, self);
    }
    return 0;
}

/* ---- anybody ---- */

/* Asks the owner, and waits for the answer. */
UM_LINKONCE int um_join_ask(struct um_join_request *request, struct umbra_core *owner,
                            const void *at)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self = core ? um_core_current(core) : NULL;
    struct um_sleeper *sleeper = NULL;
    struct um_node *node;
    int error = self ? 0 : um_sleeper_get(&sleeper);

    if (error != 0)
        return error;
    if (self && !um_fiber_on_stack(self))
        return -EPERM;
    node = self ? &self->node : &sleeper->node;
    node->kind = UM_NODE_JOIN;
    node->flags = 0;
    node->arg = request;
    if (self)
        um_fiber_block(self, "join",
                       owner->runtime == core->runtime ? um_waits_on_fiber(request->fiber.block)
                                                       : (const void *)request->fiber.block,
                       at); /* another runtime may go before this core hears of it */
    um_core_post(owner, node);
    if (self)
        um_fiber_leave(core, self);
    else
        um_sleeper_wait(sleeper, UMBRA_NEVER);
    return request->status;
}

UM_LINKONCE int um_join_slowly(struct um_join_request *request, const void *at)
{
    struct umbra_core *core = um_core_self && um_core_current(um_core_self) ? um_core_self : NULL;
    struct um_fiber *fiber = request->fiber.block;
    struct umbra_core *owner;
    uint64_t done;
    int error = 0;

    if (!fiber)
        return -ESRCH;
    /* acquire: pairs with um_fiber_retire(); the generation comes after it, see um_fiber_is() */
    done = um_atomic_load(&fiber->node.done, acquire);
    if (um_fiber_generation(fiber) != request->fiber.generation)
        return -ESRCH;
    if (core && um_core_current(core) == fiber && !request->detach)
        return -EDEADLK;
    if ((done & UM_DONE_TAG) > UM_DONE_FINISHED)
        return -EINVAL;
    owner = (struct umbra_core *)(uintptr_t)(done & ~(uint64_t)UM_DONE_TAG);
    if (owner != core)
        return um_join_ask(request, owner, at);
    if (request->detach) {
        if ((done & UM_DONE_TAG) == UM_DONE_FINISHED ||
            !um_done_change(core, fiber, (uintptr_t)core | UM_DONE_DETACHED))
            um_join_collect(core, fiber);
        return 0;
    }
    if ((done & UM_DONE_TAG) == UM_DONE_RUNNING)
        error = um_join_wait(core, fiber, at);
    if (error == 0)
        request->result = um_join_collect(core, fiber);
    return error;
}

UM_LINKONCE int um_join_outline(struct umbra_fiber fiber, void **result)
{
    struct um_join_request request = {.fiber = fiber};
    int error = um_join_slowly(&request, __builtin_return_address(0));

    if (error == 0 && result)
        *result = request.result;
    return error;
}

UM_LINKONCE int umbra_detach(struct umbra_fiber fiber)
{
    struct um_join_request request = {.fiber = fiber, .detach = true};

    return um_join_slowly(&request, __builtin_return_address(0));
}

/*
 * The common case here, inlined up to the switch: each return after a switch would be mispredicted,
 * since the processor's stack of return addresses belongs to the side that left.
 */
UM_ALWAYS_INLINE int umbra_join(struct umbra_fiber handle, void **result)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self = core ? um_core_current(core) : NULL;
    struct um_fiber *fiber = handle.block;
    void *value;
    uint64_t done;

    if (UM_UNLIKELY(!self || !fiber || fiber == self || !um_fiber_on_stack(self)))
        return um_join_outline(handle, result);
    /* acquire, though where it matters only this core writes: see um_fiber_is() */
    done = um_atomic_load(&fiber->node.done, acquire);
    if (UM_UNLIKELY(um_fiber_home(fiber) != core ||
                    um_fiber_generation(fiber) != handle.generation))
        return um_join_outline(handle, result);
    if (done == ((uintptr_t)core | UM_DONE_RUNNING)) {
        um_join_block(self, fiber);
        um_fiber_leave(core, self);
    } else if (UM_UNLIKELY(done != ((uintptr_t)core | UM_DONE_FINISHED))) {
        return um_join_outline(handle, result);
    }
    value = um_join_collect(core, fiber);
    if (result)
        *result = value;
    return 0;
}

#endif
