/* SPDX-License-Identifier: BSL-1.0 */
/* See program_rows.h. */
#include "program_rows.h"

#include <stdlib.h>
#include <string.h>

#include "apsp_case.h"
#include "child.h"

#include <roofline.h>

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
        .settings = {"OMP_NUM_THREADS=%u", "OMP_DYNAMIC=false", "OMP_WAIT_POLICY=active",
                     "OPENBLAS_NUM_THREADS=%u"}};
    struct child_program *program = new_program(&child);
    struct bench_row *row = bench_add(bench, name, &child_ops, program);

    if (strcmp(gauss->way, "dgesv") == 0)
        program->file = "gauss-child-dgesv"; /* which alone needs a library for linear algebra */
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
                  .settings = {"OMP_NUM_THREADS=%u", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close",
                               "OMP_PLACES=%d", "OMP_WAIT_POLICY=active",
                               "GOMP_SPINCOUNT=infinite"}},
        [LLVM] = {.file = "apsp-child-llvm",
                  .settings = {"OMP_NUM_THREADS=%u", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close",
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

static int run_roofline(struct bench_row *row, struct bench_batch *batch)
{
    const struct blocks *blocks = row->arg;
    double n = (double)blocks->n, relaxations = 0;
    unsigned count = bench_cpus(row->bench);
    int cpus[BENCH_MAX_CPUS], error;

    for (unsigned i = 0; i < count; i++)
        cpus[i] = bench_cpu(row->bench, i);
    error = roofline(blocks, cpus, count, &relaxations);
    batch->ns = (uint64_t)(n * n * n / relaxations * 1e9 * (double)batch->iterations);
    batch->verified = batch->iterations;
    return error;
}

struct bench_row *roofline_row(struct bench *bench, const char *name, const struct apsp_case *apsp,
                               const struct blocks *blocks)
{
    static const struct bench_ops ops = {.run = run_roofline};
    struct bench_row *row = bench_add(bench, name, &ops, blocks);

    apsp_state(apsp, row);
    return row;
}
