/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Fibers without a place. Each core has a list of those that were spawned on it; those from outside
 * go to the cores in turn. A core takes one when none of its fibers is ready, or when ready ones
 * have had UM_READY_IN_A_ROW turns (fiber/control_block.h). It may take from any list, and any
 * thread may cancel a fiber that is in one. Private; read by the model checker as it stands.
 *
 *   the core that has the list  takes the newest: a tree of fibers is gone through branch by branch,
 *                               so that few of them have begun and not ended
 *   another core                takes the oldest, of a tree the largest part that is left
 *
 * Each UM_UNPLACED_TURN-th time a core begins with another list, each in turn, and takes the oldest of
 * its own, too: none waits for ever while newer ones come.
 *
 * All of a list, and the home of a fiber in it, is under the list's lock. True of um_unplaced_some()
 * is only a hint. core/idle.h counts the lists that are not empty.
 */
#ifndef UMBRA_CORE_UNPLACED_H
#define UMBRA_CORE_UNPLACED_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/idle.h>
#include <umbra/wait/protocol.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* A place in the list; neighbours, or NULL. */
struct um_unplaced_link {
    um_plain(struct um_unplaced_link *) newer;
    um_plain(struct um_unplaced_link *) older;
};

/* All zero: empty. */
struct um_unplaced {
    struct um_lock lock;
    um_plain(struct um_unplaced_link *) oldest; /* valid if `newest` is not 0 */
    um_atomic_uptr newest;                      /* 0: empty; written under the lock, read without */
};

/* True if there may be fibers. relaxed: a hint; a caller that knows of some looks again */
UM_INLINE bool um_unplaced_some(struct um_unplaced *list)
{
    return um_atomic_load(&list->newest, relaxed) != 0;
}

/* Adds one, in the thread that spawns. count: see core/idle.h. Takes the lock. */
UM_INLINE void um_unplaced_push(struct um_unplaced *list, struct um_unplaced_link *link,
                                um_atomic_u64 *count)
{
    struct um_unplaced_link *before;

    um_lock_take(&list->lock);
    before = (struct um_unplaced_link *)um_atomic_load(&list->newest, relaxed); /* under the lock */
    um_plain_write(link->newer, NULL);
    um_plain_write(link->older, before);
    if (before)
        um_plain_write(before->newer, link);
    else
        um_plain_write(list->oldest, link);
    um_atomic_store(&list->newest, (uintptr_t)link, relaxed);
    if (!before)
        um_idle_added(count, UM_IDLE_FIBERS);
    um_lock_release(&list->lock);
}

/* Takes out the newest or the oldest; NULL: there is none. Under the lock. */
UM_INLINE struct um_unplaced_link *um_unplaced_pop(struct um_unplaced *list, bool newest,
                                                   um_atomic_u64 *count)
{
    struct um_unplaced_link *link =
        (struct um_unplaced_link *)um_atomic_load(&list->newest, relaxed); /* under the lock */
    struct um_unplaced_link *newer;
    struct um_unplaced_link *older;

    if (!link)
        return NULL;
    if (!newest)
        link = um_plain_read(list->oldest);
    newer = um_plain_read(link->newer);
    older = um_plain_read(link->older);
    if (newer)
        um_plain_write(newer->older, older);
    else
        um_atomic_store(&list->newest, (uintptr_t)older, relaxed);
    if (older)
        um_plain_write(older->newer, newer);
    else
        um_plain_write(list->oldest, newer);
    if (!newer && !older)
        um_idle_emptied(count, UM_IDLE_FIBERS);
    return link;
}

#endif
