/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for what a barrier is built on: a manual-reset event. Included inside the struct of
 * each variant, so it has no guard and includes nothing.
 */

struct umbra_event {
    um_atomic_u32 set;
};

static void umbra_event_reset(struct umbra_event *event)
{
    um_atomic_store(&event->set, 0, relaxed);
}

static void umbra_event_signal(struct umbra_event *event)
{
    um_atomic_store(&event->set, 1, release);
    for (int i = 0; i < UM_THREADS_MOST; i++)
        um_os_futex_wake(&event->set);
}

/* Looks by a read-modify-write: a search of all old values would have no end. */
static int um_sync_wait(struct umbra_event *event, void *, void *, uint64_t deadline, const void *,
                        const void *, const void *)
{
    while (um_atomic_fetch_or(&event->set, 0, acquire) == 0) {
        if (deadline != UMBRA_NEVER && rl::rand(2) == 0)
            return -ETIMEDOUT;
        um_os_futex_wait(&event->set, 0, UMBRA_NEVER);
    }
    return 0;
}

static void um_event_wait_firm(struct umbra_event *event, void *, void *, const void *,
                               const void *, const void *)
{
    um_sync_wait(event, NULL, NULL, UMBRA_NEVER, NULL, NULL, NULL);
}

static const int um_kind_barrier = 0; /* for reports */

static int um_may_wait(void)
{
    return 0;
}

struct umbra_barrier {
    struct umbra_event event[2];
    um_atomic_u64 state;
    uint32_t parties;
};
