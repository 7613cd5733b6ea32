/* SPDX-License-Identifier: BSL-1.0 */
/* The paper's cilksort-merge: merges the two parts that its parent sends, with the help of others. */
#include "mpi_task.h"

int main(int argc, char **argv)
{
    struct mpi_task task;
    struct merge merge;
    size_t tasks;

    MPI_Init(&argc, &argv);
    mpi_task_begin(&task, argc, argv);
    merge = (struct merge){.a = task.numbers,
                           .b = task.numbers + task.counts[0],
                           .a_count = task.counts[0],
                           .b_count = task.counts[1],
                           .to = mpi_allocate(task.counts[0] + task.counts[1]),
                           .cutoff = task.cutoff};
    tasks = mpi_merge(&task, merge);
    free(task.numbers);
    mpi_task_end(&task, merge.to, tasks);
    MPI_Finalize();
    return 0;
}
