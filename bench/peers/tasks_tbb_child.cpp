/* SPDX-License-Identifier: BSL-1.0 */
/* The oneTBB side of the recursions of forks.h and of dispatch; see tbb_child.cpp. */
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_group.h>

#include "forks_child.h"
#include "tbb_arena.hpp"

namespace {

tasks_case work;
tbb::task_arena *arena;

struct alignas(CHILD_CHANNEL_LINE) {
    uint64_t count;
} ran[CHILD_CHANNEL_CPUS]; /* what each thread has */

uint64_t count_all()
{
    uint64_t all = 0;

    for (unsigned i = 0; i < work.cores; i++)
        all += ran[i].count;
    return all;
}

uint64_t fib(unsigned n)
{
    uint64_t two;

    if (n < 2)
        return n;
    tbb::task_group group;
    group.run([&two, n] { two = fib(n - 2); });
    uint64_t one = fib(n - 1);
    group.wait();
    return one + two;
}

uint64_t skynet(uint64_t first, uint64_t leaves)
{
    uint64_t each = leaves / FORKS_WAYS, sums[FORKS_WAYS], sum = 0;

    if (leaves == 1)
        return first;
    tbb::task_group group;
    for (unsigned i = 0; i < FORKS_WAYS - 1; i++)
        group.run([&sums, first, each, i] { sums[i] = skynet(first + i * each, each); });
    sums[FORKS_WAYS - 1] = skynet(first + (FORKS_WAYS - 1) * each, each);
    group.wait();
    for (uint64_t part : sums)
        sum += part;
    return sum;
}

uint64_t nqueens(const forks_board *board, unsigned row, unsigned n)
{
    uint32_t columns = row < n ? forks_free_columns(board, row, n) : 0;
    uint64_t found[FORKS_QUEENS], sum = row == n;
    unsigned children = 0;

    if (columns == 0)
        return sum;
    tbb::task_group group;
    for (; columns & (columns - 1); columns &= columns - 1, children++)
        group.run([&found, row, n, children, placed = forks_place(board, row, columns)] {
            found[children] = nqueens(&placed, row + 1, n);
        });
    forks_board placed = forks_place(board, row, columns);
    sum = nqueens(&placed, row + 1, n);
    group.wait();
    for (unsigned i = 0; i < children; i++)
        sum += found[i];
    return sum;
}

void matmul(const forks_product *whole)
{
    if (whole->n <= FORKS_LEAF) {
        forks_multiply(whole);
        return;
    }
    tbb::task_group group;
    for (unsigned i = 0; i < 8; i++) {
        forks_product part = forks_quarter(whole, i);

        if (i % 4 < 3) {
            group.run([part] { matmul(&part); });
        } else {
            matmul(&part);
            group.wait();
        }
    }
}

const forks_contender contender = {fib, skynet, nqueens, matmul};

void null_function()
{
    ran[tbb::this_task_arena::current_thread_index()].count++;
}

void null_functions()
{
    tbb::parallel_for(
        tbb::blocked_range<unsigned>(0, work.size, 1),
        [](const tbb::blocked_range<unsigned> &range) {
            for (unsigned i = range.begin(); i < range.end(); i++)
                null_function();
        },
        tbb::simple_partitioner());
}

void batch(child_channel *channel)
{
    uint64_t before = count_all();

    arena->execute([=] {
        for (uint64_t i = 0; i < channel->iterations; i++)
            null_functions();
    });
    channel->verified = count_all() - before;
}

void forks_of(child_channel *channel)
{
    arena->execute([=] { forks_child_batch(channel, &work, &contender); });
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = forks_child_open(argc, argv, &work);

    if (channel == nullptr)
        return 2;
    bound_threads cores(*channel, work.cores);

    arena = &cores.arena;
    child_channel_serve(channel, tasks_are_null(&work) ? batch : forks_of);
}
