/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The inbox: one word by which other threads give a core something to do, and on which the idle
 * core waits. Any thread, fiber or signal handler may push and poke; only the core takes. Private;
 * read by the model checker as it stands.
 *
 *   any thread, fiber or signal handler            the core, when it waits (wait/park.h)
 *   P1  inbox = node, node.link = what was there   W1  parked = 1      seq_cst
 *       compare-and-swap, seq_cst                  W2  look at inbox   seq_cst
 *   P2  if nothing was there: wake, which          W3  sleep while parked
 *       looks at parked, seq_cst
 *
 * P1 and P2 are S1 and S2 of the park protocol, so the core does not sleep through a push. A push
 * that finds the inbox filled need not wake the core: the core has not emptied the inbox since, so
 * the push that filled it still wakes the core, or the core has not gone to sleep. The core takes
 * the whole chain by an exchange, and reverses it: first in, first out.
 *
 * The low bits of the word are no node: UM_INBOX_POKE makes the core look around without a message.
 * A node that is in no inbox has link 0, so that a push on an empty inbox does not write to the
 * node: its line stays with the core that waits for it.
 */
#ifndef UMBRA_CORE_INBOX_H
#define UMBRA_CORE_INBOX_H

#include <umbra/cpu.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_INBOX_POKE UINT64_C(1)
#define UM_INBOX_NODE (~UINT64_C(63))

/* Pushes a node, which belongs to the inbox then. True if the caller must wake the core. */
UM_INLINE bool um_inbox_push(um_atomic_u64 *inbox, struct um_node *node)
{
    uint64_t before = um_atomic_load(inbox, relaxed); /* only compared; P1 orders */
    uint64_t link = 0;

    do {
        if (link != before) {
            /* relaxed: published by the change of the inbox; pairs with um_inbox_take() */
            um_atomic_store(&node->link, before, relaxed);
            link = before;
        }
        /* seq_cst: P1; all that the caller wrote before is visible to um_inbox_take() */
    } while (!um_atomic_cas(inbox, &before, (uint64_t)(uintptr_t)node, seq_cst, relaxed));
    return before == 0;
}

/* Makes the core look around. True if the caller must wake the core. */
UM_INLINE bool um_inbox_poke(um_atomic_u64 *inbox)
{
    return um_atomic_fetch_or(inbox, UM_INBOX_POKE, seq_cst) == 0; /* P1 */
}

/* um_inbox_prefetch(inbox): fetches the newest message while the inbox is taken. */
#ifdef UM_MODEL_CHECK
#define um_inbox_prefetch(inbox) ((void)0)
#else
UM_INLINE void um_inbox_prefetch(const um_atomic_u64 *inbox)
{
    um_arch_prefetch_read((const void *)(uintptr_t)um_atomic_load(inbox, relaxed)); /* a hint */
}
#endif

/* The core: takes all nodes, oldest first, linked by `link`. The core must clear each link by
 * um_inbox_next() before it uses the node. NULL: no node, but perhaps a poke. */
UM_INLINE struct um_node *um_inbox_take(um_atomic_u64 *inbox)
{
    uint64_t newest;
    uint64_t oldest = 0;

    um_inbox_prefetch(inbox);
    /* acquire: pairs with P1 of each node in the chain, by its release sequence. release: a thread
     * that sees the inbox empty sees that its core became active before (core/quiet.h, Q4) */
    newest = um_atomic_exchange(inbox, 0, acq_rel) & UM_INBOX_NODE;
    while (newest) {
        struct um_node *node = (struct um_node *)(uintptr_t)newest;
        uint64_t before = um_atomic_load(&node->link, relaxed); /* ordered by the exchange */

        if (before != oldest)
            um_atomic_store(&node->link, oldest, relaxed); /* the core's own until cleared */
        newest = before & UM_INBOX_NODE;
        oldest = (uint64_t)(uintptr_t)node;
    }
    return (struct um_node *)(uintptr_t)oldest;
}

/* The core: the next node, or NULL. Clears the link of this one, so that it may be pushed again. */
UM_INLINE struct um_node *um_inbox_next(struct um_node *node)
{
    uint64_t next = um_atomic_load(&node->link, relaxed); /* only the core uses it */

    if (next)
        um_atomic_store(&node->link, 0, relaxed); /* as above */
    return (struct um_node *)(uintptr_t)next;
}

#endif
