/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An arena of oneTBB threads, each bound to one of the kernel's processors by an observer, as
 * oneTBB's documentation does it; for the child processes that host oneTBB.
 */
#ifndef UMBRA_BENCH_TBB_ARENA_HPP
#define UMBRA_BENCH_TBB_ARENA_HPP

#include <sched.h>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>

#include "child_channel.h"

constexpr int threads = 2;

class binder : public tbb::task_scheduler_observer {
  public:
    binder(tbb::task_arena &arena, const child_channel &channel, unsigned count)
        : task_scheduler_observer(arena), cpus(channel.cpus), places(count)
    {
        observe(true);
    }

    ~binder() override
    {
        observe(false);
    }

    void on_scheduler_entry(bool) override
    {
        int cpu =
            cpus[static_cast<unsigned>(tbb::this_task_arena::current_thread_index()) % places];
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(static_cast<size_t>(cpu), &set);
        sched_setaffinity(0, sizeof set, &set);
    }

  private:
    const int32_t *cpus;
    unsigned places;
};

struct bound_threads {
    tbb::global_control limit;
    tbb::task_arena arena;
    binder bound;

    explicit bound_threads(const child_channel &channel, unsigned count = threads)
        : limit(tbb::global_control::max_allowed_parallelism, count),
          arena(static_cast<int>(count)), bound(arena, channel, count)
    {
    }
};

#endif
