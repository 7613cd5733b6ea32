/* SPDX-License-Identifier: BSL-1.0 */
/* See h_dispatch.h. */
#include "h_dispatch.h"

#include <errno.h>
#include <stdlib.h>

#include <umbra/core.h>
#include <umbra/port.h>
#include <umbra/sync.h>

/* A request, there and back; or a value, from the queue to a worker, and back when the queue is filled. */
struct h_message {
    struct umbra_message message;
    struct h_worker *worker; /* that asks; NULL: it is a value */
    size_t value;
};

typedef UMBRA_PORT(struct h_message) h_port;

struct h_worker {
    _Alignas(UMBRA_CACHE_LINE) struct h_worker_state state;
    struct h_dispatch *dispatch;
    struct h_message request;
    struct umbra_fiber fiber;
    _Alignas(UMBRA_CACHE_LINE) h_port answers;
};

struct h_dispatch {
    const struct h_options *options;
    struct h_worker *worker;
    struct h_message *value; /* one for each of a step */
    struct h_worker **kept;  /* whose requests are unanswered; the lock's, as the next */
    unsigned unanswered;
    size_t step;
    bool over;               /* written before the last requests are posted back */
    h_port values;           /* the queue */
    struct umbra_mutex lock; /* one handler of requests at a time */
    _Alignas(UMBRA_CACHE_LINE) h_port requests;
};

/* Fills the queue for the next step that has values, if there is one. */
static void fill(struct h_dispatch *dispatch)
{
    const struct h_options *options = dispatch->options;
    size_t count = 0;

    while (count == 0 && dispatch->step < options->steps)
        count = options->values(dispatch->step++, options->arg);
    dispatch->over = count == 0;
    for (size_t i = 0; i < count; i++)
        UMBRA_PORT_POST(&dispatch->values, &dispatch->value[i], UMBRA_NEVER);
}

/* All have asked, and there is no value left. */
static void end_step(struct h_dispatch *dispatch)
{
    const struct h_options *options = dispatch->options;

    fill(dispatch);
    if (dispatch->over && options->done)
        options->done(options->arg);
    dispatch->unanswered = 0;
    for (unsigned i = 0; i < options->workers; i++)
        UMBRA_PORT_POST(&dispatch->kept[i]->answers, &dispatch->kept[i]->request, UMBRA_NEVER);
}

/* Handles all requests that are in the port. */
static void handle(struct h_dispatch *dispatch)
{
    struct h_message *request, *value;

    umbra_mutex_lock(&dispatch->lock);
    while (UMBRA_PORT_RECEIVE(&dispatch->requests, &request, 0) == 0)
        if (UMBRA_PORT_RECEIVE(&dispatch->values, &value, 0) == 0)
            UMBRA_PORT_POST(&request->worker->answers, value, UMBRA_NEVER);
        else
            dispatch->kept[dispatch->unanswered++] = request->worker;
    if (dispatch->unanswered == dispatch->options->workers)
        end_step(dispatch);
    umbra_mutex_unlock(&dispatch->lock);
}

static void *work(void *arg)
{
    struct h_worker *self = arg;
    struct h_dispatch *dispatch = self->dispatch;
    struct h_message *answer;

    while (!dispatch->over) { /* no step ends before this worker has asked */
        UMBRA_PORT_POST(&dispatch->requests, &self->request, UMBRA_NEVER);
        handle(dispatch);
        if (UMBRA_PORT_RECEIVE(&self->answers, &answer, UMBRA_NEVER) != 0)
            abort(); /* no caller closes the port or cancels the fiber */
        if (!answer->worker)
            dispatch->options->fn(&self->state, answer->value);
    }
    return NULL;
}

static int make_worker(struct h_dispatch *dispatch, unsigned index)
{
    struct h_worker *worker = &dispatch->worker[index];
    size_t bytes = (dispatch->options->scratch_bytes + UMBRA_CACHE_LINE - 1) / UMBRA_CACHE_LINE *
                   UMBRA_CACHE_LINE;

    *worker = (struct h_worker){.state = {.index = index, .arg = dispatch->options->arg},
                                .dispatch = dispatch,
                                .request = {.worker = worker},
                                .answers = {UMBRA_PORT_INIT}};
    if (bytes > 0)
        worker->state.scratch = aligned_alloc(UMBRA_CACHE_LINE, bytes);
    return bytes > 0 && !worker->state.scratch ? -ENOMEM : 0;
}

/* All or none: those that there are end at once if one cannot be made. */
static int run_workers(struct h_dispatch *dispatch)
{
    unsigned workers = dispatch->options->workers, made = 0, begun = 0;
    unsigned cores = umbra_runtime_cores(umbra_runtime_self());
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .stopped = true, .name = "worker"};
    int error = 0;

    for (; made < workers && error == 0; made++)
        error = make_worker(dispatch, made);
    for (; begun < workers && error == 0; begun += error == 0) {
        there.core = begun % cores;
        error = umbra_spawn_with(NULL, &there, work, &dispatch->worker[begun],
                                 &dispatch->worker[begun].fiber);
    }
    dispatch->over = dispatch->over || error != 0;
    for (unsigned i = 0; i < begun; i++)
        umbra_continue(dispatch->worker[i].fiber);
    for (unsigned i = 0; i < begun; i++)
        umbra_join(dispatch->worker[i].fiber, UMBRA_NEVER, NULL);
    for (unsigned i = 0; i < made; i++)
        free(dispatch->worker[i].state.scratch);
    return error;
}

int h_dispatch_run(const struct h_options *options)
{
    struct h_dispatch dispatch = {.options = options,
                                  .lock = UMBRA_MUTEX_INIT,
                                  .requests = {UMBRA_PORT_INIT},
                                  .values = {UMBRA_PORT_INIT}};
    int error = -ENOMEM;

    dispatch.worker =
        aligned_alloc(_Alignof(struct h_worker), options->workers * sizeof(*dispatch.worker));
    dispatch.kept = calloc(options->workers, sizeof(*dispatch.kept));
    dispatch.value = calloc(options->values_most, sizeof(*dispatch.value));
    if (dispatch.worker && dispatch.kept && dispatch.value) {
        for (size_t i = 0; i < options->values_most; i++)
            dispatch.value[i].value = i;
        fill(&dispatch);
        error = run_workers(&dispatch);
    }
    free(dispatch.worker);
    free(dispatch.kept);
    free(dispatch.value);
    return error;
}
