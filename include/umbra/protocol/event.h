/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The event's protocol: who changes its word, and who owns its queue. Private; read by the model
 * checker as it stands (base/atomic.h). The synchronization primitive of Karasik and Prihozhy
 * (2020), Figure 4 and Examples 1 to 5.
 *
 * The word
 *
 *   bits    name        meaning in Reset and Signaled      meaning in the other six ("held") states
 *   0-2     state       enum umbra_event_state
 *   3       QUEUE       waiters are in first..last         CLOSED: see below
 *   4       SWEEP       -                                  left: take dead nodes out of the queue
 *   5       LAST_RESET  -                                  the last left request is a reset
 *   6-47    node        Reset: the only waiter             left joins, the latest first
 *   48-63   count       -                                  left signals since the latest left join
 *
 * A free word (Reset, Signaled) is changed in one step where one step says it all; otherwise the
 * caller takes hold by making it Signaling or Joining. Only the holder touches first, last and the
 * links of queued nodes. Whoever finds it held leaves a request in the word and goes on: nobody
 * waits for the holder, who cannot let go before it has seen every request, since it lets go by
 * compare-and-swap from a word without any. (One exception: the 65,536th signal, see
 * um_event_signal().)
 *
 * The requests are a log. Between two joins n signals and some resets come to this: as many waiters
 * as there are, up to n, are released; the event is signaled if one was left over and no reset came
 * last. So a count and one bit hold them, and a left join takes both along in its node and starts
 * them afresh. The holder replays the log in order: no request is lost, merged or overtaken.
 *
 * Who is released is woken when the event has been let go, so the holder must come to an end. It has
 * no end if others leave requests as fast as it carries them out, and while it has lost its
 * processor a log may grow without any. A waiter without a deadline cannot do that: it leaves one
 * join, and is there again when it was woken. One with a deadline gives up and comes again. It has
 * left SWEEP then; and from the first log with SWEEP in it until it lets go, the holder keeps
 * CLOSED. A wait with a claim is not to begin while one of them is there (um_event_is_closed(); it
 * looks, then joins, so it may be late by one). So each waiter adds a few requests to a hold, and
 * no more. Signals and resets do not pile up: they merge. But nothing closes an event to them:
 * whoever leaves one again within each round of the holder's, which is long where many conditions
 * are asked, keeps the holder, and those whom it has released, for as long as he goes on.
 *
 * Transitions (the table um_event_transition is what the tests walk)
 *
 *   Reset               -> Signaling, Joining; in one step: Signaled, Reset (its waiter taken)
 *   Signaled            -> Signaling; in one step: Reset (consumed, or reset), Signaled (merged)
 *   Signaling           -> Signaled, Reset; left by others: ActReset, ActSignal
 *   SignalingActReset   -> Reset; left by a third: SignalingActSignal
 *   SignalingActSignal  -> Signaling
 *   Joining             -> Reset; left by others: JoiningActReset, JoiningActSignal
 *   JoiningActReset     -> Reset; left by a third: JoiningActSignal
 *   JoiningActSignal    -> Signaling
 *
 * The paper has no word for a signal that follows a left reset; here it makes Act*Reset an
 * Act*Signal, whose holder replays both. It also leaves open what a join finds in Signaled: the
 * signal, which it consumes; with a condition that does not hold it queues and the event stays
 * Signaled, for whoever comes without one.
 *
 * Order. Every change of the word is acq_rel and every load acquire, so the holds follow each other
 * like those of a lock, and what happened before a signal was called is visible to the waiter that
 * it ends, whoever replays it. Released nodes are handed over after the event has been let go:
 * a waiter may destroy the event as soon as it runs.
 */
#ifndef UMBRA_PROTOCOL_EVENT_H
#define UMBRA_PROTOCOL_EVENT_H

#ifndef UM_MODEL_CHECK
#include <umbra/cpu.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/protocol/claim.h>
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

/* Which state may follow which: bit t of entry s. Self-loops are requests added to the log. */
#define UM_EVENT_TO(state) (1u << UMBRA_EVENT_##state)
static const unsigned char um_event_transition[8] __attribute__((__unused__)) = {
    /* Reset */ UM_EVENT_TO(SIGNALING) | UM_EVENT_TO(JOINING) | UM_EVENT_TO(SIGNALED) |
        UM_EVENT_TO(RESET),
    /* Signaled */ UM_EVENT_TO(SIGNALING) | UM_EVENT_TO(RESET) | UM_EVENT_TO(SIGNALED),
    /* Signaling */ UM_EVENT_TO(SIGNALED) | UM_EVENT_TO(RESET) | UM_EVENT_TO(SIGNALING_ACT_RESET) |
        UM_EVENT_TO(SIGNALING_ACT_SIGNAL) | UM_EVENT_TO(SIGNALING),
    /* SignalingActReset */ UM_EVENT_TO(RESET) | UM_EVENT_TO(SIGNALING_ACT_SIGNAL) |
        UM_EVENT_TO(SIGNALING_ACT_RESET),
    /* SignalingActSignal */ UM_EVENT_TO(SIGNALING) | UM_EVENT_TO(SIGNALING_ACT_SIGNAL),
    /* Joining */ UM_EVENT_TO(RESET) | UM_EVENT_TO(JOINING_ACT_RESET) |
        UM_EVENT_TO(JOINING_ACT_SIGNAL) | UM_EVENT_TO(JOINING),
    /* JoiningActReset */ UM_EVENT_TO(RESET) | UM_EVENT_TO(JOINING_ACT_SIGNAL) |
        UM_EVENT_TO(JOINING_ACT_RESET),
    /* JoiningActSignal */ UM_EVENT_TO(SIGNALING) | UM_EVENT_TO(JOINING_ACT_SIGNAL)};

struct um_event {
    um_atomic_u64 word;
    um_atomic_uptr hint; /* home of the waiter in the word, perhaps of an earlier one: only for a
                            prefetch; the holder that puts the waiter there */
    um_plain(struct um_node *) first; /* the queue, oldest first; the holder, and valid if QUEUE */
    um_plain(struct um_node *) last;
    bool manual; /* stays Signaled until it is reset; fixed */
};

/* What a call released, to be woken by the caller. */
struct um_released {
    struct um_node *first; /* linked by next, oldest first */
    struct um_node *last;
};

/* A hold on an event: the part of its state that is not in the word meanwhile. */
struct um_hold {
    uint64_t held; /* the word as it is when nothing has been left */
    bool value;    /* whether a signal is there to be taken */
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

/* Whether a wait with a claim had better come later. Anybody, before it joins. */
UM_INLINE bool um_event_is_closed(struct um_event *e)
{
    uint64_t word = um_atomic_load(&e->word, relaxed); /* it joins by compare-and-swap */

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

/* The node, in no queue, was offered a signal: hand it on. Whether it still wants to queue. */
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

/* ---- the four requests, as the holder carries them out ---- */

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
            break; /* nobody wanted this one, so nobody wants the others: they merge with it */
    }
}

/* A waiter with a condition is asked even without a signal: one may have come and gone since it
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

/* A log taken out of the word: the joins, which it has latest first, each after what preceded it.
 */
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

/* Just made `held` of `word`, which was free: take over the waiters. */
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

/* The word that says what the holder knows. A single waiter that takes any signal goes into it. */
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

/* What the holder makes of the word when it takes the requests out of it. */
UM_INLINE uint64_t um_event_taken_word(uint64_t word)
{
    unsigned state = um_event_state_of(word);
    uint64_t closed = word & (UM_EVENT_SWEEP | UM_EVENT_CLOSED) ? UM_EVENT_CLOSED : 0;

    return closed |
           (state == UMBRA_EVENT_SIGNALING_ACT_SIGNAL || state == UMBRA_EVENT_JOINING_ACT_SIGNAL
                ? (uint64_t)UMBRA_EVENT_SIGNALING
                : (uint64_t)state);
}

/* Lets go, after carrying out whatever others have left. */
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

/* A left signal added to a held word; a full count stays as it is. */
UM_INLINE uint64_t um_event_left_signal(uint64_t word)
{
    uint64_t rest = word & ~(UM_EVENT_STATE | UM_EVENT_LAST_RESET);
    uint64_t one = (word & UM_EVENT_COUNT) == UM_EVENT_COUNT ? 0 : UM_EVENT_ONE;
    bool joining = um_event_state_of(word) >= UMBRA_EVENT_JOINING;

    return (rest + one) |
           (uint64_t)(joining ? UMBRA_EVENT_JOINING_ACT_SIGNAL : UMBRA_EVENT_SIGNALING_ACT_SIGNAL);
}

/* A left reset added to a held word. ActSignal stays: its holder replays both. */
UM_INLINE uint64_t um_event_left_reset(uint64_t word)
{
    unsigned state = um_event_state_of(word);

    if (state == UMBRA_EVENT_SIGNALING || state == UMBRA_EVENT_JOINING)
        word += 1; /* to its ActReset */
    return word | UM_EVENT_LAST_RESET;
}

/*
 * Signals. out is empty before; the caller wakes what it holds after. With a single waiter in the
 * word one compare-and-swap does it. Meanwhile the lines that waking it takes are on their way: by
 * prefetch, since nothing of a waiter may be read before it has been taken out of the word.
 *
 * The one exception to "nobody waits": with 65,535 signals left in an auto-reset event, the next
 * one waits until the holder has taken them. A manual-reset event needs but one.
 */
UM_INLINE void um_event_signal(struct um_event *e, struct um_released *out)
{
    uint64_t word = um_atomic_load(&e->word, acquire); /* pairs with um_event_cas() */
    struct um_hold hold;

    for (;;) {
        if (um_event_is_held(word)) {
            if ((word & UM_EVENT_COUNT) == UM_EVENT_COUNT && !e->manual)
                word = um_atomic_load(&e->word, acquire); /* as above: let the holder work */
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
 * Takes a signal if there is one. May say no while another thread's call on the event is under way.
 */
UM_INLINE bool um_event_try(struct um_event *e)
{
    uint64_t word = um_atomic_load(&e->word, acquire); /* pairs with um_event_cas() */

    while (um_event_state_of(word) == UMBRA_EVENT_SIGNALED)
        if (e->manual || um_event_cas(e, &word, word - UMBRA_EVENT_SIGNALED))
            return true;
    return false;
}

/* Leaves a join in a held word. Whether it was still held. */
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
 * Joins the waiters. True: the signal was there and is consumed, the node was not used. False: the
 * node is queued, or already in `out`, or another holder has it.
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
 * Takes a dead node out of the event's queue, or leaves that to the holder. The waiter, before it
 * drops its reference.
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

enum um_withdraw { UM_WITHDRAWN, UM_WITHDRAW_LATER, UM_WITHDRAW_TOO_LATE };

/* True if the node is in the queue. Its flags do not tell: a signal takes the only waiter out of the
 * word without a look at it. Holder only. */
UM_INLINE bool um_event_queues(struct um_event *e, const struct um_node *node)
{
    const struct um_node *queued = um_plain_read(e->first);

    while (queued && queued != node)
        queued = um_plain_read(queued->next);
    return queued != 0;
}

/*
 * Takes a waiter's own node, without a claim, out of the event: WITHDRAWN, and the waiter is the
 * caller's to run. TOO_LATE: it was released, and its wake-up is on its way, or has come. LATER: another
 * call holds the event, so try again. The waiter's core; what it holds in `out` the caller wakes.
 */
UM_INLINE enum um_withdraw um_event_withdraw_plain(struct um_event *e, struct um_node *node,
                                                   struct um_released *out)
{
    uint64_t word = um_atomic_load(&e->word, acquire); /* pairs with um_event_cas() */
    enum um_withdraw result = UM_WITHDRAW_TOO_LATE;
    unsigned state;
    struct um_hold hold;

    do {
        if (um_event_is_held(word))
            return UM_WITHDRAW_LATER;
        state = um_event_state_of(word) == UMBRA_EVENT_SIGNALED ? UMBRA_EVENT_SIGNALING
                                                                : UMBRA_EVENT_JOINING;
    } while (!um_event_cas(e, &word, state));
    um_event_hold(e, &hold, word, state, out);
    if (um_event_queues(e, node)) {
        um_event_unlink(e, node);
        result = UM_WITHDRAWN;
    }
    um_event_let_go(e, &hold);
    return result;
}

#endif
