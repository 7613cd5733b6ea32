/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for what a channel is built on: events that ask their waiters in their order, and places
 * that each hold one plain number. Included inside the struct of each variant, so it has no guard.
 */
#include "await_users.hpp"

/* A caller that waits: of each thread one. */
struct um_event_waiter {
    um_atomic_u32 bell; /* 1: the waiter was signaled */
    const struct um_await *await;
};

/* Whichever call has the lock is the event's holder. */
struct um_event {
    rl::mutex lock;
    struct um_event_waiter waiter[UM_THREADS_MOST];
    struct um_event_waiter *queue[UM_THREADS_MOST];
    int count;
};

struct umbra_event {
    struct um_event event;
};

static bool um_event_remove(struct um_event *event, const struct um_event_waiter *waiter)
{
    int at = 0;

    while (at < event->count && event->queue[at] != waiter)
        at++;
    if (at == event->count)
        return false;
    for (event->count--; at < event->count; at++)
        event->queue[at] = event->queue[at + 1];
    return true;
}

/* The waiter looks, announces itself, and joins unless its condition holds; with a deadline it may give up. */
static int um_await_run(const struct um_await *await)
{
    struct um_event *event = await->event;
    struct um_event_waiter *self = &event->waiter[rl::thread_index()];
    bool over, left = false;

    if (await->accept(await->arg))
        return 0;
    await->announce(await->arg);
    self->await = await;
    event->lock.lock($);
    over = await->accept(await->arg);
    if (!over)
        event->queue[event->count++] = self;
    event->lock.unlock($);
    if (!over && await->deadline != UMBRA_NEVER && rl::rand(2)) {
        event->lock.lock($);
        left = um_event_remove(event, self);
        event->lock.unlock($);
    }
    if (left)
        return -ETIMEDOUT;
    while (!over && um_atomic_exchange(&self->bell, 0, acquire) == 0)
        um_os_futex_wait(&self->bell, 0, UMBRA_NEVER);
    return 0;
}

static void umbra_event_signal(struct umbra_event *signaled)
{
    struct um_event *event = &signaled->event;
    struct um_event_waiter *woken = NULL;

    event->lock.lock($);
    for (int i = 0; i < event->count && !woken; i++)
        if (event->queue[i]->await->accept(event->queue[i]->await->arg))
            woken = event->queue[i];
    if (woken)
        um_event_remove(event, woken);
    event->lock.unlock($);
    if (!woken)
        return;
    um_atomic_store(&woken->bell, 1, release);
    um_os_futex_wake(&woken->bell);
}

static constexpr int um_kind_channel = 0; /* for reports */

struct um_channel_half {
    struct um_channel_side side;
    struct umbra_event event;
};

struct umbra_channel {
    struct um_channel both;
    rl::var<int> ring[UM_MODEL_PLACES];
    size_t item_bytes;
    struct um_channel_half half[2];
};

static rl::var<int> *um_channel_place(struct umbra_channel *channel, uint64_t at, size_t)
{
    return &channel->ring[at % UM_MODEL_PLACES];
}

static void memcpy(rl::var<int> *place, const void *item, size_t)
{
    um_plain_write(*place, *(const int *)item);
}

static void memcpy(void *item, rl::var<int> *place, size_t)
{
    *(int *)item = um_plain_read(*place);
}
