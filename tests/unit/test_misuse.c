/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Calls that are given no function: each that returns an error says so, and does nothing else. The
 * calls that return none are in test_assert.c.
 */
#include "fibers.h"

#include <errno.h>

static struct umbra_topology *topology;
static struct umbra_runtime *runtime;
static struct umbra_port port = UMBRA_PORT_INIT;

/* ---- in a thread ---- */

static int run(void)
{
    return run_cores(1, NULL, NULL);
}

static int run_there(void)
{
    return umbra_runtime_run(runtime, NULL, NULL);
}

static int spawn_there(void)
{
    return umbra_spawn_with(runtime, NULL, NULL, NULL, NULL);
}

static int start_there(void)
{
    struct umbra_task task;

    return umbra_task_start(runtime, &task, NULL, NULL);
}

static int fork_to_a_shadow(void)
{
    struct umbra_shadow_options options = {.topology = topology, .place_owner = true};
    struct umbra_shadow shadow;
    int error = shadow_create(&shadow, &options);

    if (error != 0)
        return error;
    error = shadow_fork(&shadow, NULL, NULL);
    cr_expect_eq(shadow_join(&shadow), -EINVAL, "nothing was forked");
    cr_expect_eq(shadow_destroy(&shadow), 0);
    return error;
}

static int run_a_team(void)
{
    struct umbra_team_options options = {.topology = topology, .members = 2};
    struct umbra_team *team;
    int error = umbra_team_create(&options, &team);

    if (error != 0)
        return error;
    error = umbra_team_run(team, 0, NULL, NULL);
    cr_expect_eq(umbra_team_destroy(team), 0);
    return error;
}

static int make_a_dispatcher(void)
{
    struct umbra_dispatch_options options = {.fn = NULL};
    struct umbra_dispatch *dispatch;

    return umbra_dispatch_create(runtime, &options, &dispatch);
}

static int process(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    (void)arg;
    return 0;
}

static int do_steps(void)
{
    struct umbra_dispatch_options options = {.fn = process};
    struct umbra_dispatch *dispatch;
    int error = umbra_dispatch_create(runtime, &options, &dispatch);

    if (error != 0)
        return error;
    error = umbra_dispatch_steps(dispatch, NULL, NULL);
    cr_expect_eq(umbra_dispatch_destroy(dispatch), 0);
    return error;
}

/* ---- in a thread and in a fiber ---- */

static int block(void)
{
    return umbra_blocking(NULL, NULL);
}

static void begin_value(void *value, void *arg)
{
    (void)arg;
    *(int *)value = 0;
}

static void add_range(size_t begin, size_t end, void *value, void *arg)
{
    (void)arg;
    *(int *)value += (int)(end - begin);
}

static void add_value(void *value, const void *right, void *arg)
{
    (void)arg;
    *(int *)value += *(const int *)right;
}

static int reduce(void)
{
    struct umbra_reduction whole = {sizeof(int), begin_value, add_range, add_value};
    struct umbra_reduction part[3] = {whole, whole, whole};
    int value = 7, error = 0;

    part[0].begin = NULL;
    part[1].range = NULL;
    part[2].join = NULL;
    for (int i = 0; i < 3; i++)
        error |= umbra_parallel_reduce(0, 2, 1, &part[i], NULL, &value) + EINVAL;
    cr_expect_eq(value, 7, "nothing was called");
    return error == 0 ? -EINVAL : 0;
}

/* ---- in a fiber ---- */

static int spawn(void)
{
    return umbra_spawn(NULL, NULL, NULL);
}

static int spawn_here(void)
{
    return umbra_spawn_with(NULL, NULL, NULL, NULL, NULL);
}

static int start(void)
{
    struct umbra_task task;

    return umbra_task_start(NULL, &task, NULL, NULL);
}

static int unbind(void)
{
    return umbra_core_unbound(NULL, NULL);
}

static int handle(void)
{
    struct umbra_branch branch = {UMBRA_RECEIVE(&port)};
    struct umbra_arbiter arbiter;

    return umbra_arbiter_start(&arbiter, &branch, 1, NULL);
}

/* ---- the tables ---- */

struct row {
    const char *name;
    int (*call)(void);
};

static const struct row in_threads[] = {
    {"umbra_run", run},
    {"umbra_runtime_run", run_there},
    {"umbra_spawn_with", spawn_there},
    {"umbra_task_start", start_there},
    {"shadow_fork", fork_to_a_shadow},
    {"umbra_team_run", run_a_team},
    {"umbra_dispatch_create", make_a_dispatcher},
    {"umbra_dispatch_steps", do_steps},
    {"umbra_blocking", block},
    {"umbra_parallel_reduce", reduce},
};

static const struct row in_fibers[] = {
    {"umbra_spawn", spawn},
    {"umbra_spawn_with", spawn_here},
    {"umbra_task_start", start},
    {"umbra_core_unbound", unbind},
    {"umbra_arbiter_start", handle},
    {"umbra_blocking", block},
    {"umbra_parallel_reduce", reduce},
};

static void check(const struct row *row)
{
    int result = row->call();

    cr_expect_eq(result, -EINVAL, "%s: %d", row->name, result);
}

static void *checks(void *arg)
{
    for (int turn = 0; turn < 2; turn++) /* also when there are fibers to use again */
        for (size_t i = 0; i < sizeof(in_fibers) / sizeof(in_fibers[0]); i++)
            check(&in_fibers[i]);
    return arg;
}

Test(misuse, a_call_without_a_function_is_an_error)
{
    static const struct umbra_topology_options described = {.synthetic = "core:2 pu:1"};
    struct umbra_options options = {.cores = 1};

    cr_assert_eq(umbra_topology_create(&described, &topology), 0);
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (size_t i = 0; i < sizeof(in_threads) / sizeof(in_threads[0]); i++)
        check(&in_threads[i]);
    cr_expect_eq(umbra_runtime_run(runtime, checks, NULL), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
    umbra_topology_destroy(topology);
}
