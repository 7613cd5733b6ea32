/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for what a semaphore is built on: an event, as a queue under a lock that asks the waiters'
 * conditions as protocol/event.h does, and a wait for it with a condition. Included inside the struct
 * of each variant, so it has no guard and includes nothing.
 */

struct um_event;

struct um_await {
    struct um_event *event;
    bool (*accept)(void *arg);
    void (*announce)(void *arg);
    void *arg;
    uint64_t deadline;
    const void *kind;
    const void *on;
    const void *at;
};

struct um_event {
    rl::mutex lock;
    int queue
        [UM_THREADS_MOST]; /* waiting threads, oldest first; under the lock, as queued and wait */
    int queued;
    const struct um_await *wait[UM_THREADS_MOST]; /* of each of them */
    um_atomic_u32 bell[UM_THREADS_MOST];          /* 1: the thread's condition took */
};

struct umbra_event {
    struct um_event event;
};

static void um_event_start(struct um_event *event)
{
    event->queued = 0;
    for (int i = 0; i < UM_THREADS_MOST; i++)
        um_atomic_store(&event->bell[i], 0, relaxed);
}

/* Under the lock. */
static void um_event_unlink(struct um_event *event, int place)
{
    event->queued--;
    for (int i = place; i < event->queued; i++)
        event->queue[i] = event->queue[i + 1];
}

/* Offers the signal to the queued waiters, until one takes. */
static void umbra_event_signal(struct umbra_event *signaled)
{
    struct um_event *event = &signaled->event;

    event->lock.lock($);
    for (int i = 0; i < event->queued; i++) {
        int waiter = event->queue[i];

        if (!event->wait[waiter]->accept(event->wait[waiter]->arg))
            continue;
        um_event_unlink(event, i);
        um_atomic_store(&event->bell[waiter], 1, release);
        um_os_futex_wake(&event->bell[waiter]);
        break;
    }
    event->lock.unlock($);
}

/* True if the condition took at once. */
static bool um_event_join(struct um_event *event, const struct um_await *await, int self)
{
    bool taken;

    um_atomic_store(&event->bell[self], 0, relaxed); /* the lock orders it */
    event->lock.lock($);
    taken = await->accept(await->arg);
    if (!taken) {
        event->wait[self] = await;
        event->queue[event->queued++] = self;
    }
    event->lock.unlock($);
    return taken;
}

/* True if the waiter was in the queue, and is not now. */
static bool um_event_withdraw(struct um_event *event, int self)
{
    bool found = false;

    event->lock.lock($);
    for (int i = 0; i < event->queued && !found; i++) {
        found = event->queue[i] == self;
        if (found)
            um_event_unlink(event, i);
    }
    event->lock.unlock($);
    return found;
}

/* Looks, early or late, or not; may fail then, as in a fiber that is cancelled; announces; queues. */
static int um_await_run(const struct um_await *await)
{
    int self = (int)rl::thread_index();
    bool patient = await->deadline == UMBRA_NEVER;

    if (rl::rand(2) == 0 && await->accept(await->arg))
        return 0;
    if (!patient && rl::rand(4) == 0)
        return -ECANCELED;
    await->announce(await->arg);
    if (um_event_join(await->event, await, self))
        return 0;
    if (!patient && rl::rand(2) == 0 && um_event_withdraw(await->event, self))
        return -ETIMEDOUT;
    /* looks by a read-modify-write: a search of all old values would have no end */
    while (um_atomic_fetch_or(&await->event->bell[self], 0, acquire) == 0)
        um_os_futex_wait(&await->event->bell[self], 0, UMBRA_NEVER);
    return 0;
}

static uint64_t um_deadline_cycles(uint64_t deadline)
{
    return deadline;
}

static constexpr int um_kind_semaphore = 0; /* for reports */

struct umbra_semaphore {
    struct umbra_event event;
    um_atomic_u64 count;
    um_atomic_u32 waiters;
};
