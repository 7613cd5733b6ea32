/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Measures the gaps of a runtime's places (wait/choose_gap.h) when the first runtime of a process
 * starts that has two cores so far apart. Private; included by core.h. A fiber on one core spawns,
 * joins, signals and wakes as programs do; fibers on the other core answer. The thread that creates
 * the runtime waits for that fiber. It holds the runtime meanwhile, so no deadlock is reported.
 *
 *   place    a turn                                      lines that move
 *   spawn    a fiber is spawned on the other core and    the fiber's
 *   join     joined
 *   event    an event each way, looked at in place       one each way
 *   inbox    a fiber each side, which the other wakes    one each way
 *   thread   a word each way, with umbra/wait.h          one each way
 */
#ifndef UMBRA_CORE_MEASURE_GAPS_H
#define UMBRA_CORE_MEASURE_GAPS_H

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/join.h>
#include <umbra/core/spawn.h>
#include <umbra/cpu.h>
#include <umbra/event/protocol.h>
#include <umbra/fiber.h>
#include <umbra/shadow.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* One side of a trial; its words are written by the other side. */
struct um_tune_side {
    UM_ALIGNED(2 * UMBRA_CACHE_LINE) struct um_event event;
    UM_ALIGNED(2 * UMBRA_CACHE_LINE) um_atomic_u32 word;
    UM_ALIGNED(2 * UMBRA_CACHE_LINE) struct umbra_waiter waiter;
    struct um_fiber *fiber;  /* set before the other side uses it, both */
    struct umbra_core *core; /* the fiber's */
};

struct um_tune_trial {
    struct um_tune_side caller, other;
    struct umbra_runtime *runtime;
    unsigned other_core; /* the caller is on core 0 */
    enum umbra_poll_pair pair;
    struct um_gaps forced;
    struct um_tune_size size;
    uint32_t both[2][2];                      /* for um_tune_try_both() */
    uint32_t place;                           /* that is measured */
    struct umbra_wait_policy policy[UM_GAPS]; /* of both waiters, with each gap */
    struct um_polls polls[UM_GAPS];           /* of the place */
    bool done;                                /* under runtime->lock */
};

/* Looks of a trial between two yields, which an interrupted other side may need: 20 to 200 us. */
#define UM_TUNE_LOOKS 4096

UM_LINKONCE UM_COLD void um_tune_enter(struct um_tune_side *side)
{
    side->core = um_core_self;
    side->fiber = um_core_current(side->core);
    side->fiber->node.kind = UM_NODE_WAKE;
}

/* ---- one way of a turn, by place ---- */

UM_LINKONCE UM_COLD void um_tune_send(struct um_tune_trial *trial, struct um_tune_side *to)
{
    struct um_released out = {NULL, NULL};

    if (trial->place == UMBRA_POLL_EVENT)
        um_event_signal(&to->event, &out);
    else
        umbra_signal(&to->word, 1, &to->waiter);
}

/* Looks at an event in place as a fiber does (um_await_look()), which between two looks looks at its
 * core's inbox and at the word once more; but until the event is signaled. */
UM_LINKONCE UM_COLD void um_tune_await_event(struct umbra_core *core, struct um_event *event)
{
    struct um_polls polls = um_polls_load(&core->runtime->polls[UMBRA_POLL_EVENT]);
    uint32_t looks = 0;

    while (!um_event_try(event)) {
        /* relaxed: it makes no difference */
        bool others =
            um_core_attention(core) || (um_atomic_load(&event->word, relaxed) & UM_EVENT_NODE) != 0;

        if (others || ++looks % UM_TUNE_LOOKS == 0)
            sched_yield();
        um_gap_pass(polls.gap, &event->word);
    }
}

UM_LINKONCE UM_COLD void um_tune_receive(struct um_tune_trial *trial, struct um_tune_side *own)
{
    if (trial->place == UMBRA_POLL_EVENT) {
        um_tune_await_event(um_core_self, &own->event);
        return;
    }
    umbra_wait_until_equal(&own->waiter, &own->word, 1, UINT32_MAX, UMBRA_NEVER);
    um_atomic_store(&own->word, 0, relaxed); /* before the side sends, and only then is it set */
}

/* Blocks the calling fiber, wakes the other side's if `first` is false, and leaves. */
UM_LINKONCE UM_COLD void um_tune_swap(struct um_tune_side *own, struct um_tune_side *to, bool first)
{
    um_fiber_block(own->fiber, &um_kind_join, NULL, NULL);
    if (!first)
        um_core_post(to->core, &to->fiber->node);
    um_fiber_leave(own->core, own->fiber);
}

/* ---- the other side ---- */

UM_LINKONCE UM_COLD void *um_tune_answer(void *arg)
{
    struct um_tune_trial *trial = arg;
    struct um_tune_side *own = &trial->other;

    um_tune_enter(own);
    for (int turn = -trial->size.warm; turn < trial->size.turns; turn++) {
        if (trial->place == UMBRA_POLL_INBOX) {
            um_tune_swap(own, &trial->caller, false);
        } else {
            um_tune_receive(trial, own);
            um_tune_send(trial, &trial->caller);
        }
    }
    if (trial->place == UMBRA_POLL_INBOX) /* the caller's last turn waits for it */
        um_core_post(trial->caller.core, &trial->caller.fiber->node);
    return NULL;
}

UM_LINKONCE UM_COLD void *um_tune_nothing(void *arg)
{
    return arg;
}

/* ---- the caller's side ---- */

/* Spawns on the other core. If there is no memory, the measurement fails later, too. */
UM_LINKONCE UM_COLD bool um_tune_spawn(struct um_tune_trial *trial, umbra_fiber_fn *fn,
                                       struct umbra_fiber *fiber)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = trial->other_core};

    return umbra_spawn_with(NULL, &there, fn, trial, fiber) == 0;
}

/* One turn of a spawn and its join. */
UM_LINKONCE UM_COLD bool um_tune_spawn_and_join(struct um_tune_trial *trial)
{
    struct umbra_fiber fiber;

    return um_tune_spawn(trial, um_tune_nothing, &fiber) &&
           umbra_join(fiber, UMBRA_NEVER, NULL) == 0;
}

/* One turn with a fiber that answers. */
UM_LINKONCE UM_COLD bool um_tune_call(struct um_tune_trial *trial)
{
    if (trial->place == UMBRA_POLL_INBOX) {
        um_tune_swap(&trial->caller, &trial->other, false);
    } else {
        um_tune_send(trial, &trial->other);
        um_tune_receive(trial, &trial->caller);
    }
    return true;
}

/* True if the place's turns are spawns. */
UM_INLINE bool um_tune_spawns(const struct um_tune_trial *trial)
{
    return trial->place == UMBRA_POLL_SPAWN || trial->place == UMBRA_POLL_JOIN;
}

/* Time stamps from the first turn that counts to the last; 0: no memory. */
UM_LINKONCE UM_COLD uint64_t um_tune_turns(struct um_tune_trial *trial)
{
    uint64_t start = 0;
    bool done = true;

    for (int turn = -trial->size.warm; turn < trial->size.turns && done; turn++) {
        if (turn == 0)
            start = um_arch_cycles();
        done = um_tune_spawns(trial) ? um_tune_spawn_and_join(trial) : um_tune_call(trial);
    }
    return done ? um_arch_cycles() - start : 0;
}

/* An um_tune_batch. */
UM_LINKONCE UM_COLD uint32_t um_tune_try(void *arg, uint32_t gap)
{
    struct um_tune_trial *trial = arg;
    struct umbra_fiber other;
    uint64_t took;

    um_polls_store(&trial->runtime->polls[trial->place], trial->polls[gap]);
    trial->caller.waiter.policy = &trial->policy[gap]; /* neither side waits now */
    trial->other.waiter.policy = &trial->policy[gap];
    if (um_tune_spawns(trial)) {
        took = um_tune_turns(trial);
    } else {
        if (!um_tune_spawn(trial, um_tune_answer, &other))
            return 0;
        if (trial->place == UMBRA_POLL_INBOX) /* it blocks, and wakes this fiber */
            um_tune_swap(&trial->caller, &trial->other, true);
        took = um_tune_turns(trial);
        umbra_join(other, UMBRA_NEVER, NULL);
    }
    return took == 0 ? 0 : um_tune_took(took, trial->size);
}

/* ---- the measurement ---- */

#define UM_TUNE_PROBES 3        /* so that one or two interruptions do not count */
#define UM_TUNE_PROBE_NS 200000 /* a turn of the system's scheduler takes longer */

/* True if the two cores run at the same time. */
UM_LINKONCE UM_COLD bool um_tune_runs_beside(struct um_tune_trial *trial)
{
    for (int probe = 0; probe < UM_TUNE_PROBES; probe++) {
        uint64_t start = um_os_now_ns();

        if (um_tune_spawn_and_join(trial) && um_os_now_ns() - start <= UM_TUNE_PROBE_NS)
            return true;
    }
    return false;
}

/* True if the place's gap is neither forced nor known. */
UM_LINKONCE UM_COLD bool um_tune_place_is_due(const struct um_tune_trial *trial, uint32_t place)
{
    return trial->forced.of[place] >= UM_GAPS && um_tuned_gap(trial->pair, place) >= UM_GAPS;
}

/* Measures a place, and changes how the runtime polls there. Returns the gap. */
UM_LINKONCE UM_COLD uint32_t um_tune_measure(struct um_tune_trial *trial, uint32_t place,
                                             struct um_figures *figures)
{
    uint32_t usual = um_gap_default(place);
    /* several threads may wait on one word, and would take its line from each other */
    uint32_t candidates = place == UMBRA_POLL_THREAD ? UM_TUNE_READ : UM_TUNE_ALL;
    uint32_t gap;

    trial->place = place;
    trial->size = um_tune_fit(0, UM_TUNE_BATCH_NS);
    trial->size = um_tune_fit(um_tune_try(trial, usual), UM_TUNE_BATCH_NS);
    gap = um_tune(um_tune_try, trial, candidates, usual,
                  um_arch_cycles() + um_ns_to_cycles(UM_TUNE_NS), figures);
    um_polls_store(&trial->runtime->polls[place], trial->polls[gap]);
    return gap;
}

UM_LINKONCE UM_COLD void um_tune_place(struct um_tune_trial *trial, uint32_t place)
{
    struct um_figures figures;
    uint32_t gap;

    if (!um_tune_place_is_due(trial, place))
        return;
    gap = um_tune_measure(trial, place, &figures);
    um_tuned_keep(trial->pair, place, gap, &figures);
}

/* An um_tune_batch: 0 polls with the usual gaps in spawns and joins, 1 with those chosen. */
UM_LINKONCE UM_COLD uint32_t um_tune_try_both(void *arg, uint32_t way)
{
    struct um_tune_trial *trial = arg;
    uint64_t took;

    for (uint32_t i = 0; i < 2; i++)
        um_polls_store(&trial->runtime->polls[i == 0 ? UMBRA_POLL_SPAWN : UMBRA_POLL_JOIN],
                       trial->polls[trial->both[way][i]]);
    took = um_tune_turns(trial);
    return took == 0 ? 0 : um_tune_took(took, trial->size);
}

/*
 * Spawn and join are two sides of one hand-over, and the gap of one changes which is best for the
 * other. So the two that were chosen one after the other are measured once more against the usual
 * two.
 */
UM_LINKONCE UM_COLD void um_tune_spawn_and_join_places(struct um_tune_trial *trial)
{
    static const uint32_t places[2] = {UMBRA_POLL_SPAWN, UMBRA_POLL_JOIN};
    struct um_figures figures[2], both;
    uint32_t way;

    if (!um_tune_place_is_due(trial, places[0]) || !um_tune_place_is_due(trial, places[1])) {
        um_tune_place(trial, places[0]);
        um_tune_place(trial, places[1]);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        trial->both[0][i] = um_gap_default(places[i]);
        trial->both[1][i] = um_tune_measure(trial, places[i], &figures[i]);
    }
    way = um_tune(um_tune_try_both, trial, 3, 0, um_arch_cycles() + um_ns_to_cycles(UM_TUNE_NS),
                  &both);
    um_tune_try_both(trial, way);
    for (uint32_t i = 0; i < 2 && both.of[0] != 0; i++) /* else the machine was too busy */
        um_tuned_keep(trial->pair, places[i], trial->both[way][i], &figures[i]);
}

/* The fiber that measures. */
UM_LINKONCE UM_COLD void *um_tune_main(void *arg)
{
    struct um_tune_trial *trial = arg;
    struct umbra_runtime *runtime = trial->runtime;

    um_tune_enter(&trial->caller);
    if (um_tune_runs_beside(trial)) {
        um_tune_spawn_and_join_places(trial);
        um_tune_place(trial, UMBRA_POLL_EVENT);
        um_tune_place(trial, UMBRA_POLL_INBOX);
        um_tune_place(trial, UMBRA_POLL_THREAD);
    }
    pthread_mutex_lock(&runtime->lock);
    trial->done = true;
    pthread_cond_broadcast(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
    return NULL;
}

/* True if a place that is not forced is not known yet. */
UM_LINKONCE UM_COLD bool um_tune_is_due(const struct um_tune_trial *trial)
{
    for (uint32_t place = UMBRA_POLL_EVENT; place < UMBRA_POLL_PLACES; place++)
        if (um_tune_place_is_due(trial, place))
            return true;
    return false;
}

/* The two cores that are farthest apart, of core 0 and another. PAIR_CORE if any two neighbours in
 * the order of cores are siblings, or the same processor. */
UM_LINKONCE UM_COLD enum umbra_poll_pair um_tune_find(const struct umbra_runtime *runtime,
                                                      unsigned *other)
{
    enum umbra_poll_pair widest = UMBRA_PAIR_CORE;

    for (unsigned i = 1; i < runtime->cores; i++) {
        int cpu = runtime->core[i]->cpu;
        enum umbra_poll_pair pair =
            um_poll_pair(umbra_topology_shared(runtime->topology, runtime->core[0]->cpu, cpu));

        if (pair == UMBRA_PAIR_CORE ||
            umbra_topology_shared(runtime->topology, runtime->core[i - 1]->cpu, cpu) ==
                UMBRA_SHARED_CORE)
            return UMBRA_PAIR_CORE;
        if (pair > widest) {
            widest = pair;
            *other = i;
        }
    }
    return widest;
}

/* How the runtime polls as far as that is forced, or known; siblings pause, and all cores if the
 * options are polite. Before it starts. */
UM_LINKONCE UM_COLD void um_runtime_set_polls(struct umbra_runtime *runtime)
{
    unsigned other = 0;
    enum umbra_poll_pair pair = um_tune_find(runtime, &other);
    struct um_gaps forced;

    um_gaps_forced(&forced); /* umbra_wait_policy_init() has refused what is wrong */
    for (uint32_t place = 0; place < UMBRA_POLL_PLACES; place++) {
        uint32_t gap = um_tuned_gap(pair, place);

        if (forced.of[place] < UM_GAPS)
            gap = forced.of[place];
        else if (runtime->policy.polite || (runtime->cores > 1 && pair == UMBRA_PAIR_CORE))
            gap = UMBRA_GAP_PAUSE;
        else if (gap >= UM_GAPS)
            gap = um_gap_default(place);
        um_polls_store(&runtime->polls[place], um_polls_with(gap));
        if (place == UMBRA_POLL_INBOX)
            um_wait_set_gap(&runtime->policy, gap);
    }
}

/* What each gap means. */
UM_LINKONCE UM_COLD void um_tune_prepare(struct um_tune_trial *trial)
{
    for (uint32_t gap = 0; gap < UM_GAPS; gap++) {
        trial->policy[gap] = trial->runtime->policy;
        if (!um_gap_name(gap))
            continue;
        um_wait_set_gap(&trial->policy[gap], gap);
        trial->polls[gap] = (struct um_polls){
            (uint16_t)gap, (uint16_t)um_wait_batch(trial->policy[gap].poll_cycles)};
    }
    um_waiter_init(&trial->caller.waiter, &trial->policy[0]);
    um_waiter_init(&trial->other.waiter, &trial->policy[0]);
}

/* Measures what is not known yet of two cores so far apart. After the cores have started; blocks for
 * at most 5 ms, interruptions apart: a batch that has begun is finished. */
UM_LINKONCE UM_COLD void um_runtime_tune(struct umbra_runtime *runtime)
{
    struct um_tune_trial *trial;
    struct umbra_spawn_options first = {.where = UMBRA_ON_CORE};
    unsigned other = 0;
    enum umbra_poll_pair pair = um_tune_find(runtime, &other);
    uint32_t none = UMBRA_PAIR_CORE;

    if (pair == UMBRA_PAIR_CORE || runtime->policy.polite || runtime->policy.spin_cycles == 0 ||
        !umbra_topology_info(runtime->topology)->binds)
        return;
    um_atomic_cas(&um_tunings.pair, &none, (uint32_t)pair, relaxed, relaxed); /* only an index */
    trial = aligned_alloc(2 * UMBRA_CACHE_LINE, sizeof(*trial));
    if (!trial)
        return;
    memset(trial, 0, sizeof(*trial));
    trial->runtime = runtime;
    trial->other_core = other;
    trial->pair = pair;
    um_gaps_forced(&trial->forced); /* as above */
    um_tune_prepare(trial);
    if (um_tune_is_due(trial) &&
        umbra_spawn_with(runtime, &first, um_tune_main, trial, NULL) == 0) {
        pthread_mutex_lock(&runtime->lock);
        while (!trial->done)
            pthread_cond_wait(&runtime->changed, &runtime->lock);
        pthread_mutex_unlock(&runtime->lock);
        /* acquire: pairs with um_core_count(). The fiber has ended, so that no report shows it */
        for (unsigned looks = 0; um_atomic_load(&runtime->core[0]->live, acquire) > 0; looks++)
            um_thread_look_again(looks, UMBRA_NEVER);
    }
    free(trial);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
