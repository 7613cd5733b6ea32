/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Scatter and gather on ports (the paper's Algorithm 2): in each step a message for each block is
 * posted, an arbiter hands each to a task of its own, and all answers are received together.
 */
#include "variants.h"

#include <errno.h>
#include <stdlib.h>

#include <umbra/core.h>
#include <umbra/port.h>

struct job {
    struct body *body;
    const struct setting *setting;
    struct blocks blocks;
    size_t step;
    int error;
    struct umbra_port scattered, gathered;
    struct block *block; /* one for each */
};

struct block {
    struct umbra_message message;
    size_t number;
};

/* A task: one block, one step. */
static void sweep_block(struct umbra_message *message, void *arg)
{
    struct job *job = arg;
    const struct block *block = UMBRA_MESSAGE_AS(struct block, message);

    body_sweep_block(job->body, &job->blocks, job->step, block->number);
    umbra_port_post(&job->gathered, message, UMBRA_NEVER);
}

static int one_step(struct job *job)
{
    struct umbra_branch all = {UMBRA_ITEMS(job->blocks.all, UMBRA_FROM(&job->gathered))};

    for (size_t number = 0; number < job->blocks.all; number++)
        umbra_port_post(&job->scattered, &job->block[number].message, UMBRA_NEVER);
    return umbra_choose(&all, 1, UMBRA_NEVER, NULL, NULL);
}

static void *all_steps(void *arg)
{
    struct job *job = arg;
    struct umbra_branch each = {UMBRA_RECEIVE(&job->scattered), .handler = sweep_block, .arg = job};
    _Alignas(UMBRA_CACHE_LINE) struct umbra_arbiter arbiter;

    job->error = umbra_arbiter_start(&arbiter, &each, 1, NULL);
    if (job->error)
        return NULL;
    while (job->step < job->setting->steps && !job->error) {
        setting_step(job->setting, job->step);
        job->error = one_step(job);
        job->step++;
    }
    umbra_arbiter_cancel(&arbiter);
    umbra_arbiter_join(&arbiter, UMBRA_NEVER);
    return NULL;
}

int spread_scatter_gather(struct body *body, struct setting *setting)
{
    struct umbra_options options = {.cores = (unsigned)setting->processors, .oversubscribe = true};
    struct job job = {.body = body,
                      .setting = setting,
                      .blocks = blocks_of(body, setting->edge),
                      .scattered = UMBRA_PORT_INIT,
                      .gathered = UMBRA_PORT_INIT};
    int error;

    job.block = calloc(job.blocks.all, sizeof(*job.block));
    if (!job.block)
        return -ENOMEM;
    for (size_t number = 0; number < job.blocks.all; number++)
        job.block[number].number = number;
    error = setting->runtime ? umbra_runtime_run(setting->runtime, all_steps, &job)
                             : umbra_run(&options, all_steps, &job);
    free(job.block);
    return error ? error : job.error;
}
