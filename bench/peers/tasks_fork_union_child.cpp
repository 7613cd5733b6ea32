/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The ForkUnion side of the recursions of forks.h, in a process of its own; see omp_child.c. Its
 * loops cannot nest. So the first levels of each recursion are one loop, handed out one by one, and
 * all that is below is calls: fewer tasks than the others make.
 */
#include "forks_child.h"

#include <atomic>
#include <thread>

#include <fork_union.hpp>

namespace {

namespace fu = ashvardanian::fork_union;

constexpr unsigned fib_levels = 6;
constexpr unsigned matmul_levels = 3;

tasks_case work;
fu::basic_pool_t *pool;

/* Sums up value(i) for i below n, in any order. */
template <typename function> uint64_t sum_of(size_t n, function value)
{
    std::atomic<uint64_t> sum{0};

    pool->for_n_dynamic(n, [&](size_t i) noexcept {
        sum.fetch_add(value(i), std::memory_order_relaxed); /* the loop's end orders */
    });
    return sum.load(std::memory_order_relaxed);
}

uint64_t fib_calls(unsigned n)
{
    return n < 2 ? n : fib_calls(n - 1) + fib_calls(n - 2);
}

/* The bits of i say which call is meant at each of the first levels. */
uint64_t fib(unsigned n)
{
    if (n < 2 * fib_levels)
        return fib_calls(n);
    return sum_of(size_t{1} << fib_levels, [n](size_t i) {
        return fib_calls(n - fib_levels - static_cast<unsigned>(__builtin_popcountll(i)));
    });
}

uint64_t skynet_calls(uint64_t first, uint64_t leaves)
{
    uint64_t each = leaves / FORKS_WAYS, sum = 0;

    if (leaves == 1)
        return first;
    for (unsigned i = 0; i < FORKS_WAYS; i++)
        sum += skynet_calls(first + i * each, each);
    return sum;
}

uint64_t skynet(uint64_t first, uint64_t leaves)
{
    constexpr unsigned trees = FORKS_WAYS * FORKS_WAYS;
    uint64_t each = leaves / trees;

    if (leaves < trees)
        return skynet_calls(first, leaves);
    return sum_of(trees, [=](size_t i) { return skynet_calls(first + i * each, each); });
}

uint64_t nqueens_calls(const forks_board *board, unsigned row, unsigned n)
{
    uint32_t columns = row < n ? forks_free_columns(board, row, n) : 0;
    uint64_t sum = row == n;

    for (; columns != 0; columns &= columns - 1) {
        forks_board placed = forks_place(board, row, columns);

        sum += nqueens_calls(&placed, row + 1, n);
    }
    return sum;
}

/* Each place for the queen of the first row, and each for that of the second. */
uint64_t nqueens(const forks_board *board, unsigned row, unsigned n)
{
    if (n < 2)
        return nqueens_calls(board, row, n);
    return sum_of(size_t{n} * n, [=](size_t i) {
        forks_board placed = forks_place(board, 0, 1u << i / n);
        uint32_t second = 1u << i % n;

        if ((forks_free_columns(&placed, 1, n) & second) == 0)
            return uint64_t{0};
        placed = forks_place(&placed, 1, second);
        return nqueens_calls(&placed, 2, n);
    });
}

void matmul_calls(const forks_product *whole)
{
    if (whole->n <= FORKS_LEAF) {
        forks_multiply(whole);
        return;
    }
    for (unsigned i = 0; i < 8; i++) {
        forks_product part = forks_quarter(whole, i);

        matmul_calls(&part);
    }
}

/* Blocks of the result; each adds up its products itself, from left to right. */
void matmul(const forks_product *whole)
{
    constexpr unsigned blocks = 1 << matmul_levels;
    size_t rows = whole->n / blocks, width = whole->width;

    if (whole->n < blocks * FORKS_LEAF) {
        matmul_calls(whole);
        return;
    }
    pool->for_n_dynamic(size_t{blocks} * blocks, [=](size_t i) noexcept {
        size_t row = i / blocks * rows, column = i % blocks * rows;

        for (size_t middle = 0; middle < whole->n; middle += rows) {
            forks_product part = {
                whole->a + row * width + middle, whole->b + middle * width + column,
                whole->c + row * width + column, static_cast<uint32_t>(rows), whole->width};

            matmul_calls(&part);
        }
    });
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
    static fu::basic_pool_t threads;

    if (channel == nullptr)
        return 2;
    forks_child_bind(channel, &work);
    if (!threads.try_spawn(work.cores))
        return 2;
    pool = &threads;
    child_channel_serve(channel, batch);
}
