/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Two threads divide blocks between them while they work: one takes from the front, the other from
 * the back, until they meet. Neither ever waits for the other. Private. Checked by
 * tests/model/share.
 *
 *     0 1 2 3 ->             <- blocks-3 blocks-2 blocks-1
 *
 * One word counts the blocks taken. A thread knows which block is next at its end from the number
 * that it has taken itself. The two threads together never take more blocks than there are, so they
 * never overlap. A thread takes a block as soon as it is free to work on it. So if one thread comes
 * late, or not before the other has finished, the other has not waited for blocks that it might
 * have taken.
 */
#ifndef UMBRA_MEMCPY_PROTOCOL_H
#define UMBRA_MEMCPY_PROTOCOL_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_copy_blocks {
    um_atomic_u64 taken; /* blocks from either end, and up to two vain tries; both threads add */
    uint64_t blocks;     /* how many there are; set before the second thread starts */
};

/* Either thread. True: the next block at its end is its own now. False: no block is left. */
UM_INLINE bool um_copy_blocks_take(struct um_copy_blocks *share)
{
    /* relaxed: hands over a number and no memory; the caller orders what is in the blocks */
    return um_atomic_fetch_add(&share->taken, 1, relaxed) < share->blocks;
}

#endif
