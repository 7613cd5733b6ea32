/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The null task: functions that only count, handed out one by one. A sample is the wall time of a
 * batch by the number of its functions, on one processor and on all.
 *
 *   umbra-dispatch                a range at grain 1, pulled by the workers of a dispatcher
 *   umbra-dispatch-pure           the paper's own dispatcher (examples/heat/h_dispatch.h), on ports
 *   umbra-task                    a task each, forked and joined by one fiber
 *   openmp-*, tbb                 schedule(dynamic, 1); a parallel_for at grain 1
 *   openmp-*-task, lace           a task each, made by one thread
 */
#include <stdlib.h>

#include <h_dispatch.h>
#include <umbra/dispatch.h>
#include <umbra/task.h>

#include "tasks_rows.h"

#define TASKS 10000
#define TASKS_TINY 100
#define ROUNDS 301
#define ROUNDS_QUICK 101

enum { DISPATCH, PURE, TASK, GOMP, GOMP_TASK, LLVM, LLVM_TASK, TBB, LACE, CONTENDERS };

static struct bench_row *rows[CONTENDERS]; /* on all processors */

/* ---- a dispatcher ---- */

/* What each worker has processed. */
static struct {
    uint64_t count __attribute__((aligned(BENCH_LINES_ALIGN)));
} workers[BENCH_MAX_CPUS];

static uint64_t count_all(void)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < BENCH_MAX_CPUS; i++) {
        all += workers[i].count;
        workers[i].count = 0;
    }
    return all;
}

static int null_function(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)arg;
    workers[worker->index].count += value.end - value.begin;
    return 0;
}

static uint64_t dispatch_null(const struct tasks_case *work, uint64_t iterations, uint64_t *ns)
{
    struct umbra_dispatch_options options = {.fn = null_function, .workers = work->cores};
    struct umbra_dispatch *dispatch;
    uint64_t begin;
    int error = 0;

    if (umbra_dispatch_create(NULL, &options, &dispatch) != 0)
        return 0;
    begin = bench_now_ns();
    for (uint64_t i = 0; i < iterations && error == 0; i++) {
        int queued;

        umbra_dispatch_begin(dispatch); /* the one before was ended */
        queued = umbra_dispatch_range(dispatch, 0, work->size, 1);
        error = umbra_dispatch_end(dispatch, UMBRA_NEVER);
        error = error == 0 ? queued : error;
    }
    *ns = bench_now_ns() - begin;
    umbra_dispatch_destroy(dispatch);
    return count_all();
}

/* ---- the paper's own dispatcher ---- */

static void pure_function(struct h_worker_state *worker, size_t value)
{
    (void)value;
    workers[worker->index].count++;
}

static size_t pure_values(size_t step, void *arg)
{
    (void)step;
    return ((const struct tasks_case *)arg)->size;
}

static uint64_t pure_null(const struct tasks_case *work, uint64_t iterations, uint64_t *ns)
{
    struct h_options options = {.fn = pure_function,
                                .values = pure_values,
                                .arg = (void *)work,
                                .steps = iterations,
                                .values_most = work->size,
                                .workers = work->cores};
    uint64_t begin = bench_now_ns();

    if (h_dispatch_run(&options) != 0)
        return 0;
    *ns = bench_now_ns() - begin;
    return count_all();
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

/* Those of the last number of processors are kept. */
static void add_rows(struct bench *bench, unsigned cores)
{
    unsigned size = bench_tiny(bench) ? TASKS_TINY : TASKS;
    struct tasks_case loop = {.kind = "for", .size = size, .cores = cores};
    struct tasks_case each = {.kind = "task", .size = size, .cores = cores};

    rows[DISPATCH] = tasks_umbra_row(bench, "umbra-dispatch", dispatch_null, &loop);
    rows[PURE] = tasks_umbra_row(bench, "umbra-dispatch-pure", pure_null, &loop);
    rows[TASK] = tasks_umbra_row(bench, "umbra-task", task_null, &each);
    rows[GOMP] = tasks_child_row(bench, "openmp-gomp", TASKS_GOMP, &loop);
    rows[GOMP_TASK] = tasks_child_row(bench, "openmp-gomp-task", TASKS_GOMP, &each);
    rows[LLVM] = tasks_child_row(bench, "openmp-llvm", TASKS_LLVM, &loop);
    rows[LLVM_TASK] = tasks_child_row(bench, "openmp-llvm-task", TASKS_LLVM, &each);
    rows[TBB] = tasks_child_row(bench, "tbb", TASKS_TBB, &loop);
    rows[LACE] = tasks_child_row(bench, "lace", TASKS_LACE, &each);
}

static int declare(struct bench *bench)
{
    add_rows(bench, 1);
    add_rows(bench, bench_cpus(bench));
    return 0;
}

static void remark(const struct bench *bench, FILE *out)
{
    for (int other = PURE; rows[DISPATCH]->runs && other < CONTENDERS; other++)
        if (rows[other]->runs && other != TASK)
            fprintf(out, "%8.2f times the time of %s, on %u processors: umbra-dispatch\n",
                    bench_quotient(rows[DISPATCH], rows[other]).median, rows[other]->name,
                    bench_cpus(bench));
}

static const struct bench_kernel kernel = {
    .name = "dispatch",
    .about = "hand out functions that do nothing, one by one",
    .cpus = 2,
    .all_cpus = true,
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
