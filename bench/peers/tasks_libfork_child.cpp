/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The libfork side of the recursions of forks.h, in a process of its own; see omp_child.c. Its
 * workers stay on the processors of the case; the thread that waits for them sleeps.
 */
#include "forks_child.h"

#include <libfork.hpp>

namespace {

tasks_case work;
lf::lazy_pool *pool;

constexpr auto fib_task = [](auto self, unsigned n) -> lf::task<uint64_t> {
    uint64_t one, two;

    if (n < 2)
        co_return n;
    co_await lf::fork(&two, self)(n - 2);
    co_await lf::call(&one, self)(n - 1);
    co_await lf::join;
    co_return one + two;
};

constexpr auto skynet_task = [](auto self, uint64_t first, uint64_t leaves) -> lf::task<uint64_t> {
    uint64_t each = leaves / FORKS_WAYS, sums[FORKS_WAYS], sum = 0;

    if (leaves == 1)
        co_return first;
    for (unsigned i = 0; i < FORKS_WAYS - 1; i++)
        co_await lf::fork(&sums[i], self)(first + i * each, each);
    co_await lf::call(&sums[FORKS_WAYS - 1], self)(first + (FORKS_WAYS - 1) * each, each);
    co_await lf::join;
    for (uint64_t part : sums)
        sum += part;
    co_return sum;
};

constexpr auto nqueens_task = [](auto self, forks_board board, unsigned row,
                                 unsigned n) -> lf::task<uint64_t> {
    uint32_t columns = row < n ? forks_free_columns(&board, row, n) : 0;
    uint64_t found[FORKS_QUEENS], sum = row == n;
    unsigned children = 0;

    if (columns == 0)
        co_return sum;
    for (; columns & (columns - 1); columns &= columns - 1, children++)
        co_await lf::fork(&found[children], self)(forks_place(&board, row, columns), row + 1, n);
    co_await lf::call(&found[children++], self)(forks_place(&board, row, columns), row + 1, n);
    co_await lf::join;
    for (unsigned i = 0; i < children; i++)
        sum += found[i];
    co_return sum;
};

constexpr auto matmul_task = [](auto self, forks_product whole) -> lf::task<void> {
    if (whole.n <= FORKS_LEAF) {
        forks_multiply(&whole);
        co_return;
    }
    for (unsigned half = 0; half < 8; half += 4) {
        for (unsigned i = 0; i < 3; i++)
            co_await lf::fork(self)(forks_quarter(&whole, half + i));
        co_await lf::call(self)(forks_quarter(&whole, half + 3));
        co_await lf::join;
    }
};

uint64_t fib(unsigned n)
{
    return lf::sync_wait(*pool, fib_task, n);
}

uint64_t skynet(uint64_t first, uint64_t leaves)
{
    return lf::sync_wait(*pool, skynet_task, first, leaves);
}

uint64_t nqueens(const forks_board *board, unsigned row, unsigned n)
{
    return lf::sync_wait(*pool, nqueens_task, *board, row, n);
}

void matmul(const forks_product *whole)
{
    lf::sync_wait(*pool, matmul_task, *whole);
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
    lf::lazy_pool workers(work.cores);

    pool = &workers;
    child_channel_serve(channel, batch);
}
