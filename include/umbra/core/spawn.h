/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Spawning fibers. Private; included by core.h. A spawn turns its options into a plan, takes an
 * idle fiber (core/make.h) and sends it on its way: into the ready queue of the caller's core, to
 * the core that watches it (core/watch.h), through the inbox of its core, or into the list of
 * fibers without a place (core/unplaced.h). Any thread or fiber may spawn, but not a signal handler.
 * The errors are listed at umbra_spawn_with(). How a fiber begins to run, and ends, is in
 * core/make.h.
 */
#ifndef UMBRA_CORE_SPAWN_H
#define UMBRA_CORE_SPAWN_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core/idle.h>
#include <umbra/core/join_word.h>
#include <umbra/core/make.h>
#include <umbra/core/watch.h>
#include <umbra/fiber.h>
#include <umbra/wait.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* ---- spawning ---- */

/* Gives an idle fiber a function and a handle. owner: the core that decides its join. */
UM_INLINE void um_fiber_prepare(struct um_fiber *fiber, struct umbra_core *owner,
                                umbra_fiber_fn *fn, void *arg, struct umbra_fiber *handle)
{
    /* release: after the generation; pairs with the loads of `done` for a stale handle, see
     * um_fiber_is() */
    um_atomic_store(&fiber->node.done,
                    (uintptr_t)owner | (handle ? UM_DONE_RUNNING : UM_DONE_DETACHED), release);
    fiber->node.accept = (um_accept_fn *)(void (*)(void))fn;
    fiber->node.arg = arg;
    if (handle)
        *handle = (struct umbra_fiber){fiber, um_fiber_generation(fiber)};
}

#ifdef UMBRA_IMPLEMENTATION

/* Where a spawn goes, resolved. */
struct um_spawn_plan {
    struct umbra_core *here;   /* the caller's core, or NULL */
    struct umbra_core *target; /* the fiber's core; if `anywhere`, that has it in its list */
    struct umbra_core *owner;  /* decides its join; see core/join_word.h */
    bool anywhere;
    unsigned size_class;
    uint64_t deadline; /* of its delay, or 0 */
    const struct umbra_spawn_options *options;
};

/* Makes the plan. options NULL: here; runtime NULL: the caller's. -EPERM, -EINVAL. */
UM_LINKONCE int um_spawn_plan(struct umbra_runtime *runtime,
                              const struct umbra_spawn_options *options, struct um_spawn_plan *plan)
{
    static const struct umbra_spawn_options defaults = {.where = UMBRA_HERE};
    struct umbra_core *here = um_core_self && um_core_current(um_core_self) ? um_core_self : NULL;
    int size_class;

    if (!options)
        options = &defaults;
    if (!runtime && !here)
        return um_why(-EPERM, "the caller is no fiber, and names no runtime");
    if (!runtime)
        runtime = here->runtime;
    if (here && here->runtime != runtime)
        here = NULL;
    if (!here && runtime->inherited)
        return um_why(-EPERM, "the runtime belongs to a process that this one was forked from");
    size_class = um_pool_size_class(runtime, options->stack_bytes);
    if (size_class < 0)
        return size_class;
    plan->anywhere = options->where == UMBRA_ANYWHERE || (options->where == UMBRA_HERE && !here);
    if ((plan->anywhere && (options->delay_ns > 0 || options->stopped)) ||
        (options->delay_ns > 0 && options->stopped) || options->where > UMBRA_ON_CORE ||
        (options->where == UMBRA_ON_CORE && options->core >= runtime->cores))
        return um_why(-EINVAL,
                      "where = %d, core = %u: no such core, or a delay or `stopped` that it "
                      "cannot have",
                      (int)options->where, options->core);
    plan->here = here;
    if (options->where == UMBRA_ON_CORE)
        plan->target = runtime->core[options->core];
    else if (here)
        plan->target = here;
    else /* relaxed: any number will do */
        plan->target =
            runtime->core[um_atomic_fetch_add(&runtime->next_core, 1, relaxed) % runtime->cores];
    plan->owner = here ? here : plan->target;
    plan->size_class = (unsigned)size_class;
    plan->deadline = options->delay_ns > 0 ? um_cycles_after(options->delay_ns) : 0;
    plan->options = options;
    return 0;
}

UM_INLINE void um_fiber_set_name(struct um_fiber *fiber, const char *name)
{
    char bytes[UMBRA_FIBER_NAME_BYTES];

    if (!name)
        return;
    um_copy_text(bytes, sizeof(bytes), name);
    um_words_write(fiber->name, bytes, sizeof(bytes));
    um_fiber_tell_name(fiber);
    fiber->traits |= UM_FIBER_NAMED;
}

/* Wakes an idle core for a fiber or task without a place, which has been added. */
UM_INLINE void um_unplaced_call(struct umbra_runtime *runtime)
{
    int core = um_idle_pick(runtime->idle, runtime->cores);

    if (core >= 0)
        um_core_poke(runtime->core[core]);
}

/* True if the fiber went straight to its core, which watches it (core/watch.h). */
UM_INLINE bool um_spawn_launch(const struct um_spawn_plan *plan, struct um_fiber *fiber)
{
    if (!plan->anywhere && !plan->options->stopped && plan->deadline == 0 &&
        um_watch_launch(&fiber->node.link, &plan->target->inbox))
        return true;
    um_watch_cancel(&fiber->node.link);
    return false;
}

/* Spawns one fiber. -ENOMEM. */
UM_LINKONCE int um_spawn_one(const struct um_spawn_plan *plan, umbra_fiber_fn *fn, void *arg,
                             struct umbra_fiber *handle)
{
    struct umbra_core *target = plan->target;
    struct um_fiber *fiber;
    int error = um_pool_take(plan->here, target, plan->size_class, &fiber);

    if (error != 0)
        return um_why_none(error);
    if (plan->options->own_float_control) { /* the caller's control words */
        fiber->float_control = um_arch_float_control();
        fiber->float_fn = fn;
        fn = um_own_state_run;
    }
    um_fiber_prepare(fiber, plan->owner, fn, arg, handle);
    um_fiber_set_name(fiber, plan->options->name);
    if (!plan->here)
        fiber->traits |= UM_FIBER_FOREIGN;
    if (plan->deadline != 0) /* else 0 already */
        fiber->timer.deadline = plan->deadline;
    if (um_tracing())
        um_trace_spawn(plan->here, fiber);
    if (plan->here == target)
        um_fiber_set_state(fiber, UMBRA_FIBER_CREATED); /* in other lists fibers have it */
    if (!plan->anywhere && plan->here == target) {
        um_core_begin(target, fiber, plan->options->stopped ? UM_BEGIN_ASIDE : UM_BEGIN_LAST);
        return 0;
    }
    if (um_spawn_launch(plan, fiber))
        return 0;
    if (plan->anywhere) {
        fiber->traits |= UM_FIBER_ANYWHERE;
        um_atomic_store(&fiber->node.home, 0, relaxed); /* none: the core that takes it sets it */
        um_unplaced_push(&target->spawned, &fiber->unplaced, target->unplaced);
        um_unplaced_call(target->runtime);
        return 0;
    }
    fiber->node.kind = plan->options->stopped ? UM_NODE_ASIDE : UM_NODE_SPAWN;
    um_core_post(target, &fiber->node);
    return 0;
}

UM_LINKONCE int umbra_spawn_with(struct umbra_runtime *runtime,
                                 const struct umbra_spawn_options *options, umbra_fiber_fn *fn,
                                 void *arg, struct umbra_fiber *fiber)
{
    struct um_spawn_plan plan;
    int error = fn ? um_spawn_plan(runtime, options, &plan)
                   : um_why(-EINVAL, "there is no function to run");

    return error == 0 ? um_spawn_one(&plan, fn, arg, fiber) : error;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
