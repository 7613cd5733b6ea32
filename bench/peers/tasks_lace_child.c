/* SPDX-License-Identifier: BSL-1.0 */
/* The Lace side of the recursions of forks.h and of dispatch; see omp_child.c. */
#define _GNU_SOURCE
#include "forks_child.h"

#include <lace.h>

#define DEQUE 100000 /* tasks */
#define AWAKE_US 1000

static struct tasks_case work;

/* What each worker has run, on lines of their own. */
static struct {
    uint64_t count __attribute__((aligned(CHILD_CHANNEL_LINE)));
} workers[CHILD_CHANNEL_CPUS];

static uint64_t count_all(void)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < work.cores; i++)
        all += workers[i].count;
    return all;
}

TASK_1(uint64_t, fib_task, unsigned, n)
{
    uint64_t one, two;

    if (n < 2)
        return n;
    SPAWN(fib_task, n - 2);
    one = CALL(fib_task, n - 1);
    two = SYNC(fib_task);
    return one + two;
}

TASK_2(uint64_t, skynet_task, uint64_t, first, uint64_t, leaves)
{
    uint64_t each = leaves / FORKS_WAYS, sum;

    if (leaves == 1)
        return first;
    for (unsigned i = 0; i < FORKS_WAYS - 1; i++)
        SPAWN(skynet_task, first + i * each, each);
    sum = CALL(skynet_task, first + (FORKS_WAYS - 1) * each, each);
    for (unsigned i = 0; i < FORKS_WAYS - 1; i++)
        sum += SYNC(skynet_task);
    return sum;
}

/* The parent's board stays until its children are joined: each makes its own from that. */
TASK_4(uint64_t, nqueens_task, const struct forks_board *, board, unsigned, row, unsigned, n,
       uint32_t, column)
{
    struct forks_board placed = row > 0 ? forks_place(board, row - 1, column) : *board;
    uint32_t columns = row < n ? forks_free_columns(&placed, row, n) : 0;
    uint64_t sum = row == n;
    unsigned spawned = 0;

    for (; columns & (columns - 1); columns &= columns - 1, spawned++)
        SPAWN(nqueens_task, &placed, row + 1, n, columns);
    if (columns)
        sum = CALL(nqueens_task, &placed, row + 1, n, columns);
    while (spawned-- > 0)
        sum += SYNC(nqueens_task);
    return sum;
}

VOID_TASK_1(matmul_task, const struct forks_product *, whole)
{
    if (whole->n <= FORKS_LEAF) {
        forks_multiply(whole);
        return;
    }
    for (unsigned half = 0; half < 2; half++) {
        struct forks_product part[4];

        for (unsigned i = 0; i < 4; i++)
            part[i] = forks_quarter(whole, 4 * half + i);
        for (unsigned i = 0; i < 3; i++)
            SPAWN(matmul_task, &part[i]);
        CALL(matmul_task, &part[3]);
        for (unsigned i = 0; i < 3; i++)
            SYNC(matmul_task);
    }
}

static uint64_t fib(unsigned n)
{
    return RUN(fib_task, n);
}

static uint64_t skynet(uint64_t first, uint64_t leaves)
{
    return RUN(skynet_task, first, leaves);
}

static uint64_t nqueens(const struct forks_board *board, unsigned row, unsigned n)
{
    return RUN(nqueens_task, board, row, n, 0);
}

static void matmul(const struct forks_product *whole)
{
    RUN(matmul_task, whole);
}

static const struct forks_contender contender = {fib, skynet, nqueens, matmul};

VOID_TASK_0(null_function)
{
    workers[LACE_WORKER_ID].count++;
}

VOID_TASK_1(null_functions, unsigned, all)
{
    for (unsigned i = 0; i < all; i++)
        SPAWN(null_function);
    for (unsigned i = 0; i < all; i++)
        SYNC(null_function);
}

VOID_TASK_1(batch_task, uint64_t, iterations)
{
    for (uint64_t i = 0; i < iterations; i++)
        CALL(null_functions, work.size);
}

/* Workers look for work all the time while there is a batch, and sleep between batches. */
static void batch(struct child_channel *channel)
{
    uint64_t before = count_all(), begin;

    lace_resume();
    begin = child_channel_now_ns();
    RUN(batch_task, channel->iterations);
    channel->own_ns = child_channel_now_ns() - begin;
    lace_suspend();
    channel->verified = count_all() - before;
}

/* The time of a batch does not begin before its workers are awake. */
static void forks_of(struct child_channel *channel)
{
    lace_resume();
    usleep(AWAKE_US);
    forks_child_batch(channel, &work, &contender);
    lace_suspend();
}

int main(int argc, char **argv)
{
    struct child_channel *channel = forks_child_open(argc, argv, &work);

    if (!channel)
        return 2;
    forks_child_bind(channel, &work);
    lace_start(work.cores, DEQUE);
    lace_suspend();
    child_channel_serve(channel, tasks_are_null(&work) ? batch : forks_of);
}
