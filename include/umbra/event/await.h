/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/event.h: how a fiber or a thread waits in place, queues and is woken, and how
 * it waits for the first of several events, or until a deadline. Private; included by that header,
 * after its declarations.
 */
#ifndef UMBRA_EVENT_AWAIT_H
#define UMBRA_EVENT_AWAIT_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/event/protocol.h>
#include <umbra/fiber.h>
#include <umbra/wait.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* ---- waiting ---- */

/* A wait for one event. */
struct um_await {
    struct um_event *event;
    um_accept_fn *accept;
    void (*announce)(void *arg); /* or NULL: called once, in the waiter, before it queues */
    void *arg;                   /* of both */
    const bool *crowded; /* or NULL: true if a look in place would overtake a waiter, which accept
                            sets, or would be in vain */
    uint64_t deadline;
    bool firm;                  /* without a deadline: goes on though the fiber is canceled */
    const struct um_kind *kind; /* for reports: the kind of object, its address, the place of the
                                   call */
    const void *on;
    const void *at;
};

#define UM_AWAIT_LEAVE 1 /* the fiber is queued and must leave its core; then the wait is over */

/* Ends a wait that um_await_begin() began: leaves the core if it must. Inlined, for the reason
 * given at umbra_join(). */
UM_ALWAYS_INLINE int um_await_end(int begun)
{
    if (begun == UM_AWAIT_LEAVE) {
        struct umbra_core *core = um_core_self;
        struct um_fiber *self = um_core_current(core);

        um_fiber_leave(core, self);
        begun = um_fiber_woken(self);
    }
    return begun;
}

UM_LINKONCE int um_await_begin(const struct um_await *await);
UM_LINKONCE UM_NOINLINE int um_event_wait_outline(struct umbra_event *event, uint64_t deadline);

#ifdef UMBRA_IMPLEMENTATION

/* True if the wait can return at once; it has taken the signal then. */
UM_INLINE bool um_await_over(const struct um_await *await)
{
    return await->accept ? await->accept(await->arg) : um_event_try(await->event);
}

/* True if looking in place overtakes no waiter: by `crowded`, or since the event has no waiter. While
 * the event is held its queue is not in the word; CLOSED, in the same bit, then counts as a waiter: a
 * wait that is not admitted yet would be overtaken, too. */
UM_INLINE bool um_await_first(const struct um_await *await)
{
    uint64_t word;

    if (await->crowded)
        return !*await->crowded;
    word = um_atomic_load(&await->event->word, relaxed); /* relaxed: only fairness depends on it */
    return (word & (UM_EVENT_QUEUE | UM_EVENT_NODE | UM_EVENT_SWEEP)) == 0;
}

UM_INLINE enum um_look um_await_seen(struct umbra_core *core, void *arg)
{
    const struct um_await *await = arg;

    if (um_await_over(await))
        return UM_LOOK_OVER;
    return (core && um_core_attention(core)) || !um_await_first(await) ? UM_LOOK_LEAVE
                                                                       : UM_LOOK_AGAIN;
}

/* Looks in place for as long as a spin phase. core: the caller's; NULL: a thread that is no core.
 * True if the wait is over. */
UM_INLINE bool um_await_look(const struct um_await *await, struct umbra_core *core,
                             struct um_polls polls, uint64_t cycles)
{
    /* where several waiters are usual, each would take the line from the others and the signaller */
    if (await->event->manual || await->accept)
        polls.gap &= ~UMBRA_GAP_WRITE;
    return um_look_in_place(core, polls, &await->event->word, cycles, await->deadline,
                            um_await_seen, (void *)await);
}

/*
 * Takes the wait's own nodes out of what was released, and wakes the others: true if there were own
 * ones. mine: the wait's node; in a wait for several events that of the first. All share its claim,
 * since one event may be named twice. A node that is still queued may belong to another thread by
 * now, so only released nodes are looked at.
 */
UM_INLINE bool um_await_released(struct um_released *out, const struct um_node *mine,
                                 struct umbra_core *core)
{
    struct um_node *node = out->first;
    bool found = false;

    while (node) {
        struct um_node *next = node == out->last ? NULL : node->next;

        if (node == mine || ((node->flags & UM_NODE_CLAIMED) &&
                             &((const struct um_claimed *)node)->group->node == mine))
            found = true;
        else
            um_node_wake(node, core);
        node = next;
    }
    return found;
}

/* Ends the wait for one event: takes the fiber's node out of the event's queue. */
UM_LINKONCE enum um_give_up um_withdraw_event(struct umbra_core *core, struct um_fiber *self)
{
    struct um_released out = {NULL, NULL};
    enum um_give_up result = um_event_withdraw_plain(self->waits_in, &self->node, &out);

    um_event_wake(&out, core);
    return result;
}

/* A fiber waits without a deadline, in its own node. 0 or UM_AWAIT_LEAVE. */
UM_LINKONCE int um_await_fiber(const struct um_await *await, struct umbra_core *core,
                               struct um_fiber *self)
{
    struct um_released out = {NULL, NULL};

    self->node.kind = UM_NODE_WAKE;
    self->node.flags = 0;
    self->node.accept = await->accept;
    self->node.arg = await->arg;
    self->withdraw = await->firm ? NULL : um_withdraw_event;
    self->waits_in = await->event;
    um_fiber_block(self, await->kind, await->on, await->at);
    if (!um_event_join(await->event, &self->node, &out) &&
        !(out.first && um_await_released(&out, &self->node, core)))
        return UM_AWAIT_LEAVE;
    um_fiber_set_state(self, UMBRA_FIBER_READY);
    return 0;
}

/* A thread waits without a deadline. 0 or an error. */
UM_LINKONCE int um_await_thread(const struct um_await *await)
{
    struct um_released out = {NULL, NULL};
    struct um_sleeper *sleeper;
    int error = um_sleeper_get(&sleeper);
    bool over;

    if (error != 0)
        return error;
    sleeper->node.flags = 0;
    sleeper->node.accept = await->accept;
    sleeper->node.arg = await->arg;
    um_outside_call();
    over = um_event_join(await->event, &sleeper->node, &out) ||
           um_await_released(&out, &sleeper->node, NULL);
    um_outside_call_ends();
    if (!over)
        um_sleeper_wait(sleeper, UMBRA_NEVER);
    return 0;
}

/* ---- waits that more than one thread may end: a deadline, or one of several events ---- */

/* A group of waits, one for each event; the first one's claim decides. */
struct um_group {
    struct um_wait **wait;
    struct um_event **event;
    unsigned count;
    unsigned joined; /* how many have joined their event */
    struct umbra_core *core;
    struct um_fiber *self;      /* the fiber that waits; NULL: a thread does */
    struct um_sleeper *sleeper; /* of that thread */
};

/* Takes a signal that is there. Returns the index of its event, or -ETIMEDOUT. */
UM_LINKONCE int um_group_try(const struct um_group *group, const struct um_await *await)
{
    for (unsigned i = 0; i < group->count; i++)
        if (await->accept ? await->accept(await->arg) : um_event_try(group->event[i]))
            return (int)i;
    return -ETIMEDOUT;
}

/*
 * Between two looks at closed events: a pause, or after UM_LOOKS_AWAKE looks a nap. The group has
 * joined no event yet, so a fiber may switch. Each nap is twice as long as the one before. Naps of
 * fibers end at ticks that all fibers have in common: a core with many fibers that wait for
 * admission runs them one after the other, and then sleeps.
 */
UM_LINKONCE void um_group_look_again(const struct um_group *group, const struct um_await *await,
                                     unsigned looks)
{
    uint64_t tick;

    if (!group->self || looks < UM_LOOKS_AWAKE) {
        um_thread_look_again(looks, await->deadline);
        return;
    }
    tick = um_nap(um_ns_to_cycles(UM_NAP_NS), looks - UM_LOOKS_AWAKE); /* multiples of the first */
    um_sleep_at(um_min_u64(await->deadline, (um_cycles() / tick + 1) * tick), await->kind,
                await->on, await->at);
}

/* True if the group may not wait, since its fiber is canceled; `winner` is the error then. */
UM_INLINE bool um_group_barred(const struct um_group *group, int *winner)
{
    if (!group->self || !um_fiber_barred(group->self))
        return false;
    *winner = -ECANCELED;
    return true;
}

/*
 * Admission: waits until each event has been seen open to waits that may give up
 * (event/protocol.h). True if the group may join them. If false, the wait is over: `winner` is the
 * index of an event, since a wait without admission still takes a signal of any event, or an error.
 */
UM_LINKONCE bool um_group_enter(const struct um_group *group, const struct um_await *await,
                                int *winner)
{
    unsigned looks = 0;

    for (unsigned i = 0; i < group->count; i++) {
        for (; um_event_is_closed(group->event[i]); looks++) {
            bool late = um_cycles() >= await->deadline; /* before the last look */

            *winner = um_group_try(group, await);
            if (late || *winner >= 0)
                return false;
            if (um_group_barred(group, winner))
                return false;
            um_group_look_again(group, await, looks);
        }
    }
    return true;
}

/* Joins the events, until one of them has its signal ready: true if one had. */
UM_LINKONCE bool um_group_join(struct um_group *group, const struct um_await *await)
{
    bool over = false;

    for (unsigned i = 0; i < group->count && !over; i++) {
        struct um_released out = {NULL, NULL};
        struct um_wait *wait = group->wait[i];

        um_wait_prepare(wait, group->wait[0], i);
        wait->fiber = group->self;
        wait->sleeper = group->sleeper;
        /* relaxed: the node is in no queue yet */
        um_atomic_store(&wait->claimed.node.home, (uintptr_t)group->core, relaxed);
        wait->claimed.node.accept = await->accept;
        wait->claimed.node.arg = await->arg;
        group->joined = i + 1;
        um_event_join(group->event[i], &wait->claimed.node, &out);
        over = um_await_released(&out, &group->wait[0]->claimed.node, group->core);
    }
    return over;
}

/* The wait is over: the nodes that no signal has taken leave their queues. */
UM_LINKONCE void um_group_withdraw(struct um_group *group, unsigned winner)
{
    for (unsigned i = 0; i < group->count; i++) {
        struct um_claimed *claimed = &group->wait[i]->claimed;
        struct um_released out = {NULL, NULL};

        if (i == winner || i >= group->joined) {
            um_claimed_free(claimed);
            continue;
        }
        um_event_withdraw(group->event[i], claimed, &out);
        um_event_wake(&out, group->core);
        um_claimed_drop(claimed);
    }
}

/* The index of the event that has taken the group's claim. */
UM_INLINE int um_group_winner(const struct um_group *group)
{
    /* acquire: pairs with um_claimed_offer() */
    uint64_t claim = um_atomic_load(&group->wait[0]->claimed.claim, acquire);

    return (int)(claim >> UM_CLAIM_INDEX_SHIFT & UM_CLAIM_INDEX);
}

/* Waits until the claim is taken or given up. The index of the event, -ETIMEDOUT or -ECANCELED. */
UM_LINKONCE int um_group_wait(struct um_group *group, const struct um_await *await)
{
    int error;

    if (group->self) {
        um_fiber_block(group->self, await->kind, await->on, await->at);
        error = um_claimed_wait_fiber(group->core, group->self, group->wait[0], await->deadline);
    } else {
        error = um_claimed_wait_thread(group->wait[0], await->deadline);
    }
    return error == 0 ? um_group_winner(group) : error;
}

/* Records the waiter, a fiber or a thread. 0 or an error. */
UM_INLINE int um_group_open(struct um_group *group)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self = core ? um_core_current(core) : NULL;

    group->core = self ? core : NULL;
    group->self = self;
    if (!self)
        return um_sleeper_get(&group->sleeper);
    return um_fiber_on_stack(self) ? 0 : um_why_off_stack();
}

/* 0, or why the caller may not wait at all. After 0 a firm wait (um_event_wait_firm()) does not
 * fail. */
UM_INLINE int um_may_wait(void)
{
    struct um_group caller;

    return um_group_open(&caller);
}

UM_LINKONCE int um_group_take_waits(struct um_group *group)
{
    for (unsigned i = 0; i < group->count; i++) {
        group->wait[i] = um_wait_take();
        if (group->wait[i])
            continue;
        while (i-- > 0)
            um_claimed_free(&group->wait[i]->claimed);
        return um_why_none(-ENOMEM);
    }
    return 0;
}

/* Before and after a group touches its events. An outside thread announces such a call. */
UM_INLINE void um_group_call(const struct um_group *group)
{
    if (!group->core)
        um_outside_call();
}

UM_INLINE void um_group_call_ends(const struct um_group *group)
{
    if (!group->core)
        um_outside_call_ends();
}

/* Waits, and takes a signal. Returns the index of its event, or a negative errno. */
UM_LINKONCE int um_group_run(struct um_group *group, const struct um_await *await)
{
    int winner = um_group_open(group);
    bool over;

    if (winner < 0 || !um_group_enter(group, await, &winner))
        return winner;
    if (um_group_barred(group, &winner)) {
        int ready = um_group_try(group, await);

        return ready >= 0 ? ready : winner;
    }
    winner = um_group_take_waits(group);
    if (winner < 0)
        return winner;
    um_group_call(group);
    over = um_group_join(group, await);
    um_group_call_ends(group);
    winner = over ? um_group_winner(group) : um_group_wait(group, await);
    um_group_call(group);
    um_group_withdraw(group, winner < 0 ? group->count : (unsigned)winner);
    um_group_call_ends(group);
    return winner;
}

/* ---- one event ---- */

UM_LINKONCE int um_await_deadline(const struct um_await *await)
{
    struct um_wait *wait;
    struct um_event *event = await->event;
    struct um_group group = {.wait = &wait, .event = &event, .count = 1};
    int winner = um_group_run(&group, await);

    return winner < 0 ? winner : 0;
}

/* True if the caller may wait in place: a thread, or a fiber whose core has no other to run. */
UM_INLINE bool um_await_may_look(void)
{
    struct umbra_core *core = um_core_self;

    return !core || !um_core_current(core) || um_core_may_look(core);
}

/* Waits in place, if the caller may: 0, or -EAGAIN: the wait is not over, or an error of a thread's
 * first wait. */
UM_LINKONCE int um_await_in_place(const struct um_await *await)
{
    struct umbra_core *core = um_core_self;
    struct um_sleeper *sleeper;
    int error;

    if (!um_await_first(await) || !um_await_may_look())
        return -EAGAIN;
    if (core && um_core_current(core))
        return um_await_look(await, core, core->runtime->polls, core->in_place_cycles) ? 0
                                                                                       : -EAGAIN;
    error = um_sleeper_get(&sleeper);
    if (error != 0)
        return error;
    return um_await_look(await, NULL, um_sleepers.polls, sleeper->waiter.policy->spin_cycles)
               ? 0
               : -EAGAIN;
}

/* Queues, after the looks: 0, UM_AWAIT_LEAVE or a negative errno. */
UM_LINKONCE int um_await_queue(const struct um_await *await, struct umbra_core *core,
                               struct um_fiber *self)
{
    if (self && um_fiber_barred(self) && !await->firm)
        return -ECANCELED;
    if (await->announce)
        await->announce(await->arg);
    if (await->deadline != UMBRA_NEVER) {
        if (um_cycles() < await->deadline)
            return um_await_deadline(await);
        return um_await_over(await) ? 0 : -ETIMEDOUT; /* the signal may have come in time */
    }
    if (!self)
        return um_await_thread(await);
    return um_await_fiber(await, core, self);
}

/* Does any wait for one event up to the switch: 0, UM_AWAIT_LEAVE or a negative errno. */
UM_LINKONCE int um_await_begin(const struct um_await *await)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self = core ? um_core_current(core) : NULL;
    int error;

    if (self && !um_fiber_on_stack(self))
        return um_why_off_stack();
    if (um_await_over(await))
        return 0;
    error = um_await_in_place(await);
    return error == -EAGAIN ? um_await_queue(await, core, self) : error;
}

UM_INLINE int um_await_run(const struct um_await *await)
{
    return um_await_end(um_await_begin(await));
}

UM_SHARED(const struct um_kind um_kind_event, {"event", NULL});

UM_LINKONCE UM_NOINLINE int um_event_wait_outline(struct umbra_event *event, uint64_t deadline)
{
    struct um_await await = {.event = &event->event,
                             .deadline = um_deadline_cycles(deadline),
                             .kind = &um_kind_event,
                             .on = event,
                             .at = __builtin_return_address(0)};

    return um_await_begin(&await);
}

/* A wait for an event. kind, on, at: for reports. at: the place of the program's call, which is the
 * return address of the outermost function that is not inlined. Inlined as um_await_end(). */
UM_ALWAYS_INLINE int um_event_wait_on(struct umbra_event *event, uint64_t deadline,
                                      const struct um_kind *kind, const void *on, const void *at)
{
    struct um_await await = {.event = &event->event,
                             .deadline = um_deadline_cycles(deadline),
                             .kind = kind,
                             .on = on,
                             .at = at};

    return um_await_run(&await);
}

/* A wait of the library that must not fail, in a caller that may wait (um_may_wait()): until the
 * event is signaled and accept, if not NULL, takes the signal. kind, on, at: for reports. */
UM_LINKONCE void um_event_wait_firm(struct umbra_event *event, um_accept_fn *accept, void *arg,
                                    const struct um_kind *kind, const void *on, const void *at)
{
    struct um_await await = {.event = &event->event,
                             .accept = accept,
                             .arg = arg,
                             .deadline = UMBRA_NEVER,
                             .firm = true,
                             .kind = kind,
                             .on = on,
                             .at = at};

    um_await_run(&await);
}

/* Signals waiters that are in their list no more (wait/waiters.h), linked by next. NULL: none.
 * async: the caller may be a signal handler. */
UM_LINKONCE void um_waiters_signal(struct um_waiter *waiter, bool async)
{
    while (waiter) {
        struct um_waiter *next = um_plain_read(waiter->next); /* its frame may end at the signal */

        if (async)
            umbra_event_signal_async(waiter->bell);
        else
            umbra_event_signal(waiter->bell);
        waiter = next;
    }
}

UM_LINKONCE UM_NOINLINE int umbra_event_wait_until(struct umbra_event *event,
                                                   bool (*holds)(void *arg), void *arg,
                                                   uint64_t deadline)
{
    struct um_await await = {.event = &event->event,
                             .accept = holds,
                             .arg = arg,
                             .deadline = um_deadline_cycles(deadline),
                             .kind = &um_kind_event,
                             .on = event,
                             .at = __builtin_return_address(0)};

    return um_await_run(&await);
}

/* ---- several events ---- */

#define UM_ANY_IN_FRAME 8
#define UM_ANY_MOST 1000
#define UM_ANY_SHOWN 8 /* events of a group that a report names */

UM_LINKONCE void um_any_describe(struct um_text *text, const void *on)
{
    const struct um_group *group = on;

    for (unsigned i = 0; i < group->count && i < UM_ANY_SHOWN; i++)
        um_text_say(text, i == 0 ? " (%x" : " %x", (uint64_t)(uintptr_t)group->event[i]);
    if (group->count > UM_ANY_SHOWN)
        um_text_say(text, " and %u more", group->count - UM_ANY_SHOWN);
    um_text_add(text, ")");
}

UM_SHARED(const struct um_kind um_kind_any, {"any of some events", um_any_describe});

UM_LINKONCE UM_NOINLINE int umbra_event_wait_any(struct umbra_event *const *events, unsigned count,
                                                 uint64_t deadline, unsigned *which)
{
    struct um_wait *wait[UM_ANY_IN_FRAME];
    struct um_event *event[UM_ANY_IN_FRAME];
    struct um_group group = {.wait = wait, .event = event, .count = count};
    struct um_await await = {.deadline = um_deadline_cycles(deadline),
                             .kind = &um_kind_any,
                             .on = &group,
                             .at = __builtin_return_address(0)};
    void *memory = NULL;
    int winner;

    if (count < 1 || count > UM_ANY_MOST)
        return um_why(-EINVAL, "count = %u: 1 to %d events", count, UM_ANY_MOST);
    if (count > UM_ANY_IN_FRAME) {
        memory = malloc(count * (sizeof(struct um_wait *) + sizeof(struct um_event *)));
        if (!memory)
            return um_why_none(-ENOMEM);
        group.wait = memory;
        group.event = (struct um_event **)(group.wait + count);
    }
    for (unsigned i = 0; i < count; i++)
        group.event[i] = &events[i]->event;
    winner = um_group_run(&group, &await);
    free(memory);
    if (winner < 0)
        return winner;
    if (which)
        *which = (unsigned)winner;
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
