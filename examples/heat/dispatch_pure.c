/* SPDX-License-Identifier: BSL-1.0 */
/* Steps by the paper's own H-Dispatch (h_dispatch.h), a value a block. */
#include "h_dispatch.h"
#include "variants.h"

#include <umbra/core.h>

struct job {
    struct body *body;
    const struct setting *setting;
    struct blocks blocks;
    size_t step;
    int error;
};

static void sweep_block(struct h_worker_state *worker, size_t value)
{
    const struct job *job = worker->arg;

    body_sweep_block(job->body, &job->blocks, job->step, value);
}

static size_t begin_step(size_t step, void *arg)
{
    struct job *job = arg;

    setting_step(job->setting, step);
    job->step = step;
    return job->blocks.all;
}

static void *all_steps(void *arg)
{
    struct job *job = arg;
    struct h_options options = {.fn = sweep_block,
                                .values = begin_step,
                                .arg = job,
                                .steps = job->setting->steps,
                                .values_most = job->blocks.all,
                                .workers = umbra_runtime_cores(umbra_runtime_self())};

    job->error = h_dispatch_run(&options);
    return NULL;
}

int spread_dispatch_pure(struct body *body, struct setting *setting)
{
    struct umbra_options options = {.cores = (unsigned)setting->processors, .oversubscribe = true};
    struct job job = {.body = body, .setting = setting, .blocks = blocks_of(body, setting->edge)};
    int error = setting->runtime ? umbra_runtime_run(setting->runtime, all_steps, &job)
                                 : umbra_run(&options, all_steps, &job);

    return error ? error : job.error;
}
