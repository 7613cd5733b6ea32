/* SPDX-License-Identifier: BSL-1.0 */
/* Boost.Fiber's rows, on its default (round-robin) scheduler with pooled stacks. */
#include "peers.h"

#include <atomic>
#include <boost/fiber/all.hpp>
#include <cerrno>
#include <sched.h>
#include <vector>

namespace fibers = boost::fibers;

/* ---- switch ---- */

static void leave(void *)
{
    boost::this_fiber::yield();
}

static int run_switch(struct turns *turns)
{
    fibers::fiber second(fibers::launch::post, [turns] { turns_second(turns, leave, nullptr); });

    turns_first(turns, leave, nullptr);
    second.join();
    return 0;
}

/* ---- spawn ---- */

static int run_spawn(struct spawned *spawned)
{
    boost::context::pooled_fixedsize_stack stacks(BENCH_STACK_BYTES);
    fibers::launch how = spawned->each == 1 ? fibers::launch::dispatch : fibers::launch::post;
    std::vector<fibers::fiber> all(spawned->each);

    for (uint64_t i = 0; i < spawned->iterations; i++) {
        for (auto &fiber : all)
            fiber = fibers::fiber(how, std::allocator_arg, stacks, [spawned] { spawned->ran++; });
        for (auto &fiber : all)
            fiber.join();
    }
    return 0;
}

/* ---- event ---- */

struct event {
    fibers::mutex lock;
    fibers::condition_variable changed;
    bool set = false;
};

static_assert(sizeof(event) <= EVENT_BYTES, "fits");

static void event_init(void *at)
{
    new (at) event;
}

static void event_fini(void *at)
{
    static_cast<event *>(at)->~event();
}

static void event_signal(void *at)
{
    event *e = static_cast<event *>(at);

    e->lock.lock();
    e->set = true;
    e->lock.unlock();
    e->changed.notify_one();
}

static void event_wait(void *at)
{
    event *e = static_cast<event *>(at);
    std::unique_lock<fibers::mutex> locked(e->lock);

    e->changed.wait(locked, [e] { return e->set; });
    e->set = false;
}

static uint64_t call(struct event_pair *pair, uint64_t round_trips)
{
    return event_call(pair, round_trips, event_signal, event_wait);
}

static void *answer(void *pair)
{
    event_answer(static_cast<event_pair *>(pair), event_signal, event_wait);
    return nullptr;
}

/* ---- footprint ---- */

struct blocked {
    fibers::mutex lock;
    fibers::condition_variable changed;
    bool open = false;
    std::vector<fibers::fiber> fibers;
};

static int population_open(struct population *population)
{
    population->state = new blocked;
    return 0;
}

static int population_grow(struct population *population, uint64_t n)
{
    blocked *all = static_cast<blocked *>(population->state);
    boost::context::fixedsize_stack stacks(BENCH_STACK_BYTES);

    all->fibers.reserve(population->capacity);
    for (; population->made < n; population->made++) {
        uint64_t i = population->made;

        all->fibers.emplace_back(fibers::launch::dispatch, std::allocator_arg, stacks,
                                 [population, all, i] {
                                     population_enter(population);
                                     std::unique_lock<fibers::mutex> locked(all->lock);
                                     all->changed.wait(locked, [all] { return all->open; });
                                     population_leave(population, i);
                                 });
    }
    return 0;
}

static int population_release(struct population *population)
{
    blocked *all = static_cast<blocked *>(population->state);

    all->lock.lock();
    all->open = true;
    all->lock.unlock();
    all->changed.notify_all();
    for (auto &fiber : all->fibers)
        fiber.join();
    delete all;
    return 0;
}

/* ---- channel ---- */

struct flow {
    fibers::buffered_channel<uint64_t> channel{STREAM_PLACES};
    struct stream *stream;
    std::atomic<bool> ready{false};
};

static void flow_receive(struct flow *flow)
{
    uint64_t value;

    flow->ready = true;
    while (flow->channel.pop(value) == fibers::channel_op_status::success)
        ledger_enter(&flow->stream->ledger, value);
    flow->stream->end_ns = bench_now_ns();
}

static void *flow_receives(void *arg)
{
    flow_receive(static_cast<struct flow *>(arg));
    return nullptr;
}

/* All items, from when the receiving side has begun. */
static void flow_send(struct flow *flow)
{
    struct stream *stream = flow->stream;
    uint64_t items = stream->items; /* the other side writes to that line */
    uint64_t begin;

    while (!flow->ready)
        boost::this_fiber::yield();
    begin = bench_now_ns();
    for (uint64_t i = 0; i < items; i++)
        flow->channel.push(i);
    flow->channel.close();
    stream->ns = begin; /* until the end is known */
}

static int run_stream(struct stream *stream, int)
{
    struct flow flow;
    fibers::fiber receiver([&flow] { flow_receive(&flow); });

    flow.stream = stream;
    flow_send(&flow);
    receiver.join();
    stream->ns = stream->end_ns - stream->ns;
    return 0;
}

static int run_stream_two(struct stream *stream, int cpu)
{
    struct flow flow;
    pthread_t receiver;
    int error;

    flow.stream = stream;
    error = bench_thread(&receiver, cpu, flow_receives, &flow);
    if (error != 0)
        return error;
    flow_send(&flow);
    pthread_join(receiver, nullptr);
    stream->ns = stream->end_ns - stream->ns;
    return 0;
}

extern "C" {
extern const struct switch_way boost_fiber_switch = {nullptr, run_switch, nullptr};
extern const struct spawn_way boost_fiber_spawn = {nullptr, run_spawn, nullptr};
extern const struct event_way boost_fiber_event = {event_init, event_fini, event_signal, call,
                                                   answer};
extern const struct population_way boost_fiber_population = {
    BENCH_STACK_BYTES, false, population_open, population_grow, population_release};
extern const struct stream_way boost_fiber_stream = {1, run_stream};
extern const struct stream_way boost_fiber_stream_two = {2, run_stream_two};
}
