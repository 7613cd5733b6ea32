// SPDX-License-Identifier: BSL-1.0
// PhotonLibOS's rows: a virtual processor with pooled stacks, and without an event engine, but for
// echo, where that is its io_uring.
#include "peers.h"

#include <cerrno>
#include <vector>

#pragma GCC diagnostic push // the headers' own warnings
#pragma GCC diagnostic ignored "-Wdeprecated-copy"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <photon/common/alog.h>
#include <photon/io/iouring-wrapper.h>
#include <photon/photon.h>
#include <photon/thread/thread.h>
#pragma GCC diagnostic pop

// Not there if the library was built without io_uring.
namespace photon {
BENCH_WEAK ssize_t iouring_recv(int, void *, size_t, uint64_t, Timeout, CascadingEventEngine *);
BENCH_WEAK ssize_t iouring_send(int, const void *, size_t, uint64_t, Timeout,
                                CascadingEventEngine *);
} // namespace photon

namespace {

unsigned users;

int enter_with(uint64_t engine)
{
    photon::PhotonOptions options;

    set_log_output(log_output_stderr);
    set_log_output_level(ALOG_ERROR);
    options.use_pooled_stack_allocator = photon::STACK_ALLOCATOR_POOLED;
    if (users == 0 && photon::init(engine, photon::INIT_IO_NONE, options) != 0)
        return -EIO;
    users++;
    return 0;
}

int enter()
{
    return enter_with(photon::INIT_EVENT_NONE);
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

// ---- echo ----

int enter_ring()
{
    return enter_with(photon::INIT_EVENT_IOURING);
}

void *serve_one(void *connection)
{
    int fd = *static_cast<const int *>(connection);
    echo_message message;

    while (photon::iouring_recv(fd, &message, sizeof(message)) == sizeof(message) &&
           message.kind == ECHO_ASKED)
        photon::iouring_send(fd, &message, sizeof(message), MSG_NOSIGNAL);
    return nullptr;
}

void serve(const int *connections, unsigned count)
{
    std::vector<photon::join_handle *> all;

    for (unsigned i = 0; i < count; i++)
        all.push_back(photon::thread_enable_join(photon::thread_create(
            serve_one, const_cast<int *>(&connections[i]), BENCH_STACK_BYTES)));
    for (auto one : all)
        photon::thread_join(one);
}

} // namespace

extern "C" {
extern const struct switch_way photon_yield = {enter, run_yield, leave};
extern const struct switch_way photon_yield_to = {enter, run_yield_to, leave};
extern const struct spawn_way photon_spawn = {enter, run_spawn, leave};
extern const struct echo_way photon_echo = {enter_ring, serve, leave};
}
