/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A hot spot that spreads through a body, with blocks that are looked at more closely where it is steep
 * (examples/heat/adaptive.h), on 1, 2, 4 ... processors and all: the number of a step's tasks changes
 * from step to step and is known when the step is over (Holmes et al. 2010, section 4.2). A sample is
 * the time of a step. The limit is one processor, by calls.
 *
 *   umbra-dispatch       a worker that finds a block steep adds its pieces
 *   openmp-*, tbb        the task of a steep block makes a task for each piece
 */
#include "child.h"
#include "harness.h"

#include <stdlib.h>

#define ROUNDS 21
#define ROUNDS_QUICK 5
#define ARGUMENT_BYTES 48

static const struct contender {
    const char *name;
    struct child_program program;
} contenders[] = {
    {"umbra-dispatch", {.file = "heat-adaptive-child"}},
    {"openmp-gomp",
     {.file = "heat-adaptive-child-gomp",
      .settings = {"OMP_NUM_THREADS=%u", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close",
                   "OMP_PLACES=%d", "OMP_WAIT_POLICY=active", "GOMP_SPINCOUNT=infinite"}}},
    {"openmp-llvm",
     {.file = "heat-adaptive-child-llvm",
      .settings = {"OMP_NUM_THREADS=%u", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close",
                   "OMP_PLACES=%d", "OMP_WAIT_POLICY=active", "KMP_BLOCKTIME=infinite"}}},
    {"tbb", {.file = "heat-adaptive-child-tbb"}},
};

#define CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

static struct bench_row *all_rows[CONTENDERS]; /* on all processors */
static size_t nodes, steps;

static struct bench_row *add(struct bench *bench, const char *name,
                             const struct child_program *like, const char *before, unsigned cores)
{
    struct child_program *program = malloc(sizeof(*program));
    char *argument = malloc(ARGUMENT_BYTES);
    struct bench_row *row;

    if (program == NULL || argument == NULL) {
        fprintf(stderr, "heat-adaptive: out of memory\n");
        exit(BENCH_FAILED);
    }
    *program = *like;
    program->argument = argument;
    snprintf(argument, ARGUMENT_BYTES, "%s%zu:%zu:%u", before, nodes, steps, cores);
    row = bench_add(bench, name, &child_ops, program);
    json_object_set_new(row->params, "nodes", json_integer((json_int_t)(nodes * nodes * nodes)));
    json_object_set_new(row->params, "cores", json_integer(cores));
    row->parts = steps;
    return row;
}

static int declare(struct bench *bench)
{
    unsigned counts[BENCH_COUNTS], n = bench_cpu_counts(bench, counts);
    struct bench_row *serial;

    nodes = bench_tiny(bench) ? 16 : bench_quick(bench) ? 48 : 96;
    steps = bench_tiny(bench) ? 3 : 20;
    serial = add(bench, "serial", &contenders[0].program, "serial/", 1);
    for (size_t c = 0; c < CONTENDERS; c++)
        for (unsigned i = 0; i < n; i++) {
            all_rows[c] = add(bench, contenders[c].name, &contenders[c].program, "", counts[i]);
            all_rows[c]->limit = serial;
        }
    return 0;
}

static void remark(const struct bench *bench, FILE *out)
{
    for (size_t c = 1; all_rows[0]->runs && c < CONTENDERS; c++)
        if (all_rows[c]->runs)
            fprintf(out, "%8.2f times the time of %s, on %u processors: umbra-dispatch\n",
                    bench_quotient(all_rows[0], all_rows[c]).median, all_rows[c]->name,
                    bench_cpus(bench));
}

static const struct bench_kernel kernel = {
    .name = "heat-adaptive",
    .about = "a step of heat with tasks that are made while it runs",
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
