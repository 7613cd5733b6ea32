/* SPDX-License-Identifier: BSL-1.0 */
/* See forks_rows.h. */
#include "forks_rows.h"

#include "tasks_rows.h"

#define ONCE 1000000 /* rounds between two turns: one turn a run */
#define QUICK_TURNS_EVERY 4

static struct tasks_case serial_case;
static const struct forks_contender *serial, *umbra, *umbra_fibers;
static struct bench_row *serial_row, *umbra_row;

static int serial_run(struct bench_row *row, struct bench_batch *batch)
{
    batch->verified = forks_batch(serial, row->arg, batch->iterations, &batch->ns);
    return 0;
}

static const struct bench_ops serial_ops = {.run = serial_run};

static uint64_t umbra_run(const struct tasks_case *work, uint64_t iterations, uint64_t *ns)
{
    return forks_batch(umbra, work, iterations, ns);
}

static uint64_t umbra_fibers_run(const struct tasks_case *work, uint64_t iterations, uint64_t *ns)
{
    return forks_batch(umbra_fibers, work, iterations, ns);
}

/* Contenders of which a task costs so much that a run of full size takes a minute or more. */
static void make_slow(struct bench_row *row)
{
    row->limit = serial_row;
    if (bench_quick(row->bench))
        return;
    row->cold = true;
    row->every = ONCE;
}

void forks_declare(struct bench *bench, const char *kind, const struct forks_sizes *sizes,
                   const struct forks_contender *calls, const struct forks_contender *tasks,
                   const struct forks_contender *fibers)
{
    struct tasks_case work = {.cores = bench_lists(bench) ? 1 : bench_cpus(bench)};

    work.size = bench_tiny(bench) ? sizes->tiny : bench_quick(bench) ? sizes->quick : sizes->full;
    snprintf(work.kind, sizeof work.kind, "%s", kind);
    serial = calls;
    umbra = tasks;
    umbra_fibers = fibers;
    serial_case = work;
    serial_case.cores = 1;
    serial_row = bench_add(bench, "serial", &serial_ops, &serial_case);
    tasks_state(serial_row, &serial_case);
    umbra_row = tasks_umbra_row(bench, "umbra-task", umbra_run, &work);
    umbra_row->limit = serial_row;
    if (fibers != NULL) {
        struct bench_row *row = tasks_umbra_row(bench, "umbra-fiber", umbra_fibers_run, &work);

        row->every = QUICK_TURNS_EVERY;
        make_slow(row);
    }
    tasks_child_row(bench, "tbb", TASKS_TBB, &work)->limit = serial_row;
    tasks_child_row(bench, "lace", TASKS_LACE, &work)->limit = serial_row;
    tasks_child_row(bench, "libfork", TASKS_LIBFORK, &work)->limit = serial_row;
    tasks_child_row(bench, "citor", TASKS_CITOR, &work)->limit = serial_row;
    tasks_child_row(bench, "fork-union", TASKS_FORK_UNION, &work)->limit = serial_row;
    make_slow(tasks_child_row(bench, "openmp-gomp", TASKS_GOMP, &work));
    make_slow(tasks_child_row(bench, "openmp-llvm", TASKS_LLVM, &work));
}

void forks_remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    if (serial_row->runs && umbra_row->runs)
        fprintf(out, "%8.2f times as fast with tasks on all processors as by calls on one\n",
                bench_quotient(serial_row, umbra_row).median);
}
