/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The oneTBB side of null-fork, in a process of its own: an arena of two bound threads
 * (tbb_arena.hpp). Told what to do by child_channel.h.
 *
 *   run-wait    task_group::run and wait. What oneTBB does with it is to run most functions in the
 *               calling thread, at the wait: work moves only when it is stolen before.
 *   elsewhere   run, and no wait before the function has run: the other thread has to take it.
 */
#include <atomic>
#include <cstring>

#include <oneapi/tbb/task_group.h>

#include "tbb_arena.hpp"

namespace {

struct {
    std::atomic<uint64_t> run;       /* functions that ran */
    std::atomic<uint64_t> elsewhere; /* of these, not in the forking thread */
} count;

/* Functions run one after the other, so that a load and a store make an increment. */
void add_one(std::atomic<uint64_t> &counter)
{
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void null_function()
{
    if (tbb::this_task_arena::current_thread_index() != 0)
        add_one(count.elsewhere);
    add_one(count.run);
}

tbb::task_arena *arena;
bool wait_elsewhere;

void fork_and_join(tbb::task_group &group)
{
    uint64_t before = count.run.load(std::memory_order_relaxed);

    group.run(null_function);
    if (wait_elsewhere)
        while (count.run.load(std::memory_order_acquire) == before) {
        }
    group.wait();
}

void batch(child_channel *channel)
{
    count.run.store(0);
    count.elsewhere.store(0);
    arena->execute([=] {
        tbb::task_group group;

        for (uint64_t i = 0; i < channel->iterations; i++)
            fork_and_join(group);
    });
    channel->verified = count.run.load();
    channel->elsewhere = count.elsewhere.load();
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc == 3 ? child_channel_map(atoi(argv[1])) : nullptr;

    if (channel == nullptr)
        return 2;
    wait_elsewhere = std::strcmp(argv[2], "elsewhere") == 0;
    bound_threads two(*channel);

    arena = &two.arena;
    child_channel_serve(channel, batch);
}
