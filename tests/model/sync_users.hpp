/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for what the calls of umbra/sync.h are built on: waits for a waiter's own event, a
 * clock of two times, and the identity of callers. Included inside the struct of each variant, so
 * it has no guard.
 */
static constexpr struct umbra_core *um_core_self = NULL;
static constexpr struct um_kind um_kind_mutex = {"mutex"};
static constexpr struct um_kind um_kind_condition = {"condition"};
static constexpr struct um_kind um_kind_semaphore = {"semaphore"};
static constexpr struct um_kind um_kind_read_lock = {"read lock"};
static constexpr struct um_kind um_kind_write_lock = {"write lock"};

struct umbra_mutex {
    um_atomic_u64 word;
    um_atomic_uptr owner;
    um_atomic_u64 due;
    struct um_waiters waiters;
};

struct umbra_condition {
    struct um_lock list;
    struct um_waiters waiters;
    um_plain(uint64_t) round;
};

struct umbra_semaphore {
    um_atomic_u64 word;
    struct um_waiters waiters;
};

struct umbra_rwlock {
    um_atomic_u64 word;
    struct um_waiters waiters;
};

/* Chance decides if a time has passed: a deadline's, or that of a mutex's due and since. */
static uint64_t um_cycles(void)
{
    return rl::rand(2);
}

static uint64_t um_cycles_after(uint64_t)
{
    return 0;
}

static uint64_t um_ns_to_cycles(uint64_t)
{
    return 0;
}

static uint64_t um_deadline_cycles(uint64_t deadline)
{
    return deadline;
}

static uintptr_t um_sync_self(void)
{
    return um_model_self(rl::thread_index());
}

static void um_mutex_count(uint32_t)
{
}

static int um_mutex_refusal(const struct umbra_mutex *)
{
    return -EPERM;
}

static int um_may_wait(void)
{
    return 0;
}

/* How they count is checked by quiet.cpp. */
static void um_outside_call(void)
{
}

static void um_outside_call_ends(void)
{
}

static void um_thread_look_again(unsigned, uint64_t)
{
    rl::yield(1, $);
}

static struct um_fiber *um_core_current(struct umbra_core *)
{
    return NULL;
}

/* No polls, as on a busy core, or some, of which a mutex looks at few. */
static int um_await_in_place(const struct um_await *await)
{
    for (int left = rl::rand(2) ? 3 : 0; left > 0; left--)
        if (await->accept(await->arg))
            return 0;
    return -EAGAIN;
}

/* Looks by a read-modify-write: a search of all old values would have no end. */
static bool um_model_signaled(struct um_event *event)
{
    if (um_atomic_fetch_or(&event->signaled, 0, acquire) == 0)
        return false;
    um_atomic_store(&event->signaled, 0, relaxed); /* out of the list, so its own */
    return true;
}

static int um_await_queue(const struct um_await *await, struct umbra_core *, struct um_fiber *)
{
    while (!um_model_signaled(await->event)) {
        if (await->deadline != UMBRA_NEVER && rl::rand(2) == 0)
            return -ETIMEDOUT;
        um_os_futex_wait(&await->event->signaled, 0, UMBRA_NEVER);
    }
    return 0;
}

static int um_await_end(int begun)
{
    return begun;
}

static int um_event_wait_on(struct umbra_event *event, uint64_t deadline, const struct um_kind *,
                            const void *, const void *)
{
    struct um_await await = {.event = &event->event, .deadline = deadline};

    return um_await_queue(&await, NULL, NULL);
}

static void um_fiber_waits_now(struct um_fiber *, const struct um_kind *, const void *)
{
}

static void um_event_wait_firm(struct umbra_event *event, bool (*)(void *), void *,
                               const struct um_kind *, const void *, const void *)
{
    while (!um_model_signaled(&event->event))
        um_os_futex_wait(&event->event.signaled, 0, UMBRA_NEVER);
}

static void umbra_event_signal(struct umbra_event *event)
{
    um_atomic_u32 *signaled = &event->event.signaled;

    um_atomic_store(signaled, 1, release); /* the waiter's frame may end */
    um_os_futex_wake(signaled);
}

static void umbra_event_signal_async(struct umbra_event *event)
{
    umbra_event_signal(event);
}
