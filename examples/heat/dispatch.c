/* SPDX-License-Identifier: BSL-1.0 */
/*
 * H-Dispatch: workers that live as long as the run and pull blocks when they are hungry. Each begins
 * a step with the blocks that it had in the one before, and takes from others when it has none left.
 */
#include "dispatch.h"

/* ---- any run ---- */

struct run {
    struct umbra_dispatch_options options;
    umbra_step_fn *begin;
    int error;
};

static void *all_steps(void *arg)
{
    struct run *run = arg;
    struct umbra_dispatch *dispatch;

    run->error = umbra_dispatch_create(NULL, &run->options, &dispatch);
    if (run->error)
        return NULL;
    run->error = umbra_dispatch_steps(dispatch, run->begin, run->options.arg);
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

int dispatch_run(const struct setting *setting, umbra_dispatch_fn *fn, umbra_step_fn *begin,
                 void *arg)
{
    struct umbra_options options = {.cores = (unsigned)setting->processors, .oversubscribe = true};
    struct run run = {.options = {.fn = fn, .arg = arg}, .begin = begin};
    int error = setting->runtime ? umbra_runtime_run(setting->runtime, all_steps, &run)
                                 : umbra_run(&options, all_steps, &run);

    return error ? error : run.error;
}

/* ---- step by step ---- */

struct job {
    struct body *body;
    const struct setting *setting;
    struct blocks blocks;
    size_t step;
};

static int sweep_blocks(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    const struct job *job = arg;

    (void)worker;
    body_sweep_blocks(job->body, &job->blocks, job->step, value.begin, value.end);
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

int spread_dispatch(struct body *body, struct setting *setting)
{
    struct job job = {.body = body, .setting = setting, .blocks = blocks_of(body, setting->edge)};

    return dispatch_run(setting, sweep_blocks, begin_step, &job);
}
