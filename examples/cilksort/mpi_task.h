/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the three MPI programs share: a task is a program that is spawned. Its parent sends it two
 * messages, and gets one:
 *
 *   SIZES    two counts: of a sort, numbers and 0; of a merge, those of both parts
 *   NUMBERS  the numbers; a merge's parts one after the other
 *   RESULT   the numbers in order, and behind them how many tasks it took
 *
 * A task keeps one half, or quarter, of what it divides, and spawns tasks for the rest. Every
 * program is told in which folder the others are, and the numbers that are not divided.
 */
#ifndef CILKSORT_MPI_TASK_H
#define CILKSORT_MPI_TASK_H

#include "steps.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

enum tag { SIZES, NUMBERS, RESULT };

struct mpi_task {
    MPI_Comm parent;
    const char *folder;
    size_t cutoff;
    size_t counts[2];
    int *numbers;
};

static inline void *mpi_allocate(size_t count)
{
    int *numbers = malloc((count + 1) * sizeof(*numbers));

    if (!numbers) {
        fprintf(stderr, "cilksort: not enough memory for %zu numbers\n", count);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return numbers;
}

/* In a program that was spawned: its task. */
static inline void mpi_task_begin(struct mpi_task *task, int argc, char **argv)
{
    unsigned long counts[2];

    MPI_Comm_get_parent(&task->parent);
    if (argc != 3 || task->parent == MPI_COMM_NULL) {
        fprintf(stderr, "%s: started by cilksort-start alone\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    task->folder = argv[1];
    task->cutoff = strtoul(argv[2], NULL, 10);
    MPI_Recv(counts, 2, MPI_UNSIGNED_LONG, 0, SIZES, task->parent, MPI_STATUS_IGNORE);
    task->counts[0] = counts[0];
    task->counts[1] = counts[1];
    task->numbers = mpi_allocate(counts[0] + counts[1]);
    MPI_Recv(task->numbers, (int)(counts[0] + counts[1]), MPI_INT, 0, NUMBERS, task->parent,
             MPI_STATUS_IGNORE);
}

/* Gives the parent its result, and frees the numbers. There is room for one more behind them. */
static inline void mpi_task_end(struct mpi_task *task, int *result, size_t tasks)
{
    size_t count = task->counts[0] + task->counts[1];

    result[count] = (int)tasks;
    MPI_Send(result, (int)count + 1, MPI_INT, 0, RESULT, task->parent);
    MPI_Comm_disconnect(&task->parent);
    free(result);
}

/* Spawns so many of one program. */
static inline MPI_Comm mpi_spawn(const struct mpi_task *task, const char *program, int count)
{
    char path[PATH_MAX], folder[PATH_MAX], cutoff[24], *arguments[] = {folder, cutoff, NULL};
    MPI_Comm children;

    snprintf(path, sizeof(path), "%s/%s", task->folder, program);
    snprintf(folder, sizeof(folder), "%s", task->folder);
    snprintf(cutoff, sizeof(cutoff), "%zu", task->cutoff);
    MPI_Comm_spawn(path, arguments, count, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                   MPI_ERRCODES_IGNORE);
    return children;
}

/* The first message down. */
static inline void mpi_send_sizes(MPI_Comm children, int child, size_t a, size_t b)
{
    unsigned long counts[2] = {a, b};

    MPI_Send(counts, 2, MPI_UNSIGNED_LONG, child, SIZES, children);
}

/* The message up: the numbers. How many tasks it took. */
static inline size_t mpi_receive(MPI_Comm children, int child, int *to, size_t count)
{
    int *result = mpi_allocate(count);
    size_t tasks;

    MPI_Recv(result, (int)count + 1, MPI_INT, child, RESULT, children, MPI_STATUS_IGNORE);
    memcpy(to, result, count * sizeof(*to));
    tasks = (size_t)result[count];
    free(result);
    return tasks;
}

/* Merges, with tasks for the rest of what is divided. How many tasks that took. */
static inline size_t mpi_merge(const struct mpi_task *task, struct merge left)
{
    struct merge right;
    size_t tasks, count;
    MPI_Comm child;
    int *both;

    if (!merge_divides(&left)) {
        merge_all(&left);
        return 0;
    }
    right = left;
    left = merge_divide(&right);
    count = right.a_count + right.b_count;
    both = mpi_allocate(count);
    memcpy(both, right.a, right.a_count * sizeof(*both));
    memcpy(both + right.a_count, right.b, right.b_count * sizeof(*both));
    child = mpi_spawn(task, "cilksort-merge", 1);
    mpi_send_sizes(child, 0, right.a_count, right.b_count);
    MPI_Send(both, (int)count, MPI_INT, 0, NUMBERS, child);
    free(both);
    tasks = 1 + mpi_merge(task, left);
    tasks += mpi_receive(child, 0, right.to, count);
    MPI_Comm_disconnect(&child);
    return tasks;
}

#endif
