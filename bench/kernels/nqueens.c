/* SPDX-License-Identifier: BSL-1.0 */
/*
 * All ways to place queens that do not attack each other: a task for each place in the next row. A
 * sample is the time of a whole search. Contenders: forks_rows.h.
 */
#include <umbra/task.h>

#include "forks_rows.h"

#define ROUNDS 21
#define ROUNDS_QUICK 13

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

/* Queens in the rows above `row`; its children keep an address of it until they are joined. */
struct position {
    struct forks_board board;
    unsigned row, n;
};

struct child {
    struct umbra_task task;
    const struct position *above;
    uint32_t columns; /* it goes into the least of these */
    uint64_t found;
};

static uint64_t search(const struct position *position);

static inline uint64_t place(const struct position *above, uint32_t columns)
{
    struct position position = {forks_place(&above->board, above->row, columns), above->row + 1,
                                above->n};

    return search(&position);
}

static void place_task(void *arg)
{
    struct child *child = arg;

    child->found = place(child->above, child->columns);
}

static uint64_t search(const struct position *position)
{
    struct child child[FORKS_QUEENS];
    unsigned forked = 0;
    uint32_t columns;
    uint64_t sum;

    if (position->row == position->n)
        return 1;
    columns = forks_free_columns(&position->board, position->row, position->n);
    if (columns == 0)
        return 0;
    for (; columns & (columns - 1); columns &= columns - 1, forked++) {
        child[forked].above = position;
        child[forked].columns = columns;
        umbra_task_fork(&child[forked].task, place_task, &child[forked]);
    }
    sum = place(position, columns);
    while (forked-- > 0) {
        umbra_task_join_with(&child[forked].task, place_task, &child[forked]);
        sum += child[forked].found;
    }
    return sum;
}

static uint64_t nqueens(const struct forks_board *board, unsigned row, unsigned n)
{
    const struct position start = {*board, row, n};

    return search(&start);
}

static int declare(struct bench *bench)
{
    static const struct forks_sizes queens = {6, 11, 14};
    static const struct forks_contender calls = {.nqueens = serial}, tasks = {.nqueens = nqueens};

    forks_declare(bench, "nqueens", &queens, &calls, &tasks, NULL);
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
