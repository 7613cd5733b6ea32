/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Each wait has a node. A wait that two sides may end has a claim, too. Private; read by the model
 * checker as it stands.
 *
 * A wait that only one event can end needs no more than its node: the holder that takes the node
 * out of the event's queue has ended the wait. A wait with a deadline, or for any of several
 * events, has a claim, too, and the thread that changes the claim first has ended the wait:
 *
 *   WAITING -> TAKEN             an event's holder, for its waiter        um_claimed_offer()
 *   WAITING -> OFFERED -> TAKEN  the same, where the waiter's condition says yes
 *           -> OFFERED -> WAITING                                     ... says no
 *   WAITING -> DEAD              the waiter gives up                      um_claim_give_up()
 *
 * The claim counts the waits that it was used for. So a node that stays in a queue after another
 * event has ended its wait is known to be dead: its ticket names an earlier wait. The memory of a
 * node stays a node until waiter and queue have both dropped their references.
 */
#ifndef UMBRA_WAIT_CLAIM_H
#define UMBRA_WAIT_CLAIM_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/*
 * A waiter's node. 64-byte aligned, and at an address below 2^48. A node without a claim belongs to
 * its waiter again as soon as it is released. A node with a claim is a struct um_claimed: its
 * waiter may give up at any time, and the holder that takes the node out of the queue drops the
 * queue's reference.
 */
typedef bool um_accept_fn(void *arg);

#define UM_NODE_CLAIMED 1u /* is a struct um_claimed */
#define UM_NODE_QUEUED 2u  /* in an event's queue; holder only */

struct UM_ALIGNED(64) um_node {
    um_atomic_u64 link;              /* next in an inbox; the thread that pushes it there */
    um_plain(uint32_t) kind;         /* enum um_node_kind; set by the waiter before it joins */
    um_plain(uint32_t) flags;        /* the waiter before it joins; then the holder */
    um_plain(struct um_node *) next; /* in a queue: the later node; in a log: the earlier join. The
                                        waiter, then the holder */
    um_plain(uint64_t) before; /* in a queue: address of the earlier node; in a log: the requests
                                  left before this join. The waiter, then the holder */
    um_accept_fn *accept;      /* true: takes the signal for the waiter; NULL: always takes it */
    void *arg;                 /* of accept */
    um_atomic_uptr home;       /* the waiter's core; 0: a thread. Fixed for a fiber's life */
    um_atomic_u64 done;        /* of a fiber's node: its end and its join, see core/join_word.h */
};

/*
 * The claim: the generation from bit UM_CLAIM_SHIFT up, the index of the event that ended the wait,
 * and one of four states. A node is dead when its ticket no longer fits its group's claim. A claim
 * that is OFFERED looks taken to other events, so only a node alone in its group may have an
 * accept: if it refused, another event could have dropped its node meanwhile.
 */
#define UM_CLAIM_STATE UINT64_C(3)
#define UM_CLAIM_WAITING UINT64_C(0)
#define UM_CLAIM_OFFERED UINT64_C(1) /* a holder is calling accept; short */
#define UM_CLAIM_TAKEN UINT64_C(2)
#define UM_CLAIM_DEAD UINT64_C(3)
#define UM_CLAIM_INDEX_SHIFT 2
#define UM_CLAIM_INDEX UINT64_C(0xffff)
#define UM_CLAIM_SHIFT 18

struct um_claimed {
    struct um_node node;
    struct um_claimed *group; /* the node that has the group's claim; one event: itself */
    uint64_t ticket;     /* the claim's value while the wait goes on, with this event's index */
    um_atomic_u64 claim; /* of the group's node only; waiter and holders, by compare-and-swap */
    um_atomic_u64 refs;  /* the waiter's and the queue's; at 0 the node is free */
};

#ifdef UM_MODEL_CHECK
/* Gives a node's memory back; the model defines it. */
UM_LINKONCE void um_claimed_free(struct um_claimed *claimed);
#else

/* Nodes that no wait uses: a stack linked by node.link. um_wait_take() in fiber/sleeper.h takes
 * them out. */
UM_SHARED(um_atomic_u64 um_claimed_idle, 0);

UM_LINKONCE void um_claimed_free(struct um_claimed *claimed);

#ifdef UMBRA_IMPLEMENTATION
/* Gives a node's memory back. Any thread, fiber or signal handler; never blocks. */
UM_LINKONCE void um_claimed_free(struct um_claimed *claimed)
{
    uint64_t first = um_atomic_load(&um_claimed_idle, relaxed); /* only compared */

    do {
        um_atomic_store(&claimed->node.link, first, relaxed); /* published by the next line */
    } while (!um_atomic_cas(&um_claimed_idle, &first, (uint64_t)(uintptr_t)claimed, release,
                            relaxed)); /* release: pairs with um_wait_take() */
}
#endif /* UMBRA_IMPLEMENTATION */

#endif

/* Drops one reference; the last drop frees the node. */
UM_INLINE void um_claimed_drop(struct um_claimed *claimed)
{
    /* acq_rel: the other side's last use of the node, before it is freed; pairs with itself */
    if (um_atomic_fetch_add(&claimed->refs, UINT64_MAX, acq_rel) == 1)
        um_claimed_free(claimed);
}

/* ---- a holder offers a signal ---- */

enum um_offer { UM_OFFER_TAKEN, UM_OFFER_REFUSED, UM_OFFER_DEAD };

/* Offers a signal to the node's wait. DEAD: the wait is over. */
UM_INLINE enum um_offer um_claimed_offer(struct um_claimed *claimed)
{
    um_atomic_u64 *claim = &claimed->group->claim;
    uint64_t expected = claimed->ticket & ~(UM_CLAIM_INDEX << UM_CLAIM_INDEX_SHIFT);
    uint64_t taken = claimed->ticket | UM_CLAIM_TAKEN;

    /* acq_rel: one event ends the wait, or the waiter gives up; pairs with um_claim_give_up() and
     * the waiter's load of the claim */
    if (!claimed->node.accept)
        return um_atomic_cas(claim, &expected, taken, acq_rel, acquire) ? UM_OFFER_TAKEN
                                                                        : UM_OFFER_DEAD;
    if (!um_atomic_cas(claim, &expected, claimed->ticket | UM_CLAIM_OFFERED, acq_rel, acquire))
        return UM_OFFER_DEAD;
    if (claimed->node.accept(claimed->node.arg)) {
        um_atomic_store(claim, taken, release); /* only this holder changes OFFERED */
        return UM_OFFER_TAKEN;
    }
    um_atomic_store(claim, expected, release); /* as above: the waiter may give up again */
    return UM_OFFER_REFUSED;
}

/* True if the node's wait is over. */
UM_INLINE bool um_claimed_dead(const struct um_claimed *claimed)
{
    uint64_t mine = claimed->ticket >> UM_CLAIM_SHIFT;
    /* acquire: what the waiter did before it gave up; pairs with um_claim_give_up(). Nothing more
     * of a dead node's wait is read */
    uint64_t claim = um_atomic_load(&claimed->group->claim, acquire);

    return claim >> UM_CLAIM_SHIFT != mine || (claim & UM_CLAIM_STATE) >= UM_CLAIM_TAKEN;
}

UM_INLINE enum um_offer um_node_offer(struct um_node *node)
{
    if (um_plain_read(node->flags) & UM_NODE_CLAIMED)
        return um_claimed_offer((struct um_claimed *)node);
    return !node->accept || node->accept(node->arg) ? UM_OFFER_TAKEN : UM_OFFER_REFUSED;
}

/* ---- the waiter gives up ---- */

enum um_give_up { UM_GAVE_UP, UM_GIVE_UP_LATER, UM_GIVE_UP_TOO_LATE };

/*
 * The waiter gives up its wait. LATER: a holder is calling accept; try again. TOO_LATE: an event
 * has ended the wait, and its signaller wakes the waiter.
 */
UM_INLINE enum um_give_up um_claim_give_up(struct um_claimed *group, uint64_t ticket)
{
    uint64_t expected = ticket;

    /* acq_rel: one side ends the wait; pairs with um_claimed_offer() */
    if (um_atomic_cas(&group->claim, &expected, ticket | UM_CLAIM_DEAD, acq_rel, acquire))
        return UM_GAVE_UP;
    return (expected & UM_CLAIM_STATE) == UM_CLAIM_OFFERED ? UM_GIVE_UP_LATER : UM_GIVE_UP_TOO_LATE;
}

#endif
