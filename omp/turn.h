/* SPDX-License-Identifier: BSL-1.0 */
/*
 * When a task with dependences may be executed: after all its predecessors, tasks of the same
 * parent. The thread that executes the parent makes them, one after the other, and looks up which
 * come first (depend.c). Private; read by the model checker as it stands (tests/model/turn.cpp).
 *
 * A task that has not ended has a list of successors; the thread that ends it closes the list.
 * `waits` counts predecessors: those that have ended take from it, and their number is added when
 * the maker knows it. Until then it is 0 or below, and no E2 finds that it was 1.
 *
 *   maker, of a successor                       thread that ends a predecessor
 *   M1  each predecessor: put an edge into      E1  close the list                exchange, acq_rel
 *       its list, unless it is closed   CAS     E2  each edge: waits - 1          seq_cst
 *   M2  waits + edges           acq_rel         E3  it became 0: the successor's turn
 *   M3  it became 0: its turn
 *
 * An edge that M1 puts there before E1 is one that E1 finds; else M1 finds the list closed, and has
 * what the predecessor did. So `waits` becomes 0 once, at M2 or at an E2, after all E1. Only the
 * maker adds edges, so that an edge stays where it was when M1 looked.
 *
 * A turn is freed when neither the task nor the parent's table has it: `refs`.
 */
#ifndef UMBRA_OMP_TURN_H
#define UMBRA_OMP_TURN_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#define UM_TURN_CLOSED ((uintptr_t)1)

struct um_turn {
    um_atomic_u64 waits;       /* see above */
    um_atomic_uptr successors; /* the latest edge, or 0; UM_TURN_CLOSED: it has ended */
    um_atomic_u64 refs;        /* the task, and each place in the table */
};

/* One task's way to another. The maker writes it, then it is the predecessor's. */
struct um_turn_edge {
    um_plain(struct um_turn_edge *) next; /* in the predecessor's list, an earlier one */
    um_plain(struct um_turn *) to;
};

/* Before other threads know it. */
UM_INLINE void um_turn_init(struct um_turn *turn)
{
    um_atomic_store(&turn->waits, 0, relaxed);
    um_atomic_store(&turn->successors, 0, relaxed);
    um_atomic_store(&turn->refs, 1, relaxed);
}

UM_INLINE bool um_turn_ended(struct um_turn *turn)
{
    /* acquire: what the task did; pairs with E1 */
    return um_atomic_load(&turn->successors, acquire) == UM_TURN_CLOSED;
}

/* M1. False: the predecessor has ended, and the edge is still the caller's. */
UM_INLINE bool um_turn_follow(struct um_turn *before, struct um_turn *turn,
                              struct um_turn_edge *edge)
{
    uintptr_t latest = um_atomic_load(&before->successors, acquire); /* as um_turn_ended() */

    um_plain_write(edge->to, turn);
    while (latest != UM_TURN_CLOSED) {
        um_plain_write(edge->next, (struct um_turn_edge *)latest);
        /* acq_rel: the edge, and the turn, pairs with E1; and as above */
        if (um_atomic_cas(&before->successors, &latest, (uintptr_t)edge, acq_rel, acquire))
            return true;
    }
    return false;
}

/* M2. True: it is the task's turn. */
UM_INLINE bool um_turn_made(struct um_turn *turn, uint64_t edges)
{
    /* acq_rel: what the task has waits for is with the last one that takes from it; pairs with E2 */
    return um_atomic_fetch_add(&turn->waits, edges, acq_rel) + edges == 0;
}

/* E1: the task has ended. Returns the edges to its successors. */
UM_INLINE struct um_turn_edge *um_turn_end(struct um_turn *turn)
{
    /* release: what the task did, pairs with um_turn_ended() and M1; acquire: the edges */
    return (struct um_turn_edge *)um_atomic_exchange(&turn->successors, UM_TURN_CLOSED, acq_rel);
}

/* E2, E3: a predecessor has ended. True: it is the task's turn. */
UM_INLINE bool um_turn_step(struct um_turn *turn)
{
    /* seq_cst: what all predecessors did, pairs with itself and M2; W1 of wait.c */
    return um_atomic_fetch_add(&turn->waits, (uint64_t)-1, seq_cst) == 1;
}

/* One more place in the table. */
UM_INLINE void um_turn_keep(struct um_turn *turn)
{
    um_atomic_fetch_add(&turn->refs, 1, relaxed); /* the caller knows that there is one */
}

/* True: the caller had the last reference, and frees it. */
UM_INLINE bool um_turn_drop(struct um_turn *turn)
{
    /* acq_rel: all uses are before; pairs with itself */
    return um_atomic_fetch_add(&turn->refs, (uint64_t)-1, acq_rel) == 1;
}

#endif
