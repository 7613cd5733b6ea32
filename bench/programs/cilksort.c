/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cilksort (examples/cilksort) on all processors: 3,000,000 numbers (--quick: 300,000), random, sorted
 * and reversed, and not divided when they are 2,048 or fewer. Every runtime is a process of its own
 * that is stopped between its turns; its rows share it. An MPI row's sample is a run of its own.
 *
 *   qsort          the limit: the C library's, on one processor
 *   serial         the same steps as calls, on one processor
 *   umbra-task     tasks, unless a first look finds all in order, or in the opposite order; cores that
 *                  wait for work do not sleep
 *   openmp-gomp    the same tasks; threads that wait do not sleep
 *   openmp-llvm
 *   tbb            parallel_sort, which is another algorithm: it looks first whether there is anything
 *                  to sort
 *   mpi-in-process the three MPI programs, all tasks in one process
 *   mpi-process    the same, each task a process: of fewer numbers, since it takes so long
 */
#include "child.h"
#include "cilksort_case.h"
#include "harness.h"
#include "mpi_sort.h"

#include <math.h>
#include <stdlib.h>

#include <input.h>

#define ROUNDS 21
#define ROUNDS_QUICK 7
#define ARGUMENT_BYTES 24
#define PROCESS_NUMBERS 20000 /* of mpi-process */
#define PROCESS_NUMBERS_TINY 2000
#define CUTOFF 2048

enum runtime { HERE, UMBRA, GOMP, LLVM, TBB, RUNTIMES };

#define OPENMP_SETTINGS                                                                            \
    "OMP_NUM_THREADS=%u", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",             \
        "OMP_WAIT_POLICY=active"

static struct child_process *processes[RUNTIMES];

static const struct child_program runtimes[RUNTIMES] = {
    [HERE] = {.file = "cilksort-child", .shared = &processes[HERE]},
    [UMBRA] = {.file = "cilksort-child", .shared = &processes[UMBRA]},
    [GOMP] = {.file = "cilksort-child-gomp",
              .settings = {OPENMP_SETTINGS, "GOMP_SPINCOUNT=infinite"},
              .shared = &processes[GOMP]},
    [LLVM] = {.file = "cilksort-child-llvm",
              .settings = {OPENMP_SETTINGS, "KMP_BLOCKTIME=infinite"},
              .shared = &processes[LLVM]},
    [TBB] = {.file = "cilksort-child-tbb", .shared = &processes[TBB]},
};

/* The limit first; then ours; then those that it is compared with. */
static const struct contender {
    const char *name;
    enum runtime runtime;
    enum cilksort_way way;
} contenders[] = {
    {"qsort", HERE, WAY_QSORT},        {"serial", HERE, WAY_SERIAL},
    {"umbra-task", UMBRA, WAY_UMBRA},  {"openmp-gomp", GOMP, WAY_OPENMP},
    {"openmp-llvm", LLVM, WAY_OPENMP}, {"tbb", TBB, WAY_TBB},
};

#define CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

enum { OURS = 2, OTHERS };

static struct bench_row *rows[INPUTS][CONTENDERS];
static struct bench_row *inside_rows[INPUTS], *process_rows[INPUTS];
static char argument[ARGUMENT_BYTES];

static struct bench_row *add(struct bench *bench, const struct contender *contender,
                             enum input input, size_t count)
{
    struct cilksort_case what = {.way = contender->way, .input = input};
    struct child_program *program = malloc(sizeof(*program));
    struct bench_row *row;

    if (program == NULL) {
        fprintf(stderr, "cilksort: out of memory\n");
        exit(BENCH_FAILED);
    }
    *program = runtimes[contender->runtime];
    program->argument = argument;
    program->problem = cilksort_case_pack(&what);
    row = bench_add(bench, contender->name, &child_ops, program);
    json_object_set_new(row->params, "n", json_integer((json_int_t)count));
    json_object_set_new(row->params, "input", json_string(input_name(input)));
    row->batch = 1;
    return row;
}

static struct bench_row *add_mpi(struct bench *bench, const char *name, enum input input,
                                 size_t count, long limit)
{
    struct mpi_sort sort = {
        .count = count, .cutoff = CUTOFF, .input = input_name(input), .seed = 1, .limit = limit};

    return mpi_sort_row(bench, name, &sort);
}

static int declare(struct bench *bench)
{
    size_t count = bench_tiny(bench) ? 20000 : bench_quick(bench) ? 300000 : 3000000;

    snprintf(argument, sizeof(argument), "%zu", count);
    for (int input = RANDOM; input < INPUTS; input++) {
        for (size_t c = 0; c < CONTENDERS; c++) {
            rows[input][c] = add(bench, &contenders[c], (enum input)input, count);
            if (c > 0)
                rows[input][c]->limit = rows[input][0];
        }
        inside_rows[input] =
            add_mpi(bench, "mpi-in-process", (enum input)input, count, MPI_SORT_NO_LIMIT);
        inside_rows[input]->limit = rows[input][0];
        process_rows[input] = add_mpi(bench, "mpi-process", (enum input)input,
                                      bench_tiny(bench) ? PROCESS_NUMBERS_TINY : PROCESS_NUMBERS,
                                      MPI_SORT_NO_LIBRARY);
    }
    return 0;
}

static double tasks_of(const struct bench_row *row)
{
    return (double)((const struct mpi_sort *)row->arg)->tasks;
}

/* A process's price for as many tasks as there were in one process: the paper's gain. */
static void remark_mpi(enum input input, FILE *out)
{
    const struct bench_row *inside = inside_rows[input], *process = process_rows[input];
    double scaled;

    if (!inside->runs || !process->runs)
        return;
    scaled = bench_summary_of(process).median * tasks_of(inside) / tasks_of(process);
    fprintf(out,
            "%8.2f %% less time than %.1f s, which is mpi-process's time a task times %.0f tasks: "
            "%s, %s\n",
            100 * (1 - bench_summary_of(inside).median / scaled), scaled / 1e9, tasks_of(inside),
            inside->name, input_name(input));
}

/* For each input, the best of the others, as a half of the rounds has it for the other half. */
static void remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    for (int input = RANDOM; input < INPUTS; input++) {
        struct bench_row *const *others = rows[input] + OTHERS;
        const struct bench_row *best = bench_best(others, CONTENDERS - OTHERS);
        struct bench_summary quotient;

        remark_mpi((enum input)input, out);
        if (!rows[input][OURS]->runs || !best)
            continue;
        quotient = bench_quotient_of_best(rows[input][OURS], others, CONTENDERS - OTHERS);
        if (!isnan(quotient.median)) /* of a single round there are no halves */
            fprintf(out, "%8.2f (%.2f to %.2f) times the time of the best of the others: %s, %s\n",
                    quotient.median, quotient.low, quotient.high, rows[input][OURS]->name,
                    input_name((enum input)input));
    }
}

static const struct bench_kernel kernel = {
    .name = "cilksort",
    .about = "a sort by tasks that are made while it runs",
    .cpus = 2,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
