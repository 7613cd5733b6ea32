/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How the memory of idle stacks goes back to the system. Private; included by core.h. The core's own
 * thread executes this while it waits, in steps of some microseconds, until something comes for it.
 * Busy cores do nothing for it: no spawn, join or end of a fiber counts or marks anything.
 *
 * Once in UM_TRIM_NS, if the core waits then, there is a turn. It moves the idle fibers of each list
 * that belongs to the core (fiber/pool.h) to the cooling ones of this list, but for the
 * UM_TRIM_KEPT of its own that were used last. A spawn that finds the list empty takes the cooling
 * ones back. So those that are left at the next turn were not needed in between. Their stacks are
 * given back, and they go to the depot of their home as lean ones, which a spawn takes last.
 *
 * A core that begins to wait wakes up once for its next turn, and then for each turn that leaves
 * something cooling. Another core that puts a fiber into its depot calls it, once a turn.
 *
 *   list, its core or under its lock       a turn later                  in the depot of the home
 *   core->idle_fibers, elsewhere[other] -> more->cooling[its index] -.
 *   depot.idle[size]                    -> depot.cooling[size]      -+-> depot.lean[size]
 *
 * A lean fiber keeps the page with its control block, which handles may name for ever, and with the
 * frames that its next life begins from.
 */
#ifndef UMBRA_CORE_TRIM_H
#define UMBRA_CORE_TRIM_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/context.h>
#include <umbra/core/make.h>
#include <umbra/cpu.h>
#include <umbra/fiber.h>
#include <umbra/os/os.h>
#include <umbra/stack.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* From one turn to the next, at least: so long an idle fiber keeps its stack, and at most twice as
 * long while its core waits. The core wakes up once for it; a stack in use again costs a fault a
 * page. */
#define UM_TRIM_NS 1000000000
#define UM_TRIM_KEPT UM_SLAB_SLOTS_FIRST /* fibers of a core's own list that keep their stacks */
#define UM_TRIM_BYTES ((size_t)1 << 20)  /* given back in one step, at most */
#define UM_TRIM_MARGIN 512 /* bytes below the stack pointer that a switch may have used */

/* ---- turns ---- */

/* Moves what follows the first `kept` fibers of a list to its cooling ones. The list's owner. */
UM_LINKONCE bool um_trim_cut(struct um_fiber **list, unsigned kept, struct um_fiber **cooling)
{
    while (*list && kept-- > 0)
        list = &(*list)->in_pool;
    if (!*list)
        return false;
    *cooling = *list;
    *list = NULL;
    return true;
}

/* A turn: nothing is cooling. */
UM_LINKONCE void um_trim_turn(struct umbra_core *core)
{
    struct um_depot *depot = &core->more->depot;
    struct um_trim *trim = &core->more->trim;
    struct um_fiber **cooling = core->more->cooling;
    unsigned cores = core->runtime->cores;

    trim->cooling = um_trim_cut(&core->idle_fibers, UM_TRIM_KEPT, &cooling[core->index]);
    for (unsigned i = 0; i < cores; i++)
        if (i != core->index && um_trim_cut(&core->elsewhere[i], 0, &cooling[i]))
            trim->cooling = true;
    pthread_mutex_lock(&depot->lock);
    for (unsigned i = 0; i < UM_SIZE_CLASSES; i++)
        if (um_trim_cut(&depot->idle[i], 0, &depot->cooling[i]))
            trim->cooling = true;
    depot->called = false;
    pthread_mutex_unlock(&depot->lock);
    trim->list = 0;
    trim->next = um_cycles_after(UM_TRIM_NS);
}

/* ---- steps ---- */

/* Takes a fiber that has cooled, or NULL: none has. */
UM_LINKONCE struct um_fiber *um_trim_take(struct umbra_core *core)
{
    struct um_depot *depot = &core->more->depot;
    struct um_trim *trim = &core->more->trim;
    unsigned cores = core->runtime->cores;
    struct um_fiber *fiber = NULL;

    for (; !fiber && trim->list < cores; trim->list += !fiber)
        fiber = um_pool_pop(&core->more->cooling[trim->list]);
    if (fiber)
        return fiber;
    pthread_mutex_lock(&depot->lock);
    for (; !fiber && trim->list < cores + UM_SIZE_CLASSES; trim->list += !fiber)
        fiber = um_pool_pop(&depot->cooling[trim->list - cores]);
    pthread_mutex_unlock(&depot->lock);
    return fiber;
}

/* Puts a fiber whose stack was given back into the depot of its home. */
UM_LINKONCE void um_trim_put(struct um_fiber *fiber)
{
    struct um_depot *depot = &um_fiber_home(fiber)->more->depot;

    /* release: as um_pool_give_back(); in this core's own list it may still be TERMINATED */
    um_atomic_store(&fiber->state, UMBRA_FIBER_CREATED, release);
    pthread_mutex_lock(&depot->lock);
    fiber->in_pool = depot->lean[fiber->size_class];
    depot->lean[fiber->size_class] = fiber;
    pthread_mutex_unlock(&depot->lock);
}

/* Gives back a stack, or a part of a large one. False: there is none left. */
UM_LINKONCE bool um_trim_step(struct umbra_core *core)
{
    struct um_trim *trim = &core->more->trim;
    struct um_fiber *fiber = trim->fiber;
    size_t page = um_os_page_bytes();
    uintptr_t end;
    size_t bytes;

    if (!fiber) {
        fiber = trim->fiber = um_trim_take(core);
        if (!fiber)
            return false;
        trim->at = um_slab_low(fiber->slab, fiber->slot);
    }
    end = ((uintptr_t)um_context_sp(&fiber->context) - UM_TRIM_MARGIN) / page * page;
    bytes = end > (uintptr_t)trim->at ? end - (uintptr_t)trim->at : 0;
    um_os_drop(trim->at, bytes < UM_TRIM_BYTES ? bytes : UM_TRIM_BYTES);
    trim->at += UM_TRIM_BYTES;
    if (bytes <= UM_TRIM_BYTES) {
        um_trim_put(fiber);
        trim->fiber = NULL;
    }
    return true;
}

/* Gives back what has cooled; then a turn begins. False: something came for the core before, or the
 * deadline, a time stamp. The core, when it waits. */
UM_LINKONCE bool um_trim(struct umbra_core *core, uint64_t deadline)
{
    while (um_trim_step(core))
        if (um_core_has_mail(core) || um_cycles() >= deadline)
            return false;
    um_trim_turn(core);
    return true;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
