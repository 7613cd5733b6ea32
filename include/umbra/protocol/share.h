/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Blocks that two threads share out between them as they go: one takes from the front, the other
 * from the back, until they meet. Private. Checked by tests/model/share.
 *
 *     0 1 2 3 ->             <- blocks-3 blocks-2 blocks-1
 *
 * Only their number is counted, in one word: who takes one knows from how many he has taken which
 * one it is. The two ends together never take more than there are, so they never overlap; and a
 * block is taken as soon as somebody is there for it, so a thread that comes late, or not at all
 * before the other is through, has nobody wait for blocks it might have taken.
 */
#ifndef UMBRA_PROTOCOL_SHARE_H
#define UMBRA_PROTOCOL_SHARE_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_share {
    um_atomic_u64 taken; /* from either end, and up to two vain tries; both add */
    uint64_t blocks;     /* how many there are; set before there are two */
};

/* Either thread: whether the next block at its end is now its own; if not, none are left. */
UM_INLINE bool um_share_take(struct um_share *share)
{
    /* relaxed: it hands over a number, and no memory; what is in the blocks is for the caller */
    return um_atomic_fetch_add(&share->taken, 1, relaxed) < share->blocks;
}

#endif
