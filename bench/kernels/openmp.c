/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An OpenMP program under libgomp, gcc's runtime, and under libumbra_omp.so: one construct a row,
 * two threads on two processors, each library with its own way to wait. The limit of a row is
 * libgomp's.
 */
#include "child.h"
#include "harness.h"
#include "openmp_case.h"

#include <stdio.h>

#define ROUNDS 101
#define ROUNDS_QUICK 11

#define SETTINGS "OMP_NUM_THREADS=%u", "OMP_DYNAMIC=false"

static struct child_process *processes[2];

static int declare(struct bench *bench)
{
    static struct child_program programs[OPENMP_PROBLEMS][2];
    static char names[OPENMP_PROBLEMS][2][32];

    for (unsigned i = 0; i < OPENMP_PROBLEMS; i++) {
        struct bench_row *limit = NULL;

        for (unsigned umbra = 0; umbra < 2; umbra++) {
            struct child_program *program = &programs[i][umbra];
            struct bench_row *row;

            *program = (struct child_program){.file = "openmp-child",
                                              .settings = {SETTINGS},
                                              .problem = i,
                                              .shared = &processes[umbra]};
            if (umbra)
                program->settings[2] = "LD_PRELOAD=" OPENMP_LIBRARY;
            snprintf(names[i][umbra], sizeof(names[i][umbra]), "%s-%s",
                     umbra ? "umbra-omp" : "openmp-gomp", openmp_names[i]);
            row = bench_add(bench, names[i][umbra], &child_ops, program);
            row->limit = limit;
            limit = row;
        }
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "openmp",
    .about = "constructs of OpenMP, under libgomp and under libumbra_omp.so",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
