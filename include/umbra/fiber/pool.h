/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Idle fibers: where a spawn gets its control block and stack, and where both go when the fiber has
 * been joined, or has ended detached. Private; included by fiber.h.
 *
 *   list                     fibers of     used by              a spawn that takes from it
 *   core->idle_fibers        this core     the core             here, on this core
 *   core->elsewhere[other]   the other     the core             here, on the other core
 *   depot (each core has     its core      any thread, under    from outside; other sizes; and when
 *   one)                                   its lock             the two above are empty
 *
 * What is not used there for a while gives its stack back, and goes to the depot: core/trim.h.
 *
 * A fiber goes back to the list where the next spawn of its kind looks. A core keeps the fibers
 * that it has spawned and joined: if it spawns on another core and joins, again and again, it uses
 * the same few fibers without a lock. The context of a fiber is saved before the fiber enters a
 * list from which a thread other than its core's can take it.
 *
 * The control block stands at the top of its stack, at a distance that differs from slot to slot,
 * so that control blocks and first frames of many fibers do not compete for the same sets of the
 * cache.
 *
 * Nothing here switches. What takes a depot's lock may block for a moment, and no signal handler
 * may call it. Making new fibers, which can fail, is in make.h.
 */
#ifndef UMBRA_FIBER_POOL_H
#define UMBRA_FIBER_POOL_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/context.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/runtime.h>
#include <umbra/stack.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* True if the fiber may go straight into its core's list: default size, no traits. */
UM_INLINE bool um_fiber_is_simple(const struct um_fiber *fiber)
{
    return (fiber->size_class | fiber->traits) == 0;
}

/* Bumps the generation: old handles become stale. */
UM_INLINE void um_pool_reset(struct um_fiber *fiber)
{
    /* relaxed: a thread with a handle of this life only has to see that the life is over */
    um_atomic_store(&fiber->generation, um_fiber_generation(fiber) + 1, relaxed);
}

/* Puts a fiber first in its own core's list. The core. */
UM_INLINE void um_pool_keep(struct umbra_core *core, struct um_fiber *fiber)
{
    if (fiber->in_pool != core->idle_fibers) { /* else it returns to where it was taken */
        uint32_t place = core->kept_next++ % UM_FETCH_AHEAD;

        fiber->ahead = core->kept[place];
        core->kept[place] = fiber;
        fiber->in_pool = core->idle_fibers;
    }
    core->idle_fibers = fiber;
}

/*
 * Prefetches lines of the fiber that is spawned, begun or joined UM_FETCH_AHEAD places after this
 * one, if many are spawned at a time and joined in the same order. Each fiber has lines and pages
 * of its own, and a list leads from one only to the next. To fetch the wrong fiber, or none, is
 * harmless.
 */
UM_INLINE void um_fiber_fetch_ahead(const struct um_fiber *fiber, int first, int last)
{
    um_fiber_fetch(fiber->ahead, first, last);
}

UM_LINKONCE void um_pool_give_back(struct umbra_core *core, struct um_fiber *fiber);

#ifdef UMBRA_IMPLEMENTATION

#define UM_SLAB_SLOTS_FIRST 16
#define UM_SLAB_SLOTS_MOST 4096
#define UM_SLAB_BYTES_MOST (UINT64_C(1) << 30) /* except for a slab of one slot */

UM_STATIC_ASSERT(UM_STACK_MOST_BYTES <= (size_t)4096 << (UM_SIZE_CLASSES - 2),
                 "each size has a class");

/* The size class of stacks of at least so many bytes; 0: of the runtime's size. Or -EINVAL. */
UM_LINKONCE int um_pool_size_class(const struct umbra_runtime *runtime, size_t bytes)
{
    int size_class = 1;

    if (bytes == 0)
        return 0;
    if (bytes < um_stack_least_bytes() || bytes > UM_STACK_MOST_BYTES)
        return um_why(-EINVAL, "stack_bytes = %zu: the least is %zu, the most %zu", bytes,
                      um_stack_least_bytes(), UM_STACK_MOST_BYTES);
    bytes = um_stack_round(bytes);
    if (bytes == runtime->stack_bytes)
        return 0;
    while (((size_t)4096 << (size_class - 1)) < bytes)
        size_class++;
    return size_class;
}

UM_INLINE struct um_fiber *um_slab_fiber(const struct um_slab *slab, unsigned slot)
{
    char *top = (char *)um_slab_high(slab, slot) - um_stack_colour(slot);

    return (struct um_fiber *)(top - sizeof(struct um_fiber));
}

/* relaxed, both: under the depot's lock, or when no core runs any more */
UM_INLINE struct um_slab *um_depot_slab(const struct um_depot *depot, unsigned size_class)
{
    return um_atomic_load(&depot->slab[size_class], relaxed);
}

UM_INLINE unsigned um_depot_next_slot(const struct um_depot *depot, unsigned size_class)
{
    return um_atomic_load(&depot->next_slot[size_class], relaxed);
}

/*
 * The fiber's life was collected. `core`, which runs the caller, keeps the fiber; but it goes to
 * its home's depot if core is NULL, if it was spawned from outside, or if its size is not the
 * default. A fiber that was spawned without a place first gets its slab's owner as home again:
 * otherwise fibers that one core spawns and another takes would pile up with the second.
 */
UM_LINKONCE void um_pool_give_back(struct umbra_core *core, struct um_fiber *fiber)
{
    static const char no_name[UMBRA_FIBER_NAME_BYTES] = "";
    uint32_t traits = fiber->traits;
    struct um_depot *depot;
    struct umbra_core *home;
    bool call;

    if (traits & UM_FIBER_NAMED) {
        um_words_write(fiber->name, no_name, sizeof(no_name));
        um_fiber_tell_name(fiber);
    }
    um_pool_reset(fiber);
    if (traits & UM_FIBER_ANYWHERE) /* release: after the generation; pairs with um_fiber_is() */
        um_atomic_store(&fiber->node.home, (uintptr_t)fiber->slab->owner, release);
    fiber->traits = 0;
    home = um_fiber_home(fiber);
    if (home == core ||
        (traits & UM_FIBER_ANYWHERE)) /* all others are CREATED since um_fiber_retire() */
        /* release: after the generation; pairs with um_fiber_continue() on the core where it was */
        um_atomic_store(&fiber->state, UMBRA_FIBER_CREATED, release);
    if (core && fiber->size_class == 0 && !(traits & UM_FIBER_FOREIGN)) {
        if (home == core) {
            um_pool_keep(core, fiber);
        } else {
            fiber->in_pool = core->elsewhere[home->index];
            core->elsewhere[home->index] = fiber;
        }
        return;
    }
    depot = &home->more->depot;
    pthread_mutex_lock(&depot->lock);
    fiber->in_pool = depot->idle[fiber->size_class];
    depot->idle[fiber->size_class] = fiber;
    call = home != um_core_self && !depot->called;
    depot->called = depot->called || call;
    pthread_mutex_unlock(&depot->lock);
    if (call) /* it may sleep, and gives stacks back: core/trim.h */
        um_core_poke(home);
}

/* Calls fn for each fiber that was ever made. No core may run any more, and some cores may not
 * have been made. */
UM_LINKONCE UM_COLD void um_pool_each(struct umbra_runtime *runtime,
                                      void (*fn)(struct um_fiber *fiber))
{
    for (unsigned i = 0; i < runtime->cores * UM_SIZE_CLASSES && runtime->core[i / UM_SIZE_CLASSES];
         i++) {
        struct um_depot *depot = &runtime->core[i / UM_SIZE_CLASSES]->more->depot;
        struct um_slab *slab = um_depot_slab(depot, i % UM_SIZE_CLASSES);
        unsigned slots = um_depot_next_slot(depot, i % UM_SIZE_CLASSES);

        for (; slab; slab = slab->next, slots = slab ? slab->slots : 0)
            for (unsigned slot = 0; slot < slots; slot++)
                fn(um_slab_fiber(slab, slot));
    }
}

UM_LINKONCE UM_COLD void um_fiber_free(struct um_fiber *fiber)
{
    free(fiber->local);
    um_context_destroy(&fiber->context, fiber);
}

/* Frees all memory of all fibers. No core may run any more. */
UM_LINKONCE UM_COLD void um_pool_destroy(struct umbra_runtime *runtime)
{
    um_pool_each(runtime, um_fiber_free);
    for (unsigned i = 0; i < runtime->cores && runtime->core[i]; i++)
        for (unsigned k = 0; k < UM_SIZE_CLASSES; k++) {
            struct um_slab *slab = um_depot_slab(&runtime->core[i]->more->depot, k);

            while (slab) {
                struct um_slab *next = slab->next;

                um_slab_destroy(slab);
                slab = next;
            }
        }
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
