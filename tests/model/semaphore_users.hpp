/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for what a semaphore is built on: an event (event_queue.hpp), and a wait for it with a
 * condition. Included inside the struct of each variant, so it has no guard.
 */
#include "await_users.hpp"

struct um_event {
    event_queue queue;
    const struct um_await *wait[UM_THREADS_MOST]; /* of each queued thread */

    bool takes(int thread)
    {
        return wait[thread]->accept(wait[thread]->arg);
    }
};

struct umbra_event {
    struct um_event event;
};

static void umbra_event_signal(struct umbra_event *signaled)
{
    struct um_event *event = &signaled->event;

    event->queue.signal([event](int thread) { return event->takes(thread); });
}

/* Looks, early or late, or not; may fail then, as in a fiber that is cancelled; announces; queues. */
static int um_await_run(const struct um_await *await)
{
    struct um_event *event = await->event;
    int self = (int)rl::thread_index();
    bool patient = await->deadline == UMBRA_NEVER;

    if (rl::rand(2) == 0 && await->accept(await->arg))
        return 0;
    if (!patient && rl::rand(4) == 0)
        return -ECANCELED;
    await->announce(await->arg);
    event->wait[self] = await;
    if (event->queue.join(self, [event](int thread) { return event->takes(thread); }))
        return 0;
    if (!patient && rl::rand(2) == 0 && event->queue.withdraw(self))
        return -ETIMEDOUT;
    event->queue.sleep(self);
    return 0;
}

static constexpr int um_kind_semaphore = 0; /* for reports */

struct umbra_semaphore {
    struct umbra_event event;
    um_atomic_u64 count;
    um_atomic_u32 waiters;
};
