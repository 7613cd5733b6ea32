/* SPDX-License-Identifier: BSL-1.0 */
/* The paper's cilksort-sort: sorts what its parent sends, with the help of others. */
#include "mpi_task.h"

static size_t sort(const struct mpi_task *task, const struct part *part)
{
    struct part quarter[4];
    MPI_Comm children;
    size_t tasks = 3;

    if (!part_divides(part)) {
        part_sort(part);
        return 0;
    }
    children = mpi_spawn(task, "cilksort-sort", 3);
    for (int i = 0; i < 4; i++)
        quarter[i] = part_quarter(part, (unsigned)i);
    for (int i = 0; i < 3; i++) {
        mpi_send_sizes(children, i, quarter[i].count, 0);
        MPI_Send(quarter[i].numbers, (int)quarter[i].count, MPI_INT, i, NUMBERS, children);
    }
    tasks += sort(task, &quarter[3]);
    for (int i = 0; i < 3; i++)
        tasks += mpi_receive(children, i, quarter[i].numbers, quarter[i].count);
    MPI_Comm_disconnect(&children);
    for (unsigned i = 0; i < 3; i++)
        tasks += mpi_merge(task, part_merge(part, i));
    return tasks;
}

int main(int argc, char **argv)
{
    struct mpi_task task;
    struct part part;
    size_t tasks;

    MPI_Init(&argc, &argv);
    mpi_task_begin(&task, argc, argv);
    part = (struct part){.numbers = task.numbers,
                         .room = mpi_allocate(task.counts[0]),
                         .count = task.counts[0],
                         .cutoff = task.cutoff};
    tasks = sort(&task, &part);
    free(part.room);
    mpi_task_end(&task, task.numbers, tasks);
    MPI_Finalize();
    return 0;
}
