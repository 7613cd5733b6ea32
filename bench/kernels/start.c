/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Starts: threads, one for each processor, begin, do nothing, and end: for the first time in a
 * process, and again.
 *
 *   pthreads   pthread_create and pthread_join: the limit
 *   umbra-run  umbra_run of nothing
 *   umbra-team a team, with one run
 *   openmp-*   a parallel region, and a hard pause of the runtime
 *   tbb        parallel_for, and finalize
 */
#define _GNU_SOURCE
#include "child.h"
#include "harness.h"

#include "start_child.h"

#define ROUNDS 101
#define ROUNDS_QUICK 15

static const struct child_program programs[] = {{.file = "start-child", .argument = "pthreads"},
                                                {.file = "start-child", .argument = "run"},
                                                {.file = "start-child", .argument = "team"},
                                                {.file = "start-child-gomp"},
                                                {.file = "start-child-llvm"},
                                                {.file = "start-child-tbb"}};

#define PROGRAMS (sizeof programs / sizeof programs[0])

static int declare(struct bench *bench)
{
    static const char *const names[PROGRAMS] = {"pthreads",    "umbra-run",   "umbra-team",
                                                "openmp-gomp", "openmp-llvm", "tbb"};
    static const char *const times[] = {"first", "again"};
    static struct child_program cases[2][PROGRAMS];

    for (unsigned time = START_FIRST; time <= START_AGAIN; time++) {
        struct bench_row *limit = NULL;

        for (size_t i = 0; i < PROGRAMS; i++) {
            struct bench_row *row = bench_add(bench, names[i], &child_ops, &cases[time][i]);

            cases[time][i] = programs[i];
            cases[time][i].problem = time;
            json_object_set_new(row->params, "start", json_string(times[time]));
            row->batch = time == START_FIRST;
            row->limit = limit;
            limit = limit ? limit : row;
        }
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "start",
    .about = "start threads that do nothing, and end them: first and again",
    .cpus = 1,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
