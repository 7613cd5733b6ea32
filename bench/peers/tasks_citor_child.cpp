/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The citor side of the recursions of forks.h, in a process of its own; see omp_child.c. Its pool
 * binds its threads to the processors of the case.
 */
#include "forks_child.h"

#include <citor/hints.h>
#include <citor/thread_pool.h>

namespace {

tasks_case work;
citor::ThreadPool *pool;

uint64_t fib(unsigned n)
{
    uint64_t one = 0, two = 0;

    if (n < 2)
        return n;
    pool->forkJoin<citor::HintsDefaults>([&] { one = fib(n - 1); }, [&] { two = fib(n - 2); });
    return one + two;
}

uint64_t skynet(uint64_t first, uint64_t leaves)
{
    uint64_t each = leaves / FORKS_WAYS, sums[FORKS_WAYS], sum = 0;

    if (leaves == 1)
        return first;
    pool->forkJoinAll<citor::HintsDefaults>(
        FORKS_WAYS, [&](size_t i) { sums[i] = skynet(first + i * each, each); });
    for (uint64_t part : sums)
        sum += part;
    return sum;
}

uint64_t nqueens(const forks_board *board, unsigned row, unsigned n)
{
    uint32_t columns = row < n ? forks_free_columns(board, row, n) : 0, child[FORKS_QUEENS];
    uint64_t found[FORKS_QUEENS], sum = row == n;
    size_t children = 0;

    for (; columns != 0; columns &= columns - 1)
        child[children++] = columns;
    if (children == 0)
        return sum;
    pool->forkJoinAll<citor::HintsDefaults>(children, [&](size_t i) {
        forks_board placed = forks_place(board, row, child[i]);

        found[i] = nqueens(&placed, row + 1, n);
    });
    for (size_t i = 0; i < children; i++)
        sum += found[i];
    return sum;
}

void quarter(const forks_product *whole, unsigned i);

void matmul(const forks_product *whole)
{
    if (whole->n <= FORKS_LEAF) {
        forks_multiply(whole);
        return;
    }
    for (unsigned half = 0; half < 8; half += 4)
        pool->forkJoin<citor::HintsDefaults>(
            [=] { quarter(whole, half); }, [=] { quarter(whole, half + 1); },
            [=] { quarter(whole, half + 2); }, [=] { quarter(whole, half + 3); });
}

void quarter(const forks_product *whole, unsigned i)
{
    forks_product part = forks_quarter(whole, i);

    matmul(&part);
}

const forks_contender contender = {fib, skynet, nqueens, matmul};

void batch(child_channel *channel)
{
    forks_child_batch(channel, &work, &contender);
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = forks_child_open(argc, argv, &work);

    if (channel == nullptr)
        return 2;
    forks_child_bind(channel, &work);
    /* PerCpu takes no more threads than there are physical cores */
    citor::ThreadPool threads(work.cores, work.cores == std::thread::hardware_concurrency()
                                              ? citor::Affinity::PerCpuSmtPair
                                              : citor::Affinity::PerCpu);

    pool = &threads;
    child_channel_serve(channel, batch);
}
