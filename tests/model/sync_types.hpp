/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for the types that the calls of umbra/sync.h are built on. Included inside the struct
 * of each variant, before the texts, so it has no guard. An event is a waiter's own here: only that
 * waiter waits for it, and one call signals it.
 */
struct um_fiber;
struct umbra_core;
struct umbra_mutex;
struct umbra_condition;
struct umbra_rwlock;

struct um_kind {
    const char *name;
};

struct um_event {
    um_atomic_u32 signaled;

    um_event()
    {
        um_atomic_store(&signaled, 0, relaxed);
    }
};

struct umbra_event {
    struct um_event event;
};

struct um_await {
    struct um_event *event;
    bool (*accept)(void *arg);
    void *arg;
    const bool *crowded;
    uint64_t deadline;
    bool firm;
    const struct um_kind *kind;
    const void *on;
    const void *at;
};
