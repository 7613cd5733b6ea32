/* SPDX-License-Identifier: BSL-1.0 */
/*
 * H-Dispatch: workers that live as long as the run and pull blocks when they are hungry. Each begins
 * a step with the blocks that it had in the one before, and takes from others when it has none left.
 */
#include "variants.h"

#include <umbra/dispatch.h>

struct job {
    struct body *body;
    const struct setting *setting;
    struct blocks blocks;
    size_t step;
    int error;
};

static int sweep_blocks(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    const struct job *job = arg;

    (void)worker;
    for (size_t number = value.begin; number < value.end; number++)
        body_sweep_block(job->body, &job->blocks, job->step, number);
    return 0;
}

static int begin_step(struct umbra_dispatch *dispatch, size_t step, void *arg)
{
    struct job *job = arg;
    int error;

    if (step == job->setting->steps)
        return 0;
    setting_step(job->setting, step);
    job->step = step;
    error = umbra_dispatch_range(dispatch, 0, job->blocks.all, 0);
    return error ? error : 1;
}

static void *all_steps(void *arg)
{
    struct job *job = arg;
    struct umbra_dispatch_options options = {.fn = sweep_blocks, .arg = job};
    struct umbra_dispatch *dispatch;

    job->error = umbra_dispatch_create(NULL, &options, &dispatch);
    if (job->error)
        return NULL;
    job->error = umbra_dispatch_steps(dispatch, begin_step, job);
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

int spread_dispatch(struct body *body, struct setting *setting)
{
    struct umbra_options options = {.cores = (unsigned)setting->processors, .oversubscribe = true};
    struct job job = {.body = body, .setting = setting, .blocks = blocks_of(body, setting->edge)};
    int error = setting->runtime ? umbra_runtime_run(setting->runtime, all_steps, &job)
                                 : umbra_run(&options, all_steps, &job);

    return error ? error : job.error;
}
