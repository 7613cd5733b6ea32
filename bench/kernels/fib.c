/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Fibonacci numbers by recursion, where each call that is not a leaf forks a task for one half and
 * calls the other: what a task costs that nobody takes, next to the same recursion by calls that
 * cannot be inlined. serial-apart is that recursion on two processors at once, each by itself: what
 * the machine gives to two. Contenders run on one processor and on all. A sample is the time of a whole run by the number of calls. Contenders
 * whose tasks cost some 20 times as much compute a smaller number.
 */
#include <umbra/task.h>

#include "tasks_rows.h"

#define N 35
#define N_OTHERS 25
#define N_TINY 12
#define ROUNDS 101
#define ROUNDS_QUICK 13

static struct bench_row *serial_row;
static struct bench_row *apart_row;
static struct bench_row *umbra_rows[2]; /* on one processor, and on all */

/* The barriers keep the compiler from making a loop of one of the two calls. */
__attribute__((noinline)) static long serial(int n)
{
    long one;
    long two;

    if (n < 2)
        return n;
    one = serial(n - 1);
    __asm__ volatile("" : "+r"(one));
    two = serial(n - 2);
    __asm__ volatile("" : "+r"(two));
    return one + two;
}

/* One processor's share of a batch. */
struct share {
    const struct tasks_case *work;
    uint64_t iterations, verified;
};

static void *serial_share(void *arg)
{
    struct share *share = arg;

    for (uint64_t i = 0; i < share->iterations; i++)
        if ((uint64_t)serial((int)share->work->size) == tasks_fib(share->work->size))
            share->verified += tasks_calls(share->work->size);
    return NULL;
}

static int serial_run(struct bench_row *row, struct bench_batch *batch)
{
    struct share all = {.work = row->arg, .iterations = batch->iterations};
    uint64_t begin = bench_now_ns();

    serial_share(&all);
    batch->ns = bench_now_ns() - begin;
    batch->verified = all.verified;
    return 0;
}

static const struct bench_ops serial_ops = {.run = serial_run};

/* Each runs all of it as often as is asked, so a batch of both is twice as much. */
static int apart_run(struct bench_row *row, struct bench_batch *batch)
{
    struct share own = {.work = row->arg, .iterations = batch->iterations}, other = own;
    uint64_t begin = bench_now_ns();
    pthread_t thread;
    int error = bench_thread(&thread, row->cpus[1], serial_share, &other);

    if (error != 0)
        return error;
    serial_share(&own);
    pthread_join(thread, NULL);
    batch->ns = bench_now_ns() - begin;
    batch->verified = own.verified + other.verified;
    return 0;
}

static const struct bench_ops apart_ops = {.run = apart_run};

/* ---- tasks ---- */

struct half {
    struct umbra_task task;
    int n;
    long result;
};

static inline long fib(int n);

static void fib_task(void *arg)
{
    struct half *half = arg;

    half->result = fib(half->n);
}

static inline long fib(int n)
{
    struct half two;
    long one;

    if (n < 2)
        return n;
    two.n = n - 2;
    umbra_task_fork(&two.task, fib_task, &two);
    one = fib(n - 1);
    umbra_task_join_with(&two.task, fib_task, &two);
    return one + two.result;
}

static uint64_t umbra_fib(const struct tasks_case *work, uint64_t iterations, uint64_t *ns)
{
    uint64_t begin = bench_now_ns();
    uint64_t verified = 0;

    for (uint64_t i = 0; i < iterations; i++)
        if ((uint64_t)fib((int)work->size) == tasks_fib(work->size))
            verified += tasks_calls(work->size);
    *ns = bench_now_ns() - begin;
    return verified;
}

static int declare(struct bench *bench)
{
    static struct tasks_case own = {.kind = "fib", .size = N, .cores = 1};
    struct tasks_case others = {.kind = "fib", .size = N_OTHERS};
    struct tasks_case two = {.kind = "fib", .size = N, .cores = 2};

    if (bench_tiny(bench))
        own.size = others.size = two.size = N_TINY;
    serial_row = bench_add(bench, "serial", &serial_ops, &own);
    tasks_state(serial_row, &own);
    apart_row = bench_add(bench, "serial-apart", &apart_ops, &own);
    apart_row->limit = serial_row;
    tasks_state(apart_row, &two);
    apart_row->parts *= 2;
    for (unsigned all = 0; all <= 1; all++) {
        unsigned cores = all ? bench_cpus(bench) : 1;
        struct tasks_case work = {.kind = "fib", .size = own.size, .cores = cores};

        others.cores = cores;
        umbra_rows[all] = tasks_umbra_row(bench, "umbra-task", umbra_fib, &work);
        umbra_rows[all]->limit = serial_row;
        tasks_child_row(bench, "openmp-gomp", TASKS_GOMP, &others)->limit = serial_row;
        tasks_child_row(bench, "openmp-llvm", TASKS_LLVM, &others)->limit = serial_row;
        tasks_child_row(bench, "tbb", TASKS_TBB, &others)->limit = serial_row;
        tasks_child_row(bench, "lace", TASKS_LACE, &work)->limit = serial_row;
        tasks_child_row(bench, "libfork", TASKS_LIBFORK, &work)->limit = serial_row;
        tasks_child_row(bench, "citor", TASKS_CITOR, &work)->limit = serial_row;
        tasks_child_row(bench, "fork-union", TASKS_FORK_UNION, &work)->limit = serial_row;
    }
    return 0;
}

static void remark(const struct bench *bench, FILE *out)
{
    if (serial_row->runs && apart_row->runs)
        fprintf(out, "%8.2f times as fast on two processors apart as on one: serial\n",
                bench_quotient(serial_row, apart_row).median);
    if (umbra_rows[0]->runs && umbra_rows[1]->runs)
        fprintf(out, "%8.2f times as fast on %u processors as on one: umbra-task\n",
                bench_quotient(umbra_rows[0], umbra_rows[1]).median, bench_cpus(bench));
}

static const struct bench_kernel kernel = {
    .name = "fib",
    .about = "fork a task for each second call of a recursion",
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
