/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A dispatcher: persistent workers that pull work when they are hungry, step by step (after the
 * H-Dispatch of Holmes, Williams and Tilke, 2010). A hungry worker has nothing to process and asks for
 * it. A step is the work between a begin and its end, which waits until all of it is done.
 *
 *     static int heat(struct umbra_worker *worker, struct umbra_value value, void *arg)
 *     {
 *         double *line = umbra_worker_scratch(worker);
 *         for (size_t block = value.begin; block < value.end; block++)
 *             ...
 *         return 0;
 *     }
 *
 *     struct umbra_dispatch_options options = {.fn = heat, .scratch_bytes = 1 << 16};
 *
 *     umbra_dispatch_create(NULL, &options, &dispatch);
 *     for (int step = 0; step < steps; step++) {
 *         umbra_dispatch_begin(dispatch);
 *         umbra_dispatch_range(dispatch, 0, blocks, 1);
 *         error = umbra_dispatch_end(dispatch); // or umbra_dispatch_steps() for all of them
 *     }
 *     umbra_dispatch_destroy(dispatch);
 *
 * Each worker is a fiber that lives as long as the dispatcher, with a scratch buffer and a state of
 * its own: memory grows with the workers, not with the tasks. What a worker works on is a value: a
 * pointer, or a part of a range of indices. Values come from sources: who begins the step is one,
 * others may open, and workers may add values while they process one. Each worker has a queue near
 * it; it takes from its own, then from those of workers on its NUMA node, then from all others, half
 * of what is there. So no worker is hungry while another has more than what it is processing.
 *
 * A step ends when all sources are complete, nothing is queued, and every worker has an unanswered
 * request, or rests (below). No tasks are counted (protocol/dispatch.h).
 *
 * The first error that a function returns stops the step: values that others are processing are
 * finished, no more are begun, and umbra_dispatch_end() returns it. What was queued is still there
 * (umbra_dispatch_rest) until the next step begins. Cancelling is the same with -ECANCELED.
 *
 * What was written before a value was put is visible to who processes it; what was written by
 * workers, after the end of the step.
 *
 * A worker that has lost its processor to somebody else rests from then on: once a millisecond, between
 * two values, it gives it up by itself (sched_yield, with all fibers of its core), so that no step
 * waits for one that was preempted while it processed a value; until nobody wants it any more.
 * Any other that waits keeps its core awake for as long as it was busy before, a millisecond at most
 * (but with UMBRA_WAIT_PARK), and lends the processor to threads of its priority or above meanwhile: it is
 * there if the next step begins by then, and need not be woken. If one of them keeps the processor, the
 * core sleeps at once when it waits, for the next tenth of a second.
 *
 * While a dispatcher exists its workers wait for work: destroy it before the runtime is waited for.
 */
#ifndef UMBRA_DISPATCH_H
#define UMBRA_DISPATCH_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/event.h>

struct umbra_dispatch;
struct umbra_worker;

/* What a worker is given: a pointer, or a range. Two words, mostly given in registers. */
struct umbra_value {
    union {
        void *pointer; /* if end is 0 */
        size_t begin;  /* of a range */
    };
    size_t end; /* of a range, more than begin; or 0 */
};

/* The pointer, or NULL: a range. */
UM_INLINE void *umbra_value_pointer(struct umbra_value value);

/* Processes a value; may block, and may add values. Returns 0, or an error that stops the step. */
typedef int umbra_dispatch_fn(struct umbra_worker *worker, struct umbra_value value, void *arg);

struct umbra_dispatch_options {
    umbra_dispatch_fn *fn;         /* of all workers, unless fns is given */
    umbra_dispatch_fn *const *fns; /* one for each worker, or NULL */
    void *arg;                     /* for all of them */
    void *const *states;           /* one for each worker, or NULL; see umbra_worker_state() */
    size_t scratch_bytes;          /* of each worker's buffer; 0: none */
    unsigned workers;              /* 0: one a core; worker i is on core i modulo the cores */
};

#define UMBRA_ANY_NODE (-1)

/*
 * Makes a dispatcher and its workers. runtime NULL: the caller's. A fiber (may switch) or a thread
 * that is no core (blocks). Returns 0, or with nothing left behind -EINVAL (no function, or none for
 * one of them; more than 1024 workers), -ENOMEM, -EPERM (runtime NULL and the caller is no fiber), or
 * an error of umbra_event_wait.
 */
UM_LINKONCE int umbra_dispatch_create(struct umbra_runtime *runtime,
                                      const struct umbra_dispatch_options *options,
                                      struct umbra_dispatch **dispatch);

/* Ends the workers. Callers as above. NULL is allowed. Returns 0, or with nothing done -EBUSY (a step has
 * begun that was not ended) or an error of umbra_event_wait. */
UM_LINKONCE int umbra_dispatch_destroy(struct umbra_dispatch *dispatch);

/*
 * Begins a step, with the caller as a source; what is left of the one before is dropped. Any fiber or
 * thread; does not switch or block. Returns 0, or with nothing done -EBUSY: a step has begun that was
 * not ended.
 */
UM_LINKONCE int umbra_dispatch_begin(struct umbra_dispatch *dispatch);

/*
 * The caller of umbra_dispatch_begin() is complete: waits for the end of the step. A fiber (may
 * switch) or a thread that is no core (blocks). Returns 0, the first error of a function, -ECANCELED,
 * -EINVAL (no step has begun), or, with the caller not complete yet, an error of umbra_event_wait.
 */
UM_LINKONCE int umbra_dispatch_end(struct umbra_dispatch *dispatch);

/*
 * The same, waiting until a time stamp made by umbra_deadline(ns) at the latest. Besides: -ETIMEDOUT, or
 * -ENOMEM for the wait. Then the step goes on, to be ended again, and the caller is complete: it queues
 * nothing more. (A function that returns one of these looks the same, so none should;
 * umbra_dispatch_begin would tell: -EBUSY.)
 */
UM_LINKONCE int umbra_dispatch_end_deadline(struct umbra_dispatch *dispatch, uint64_t deadline);

/*
 * Begins step number `step`: queues what is to be done in it, as a source that is open meanwhile. It
 * is called between two steps by whoever ended the one before: a worker, mostly, which processes nothing
 * meanwhile, or whoever closed the last source. It may block. Returns 1, or 0 when this is the last step
 * (which may be empty), or a negative error, which stops it.
 */
typedef int umbra_step_fn(struct umbra_dispatch *dispatch, size_t step, void *arg);

/*
 * Steps 0, 1, 2 ... one after the other, without anybody to wait for between them: the workers own the
 * loop of time, as in the paper (Figure 4b), and none of them, nor the caller, is needed for a step to
 * begin. Waits for the end of the last one. Callers and results as of umbra_dispatch_end, and -EBUSY as
 * of umbra_dispatch_begin; a step that is stopped is the last.
 */
UM_LINKONCE int umbra_dispatch_steps(struct umbra_dispatch *dispatch, umbra_step_fn *fn, void *arg);

/* One more source, that must close. Opened while another is open, or from a function. Holds the
 * runtime (umbra_hold) meanwhile. Anybody; neither switches nor blocks, but that the last to close in
 * one of several steps (umbra_dispatch_steps) may be who begins the next, and then does what that does. */
UM_LINKONCE void umbra_source_open(struct umbra_dispatch *dispatch);
UM_LINKONCE void umbra_source_close(struct umbra_dispatch *dispatch);

/*
 * Queues a pointer, not NULL, near a NUMA node (as in umbra/topology.h), or UMBRA_ANY_NODE. An open
 * source. Never blocks. Returns 0, -EINVAL (NULL), -ENOMEM.
 */
UM_LINKONCE int umbra_dispatch_put(struct umbra_dispatch *dispatch, void *pointer, int node);

/*
 * Queues [begin, end), in parts of `grain` indices; 0: parts that take some microseconds, which
 * each worker finds out as it goes. Each worker is given an equal share, in their order, to begin
 * with. An open source. Never blocks. Returns 0, or -ENOMEM (some of it may be queued).
 */
UM_LINKONCE int umbra_dispatch_range(struct umbra_dispatch *dispatch, size_t begin, size_t end,
                                     size_t grain);

/* Stops the step under way, if any. Anybody; never blocks. */
UM_LINKONCE void umbra_dispatch_cancel(struct umbra_dispatch *dispatch);

/*
 * Between a step that was stopped and the next: takes a value that nobody has begun, of a range a part.
 * Whether there was one; if not, *value is as it was. One caller at a time, anybody; neither switches
 * nor blocks.
 */
UM_LINKONCE bool umbra_dispatch_rest(struct umbra_dispatch *dispatch, struct umbra_value *value);

/* How many workers it has. Anybody; neither switches nor blocks. */
UM_INLINE unsigned umbra_dispatch_workers(const struct umbra_dispatch *dispatch);

/* Inside a function, of the worker it was given: its number, from 0; its buffer, which begins a cache
 * line (NULL: scratch_bytes is 0); its state (NULL: there are no states). Neither switch nor block. */
UM_INLINE unsigned umbra_worker_index(const struct umbra_worker *worker);
UM_INLINE void *umbra_worker_scratch(const struct umbra_worker *worker);
UM_INLINE void *umbra_worker_state(const struct umbra_worker *worker);

/* Inside a function: queues a pointer, not NULL, or a range, for this worker or whoever is hungry.
 * Neither switches nor blocks. Errors as umbra_dispatch_put, umbra_dispatch_range, but that of a range
 * all or nothing is queued. */
UM_LINKONCE int umbra_worker_put(struct umbra_worker *worker, void *pointer);
UM_LINKONCE int umbra_worker_range(struct umbra_worker *worker, size_t begin, size_t end,
                                   size_t grain);

/* The same for a worker by its number, this one or another: for values whose data it may have in its
 * caches. If it is hungry it is woken for them, rather than another, even where a fiber keeps its core from
 * it for a while. Errors as above, and -EINVAL: there is none of that number. */
UM_LINKONCE int umbra_worker_put_for(struct umbra_worker *worker, unsigned index, void *pointer);
UM_LINKONCE int umbra_worker_range_for(struct umbra_worker *worker, unsigned index, size_t begin,
                                       size_t end, size_t grain);

#include <umbra/impl/dispatch.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_INLINE void *umbra_value_pointer(struct umbra_value value)
{
    return value.end == 0 ? value.pointer : NULL;
}

UM_INLINE unsigned umbra_dispatch_workers(const struct umbra_dispatch *dispatch)
{
    return dispatch->workers;
}

UM_INLINE unsigned umbra_worker_index(const struct umbra_worker *worker)
{
    return worker->index;
}

UM_INLINE void *umbra_worker_scratch(const struct umbra_worker *worker)
{
    return worker->scratch;
}

UM_INLINE void *umbra_worker_state(const struct umbra_worker *worker)
{
    return worker->state;
}

#endif
