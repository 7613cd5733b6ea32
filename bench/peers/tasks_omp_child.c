/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The OpenMP side of fib, skynet, nqueens, matmul and dispatch, in a process of its own; see
 * omp_child.c. Threads are started by the first region and stay.
 */
#define _GNU_SOURCE
#include "forks_child.h"

#include <omp.h>

static struct tasks_case work;

/* What each thread has run, on lines of their own. */
static struct {
    uint64_t count __attribute__((aligned(CHILD_CHANNEL_LINE)));
} threads[CHILD_CHANNEL_CPUS];

static uint64_t count_all(void)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < work.cores; i++)
        all += threads[i].count;
    return all;
}

/* ---- recursions ---- */

static uint64_t fib_in_region(unsigned n)
{
    uint64_t one;
    uint64_t two;

    if (n < 2)
        return n;
#pragma omp task shared(two)
    two = fib_in_region(n - 2);
    one = fib_in_region(n - 1);
#pragma omp taskwait
    return one + two;
}

static uint64_t skynet_in_region(uint64_t first, uint64_t leaves)
{
    uint64_t each = leaves / FORKS_WAYS, sums[FORKS_WAYS], sum = 0;

    if (leaves == 1)
        return first;
    for (unsigned i = 0; i < FORKS_WAYS - 1; i++) {
#pragma omp task shared(sums)
        sums[i] = skynet_in_region(first + i * each, each);
    }
    sums[FORKS_WAYS - 1] = skynet_in_region(first + (FORKS_WAYS - 1) * each, each);
#pragma omp taskwait
    for (unsigned i = 0; i < FORKS_WAYS; i++)
        sum += sums[i];
    return sum;
}

static uint64_t nqueens_in_region(const struct forks_board *board, unsigned row, unsigned n)
{
    uint32_t columns = row < n ? forks_free_columns(board, row, n) : 0;
    uint64_t found[FORKS_QUEENS], sum = row == n;
    unsigned children = 0;

    for (; columns & (columns - 1); columns &= columns - 1, children++) {
        struct forks_board placed = forks_place(board, row, columns);

#pragma omp task shared(found)
        found[children] = nqueens_in_region(&placed, row + 1, n);
    }
    if (columns) {
        struct forks_board placed = forks_place(board, row, columns);

        found[children++] = nqueens_in_region(&placed, row + 1, n);
    }
#pragma omp taskwait
    for (unsigned i = 0; i < children; i++)
        sum += found[i];
    return sum;
}

static void matmul_in_region(const struct forks_product *whole)
{
    if (whole->n <= FORKS_LEAF) {
        forks_multiply(whole);
        return;
    }
    for (unsigned i = 0; i < 8; i++) {
        struct forks_product part = forks_quarter(whole, i);

        if (i % 4 < 3) {
#pragma omp task
            matmul_in_region(&part);
        } else {
            matmul_in_region(&part);
#pragma omp taskwait
        }
    }
}

static uint64_t fib(unsigned n)
{
    uint64_t result = 0;

#pragma omp parallel num_threads(work.cores)
#pragma omp single
    result = fib_in_region(n);
    return result;
}

static uint64_t skynet(uint64_t first, uint64_t leaves)
{
    uint64_t result = 0;

#pragma omp parallel num_threads(work.cores)
#pragma omp single
    result = skynet_in_region(first, leaves);
    return result;
}

static uint64_t nqueens(const struct forks_board *board, unsigned row, unsigned n)
{
    uint64_t result = 0;

#pragma omp parallel num_threads(work.cores)
#pragma omp single
    result = nqueens_in_region(board, row, n);
    return result;
}

static void matmul(const struct forks_product *whole)
{
#pragma omp parallel num_threads(work.cores)
#pragma omp single
    matmul_in_region(whole);
}

static const struct forks_contender contender = {fib, skynet, nqueens, matmul};

/* ---- functions that do nothing ---- */

static void null_function(void)
{
    threads[omp_get_thread_num()].count++;
}

static void for_region(void)
{
#pragma omp parallel for schedule(dynamic, 1) num_threads(work.cores)
    for (unsigned i = 0; i < work.size; i++)
        null_function();
}

static void task_region(void)
{
#pragma omp parallel num_threads(work.cores)
#pragma omp single
    for (unsigned i = 0; i < work.size; i++) {
#pragma omp task
        null_function();
    }
}

static void batch(struct child_channel *channel)
{
    uint64_t before = count_all();

    for (uint64_t i = 0; i < channel->iterations; i++)
        (strcmp(work.kind, "for") == 0 ? for_region : task_region)();
    channel->verified = count_all() - before;
}

static void forks_of(struct child_channel *channel)
{
    forks_child_batch(channel, &work, &contender);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = forks_child_open(argc, argv, &work);

    if (channel == NULL)
        return 2;
    child_channel_serve(channel, tasks_are_null(&work) ? batch : forks_of);
}
