/* SPDX-License-Identifier: BSL-1.0 */
/*
 * All ways to place queens that do not attack each other: a task for each place in the next row. A
 * sample is the time of a whole search. Contenders: forks_rows.h.
 */
#include <umbra/task.h>

#include "forks_rows.h"

#define ROUNDS 21
#define ROUNDS_QUICK 31

static uint64_t serial(const struct forks_board *board, unsigned row, unsigned n)
{
    uint32_t columns = row < n ? forks_free_columns(board, row, n) : 0;
    uint64_t sum = row == n;

    for (; columns != 0; columns &= columns - 1) {
        struct forks_board placed = forks_place(board, row, columns);

        sum += serial(&placed, row + 1, n);
    }
    return sum;
}

struct placing {
    struct umbra_task task;
    const struct forks_board *above; /* the forker's, who joins before it goes */
    uint32_t columns;                /* in the least of these */
    unsigned row, n;
    uint64_t found;
};

static uint64_t nqueens(const struct forks_board *board, unsigned row, unsigned n);

static void place(void *arg)
{
    struct placing *placing = arg;
    struct forks_board placed = forks_place(placing->above, placing->row, placing->columns);

    placing->found = nqueens(&placed, placing->row + 1, placing->n);
}

static uint64_t nqueens(const struct forks_board *board, unsigned row, unsigned n)
{
    uint32_t columns = row < n ? forks_free_columns(board, row, n) : 0;
    struct placing child[FORKS_QUEENS];
    uint64_t sum = row == n;
    unsigned forked = 0;

    if (columns == 0)
        return sum;
    for (; columns & (columns - 1); columns &= columns - 1, forked++) {
        child[forked].above = board;
        child[forked].columns = columns;
        child[forked].row = row;
        child[forked].n = n;
        umbra_task_fork(&child[forked].task, place, &child[forked]);
    }
    child[forked] = (struct placing){.above = board, .columns = columns, .row = row, .n = n};
    place(&child[forked]);
    sum = child[forked].found;
    while (forked-- > 0) {
        umbra_task_join_with(&child[forked].task, place, &child[forked]);
        sum += child[forked].found;
    }
    return sum;
}

static int declare(struct bench *bench)
{
    static const struct forks_sizes queens = {6, 11, 14};
    static const struct forks_contender calls = {.nqueens = serial}, tasks = {.nqueens = nqueens};

    forks_declare(bench, "nqueens", &queens, &calls, &tasks);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "nqueens",
    .about = "place queens, a task for each place in the next row",
    .cpus = 2,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .batch = 1,
    .declare = declare,
    .remark = forks_remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
