/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What children of an MPI program cost, and messages to them, under an MPICH that can spawn:
 *
 *   umbra-in-process   a child that is spawned, gets a number, sends it back and ends: as a fiber of the
 *                      process; `live` of them at a time
 *   mpi-process        the same as a process
 *   umbra-message      a message one way between tasks of one process, on one processor or two
 *   mpi-message        the same between two processes
 *   memcpy             the limit of messages: as many bytes copied once, on one processor, or by two
 *                      threads in turn, each of which copies what the other has just written to
 *                      where the other has just read
 */
#include "child.h"
#include "harness.h"
#include "mpi_child_case.h"

#include <stdlib.h>

#define ROUNDS 101
#define ROUNDS_QUICK 11
#define PROCESS_EVERY 10 /* a process has a turn in one round of so many */
#define MESSAGES 1000    /* between processes, in a batch */

enum runtime { ONE_CORE, TWO_CORES, PROCESSES, RUNTIMES };

static struct child_process *processes[RUNTIMES];

static const struct child_program runtimes[RUNTIMES] = {
    [ONE_CORE] = {.file = "mpi-child-rank",
                  .argument = "in-process",
                  .settings = {"UMBRA_MPI_CORES=1"},
                  .shared = &processes[ONE_CORE]},
    [TWO_CORES] = {.file = "mpi-child-rank",
                   .argument = "in-process",
                   .shared = &processes[TWO_CORES]},
    [PROCESSES] = {.file = "mpi-child-rank",
                   .argument = "process",
                   .shared = &processes[PROCESSES]},
};

static const uint32_t sizes[] = {8, 1024, 16384, 65536, MPI_CHILD_MOST_BYTES};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static struct bench_row *add(struct bench *bench, const char *name, enum runtime runtime,
                             const struct mpi_child_case *what)
{
    struct child_program *program = malloc(sizeof(*program));
    struct bench_row *row;

    if (program == NULL) {
        fprintf(stderr, "mpi-child: out of memory\n");
        exit(BENCH_FAILED);
    }
    *program = runtimes[runtime];
    program->problem = mpi_child_case_pack(what);
    row = bench_add(bench, name, &child_ops, program);
    json_object_set_new(row->params, "bytes", json_integer(what->bytes));
    json_object_set_new(row->params, "cores", json_integer(runtime == ONE_CORE ? 1 : 2));
    return row;
}

static void add_children(struct bench *bench, const char *name, enum runtime runtime, uint32_t live)
{
    struct mpi_child_case what = {.way = WAY_CHILD, .bytes = 8, .live = live};
    struct bench_row *row = add(bench, name, runtime, &what);

    json_object_set_new(row->params, "live", json_integer(live));
    row->parts = live;
    if (runtime != PROCESSES)
        return;
    row->batch = 1;
    row->cold = true;
    row->every = PROCESS_EVERY;
}

static void add_messages(struct bench *bench, uint32_t bytes)
{
    static const char *const names[RUNTIMES] = {"umbra-message", "umbra-message", "mpi-message"};
    struct mpi_child_case what = {.way = WAY_COPY, .bytes = bytes};
    struct bench_row *limit[] = {add(bench, "memcpy", ONE_CORE, &what),
                                 add(bench, "memcpy", TWO_CORES, &what)};

    limit[0]->parts = limit[1]->parts = 2;
    what.way = WAY_MESSAGE;
    for (int runtime = ONE_CORE; runtime < RUNTIMES; runtime++) {
        struct bench_row *row = add(bench, names[runtime], (enum runtime)runtime, &what);

        row->parts = 2;
        row->limit = limit[runtime != ONE_CORE];
        if (runtime == PROCESSES) {
            row->batch = bench_tiny(bench) ? 10 : MESSAGES;
            row->every = PROCESS_EVERY;
        }
    }
}

static int declare(struct bench *bench)
{
    add_children(bench, "umbra-in-process", TWO_CORES, 1);
    add_children(bench, "umbra-in-process", TWO_CORES, bench_tiny(bench) ? 20 : 1000);
    add_children(bench, "mpi-process", PROCESSES, 1);
    for (size_t i = 0; i < (bench_tiny(bench) ? 1 : SIZES); i++)
        add_messages(bench, sizes[i]);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "mpi-child",
    .about = "children of an MPI program, and messages to them",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
