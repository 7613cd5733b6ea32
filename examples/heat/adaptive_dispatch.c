/* SPDX-License-Identifier: BSL-1.0 */
/* The steps of an adaptive body by a dispatcher: a worker that finds a block steep adds its pieces, so the
 * number of tasks is known when the step is over. */
#include "adaptive_ways.h"

#include <umbra/core.h>
#include <umbra/dispatch.h>

#define PROCESSORS_MOST 1024

/* Each worker counts for itself. */
struct count {
    _Alignas(UMBRA_CACHE_LINE) size_t tasks;
};

struct job {
    struct adaptive *adaptive;
    struct adaptive_run *run;
    struct count *counts; /* one a worker */
    size_t step;
    bool mending;
    int error;
};

/* Values are numbers: of blocks, and behind these of pieces. */
static int put_pieces(struct umbra_worker *worker, const struct job *job, const struct row *rows,
                      int count)
{
    size_t behind = job->adaptive->blocks.all;
    int error = 0;

    for (int r = 0; r < count && !error; r++)
        error = umbra_worker_range(worker, behind + rows[r].begin, behind + rows[r].end, 1,
                                   UMBRA_ANY_WORKER);
    return error;
}

static int one_task(struct umbra_worker *worker, const struct job *job, size_t number)
{
    struct row rows[4];
    int count, error;

    if (number >= job->adaptive->blocks.all) {
        adaptive_piece(job->adaptive, job->step, number - job->adaptive->blocks.all,
                       worker->scratch);
        return 0;
    }
    if (job->mending) {
        adaptive_mend(job->adaptive, job->step, number);
        return 0;
    }
    error = adaptive_block(job->adaptive, job->step, number, rows, &count);
    return error ? error : put_pieces(worker, job, rows, count);
}

static int tasks_of(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    const struct job *job = arg;
    int error = 0;

    for (size_t number = value.begin; number < value.end && !error; number++) {
        job->counts[worker->index].tasks++;
        error = one_task(worker, job, number);
    }
    return error;
}

/* All blocks, and what comes of them. */
static int all_blocks(struct umbra_dispatch *dispatch, const struct job *job)
{
    int failed, error = umbra_dispatch_begin(dispatch);

    if (error)
        return error;
    error = umbra_dispatch_range(dispatch, 0, job->adaptive->blocks.all, 1);
    failed = umbra_dispatch_end(dispatch, UMBRA_NEVER);
    return error ? error : failed;
}

static size_t counted(struct job *job)
{
    size_t sum = 0;

    for (unsigned w = 0; w < umbra_runtime_cores(umbra_runtime_self()); w++) {
        sum += job->counts[w].tasks;
        job->counts[w].tasks = 0;
    }
    return sum;
}

static int workers_step(struct umbra_dispatch *dispatch, struct job *job)
{
    int error;

    job->mending = false;
    error = all_blocks(dispatch, job);
    if (error)
        return error;
    job->mending = true;
    error = all_blocks(dispatch, job);
    range_add(&job->run->tasks, counted(job));
    range_add(&job->run->fine, adaptive_fine_blocks(job->adaptive, job->step + 1));
    return error;
}

static void *all_steps(void *arg)
{
    struct job *job = arg;
    struct umbra_dispatch_options options = {
        .fn = tasks_of, .arg = job, .scratch_bytes = adaptive_scratch_bytes(job->adaptive)};
    struct umbra_dispatch *dispatch;

    job->error = umbra_dispatch_create(NULL, &options, &dispatch);
    if (job->error)
        return NULL;
    for (; job->step < job->run->steps && !job->error; job->step++)
        job->error = workers_step(dispatch, job);
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

int adaptive_dispatch(struct adaptive_run *run)
{
    static struct count counts[PROCESSORS_MOST];
    struct umbra_options options = {.cores = (unsigned)run->processors, .oversubscribe = true};
    struct job job = {.adaptive = run->adaptive, .run = run, .counts = counts};
    int error;

    run->tasks = run->fine = (struct range){.least = SIZE_MAX};
    error = run->runtime ? umbra_runtime_run(run->runtime, all_steps, &job)
                         : umbra_run(&options, all_steps, &job);
    return error ? error : job.error;
}
