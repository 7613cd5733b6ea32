/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/shadow.h: fork and join; starting, placing and ending the helper thread.
 * Private; included by that header, after its declarations.
 */
#ifndef UMBRA_SHADOW_HELPER_H
#define UMBRA_SHADOW_HELPER_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/trace_kinds.h>
#include <umbra/base/why.h>
#include <umbra/os/fork.h>
#include <umbra/os/os.h>
#include <umbra/shadow/origin.h>
#include <umbra/shadow/protocol.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_LINKONCE UM_COLD int um_shadow_refusal(const struct umbra_shadow *shadow);

UM_INLINE int shadow_fork(struct umbra_shadow *shadow, umbra_shadow_fn *fn, void *arg)
{
    if (UM_UNLIKELY(!um_owned_by_caller(&shadow->owned)))
        return um_shadow_refusal(shadow);
    if (UM_UNLIKELY(shadow->forked))
        return um_why(-EBUSY, "the last fork was not joined");
    if (UM_UNLIKELY(!fn))
        return um_why(-EINVAL, "there is no function to run");
    shadow->forked = true;
    um_trace_say(UM_TRACE_FORK, (uintptr_t)shadow, (uintptr_t)fn);
    um_slot_post(&shadow->slot, fn, arg);
    umbra_wake(&shadow->helper_waiter);
    return 0;
}

UM_INLINE int umbra_shadow_join_deadline(struct umbra_shadow *shadow, uint64_t deadline)
{
    if (UM_UNLIKELY(!um_owned_by_caller(&shadow->owned)))
        return um_shadow_refusal(shadow);
    if (UM_UNLIKELY(!shadow->forked))
        return um_why(-EINVAL, "nothing was forked");
    if (um_wait_while_equal32(&shadow->owner_waiter, &shadow->slot.state, UM_SLOT_RUN, UINT32_MAX,
                              um_deadline_cycles(deadline)) < 0)
        return -ETIMEDOUT;
    shadow->forked = false;
    um_trace_say(UM_TRACE_JOIN, (uintptr_t)shadow, 0);
    return 0;
}

UM_INLINE int shadow_join(struct umbra_shadow *shadow)
{
    return umbra_shadow_join_deadline(shadow, UMBRA_NEVER);
}

/*
 * The gap of a place between two processors, for waits that follow the policy. The call measures
 * the kind of pair if no thread has yet; but on a synthetic topology nothing says how far the two
 * are apart. Any thread; may block for a millisecond.
 */
UM_LINKONCE UM_COLD uint32_t um_gap_between(const struct umbra_topology *topology,
                                            const struct umbra_wait_policy *policy, uint32_t place,
                                            int cpu, int other);

/* ---- all shadows of this process, and their places ---- */

#define UM_PLACES_MOST 2048

#ifdef UMBRA_IMPLEMENTATION

/* The error for a caller that is not the owner: -ESRCH if the shadow is destroyed, else -EPERM. */
UM_LINKONCE UM_COLD int um_shadow_refusal(const struct umbra_shadow *shadow)
{
    /* relaxed: a thread that is not the owner only has to see that it is not */
    return um_atomic_load(&shadow->owned.owner, relaxed) == UM_OWNER_NONE
               ? um_why(-ESRCH, "the shadow is destroyed, or the parent process's")
               : um_why(-EPERM, "another thread owns the shadow");
}

/* ---- the helper thread ---- */

UM_LINKONCE void *um_shadow_main(void *arg)
{
    struct umbra_shadow *shadow = arg;

    uint32_t seen;

    while ((seen = um_slot_look(&shadow->slot)) != UM_SLOT_QUIT) {
        if (UM_LIKELY(seen == UM_SLOT_RUN)) {
            um_slot_run(&shadow->slot);
            umbra_wake(&shadow->owner_waiter);
        }
        um_wait_while_equal32(&shadow->helper_waiter, &shadow->slot.state, UM_SLOT_IDLE, UINT32_MAX,
                              UMBRA_NEVER);
    }
    return NULL;
}

UM_LINKONCE UM_COLD void *um_shadow_thread(void *arg)
{
    um_shadow_main(arg);
    um_origin_end();
    return NULL;
}

/* The argument of um_shadow_bind(). */
struct um_shadow_start {
    struct umbra_shadow *shadow;
    struct um_origin origin;
};

/* The first function a helper runs: it binds its thread, which does not wait meanwhile. */
UM_LINKONCE UM_COLD void um_shadow_bind(void *arg)
{
    struct um_shadow_start *start = arg;
    struct umbra_shadow *shadow = start->shadow;

    shadow->helper_waiter.policy = &shadow->policy;
    shadow->bind_error =
        um_origin_bind(&start->origin, shadow->owned.topology, shadow->info.shadow_cpu);
}

struct um_shadows {
    pthread_mutex_t lock;
    struct umbra_shadow *first; /* linked by umbra_shadow.next */
};

UM_SHARED(struct um_shadows um_shadows, {PTHREAD_MUTEX_INITIALIZER, NULL});

/* The child has none of its parent's helper threads: their places are free, and the structs count
 * as destroyed. The bindings of owners are gone by then: um_owners_in_child() has run. */
UM_LINKONCE UM_COLD void um_shadows_in_child(void)
{
    um_origin_in_child(); /* of a helper */
    for (struct umbra_shadow *s = um_shadows.first; s; s = s->next)
        um_owned_end(&s->owned);
    um_shadows.first = NULL;
}

/* Under um_shadows.lock. True if the caller owns another shadow and is bound elsewhere for it. */
UM_LINKONCE UM_COLD bool um_shadow_owner_moved(const struct umbra_shadow *shadow)
{
    for (const struct umbra_shadow *s = um_shadows.first; s; s = s->next)
        if (um_owned_by_caller(&s->owned) && s->info.owner_cpu != shadow->info.owner_cpu)
            return true;
    return false;
}

/* A list of hardware threads, each once. */
struct um_places {
    unsigned count;
    bool full; /* there was no room for all */
    int cpu[UM_PLACES_MOST];
};

UM_LINKONCE UM_COLD void um_places_add(struct um_places *places, int cpu)
{
    if (um_cpu_taken(cpu, places->cpu, places->count))
        return;
    if (places->count < UM_PLACES_MOST)
        places->cpu[places->count++] = cpu;
    else
        places->full = true;
}

/* Under um_shadows.lock. The nearest free place beside the owner, or an error. */
UM_LINKONCE UM_COLD int um_shadow_find_place(const struct umbra_shadow *shadow,
                                             const struct umbra_shadow_options *options)
{
    const struct umbra_topology *topology = shadow->owned.topology;
    int owner_cpu = shadow->info.owner_cpu;
    struct um_places taken;
    int place;

    if (umbra_topology_nearest(topology, owner_cpu, NULL, 0) < 0)
        return um_why(-ENODEV,
                      "a shadow needs a second hardware thread, and this process may use "
                      "processor %d only",
                      owner_cpu);
    taken.count = 0;
    taken.full = false;
    for (unsigned i = 0; i < options->avoid_count; i++)
        um_places_add(&taken, options->avoid[i]);
    for (const struct umbra_shadow *s = um_shadows.first; s; s = s->next) {
        um_places_add(&taken, s->info.shadow_cpu);
        if (!um_owned_is_left(&s->owned))
            um_places_add(&taken, s->info.owner_cpu);
    }
    place = umbra_topology_nearest(topology, owner_cpu, taken.cpu, taken.count);
    if (place < 0 || taken.full)
        return um_why(-ENOSPC, "no hardware thread is left for a shadow of processor %d",
                      owner_cpu);
    if (um_cpu_table_siblings(&topology->table, owner_cpu, NULL, 0) > 0 &&
        umbra_topology_shared(topology, owner_cpu, place) != UMBRA_SHARED_CORE)
        return um_why(-ENOSPC, "no sibling of processor %d is left for a shadow", owner_cpu);
    return place;
}

/* Under um_shadows.lock. The named place if it is free and not the owner's, or an error. */
UM_LINKONCE UM_COLD int um_shadow_check_place(const struct umbra_shadow *shadow, int place)
{
    if (place == shadow->info.owner_cpu)
        return um_why(-EINVAL, "shadow_cpu = %d: the owner's own processor", place);
    if (umbra_topology_shared(shadow->owned.topology, shadow->info.owner_cpu, place) < 0)
        return um_why(-ENODEV, "shadow_cpu = %d: may not be used by this process", place);
    for (const struct umbra_shadow *s = um_shadows.first; s; s = s->next)
        if (s->info.shadow_cpu == place)
            return um_why(-EBUSY, "shadow_cpu = %d: holds a shadow already", place);
    return place;
}

/* Chooses the shadow's place, and enters the shadow in the list. Returns 0 or an error. */
UM_LINKONCE UM_COLD int um_shadow_enter(struct umbra_shadow *shadow,
                                        const struct umbra_shadow_options *options)
{
    static const struct um_fork_locks locks = {{&um_shadows.lock}, um_shadows_in_child};
    int place;

    um_forks_enter(UM_FORK_SHADOWS, &locks); /* cannot fail where the owners' has not */
    pthread_mutex_lock(&um_shadows.lock);
    if (um_shadow_owner_moved(shadow))
        place = um_why(-EBUSY, "owner_cpu = %d: the caller owns a shadow that is bound elsewhere",
                       shadow->info.owner_cpu);
    else
        place = options->place_shadow ? um_shadow_check_place(shadow, options->shadow_cpu)
                                      : um_shadow_find_place(shadow, options);
    if (place >= 0) {
        shadow->info.shadow_cpu = place;
        shadow->next = um_shadows.first;
        um_shadows.first = shadow;
    }
    pthread_mutex_unlock(&um_shadows.lock);
    return place < 0 ? place : 0;
}

/* Leaves the list, and undoes the owner's binding. */
UM_LINKONCE UM_COLD void um_shadow_leave(struct umbra_shadow *shadow)
{
    struct umbra_shadow **link = &um_shadows.first;

    pthread_mutex_lock(&um_shadows.lock);
    while (*link != shadow)
        link = &(*link)->next;
    *link = shadow->next;
    pthread_mutex_unlock(&um_shadows.lock);
    umbra_topology_unbind(shadow->owned.topology, shadow->owned.saved);
}

/* ---- create and destroy ---- */

UM_LINKONCE UM_COLD uint32_t um_gap_between(const struct umbra_topology *topology,
                                            const struct umbra_wait_policy *policy, uint32_t place,
                                            int cpu, int other)
{
    int shared = umbra_topology_shared(topology, cpu, other);
    enum umbra_poll_pair pair =
        shared == UMBRA_SHARED_L2 || shared == UMBRA_SHARED_L3 ? UMBRA_PAIR_L3 : UMBRA_PAIR_FARTHER;

    if (policy->polite || shared == UMBRA_SHARED_CORE)
        pair = UMBRA_PAIR_CORE;
    else if (policy->spin_cycles > 0 && umbra_topology_info(topology)->binds)
        um_probe_pair(pair, place, cpu, other);
    return um_poll_gap(pair, place);
}

/* Makes the policy of both sides. */
UM_LINKONCE UM_COLD int um_shadow_make_policy(struct umbra_shadow *shadow,
                                              const struct umbra_shadow_options *options)
{
    struct umbra_wait_options wait = options->wait;
    int error;

    wait.polite = wait.polite || shadow->info.shared == UMBRA_SHARED_CORE;
    error = umbra_wait_policy_init(&shadow->policy, &wait);
    if (error)
        return error;
    um_wait_set_gap(&shadow->policy,
                    um_gap_between(shadow->owned.topology, &shadow->policy, UMBRA_POLL_SLOT,
                                   shadow->info.owner_cpu, shadow->info.shadow_cpu));
    return 0;
}

UM_LINKONCE UM_COLD void um_shadow_end_thread(struct umbra_shadow *shadow)
{
    um_slot_dismiss(&shadow->slot);
    umbra_wake(&shadow->helper_waiter);
    pthread_join(shadow->thread, NULL);
}

/*
 * Starts the helper, with its binding as its first function, and joins that. Until then both sides
 * park at once: the helper may begin on the owner's processor. Returns 0 or an error, with the
 * helper ended.
 */
UM_LINKONCE UM_COLD int um_shadow_start(struct umbra_shadow *shadow)
{
    struct umbra_wait_policy at_once = shadow->policy;
    struct um_shadow_start start = {shadow, um_origin_here()};
    uint64_t signals = um_os_mask_signals();
    int error;

    at_once.spin_cycles = at_once.block_cycles = 0;
    um_waiter_init(&shadow->owner_waiter, &at_once);
    um_waiter_init(&shadow->helper_waiter, &at_once);
    error = pthread_create(&shadow->thread, NULL, um_shadow_thread, shadow);
    um_os_unmask_signals(signals);
    if (error)
        return um_why(-error, "the shadow's thread cannot be started: %s", strerror(error));
    shadow_fork(shadow, um_shadow_bind, &start);
    shadow_join(shadow);
    shadow->owner_waiter.policy = &shadow->policy; /* no init: the helper's wake may be under way */
    if (shadow->bind_error) {
        um_why(shadow->bind_error, "binding the shadow to processor %d: %s",
               shadow->info.shadow_cpu, strerror(-shadow->bind_error));
        um_shadow_end_thread(shadow);
    }
    return shadow->bind_error;
}

/* The owner's hardware thread: the one that options name, or where the caller runs; or an error. */
UM_LINKONCE UM_COLD int um_shadow_owner_cpu(const struct umbra_topology *topology,
                                            const struct umbra_shadow_options *options)
{
    int cpu = options->owner_cpu;

    if (!options->place_owner)
        cpu = um_topology_current_cpu(topology);
    if (umbra_topology_shared(topology, cpu, cpu) >= 0)
        return cpu;
    if (options->place_owner)
        return um_why(-ENODEV, "owner_cpu = %d: may not be used by this process", cpu);
    return um_why(-ENODEV, "the caller runs on a processor that is not in the topology");
}

/* The part of shadow_create that needs the topology. */
UM_LINKONCE UM_COLD int um_shadow_settle(struct umbra_shadow *shadow,
                                         const struct umbra_shadow_options *options)
{
    struct umbra_shadow_info *info = &shadow->info;
    int error;

    error = um_owned_begin(&shadow->owned);
    if (error)
        return um_why(error, "the end of the owner's thread cannot be watched: %s",
                      strerror(-error));
    info->owner_cpu = um_shadow_owner_cpu(shadow->owned.topology, options);
    if (info->owner_cpu < 0)
        return info->owner_cpu;
    error = um_shadow_enter(shadow, options);
    if (error)
        return error;
    info->shared = (enum umbra_shared)umbra_topology_shared(shadow->owned.topology, info->owner_cpu,
                                                            info->shadow_cpu);
    info->bound = umbra_topology_info(shadow->owned.topology)->binds;
    error = um_shadow_make_policy(shadow, options);
    if (!error)
        error = um_topology_bind_own(shadow->owned.topology, info->owner_cpu, NULL,
                                     &shadow->owned.saved);
    if (!error)
        error = um_shadow_start(shadow);
    if (error)
        um_shadow_leave(shadow);
    return error;
}

/* Frees the topology if shadow_create made it, and marks the struct as destroyed. */
UM_LINKONCE UM_COLD void um_shadow_clear(struct umbra_shadow *shadow)
{
    if (shadow->own_topology)
        umbra_topology_destroy(shadow->owned.topology);
    um_owned_end(&shadow->owned);
}

UM_LINKONCE int shadow_create(struct umbra_shadow *shadow,
                              const struct umbra_shadow_options *options)
{
    static const struct umbra_shadow_options defaults = {0};
    int error;

    um_why_begin();
    options = options ? options : &defaults;
    *shadow = (struct umbra_shadow){.owned = {.topology = options->topology}};
    if (!shadow->owned.topology) {
        error = um_topology_share(&shadow->owned.topology);
        if (error)
            return error;
        shadow->own_topology = true;
    }
    error = um_shadow_settle(shadow, options);
    if (error)
        um_shadow_clear(shadow);
    return um_why_returned(error);
}

UM_LINKONCE int shadow_destroy(struct umbra_shadow *shadow)
{
    if (!um_owned_may_end(&shadow->owned))
        return um_shadow_refusal(shadow);
    if (shadow->forked)
        shadow_join(shadow);
    um_shadow_end_thread(shadow);
    um_shadow_leave(shadow);
    um_shadow_clear(shadow);
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
