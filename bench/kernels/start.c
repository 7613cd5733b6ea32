/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Starts: threads, one for each processor, begin, do nothing, and end: for the first time in a
 * process, and again. And processes of OpenMP that begin and end without regions.
 *
 *   pthreads   pthread_create and pthread_join: the limit
 *   umbra-run  umbra_run of nothing
 *   umbra-team a team, with one run
 *   openmp-*   a parallel region, and a hard pause of the runtime
 *   umbra-omp  the same program under libumbra_omp.so, which sleeps instead of that pause
 *   tbb        parallel_for, and finalize
 */
#define _GNU_SOURCE
#include "child.h"
#include "harness.h"

#include "start_child.h"

#include <stdbool.h>

#define ROUNDS 101
#define ROUNDS_QUICK 15

static const struct {
    const char *name;
    struct child_program program;
    bool processes; /* also measured without regions */
} contenders[] = {
    {"pthreads", {.file = "start-child", .argument = "pthreads"}, false},
    {"umbra-run", {.file = "start-child", .argument = "run"}, false},
    {"umbra-team", {.file = "start-child", .argument = "team"}, false},
    {"openmp-gomp", {.file = "start-child-gomp"}, true},
#ifdef OPENMP_LIBRARY
    {"umbra-omp", {.file = "start-child-gomp", .settings = {"LD_PRELOAD=" OPENMP_LIBRARY}}, true},
#endif
    {"openmp-llvm", {.file = "start-child-llvm"}, false},
    {"tbb", {.file = "start-child-tbb"}, false},
};

#define CONTENDERS (sizeof contenders / sizeof contenders[0])

static int declare(struct bench *bench)
{
    static const char *const times[] = {"first", "again", "process"};
    static struct child_program cases[3][CONTENDERS];

    for (unsigned time = START_FIRST; time <= START_PROCESS; time++) {
        struct bench_row *limit = NULL;

        for (size_t i = 0; i < CONTENDERS; i++) {
            struct child_program *program = &cases[time][i];
            struct bench_row *row;

            if (time == START_PROCESS && !contenders[i].processes)
                continue;
            *program = contenders[i].program;
            program->problem = time;
            row = bench_add(bench, contenders[i].name, &child_ops, program);
            json_object_set_new(row->params, "start", json_string(times[time]));
            row->batch = time != START_AGAIN;
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
