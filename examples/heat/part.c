/* SPDX-License-Identifier: BSL-1.0 */
/* See part.h. */
#include "part.h"

#include <mpi.h>

int part_create(struct part *part, const size_t nodes[3])
{
    int rank, ranks;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    part->below = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    part->above = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    return body_create_part(&part->body, nodes, nodes[Z] * (size_t)rank / (size_t)ranks,
                            nodes[Z] * ((size_t)rank + 1) / (size_t)ranks);
}

/* Gives the neighbours what they need of this step, and gets it from them. */
static void exchange(const struct part *part, double *now)
{
    const struct body *body = &part->body;
    int count = (int)(body->nodes[Y] * body->row);
    double *highest = now + body_at(body, 0, 0, body->nodes[Z] - 1);
    MPI_Request all[4];
    MPI_Status done[4];

    MPI_Irecv(now - body->plane, count, MPI_DOUBLE, part->below, 0, MPI_COMM_WORLD, &all[0]);
    MPI_Irecv(highest + body->plane, count, MPI_DOUBLE, part->above, 1, MPI_COMM_WORLD, &all[1]);
    MPI_Isend(now, count, MPI_DOUBLE, part->below, 1, MPI_COMM_WORLD, &all[2]);
    MPI_Isend(highest, count, MPI_DOUBLE, part->above, 0, MPI_COMM_WORLD, &all[3]);
    MPI_Waitall(4, all, done);
}

double part_steps_ms(struct part *part, const struct setting *setting)
{
    struct box all = body_box(&part->body);
    double begin, end;

    exchange(part, body_after(&part->body, 0)); /* now they are connected */
    MPI_Barrier(MPI_COMM_WORLD);
    setting_at(setting, BEGUN);
    begin = MPI_Wtime();
    for (size_t step = 0; step < setting->steps; step++) {
        setting_step(setting, step);
        exchange(part, body_after(&part->body, step));
        body_sweep(&part->body, body_after(&part->body, step), body_after(&part->body, step + 1),
                   &all);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    end = MPI_Wtime();
    setting_at(setting, DONE);
    return (end - begin) * 1e3;
}
