/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/port.h: posting to a port, receiving from it, and choosing among several.
 * Private; included by that header, after its declarations. The calls change ports under their
 * locks (port/protocol.h) and then signal the bells of the waiters that they released.
 */
#ifndef UMBRA_PORT_POST_RECEIVE_H
#define UMBRA_PORT_POST_RECEIVE_H

#include <string.h>

#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/event.h>
#include <umbra/port/protocol.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_INLINE void *um_message_holder(struct umbra_message *message, size_t offset)
{
    return message ? (char *)message - offset : NULL;
}

UM_LINKONCE UM_NOINLINE int um_port_receive_holder(struct umbra_port *port, void *out,
                                                   size_t offset, uint64_t deadline);

#ifdef UMBRA_IMPLEMENTATION

/* Rings the bells of the waiters that a call wakes, if any. */
UM_INLINE void um_port_ring(const struct um_waiters *out)
{
    if (UM_UNLIKELY(out->first))
        um_waiters_signal(out->first, false);
}

UM_SHARED(const struct um_kind um_kind_port, {"port", NULL});

/* Waits for the choice's bell; returns the choice's result, or an error if the wait gave up. on: a
 * port, for reports. */
UM_ALWAYS_INLINE int um_choice_wait(struct um_choice *choice, uint64_t deadline, const void *on,
                                    const void *at)
{
    struct umbra_event *bell = choice->waiter.bell;
    int error = um_event_wait_on(bell, deadline, &um_kind_port, on, at);

    if (error != 0) {
        if (um_choice_claim(choice))
            return error;
        um_event_wait_firm(bell, NULL, NULL, &um_kind_port, on, at);
    }
    return choice->result;
}

/* 0, -EPIPE, or -EAGAIN: full. */
UM_ALWAYS_INLINE int um_port_try_post(struct umbra_port *port, struct umbra_message *message)
{
    struct um_waiters out = {NULL, NULL, 0};
    int result = um_port_post(port, message, NULL, &out);

    um_port_ring(&out);
    return result;
}

UM_LINKONCE int um_port_post_waiting(struct umbra_port *port, struct umbra_message *message,
                                     uint64_t deadline, const void *at)
{
    struct um_waiters out = {NULL, NULL, 0};
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event bell = UMBRA_EVENT_INIT;
    struct um_choice poster = {.waiter = {.bell = &bell}, .claim = UM_CHOICE_OPEN};
    int result = um_may_wait();

    if (result != 0)
        return result;
    result = um_port_post(port, message, &poster, &out);
    um_port_ring(&out);
    if (result == UM_CHOICE_WAITS)
        result = um_choice_wait(&poster, deadline, port, at);
    um_port_leave(port, &port->posts, &poster.waiter);
    return result;
}

/* ---- misuse, with UMBRA_ASSERT ---- */

/* What the `branch` of a message is while the message is posted, and at no other time. */
UM_INLINE struct umbra_branch *um_message_posted(const struct umbra_message *message)
{
    return (struct umbra_branch *)((uintptr_t)message | 1); /* no branch is there */
}

/* The caller posts the message: aborts if it is posted. */
UM_INLINE void um_message_give(struct umbra_message *message, const void *at)
{
    if (message->branch == um_message_posted(message))
        um_misused("message", message, " was posted and not received, and is posted again", at);
    message->branch = um_message_posted(message);
}

/* The messages, linked by next, are the caller's. */
UM_INLINE void um_messages_get(struct umbra_message *messages)
{
    for (; messages; messages = messages->next)
        messages->branch = NULL;
}

UM_ALWAYS_INLINE int um_port_post_at(struct umbra_port *port, struct umbra_message *message,
                                     uint64_t deadline, const void *at)
{
    int result = um_port_try_post(port, message);

    if (result != -EAGAIN)
        return result;
    if (deadline == 0)
        return -ETIMEDOUT;
    return um_port_post_waiting(port, message, deadline, at);
}

UM_LINKONCE UM_NOINLINE int umbra_port_post(struct umbra_port *port, struct umbra_message *message,
                                            uint64_t deadline)
{
    int result;

    if (UMBRA_ASSERT)
        um_message_give(message, __builtin_return_address(0));
    result = um_port_post_at(port, message, deadline, __builtin_return_address(0));
    if (UMBRA_ASSERT && result != 0)
        message->branch = NULL;
    return result;
}

UM_LINKONCE int umbra_port_close(struct umbra_port *port)
{
    struct um_waiters out = {NULL, NULL, 0};
    bool open = um_port_close(port, &out);

    um_port_ring(&out);
    return open ? 0 : -EALREADY;
}

/* ---- receiving ---- */

/* 0, or -EINVAL. */
UM_LINKONCE int um_branch_check(const struct umbra_branch *branch)
{
    if (branch->sources < 1 || (!branch->join && branch->items < 1))
        return um_why(-EINVAL, "a branch has no source, or wants no items");
    for (unsigned i = 0; i < branch->sources; i++) {
        const struct umbra_port *port = branch->source[i].port;

        if (!port || (port->capacity != 0 && branch->items > port->capacity))
            return um_why(-EINVAL, "a source has no port, or a branch wants more than fit into it");
        for (unsigned j = 0; j < i; j++)
            if (branch->source[j].port == port)
                return um_why(-EINVAL, "a branch names a port twice");
    }
    return 0;
}

/* Makes the branches parts of a choice without a waiter. 0, or -EINVAL. at: for reports */
UM_LINKONCE int um_choice_init(struct um_choice *choice, struct umbra_branch *branches,
                               unsigned count, struct umbra_event *bell, const void *at)
{
    if (count < 1)
        return um_why(-EINVAL, "there is no branch");
    for (unsigned i = 0; i < count; i++) {
        int error = um_branch_check(&branches[i]);

        if (error != 0)
            return error;
        if (UMBRA_ASSERT && branches[i].choice)
            um_misused("branch", &branches[i], " is in use, and is given to another call", at);
    }
    for (unsigned i = 0; i < count; i++) {
        branches[i].choice = choice;
        branches[i].over = false;
        for (unsigned j = 0; j < branches[i].sources; j++) {
            branches[i].source[j].branch = &branches[i];
            branches[i].source[j].link = (struct um_waiter){.listed = false};
        }
    }
    *choice = (struct um_choice){.waiter = {.bell = bell}, .branch = branches, .count = count};
    return 0;
}

/* The choice has ended: its branches may be used again. */
UM_INLINE void um_choice_end_use(const struct um_choice *choice)
{
    for (unsigned i = 0; UMBRA_ASSERT && i < choice->count; i++)
        choice->branch[i].choice = NULL;
}

/* The index of the branch that could go, with its messages in the choice, or a negative errno.
 * first: the branch to look at first. */
UM_LINKONCE int um_choose(struct um_choice *choice, unsigned first, uint64_t deadline,
                          const void *at)
{
    int result = um_may_wait();

    if (result != 0)
        return result;
    do {
        struct um_waiters out = {NULL, NULL, 0};

        result = um_choice_enter(choice, first, &out);
        um_port_ring(&out);
        if (result == UM_CHOICE_WAITS)
            result = um_choice_wait(choice, deadline, choice->branch->source->port, at);
        um_choice_leave(choice);
    } while (result == UM_CHOICE_AGAIN);
    if (UMBRA_ASSERT && result >= 0)
        um_messages_get(choice->messages);
    return result;
}

UM_LINKONCE UM_NOINLINE int umbra_choose(struct umbra_branch *branches, unsigned count,
                                         uint64_t deadline, unsigned *which,
                                         struct umbra_message **messages)
{
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event bell = UMBRA_EVENT_INIT;
    struct um_choice choice;
    const void *at = __builtin_return_address(0);
    int result = um_choice_init(&choice, branches, count, &bell, at);

    if (result != 0)
        return result;
    result = um_choose(&choice, 0, deadline, at);
    um_choice_end_use(&choice);
    if (result < 0)
        return result;
    if (which)
        *which = (unsigned)result;
    if (messages)
        *messages = choice.messages;
    return 0;
}

/* 0, -EPIPE, or -EAGAIN: empty. */
UM_ALWAYS_INLINE int um_port_try_receive(struct umbra_port *port, uint64_t most, bool polls,
                                         struct umbra_message **messages)
{
    struct um_waiters out = {NULL, NULL, 0};
    int result = um_port_try_take(port, most, polls, messages, &out);

    um_port_ring(&out);
    if (UMBRA_ASSERT && result == 0)
        um_messages_get(*messages);
    return result;
}

/* What a receiver polls for: a message, or that it cannot come there. */
UM_LINKONCE bool um_port_is_fresh(void *arg)
{
    struct umbra_port *port = arg;

    return um_atomic_load(&port->fresh, relaxed) != 0; /* relaxed: the lock orders what follows */
}

/* Waits for a message in place: 0, -EPIPE, or -EAGAIN: none came, or none can come there. */
UM_LINKONCE int um_port_poll(struct umbra_port *port, uint64_t most, uint64_t deadline,
                             struct umbra_message **messages)
{
    struct umbra_event bell = UMBRA_EVENT_INIT; /* is never signaled */
    struct um_await await = {.event = &bell.event,
                             .accept = um_port_is_fresh,
                             .arg = port,
                             .deadline = um_deadline_cycles(deadline)};
    int error = um_await_in_place(&await);

    if (error != 0 || um_atomic_load(&port->fresh, relaxed) == UM_PORT_SLOW) /* likewise */
        return -EAGAIN;
    return um_port_try_receive(port, most, false, messages);
}

/* The port was empty: waits for a message. polls: in place first. */
UM_LINKONCE UM_NOINLINE int um_port_receive_waiting(struct umbra_port *port, uint64_t most,
                                                    bool polls, struct umbra_message **messages,
                                                    uint64_t deadline, const void *at)
{
    struct umbra_branch branch = {UMBRA_RECEIVE(port)};
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event bell = UMBRA_EVENT_INIT;
    struct um_choice choice;
    int result = polls ? um_port_poll(port, most, deadline, messages) : -EAGAIN;

    if (result != -EAGAIN)
        return result;
    if (deadline == 0)
        return -ETIMEDOUT;
    um_choice_init(&choice, &branch, 1, &bell, at);
    result = um_choose(&choice, 0, deadline, at);
    if (result == 0)
        *messages = choice.messages;
    return result;
}

/* Receives up to `most` messages, linked by next. at: for reports */
UM_ALWAYS_INLINE int um_port_receive(struct umbra_port *port, uint64_t most,
                                     struct umbra_message **messages, uint64_t deadline,
                                     const void *at)
{
    bool polls = deadline != 0 && um_await_may_look();
    int result = um_port_try_receive(port, most, polls, messages);

    if (UM_LIKELY(result != -EAGAIN))
        return result;
    return um_port_receive_waiting(port, most, polls, messages, deadline, at);
}

UM_LINKONCE UM_NOINLINE int umbra_port_receive(struct umbra_port *port,
                                               struct umbra_message **message, uint64_t deadline)
{
    return um_port_receive(port, 1, message, deadline, __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_port_receive_some(struct umbra_port *port, uint64_t most,
                                                    uint64_t deadline,
                                                    struct umbra_message **messages)
{
    if (most < 1)
        return um_why(-EINVAL, "most = 0");
    return um_port_receive(port, most, messages, deadline, __builtin_return_address(0));
}

/* out: a pointer to a pointer to some struct. */
UM_LINKONCE UM_NOINLINE int um_port_receive_holder(struct umbra_port *port, void *out,
                                                   size_t offset, uint64_t deadline)
{
    struct umbra_message *message = NULL;
    int result = um_port_receive(port, 1, &message, deadline, __builtin_return_address(0));

    if (result == 0) {
        void *holder = um_message_holder(message, offset);

        memcpy(out, &holder, sizeof(holder));
    }
    return result;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
