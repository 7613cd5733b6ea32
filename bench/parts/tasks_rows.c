/* SPDX-License-Identifier: BSL-1.0 */
/* See tasks_rows.h. */
#include "tasks_rows.h"

#include <stdlib.h>
#include <string.h>

#include <umbra.h>

#include "child.h"
#include "forks.h"
#include "in_fiber.h"

#define ARGUMENT_BYTES 48

static void *allocate(size_t bytes)
{
    void *at = calloc(1, bytes);

    if (at == NULL) {
        fprintf(stderr, "bench: out of memory\n");
        exit(BENCH_FAILED);
    }
    return at;
}

void tasks_state(struct bench_row *row, const struct tasks_case *work)
{
    bool null = tasks_are_null(work), leaves = strcmp(work->kind, "skynet") == 0;

    row->parts = null ? work->size : forks_parts(work);
    json_object_set_new(row->params,
                        null     ? "tasks"
                        : leaves ? "leaves"
                                 : "n",
                        json_integer(work->size));
    json_object_set_new(row->params, "cores", json_integer(work->cores));
}

struct bench_row *tasks_child_row(struct bench *bench, const char *name, enum tasks_runtime runtime,
                                  const struct tasks_case *work)
{
    static const struct child_program children[] = {
        [TASKS_GOMP] = {.file = "tasks-child-gomp",
                        .settings = {"OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",
                                     "OMP_WAIT_POLICY=active", "GOMP_SPINCOUNT=infinite"}},
        [TASKS_LLVM] = {.file = "tasks-child-llvm",
                        .settings = {"OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",
                                     "OMP_WAIT_POLICY=active", "KMP_BLOCKTIME=infinite"}},
        [TASKS_TBB] = {.file = "tasks-child-tbb"},
        [TASKS_LACE] = {.file = "tasks-child-lace"},
        [TASKS_LIBFORK] = {.file = "tasks-child-libfork"},
        [TASKS_CITOR] = {.file = "tasks-child-citor"},
        [TASKS_FORK_UNION] = {.file = "tasks-child-fork-union"},
    };
    struct child_program *program = allocate(sizeof(*program));
    char *argument = allocate(ARGUMENT_BYTES);
    struct bench_row *row = bench_add(bench, name, &child_ops, program);

    *program = children[runtime];
    program->argument = argument;
    snprintf(argument, ARGUMENT_BYTES, "%s:%u:%u", work->kind, work->size, work->cores);
    tasks_state(row, work);
    return row;
}

/* ---- Umbra ---- */

struct umbra_case {
    tasks_fiber_fn *fn;
    struct tasks_case work;
};

struct turn {
    const struct umbra_case *what;
    struct bench_batch *batch;
};

static int umbra_start(struct bench_row *row)
{
    const struct umbra_case *what = row->arg;

    return in_fiber_cores(row->bench, what->work.cores, (struct umbra_runtime **)&row->state);
}

static void *turn_fiber(void *arg)
{
    struct turn *turn = arg;

    turn->batch->verified =
        turn->what->fn(&turn->what->work, turn->batch->iterations, &turn->batch->ns);
    return NULL;
}

static int umbra_turn(struct bench_row *row, struct bench_batch *batch)
{
    struct turn turn = {.what = row->arg, .batch = batch};

    return in_fiber(row->state, turn_fiber, &turn);
}

static void umbra_stop(struct bench_row *row)
{
    umbra_runtime_destroy(row->state);
}

static const struct bench_ops umbra_ops = {
    .start = umbra_start,
    .run = umbra_turn,
    .stop = umbra_stop,
};

struct bench_row *tasks_umbra_row(struct bench *bench, const char *name, tasks_fiber_fn *fn,
                                  const struct tasks_case *work)
{
    struct umbra_case *what = allocate(sizeof(*what));
    struct bench_row *row = bench_add(bench, name, &umbra_ops, what);

    *what = (struct umbra_case){.fn = fn, .work = *work};
    tasks_state(row, work);
    return row;
}
