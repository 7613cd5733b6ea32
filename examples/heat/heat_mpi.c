/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The same steps with MPI: each rank has some planes of the body in memory of its own, with a copy
 * of its neighbours' nearest planes that is sent anew at each step.
 *
 *     mpiexec -n RANKS heat-mpi NODES STEPS [moments]
 *
 * NODES is one number, or three: 100 or 200x100x50. Rank 0 prints the milliseconds that the steps
 * took, the largest error, and the bytes of all ranks' arrays; before that, if asked for, a line
 * when the steps begin, are half done and done. Exit status: 0; 1 if something could
 * not be had; 2 for a bad argument.
 */
#include "part.h"
#include "size.h"

#include <stdio.h>
#include <string.h>

#include <mpi.h>

#define STEPS_MOST 100000000

static struct part part;

/* Says when it is. Rank 0. */
static void say(enum moment moment, void *arg)
{
    (void)arg;
    printf("moment %u\n", (unsigned)moment);
    fflush(stdout);
}

static void report(double ms, size_t steps)
{
    unsigned long bytes = body_bytes(&part.body), all_bytes = 0;
    double error, worst = 0;
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    error = body_error(&part.body, steps);
    MPI_Reduce(&error, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&bytes, &all_bytes, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.6f %g %lu\n", ms, worst, all_bytes);
}

/* The arguments, or what to say of them. */
static const char *read_arguments(int argc, char **argv, size_t nodes[3], struct setting *setting)
{
    char *end;
    int rank, ranks;

    if (argc != 3 && (argc != 4 || strcmp(argv[3], "moments") != 0))
        return "usage: heat-mpi NODES STEPS [moments]";
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    setting->at = argc == 4 && rank == 0 ? say : NULL;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!size_read(argv[1], nodes) || nodes[Z] < (size_t)ranks || nodes[X] > RANKS_SIZE_MOST ||
        nodes[Y] > RANKS_SIZE_MOST)
        return "heat-mpi: not a number of nodes, with a plane for each rank";
    setting->steps = strtoul(argv[2], &end, 10);
    return *end || *argv[2] < '0' || *argv[2] > '9' || setting->steps > STEPS_MOST
               ? "heat-mpi: not a number of steps"
               : NULL;
}

int main(int argc, char **argv)
{
    struct setting setting = {.at = NULL};
    size_t nodes[3];
    const char *problem;
    int rank, error, worst;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    problem = read_arguments(argc, argv, nodes, &setting);
    if (problem) {
        if (rank == 0)
            fprintf(stderr, "%s\n", problem);
        MPI_Finalize();
        return 2;
    }
    error = part_create(&part, nodes);
    MPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (worst == 0) {
        body_heat(&part.body);
        report(part_steps_ms(&part, &setting), setting.steps);
    } else if (rank == 0) {
        fprintf(stderr, "heat-mpi: not enough memory: '%s'\n", argv[1]);
    }
    body_destroy(&part.body);
    MPI_Finalize();
    return worst == 0 ? 0 : 1;
}
