/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An OpenMP program of gcc's under libgomp and under libumbra_omp.so, and of clang's under libomp and
 * under that: one construct a row, two threads on two processors. Active: threads are bound, and wait
 * for ever; else the library has its own way to wait. The limit of a row is libgomp's.
 */
#include "child.h"
#include "harness.h"
#include "openmp_case.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 101
#define ROUNDS_QUICK 11

#define SETTINGS "OMP_NUM_THREADS=%u", "OMP_DYNAMIC=false"

#define ACTIVE "OMP_PROC_BIND=close", "OMP_PLACES=%d", "OMP_WAIT_POLICY=active"

/* The first one is the limit. */
static const struct library {
    const char *name, *file, *settings[CHILD_MAX_SETTINGS];
} libraries[] = {
    {"openmp-gomp", "openmp-child-gomp", {SETTINGS}},
    {"umbra-omp", "openmp-child-gomp", {SETTINGS, "LD_PRELOAD=" OPENMP_LIBRARY}},
    {"openmp-gomp-active", "openmp-child-gomp", {SETTINGS, ACTIVE, "GOMP_SPINCOUNT=infinite"}},
    {"openmp-llvm-active", "openmp-child-llvm", {SETTINGS, ACTIVE, "KMP_BLOCKTIME=infinite"}},
    {"umbra-omp-clang", "openmp-child-llvm", {SETTINGS, "LD_PRELOAD=" OPENMP_LIBRARY}},
};

enum { LIBRARIES = sizeof(libraries) / sizeof(*libraries) };

static int declare(struct bench *bench)
{
    static struct child_process *processes[LIBRARIES];
    static struct child_program programs[OPENMP_PROBLEMS][LIBRARIES];
    static char names[OPENMP_PROBLEMS][LIBRARIES][32];

    for (unsigned i = 0; i < OPENMP_PROBLEMS; i++) {
        struct bench_row *limit = NULL;

        for (unsigned j = 0; j < LIBRARIES; j++) {
            const struct library *library = &libraries[j];
            char *name = names[i][j];
            struct bench_row *row;

            programs[i][j] = (struct child_program){
                .file = library->file, .problem = i, .shared = &processes[j]};
            memcpy(programs[i][j].settings, library->settings, sizeof(library->settings));
            snprintf(name, sizeof(names[i][j]), "%s-%s", library->name, openmp_names[i]);
            row = bench_add(bench, name, &child_ops, &programs[i][j]);
            row->limit = limit;
            limit = j == 0 ? row : limit;
        }
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "openmp",
    .about = "constructs of OpenMP, under libgomp, libumbra_omp.so and libomp",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
