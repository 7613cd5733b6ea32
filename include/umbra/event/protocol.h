/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The event's protocol: how calls change its word, and which call owns its queue. Any thread,
 * fiber or signal handler may signal, reset and try; a waiter joins and withdraws its own node.
 * Private; read by the model checker as it stands (base/atomic.h). The synchronization primitive of
 * Karasik and Prihozhy (2020), Figure 4 and Examples 1 to 5.
 *
 * The word
 *
 *   bits    name        meaning in Reset and Signaled      meaning in the other six ("held") states
 *   0-2     state       enum umbra_event_state
 *   3       QUEUE       waiters are in first..last         CLOSED: see below
 *   4       SWEEP       -                                  request: take out dead nodes
 *   5       LAST_RESET  -                                  the last recorded request is a reset
 *   6-47    node        Reset: the only waiter             recorded joins, the latest first
 *   48-63   count       -                                  recorded signals since the latest join
 *
 * A call changes a free word (Reset, Signaled) in one step where one step is enough; otherwise it
 * becomes the holder by making the word Signaling or Joining. Only the holder touches first, last
 * and the links of queued nodes. A call that finds the event held records its request in the word
 * and returns; the holder executes it. No call waits for the holder, and no request is missed: the
 * holder releases the event by a compare-and-swap from a word without requests. (One exception: the
 * 65,536th signal, see um_event_signal().)
 *
 * The requests are a log. n signals and some resets between two joins have this effect: up to n
 * waiters are released; the event is signaled if a signal is left over and the last of these
 * requests is not a reset. So a count and one bit say it all. A recorded join moves both into its
 * node, and both start again from 0. The holder replays the log in order: no request is lost,
 * merged or overtaken.
 *
 * Released waiters are woken after the holder has released the event, so the holder must come to an
 * end. It has none while calls record requests as fast as it executes them; and while it has lost
 * its processor, a log could grow without limit. A waiter without a deadline cannot cause that: it
 * records one join, and joins again only after it was woken. A waiter with a deadline can: it gives
 * up and joins again. But then it has recorded SWEEP, and from the first log with SWEEP until it
 * releases the event, the holder keeps CLOSED. A wait with a claim must not begin while one of the
 * two bits is set (um_event_is_closed(); the waiter looks, then joins, so one join may come late).
 * So each waiter adds a few requests while an event is held, and no more. Signals and resets do not
 * pile up: they merge. But no bit closes an event to them: a thread that records one within each
 * round of the holder, which is long where many conditions are called, keeps the holder and the
 * waiters that it has released for as long as it goes on.
 *
 * Transitions (tests make each of them, and find no other)
 *
 *   Reset               -> Signaling, Joining; in one step: Signaled, Reset (the only waiter taken,
 *                          or put there)
 *   Signaled            -> Signaling; in one step: Reset (consumed, or reset), Signaled (merged)
 *   Signaling           -> Signaled, Reset; by a request: SignalingActReset, SignalingActSignal
 *   SignalingActReset   -> Reset; by a request: SignalingActSignal
 *   SignalingActSignal  -> Signaling
 *   Joining             -> Reset; by a request: JoiningActReset, JoiningActSignal
 *   JoiningActReset     -> Reset; by a request: JoiningActSignal
 *   JoiningActSignal    -> Signaling
 *
 * The paper has no state for a signal that follows a recorded reset; here it changes Act*Reset to
 * Act*Signal, and the holder replays both. The paper does not say either what a join finds in
 * Signaled: here it consumes the signal; if its condition is false, it queues, and the event stays
 * Signaled, for a waiter without a condition.
 *
 * Order. Every change of the word is acq_rel and every load acquire. So the holders follow each
 * other like those of a lock, and what happened before a signal was called is visible to the waiter
 * that the signal releases, whichever holder replays it. Released nodes are handed over after the
 * event was released: a waiter may destroy the event as soon as it runs.
 */
#ifndef UMBRA_EVENT_PROTOCOL_H
#define UMBRA_EVENT_PROTOCOL_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/wait/protocol.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

enum umbra_event_state {
    UMBRA_EVENT_RESET,
    UMBRA_EVENT_SIGNALED,
    UMBRA_EVENT_SIGNALING,
    UMBRA_EVENT_SIGNALING_ACT_RESET,
    UMBRA_EVENT_SIGNALING_ACT_SIGNAL,
    UMBRA_EVENT_JOINING,
    UMBRA_EVENT_JOINING_ACT_RESET,
    UMBRA_EVENT_JOINING_ACT_SIGNAL
};

#define UM_EVENT_STATE UINT64_C(7)
#define UM_EVENT_QUEUE (UINT64_C(1) << 3)
#define UM_EVENT_CLOSED (UINT64_C(1) << 3) /* held: a wait with a claim should not join now */
#define UM_EVENT_SWEEP (UINT64_C(1) << 4)
#define UM_EVENT_LAST_RESET (UINT64_C(1) << 5)
#define UM_EVENT_NODE UINT64_C(0x0000ffffffffffc0)
#define UM_EVENT_ONE (UINT64_C(1) << 48)
#define UM_EVENT_COUNT (UINT64_C(0xffff) << 48)
#define UM_EVENT_REQUESTS (UM_EVENT_COUNT | UM_EVENT_LAST_RESET)

struct um_event {
    um_atomic_u64 word;
    um_atomic_uptr hint; /* home of the waiter in the word, or of one that was or would have been
                            there: only for a prefetch; the call that puts the waiter there */
    um_plain(struct um_node *) first; /* the queue, oldest first; holder only, and valid if QUEUE */
    um_plain(struct um_node *) last;
    bool manual; /* stays Signaled until it is reset; fixed */
};

/* The waiters that a call released; the caller wakes them. */
struct um_released {
    struct um_node *first; /* linked by next, oldest first */
    struct um_node *last;
};

/* The holder's part of an event's state: what the word does not say while the event is held. */
struct um_hold {
    uint64_t held; /* the word as it is without requests */
    bool value;    /* a signal is there to be taken */
    struct um_released *out;
};

UM_INLINE unsigned um_event_state_of(uint64_t word)
{
    return (unsigned)(word & UM_EVENT_STATE);
}

UM_INLINE bool um_event_is_held(uint64_t word)
{
    return um_event_state_of(word) > UMBRA_EVENT_SIGNALED;
}

/* True if a wait with a claim should begin later. The waiter, before it joins. */
UM_INLINE bool um_event_is_closed(struct um_event *e)
{
    uint64_t word = um_atomic_load(&e->word, relaxed); /* the join is a compare-and-swap */

    return um_event_is_held(word) && (word & (UM_EVENT_SWEEP | UM_EVENT_CLOSED)) != 0;
}

UM_INLINE struct um_node *um_event_node_of(uint64_t word)
{
    return (struct um_node *)(uintptr_t)(word & UM_EVENT_NODE);
}

UM_INLINE bool um_event_cas(struct um_event *e, uint64_t *expected, uint64_t word)
{
    /* acq_rel, acquire: see "Order" above; pairs with itself and the loads of the word */
    return um_atomic_cas(&e->word, expected, word, acq_rel, acquire);
}

/* ---- the queue: holder only ---- */

UM_INLINE void um_event_append(struct um_event *e, struct um_node *node)
{
    struct um_node *last = um_plain_read(e->last);

    um_plain_write(node->next, (struct um_node *)0);
    um_plain_write(node->before, (uint64_t)(uintptr_t)last);
    um_plain_write(node->flags, um_plain_read(node->flags) | UM_NODE_QUEUED);
    if (last)
        um_plain_write(last->next, node);
    else
        um_plain_write(e->first, node);
    um_plain_write(e->last, node);
}

UM_INLINE void um_event_unlink(struct um_event *e, struct um_node *node)
{
    struct um_node *next = um_plain_read(node->next);
    struct um_node *prev = (struct um_node *)(uintptr_t)um_plain_read(node->before);

    um_plain_write(node->flags, um_plain_read(node->flags) & ~UM_NODE_QUEUED);
    if (next)
        um_plain_write(next->before, (uint64_t)(uintptr_t)prev);
    else
        um_plain_write(e->last, prev);
    if (prev)
        um_plain_write(prev->next, next);
    else
        um_plain_write(e->first, next);
}

UM_INLINE void um_released_add(struct um_released *out, struct um_node *node)
{
    um_plain_write(node->next, (struct um_node *)0);
    if (out->first)
        um_plain_write(out->last->next, node);
    else
        out->first = node;
    out->last = node;
}

/* ---- offering a signal to a waiter: holder only ---- */

/* Acts on the answer to an offer. The node is in no queue, but for one that refused. True if it
 * refused: then it stays in the queue, or goes there. */
UM_INLINE bool um_event_offered(struct um_event *e, struct um_hold *hold, struct um_node *node,
                                enum um_offer offer)
{
    if (offer == UM_OFFER_REFUSED)
        return true;
    if (offer == UM_OFFER_DEAD) {
        um_claimed_drop((struct um_claimed *)node);
        return false;
    }
    um_released_add(hold->out, node);
    if (!e->manual)
        hold->value = false;
    return false;
}

/* ---- the four requests, as the holder executes them ---- */

/* Offers the signal to each waiter once, oldest first, until it is taken (manual: to all). */
UM_INLINE void um_event_offer_all(struct um_event *e, struct um_hold *hold)
{
    struct um_node *node = um_plain_read(e->first);

    while (node && hold->value) {
        struct um_node *next = um_plain_read(node->next);
        enum um_offer offer = um_node_offer(node);

        if (offer != UM_OFFER_REFUSED)
            um_event_unlink(e, node);
        um_event_offered(e, hold, node, offer);
        node = next;
    }
}

UM_INLINE void um_event_do_signals(struct um_event *e, struct um_hold *hold, uint64_t count)
{
    while (count-- > 0) {
        hold->value = true;
        um_event_offer_all(e, hold);
        if (hold->value)
            break; /* no waiter took this signal, so none takes the next ones: they merge with it */
    }
}

/* A waiter's condition is called even without a signal: one may have come and gone since the waiter
 * looked. */
UM_INLINE void um_event_do_join(struct um_event *e, struct um_hold *hold, struct um_node *node)
{
    bool claimed = (um_plain_read(node->flags) & UM_NODE_CLAIMED) != 0;

    if ((hold->value || node->accept) && !um_event_offered(e, hold, node, um_node_offer(node)))
        return;
    if (claimed && um_claimed_dead((struct um_claimed *)node))
        um_claimed_drop((struct um_claimed *)node);
    else
        um_event_append(e, node);
}

UM_INLINE void um_event_do_sweep(struct um_event *e)
{
    struct um_node *node = um_plain_read(e->first);

    while (node) {
        struct um_node *next = um_plain_read(node->next);

        if ((um_plain_read(node->flags) & UM_NODE_CLAIMED) &&
            um_claimed_dead((struct um_claimed *)node)) {
            um_event_unlink(e, node);
            um_claimed_drop((struct um_claimed *)node);
        }
        node = next;
    }
}

/* The requests between two joins. */
UM_INLINE void um_event_do_requests(struct um_event *e, struct um_hold *hold, uint64_t requests)
{
    um_event_do_signals(e, hold, requests >> 48);
    if (requests & UM_EVENT_LAST_RESET)
        hold->value = false;
}

/* Executes a log that was taken out of the word: each join, oldest first, after the requests before
 * it, then the requests after the last join. */
UM_INLINE void um_event_replay(struct um_event *e, struct um_hold *hold, uint64_t log)
{
    struct um_node *later = um_event_node_of(log);
    struct um_node *oldest = 0;

    while (later) {
        struct um_node *earlier = um_plain_read(later->next);

        um_plain_write(later->next, oldest);
        oldest = later;
        later = earlier;
    }
    while (oldest) {
        struct um_node *next = um_plain_read(oldest->next);

        um_event_do_requests(e, hold, um_plain_read(oldest->before));
        um_event_do_join(e, hold, oldest);
        oldest = next;
    }
    um_event_do_requests(e, hold, log & UM_EVENT_REQUESTS);
    if (log & UM_EVENT_SWEEP)
        um_event_do_sweep(e);
}

/* ---- holding ---- */

/* The caller has just become the holder; `word` was the free word. Takes over the waiters. */
UM_INLINE void um_event_hold(struct um_event *e, struct um_hold *hold, uint64_t word,
                             unsigned state, struct um_released *out)
{
    struct um_node *only = um_event_node_of(word);

    hold->held = state;
    hold->value = um_event_state_of(word) == UMBRA_EVENT_SIGNALED;
    hold->out = out;
    if (word & UM_EVENT_QUEUE)
        return;
    um_plain_write(e->first, (struct um_node *)0);
    um_plain_write(e->last, (struct um_node *)0);
    if (only)
        um_event_append(e, only);
}

/* The free word for what the holder knows. An only waiter that takes any signal goes into it. */
UM_INLINE uint64_t um_event_free_word(struct um_event *e, bool value)
{
    struct um_node *first = um_plain_read(e->first);

    if (value)
        return UMBRA_EVENT_SIGNALED | (first ? UM_EVENT_QUEUE : 0);
    if (!first)
        return UMBRA_EVENT_RESET;
    if (first != um_plain_read(e->last) || first->accept ||
        (um_plain_read(first->flags) & UM_NODE_CLAIMED))
        return UMBRA_EVENT_RESET | UM_EVENT_QUEUE;
    um_atomic_store(&e->hint, um_atomic_load(&first->home, relaxed), relaxed); /* only a hint */
    return UMBRA_EVENT_RESET | (uint64_t)(uintptr_t)first;
}

/* The held word after the holder has taken the requests out of it. */
UM_INLINE uint64_t um_event_taken_word(uint64_t word)
{
    unsigned state = um_event_state_of(word);
    uint64_t closed = word & (UM_EVENT_SWEEP | UM_EVENT_CLOSED) ? UM_EVENT_CLOSED : 0;

    return closed |
           (state == UMBRA_EVENT_SIGNALING_ACT_SIGNAL || state == UMBRA_EVENT_JOINING_ACT_SIGNAL
                ? (uint64_t)UMBRA_EVENT_SIGNALING
                : (uint64_t)state);
}

/* Executes the recorded requests, then releases the event. */
UM_INLINE void um_event_let_go(struct um_event *e, struct um_hold *hold)
{
    for (;;) {
        uint64_t word = hold->held;
        uint64_t taken;

        if (um_event_cas(e, &word, um_event_free_word(e, hold->value)))
            return;
        do {
            taken = um_event_taken_word(word);
        } while (!um_event_cas(e, &word, taken));
        hold->held = taken;
        um_event_replay(e, hold, word);
    }
}

/* ---- the calls ---- */

/* um_event_prefetch(e, node): fetch the node, and what is at the hint for writing. */
#ifdef UM_MODEL_CHECK
#define um_event_prefetch(e, node) ((void)0)
#else
UM_INLINE void um_event_prefetch(struct um_event *e, const struct um_node *node)
{
    um_arch_prefetch_write((const void *)um_atomic_load(&e->hint, relaxed)); /* only a hint */
    um_arch_prefetch_read(node);
}
#endif

/* A held word with one more signal recorded; a full count stays as it is. */
UM_INLINE uint64_t um_event_left_signal(uint64_t word)
{
    uint64_t rest = word & ~(UM_EVENT_STATE | UM_EVENT_LAST_RESET);
    uint64_t one = (word & UM_EVENT_COUNT) == UM_EVENT_COUNT ? 0 : UM_EVENT_ONE;
    bool joining = um_event_state_of(word) >= UMBRA_EVENT_JOINING;

    return (rest + one) |
           (uint64_t)(joining ? UMBRA_EVENT_JOINING_ACT_SIGNAL : UMBRA_EVENT_SIGNALING_ACT_SIGNAL);
}

/* A held word with a reset recorded. ActSignal stays: the holder replays both. */
UM_INLINE uint64_t um_event_left_reset(uint64_t word)
{
    unsigned state = um_event_state_of(word);

    if (state == UMBRA_EVENT_SIGNALING || state == UMBRA_EVENT_JOINING)
        word += 1; /* to its ActReset */
    return word | UM_EVENT_LAST_RESET;
}

/*
 * Signals. out is empty before; after the call the caller wakes the waiters in it. With an only
 * waiter in the word, one compare-and-swap is enough. Meanwhile the lines that the wake-up needs
 * are on their way: by prefetch, since no field of a waiter may be read before the waiter is out of
 * the word.
 *
 * The one exception to "no call waits": with 65,535 signals recorded in an auto-reset event, the
 * next signal waits until the holder has taken them. For a manual-reset event one signal is enough.
 */
UM_INLINE void um_event_signal(struct um_event *e, struct um_released *out)
{
    uint64_t word = um_atomic_load(&e->word, acquire); /* pairs with um_event_cas() */
    struct um_hold hold;

    for (;;) {
        if (um_event_is_held(word)) {
            if ((word & UM_EVENT_COUNT) == UM_EVENT_COUNT && !e->manual)
                word = um_atomic_load(&e->word, acquire); /* as above: wait for the holder */
            else if (um_event_cas(e, &word, um_event_left_signal(word)))
                return;
        } else if (word & UM_EVENT_QUEUE) {
            if (um_event_cas(e, &word, UMBRA_EVENT_SIGNALING))
                break;
        } else {
            struct um_node *only = um_event_node_of(word);
            bool stays = !only || e->manual;

            if (only)
                um_event_prefetch(e, only);
            if (!um_event_cas(e, &word, stays ? UMBRA_EVENT_SIGNALED : UMBRA_EVENT_RESET))
                continue;
            out->first = out->last = only;
            return;
        }
    }
    um_event_hold(e, &hold, word, UMBRA_EVENT_SIGNALING, out);
    um_event_do_signals(e, &hold, 1);
    um_event_let_go(e, &hold);
}

/* Resets. Nothing to do in Reset; a held event's reset is recorded. */
UM_INLINE void um_event_reset(struct um_event *e)
{
    uint64_t word = um_atomic_load(&e->word, acquire); /* pairs with um_event_cas() */

    for (;;) {
        if (um_event_state_of(word) == UMBRA_EVENT_RESET)
            return;
        if (um_event_cas(e, &word,
                         um_event_is_held(word) ? um_event_left_reset(word)
                                                : word - UMBRA_EVENT_SIGNALED))
            return;
    }
}

/*
 * True: a signal was there and is consumed (manual: it stays). May be false while another call
 * holds the event.
 */
UM_INLINE bool um_event_try(struct um_event *e)
{
    uint64_t word = um_atomic_load(&e->word, acquire); /* pairs with um_event_cas() */

    while (um_event_state_of(word) == UMBRA_EVENT_SIGNALED)
        if (e->manual || um_event_cas(e, &word, word - UMBRA_EVENT_SIGNALED))
            return true;
    return false;
}

/* Records a join in a held word. False: the word is free again, and nothing was recorded. */
UM_INLINE bool um_event_leave_join(struct um_event *e, struct um_node *node, uint64_t *word)
{
    uint64_t keep = UM_EVENT_STATE | UM_EVENT_CLOSED | UM_EVENT_SWEEP;

    while (um_event_is_held(*word)) {
        um_plain_write(node->next, um_event_node_of(*word));
        um_plain_write(node->before, *word & UM_EVENT_REQUESTS);
        if (um_event_cas(e, word, (*word & keep) | (uint64_t)(uintptr_t)node))
            return true;
    }
    return false;
}

/*
 * Joins the waiters. True: a signal was there and is consumed, and the node was not used. False:
 * the node is queued, or already in `out`, or recorded for the holder.
 *
 * The first waiter of an event, if it takes any signal, puts itself into the word with one
 * compare-and-swap. No holder has seen its node then: its links and QUEUED are set when a holder
 * takes it over. After that step the event may be gone, since a signal may already have released
 * the waiter.
 */
UM_INLINE bool um_event_join(struct um_event *e, struct um_node *node, struct um_released *out)
{
    uint64_t word = um_atomic_load(&e->word, acquire); /* pairs with um_event_cas() */
    bool plain = !node->accept && !(um_plain_read(node->flags) & UM_NODE_CLAIMED);
    unsigned state;
    struct um_hold hold;

    for (;;) {
        if (um_event_is_held(word)) {
            if (um_event_leave_join(e, node, &word))
                return false;
            continue;
        }
        if (plain && word == UMBRA_EVENT_RESET) {
            /* relaxed, both: only a hint, which several such calls may write */
            um_atomic_store(&e->hint, um_atomic_load(&node->home, relaxed), relaxed);
            if (um_event_cas(e, &word, (uint64_t)(uintptr_t)node))
                return false;
            continue;
        }
        state = UMBRA_EVENT_JOINING;
        if (um_event_state_of(word) == UMBRA_EVENT_SIGNALED) {
            if (plain && (e->manual || um_event_cas(e, &word, word - UMBRA_EVENT_SIGNALED)))
                return true;
            if (plain)
                continue;
            state = UMBRA_EVENT_SIGNALING;
        }
        if (um_event_cas(e, &word, state))
            break;
    }
    um_event_hold(e, &hold, word, state, out);
    um_event_do_join(e, &hold, node);
    um_event_let_go(e, &hold);
    return false;
}

/*
 * Takes a dead node out of the event's queue, or records that as a request to the holder. The
 * waiter, before it drops its reference. After the call the caller wakes the waiters in `out`.
 */
UM_INLINE void um_event_withdraw(struct um_event *e, struct um_claimed *claimed,
                                 struct um_released *out)
{
    uint64_t word = um_atomic_load(&e->word, acquire); /* pairs with um_event_cas() */
    unsigned state;
    struct um_hold hold;

    do {
        while (um_event_is_held(word))
            if (um_event_cas(e, &word, word | UM_EVENT_SWEEP))
                return;
        state = um_event_state_of(word) == UMBRA_EVENT_SIGNALED ? UMBRA_EVENT_SIGNALING
                                                                : UMBRA_EVENT_JOINING;
    } while (!um_event_cas(e, &word, state));
    um_event_hold(e, &hold, word, state, out);
    if (um_plain_read(claimed->node.flags) & UM_NODE_QUEUED) {
        um_event_unlink(e, &claimed->node);
        um_claimed_drop(claimed);
    }
    um_event_let_go(e, &hold);
}

/* ---- a wait without a claim is interrupted ---- */

/* True if the node is in the queue. Its flags cannot say so: a signal takes the only waiter out of
 * the word without a look at its node. Holder only. */
UM_INLINE bool um_event_queues(struct um_event *e, const struct um_node *node)
{
    const struct um_node *queued = um_plain_read(e->first);

    while (queued && queued != node)
        queued = um_plain_read(queued->next);
    return queued != 0;
}

/*
 * Takes a node without a claim out of the event, to interrupt its wait. GAVE_UP: the caller runs
 * the waiter. TOO_LATE: the waiter was released, and its wake-up is on its way or has come. LATER:
 * another call holds the event; try again. Only the waiter's core; after the call it wakes the
 * waiters in `out`.
 */
UM_INLINE enum um_give_up um_event_withdraw_plain(struct um_event *e, struct um_node *node,
                                                  struct um_released *out)
{
    uint64_t word = um_atomic_load(&e->word, acquire); /* pairs with um_event_cas() */
    enum um_give_up result = UM_GIVE_UP_TOO_LATE;
    unsigned state;
    struct um_hold hold;

    do {
        if (um_event_is_held(word))
            return UM_GIVE_UP_LATER;
        state = um_event_state_of(word) == UMBRA_EVENT_SIGNALED ? UMBRA_EVENT_SIGNALING
                                                                : UMBRA_EVENT_JOINING;
    } while (!um_event_cas(e, &word, state));
    um_event_hold(e, &hold, word, state, out);
    if (um_event_queues(e, node)) {
        um_event_unlink(e, node);
        result = UM_GAVE_UP;
    }
    um_event_let_go(e, &hold);
    return result;
}

#endif
