/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Channels: bounded first-in-first-out queues of values, between fibers and threads on any core.
 *
 *     typedef UMBRA_CHANNEL(struct sample) sample_channel;
 *
 *     sample_channel samples;
 *
 *     UMBRA_CHANNEL_OPEN(&samples, 256, UMBRA_CHANNEL_MANY);
 *
 *     a pusher                                       a popper
 *     UMBRA_CHANNEL_PUSH(&samples, &sample,          struct sample sample;
 *                        UMBRA_NEVER);               while (UMBRA_CHANNEL_POP(&samples, &sample,
 *     ...                                                                     UMBRA_NEVER) == 0)
 *     UMBRA_CHANNEL_CLOSE(&samples);                     ...
 *
 *     when all their calls have returned, say after both were joined
 *     UMBRA_CHANNEL_FINI(&samples);
 *
 * Items are copied in and out; a port (umbra/port.h) links messages instead, and has choices, joins
 * and handlers. A push to a full channel waits for a place, and a pop from an empty one for an
 * item: a fiber lets its core run other fibers, a thread spins and then sleeps.
 *
 * Order. Items are popped in the order in which they were pushed. Of the callers that wait on one
 * side, the one that has waited longest is woken first. But it is woken to try: a caller that comes
 * just then may be faster, and then the woken caller waits again, at the end of the queue.
 *
 * Sides. UMBRA_CHANNEL_MANY: any number of pushers and of poppers. UMBRA_CHANNEL_ONE: the program
 * sees to it that at most one call at a time pushes, and at most one pops, and that what one such
 * call did happens before the next (they may come from different fibers or threads). An item then
 * costs no locked instruction while neither side waits.
 *
 * Closing ends the pushes: also those that wait get -EPIPE. The items in the channel can still be
 * popped; then pops get -EPIPE. If a call closes a UMBRA_CHANNEL_ONE while another one pushes, the
 * item of that push may stay in the channel, unseen.
 *
 * Calls on one channel that may run at once
 *
 *     call        beside it                         wrong use
 *     init, fini  none                              not found
 *     push        pop, close; UMBRA_CHANNEL_MANY:   an item lost or twice
 *                 also push
 *     pop, peek   push, close; UMBRA_CHANNEL_MANY:  likewise
 *                 also pop, peek
 *     close       push, pop, close                  the second: -EALREADY
 *
 * Callers: a fiber, or any other thread, but no signal handler. A thread that is no core and pushes
 * to or pops from a channel where fibers wait, or closes it, holds the runtime meanwhile
 * (umbra_hold).
 *
 * How it works: channel/protocol.h. The channel is in the caller's memory, which may be any, and
 * is faster if it begins a cache line (see umbra/event.h); its ring is allocated. It must outlive
 * all calls on it: a push, pop or close may still use the channel after the call that it has woken
 * has returned. So a pop that returns -EPIPE does not say that the close has returned.
 */
#ifndef UMBRA_CHANNEL_H
#define UMBRA_CHANNEL_H

#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/channel/protocol.h>
#include <umbra/cpu.h>
#include <umbra/event.h>

/* How many callers there may be at a time. */
enum umbra_channel_sides {
    UMBRA_CHANNEL_MANY, /* any number on each side */
    UMBRA_CHANNEL_ONE   /* one on each side */
};

/* One side, and the event that its callers wait for. */
struct um_channel_half {
    struct um_channel_side side;
    unsigned char apart[UM_LINE_REST(sizeof(struct um_channel_side))];
    struct umbra_event event;
};

struct umbra_channel {
    UM_ALIGNED(UM_ANY_MEMORY) struct um_channel both;
    unsigned char *ring; /* the items; written and read by the side that has its turn */
    uint64_t mask;       /* places in the ring, a power of two, less one; fixed */
    size_t item_bytes;   /* fixed */
    unsigned char apart[UM_LINE_REST(sizeof(struct um_channel) + 3 * sizeof(uint64_t))];
    struct um_channel_half half[2]; /* by enum um_channel_which */
};

/*
 * Makes an open, empty channel of at most `capacity` items of item_bytes each. While no other call
 * uses it; does not switch, and blocks only in the first call of a process with several threads
 * (membarrier(2), some milliseconds). Returns 0; -EINVAL: capacity or item_bytes is 0, their
 * product is no size, or `sides` is neither of the two; -ENOMEM.
 */
UM_LINKONCE int umbra_channel_init(struct umbra_channel *channel, size_t capacity,
                                   size_t item_bytes, enum umbra_channel_sides sides);

/* Frees the ring, with the items in it. When no other call uses the channel any more; neither
 * switches nor blocks. */
UM_LINKONCE void umbra_channel_fini(struct umbra_channel *channel);

/*
 * Pushes a copy of *item. If the channel is full, waits for a place (a fiber may switch, a thread
 * blocks), until a time of umbra_now_ns() at the latest; UMBRA_NEVER: for ever; 0: does not wait.
 * Else it neither switches nor blocks, but may wait for the few instructions in
 * which another caller has its turn. Returns 0, or with nothing pushed:
 *   -EPIPE      the channel is closed, or was while the push waited
 *   -ETIMEDOUT  the deadline passed first
 *   -ECANCELED  full, and the calling fiber is canceled (umbra_cancel)
 *   -EPERM      full, and on an alternate signal stack
 *   -ENOMEM     full, and a thread's first wait, or one with a deadline
 * or another error of a thread's first wait (umbra_event_wait).
 */
UM_LINKONCE int umbra_channel_push(struct umbra_channel *channel, const void *item,
                                   uint64_t deadline);

/* Pops the oldest item to *item, and waits for one as a push does for a place. Returns 0, or with
 * *item untouched: -EPIPE: closed and empty; else as a push, with "empty" for "full". */
UM_LINKONCE int umbra_channel_pop(struct umbra_channel *channel, void *item, uint64_t deadline);

/*
 * Copies the oldest item to *item, and leaves it in the channel; NULL: only looks whether there is
 * one. Counts as a pop for what may run at once: with one popper the next pop gets that item, with
 * several another one may have been faster. Never waits, but for another caller's turn. Returns 0,
 * or with *item untouched: -EAGAIN: empty by now; -EPIPE: closed and empty.
 */
UM_LINKONCE int umbra_channel_peek(struct umbra_channel *channel, void *item);

/* Closes the channel. Returns 0; -EALREADY: it is closed. Never switches or blocks. */
UM_LINKONCE int umbra_channel_close(struct umbra_channel *channel);

/*
 * A channel of T, any type that can be copied as bytes. The calls below take a pointer c to such a
 * channel and do what the calls above do (UMBRA_CHANNEL_OPEN: umbra_channel_init). item: a T *; a
 * pointer to another type is an error of the compiler. The channel without its type is the member
 * `channel`.
 */
#define UMBRA_CHANNEL(T)                                                                           \
    union {                                                                                        \
        struct umbra_channel channel;                                                              \
        T *type; /* only its type is used */                                                       \
    }
#define UMBRA_CHANNEL_OPEN(c, capacity, sides)                                                     \
    umbra_channel_init(&(c)->channel, (capacity), sizeof(*(c)->type), (sides))
#define UMBRA_CHANNEL_FINI(c) umbra_channel_fini(&(c)->channel)
#define UMBRA_CHANNEL_CLOSE(c) umbra_channel_close(&(c)->channel)
#define UMBRA_CHANNEL_PUSH(c, item, deadline) UM_CHANNEL_PUSH(c, item, deadline)
#define UMBRA_CHANNEL_POP(c, item, deadline) UM_CHANNEL_POP(c, item, deadline)
#define UMBRA_CHANNEL_PEEK(c, item) UM_CHANNEL_PEEK(c, item)

#ifdef __cplusplus
#define UM_CHANNEL_PUSH(c, item, deadline)                                                         \
    um_channel_push_as(&(c)->channel, (c)->type, (item), (deadline))
#define UM_CHANNEL_POP(c, item, deadline)                                                          \
    um_channel_pop_as(&(c)->channel, (c)->type, (item), (deadline))
#define UM_CHANNEL_PEEK(c, item) um_channel_peek_as(&(c)->channel, (c)->type, (item))
#else
#define UM_CHANNEL_PUSH(c, item, deadline)                                                         \
    (UM_CHANNEL_SAME_TYPE(c, *(item)),                                                             \
     um_channel_push_of(&(c)->channel, (item), sizeof(*(c)->type), (deadline)))
#define UM_CHANNEL_POP(c, item, deadline)                                                          \
    (UM_CHANNEL_SAME_TYPE(c, *(item)),                                                             \
     um_channel_pop_of(&(c)->channel, (item), sizeof(*(c)->type), (deadline)))
#define UM_CHANNEL_PEEK(c, item)                                                                   \
    (UM_CHANNEL_SAME_TYPE(c, *(item)), umbra_channel_peek(&(c)->channel, (item)))
#endif

#define UM_CHANNEL_SAME_TYPE(c, item)                                                              \
    ((void)sizeof(struct {                                                                         \
        UM_STATIC_ASSERT(__builtin_types_compatible_p(__typeof__(*(c)->type), __typeof__(item)),   \
                         "an item of another type than the channel's");                            \
        int member;                                                                                \
    }))

UM_ALWAYS_INLINE int um_channel_push_of(struct umbra_channel *channel, const void *item,
                                        size_t bytes, uint64_t deadline);
UM_ALWAYS_INLINE int um_channel_pop_of(struct umbra_channel *channel, void *item, size_t bytes,
                                       uint64_t deadline);

#include <umbra/channel/push_pop.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_STATIC_ASSERT(__alignof__(struct umbra_channel) <= UM_ANY_MEMORY, "malloc's memory will do");
UM_STATIC_ASSERT(offsetof(struct umbra_channel, half) % UMBRA_CACHE_LINE == 0 &&
                     offsetof(struct um_channel_half, event) % UMBRA_CACHE_LINE == 0 &&
                     sizeof(struct umbra_channel) % UMBRA_CACHE_LINE == 0,
                 "what the sides write is apart");

/* bytes: the channel's item_bytes; where it is a constant, the copy is a few instructions. */
UM_ALWAYS_INLINE int um_channel_push_of(struct umbra_channel *channel, const void *item,
                                        size_t bytes, uint64_t deadline)
{
    return UM_LIKELY(um_channel_put(channel, item, bytes) == 0)
               ? 0
               : umbra_channel_push(channel, item, deadline);
}

UM_ALWAYS_INLINE int um_channel_pop_of(struct umbra_channel *channel, void *item, size_t bytes,
                                       uint64_t deadline)
{
    return UM_LIKELY(um_channel_take(channel, item, bytes, false))
               ? 0
               : umbra_channel_pop(channel, item, deadline);
}

#ifdef __cplusplus
/* The macros in C++. `type` only says what T is: an item of another type is an error. */
extern "C++" {
template <class T>
UM_ALWAYS_INLINE int um_channel_push_as(struct umbra_channel *channel, T *const &type,
                                        const T *item, uint64_t deadline)
{
    (void)type;
    return um_channel_push_of(channel, item, sizeof(T), deadline);
}

template <class T>
UM_ALWAYS_INLINE int um_channel_pop_as(struct umbra_channel *channel, T *const &type, T *item,
                                       uint64_t deadline)
{
    (void)type;
    return um_channel_pop_of(channel, item, sizeof(T), deadline);
}

template <class T>
UM_ALWAYS_INLINE int um_channel_peek_as(struct umbra_channel *channel, T *const &type, T *item)
{
    (void)type;
    return umbra_channel_peek(channel, item);
}
}
#endif

#endif
