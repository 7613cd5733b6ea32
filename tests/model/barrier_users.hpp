/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for what a barrier is built on: a manual-reset event that is never reset, and a wait for
 * it with a condition. Included inside the struct of each variant, so it has no guard.
 */
#include "await_users.hpp"

struct um_event {
    um_atomic_u32 signals;
};

struct umbra_event {
    struct um_event event;
};

static void umbra_event_signal(struct umbra_event *event)
{
    um_atomic_fetch_add(&event->event.signals, 1, acq_rel);
    for (int i = 0; i < UM_THREADS_MOST; i++)
        um_os_futex_wake(&event->event.signals);
}

/*
 * The waiter looks; it may fail then, as in a fiber that is cancelled; it announces itself, and
 * queues. The condition is asked at the join and at each signal. A read-modify-write is the join:
 * what came before a signal that it finds is seen.
 */
static int um_await_run(const struct um_await *await)
{
    if (await->accept(await->arg))
        return 0;
    if (await->deadline != UMBRA_NEVER && rl::rand(2) == 0)
        return -ECANCELED;
    await->announce(await->arg);
    for (;;) {
        uint32_t signals = um_atomic_fetch_or(&await->event->signals, 0, acq_rel);

        if (await->accept(await->arg))
            return 0;
        if (await->deadline != UMBRA_NEVER && rl::rand(2) == 0)
            return -ETIMEDOUT;
        um_os_futex_wait(&await->event->signals, signals, UMBRA_NEVER);
    }
}

/* No look in place: to the caller it would be the first look of um_await_run(), which follows. */
static bool um_barrier_opens_soon(const struct um_barrier_arrival *arrival)
{
    return false;
}

static constexpr int um_kind_barrier = 0; /* for reports */

struct umbra_barrier {
    struct umbra_event event;
    um_atomic_u64 state;
    uint32_t parties;
};
