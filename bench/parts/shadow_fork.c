/* SPDX-License-Identifier: BSL-1.0 */
/* See shadow_fork.h. */
#define _GNU_SOURCE
#include "shadow_fork.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct shadow_state {
    struct umbra_shadow shadow; /* first, so that its slot is on the line of every other row */
    UM_ALIGNED(BENCH_LINES_ALIGN) uint64_t counter; /* the forked function adds */
};

_Static_assert(sizeof(struct shadow_state) <= BENCH_LINES_BYTES, "fits the harness's lines");
_Static_assert(_Alignof(struct shadow_state) <= BENCH_LINES_ALIGN, "and is aligned there");

static void count_one(void *counter)
{
    ++*(uint64_t *)counter;
}

/* Whether a forced back end can execute on this machine. */
static int shadow_open(struct bench_row *row)
{
    const struct umbra_wait_options *wait = row->arg;
    const struct um_wait_report *report = um_wait_report();

    for (int i = 0; wait->backend != NULL && i < UMBRA_BACKEND_COUNT; i++)
        if (strcmp(report->backend[i].name, wait->backend) == 0 && !report->backend[i].executes)
            return bench_refuse(row, -EOPNOTSUPP, "%s", report->backend[i].reason);
    return 0;
}

/* UMBRA_WAIT overrules options, so it must not be seen where the row names the back end. */
static int create_without_environment(struct umbra_shadow *shadow,
                                      const struct umbra_shadow_options *options)
{
    const char *set = getenv("UMBRA_WAIT");
    char *saved = set != NULL ? strdup(set) : NULL;
    int error;

    unsetenv("UMBRA_WAIT");
    error = shadow_create(shadow, options);
    if (saved != NULL)
        setenv("UMBRA_WAIT", saved, 1);
    free(saved);
    return error;
}

int shadow_fork_create(const struct bench_row *row, const struct umbra_wait_options *wait,
                       struct umbra_shadow *shadow)
{
    return shadow_fork_create_at(row->bench, row->cpus[0], row->cpus[1], wait, shadow);
}

int shadow_fork_create_at(const struct bench *bench, int owner_cpu, int shadow_cpu,
                          const struct umbra_wait_options *wait, struct umbra_shadow *shadow)
{
    struct umbra_shadow_options options = {
        .topology = bench_topology(bench),
        .wait = *wait,
        .place_owner = true,
        .place_shadow = true,
        .owner_cpu = owner_cpu,
        .shadow_cpu = shadow_cpu,
    };

    if (options.wait.backend != NULL)
        return create_without_environment(shadow, &options);
    return shadow_create(shadow, &options);
}

const char *shadow_fork_monitor(void)
{
    const struct um_wait_report *report = um_wait_report();
    struct umbra_wait_options options = {.block_cycles = 1}; /* given, so that it is not measured */
    struct umbra_wait_policy policy;

    if (umbra_wait_policy_init(&policy, &options) == 0 && policy.backend != UMBRA_BACKEND_PAUSE)
        return report->backend[policy.backend].name;
    for (int i = 0; i < UMBRA_BACKEND_COUNT; i++)
        if (i != UMBRA_BACKEND_PAUSE && report->backend[i].executes)
            return report->backend[i].name;
    return NULL;
}

/* As many cycles as so many polls take here. */
static int cycles_of_polls(const struct bench_row *row, uint64_t polls, uint64_t *cycles)
{
    struct umbra_wait_options options = {.block_cycles = 1}; /* as above */
    struct umbra_wait_policy policy;
    int error;

    options.polite = umbra_topology_shared(bench_topology(row->bench), row->cpus[0],
                                           row->cpus[1]) == UMBRA_SHARED_CORE;
    error = umbra_wait_policy_init(&policy, &options);
    if (error == 0)
        *cycles = polls * policy.poll_cycles;
    return error;
}

int shadow_fork_paper_wait(const struct bench_row *row, uint64_t polls,
                           struct umbra_wait_options *wait)
{
    uint64_t cycles = 0;
    int error = cycles_of_polls(row, polls, &cycles);

    *wait = (struct umbra_wait_options){.mode = UMBRA_WAIT_TWO_PHASE,
                                        .backend = shadow_fork_monitor(),
                                        .spin_cycles = cycles > 0 ? cycles : SHADOW_FORK_NO_SPIN,
                                        .block_cycles = UMBRA_NEVER};
    return error;
}

static int shadow_start(struct bench_row *row)
{
    struct shadow_state *state = bench_lines(row->bench);

    row->state = state;
    state->counter = 0;
    return shadow_fork_create(row, row->arg, &state->shadow);
}

static int shadow_run(struct bench_row *row, struct bench_batch *batch)
{
    struct shadow_state *state = row->state;
    uint64_t before = state->counter;
    uint64_t begin = bench_now_ns();

    for (uint64_t i = 0; i < batch->iterations; i++) {
        shadow_fork(&state->shadow, count_one, &state->counter);
        shadow_join(&state->shadow);
    }
    batch->ns = bench_now_ns() - begin;
    batch->verified = state->counter - before;
    return 0;
}

static void shadow_stop(struct bench_row *row)
{
    struct shadow_state *state = row->state;

    shadow_destroy(&state->shadow);
}

const struct bench_ops shadow_fork_ops = {
    .open = shadow_open,
    .start = shadow_start,
    .run = shadow_run,
    .stop = shadow_stop,
};
