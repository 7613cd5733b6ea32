/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Watching: an idle core looks, besides its inbox, at the fiber that ended on it last. Whoever gives
 * this fiber its next function need not go by way of the inbox: function, argument, order and, in
 * the end, result travel in one line there and back, where an inbox takes a second one along.
 * Private; read by the model checker as it stands.
 *
 * The word is the link of the fiber's node, which else is 0 while the node is in no inbox:
 *
 *   the fiber's core                               whoever takes the idle fiber to spawn it
 *   0 -> WATCHED         before its end is told
 *   WATCHED -> 0         it goes to do other       WATCHED -> LAUNCHED  instead of a push
 *                        things                    WATCHED -> 0         before a push, if it must be
 *   LAUNCHED -> 0        and begins the fiber                           one
 *
 * Each change but the first and the last is a compare-and-swap, so only one side has WATCHED in its
 * hands. A core watches at most one fiber, one of its own making, so that nobody else ever watches
 * this one; only while it has nothing else to do, and while it counts as active: a fiber that was
 * launched is begun before the core takes what is in its inbox, and before it dozes.
 */
#ifndef UMBRA_PROTOCOL_WATCH_H
#define UMBRA_PROTOCOL_WATCH_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_WATCH_NONE UINT64_C(0) /* as a node in no inbox has it */
/* Neither is a value of an inbox (protocol/inbox.h). */
#define UM_WATCH_WATCHED UINT64_C(2)
#define UM_WATCH_LAUNCHED UINT64_C(4)

/* The core: from when on its end is told, somebody may launch the fiber. */
UM_INLINE void um_watch_begin(um_atomic_u64 *link)
{
    /* relaxed: published by the release that tells the end */
    um_atomic_store(link, UM_WATCH_WATCHED, relaxed);
}

/* The core, as often as it likes: whether there is nothing new. */
UM_INLINE bool um_watch_quiet(um_atomic_u64 *link)
{
    return um_atomic_load(link, relaxed) == UM_WATCH_WATCHED; /* um_watch_end() acquires */
}

/* The core: whether the fiber was launched, and is to be begun. */
UM_INLINE bool um_watch_end(um_atomic_u64 *link)
{
    uint64_t value = um_atomic_load(link, acquire); /* pairs with um_watch_launch() */

    /* acquire: as above, where it fails; what succeeds needs none, but may not ask for less */
    if (value == UM_WATCH_WATCHED && um_atomic_cas(link, &value, UM_WATCH_NONE, acquire, acquire))
        return false;
    if (value != UM_WATCH_LAUNCHED)
        return false; /* it was cancelled, and perhaps it comes through the inbox */
    um_atomic_store(link, UM_WATCH_NONE, relaxed); /* the core's alone again */
    return true;
}

/*
 * Whoever spawns the fiber, when it is prepared: whether it is launched; else it is to be pushed.
 * inbox: its core's. Only while that is empty: what was pushed before is begun before.
 */
UM_INLINE bool um_watch_launch(um_atomic_u64 *link, um_atomic_u64 *inbox)
{
    uint64_t value;

    /* acquire: if the core has emptied it, its watch was over before; pairs with um_inbox_take() */
    if (um_atomic_load(inbox, acquire) != 0)
        return false;
    value = um_atomic_load(link, relaxed);
    /* release: function and argument; pairs with um_watch_end() */
    return value == UM_WATCH_WATCHED &&
           um_atomic_cas(link, &value, UM_WATCH_LAUNCHED, release, relaxed);
}

/* Whoever spawns it in another way, before it does. */
UM_INLINE void um_watch_cancel(um_atomic_u64 *link)
{
    uint64_t value = um_atomic_load(link, relaxed);

    if (value == UM_WATCH_WATCHED) /* relaxed: if the core was first it is 0 all the same */
        um_atomic_cas(link, &value, UM_WATCH_NONE, relaxed, relaxed);
}

#endif
