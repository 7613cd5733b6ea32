/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Watching: an idle core looks, besides its inbox, at the fiber that ended on it last. The spawner
 * that gives this fiber its next function need not use the inbox. Function, argument, order and, in
 * the end, result travel in one line there and back; an inbox would need a second line. The spawner
 * is any thread or fiber that has taken the fiber for its spawn; neither side waits. Private; read
 * by the model checker as it stands.
 *
 * The word is the link of the fiber's node, which otherwise is 0 while the node is in no inbox:
 *
 *   the fiber's core                               the spawner
 *   0 -> WATCHED         before its end is told
 *   WATCHED -> 0         it goes to do other       WATCHED -> LAUNCHED  instead of a push
 *                        things                    WATCHED -> 0         before a push
 *   LAUNCHED -> 0        and begins the fiber
 *
 * Each change but the first and the last is a compare-and-swap, so only one side ends WATCHED. A
 * core watches at most one fiber, one that it made itself, so no other core ever watches that
 * fiber. It watches only while it has nothing else to do, and while it counts as active: it begins
 * a launched fiber before it takes what is in its inbox, and before it dozes.
 */
#ifndef UMBRA_CORE_WATCH_H
#define UMBRA_CORE_WATCH_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_WATCH_NONE UINT64_C(0) /* the link of a node that is in no inbox */
/* Neither is a value of an inbox (core/inbox.h). */
#define UM_WATCH_WATCHED UINT64_C(2)
#define UM_WATCH_LAUNCHED UINT64_C(4)

/* The core, before it tells the end of the fiber: from the telling on, a spawner may launch it. */
UM_INLINE void um_watch_begin(um_atomic_u64 *link)
{
    /* relaxed: published by the release that tells the end */
    um_atomic_store(link, UM_WATCH_WATCHED, relaxed);
}

/* The core, at any time: true if no spawner has changed the word. */
UM_INLINE bool um_watch_quiet(um_atomic_u64 *link)
{
    return um_atomic_load(link, relaxed) == UM_WATCH_WATCHED; /* um_watch_end() acquires */
}

/* The core ends the watch. True: the fiber was launched, and the core must begin it. */
UM_INLINE bool um_watch_end(um_atomic_u64 *link)
{
    uint64_t value = um_atomic_load(link, acquire); /* pairs with um_watch_launch() */

    /* acquire: as above, for a failure; success needs none, but may not name a weaker order */
    if (value == UM_WATCH_WATCHED && um_atomic_cas(link, &value, UM_WATCH_NONE, acquire, acquire))
        return false;
    if (value != UM_WATCH_LAUNCHED)
        return false;                              /* cancelled; it may come through the inbox */
    um_atomic_store(link, UM_WATCH_NONE, relaxed); /* only the core uses it now */
    return true;
}

/*
 * The spawner, when the fiber is prepared. True: it is launched. False: the spawner must push it.
 * inbox: of the fiber's core. Launches only while that is empty: what was pushed before begins
 * before.
 */
UM_INLINE bool um_watch_launch(um_atomic_u64 *link, um_atomic_u64 *inbox)
{
    uint64_t value;

    /* acquire: if the core has emptied it, the watch had ended before; pairs with
     * um_inbox_take() */
    if (um_atomic_load(inbox, acquire) != 0)
        return false;
    value = um_atomic_load(link, relaxed);
    /* release: function and argument; pairs with um_watch_end() */
    return value == UM_WATCH_WATCHED &&
           um_atomic_cas(link, &value, UM_WATCH_LAUNCHED, release, relaxed);
}

/* The spawner, before it spawns the fiber in another way. */
UM_INLINE void um_watch_cancel(um_atomic_u64 *link)
{
    uint64_t value = um_atomic_load(link, relaxed);

    if (value == UM_WATCH_WATCHED) /* relaxed: if the core was first, it is 0, too */
        um_atomic_cas(link, &value, UM_WATCH_NONE, relaxed, relaxed);
}

#endif
