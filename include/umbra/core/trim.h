/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How the memory of idle stacks goes back to the system. Private; included by core.h. The core's own
 * thread executes this while it waits, one stack after the other, until something comes for it. Busy
 * cores do nothing for it: no spawn, join or end of a fiber counts or marks anything.
 *
 * A core that has waited for UM_TRIM_WAIT_NS, and has not done so in the last UM_TRIM_NS, gives back
 * the stacks of all idle fibers in its lists (fiber/pool.h), but for the UM_TRIM_KEPT of its own that
 * were used last. The fibers go to the depot of their home as lean ones, which a spawn takes last. A
 * core that begins to wait wakes up once for it. Another core that puts a fiber into its depot calls
 * it, once until the depot was found empty.
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

/* From one time to the next, at least. A stack in use again costs a fault a page. */
#define UM_TRIM_NS 1000000000
#define UM_TRIM_WAIT_NS 1000000          /* a shorter wait is a gap in the work */
#define UM_TRIM_KEPT UM_SLAB_SLOTS_FIRST /* fibers of a core's own list that keep their stacks */
#define UM_TRIM_MARGIN 512 /* bytes below the stack pointer that a switch may have used */

/* Takes an idle fiber that is not to keep its stack, or NULL: there is none. */
UM_LINKONCE struct um_fiber *um_trim_take(struct umbra_core *core)
{
    struct um_depot *depot = &core->more->depot;
    struct um_fiber **list = &core->idle_fibers;
    struct um_fiber *fiber;

    for (unsigned i = 0; i < UM_TRIM_KEPT && *list; i++)
        list = &(*list)->in_pool;
    fiber = um_pool_pop(list);
    for (unsigned i = 0; !fiber && i < core->runtime->cores; i++)
        fiber = um_pool_pop(&core->elsewhere[i]);
    if (fiber)
        return fiber;
    pthread_mutex_lock(&depot->lock);
    for (unsigned i = 0; !fiber && i < UM_SIZE_CLASSES; i++)
        fiber = um_pool_pop(&depot->idle[i]);
    depot->called = fiber != NULL;
    pthread_mutex_unlock(&depot->lock);
    return fiber;
}

/* Gives back the stacks of all of them. They go to the depots of their homes. False: something came
 * for the core before, or the deadline, a time stamp. The core, when it waits. */
UM_LINKONCE bool um_trim(struct umbra_core *core, uint64_t deadline)
{
    size_t page = um_os_page_bytes();
    struct um_fiber *fiber;

    while ((fiber = um_trim_take(core)) != NULL) {
        struct um_depot *depot = &um_fiber_home(fiber)->more->depot;
        char *low = um_slab_low(fiber->slab, fiber->slot);
        uintptr_t end = ((uintptr_t)um_context_sp(&fiber->context) - UM_TRIM_MARGIN) / page * page;

        if (end > (uintptr_t)low)
            um_os_drop(low, end - (uintptr_t)low);
        /* release: as um_pool_give_back(); in this core's own list it may still be TERMINATED */
        um_atomic_store(&fiber->state, UMBRA_FIBER_CREATED, release);
        pthread_mutex_lock(&depot->lock);
        fiber->in_pool = depot->lean[fiber->size_class];
        depot->lean[fiber->size_class] = fiber;
        pthread_mutex_unlock(&depot->lock);
        if (um_core_has_mail(core) || um_completions_look(core) || um_cycles() >= deadline)
            return false;
    }
    core->more->trim_next = um_cycles_after(UM_TRIM_NS);
    return true;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
