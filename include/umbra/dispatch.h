/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A dispatcher: persistent workers that pull work when they are hungry, step by step (after the
 * H-Dispatch of Holmes, Williams and Tilke, 2010). A hungry worker has nothing to process and asks
 * for work. A step is the work between a begin and its end; the end waits until all of it is done.
 *
 *     static int heat(struct umbra_worker *worker, struct umbra_value value, void *arg)
 *     {
 *         double *line = worker->scratch;
 *         for (size_t row = value.begin; row < value.end; row++)
 *             ...
 *         return 0;
 *     }
 *
 *     struct umbra_dispatch_options options = {.fn = heat, .scratch_bytes = 1 << 16};
 *
 *     umbra_dispatch_create(NULL, &options, &dispatch);
 *     for (int step = 0; step < steps; step++) {
 *         umbra_dispatch_begin(dispatch);
 *         umbra_dispatch_range(dispatch, 0, rows, 1);
 *         error = umbra_dispatch_end(dispatch, UMBRA_NEVER); // umbra_dispatch_steps(): all steps
 *     }
 *     umbra_dispatch_destroy(dispatch);
 *
 * Each worker is a fiber that lives as long as the dispatcher, with its own scratch buffer and
 * state: memory grows with the workers, not with the tasks. A worker processes values: a value is a
 * pointer, or a part of a range of indices. Values come from sources: the caller that begins the
 * step is one, other callers may open more, and a worker may add values while it processes one.
 * Each worker has a queue near it. It takes from its own queue, then from the queues of workers on
 * its NUMA node, then from all others, half of what is there. So no worker is hungry while another
 * has more than the value that it processes.
 *
 * A step ends when all sources are complete, nothing is queued, and every worker has an unanswered
 * request or has given up its processor (below). No tasks are counted (dispatch/protocol.h).
 *
 * The first error that a function returns stops the step: values in processing are finished, no
 * more are begun, and umbra_dispatch_end() returns the error. Values that were queued stay
 * (umbra_dispatch_left) until the next step begins. Cancelling is the same with -ECANCELED.
 *
 * What was written before a value was put is visible to the worker that processes it; what workers
 * wrote is visible after the end of the step.
 *
 * Shared processors. A worker that has lost its processor to another thread from then on gives it
 * up by itself: once a millisecond, between two values (sched_yield, with all fibers of its core).
 * So no step waits for a worker that was preempted while it processed a value. The worker stops
 * this after 100 times in which no other thread kept the processor. A worker that has not lost its
 * processor keeps its core awake when it waits: for as long as it was busy before, a millisecond at
 * most (not with UMBRA_WAIT_PARK). If the next step begins by then the core need not be woken.
 * Meanwhile the core lends the processor to threads of its priority or above; if such a thread
 * keeps it, then for the next 100 ms the core sleeps at once when it waits.
 *
 * Calls on one dispatcher that may run at once
 *
 *     call                  when, by which caller          beside it
 *     create, destroy       outside a step                 none
 *     begin, end, steps     one caller at a time           all below but left
 *     open, close, put,     in a step, by an open source   all but create, destroy, left
 *     range
 *     worker_put, _range    in a worker's function         all but create, destroy, left
 *     cancel                always                         all but create, destroy
 *     left                  between two steps, one caller  cancel
 *                           at a time
 *
 * Destroy a dispatcher before the runtime is waited for: its workers wait for work, which is a
 * deadlock otherwise.
 */
#ifndef UMBRA_DISPATCH_H
#define UMBRA_DISPATCH_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/event.h>

struct umbra_dispatch;
struct umbra_worker;

/* A value, which a worker processes: a pointer or a range. Two words, mostly passed in
 * registers. */
struct umbra_value {
    union {
        void *pointer; /* if end is 0 */
        size_t begin;  /* of a range */
    };
    size_t end; /* of a range, more than begin; or 0 */
};

/*
 * Processes a value; may block, and may add values. Returns 0, or an error that stops the step. It
 * may read three fields of its worker:
 *
 *   worker->index     unsigned: its number, from 0
 *   worker->scratch   void *: its buffer, which begins a cache line; NULL: scratch_bytes is 0
 *   worker->state     void *: its state; NULL: there are no states
 */
typedef int umbra_dispatch_fn(struct umbra_worker *worker, struct umbra_value value, void *arg);

struct umbra_dispatch_options {
    umbra_dispatch_fn *fn;         /* of all workers, unless fns is given */
    umbra_dispatch_fn *const *fns; /* one for each worker, or NULL */
    void *arg;                     /* for all of them */
    void *const *states;           /* one for each worker, or NULL; see umbra_dispatch_fn */
    size_t scratch_bytes;          /* of each worker's buffer; 0: none */
    unsigned workers;              /* 0: one a core; worker i is on core i modulo the cores */
};

#define UMBRA_ANY_NODE (-1)

/*
 * Makes a dispatcher and its workers. runtime NULL: the caller's. A fiber (may switch) or a thread
 * that is no core (blocks). Returns 0, or with nothing left behind -EINVAL (no function, or none
 * for one of the workers; more than 1024 workers), -ENOMEM, -EPERM (runtime NULL and the caller is
 * no fiber), or an error of umbra_event_wait or umbra_spawn_with.
 */
UM_LINKONCE int umbra_dispatch_create(struct umbra_runtime *runtime,
                                      const struct umbra_dispatch_options *options,
                                      struct umbra_dispatch **dispatch);

/* Ends the workers and frees the dispatcher. Callers as above. NULL is allowed. Returns 0, or with
 * nothing done -EBUSY (a step has begun that was not ended) or an error of umbra_event_wait. */
UM_LINKONCE int umbra_dispatch_destroy(struct umbra_dispatch *dispatch);

/*
 * Begins a step, with the caller as a source; values left from the step before are dropped. Any
 * thread or fiber, but no signal handler; does not switch or block. Returns 0, or with nothing done
 * -EBUSY: a step has begun that was not ended.
 */
UM_LINKONCE int umbra_dispatch_begin(struct umbra_dispatch *dispatch);

/*
 * Ends a step: the caller, as a source, is complete, and waits for the end of the step, until a
 * time of umbra_now_ns() at the latest. A fiber (may switch) or a thread that is no core (blocks).
 * Returns 0, the first error of a function, -ECANCELED (umbra_dispatch_cancel), -EINVAL (no step
 * has begun), or, with the caller not complete yet, an error of umbra_event_wait. With a deadline
 * also -ETIMEDOUT, or -ENOMEM for the wait; the step then goes on and must be ended again, and the
 * caller is complete: it must queue nothing more. (A worker's function should return neither error,
 * since the caller could not tell them apart except by umbra_dispatch_begin, which returns -EBUSY
 * if the step goes on.)
 */
UM_LINKONCE int umbra_dispatch_end(struct umbra_dispatch *dispatch, uint64_t deadline);

/*
 * Begins step number `step`: queues its values, as a source that is open meanwhile. It is called
 * between two steps, by the worker that ended the step before, which processes nothing meanwhile,
 * or by the caller that closed the last source. It may block. Returns 1; 0: this is the last step,
 * which may be empty; or a negative error, which stops the step.
 */
typedef int umbra_step_fn(struct umbra_dispatch *dispatch, size_t step, void *arg);

/*
 * Runs steps 0, 1, 2 ... one after the other, without a caller between them: the workers own the
 * loop of time, as in the paper (Figure 4b), and no step waits for one particular worker, or for
 * the caller, to begin. Waits for the end of the last one. Callers and results as of
 * umbra_dispatch_end, -EBUSY as of umbra_dispatch_begin, and -EINVAL without a function; a step
 * that is stopped is the last.
 */
UM_LINKONCE int umbra_dispatch_steps(struct umbra_dispatch *dispatch, umbra_step_fn *fn, void *arg);

/*
 * Opens one more source, which must be closed. Call it while another source is open, or in a
 * worker's function. The source holds the runtime, as by umbra_hold. A close without a source that
 * was opened here does nothing, but with UMBRA_ASSERT aborts. Any thread or fiber, but no signal
 * handler; neither switches nor blocks, with one exception: with umbra_dispatch_steps the close of
 * the last source may begin the next step, and calls its function.
 */
UM_LINKONCE void umbra_source_open(struct umbra_dispatch *dispatch);
UM_LINKONCE void umbra_source_close(struct umbra_dispatch *dispatch);

/*
 * Queues a pointer, not NULL, near a NUMA node (as in umbra/topology.h), or UMBRA_ANY_NODE. Any
 * thread or fiber that is an open source; never switches or blocks. Returns 0, -EINVAL (NULL),
 * -ENOMEM.
 */
UM_LINKONCE int umbra_dispatch_put(struct umbra_dispatch *dispatch, void *pointer, int node);

/*
 * Queues [begin, end), in parts of `grain` indices; 0: parts of about 20 microseconds, as long as
 * each worker measures while it runs. Each worker gets an equal share first, in the order of the
 * indices. Any thread or fiber that is an open source; never switches or blocks. Returns 0, or
 * -ENOMEM (some of the range may be queued).
 */
UM_LINKONCE int umbra_dispatch_range(struct umbra_dispatch *dispatch, size_t begin, size_t end,
                                     size_t grain);

/* Stops the step under way, if any. Any thread or fiber; never switches or blocks. */
UM_LINKONCE void umbra_dispatch_cancel(struct umbra_dispatch *dispatch);

/*
 * Between a stopped step and the next: takes a value that no worker has begun, of a range one part.
 * True if there was one; else *value is unchanged. Any thread or fiber, one caller at a time;
 * neither switches nor blocks.
 */
UM_LINKONCE bool umbra_dispatch_left(struct umbra_dispatch *dispatch, struct umbra_value *value);

#define UMBRA_ANY_WORKER (-1)

/*
 * Inside a function: queues a pointer, not NULL, or a range. `near` UMBRA_ANY_WORKER: for its own
 * worker or for any hungry one. Else `near` is the number of a worker, this one or another, that
 * may have the data in its caches. If that worker is hungry it is woken, rather than another, even
 * if a fiber keeps its core busy for a while. Neither call switches or blocks. Errors as
 * umbra_dispatch_put and umbra_dispatch_range, but a range is queued completely or not at all; and
 * -EINVAL: no worker has that number.
 */
UM_LINKONCE int umbra_worker_put(struct umbra_worker *worker, void *pointer, int near);
UM_LINKONCE int umbra_worker_range(struct umbra_worker *worker, size_t begin, size_t end,
                                   size_t grain, int near);

#include <umbra/dispatch/workers.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#endif
