// SPDX-License-Identifier: BSL-1.0
// PhotonLibOS's rows: a virtual processor without an event engine, with pooled stacks.
#include "peers.h"

#include <cerrno>
#include <photon/photon.h>
#include <photon/thread/thread.h>

namespace {

unsigned users;

int enter()
{
    photon::PhotonOptions options;

    options.use_pooled_stack_allocator = photon::STACK_ALLOCATOR_POOLED;
    if (users == 0 && photon::init(photon::INIT_EVENT_NONE, photon::INIT_IO_NONE, options) != 0)
        return -EIO;
    users++;
    return 0;
}

void leave()
{
    if (--users == 0)
        photon::fini();
}

// ---- switch ----

void yield(void *)
{
    photon::thread_yield();
}

void *second_yields(void *turns)
{
    turns_second(static_cast<struct turns *>(turns), yield, nullptr);
    return nullptr;
}

photon::thread *sides[2];

void yield_to(void *side)
{
    photon::thread_yield_to(*static_cast<photon::thread **>(side));
}

void *second_yields_to(void *turns)
{
    turns_second(static_cast<struct turns *>(turns), yield_to, &sides[0]);
    return nullptr;
}

int run_sides(struct turns *turns, photon::thread_entry second, void (*first)(void *))
{
    sides[0] = photon::CURRENT;
    sides[1] = photon::thread_create(second, turns, BENCH_STACK_BYTES);
    auto ended = photon::thread_enable_join(sides[1]);
    turns_first(turns, first, &sides[1]);
    photon::thread_join(ended);
    return 0;
}

int run_yield(struct turns *turns)
{
    return run_sides(turns, second_yields, yield);
}

int run_yield_to(struct turns *turns)
{
    return run_sides(turns, second_yields_to, yield_to);
}

// ---- spawn ----

void *null_thread(void *count)
{
    ++*static_cast<uint64_t *>(count);
    return nullptr;
}

int run_spawn(struct spawned *spawned)
{
    auto all = reinterpret_cast<photon::join_handle **>(spawned->handles);

    for (uint64_t i = 0; i < spawned->iterations; i++) {
        for (uint64_t n = 0; n < spawned->each; n++)
            all[n] = photon::thread_enable_join(
                photon::thread_create(null_thread, &spawned->ran, BENCH_STACK_BYTES));
        for (uint64_t n = 0; n < spawned->each; n++)
            photon::thread_join(all[n]);
    }
    return 0;
}

} // namespace

extern "C" {
extern const struct switch_way photon_yield = {enter, run_yield, leave};
extern const struct switch_way photon_yield_to = {enter, run_yield_to, leave};
extern const struct spawn_way photon_spawn = {enter, run_spawn, leave};
}
