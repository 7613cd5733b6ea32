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
#include <umbra/cpu.h>
#include <umbra/os/os.h>
#include <umbra/os/run_once.h>
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

/* The first function a helper runs: it binds its thread. */
UM_LINKONCE UM_COLD void um_shadow_bind(void *arg)
{
    struct um_shadow_start *start = arg;
    struct umbra_shadow *shadow = start->shadow;

    shadow->bind_error =
        um_origin_bind(&start->origin, shadow->owned.topology, shadow->info.shadow_cpu);
}

struct um_shadows {
    pthread_mutex_t lock;
    struct umbra_shadow *first;   /* linked by umbra_shadow.next */
    struct um_run_once fork_once; /* for fork_error */
    int fork_error;               /* of pthread_atfork */
};

UM_SHARED(struct um_shadows um_shadows, {PTHREAD_MUTEX_INITIALIZER, NULL, {UM_RUN_NEVER}, 0});

UM_SHARED(UM_THREAD_LOCAL unsigned um_shadows_forks, 0); /* um_fork_begins() */

UM_LINKONCE UM_COLD void um_shadows_before_fork(void)
{
    if (!um_fork_begins(&um_shadows_forks))
        return;
    pthread_mutex_lock(&um_shadows.lock);
}

UM_LINKONCE UM_COLD void um_shadows_in_parent(void)
{
    if (!um_fork_ends(&um_shadows_forks))
        return;
    pthread_mutex_unlock(&um_shadows.lock);
}

/* The child has none of its parent's helper threads: their places are free, and the structs count
 * as destroyed. The bindings of owners are gone by then: the handler in shadow/owner.h runs
 * first. */
UM_LINKONCE UM_COLD void um_shadows_in_child(void)
{
    if (!um_fork_ends(&um_shadows_forks))
        return;
    um_origin_in_child(); /* of a helper */
    for (struct umbra_shadow *s = um_shadows.first; s; s = s->next)
        um_owned_end(&s->owned);
    um_shadows.first = NULL;
    pthread_mutex_unlock(&um_shadows.lock);
}

UM_LINKONCE UM_COLD void um_shadows_watch_forks(void)
{
    um_shadows.fork_error =
        -pthread_atfork(um_shadows_before_fork, um_shadows_in_parent, um_shadows_in_child);
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
    for (unsigned i = 0; i < places->count; i++)
        if (places->cpu[i] == cpu)
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
    int place;

    um_once_in_process(&um_shadows.fork_once, um_shadows_watch_forks);
    if (um_shadows.fork_error)
        return um_shadows.fork_error;
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

/*
 * Makes the policy of both sides. The cost of parking is measured between owner and helper
 * (um_shadow_measure), not in umbra_wait_policy_init, which would start threads of its own for it.
 */
UM_LINKONCE UM_COLD int um_shadow_make_policy(struct umbra_shadow *shadow,
                                              const struct umbra_shadow_options *options)
{
    struct umbra_wait_options wait = options->wait;

    wait.polite = wait.polite || shadow->info.shared == UMBRA_SHARED_CORE;
    if (wait.block_cycles == 0)
        wait.block_cycles = UMBRA_NEVER;
    return umbra_wait_policy_init(&shadow->policy, &wait);
}

UM_LINKONCE UM_COLD void um_shadow_end_thread(struct umbra_shadow *shadow)
{
    um_slot_dismiss(&shadow->slot);
    umbra_wake(&shadow->helper_waiter);
    pthread_join(shadow->thread, NULL);
}

/* Forked in order to measure: it does nothing. */
UM_LINKONCE UM_COLD void um_shadow_nothing(void *arg)
{
    (void)arg;
}

/* A policy that the helper's next wait follows. */
struct um_shadow_change {
    struct umbra_shadow *shadow;
    const struct umbra_wait_policy *policy;
};

/* Runs on the helper, which does not wait meanwhile. */
UM_LINKONCE UM_COLD void um_shadow_settle_helper(void *arg)
{
    struct um_shadow_change *change = arg;

    change->shadow->helper_waiter.policy = change->policy;
}

/* Both sides' next waits follow these policies. The owner. */
UM_LINKONCE UM_COLD void um_shadow_follow(struct umbra_shadow *shadow,
                                          const struct umbra_wait_policy *owner,
                                          const struct umbra_wait_policy *helper)
{
    struct um_shadow_change change = {shadow, helper};

    shadow_fork(shadow, um_shadow_settle_helper, &change);
    shadow_join(shadow);
    shadow->owner_waiter.policy = owner; /* no init: the helper's wake may be under way */
}

/* How long fork and join of um_shadow_nothing take, ns. */
UM_LINKONCE UM_COLD uint64_t um_shadow_round_trip(struct umbra_shadow *shadow)
{
    uint64_t start = um_os_now_ns();

    shadow_fork(shadow, um_shadow_nothing, NULL);
    shadow_join(shadow);
    return um_os_now_ns() - start;
}

/* Median of half a round trip in which both sides park, ns. */
UM_LINKONCE UM_COLD uint64_t um_shadow_measure(struct umbra_shadow *shadow)
{
    uint64_t took[UM_BLOCK_TRIALS];

    for (int trial = 0; trial < UM_BLOCK_TRIALS; trial++)
        took[trial] = um_shadow_round_trip(shadow) / 2;
    return um_block_median(took);
}

#define UM_REST_PROBES 3 /* so that one or two interruptions do not count */

/* Two threads that need longer for a hand-over do not run at the same time: a turn of the system's
 * scheduler takes longer, a sleep and a wake-up less. */
#define UM_REST_PROBE_NS 200000

/*
 * True if owner and helper run at the same time. If they share a processor, a round trip without
 * parking lasts several turns of the system's scheduler, so few are tried.
 */
UM_LINKONCE UM_COLD bool um_shadow_runs_beside(struct umbra_shadow *shadow)
{
    bool beside = false;

    for (int probe = 0; probe < UM_REST_PROBES && !beside; probe++)
        beside = um_shadow_round_trip(shadow) <= UM_REST_PROBE_NS;
    return beside;
}

/* ---- how both sides poll ---- */

/* How far apart two hardware threads are, as far as gaps depend on it. */
UM_INLINE enum umbra_poll_pair um_poll_pair(int shared)
{
    return shared == UMBRA_SHARED_CORE                              ? UMBRA_PAIR_CORE
           : shared == UMBRA_SHARED_L2 || shared == UMBRA_SHARED_L3 ? UMBRA_PAIR_L3
                                                                    : UMBRA_PAIR_FARTHER;
}

/* How the two sides poll: gaps. */
struct um_shadow_way {
    uint32_t owner;
    uint32_t helper;
};

struct um_shadow_trial {
    struct umbra_shadow *shadow;
    struct um_gaps forced;
    struct um_tune_size size;
    struct um_shadow_way way;                 /* what is not varied */
    struct umbra_wait_policy policy[UM_GAPS]; /* the final one, with each gap */
};

/* Measures null functions, as um_tune_batch. */
UM_LINKONCE UM_COLD uint32_t um_shadow_try(struct um_shadow_trial *trial, struct um_shadow_way way)
{
    struct umbra_shadow *shadow = trial->shadow;
    uint64_t start = 0;

    um_shadow_follow(shadow, &trial->policy[way.owner], &trial->policy[way.helper]);
    for (int turn = -trial->size.warm; turn < trial->size.turns; turn++) {
        if (turn == 0)
            start = um_arch_cycles();
        shadow_fork(shadow, um_shadow_nothing, NULL);
        shadow_join(shadow);
    }
    return um_tune_took(um_arch_cycles() - start, trial->size);
}

/* Two kinds of um_tune_batch: the owner's gap varies, the helper's. */
UM_LINKONCE UM_COLD uint32_t um_shadow_try_owner(void *arg, uint32_t gap)
{
    struct um_shadow_trial *trial = arg;

    return um_shadow_try(trial, (struct um_shadow_way){gap, trial->way.helper});
}

UM_LINKONCE UM_COLD uint32_t um_shadow_try_helper(void *arg, uint32_t gap)
{
    struct um_shadow_trial *trial = arg;

    return um_shadow_try(trial, (struct um_shadow_way){trial->way.owner, gap});
}

/*
 * One side's gap: what UMBRA_WAIT forces, or what is known for this pair, or measured now. On a
 * synthetic topology nothing says how far the two are apart, so nothing is measured.
 */
UM_LINKONCE UM_COLD uint32_t um_shadow_gap(struct um_shadow_trial *trial, uint32_t place,
                                           um_tune_batch *batch, uint64_t deadline)
{
    struct umbra_shadow *shadow = trial->shadow;
    enum umbra_poll_pair pair = um_poll_pair(shadow->info.shared);
    uint32_t gap = um_tuned_gap(pair, place);
    struct um_figures figures;

    if (trial->forced.of[place] < UM_GAPS)
        return trial->forced.of[place];
    if (gap < UM_GAPS || !shadow->info.bound)
        return gap < UM_GAPS ? gap : um_gap_default(place);
    gap = um_tune(batch, trial, UM_TUNE_ALL, um_gap_default(place), deadline, &figures);
    um_tuned_keep(pair, place, gap, &figures);
    return gap;
}

/* What is not measured: a forced gap, or the usual one. */
UM_LINKONCE UM_COLD uint32_t um_shadow_usual(const struct um_shadow_trial *trial, uint32_t place)
{
    return trial->forced.of[place] < UM_GAPS ? trial->forced.of[place] : um_gap_default(place);
}

/*
 * Chooses gaps. Siblings pause, and share the line, so that no look takes it away. A policy that does
 * not spin has no gap. Where the two do not run at the same time, the usual gaps stay.
 */
UM_LINKONCE UM_COLD struct um_shadow_way um_shadow_tune(struct um_shadow_trial *trial)
{
    struct umbra_shadow *shadow = trial->shadow;
    struct um_shadow_way *way = &trial->way;
    bool polite = shadow->policy.polite;
    uint64_t deadline;

    way->owner = um_shadow_usual(trial, UMBRA_POLL_OWNER);
    way->helper = um_shadow_usual(trial, UMBRA_POLL_SHADOW);
    if (polite && trial->forced.of[UMBRA_POLL_OWNER] >= UM_GAPS)
        way->owner = UMBRA_GAP_PAUSE;
    if (polite && trial->forced.of[UMBRA_POLL_SHADOW] >= UM_GAPS)
        way->helper = UMBRA_GAP_PAUSE;
    if (polite || shadow->policy.spin_cycles == 0)
        return *way;
    um_shadow_follow(shadow, &trial->policy[way->owner], &trial->policy[way->helper]);
    if (!um_shadow_runs_beside(shadow))
        return *way;
    trial->size = um_tune_fit(0, UM_TUNE_SHADOW_BATCH_NS);
    trial->size = um_tune_fit(um_shadow_try(trial, *way), UM_TUNE_SHADOW_BATCH_NS);
    deadline = um_arch_cycles() + um_ns_to_cycles(3 * UM_TUNE_NS);
    way->owner = um_shadow_gap(trial, UMBRA_POLL_OWNER, um_shadow_try_owner, deadline);
    way->helper = um_shadow_gap(trial, UMBRA_POLL_SHADOW, um_shadow_try_helper, deadline);
    return *way;
}

/* Chooses how both sides poll, and settles them. */
UM_LINKONCE UM_COLD void um_shadow_settle_polls(struct umbra_shadow *shadow)
{
    struct um_shadow_trial trial = {.shadow = shadow};
    struct um_shadow_way way;

    for (uint32_t gap = 0; gap < UM_GAPS; gap++) {
        trial.policy[gap] = shadow->policy;
        if (um_gap_name(gap))
            um_wait_set_gap(&trial.policy[gap], gap);
    }
    um_gaps_forced(&trial.forced); /* umbra_wait_policy_init() has refused what is wrong */
    way = um_shadow_tune(&trial);
    shadow->owner_policy = shadow->policy;
    um_wait_set_gap(&shadow->owner_policy, way.owner);
    um_wait_set_gap(&shadow->policy, way.helper); /* the helper does not follow it yet */
    um_shadow_follow(shadow, &shadow->owner_policy, &shadow->policy);
}

/*
 * Starts the helper, with its binding as its first function, and joins that. Both sides park at
 * once until the cost of a wake-up between them is known. Returns 0 or an error, with the helper
 * ended.
 */
UM_LINKONCE UM_COLD int um_shadow_start(struct umbra_shadow *shadow, bool measure)
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
    if (!shadow->bind_error && measure)
        shadow->policy.block_cycles = um_block_cycles(um_shadow_measure(shadow));
    if (!shadow->bind_error)
        um_shadow_settle_polls(shadow);
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
        error = um_shadow_start(shadow, options->wait.mode == UMBRA_WAIT_TWO_PHASE &&
                                            options->wait.block_cycles == 0);
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
        error = umbra_topology_create(NULL, &shadow->owned.topology);
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
