/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Running ahead: a helper learns where a leader is in a sequence of items, so that the helper stays
 * ahead of it, but by no more than a window. One leader thread and one helper thread; neither waits
 * for the other here. Private; read by the model checker as it stands.
 *
 *   leader   publishes the item that it comes to, now and then, and its end
 *   helper   item < limit             goes on without a look
 *            item in at .. at+window  goes on for a step, then looks again
 *            item >= at+window        too far: waits
 *            item < at                late: goes on from at+lead, or, where items form a chain,
 *                                     from the place of the item `at`
 *            END                      ends
 *
 * A look may bring an old value, which makes the leader seem further behind than it is. So the
 * helper is never further ahead than the window; but it may be late and not know it before it looks
 * again.
 *
 * Place and item must belong together, or the helper would count wrongly from there on. The leader
 * writes placing, place, at; the helper reads at, place, placing, and takes the place only if
 * placing is the item that it read from `at`. Then the place is that item's: not an earlier item's,
 * since `at` made the place of its item visible; not a later item's, since a later place would have
 * made a later placing visible.
 */
#ifndef UMBRA_PREFETCH_PROTOCOL_H
#define UMBRA_PREFETCH_PROTOCOL_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_PREFETCH_PAIR_END UINT64_MAX /* no item has this number */

enum um_prefetch_pair { UM_PREFETCH_PAIR_GO, UM_PREFETCH_PAIR_WAIT, UM_PREFETCH_PAIR_ENDED };

/* Written by the leader, read by the helper. */
struct um_prefetch_pair_leader {
    um_atomic_u64 at;      /* the item that it came to last, or UM_PREFETCH_PAIR_END */
    um_atomic_uptr place;  /* of a chain: where that item or a later one is */
    um_atomic_u64 placing; /* number of the item at that place, or of a later one */
};

/* Only the helper uses it. */
struct um_prefetch_pair_helper {
    uint64_t window; /* items that it may be ahead at most; fixed */
    uint64_t lead;   /* without a chain: how far ahead it goes on when late; fixed */
    uint64_t step;   /* items between two looks at most; fixed */
    uint64_t limit;  /* the item before which no look is needed */
};

/* Leader, before the helper starts; the start orders this before all that the helper does. */
UM_INLINE void um_prefetch_pair_begin(struct um_prefetch_pair_leader *leader,
                                      struct um_prefetch_pair_helper *helper)
{
    helper->limit = 0;
    um_atomic_store(&leader->at, 0, relaxed); /* the helper has not started */
}

/* Leader: it comes to this item. The number never goes down. */
UM_INLINE void um_prefetch_pair_publish(struct um_prefetch_pair_leader *leader, uint64_t item)
{
    /* release: what the leader wrote, before `at`; pairs with um_prefetch_pair_look() */
    um_atomic_store(&leader->at, item, release);
}

/* Leader: it comes to this item of a chain, and where the item is. The number goes up each time. */
UM_INLINE void um_prefetch_pair_publish_place(struct um_prefetch_pair_leader *leader, uint64_t item,
                                              uintptr_t place)
{
    /* relaxed: the next store publishes it */
    um_atomic_store(&leader->placing, item, relaxed);
    /* release: placing; pairs with um_prefetch_pair_skip() */
    um_atomic_store(&leader->place, place, release);
    /* release: place, and what the leader wrote; pairs with um_prefetch_pair_look() */
    um_atomic_store(&leader->at, item, release);
}

/* Leader: it is done, and the helper is to end. */
UM_INLINE void um_prefetch_pair_end(struct um_prefetch_pair_leader *leader)
{
    um_atomic_store(&leader->at, UM_PREFETCH_PAIR_END,
                    relaxed); /* the helper reads nothing after it */
}

/* Helper, late: *item and *place become those where it goes on. False: place and item did not
 * belong together; the helper looks again. */
UM_INLINE bool um_prefetch_pair_skip(const struct um_prefetch_pair_leader *leader,
                                     const struct um_prefetch_pair_helper *helper, uint64_t at,
                                     uint64_t *item, uintptr_t *place)
{
    if (!place) {
        *item = at + helper->lead;
        return true;
    }
    /* acquire: placing; pairs with um_prefetch_pair_publish_place() */
    *place = um_atomic_load(&leader->place, acquire);
    if (um_atomic_load(&leader->placing, relaxed) != at) /* relaxed: place made it visible */
        return false;
    *item = at;
    return true;
}

/*
 * Helper, before it fetches *item. GO: it may, and the limit is set. WAIT: it is too far ahead, or
 * found no place; it looks again later. ENDED: it ends. If it was late and skipped, *item is a
 * later item now, and *place is where that item is. place is NULL where items form no chain.
 */
UM_INLINE enum um_prefetch_pair um_prefetch_pair_look(const struct um_prefetch_pair_leader *leader,
                                                      struct um_prefetch_pair_helper *helper,
                                                      uint64_t *item, uintptr_t *place)
{
    /* acquire: what the leader wrote, place; pairs with um_prefetch_pair_publish(),
     * .._publish_place() */
    uint64_t at = um_atomic_load(&leader->at, acquire);
    uint64_t left;
    uintptr_t there;

    if (at == UM_PREFETCH_PAIR_END)
        return UM_PREFETCH_PAIR_ENDED;
    if (*item < at) {
        if (!um_prefetch_pair_skip(leader, helper, at, item, place ? &there : NULL))
            return UM_PREFETCH_PAIR_WAIT;
        if (place)
            *place = there;
    }
    if (*item - at >= helper->window)
        return UM_PREFETCH_PAIR_WAIT;
    left = helper->window - (*item - at);
    helper->limit = *item + (left < helper->step ? left : helper->step);
    return UM_PREFETCH_PAIR_GO;
}

#endif
