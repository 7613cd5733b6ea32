/* SPDX-License-Identifier: BSL-1.0 */
/*
 * H-Dispatch without an end of each step: who has done some blocks queues those that nothing is missing
 * for any more, which are of the next step while others are still in this one. So nobody waits for a
 * worker that was held up, unless what it has is next to everything that is left. In return blocks wander
 * from worker to worker, which is slow where cores share no cache.
 *
 * Blocks that follow one another are a group. A group may begin a step when it and all groups that may
 * be next to it have done the one before, which is also when nobody reads any more what it overwrites:
 * those up to a layer of blocks before and behind, or, in one layer, a row. Two such groups are never
 * more than one step apart, so that two counts of what is missing will do, for its odd steps and for
 * the others.
 */
#include "dispatch.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#define GROUPS 16     /* about, of enough blocks: so that some may be ahead of others */
#define GROUP_PARTS 4 /* what is left of a group when others have nothing, they can share */

struct group {
    alignas(UMBRA_CACHE_LINE) atomic_size_t undone; /* blocks, in the step that it does, or does next */
    atomic_size_t missing[2];           /* groups that have to end a step first; of even and odd ones */
};

struct job {
    struct body *body;
    const struct setting *setting;
    struct blocks blocks;
    size_t length; /* blocks of a group; of the last, perhaps fewer */
    size_t part;   /* blocks that are processed at once */
    size_t groups;
    size_t reach; /* groups before and behind one that may be next to it */
    struct group *group;
    alignas(UMBRA_CACHE_LINE) atomic_size_t done; /* groups and steps */
};

static size_t first_block(const struct job *job, size_t group)
{
    return group < job->groups ? group * job->length : job->blocks.all;
}

static size_t first_near(const struct job *job, size_t group)
{
    return group > job->reach ? group - job->reach : 0;
}

static size_t end_near(const struct job *job, size_t group)
{
    return group + job->reach < job->groups ? group + job->reach + 1 : job->groups;
}

/* How far apart in number two blocks can be that are next to each other. */
static size_t farthest_next(const struct blocks *blocks)
{
    if (blocks->count[Z] > 1)
        return blocks->count[X] * blocks->count[Y];
    return blocks->count[Y] > 1 ? blocks->count[X] : 1;
}

/* Nobody counts down what is set here before the group has begun that step: relaxed. */
static void set_undone(struct job *job, size_t group)
{
    atomic_store_explicit(&job->group[group].undone,
                          first_block(job, group + 1) - first_block(job, group),
                          memory_order_relaxed);
}

static void set_missing(struct job *job, size_t group, size_t step)
{
    atomic_store_explicit(&job->group[group].missing[step % 2],
                          end_near(job, group) - first_near(job, group), memory_order_relaxed);
}

/* What a group has done in a step is there: queues which lacked only that. The counts are seq_cst, of
 * which acquire and release are needed: the last to count has seen what all others have done. */
static int end_step(struct umbra_worker *worker, struct job *job, size_t group, size_t step)
{
    size_t all = job->blocks.all;
    int error = 0;

    if (atomic_fetch_add(&job->done, 1) + 1 == job->groups * (job->setting->steps / 2))
        setting_step(job->setting, job->setting->steps / 2);
    if (++step == job->setting->steps)
        return 0;
    set_undone(job, group);
    for (size_t near = first_near(job, group); near < end_near(job, group) && !error; near++) {
        if (atomic_fetch_sub(&job->group[near].missing[step % 2], 1) != 1)
            continue;
        set_missing(job, near, step);
        error = umbra_worker_range(worker, step * all + first_block(job, near),
                                   step * all + first_block(job, near + 1), job->part);
    }
    return error;
}

/* An index is a block's number and, times the number of blocks, the step. */
static int sweep_blocks(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    struct job *job = arg;
    size_t step = value.begin / job->blocks.all, number = value.begin % job->blocks.all;
    size_t end = number + (value.end - value.begin);
    int error = 0;

    while (number < end && !error) {
        size_t group = number / job->length, first = number;
        size_t here = first_block(job, group + 1) < end ? first_block(job, group + 1) : end;

        for (; number < here; number++)
            body_sweep_block(job->body, &job->blocks, step, number);
        if (atomic_fetch_sub(&job->group[group].undone, here - first) == here - first)
            error = end_step(worker, job, group, step);
    }
    return error;
}

/* The only step of the dispatcher: all groups' first, and what follows. */
static int begin(struct umbra_dispatch *dispatch, size_t step, void *arg)
{
    struct job *job = arg;

    (void)step;
    if (job->setting->steps == 0)
        return 0;
    setting_step(job->setting, 0);
    return umbra_dispatch_range(dispatch, 0, job->blocks.all, job->part);
}

int spread_dispatch_ahead(struct body *body, struct setting *setting)
{
    struct job job = {.body = body, .setting = setting, .blocks = blocks_of(body, setting->edge)};
    size_t farthest = farthest_next(&job.blocks);
    int error;

    job.length = (job.blocks.all + GROUPS - 1) / GROUPS;
    job.part = (job.length + GROUP_PARTS - 1) / GROUP_PARTS;
    job.groups = (job.blocks.all + job.length - 1) / job.length;
    job.reach = (farthest + job.length - 1) / job.length;
    job.group = aligned_alloc(UMBRA_CACHE_LINE, job.groups * sizeof(*job.group));
    if (!job.group)
        return -ENOMEM;
    for (size_t group = 0; group < job.groups; group++) {
        set_undone(&job, group);
        set_missing(&job, group, 0);
        set_missing(&job, group, 1);
    }
    error = dispatch_run(setting, sweep_blocks, begin, &job);
    free(job.group);
    return error;
}
