/* SPDX-License-Identifier: BSL-1.0 */
/* See program_rows.h. */
#include "program_rows.h"

#include <stdlib.h>

#include "apsp_case.h"
#include "child.h"

#define ARGUMENT_BYTES 64

static struct child_program *new_program(const struct child_program *like)
{
    struct child_program *program = malloc(sizeof(*program));
    char *argument = malloc(ARGUMENT_BYTES);

    if (program == NULL || argument == NULL) {
        fprintf(stderr, "bench: out of memory\n");
        exit(BENCH_FAILED);
    }
    *program = *like;
    program->argument = argument;
    return program;
}

static void state(struct bench_row *row, const char *key, size_t value)
{
    json_object_set_new(row->params, key, json_integer((json_int_t)value));
}

struct bench_row *gauss_row(struct bench *bench, const char *name, const struct gauss_case *gauss)
{
    static const struct child_program child = {
        .file = "gauss-child",
        .settings = {"OMP_NUM_THREADS=2", "OMP_DYNAMIC=false", "OMP_WAIT_POLICY=active",
                     "OPENBLAS_NUM_THREADS=2"}};
    struct child_program *program = new_program(&child);
    struct bench_row *row = bench_add(bench, name, &child_ops, program);

    snprintf((char *)program->argument, ARGUMENT_BYTES, "%s:%zu:%zu:%zu", gauss->way, gauss->n,
             gauss->sides, gauss->group);
    state(row, "n", gauss->n);
    if (gauss->sides > 0) {
        state(row, "threads", gauss->sides);
        state(row, "group", gauss->group);
    }
    return row;
}

void apsp_state(const struct apsp_case *apsp, struct bench_row *row)
{
    state(row, "n", apsp->n);
    state(row, "block", apsp->block);
    json_object_set_new(row->params, "type", json_string("float32"));
}

struct bench_row *apsp_row(struct bench *bench, const char *name, enum openmp openmp,
                           const char *order, const struct apsp_case *apsp)
{
    static const struct child_program children[] = {
        [GOMP] = {.file = "apsp-child-gomp",
                  .settings = {"OMP_NUM_THREADS=2", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close",
                               "OMP_PLACES=%d", "OMP_WAIT_POLICY=active",
                               "GOMP_SPINCOUNT=infinite"}},
        [LLVM] = {.file = "apsp-child-llvm",
                  .settings = {"OMP_NUM_THREADS=2", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close",
                               "OMP_PLACES=%d", "OMP_WAIT_POLICY=active",
                               "KMP_BLOCKTIME=infinite"}},
        [NO_OPENMP] = {.file = "apsp-child-gomp"}, /* which binds the first thread when told to */
    };
    struct child_program *program = new_program(&children[openmp]);
    struct bench_row *row = bench_add(bench, name, &child_ops, program);

    apsp_case_write(apsp, order, (char *)program->argument, ARGUMENT_BYTES);
    apsp_state(apsp, row);
    return row;
}
