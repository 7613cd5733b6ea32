/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The null task: functions that only count, handed out one by one. A sample is the wall time of a
 * batch by the number of its functions, with all cores at work.
 *
 *   umbra-dispatch                a range at grain 1, pulled by the workers of a dispatcher
 *   umbra-task                    a task each, forked and joined by one fiber
 *   openmp-*, tbb                 schedule(dynamic, 1); a parallel_for at grain 1
 *   openmp-*-task, lace           a task each, made by one thread
 */
#include <stdlib.h>

#include <umbra/dispatch.h>
#include <umbra/task.h>

#include "tasks_rows.h"

#define TASKS 10000
#define TASKS_TINY 100
#define ROUNDS 301
#define ROUNDS_QUICK 101

enum { DISPATCH, TASK, GOMP, GOMP_TASK, LLVM, LLVM_TASK, TBB, LACE, CONTENDERS };

static struct bench_row *rows[3][CONTENDERS]; /* by cores */

/* ---- a dispatcher ---- */

static int null_function(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    uint64_t *count = worker->state;

    (void)arg;
    *count += value.end - value.begin;
    return 0;
}

static uint64_t dispatch_null(const struct tasks_case *work, uint64_t iterations, uint64_t *ns)
{
    static struct {
        uint64_t count __attribute__((aligned(BENCH_LINES_ALIGN)));
    } workers[2];
    static void *const states[] = {&workers[0], &workers[1]};
    struct umbra_dispatch_options options = {
        .fn = null_function, .states = states, .workers = work->cores};
    struct umbra_dispatch *dispatch;
    uint64_t begin;
    int error = 0;

    workers[0].count = workers[1].count = 0;
    if (umbra_dispatch_create(NULL, &options, &dispatch) != 0)
        return 0;
    begin = bench_now_ns();
    for (uint64_t i = 0; i < iterations && error == 0; i++) {
        int queued;

        umbra_dispatch_begin(dispatch); /* the one before was ended */
        queued = umbra_dispatch_range(dispatch, 0, work->size, 1);
        error = umbra_dispatch_end(dispatch);
        error = error == 0 ? queued : error;
    }
    *ns = bench_now_ns() - begin;
    umbra_dispatch_destroy(dispatch);
    return workers[0].count + workers[1].count;
}

/* ---- tasks ---- */

struct null_task {
    struct umbra_task task;
    uint64_t count;
};

static void counts(void *arg)
{
    ((struct null_task *)arg)->count++;
}

static uint64_t task_null(const struct tasks_case *work, uint64_t iterations, uint64_t *ns)
{
    struct null_task *tasks = calloc(work->size, sizeof(*tasks));
    uint64_t begin = bench_now_ns();
    uint64_t counted = 0;

    if (tasks == NULL)
        return 0;
    for (uint64_t i = 0; i < iterations; i++) {
        for (unsigned k = 0; k < work->size; k++)
            umbra_task_fork(&tasks[k].task, counts, &tasks[k]);
        for (unsigned k = work->size; k-- > 0;)
            umbra_task_join_with(&tasks[k].task, counts, &tasks[k]);
    }
    *ns = bench_now_ns() - begin;
    for (unsigned k = 0; k < work->size; k++)
        counted += tasks[k].count;
    free(tasks);
    return counted;
}

/* ---- rows ---- */

static void add_rows(struct bench *bench, unsigned cores)
{
    unsigned size = bench_tiny(bench) ? TASKS_TINY : TASKS;
    struct tasks_case loop = {.kind = "for", .size = size, .cores = cores};
    struct tasks_case each = {.kind = "task", .size = size, .cores = cores};
    struct bench_row **row = rows[cores];

    row[DISPATCH] = tasks_umbra_row(bench, "umbra-dispatch", dispatch_null, &loop);
    row[TASK] = tasks_umbra_row(bench, "umbra-task", task_null, &each);
    row[GOMP] = tasks_child_row(bench, "openmp-gomp", TASKS_GOMP, &loop);
    row[GOMP_TASK] = tasks_child_row(bench, "openmp-gomp-task", TASKS_GOMP, &each);
    row[LLVM] = tasks_child_row(bench, "openmp-llvm", TASKS_LLVM, &loop);
    row[LLVM_TASK] = tasks_child_row(bench, "openmp-llvm-task", TASKS_LLVM, &each);
    row[TBB] = tasks_child_row(bench, "tbb", TASKS_TBB, &loop);
    row[LACE] = tasks_child_row(bench, "lace", TASKS_LACE, &each);
}

static int declare(struct bench *bench)
{
    for (unsigned cores = 1; cores <= 2; cores++)
        add_rows(bench, cores);
    return 0;
}

static void remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    for (int other = GOMP; rows[2][DISPATCH]->runs && other < CONTENDERS; other++)
        if (rows[2][other]->runs)
            fprintf(out, "%8.2f times the time of %s, on two cores: umbra-dispatch\n",
                    bench_quotient(rows[2][DISPATCH], rows[2][other]).median, rows[2][other]->name);
}

static const struct bench_kernel kernel = {
    .name = "dispatch",
    .about = "hand out functions that do nothing, one by one",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .batch = 1,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
