/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The null fork (Hori et al., "Shadow Thread", Table 1): hand a function that only counts to
 * another hardware thread and wait until it has run, each way there is, next to the time a cache
 * line needs to travel there and back. Kept out of the time for every contender alike: whatever it
 * allocates once, threads it starts once, stacks.
 */
#include "child.h"
#include "context_fork.h"
#include "harness.h"
#include "os_handover.h"
#include "ping_pong.h"
#include "shadow_fork.h"

#define ROUNDS 3001
#define ROUNDS_QUICK 301

static const struct child_program gomp = {
    .file = "omp-child-gomp",
    .settings = {"OMP_NUM_THREADS=2", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",
                 "OMP_WAIT_POLICY=active", "GOMP_SPINCOUNT=infinite"}};

static const struct child_program llvm = {
    .file = "omp-child-llvm",
    .settings = {"OMP_NUM_THREADS=2", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",
                 "OMP_WAIT_POLICY=active", "KMP_BLOCKTIME=infinite"}};

static const struct child_program tbb = {.file = "tbb-child", .argument = "run-wait"};
static const struct child_program tbb_elsewhere = {.file = "tbb-child", .argument = "elsewhere"};

static const struct umbra_wait_options spin = {.mode = UMBRA_WAIT_SPIN};
static const struct umbra_wait_options two_phase = {.mode = UMBRA_WAIT_TWO_PHASE};
static const struct umbra_wait_options park = {.mode = UMBRA_WAIT_PARK};

/* One a back end: its contender name, and a wait that uses it at once and nothing else. */
static char backend_names[UMBRA_BACKEND_COUNT][32];
static struct umbra_wait_options backend_waits[UMBRA_BACKEND_COUNT];

static struct bench_row *add_limited(struct bench *bench, const char *name,
                                     const struct bench_ops *ops, const void *arg,
                                     struct bench_row *limit)
{
    struct bench_row *row = bench_add(bench, name, ops, arg);

    row->limit = limit;
    return row;
}

/* A row for each back end this architecture has code for; open() refuses those that cannot run. */
static void add_backends(struct bench *bench, struct bench_row *limit)
{
    const struct um_wait_report *report = um_wait_report();

    for (int i = 0; i < UMBRA_BACKEND_COUNT; i++) {
        const char *backend = report->backend[i].name;

        if (!report->backend[i].compiled)
            continue;
        snprintf(backend_names[i], sizeof backend_names[i], "shadow-%s", backend);
        backend_waits[i] =
            (struct umbra_wait_options){.mode = UMBRA_WAIT_MONITOR, .backend = backend};
        add_limited(bench, backend_names[i], &shadow_fork_ops, &backend_waits[i], limit);
    }
}

static int declare(struct bench *bench)
{
    struct bench_row *limit = ping_pong_add(bench);

    add_limited(bench, "shadow-spin", &shadow_fork_ops, &spin, limit);
    add_limited(bench, "shadow-two-phase", &shadow_fork_ops, &two_phase, limit);
    add_limited(bench, "shadow-park", &shadow_fork_ops, &park, limit);
    add_backends(bench, limit);
    add_limited(bench, "pthread-create", &pthread_create_ops, NULL, limit);
    add_limited(bench, "pthread-cond", &pthread_cond_ops, NULL, limit);
    add_limited(bench, "futex", &futex_ops, NULL, limit);
    bench_state_timed(add_limited(bench, "ucontext", &ucontext_ops, NULL, limit),
                      "makecontext, swapcontext, end of the function");
    bench_state_timed(add_limited(bench, "boost-context", &boost_context_ops, NULL, limit),
                      "make_fcontext, jump_fcontext, jump_fcontext");
    add_limited(bench, "openmp-gomp", &child_ops, &gomp, limit);
    add_limited(bench, "openmp-llvm", &child_ops, &llvm, limit);
    bench_state_timed(add_limited(bench, "tbb", &child_ops, &tbb, limit),
                      "task_group run, wait; arena of two bound threads");
    bench_state_timed(add_limited(bench, "tbb-elsewhere", &child_ops, &tbb_elsewhere, limit),
                      "task_group run, spin until it has run, wait; arena of two bound threads");
    return 0;
}

/* How many times as long as a shadow a contender takes, by the median over rounds. */
static void compare(const struct bench *bench, FILE *out, const char *name, const char *note)
{
    const struct bench_row *shadow = bench_find(bench, "shadow-spin");
    const struct bench_row *row = bench_find(bench, name);

    if (shadow != NULL && row != NULL)
        fprintf(out, "%8.1f times the time of shadow-spin: %s%s\n",
                bench_quotient(row, shadow).median, name, note);
}

static void remark(const struct bench *bench, FILE *out)
{
    compare(bench, out, "pthread-create", " (in the paper 1135)");
    compare(bench, out, "ucontext", ", which stays on one processor (in the paper 46)");
    compare(bench, out, "openmp-gomp", "");
    compare(bench, out, "openmp-llvm", "");
    compare(bench, out, "tbb", ", whose caller runs most functions itself, at the wait");
    compare(bench, out, "tbb-elsewhere", ", which leaves them to the other thread");
    fprintf(out,
            "The paper's Tables 1 and 2, on SMT siblings of a Xeon X5560 at 2.8 GHz, in cycles:\n"
            "pthread 65844, ucontext 2648, monitor/mwait alone 2879, two-phase 70 to 74, "
            "spin 58.\n");
}

static const struct bench_kernel kernel = {
    .name = "null-fork",
    .about = "hand a null function to another hardware thread and wait for it",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
