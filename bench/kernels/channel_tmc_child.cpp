/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The TooManyCooks side of channel, in a process of its own: a stream of numbers from one coroutine to
 * another, both in one of its single-threaded executors or each in its own. Told what to do by
 * child_channel.h; a problem is a sum of channel_case.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>

#include <atomic>
#include <future>

#include <tmc/aw_yield.hpp>
#include <tmc/channel.hpp>
#include <tmc/ex_cpu_st.hpp>
#include <tmc/qu_spsc_bounded.hpp>
#include <tmc/sync.hpp>

#include "channel_case.h"
#include "child_channel.h"

namespace {

/* How often an executor, and a receiver on its own, look for work before they sleep. */
constexpr size_t spins = 10000;

tmc::ex_cpu_st executors[2];

/* What both sides have. */
struct flow {
    struct stream stream {};
    std::atomic<bool> ready{false}; /* the receiving side has begun */
};

/* All items, from when the receiving side has begun. */
template <typename Queue> tmc::task<void> send(flow &flow, Queue &queue)
{
    uint64_t items = flow.stream.items; /* the other side writes to that line */

    while (!flow.ready)
        co_await tmc::reschedule();
    flow.stream.ns = child_channel_now_ns(); /* until the end is known */
    for (uint64_t i = 0; i < items; i++)
        co_await queue.push(i);
}

template <typename Queue> tmc::task<void> receive(flow &flow, Queue &queue)
{
    uint64_t items = flow.stream.items;

    flow.ready = true;
    for (uint64_t i = 0; i < items; i++) {
        auto value = co_await queue.pull();

        ledger_enter(&flow.stream.ledger, *value);
    }
    flow.stream.end_ns = child_channel_now_ns();
}

/* Each side has what is its own: two tokens of one queue, or twice the queue. */
template <typename Queue> void run(flow &flow, Queue &to, Queue &from, tmc::ex_cpu_st &receiver)
{
    auto received = tmc::post_waitable(receiver, receive(flow, from));
    auto sent = tmc::post_waitable(executors[0], send(flow, to));

    sent.get();
    received.get();
}

/* The queues stay from batch to batch, with the memory that they have taken. */
void batch(child_channel *channel)
{
    static tmc::qu_spsc_bounded<uint64_t> one(STREAM_PLACES);
    static auto to = tmc::make_channel<uint64_t>(), from = to;
    bool two = (channel->problem & CHANNEL_TWO) != 0;
    flow flow;

    flow.stream.items = channel->iterations;
    to.set_consumer_spins(two ? spins : 0);
    if (channel->problem & CHANNEL_ONE)
        run(flow, one, one, executors[two]);
    else
        run(flow, to, from, executors[two]);
    channel->own_ns = flow.stream.end_ns - flow.stream.ns;
    channel->verified = ledger_proves(&flow.stream.ledger);
}

/* Binds the calling thread, and so the executor's that it starts. */
void bind(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : nullptr;

    if (channel == nullptr)
        return 2;
    for (int i = 0; i < 2; i++) {
        bind(channel->cpus[i]);
        executors[i].set_spins(spins).init();
    }
    child_channel_serve(channel, batch);
}
