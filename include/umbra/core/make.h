/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How idle fibers are found or made, and what runs on their stacks. Private; included by core.h.
 *
 * Any thread, but not a signal handler, may take an idle fiber (um_pool_take); if the lists are
 * empty the depot makes one. It may block for a moment on the depot's lock, and returns -ENOMEM.
 * All else is executed by the fiber's core: um_fiber_main() runs on the fiber's stack and calls the
 * function of one life after the other; um_fiber_retire() runs in the scheduler.
 */
#ifndef UMBRA_CORE_MAKE_H
#define UMBRA_CORE_MAKE_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/context.h>
#include <umbra/core/join_word.h>
#include <umbra/core/local.h>
#include <umbra/core/report.h>
#include <umbra/core/watch.h>
#include <umbra/fiber.h>
#include <umbra/stack.h>
#include <umbra/topology.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* Adds a slab of free slots to the depot. Under the depot's lock. 0 or -ENOMEM. */
UM_LINKONCE UM_COLD int um_depot_grow(struct umbra_core *core, unsigned size_class)
{
    struct umbra_runtime *runtime = core->runtime;
    struct um_depot *depot = &core->more->depot;
    size_t bytes =
        size_class == 0 ? runtime->stack_bytes : um_stack_round((size_t)4096 << (size_class - 1));
    struct um_slab *full = um_depot_slab(depot, size_class);
    unsigned slots = full ? full->slots * 2 : UM_SLAB_SLOTS_FIRST;
    int node = um_place_node(runtime->topology, core->cpu);
    struct um_slab *slab;
    int error;

    if (slots > UM_SLAB_SLOTS_MOST)
        slots = UM_SLAB_SLOTS_MOST;
    while (slots > 1 && slots > UM_SLAB_BYTES_MOST / bytes)
        slots /= 2;
    do /* smaller if need be, so that limited address space can be used up */
        error = um_slab_create(runtime->topology, node, bytes, slots, &slab);
    while (error == -ENOMEM && (slots /= 2) > 0);
    if (error != 0)
        return error;
    slab->owner = core;
    slab->describe = um_report_owner;
    slab->next = full;
    /* release, both: pairs with the acquire of um_report_slabs(). The slot first: for a moment a
     * report sees too few slots of the old slab, never too many */
    um_atomic_store(&depot->next_slot[size_class], 0, release);
    um_atomic_store(&depot->slab[size_class], slab, release);
    return 0;
}

UM_LINKONCE void um_fiber_main(struct um_context *self);

/* Makes a new fiber. Under the depot's lock. 0 or -ENOMEM. */
UM_LINKONCE int um_depot_make(struct umbra_core *core, unsigned size_class,
                              struct um_fiber **result)
{
    struct um_depot *depot = &core->more->depot;
    struct um_slab *slab = um_depot_slab(depot, size_class);
    struct um_fiber *fiber;
    unsigned slot;
    int error = 0;

    if (!slab || um_depot_next_slot(depot, size_class) == slab->slots)
        error = um_depot_grow(core, size_class);
    slab = um_depot_slab(depot, size_class);
    slot = um_depot_next_slot(depot, size_class);
    if (error == 0)
        error = um_slab_open(slab, slot);
    if (error != 0)
        return error;
    fiber = um_slab_fiber(slab, slot);
    fiber->slab = slab;
    fiber->slot = slot;
    fiber->size_class = size_class;
    fiber->runtime = core->runtime;
    fiber->node.kind = UM_NODE_WAKE;
    fiber->mail.kind = UM_NODE_CONTINUE;
    /* The first life is of no fiber that was here before, of another runtime, say: lives are longer
     * than a tick. relaxed, both: no other thread knows the fiber yet */
    um_atomic_store(&fiber->generation, um_cycles(), relaxed);
    um_atomic_store(&fiber->node.home, (uintptr_t)core, relaxed);
    um_context_make(&fiber->context, um_slab_low(slab, slot), fiber, um_fiber_main);
    um_fiber_tell_name(fiber);
    /* release: the fiber is set up; pairs with um_report_slabs() */
    um_atomic_store(&depot->next_slot[size_class], slot + 1, release);
    *result = fiber;
    return 0;
}

/* Takes the first fiber out of a list; NULL: it is empty. The list's owner. */
UM_INLINE struct um_fiber *um_pool_pop(struct um_fiber **list)
{
    struct um_fiber *fiber = *list;

    if (fiber)
        *list = fiber->in_pool;
    return fiber;
}

/* An idle fiber with home `target`. here: the caller's core; NULL: from outside. 0 or -ENOMEM. */
UM_LINKONCE int um_pool_take(struct umbra_core *here, struct umbra_core *target,
                             unsigned size_class, struct um_fiber **fiber)
{
    struct um_depot *depot = &target->more->depot;
    int error = 0;

    if (here && size_class == 0 &&
        (*fiber = um_pool_pop(here == target ? &here->idle_fibers
                                             : &here->elsewhere[target->index])) != NULL)
        return 0;
    pthread_mutex_lock(&depot->lock);
    *fiber = um_pool_pop(&depot->idle[size_class]);
    if (!*fiber)
        *fiber = um_pool_pop(&depot->lean[size_class]);
    if (!*fiber)
        error = um_depot_make(target, size_class, fiber);
    pthread_mutex_unlock(&depot->lock);
    return error;
}

/* The fiber has left, and its context is saved: tells its end, after which its memory may be used
 * again. The scheduler. */
UM_LINKONCE void um_fiber_retire(struct umbra_core *core, struct um_fiber *fiber, void *result)
{
    uint64_t done;

    fiber->node.arg = result;
    if (fiber->slab->owner == core) {                   /* else it was spawned without a place */
        um_fiber_set_state(fiber, UMBRA_FIBER_CREATED); /* of its next life; the line is here */
        if (um_ready_empty(core)) {
            core->watched = fiber;
            um_watch_begin(&fiber->node.link);
        }
    }
    done = um_done_tell(&fiber->node.done);
    if ((done & UM_DONE_TAG) == UM_DONE_JOINED)
        um_node_wake(um_done_node(done), core);
    else if ((done & UM_DONE_TAG) == UM_DONE_ASKED)
        um_join_answer(core, fiber, um_done_node(done));
    else if ((done & UM_DONE_TAG) == UM_DONE_DETACHED)
        um_join_collect(NULL, fiber);
}

/*
 * The function of a fiber has returned, and the fiber leaves its core. This call returns when the
 * fiber has been given its next function. If only fibers of its own core can learn of the end so
 * far, plain stores tell it. Otherwise the scheduler tells it, after the context is saved
 * (um_fiber_retire).
 */
UM_ALWAYS_INLINE void um_fiber_finish(struct um_fiber *fiber, void *result)
{
    struct umbra_core *core = um_fiber_home(fiber);
    /* acquire: the fields of the joiner's node; pairs with um_done_change() */
    uint64_t done = um_atomic_load(&fiber->node.done, acquire);
    /* relaxed: a joiner's home is fixed while it waits */
    bool local = (done & UM_DONE_TAG) == UM_DONE_JOINED &&
                 um_atomic_load(&um_done_node(done)->home, relaxed) == (uintptr_t)core;

    um_core_count(core, -1);
    um_fiber_set_state(fiber, UMBRA_FIBER_TERMINATED);
    um_fiber_set_flags(fiber, 0);
    if (UM_LIKELY(local)) {
        fiber->node.arg = result;
        um_fiber_set_state(um_fiber_of_node(um_done_node(done)), UMBRA_FIBER_READY);
        if (um_ready_empty(core) && !um_core_leave_slowly(core)) {
            um_fiber_switch(core, fiber, um_fiber_of_node(um_done_node(done)));
            return;
        }
        if (UM_UNLIKELY(core->trace != NULL))
            um_trace_wake(core, um_fiber_of_node(um_done_node(done)), UM_TRACE_WAKE);
        um_ready_push(core, um_fiber_of_node(um_done_node(done)));
    } else if (UM_LIKELY(done == ((uintptr_t)core | UM_DONE_RUNNING))) {
        fiber->node.arg = result;
        /* relaxed: so far only fibers of this core read it */
        um_atomic_store(&fiber->node.done, (uintptr_t)core | UM_DONE_FINISHED, relaxed);
    } else if (done == ((uintptr_t)core | UM_DONE_DETACHED) && um_fiber_is_simple(fiber) &&
               !core->trace) { /* its end is recorded with this life's generation */
        um_pool_reset(fiber);
        um_pool_keep(core, fiber);
    } else {
        core->retiring = fiber;
        core->retiring_result =
            result; /* not into the fiber's line yet, where the joiner may be looking */
        if (UM_UNLIKELY(core->trace != NULL))
            um_trace_leave(core, fiber, NULL);
        um_atomic_store(&core->current, NULL, relaxed); /* other threads only look */
        um_context_switch(&fiber->context, &core->scheduler);
        return;
    }
    um_fiber_leave(core, fiber);
}

/* The fiber's function has returned: the address of a task in its frames that is in a list of its
 * core, and so was not joined; or 0. Reads no task, since the frames may be overwritten. */
UM_INLINE uintptr_t um_fiber_unjoined(const struct um_fiber *fiber)
{
    /* not um_tasks_self: compilers read the thread's address once, before the loop of all lives */
    const struct um_tasks *tasks = &um_fiber_home(fiber)->tasks;
    uint64_t word =
        um_atomic_load(&tasks->word, relaxed); /* a look; the slots are the core's own */
    uintptr_t newest[] = {(uintptr_t)tasks->newest, (uintptr_t)tasks->old.prev};

    for (int i = 0; i < 2; i++)
        if (um_fiber_stack_has(fiber, newest[i]))
            return newest[i];
    for (uint32_t i = um_tasks_tail_of(word); i < um_tasks_split_of(word); i++)
        if (um_fiber_stack_has(fiber, um_atomic_load(&tasks->slot[i], relaxed)))
            return um_atomic_load(&tasks->slot[i], relaxed);
    return 0;
}

/* With UMBRA_ASSERT, when the fiber's function has returned: aborts if the fiber holds a mutex, or
 * has not joined a task. */
UM_INLINE void um_fiber_check_end(const struct um_fiber *fiber)
{
    uintptr_t task = um_fiber_unjoined(fiber);

    if (fiber->mutexes > 0)
        um_fiber_misused(fiber, ", has ended and still holds mutexes: %n\n", fiber->mutexes);
    if (task != 0)
        um_fiber_misused(fiber, ", has ended and has not joined the task in its frames at %x\n",
                         task);
}

/* What the context of every fiber runs: the function of one life after the other. */
UM_LINKONCE void um_fiber_main(struct um_context *self)
{
    struct um_fiber *fiber = (struct um_fiber *)self;

    for (;;) {
        umbra_fiber_fn *fn = (umbra_fiber_fn *)(void (*)(void))fiber->node.accept;
        void *result;

        /* Alone, it is not one of many; and the hint's line is then often at the spawner's core. */
        if (!um_ready_empty(um_fiber_home(fiber)))
            um_fiber_fetch_ahead(fiber, -2, 1); /* two lines of its stack, too */
        result = fn(fiber->node.arg);

        if (UM_UNLIKELY(um_fiber_flags(fiber) & UM_FIBER_LOCAL))
            um_fiber_end(fiber);
        if (UMBRA_ASSERT)
            um_fiber_check_end(fiber);
        um_fiber_finish(fiber, result);
        /* opaque: else compilers compute addresses of its fields once, and, as a switch in line
         * leaves few registers, keep them on the stack */
        __asm__ volatile("" : "+r"(fiber));
    }
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
