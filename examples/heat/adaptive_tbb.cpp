// SPDX-License-Identifier: BSL-1.0
// The steps of an adaptive body by oneTBB: the task of a steep block runs one for each piece in its group.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

extern "C" {
#include "adaptive_ways.h"
}

namespace {

constexpr size_t line = 64;

struct job {
    adaptive *body;
    char *scratch; // of all threads
    size_t scratch_bytes;
    std::atomic<int> error{0};
};

void piece(job &all, size_t step, size_t number)
{
    adaptive_piece(all.body, step, number,
                   all.scratch + static_cast<size_t>(tbb::this_task_arena::current_thread_index()) *
                                     all.scratch_bytes);
}

void block(job &all, tbb::task_group &group, size_t step, size_t number)
{
    row rows[4];
    int count, error = adaptive_block(all.body, step, number, rows, &count);

    if (error != 0) {
        all.error = error;
        return;
    }
    for (int r = 0; r < count; r++)
        for (size_t p = rows[r].begin; p < rows[r].end; p++)
            group.run([&all, step, p] { piece(all, step, p); });
}

void make_step(job &all, size_t step)
{
    size_t blocks = all.body->blocks.all;
    tbb::task_group group;

    for (size_t number = 0; number < blocks; number++)
        group.run([&, step, number] { block(all, group, step, number); });
    group.wait();
    tbb::parallel_for(size_t{0}, all.error == 0 ? blocks : 0,
                      [&](size_t number) { adaptive_mend(all.body, step, number); });
}

} // namespace

extern "C" int adaptive_tbb(adaptive_run *run)
{
    job all;

    all.body = run->adaptive;
    all.scratch_bytes = adaptive_scratch_bytes(run->adaptive);
    all.scratch =
        static_cast<char *>(std::aligned_alloc(line, run->processors * all.scratch_bytes));
    if (all.scratch == nullptr)
        return -ENOMEM;
    try {
        tbb::task_arena arena(static_cast<int>(run->processors));

        arena.execute([&] {
            for (size_t step = 0; step < run->steps && all.error == 0; step++)
                make_step(all, step);
        });
    } catch (const std::bad_alloc &) {
        all.error = -ENOMEM;
    }
    std::free(all.scratch);
    return all.error;
}
