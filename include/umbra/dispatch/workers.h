/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/dispatch.h: how a step is begun and ended, what workers do, making and ending
 * a dispatcher. Private; included by dispatch.h. The model checker reads the functions that queue,
 * steal and answer as they stand (tests/model/queue.cpp). R1 to R4 and V1 to V3 are the steps of
 * the table in dispatch/protocol.h.
 */
#ifndef UMBRA_DISPATCH_WORKERS_H
#define UMBRA_DISPATCH_WORKERS_H

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/parts.h>
#include <umbra/base/trace_kinds.h>
#include <umbra/base/why.h>
#include <umbra/core.h>
#include <umbra/core/protocol.h>
#include <umbra/cpu.h>
#include <umbra/dispatch/protocol.h>
#include <umbra/dispatch/queue.h>
#include <umbra/event.h>
#include <umbra/fiber.h>
#include <umbra/os/os.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_TURN_NS 1000000 /* time between two uses of sched_yield: less than a time slice */

struct umbra_worker {
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_item_queue queue;
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event woken; /* its request was answered */
    struct umbra_dispatch *dispatch;                       /* this and what follows is fixed */
    umbra_dispatch_fn *fn;
    void *state;   /* public, as scratch and index */
    void *scratch; /* see umbra_dispatch_fn */
    struct umbra_fiber fiber;
    unsigned index;
    int node;

    /* the worker's own */
    size_t part;         /* of a range without a grain: indices for about UM_TAKEN_NS */
    unsigned shares_cpu; /* turns for which it assumes that others want its processor */
    uint64_t since;      /* when its last wait ended; cycles */
    uint64_t idle;       /* how long its core had waited by then; cycles */
    uint64_t turn;       /* when it last gave up its processor, or looked; cycles */
    uint64_t preempted;  /* um_os_preempted() then, or after a long wait since */

    /* stolen, but there was no memory to queue it; the worker's, after the step
     * umbra_dispatch_left()'s */
    struct um_item left[UM_STEAL_MOST];
    unsigned left_count;

    struct umbra_worker *others[]; /* the other workers, those on its node first; fixed */
};

struct umbra_dispatch {
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_step step;
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u32 next; /* next worker for a value without a node */
    um_atomic_u32 ending;                            /* 1: workers must end */
    um_atomic_u32 phase;  /* UM_STEP_, of the user's step; the callers of begin and end */
    pthread_mutex_t lock; /* for running */
    bool running;         /* a step is under way */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event over; /* the step, or the last of several */
    umbra_step_fn *begin_step;                            /* begins the next step, or NULL */
    void *step_arg;
    size_t step_number;            /* its number */
    struct umbra_runtime *runtime; /* this and what follows is fixed */
    unsigned workers;
    size_t scratch_bytes;
    uint64_t part_cycles;  /* UM_TAKEN_NS */
    uint64_t turn_cycles;  /* UM_TURN_NS */
    uint64_t yield_cycles; /* UM_YIELD_NS */
    void *arg;
    struct umbra_worker *worker[]; /* each on its core's node */
};

UM_INLINE struct umbra_worker *um_dispatch_worker(const struct umbra_dispatch *dispatch, unsigned i)
{
    return dispatch->worker[i];
}

#ifdef UMBRA_IMPLEMENTATION

/* Time of what is taken at once: a hundred times of a line's way on any processor. */
#define UM_TAKEN_NS 20000

/* In a longer sched_yield or wait another thread had the processor: one in which none had it takes
 * 0.3 to 1 us. */
#define UM_YIELD_NS 20000
#define UM_SHARED_TURNS 100 /* after so many turns without loss no thread wants it */

/* ---- the step ---- */

/* True if nothing is queued: R2, and for the decision that a step is over. */
UM_LINKONCE bool um_dispatch_empty(void *context)
{
    struct umbra_dispatch *dispatch = context;

    for (unsigned i = 0; i < dispatch->workers; i++)
        if (um_atomic_load(&um_dispatch_worker(dispatch, i)->queue.some, seq_cst)) /* against V1 */
            return false;
    return true;
}

/* Opens the source that begins a step. */
UM_LINKONCE void um_dispatch_open_step(struct umbra_dispatch *dispatch)
{
    um_step_enter(&dispatch->step);
    pthread_mutex_lock(&dispatch->lock);
    dispatch->running = true;
    um_trace_say(UM_TRACE_STEP, (uintptr_t)dispatch, dispatch->step_number);
    pthread_mutex_unlock(&dispatch->lock);
}

/*
 * A step is over, and there may be a next one: begins it, as a source. If a step is stopped from
 * now on it stays stopped: umbra_dispatch_cancel() ends all steps.
 */
UM_LINKONCE void um_dispatch_next_step(struct umbra_dispatch *dispatch)
{
    int more;

    um_dispatch_open_step(dispatch);
    more = dispatch->begin_step(dispatch, dispatch->step_number++, dispatch->step_arg);
    if (more <= 0)
        dispatch->begin_step = NULL;
    if (more < 0)
        um_step_stop(&dispatch->step, more);
}

/* A source is complete that need not outlive the step. True if it was the last: it then has the
 * lock and must decide (um_dispatch_judge_locked()). If false the dispatcher may be freed already;
 * it is not freed before the last source has released the lock. */
UM_LINKONCE bool um_dispatch_leave_last(struct umbra_dispatch *dispatch)
{
    if (um_quiet_leave_others(&dispatch->step.activity))
        return false;
    pthread_mutex_lock(&dispatch->lock);
    if (um_step_leave(&dispatch->step))
        return true;
    pthread_mutex_unlock(&dispatch->lock);
    return false;
}

/* Under the lock, which it releases: ends the step if it is over, and begins the next if there is
 * one. worker: the caller, after its request; or NULL. True if a step was begun: then the worker's
 * request, which values that it queued itself would have answered, is taken back. */
UM_LINKONCE bool um_dispatch_judge_locked(struct umbra_dispatch *dispatch,
                                          struct umbra_worker *worker)
{
    bool begun = false;

    while (dispatch->running && um_step_over(&dispatch->step, um_dispatch_empty, dispatch)) {
        dispatch->running = false;
        um_trace_say(UM_TRACE_STEP_OVER, (uintptr_t)dispatch, 0);
        if (!dispatch->begin_step || um_step_stopped(&dispatch->step)) {
            umbra_event_signal(&dispatch->over);
            break;
        }
        pthread_mutex_unlock(&dispatch->lock); /* no other caller ends a step that is not running */
        if (worker)
            um_step_unask(&dispatch->step, worker->index);
        begun = true;
        um_dispatch_next_step(dispatch);
        if (!um_dispatch_leave_last(dispatch))
            return true;
    }
    pthread_mutex_unlock(&dispatch->lock);
    return begun;
}

UM_LINKONCE bool um_dispatch_judge(struct umbra_dispatch *dispatch, struct umbra_worker *worker)
{
    pthread_mutex_lock(&dispatch->lock);
    return um_dispatch_judge_locked(dispatch, worker);
}

/* Wakes the worker with this number, which a taken request named. False: -1, none was taken. */
UM_INLINE bool um_dispatch_wake(struct umbra_dispatch *dispatch, int hungry)
{
    if (hungry >= 0)
        umbra_event_signal(&um_dispatch_worker(dispatch, (unsigned)hungry)->woken);
    return hungry >= 0;
}

/* A value was queued: wakes a worker that has asked. True if there was one. */
UM_INLINE bool um_dispatch_answer(struct umbra_dispatch *dispatch)
{
    return um_dispatch_wake(dispatch, um_step_answer(&dispatch->step, dispatch->workers));
}

/* The same, for so many parts. At most one answer a worker, not as long as a request is found:
 * workers that were too late for a value ask again and again. */
UM_INLINE void um_dispatch_answer_parts(struct umbra_dispatch *dispatch, size_t parts)
{
    for (size_t i = 0; i < parts && i < dispatch->workers && um_dispatch_answer(dispatch); i++)
        ;
}

/* The same, but wakes this worker if it has asked, else another. */
UM_INLINE void um_worker_answer(struct umbra_worker *worker)
{
    struct umbra_dispatch *dispatch = worker->dispatch;

    um_dispatch_wake(dispatch,
                     um_idle_pick_rather(dispatch->step.asking, dispatch->workers, worker->index));
}

UM_LINKONCE int um_worker_add(struct umbra_worker *worker, const struct um_item *item)
{
    int error = um_item_queue_add(&worker->queue, item);

    if (error == 0)
        um_worker_answer(worker);
    return um_why_none(error);
}

/* ---- workers ---- */

/* Stolen items that cannot be queued: stops the step; umbra_dispatch_left() gives them out after
 * it. */
UM_LINKONCE UM_COLD bool um_worker_put_aside(struct umbra_worker *worker,
                                             const struct um_item *items, unsigned count, int error)
{
    for (unsigned i = 0; i < count; i++)
        worker->left[worker->left_count++] = items[i];
    um_step_stop(&worker->dispatch->step, error);
    return false;
}

/*
 * Takes an item from another worker's queue, or a part of it; stolen items that are left go to the
 * worker's own queue. What it takes itself must not go there: a thief woken for it could steal it
 * again, and so on without end where woken threads run at once, and no worker would process it.
 * True if there was an item.
 */
UM_LINKONCE bool um_worker_steal(struct umbra_worker *worker, struct um_taken *taken)
{
    struct umbra_dispatch *dispatch = worker->dispatch;
    struct um_item items[UM_STEAL_MOST], newest;
    unsigned count = 0;
    int error = 0;

    for (unsigned i = 0; i + 1 < dispatch->workers && count == 0; i++)
        if (um_atomic_load(&worker->others[i]->queue.some, relaxed)) /* the lock acquires */
            count = um_item_queue_steal(&worker->others[i]->queue, items);
    if (count == 0)
        return false;
    for (unsigned i = 0; i + 1 < count; i++) {
        error = um_worker_add(worker, &items[i]);
        if (error != 0)
            return um_worker_put_aside(worker, &items[i], count - i, error);
    }
    newest = items[count - 1];
    if (!um_item_take(&newest, worker->part, taken))
        error = um_worker_add(worker, &newest);
    else if (count == 1 && !um_dispatch_empty(dispatch))
        um_dispatch_answer(dispatch); /* a range was queued for one request, and has more parts */
    return error == 0 || um_worker_put_aside(worker, &items[count - 1], 1, error);
}

UM_INLINE bool um_worker_next(struct umbra_worker *worker, struct um_taken *taken)
{
    if (um_step_stopped(&worker->dispatch->step))
        return false;
    return um_item_queue_take(&worker->queue, worker->part, taken) ||
           um_worker_steal(worker, taken);
}

UM_INLINE int um_worker_process(struct umbra_worker *worker, const struct um_taken *taken)
{
    struct umbra_dispatch *dispatch = worker->dispatch;
    uint64_t begun;
    int error;

    if (!taken->as_liked)
        return worker->fn(worker, taken->value, dispatch->arg);
    begun = um_cycles();
    error = worker->fn(worker, taken->value, dispatch->arg);
    worker->part = um_part_after(worker->part, um_cycles() - begun, dispatch->part_cycles);
    return error;
}

/* ---- processors that other threads want, too ----
 *
 * A worker that loses its processor while it processes a value delays the end of the step by a time
 * slice. After such a loss it gives up the processor by itself: before its slice ends, and between
 * two values.
 */

/* At the end of its work: records a loss of its processor since the last look. */
UM_LINKONCE void um_worker_look_at_cpu(struct umbra_worker *worker, uint64_t now)
{
    uint64_t preempted;

    if (now - worker->turn < worker->dispatch->turn_cycles)
        return;
    preempted = um_os_preempted();
    if (preempted != worker->preempted)
        worker->shares_cpu = UM_SHARED_TURNS;
    worker->preempted = preempted;
    worker->turn = now;
}

/* Gives the processor to other threads. The worker is not active meanwhile; all others may take
 * what is in its queue. */
UM_LINKONCE UM_COLD void um_worker_yield(struct umbra_worker *worker)
{
    struct umbra_dispatch *dispatch = worker->dispatch;
    uint64_t begun;

    if (um_step_leave(&dispatch->step))
        um_dispatch_judge(dispatch, NULL);
    begun = um_cycles(); /* without the next step that it may have begun */
    sched_yield();
    um_step_enter(&dispatch->step);
    worker->turn = um_cycles();
    worker->shares_cpu =
        worker->turn - begun > dispatch->yield_cycles ? UM_SHARED_TURNS : worker->shares_cpu - 1;
    worker->preempted = um_os_preempted();
}

/* How long the calling worker's core has waited, cycles. */
UM_INLINE uint64_t um_worker_idle(void)
{
    return um_atomic_load(&um_core_self->waiter.count.cycles, relaxed); /* relaxed: its own */
}

UM_SHARED(const struct um_kind um_kind_work, {"work of dispatcher", NULL});

/*
 * Waits for the answer. The core stays awake for as long as it was busy since the last wait, a turn
 * at most: the step may soon be over, and the next one begin. Not where other threads want the
 * processor.
 */
UM_LINKONCE void um_worker_wait(struct umbra_worker *worker)
{
    struct umbra_dispatch *dispatch = worker->dispatch;
    uint64_t begun = um_cycles();
    uint64_t worked = begun - worker->since - (um_worker_idle() - worker->idle);

    um_worker_look_at_cpu(worker, begun);
    if (worker->shares_cpu == 0)
        um_waiter_stay_awake(&um_core_self->waiter, begun,
                             um_min_u64(worked, dispatch->turn_cycles));
    um_event_wait_firm(&worker->woken, NULL, NULL, &um_kind_work, dispatch,
                       (const void *)(uintptr_t)worker->fn);
    worker->since = um_cycles();
    worker->idle = um_worker_idle();
    if (worker->since - begun > dispatch->yield_cycles)
        worker->preempted = um_os_preempted(); /* threads that ran meanwhile took nothing */
}

/* Leaves a request, and waits until it is answered, unless a value is there after all. */
UM_LINKONCE void um_worker_ask(struct umbra_worker *worker)
{
    struct umbra_dispatch *dispatch = worker->dispatch;

    if (!um_step_ask(&dispatch->step, worker->index, um_dispatch_empty, dispatch)) {
        if (!um_step_unask(&dispatch->step, worker->index))
            um_dispatch_answer(dispatch); /* R4 */
        return;
    }
    if (!um_step_leave(&dispatch->step) || !um_dispatch_judge(dispatch, worker))
        um_worker_wait(worker);
    um_step_enter(&dispatch->step);
    um_step_unask(&dispatch->step, worker->index);
}

UM_LINKONCE void *um_worker_main(void *arg)
{
    struct umbra_worker *worker = arg;
    struct umbra_dispatch *dispatch = worker->dispatch;
    size_t bytes = um_place_round(dispatch->scratch_bytes, UMBRA_CACHE_LINE);
    struct um_taken taken;

    worker->preempted = um_os_preempted();
    worker->turn = worker->since = um_cycles();
    worker->idle = um_worker_idle();
    if (bytes > 0) {
        worker->scratch = um_place_alloc(dispatch->runtime->topology, worker->node, bytes);
        if (worker->scratch)
            memset(worker->scratch, 0, bytes); /* on one node: the first touch is the worker's */
        else
            um_step_stop(&dispatch->step, -ENOMEM);
    }
    while (!um_atomic_load(&dispatch->ending, acquire)) { /* pairs with um_dispatch_end_workers() */
        while (um_worker_next(worker, &taken)) {
            int error = um_worker_process(worker, &taken);

            if (UM_UNLIKELY(error != 0))
                um_step_stop(&dispatch->step, error);
            if (UM_UNLIKELY(worker->shares_cpu > 0) &&
                um_cycles() - worker->turn > dispatch->turn_cycles)
                um_worker_yield(worker);
            umbra_yield();
        }
        um_worker_ask(worker);
    }
    um_place_free(dispatch->runtime->topology, worker->scratch, bytes);
    return NULL;
}

/* ---- making and ending ---- */

/* Orders the others: those on the same node first, and each worker begins after itself. */
UM_LINKONCE UM_COLD void um_worker_order(struct umbra_worker *worker)
{
    struct umbra_dispatch *dispatch = worker->dispatch;
    unsigned count = 0;

    for (int near = 1; near >= 0; near--) {
        for (unsigned i = 1; i < dispatch->workers; i++) {
            struct umbra_worker *other =
                um_dispatch_worker(dispatch, (worker->index + i) % dispatch->workers);

            if ((other->node == worker->node) == (near == 1))
                worker->others[count++] = other;
        }
    }
}

UM_LINKONCE UM_COLD size_t um_worker_bytes(const struct umbra_dispatch *dispatch)
{
    return sizeof(struct umbra_worker) + dispatch->workers * sizeof(struct umbra_worker *);
}

UM_LINKONCE UM_COLD void um_dispatch_free(struct umbra_dispatch *dispatch)
{
    for (unsigned i = 0; i < dispatch->workers; i++) {
        struct umbra_worker *worker = um_dispatch_worker(dispatch, i);

        if (worker && worker->queue.items)
            um_item_queue_free_items(&worker->queue);
        um_place_free(dispatch->runtime->topology, worker, um_worker_bytes(dispatch));
    }
    pthread_mutex_destroy(&dispatch->lock);
    free(dispatch);
}

/* Makes worker number `index`, but for the order of the others. False: no memory. */
UM_LINKONCE UM_COLD bool um_worker_make(struct umbra_dispatch *dispatch, unsigned index,
                                        const struct umbra_dispatch_options *options)
{
    struct umbra_runtime *runtime = dispatch->runtime;
    int node = um_place_node(runtime->topology, runtime->core[index % runtime->cores]->cpu);
    struct umbra_worker *worker =
        um_place_alloc(runtime->topology, node, um_worker_bytes(dispatch));

    dispatch->worker[index] = worker;
    if (!worker)
        return false;
    memset(worker, 0, um_worker_bytes(dispatch));
    worker->dispatch = dispatch;
    worker->index = index;
    worker->part = 1;
    worker->node = node;
    worker->queue.node = node;
    worker->queue.topology = runtime->topology;
    worker->fn = options->fns ? options->fns[index] : options->fn;
    worker->state = options->states ? options->states[index] : NULL;
    return true;
}

/* Makes all memory but the workers' scratch buffers. 0, or -ENOMEM. */
UM_LINKONCE UM_COLD int um_dispatch_make(struct umbra_runtime *runtime,
                                         const struct umbra_dispatch_options *options,
                                         unsigned workers, struct umbra_dispatch **result)
{
    size_t bytes = um_place_round(
        sizeof(struct umbra_dispatch) + workers * sizeof(struct umbra_worker *), UMBRA_CACHE_LINE);
    struct umbra_dispatch *dispatch = aligned_alloc(UMBRA_CACHE_LINE, bytes);
    bool ok = true;

    if (!dispatch)
        return um_why_none(-ENOMEM);
    memset(dispatch, 0, bytes);
    pthread_mutex_init(&dispatch->lock, NULL);
    dispatch->runtime = runtime;
    dispatch->workers = workers;
    dispatch->scratch_bytes = options->scratch_bytes;
    dispatch->part_cycles = um_ns_to_cycles(UM_TAKEN_NS);
    dispatch->turn_cycles = um_ns_to_cycles(UM_TURN_NS);
    dispatch->yield_cycles = um_ns_to_cycles(UM_YIELD_NS);
    dispatch->arg = options->arg;
    for (unsigned i = 0; i < workers; i++)
        ok = um_worker_make(dispatch, i, options) && ok;
    if (!ok) {
        um_dispatch_free(dispatch);
        return um_why_none(-ENOMEM);
    }
    for (unsigned i = 0; i < workers; i++)
        um_worker_order(um_dispatch_worker(dispatch, i));
    *result = dispatch;
    return 0;
}

/* at: for reports */
UM_LINKONCE UM_COLD void um_dispatch_end_workers(struct umbra_dispatch *dispatch, unsigned workers,
                                                 const void *at)
{
    um_atomic_store(&dispatch->ending, 1, release); /* pairs with um_worker_main() */
    for (unsigned i = 0; i < workers; i++)
        umbra_event_signal(&um_dispatch_worker(dispatch, i)->woken);
    umbra_shield(true);
    for (unsigned i = 0; i < workers; i++) {
        struct um_join join = {
            .fiber = um_dispatch_worker(dispatch, i)->fiber, .deadline = UMBRA_NEVER, .at = at};

        um_join_slow(&join);
    }
    umbra_shield(false);
}

UM_SHARED(const struct um_kind um_kind_step, {"step of dispatcher", NULL});

/* Waits for the end of the step, also in a canceled fiber, since -ECANCELED is a result of the
 * step. */
UM_LINKONCE int um_dispatch_wait_over(struct umbra_dispatch *dispatch, uint64_t deadline,
                                      const void *at)
{
    struct um_await await = {.event = &dispatch->over.event,
                             .deadline = deadline,
                             .kind = &um_kind_step,
                             .on = dispatch,
                             .at = at};
    int error;

    umbra_shield(true);
    error = um_await_run(&await);
    umbra_shield(false);
    return error;
}

/* The caller is complete, if it was not before. 0, or -EINVAL: there is no step. */
UM_LINKONCE int um_dispatch_close_step(struct umbra_dispatch *dispatch)
{
    uint32_t phase = UM_STEP_OPEN;

    /* relaxed: only the callers of begin and end use it, one after the other */
    if (!um_atomic_cas(&dispatch->phase, &phase, UM_STEP_CLOSED, relaxed, relaxed))
        return phase == UM_STEP_CLOSED ? 0 : um_why(-EINVAL, "no step has begun");
    if (um_step_leave(&dispatch->step))
        um_dispatch_judge(dispatch, NULL);
    return 0;
}

/* at: for reports */
UM_LINKONCE int um_dispatch_end_step(struct umbra_dispatch *dispatch, uint64_t deadline,
                                     const void *at)
{
    int error = um_may_wait();

    if (error == 0)
        error = um_dispatch_close_step(dispatch);
    if (error == 0)
        error = um_dispatch_wait_over(dispatch, deadline, at);
    if (error != 0)
        return error;
    pthread_mutex_lock(&dispatch->lock); /* the caller that ended the step has released it */
    pthread_mutex_unlock(&dispatch->lock);
    /* relaxed: ordered by the end of the step */
    error = (int)um_atomic_load(&dispatch->step.stopped, relaxed);
    /* release: this read comes before the next step; pairs with umbra_dispatch_begin() */
    um_atomic_store(&dispatch->phase, UM_STEP_NONE, release);
    return um_why_none(error);
}

/* 0, or the error of bad options, which are for so many workers. */
UM_LINKONCE UM_COLD int um_dispatch_check(const struct umbra_dispatch_options *options,
                                          unsigned workers)
{
    bool functions = options->fns || options->fn;

    if (workers > UM_STEP_WORKERS)
        return um_why(-EINVAL, "workers = %u: the most is %d", workers, UM_STEP_WORKERS);
    for (unsigned i = 0; options->fns && i < workers; i++)
        functions = functions && options->fns[i];
    if (!functions)
        return um_why(-EINVAL, "fn, fns: a worker has no function");
    if (options->scratch_bytes > SIZE_MAX - UMBRA_CACHE_LINE) /* it would be rounded up to 0 */
        return um_why_none(-ENOMEM);
    return 0;
}

/*
 * Spawns the workers, each as a source of the step that is open; *begun becomes the number of
 * spawned ones. 0, or an error of umbra_spawn_with.
 */
UM_LINKONCE UM_COLD int um_dispatch_spawn_workers(struct umbra_dispatch *dispatch, unsigned *begun)
{
    struct umbra_runtime *runtime = dispatch->runtime;

    for (*begun = 0; *begun < dispatch->workers; ++*begun) {
        struct umbra_spawn_options there = {
            .where = UMBRA_ON_CORE, .core = *begun % runtime->cores, .name = "worker"};
        struct umbra_worker *worker = um_dispatch_worker(dispatch, *begun);
        int error;

        um_step_enter(&dispatch->step);
        error = umbra_spawn_with(runtime, &there, um_worker_main, worker, &worker->fiber);
        if (error != 0) {
            um_step_leave(&dispatch->step); /* not the last: the caller is still a source */
            return error;
        }
    }
    return 0;
}

/*
 * Starts the workers in a step of their own, in which they only ask, and waits for its end. After
 * an error no worker is left. at: for reports
 */
UM_LINKONCE UM_COLD int um_dispatch_start_workers(struct umbra_dispatch *dispatch, const void *at)
{
    unsigned begun;
    int error;

    umbra_dispatch_begin(dispatch);
    error = um_dispatch_spawn_workers(dispatch, &begun);
    if (error == 0)
        error = um_dispatch_end_step(dispatch, UMBRA_NEVER, at);
    if (error != 0)
        um_dispatch_end_workers(dispatch, begun, at);
    return error;
}

UM_LINKONCE UM_NOINLINE int umbra_dispatch_create(struct umbra_runtime *runtime,
                                                  const struct umbra_dispatch_options *options,
                                                  struct umbra_dispatch **result)
{
    struct umbra_dispatch *dispatch;
    unsigned workers = options->workers;
    int error;

    if (!runtime)
        runtime = umbra_runtime_self();
    if (!runtime)
        return um_why(-EPERM, "the caller is no fiber, and names no runtime");
    if (workers == 0)
        workers = runtime->cores;
    error = um_dispatch_check(options, workers);
    if (error == 0)
        error = um_may_wait(); /* after 0 the waits below do not fail */
    if (error == 0)
        error = um_dispatch_make(runtime, options, workers, &dispatch);
    if (error != 0)
        return error;
    error = um_dispatch_start_workers(dispatch, __builtin_return_address(0));
    if (error != 0) {
        um_dispatch_free(dispatch);
        return error == -ENOMEM ? um_why_none(error) : error; /* the joins may have switched */
    }
    *result = dispatch;
    return 0;
}

UM_LINKONCE UM_NOINLINE int umbra_dispatch_destroy(struct umbra_dispatch *dispatch)
{
    int error = dispatch ? um_may_wait() : 0; /* workers use its memory until they are joined */

    if (!dispatch || error != 0)
        return error;
    if (um_atomic_load(&dispatch->phase, acquire) != UM_STEP_NONE) /* as in begin */
        return um_why(-EBUSY, "a step has begun that was not ended");
    um_dispatch_end_workers(dispatch, dispatch->workers, __builtin_return_address(0));
    um_dispatch_free(dispatch);
    return 0;
}

/* ---- steps ---- */

UM_LINKONCE int umbra_dispatch_begin(struct umbra_dispatch *dispatch)
{
    uint32_t phase = UM_STEP_NONE;

    /* acquire: the step before; pairs with um_dispatch_end_step() */
    if (!um_atomic_cas(&dispatch->phase, &phase, UM_STEP_OPEN, acquire, relaxed))
        return um_why(-EBUSY, "a step has begun that was not ended");
    for (unsigned i = 0; i < dispatch->workers; i++) {
        struct um_item_queue *queue = &um_dispatch_worker(dispatch, i)->queue;

        um_item_queue_lock(queue);
        queue->first = queue->end;
        um_item_queue_settle(queue);
        um_item_queue_unlock(queue);
        um_dispatch_worker(dispatch, i)->left_count = 0;
    }
    /* seq_cst: a late worker that asks must not see the old stop and wait, after the queueing of
     * the next value has looked at the requests */
    um_atomic_store(&dispatch->step.stopped, 0, seq_cst);
    dispatch->begin_step = NULL;
    um_dispatch_open_step(dispatch);
    return 0;
}

UM_LINKONCE UM_NOINLINE int umbra_dispatch_end(struct umbra_dispatch *dispatch, uint64_t deadline)
{
    return um_dispatch_end_step(dispatch, um_deadline_cycles(deadline),
                                __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_dispatch_steps(struct umbra_dispatch *dispatch, umbra_step_fn *fn,
                                                 void *arg)
{
    int error = fn ? um_may_wait() : um_why(-EINVAL, "there is no function");

    if (error != 0)
        return error;
    error = umbra_dispatch_begin(dispatch); /* empty: the caller that ends it begins step 0 */
    if (error != 0)
        return error;
    dispatch->begin_step = fn;
    dispatch->step_arg = arg;
    dispatch->step_number = 0;
    return um_dispatch_end_step(dispatch, UMBRA_NEVER, __builtin_return_address(0));
}

UM_LINKONCE void umbra_source_open(struct umbra_dispatch *dispatch)
{
    um_runtime_enter(dispatch->runtime);
    um_quiet_hold(&dispatch->step.activity, &dispatch->step.sources);
}

UM_LINKONCE void umbra_source_close(struct umbra_dispatch *dispatch)
{
    struct umbra_runtime *runtime = dispatch->runtime;

    if (!um_quiet_let_go(&dispatch->step.sources)) {
        if (UMBRA_ASSERT)
            um_misused("dispatcher", dispatch, " has no open source, and one is closed",
                       __builtin_return_address(0));
        return;
    }
    if (um_dispatch_leave_last(dispatch))
        um_dispatch_judge_locked(dispatch, NULL);
    um_runtime_leave(runtime);
}

/* The next worker in turn, on the node if it has any. */
UM_INLINE struct umbra_worker *um_dispatch_next(struct umbra_dispatch *dispatch, int node)
{
    /* relaxed: any worker will do */
    unsigned first = um_atomic_fetch_add(&dispatch->next, 1, relaxed) % dispatch->workers;

    for (unsigned i = 0; i < dispatch->workers && node != UMBRA_ANY_NODE; i++) {
        struct umbra_worker *worker = um_dispatch_worker(dispatch, (first + i) % dispatch->workers);

        if (worker->node == node)
            return worker;
    }
    return um_dispatch_worker(dispatch, first);
}

UM_LINKONCE int umbra_dispatch_put(struct umbra_dispatch *dispatch, void *pointer, int node)
{
    struct um_item item = {.pointer = pointer};

    return pointer ? um_worker_add(um_dispatch_next(dispatch, node), &item)
                   : um_why(-EINVAL, "there is no pointer");
}

UM_LINKONCE int umbra_dispatch_range(struct umbra_dispatch *dispatch, size_t begin, size_t end,
                                     size_t grain)
{
    size_t unit = grain ? grain : 1;
    size_t parts = um_parts(begin, end, grain);
    int error = 0;

    for (unsigned i = 0; begin < end && error == 0; i++) {
        size_t share = parts / dispatch->workers + (i < parts % dispatch->workers);
        struct um_item item = {.begin = begin, .end = end, .grain = grain};

        if ((end - begin - 1) / unit >= share) /* it is not the last */
            item.end = begin + share * unit;
        begin = item.end;
        error = um_item_queue_add(&um_dispatch_worker(dispatch, i)->queue, &item);
    }
    um_dispatch_answer_parts(dispatch, parts);
    return um_why_none(error);
}

UM_LINKONCE void umbra_dispatch_cancel(struct umbra_dispatch *dispatch)
{
    um_step_stop(&dispatch->step, -ECANCELED);
}

UM_LINKONCE bool umbra_dispatch_left(struct umbra_dispatch *dispatch, struct umbra_value *value)
{
    struct um_taken taken;

    for (unsigned i = 0; i < dispatch->workers; i++) {
        struct umbra_worker *worker = um_dispatch_worker(dispatch, i);
        bool any = um_item_queue_take(&worker->queue, SIZE_MAX, &taken);

        if (!any && worker->left_count > 0) {
            any = true;
            if (um_item_take(&worker->left[worker->left_count - 1], SIZE_MAX, &taken))
                worker->left_count--;
        }
        if (any) {
            *value = taken.value;
            return true;
        }
    }
    return false;
}

/* The worker with a number of the same dispatcher; UMBRA_ANY_WORKER: the same worker; or NULL. */
UM_INLINE struct umbra_worker *um_worker_near(struct umbra_worker *worker, int near)
{
    struct umbra_dispatch *dispatch = worker->dispatch;

    if (near == UMBRA_ANY_WORKER)
        return worker;
    return near >= 0 && (unsigned)near < dispatch->workers
               ? um_dispatch_worker(dispatch, (unsigned)near)
               : NULL;
}

UM_LINKONCE int umbra_worker_put(struct umbra_worker *worker, void *pointer, int near)
{
    struct umbra_worker *at = um_worker_near(worker, near);
    struct um_item item = {.pointer = pointer};

    if (!at)
        return um_why(-EINVAL, "near = %d: no such worker", near);
    if (!pointer)
        return um_why(-EINVAL, "there is no pointer");
    return um_worker_add(at, &item);
}

UM_LINKONCE int umbra_worker_range(struct umbra_worker *worker, size_t begin, size_t end,
                                   size_t grain, int near)
{
    struct umbra_worker *at = um_worker_near(worker, near);
    struct um_item item = {.begin = begin, .end = end, .grain = grain};
    int error = at ? 0 : um_why(-EINVAL, "near = %d: no such worker", near);

    if (at && begin < end)
        error = um_worker_add(at, &item);
    if (error == 0 && at != worker) /* it takes one part, and leaves the others in its queue */
        um_dispatch_answer_parts(worker->dispatch, um_parts(begin, end, grain) - (begin < end));
    return error;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
