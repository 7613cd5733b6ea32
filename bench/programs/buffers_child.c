/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Tasks that need a buffer (Holmes et al. 2010, section 5.1), for the kernel heat: each writes all
 * bytes of one. A dispatcher's workers keep theirs from task to task; scatter and gather allocates
 * one a task. A batch is so many steps of so many tasks, "TASKS"; or what of it stays resident.
 */
#define _GNU_SOURCE
#include "buffers_case.h"
#include "child_channel.h"
#include "resident.h"

#include <string.h>

#include <h_dispatch.h>
#include <umbra.h>

struct block {
    struct umbra_message message;
};

static unsigned tasks;
static struct block *blocks;
static struct buffers_case now;
static uint64_t steps;
static _Atomic uint64_t right; /* tasks that found in their buffer what they had written */

static void fill(unsigned char *buffer)
{
    size_t bytes = now.bytes, sum = 0;

    for (size_t i = 0; i < bytes; i++)
        buffer[i] = (unsigned char)i;
    __asm__ volatile("" : : "r"(buffer) : "memory"); /* it is written, though nobody needs it */
    for (size_t i = 0; i < bytes; i += bytes / 8)
        sum += buffer[i] != (unsigned char)i;
    atomic_fetch_add_explicit(&right, sum == 0, memory_order_relaxed); /* read after the step */
}

/* ---- a dispatcher: a buffer a worker ---- */

static int fill_scratch(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)arg;
    for (size_t i = value.begin; i < value.end; i++)
        fill(worker->scratch);
    return 0;
}

static int idle(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    (void)arg;
    return 0;
}

static int step(struct umbra_dispatch *dispatch)
{
    int failed, error = umbra_dispatch_begin(dispatch);

    if (error)
        return error;
    error = umbra_dispatch_range(dispatch, 0, tasks, 1);
    failed = umbra_dispatch_end(dispatch, UMBRA_NEVER);
    return error ? error : failed;
}

struct run {
    umbra_dispatch_fn *fn;
    size_t bytes;
    uint64_t steps;
    uint64_t ns, resident; /* of the steps; at their end */
    int error;
};

static void *dispatch_steps(void *arg)
{
    struct run *run = arg;
    struct umbra_dispatch_options options = {.fn = run->fn, .scratch_bytes = run->bytes};
    struct umbra_dispatch *dispatch;
    uint64_t begin;

    run->error = umbra_dispatch_create(NULL, &options, &dispatch);
    if (run->error)
        return NULL;
    begin = child_channel_now_ns();
    for (uint64_t s = 0; s < run->steps && !run->error; s++)
        run->error = step(dispatch);
    run->ns = child_channel_now_ns() - begin;
    run->resident = now.resident ? resident_bytes() : 0;
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

/* ---- the paper's own dispatcher: the same ---- */

static void pure_fill(struct h_worker_state *worker, size_t value)
{
    (void)value;
    if (worker->scratch) /* not in the steps without buffers */
        fill(worker->scratch);
}

static size_t pure_values(size_t step, void *arg)
{
    (void)step;
    (void)arg;
    return tasks;
}

static void pure_done(void *arg)
{
    struct run *run = arg;

    run->ns = child_channel_now_ns() - run->ns;
    run->resident = now.resident ? resident_bytes() : 0;
}

static void *pure_steps(void *arg)
{
    struct run *run = arg;
    struct h_options options = {.fn = pure_fill,
                                .values = pure_values,
                                .arg = run,
                                .steps = run->steps,
                                .values_most = tasks,
                                .scratch_bytes = run->bytes,
                                .workers = now.cores,
                                .done = pure_done};

    run->ns = child_channel_now_ns();
    run->error = h_dispatch_run(&options);
    return NULL;
}

/* ---- scatter and gather: a buffer a task ---- */

static struct umbra_port scattered, gathered;

static void fill_fresh(struct umbra_message *message, void *arg)
{
    const struct run *run = arg;
    unsigned char *buffer = run->bytes ? malloc(run->bytes) : NULL;

    if (buffer)
        fill(buffer);
    free(buffer);
    umbra_port_post(&gathered, message, UMBRA_NEVER);
}

static int scatter_and_gather(void)
{
    struct umbra_branch all = {UMBRA_ITEMS(tasks, UMBRA_FROM(&gathered))};

    for (unsigned i = 0; i < tasks; i++)
        umbra_port_post(&scattered, &blocks[i].message, UMBRA_NEVER);
    return umbra_choose(&all, 1, UMBRA_NEVER, NULL, NULL);
}

static void *scatter_steps(void *arg)
{
    struct run *run = arg;
    struct umbra_branch each = {UMBRA_RECEIVE(&scattered), .handler = fill_fresh, .arg = run};
    _Alignas(UMBRA_CACHE_LINE) struct umbra_arbiter arbiter;
    uint64_t begin;

    scattered = (struct umbra_port)UMBRA_PORT_INIT;
    gathered = (struct umbra_port)UMBRA_PORT_INIT;
    run->error = umbra_arbiter_start(&arbiter, &each, 1, NULL);
    if (run->error)
        return NULL;
    begin = child_channel_now_ns();
    for (uint64_t s = 0; s < run->steps && !run->error; s++)
        run->error = scatter_and_gather();
    run->ns = child_channel_now_ns() - begin;
    run->resident = now.resident ? resident_bytes() : 0;
    umbra_port_close(&scattered);
    umbra_arbiter_join(&arbiter, UMBRA_NEVER);
    return NULL;
}

/* ---- batches ---- */

/* Steps without buffers, and then with them: time, or what of the second stays, at
 * least 1. 0: it failed. */
static uint64_t run_twice(void *arg)
{
    const struct child_channel *channel = arg;
    static umbra_fiber_fn *const fns[] = {[BUFFERS_DISPATCH] = dispatch_steps,
                                          [BUFFERS_DISPATCH_PURE] = pure_steps,
                                          [BUFFERS_SCATTER_GATHER] = scatter_steps};
    umbra_fiber_fn *all_steps = fns[now.way];
    struct run before = {.fn = idle, .steps = 1}, run = {fill_scratch, now.bytes, steps, 0, 0, 0};
    struct umbra_options options = {.quiet = true};
    struct umbra_runtime *runtime;
    char cpus[CHILD_CHANNEL_LIST_BYTES];
    int error;

    options.cpus = child_channel_list(channel, now.cores, cpus);
    if (umbra_runtime_create(&options, &runtime) != 0)
        return 0;
    error = umbra_runtime_run(runtime, all_steps, &before);
    if (error == 0)
        error = umbra_runtime_run(runtime, all_steps, &run);
    umbra_runtime_destroy(runtime);
    if (error != 0 || before.error != 0 || run.error != 0 || right != steps * tasks)
        return 0;
    if (!now.resident)
        return run.ns;
    return run.resident > before.resident ? run.resident - before.resident : 1;
}

static void batch(struct child_channel *channel)
{
    now = buffers_case_unpack(channel->problem);
    steps = channel->iterations;
    right = 0;
    channel->own_ns =
        now.resident ? resident_elsewhere(run_twice, channel) * steps : run_twice(channel);
    channel->verified = channel->own_ns > 0 ? steps : 0;
    channel->elsewhere = 0;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || sscanf(argv[2], "%u", &tasks) != 1 || tasks == 0)
        return 2;
    blocks = calloc(tasks, sizeof(*blocks));
    if (blocks == NULL)
        return 2;
    child_channel_serve(channel, batch);
}
