/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How fibers begin and end. Private; included by core.h.
 */
#ifndef UMBRA_DETAIL_SPAWN_H
#define UMBRA_DETAIL_SPAWN_H

#include <string.h>

#include <umbra/detail/fiber_pool.h>
#include <umbra/detail/scheduler.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* detail/local.h: calls the destructors of the fiber's local values, and in a child process exits. */
UM_LINKONCE void um_fiber_end(struct um_fiber *fiber);

/* detail/report.h: tells that a fiber ends holding mutexes, and aborts. */
UM_LINKONCE void um_fiber_ends_holding(const struct um_fiber *fiber);

/*
 * The function of a fiber has returned; the fiber leaves its core. When this returns it has been
 * given another function. If only fibers of its own core can know of its end yet, no atomic
 * operation tells them. What cannot be told from the fiber's own stack the scheduler tells, once
 * the context is saved (um_fiber_retire).
 */
UM_ALWAYS_INLINE void um_fiber_finish(struct um_fiber *fiber, void *result)
{
    struct umbra_core *core = um_fiber_home(fiber);
    /* acquire: the fields of the joiner's node; pairs with um_join_wait() */
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
        if (um_ready_empty(core) && !um_core_attention(core)) {
            um_fiber_switch(core, fiber, um_fiber_of_node(um_done_node(done)));
            return;
        }
        um_ready_push(core, um_fiber_of_node(um_done_node(done)));
    } else if (UM_LIKELY(done == ((uintptr_t)core | UM_DONE_RUNNING))) {
        fiber->node.arg = result;
        /* relaxed: only fibers of this core look */
        um_atomic_store(&fiber->node.done, (uintptr_t)core | UM_DONE_FINISHED, relaxed);
    } else if (done == ((uintptr_t)core | UM_DONE_DETACHED) && um_fiber_is_simple(fiber)) {
        um_pool_reset(fiber);
        um_pool_keep(core, fiber);
    } else {
        core->retiring = fiber;
        core->retiring_result =
            result; /* the joiner may be looking at the fiber's line: one write */
        um_atomic_store(&core->current, NULL, relaxed); /* only looked at by others */
        um_context_switch(&fiber->context, &core->scheduler);
        return;
    }
    um_fiber_leave(core, fiber);
}

/* What every fiber's context runs, for one function after the other. */
UM_LINKONCE void um_fiber_main(struct um_context *self)
{
    struct um_fiber *fiber = (struct um_fiber *)self;

    for (;;) {
        umbra_fiber_fn *fn = (umbra_fiber_fn *)(void (*)(void))fiber->node.accept;
        void *result;

        um_fiber_fetch_ahead(fiber, -2, 1); /* what is on its stack, too */
        result = fn(fiber->node.arg);

        if (UM_UNLIKELY(um_fiber_flags(fiber) & UM_FIBER_LOCAL))
            um_fiber_end(fiber);
        if (UMBRA_ASSERT && fiber->mutexes > 0)
            um_fiber_ends_holding(fiber);
        um_fiber_finish(fiber, result);
    }
}

/* ---- spawning ---- */

/* Gives an idle fiber a function and a handle. owner: the core whose fibers may join it. */
UM_INLINE void um_fiber_prepare(struct um_fiber *fiber, struct umbra_core *owner,
                                umbra_fiber_fn *fn, void *arg, struct umbra_fiber *handle)
{
    /* release: after the life's number; pairs with calls that have a stale handle (um_fiber_is) */
    um_atomic_store(&fiber->node.done,
                    (uintptr_t)owner | (handle ? UM_DONE_RUNNING : UM_DONE_DETACHED), release);
    fiber->node.accept = (um_accept_fn *)(void (*)(void))fn;
    fiber->node.arg = arg;
    if (handle)
        *handle = (struct umbra_fiber){fiber, um_fiber_generation(fiber)};
}

UM_ALWAYS_INLINE int umbra_spawn(umbra_fiber_fn *fn, void *arg, struct umbra_fiber *handle)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *fiber = core ? core->idle_fibers : NULL;

    if (UM_UNLIKELY(!fiber || !um_core_current(core)))
        return core ? umbra_spawn_with(NULL, NULL, fn, arg, handle) : -EPERM;
    core->idle_fibers = fiber->in_pool;
    um_fiber_fetch_ahead(fiber, 0, 2);
    um_fiber_prepare(fiber, core, fn, arg, handle);
    um_core_count(core, 1);
    um_fiber_make_ready(core, fiber);
    return 0;
}

/* Where a spawn goes, resolved. */
struct um_spawn_plan {
    struct umbra_core *here;   /* the caller's core, or NULL */
    struct umbra_core *target; /* whose fiber it becomes; if `anywhere`, for the time being */
    struct umbra_core *owner;  /* whose fibers may join it */
    bool anywhere;
    unsigned size_class;
    uint64_t deadline; /* of its delay, or 0 */
    const char *name;
    bool stopped;
};

UM_LINKONCE int um_spawn_plan(struct umbra_runtime *runtime,
                              const struct umbra_spawn_options *options, struct um_spawn_plan *plan)
{
    static const struct umbra_spawn_options defaults = {.where = UMBRA_HERE};
    struct umbra_core *here = um_core_self && um_core_current(um_core_self) ? um_core_self : NULL;
    int size_class;

    if (!options)
        options = &defaults;
    if (!runtime && !here)
        return -EPERM;
    if (!runtime)
        runtime = here->runtime;
    if (here && here->runtime != runtime)
        here = NULL;
    if (!here && runtime->inherited)
        return -EPERM;
    size_class = um_pool_size_class(runtime, options->stack_bytes);
    if (size_class < 0)
        return size_class;
    plan->anywhere = options->where == UMBRA_ANYWHERE || (options->where == UMBRA_HERE && !here);
    if ((plan->anywhere && (options->delay_ns > 0 || options->stopped)) ||
        (options->delay_ns > 0 && options->stopped) || options->where > UMBRA_ON_CORE ||
        (options->where == UMBRA_ON_CORE && options->core >= runtime->cores))
        return -EINVAL;
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
    plan->deadline = options->delay_ns > 0 ? umbra_deadline(options->delay_ns) : 0;
    plan->name = options->name;
    plan->stopped = options->stopped;
    return 0;
}

UM_INLINE void um_fiber_set_name(struct um_fiber *fiber, const char *name)
{
    char bytes[UMBRA_FIBER_NAME_BYTES] = "";

    if (!name)
        return;
    strncpy(bytes, name, UMBRA_FIBER_NAME_BYTES - 1);
    um_fiber_write_name(fiber, bytes);
    fiber->traits |= UM_FIBER_NAMED;
}

/* Adds a fiber to those without a place, and wakes an idle core for it. */
UM_LINKONCE void um_unplaced_add(struct umbra_runtime *runtime, struct um_fiber *fiber)
{
    int core;

    fiber->in_pool = NULL;
    pthread_mutex_lock(&runtime->unplaced_lock);
    if (runtime->unplaced_first)
        runtime->unplaced_last->in_pool = fiber;
    else
        runtime->unplaced_first = fiber;
    runtime->unplaced_last = fiber;
    um_idle_added(&runtime->unplaced);
    pthread_mutex_unlock(&runtime->unplaced_lock);
    core = um_idle_pick(runtime->idle, runtime->cores);
    if (core >= 0)
        um_core_poke(runtime->core[core]);
}

/* Whether the fiber was given straight to its core, which watches it (watch_protocol.h). */
UM_INLINE bool um_spawn_launch(const struct um_spawn_plan *plan, struct um_fiber *fiber)
{
    if (!plan->anywhere && !plan->stopped && plan->deadline == 0 &&
        um_watch_launch(&fiber->node.link, &plan->target->inbox))
        return true;
    um_watch_cancel(&fiber->node.link);
    return false;
}

UM_LINKONCE int um_spawn_one(const struct um_spawn_plan *plan, umbra_fiber_fn *fn, void *arg,
                             struct umbra_fiber *handle)
{
    struct umbra_core *target = plan->target;
    struct um_fiber *fiber;
    int error = um_pool_take(plan->here, target, plan->size_class, &fiber);

    if (error != 0)
        return error;
    um_fiber_prepare(fiber, plan->owner, fn, arg, handle);
    um_fiber_set_name(fiber, plan->name);
    if (!plan->here)
        fiber->traits |= UM_FIBER_FOREIGN;
    if (plan->deadline != 0) /* else 0 already */
        fiber->timer.deadline = plan->deadline;
    if (plan->here == target)
        um_fiber_set_state(fiber, UMBRA_FIBER_CREATED); /* other lists' have it already */
    if (!plan->anywhere && plan->here == target) {
        um_core_begin(target, fiber, plan->stopped);
        return 0;
    }
    if (um_spawn_launch(plan, fiber))
        return 0;
    if (plan->anywhere) {
        fiber->traits |= UM_FIBER_ANYWHERE;
        um_atomic_store(&fiber->node.home, 0, relaxed); /* none yet; whoever takes it sets it */
        um_unplaced_add(target->runtime, fiber);
        return 0;
    }
    fiber->node.kind = plan->stopped ? UM_NODE_ASIDE : UM_NODE_SPAWN;
    um_core_post(target, &fiber->node);
    return 0;
}

UM_LINKONCE int umbra_spawn_with(struct umbra_runtime *runtime,
                                 const struct umbra_spawn_options *options, umbra_fiber_fn *fn,
                                 void *arg, struct umbra_fiber *fiber)
{
    struct um_spawn_plan plan;
    int error = um_spawn_plan(runtime, options, &plan);

    return error == 0 ? um_spawn_one(&plan, fn, arg, fiber) : error;
}

UM_LINKONCE int umbra_spawn_many(struct umbra_runtime *runtime,
                                 const struct umbra_spawn_options *options, umbra_fiber_fn *fn,
                                 void *args, size_t stride, size_t count,
                                 struct umbra_fiber *fibers, size_t *started)
{
    struct um_spawn_plan plan;
    int error = um_spawn_plan(runtime, options, &plan);
    size_t i;

    for (i = 0; i < count && error == 0; i++) {
        error = um_spawn_one(&plan, fn, (char *)args + i * stride, fibers ? &fibers[i] : NULL);
        if (error != 0)
            break;
    }
    if (started)
        *started = i;
    return error;
}

#endif
