/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/channel.h: copying an item in and out, and waiting for a place or an item.
 * Private; included by that header, after its declarations. W1 to W3 and G1 to G3 are the steps of
 * the table in channel/protocol.h.
 */
#ifndef UMBRA_CHANNEL_PUSH_POP_H
#define UMBRA_CHANNEL_PUSH_POP_H

#include <stdlib.h>
#include <string.h>

#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/channel/protocol.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/event.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_LINKONCE UM_NOINLINE void um_channel_signal(struct umbra_channel *channel,
                                               enum um_channel_which which);

/* The place of item number `at`. */
UM_INLINE unsigned char *um_channel_place(const struct umbra_channel *channel, uint64_t at,
                                          size_t bytes)
{
    return channel->ring + (at & channel->mask) * bytes;
}

#define UM_CHANNEL_LINES_PUSH 4 /* how far ahead of a push its lines are fetched, and of a pop */
#define UM_CHANNEL_LINES_POP 2

/* The place to be fetched: so many lines ahead, or, in a short ring, the next. */
UM_ALWAYS_INLINE const unsigned char *um_channel_next_lines(const struct umbra_channel *channel,
                                                            uint64_t at, size_t bytes, size_t lines)
{
    size_t items = lines * UMBRA_CACHE_LINE / bytes;

    return um_channel_place(channel, channel->mask < 4 * items ? at : at + items, bytes);
}

/* 0; -EPIPE: closed; -EAGAIN: full. */
UM_ALWAYS_INLINE int um_channel_put(struct umbra_channel *channel, const void *item, size_t bytes)
{
    struct um_channel_side *mine = &channel->half[UM_CHANNEL_PUSH].side;
    int result = -EAGAIN;
    bool due = false;
    uint64_t at = um_channel_enter(&channel->both, mine);

    if (UM_UNLIKELY(um_channel_closed(&channel->both))) {
        result = -EPIPE;
    } else if (UM_LIKELY(um_channel_may(mine, &channel->half[UM_CHANNEL_POP].side, at))) {
        /* the other side's core has the lines of free places, since it has read them */
        um_arch_prefetch_write(um_channel_next_lines(channel, at, bytes, UM_CHANNEL_LINES_PUSH));
        memcpy(um_channel_place(channel, at, bytes), item, bytes);
        due = um_channel_done(&channel->both, UM_CHANNEL_PUSH, mine, at);
        result = 0;
    }
    um_channel_leave(&channel->both, mine);
    if (UM_UNLIKELY(due))
        um_channel_signal(channel, UM_CHANNEL_POP);
    return result;
}

/* False: empty. stays: the item, which is only looked at, or not even that if `item` is NULL. */
UM_ALWAYS_INLINE bool um_channel_take(struct umbra_channel *channel, void *item, size_t bytes,
                                      bool stays)
{
    struct um_channel_side *mine = &channel->half[UM_CHANNEL_POP].side;
    bool taken = false;
    bool due = false;
    uint64_t at = um_channel_enter(&channel->both, mine);

    if (UM_LIKELY(um_channel_may(mine, &channel->half[UM_CHANNEL_PUSH].side, at))) {
        /* but not a line that the other side may be writing to */
        if (um_channel_left(mine, at) > (UM_CHANNEL_LINES_POP + 1) * UMBRA_CACHE_LINE / bytes)
            um_arch_prefetch_read(um_channel_next_lines(channel, at, bytes, UM_CHANNEL_LINES_POP));
        if (!stays || item)
            memcpy(item, um_channel_place(channel, at, bytes), bytes);
        if (!stays)
            due = um_channel_done(&channel->both, UM_CHANNEL_POP, mine, at);
        taken = true;
    }
    um_channel_leave(&channel->both, mine);
    if (UM_UNLIKELY(due))
        um_channel_signal(channel, UM_CHANNEL_PUSH);
    return taken;
}

#ifdef UMBRA_IMPLEMENTATION

/* ---- waiting ---- */

UM_SHARED(const struct um_kind um_kind_channel, {"channel", NULL});

/* A wait for a place or an item. In the waiter's frame. */
struct um_channel_wait {
    struct umbra_channel *channel;
    enum um_channel_which which;
    bool announced; /* W1 is done, and not undone; the waiter until W3, then the event's holder */
};

UM_LINKONCE void um_channel_wait_announce(void *arg)
{
    struct um_channel_wait *wait = arg;

    wait->announced = true;
    um_channel_announce(&wait->channel->both, wait->which,
                        &wait->channel->half[1 - wait->which].side);
}

/* W3, and before that what the waiter asks in place. True: the wait is over. */
UM_LINKONCE bool um_channel_wait_over(void *arg)
{
    struct um_channel_wait *wait = arg;
    struct umbra_channel *channel = wait->channel;

    if (!um_channel_ready(&channel->both, &channel->half[wait->which].side,
                          &channel->half[1 - wait->which].side))
        return false;
    if (wait->announced)
        um_channel_retract(&channel->both, wait->which);
    wait->announced = false;
    return true;
}

/* Waits until the caller should try again: 0, or an error of the wait. */
UM_LINKONCE int um_channel_await(struct umbra_channel *channel, enum um_channel_which which,
                                 uint64_t deadline, const void *at)
{
    struct um_channel_wait wait = {channel, which, false};
    struct um_await await = {.event = &channel->half[which].event.event,
                             .accept = um_channel_wait_over,
                             .announce = um_channel_wait_announce,
                             .arg = &wait,
                             .deadline = um_deadline_cycles(deadline),
                             .kind = &um_kind_channel,
                             .on = channel,
                             .at = at};
    int error;

    if (deadline == 0)
        return -ETIMEDOUT;
    error = um_await_run(&await);
    if (wait.announced)
        um_channel_retract(&channel->both, which);
    return error;
}

/* G3. */
UM_LINKONCE UM_NOINLINE void um_channel_signal(struct umbra_channel *channel,
                                               enum um_channel_which which)
{
    umbra_event_signal(&channel->half[which].event);
}

/* at, here and below: for reports. */
UM_LINKONCE int um_channel_push_at(struct umbra_channel *channel, const void *item,
                                   uint64_t deadline, const void *at)
{
    for (;;) {
        int result = um_channel_put(channel, item, channel->item_bytes);

        if (result != -EAGAIN)
            return result;
        result = um_channel_await(channel, UM_CHANNEL_PUSH, deadline, at);
        if (result != 0)
            return result;
    }
}

UM_LINKONCE int um_channel_pop_at(struct umbra_channel *channel, void *item, uint64_t deadline,
                                  const void *at)
{
    for (;;) {
        bool closed = um_channel_closed(&channel->both); /* before the last look */
        int error;

        if (um_channel_take(channel, item, channel->item_bytes, false))
            return 0;
        if (closed)
            return -EPIPE;
        error = um_channel_await(channel, UM_CHANNEL_POP, deadline, at);
        if (error != 0)
            return error;
    }
}

/* ---- calls of the program ---- */

UM_LINKONCE int umbra_channel_init(struct umbra_channel *channel, size_t capacity,
                                   size_t item_bytes, enum umbra_channel_sides sides)
{
    size_t places = 1, bytes;
    uint32_t few;

    if (capacity < 1 || item_bytes < 1 || sides > UMBRA_CHANNEL_ONE || capacity > SIZE_MAX / 4)
        return um_why(-EINVAL, "capacity = %zu, item_bytes = %zu, sides = %d: out of range",
                      capacity, item_bytes, (int)sides);
    while (places < capacity)
        places *= 2;
    if (places > SIZE_MAX / 2 / item_bytes)
        return um_why(-EINVAL, "capacity = %zu of %zu bytes: no such size", capacity, item_bytes);
    few = capacity / 16 < UM_CHANNEL_FEW ? (uint32_t)(capacity / 16) : UM_CHANNEL_FEW;
    bytes = (places * item_bytes + UMBRA_CACHE_LINE - 1) / UMBRA_CACHE_LINE * UMBRA_CACHE_LINE;
    *channel = (struct umbra_channel){
        .both = {.one = sides == UMBRA_CHANNEL_ONE, .may_be_quick = um_os_may_fence_threads()},
        .mask = places - 1,
        .item_bytes = item_bytes,
        .half = {[UM_CHANNEL_PUSH] = {.side = {.ahead = capacity, .limit = capacity, .few = few},
                                      .event = UMBRA_EVENT_INIT},
                 [UM_CHANNEL_POP] = {.side = {.few = few}, .event = UMBRA_EVENT_INIT}}};
    channel->ring = aligned_alloc(UMBRA_CACHE_LINE, bytes);
    return channel->ring ? 0 : um_why_none(-ENOMEM);
}

UM_LINKONCE void umbra_channel_fini(struct umbra_channel *channel)
{
    free(channel->ring);
    channel->ring = NULL;
}

UM_LINKONCE UM_NOINLINE int umbra_channel_push(struct umbra_channel *channel, const void *item,
                                               uint64_t deadline)
{
    return um_channel_push_at(channel, item, deadline, __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_channel_pop(struct umbra_channel *channel, void *item,
                                              uint64_t deadline)
{
    return um_channel_pop_at(channel, item, deadline, __builtin_return_address(0));
}

UM_LINKONCE int umbra_channel_peek(struct umbra_channel *channel, void *item)
{
    bool closed = um_channel_closed(&channel->both); /* before the look */

    if (um_channel_take(channel, item, channel->item_bytes, true))
        return 0;
    return closed ? -EPIPE : -EAGAIN;
}

UM_LINKONCE int umbra_channel_close(struct umbra_channel *channel)
{
    bool open = um_channel_shut(&channel->both, &channel->half[UM_CHANNEL_PUSH].side);

    for (int which = 0; which < 2; which++) {
        /* seq_cst: G2 */
        uint32_t due = um_atomic_load(&channel->both.waiting[which], seq_cst);

        while (due-- > 0)
            umbra_event_signal(&channel->half[which].event);
    }
    return open ? 0 : -EALREADY;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
