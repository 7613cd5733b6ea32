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
#include "body.h"
#include "size.h"
#include "variants.h"

#include <stdio.h>
#include <string.h>

#include <mpi.h>

#define STEPS_MOST 100000000

static struct part {
    struct body body;
    int below, above; /* ranks, or MPI_PROC_NULL */
} part;

static int part_create(const size_t nodes[3])
{
    int rank, ranks;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    part.below = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    part.above = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    return body_create_part(&part.body, nodes, nodes[Z] * (size_t)rank / (size_t)ranks,
                            nodes[Z] * ((size_t)rank + 1) / (size_t)ranks);
}

/* Gives the neighbours what they need of this step, and gets it from them. */
static void exchange(double *now)
{
    const struct body *body = &part.body;
    int count = (int)(body->nodes[Y] * body->row);
    double *highest = now + body_at(body, 0, 0, body->nodes[Z] - 1);
    MPI_Request all[4];
    MPI_Status done[4];

    MPI_Irecv(now - body->plane, count, MPI_DOUBLE, part.below, 0, MPI_COMM_WORLD, &all[0]);
    MPI_Irecv(highest + body->plane, count, MPI_DOUBLE, part.above, 1, MPI_COMM_WORLD, &all[1]);
    MPI_Isend(now, count, MPI_DOUBLE, part.below, 1, MPI_COMM_WORLD, &all[2]);
    MPI_Isend(highest, count, MPI_DOUBLE, part.above, 0, MPI_COMM_WORLD, &all[3]);
    MPI_Waitall(4, all, done);
}

/* Says when it is. Rank 0. */
static void say(enum moment moment, void *arg)
{
    (void)arg;
    printf("moment %u\n", (unsigned)moment);
    fflush(stdout);
}

static double steps_ms(const struct setting *setting)
{
    struct box all = body_box(&part.body);
    double begin, end;

    MPI_Barrier(MPI_COMM_WORLD);
    setting_at(setting, BEGUN);
    begin = MPI_Wtime();
    for (size_t step = 0; step < setting->steps; step++) {
        setting_step(setting, step);
        exchange(body_after(&part.body, step));
        body_sweep(&part.body, body_after(&part.body, step), body_after(&part.body, step + 1),
                   &all);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    end = MPI_Wtime();
    setting_at(setting, DONE);
    return (end - begin) * 1e3;
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
    if (!size_read(argv[1], nodes) || nodes[Z] < (size_t)ranks || nodes[X] > 30000 ||
        nodes[Y] > 30000)
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
    error = part_create(nodes);
    MPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (worst == 0) {
        body_heat(&part.body);
        exchange(part.body.array[0]);
        report(steps_ms(&setting), setting.steps);
    } else if (rank == 0) {
        fprintf(stderr, "heat-mpi: not enough memory: '%s'\n", argv[1]);
    }
    body_destroy(&part.body);
    MPI_Finalize();
    return worst == 0 ? 0 : 1;
}
