/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Running ahead: how a helper learns where a leader is in a sequence of items, so that it stays in
 * front of it, but by no more than a window. Private; read by the model checker as it stands.
 *
 *   leader   publishes the item it comes to, now and then; or that it is done
 *   helper   item < limit             goes on without a look
 *            item in at .. at+window  goes on for a step, then looks again
 *            item >= at+window        too far: waits
 *            item < at                late: goes on from at+lead, or, where items form a chain,
 *                                     from the place of the item `at`
 *            END                      ends
 *
 * What a look brings may be old, which makes the leader seem further behind than it is. So the
 * helper is never further ahead than the window, and it may be late without knowing, until it
 * looks again.
 *
 * Place and item must belong together, or the helper would count wrongly from there on. The leader
 * writes placing, place, at; the helper reads at, place, placing, and takes the place only if
 * placing is the item it read from `at`. It then is exactly that item's: not an earlier one's, since
 * `at` brought it along; not a later one's, since that would have brought a later placing along.
 */
#ifndef UMBRA_PROTOCOL_AHEAD_H
#define UMBRA_PROTOCOL_AHEAD_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_AHEAD_END UINT64_MAX /* no item has this number */

enum um_ahead { UM_AHEAD_GO, UM_AHEAD_WAIT, UM_AHEAD_ENDED };

/* The leader writes, the helper reads. */
struct um_ahead_leader {
    um_atomic_u64 at;      /* the item it came to last, or UM_AHEAD_END */
    um_atomic_uptr place;  /* of a chain: where that item is, or a later one */
    um_atomic_u64 placing; /* the item of that place, or a later one */
};

/* The helper's. */
struct um_ahead_helper {
    uint64_t window; /* how many items it may be ahead; fixed */
    uint64_t lead;   /* where there is no chain, how far in front it goes on when late; fixed */
    uint64_t step;   /* how many items it goes without a look; fixed */
    uint64_t limit;  /* up to which it may go without a look */
};

/* Before a helper starts, which orders this before all that it does. */
UM_INLINE void um_ahead_begin(struct um_ahead_leader *leader, struct um_ahead_helper *helper)
{
    helper->limit = 0;
    um_atomic_store(&leader->at, 0, relaxed); /* the helper has not started */
}

/* Leader: it comes to this item. Never less than the last one. */
UM_INLINE void um_ahead_publish(struct um_ahead_leader *leader, uint64_t item)
{
    /* release: what the leader wrote, for a helper that looks there; pairs with um_ahead_look() */
    um_atomic_store(&leader->at, item, release);
}

/* Leader: it comes to this item, which is there. More than the last one. */
UM_INLINE void um_ahead_publish_place(struct um_ahead_leader *leader, uint64_t item,
                                      uintptr_t place)
{
    /* relaxed: the next store publishes it */
    um_atomic_store(&leader->placing, item, relaxed);
    /* release: placing; pairs with um_ahead_skip() */
    um_atomic_store(&leader->place, place, release);
    /* release: place, and what the leader wrote; pairs with um_ahead_look() */
    um_atomic_store(&leader->at, item, release);
}

/* Leader: the helper is of no more use. */
UM_INLINE void um_ahead_end(struct um_ahead_leader *leader)
{
    um_atomic_store(&leader->at, UM_AHEAD_END, relaxed); /* who sees it reads nothing after it */
}

/* Helper, late: on to where it is of use again. Whether it could; else it looks again. */
UM_INLINE bool um_ahead_skip(const struct um_ahead_leader *leader,
                             const struct um_ahead_helper *helper, uint64_t at, uint64_t *item,
                             uintptr_t *place)
{
    if (!place) {
        *item = at + helper->lead;
        return true;
    }
    /* acquire: placing; pairs with um_ahead_publish_place() */
    *place = um_atomic_load(&leader->place, acquire);
    if (um_atomic_load(&leader->placing, relaxed) != at) /* relaxed: place has brought it along */
        return false;
    *item = at;
    return true;
}

/*
 * Helper, before it fetches *item: whether it may, or waits, or has ended. If it was late, *item is
 * a later one now, and with place, which else is NULL, *place is where that one is.
 */
UM_INLINE enum um_ahead um_ahead_look(const struct um_ahead_leader *leader,
                                      struct um_ahead_helper *helper, uint64_t *item,
                                      uintptr_t *place)
{
    /* acquire: what the leader wrote, place; pairs with um_ahead_publish(), .._publish_place() */
    uint64_t at = um_atomic_load(&leader->at, acquire);
    uint64_t left;
    uintptr_t there;

    if (at == UM_AHEAD_END)
        return UM_AHEAD_ENDED;
    if (*item < at) {
        if (!um_ahead_skip(leader, helper, at, item, place ? &there : NULL))
            return UM_AHEAD_WAIT;
        if (place)
            *place = there;
    }
    if (*item - at >= helper->window)
        return UM_AHEAD_WAIT;
    left = helper->window - (*item - at);
    helper->limit = *item + (left < helper->step ? left : helper->step);
    return UM_AHEAD_GO;
}

#endif
