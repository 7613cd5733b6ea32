/* SPDX-License-Identifier: BSL-1.0 */
/*
 * H-Dispatch as its paper has it (Holmes et al. 2010, section 4.2, Figure 6), on ports: what
 * umbra/dispatch.h is compared with.
 *
 *   a worker                                     H-Dispatch
 *   posts a request                         -->  is asked: the queue has a value:
 *   receives the answer                     <--      posts the value to the worker
 *   processes the value, asks again              the queue is empty:
 *                                                    keeps the request
 *   receives its request: the step is over  <--  every worker's request is kept: fills the queue for
 *   asks again, in the next step                     the next step, and posts all requests back
 *
 * No values are counted: a step is over when the queue is empty and every worker has an unanswered
 * request. Each worker has its loop over the steps, and lives as long as the run.
 *
 * In the paper a pool of threads runs the handler of a request, so the thread does it that has just
 * become free: that of the worker that asks. So here, too, the fiber that has posted a request takes
 * what is in the port, one fiber at a time, and answers it.
 */
#ifndef HEAT_H_DISPATCH_H
#define HEAT_H_DISPATCH_H

#include <stddef.h>
#include <stdint.h>

struct h_dispatch;

struct h_worker_state {
    unsigned index;
    void *scratch; /* a buffer that is the worker's as long as the run; NULL: scratch_bytes is 0 */
    void *arg;     /* of the options */
};

struct h_options {
    void (*fn)(struct h_worker_state *worker, size_t value); /* processes a value */
    /* Begins a step: how many values, 0, 1, 2 ..., it has. One caller at a time, between two steps. */
    size_t (*values)(size_t step, void *arg);
    void *arg;
    size_t steps;
    size_t values_most; /* of a step */
    size_t scratch_bytes;
    unsigned workers;        /* worker i is on core i modulo the cores */
    void (*done)(void *arg); /* after the last step, while the workers are there; or NULL */
};

/* Runs all steps in workers of the caller's runtime. A fiber, which is blocked meanwhile. 0, or a negative
 * errno. */
int h_dispatch_run(const struct h_options *options);

#endif
