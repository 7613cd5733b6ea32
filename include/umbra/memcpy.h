/* SPDX-License-Identifier: BSL-1.0 */
/*
 * memcpy with the help of a shadow (Hori et al., "Shadow Thread", section 4 and Figure 13): the
 * owner copies from the front, its shadow from the back, block by block until they meet. One
 * hardware thread alone cannot ask for as much memory at a time as the memory could deliver.
 *
 *     struct umbra_memcpy_limits limits;
 *
 *     shadow_create(&shadow, NULL);
 *     umbra_memcpy_calibrate(&shadow, &limits);        once; some milliseconds
 *     shadow_memcpy(&shadow, to, from, n, &limits);    fork and join are inside
 *
 * When it helps. The memory should not be in the caches of the owner: what is there the owner
 * copies faster than it can tell anybody. And the copy must be large enough to be worth a fork and
 * a join, or, when the shadow sleeps in the kernel, a wake-up:
 *
 *     bytes                       the shadow polls      the shadow sleeps
 *     below awake_bytes           memcpy                memcpy
 *     up to asleep_bytes          both copy             memcpy; the shadow sleeps on
 *     from asleep_bytes           both copy             both copy, the shadow a little later
 *
 * So a shadow that should help with smaller copies which come rarely must be kept from sleeping
 * (UMBRA_WAIT_SPIN, or larger block_cycles; see umbra/wait.h).
 *
 * Nobody can know these sizes beforehand: they differ by ten between two hardware threads that
 * share a core, a cache or only a node. The defaults are on the safe side. umbra_memcpy_calibrate
 * measures the pair at hand; a program that has its own measurements fills the struct itself.
 *
 * Measurements grow old: the machine gets other work, and then a processor is taken away from the
 * shadow in the middle of a block for some milliseconds, which the owner waits for. This happens to
 * spinning shadows above all (they have used up their share), and large copies suffer: beside a
 * process that kept the shadow's processor busy those of 64 KiB to 4 MiB stayed 1.7 to 2.1 times as
 * fast as memcpy, those of 16 MiB fell from 1.9 to 0.93. So limits may have a judge, which goes on
 * measuring, for each power of two by itself, and leaves the shadow out as long as it does not win:
 *
 *     struct umbra_memcpy_judge judge = {0};
 *
 *     limits.judge = &judge;                           after umbra_memcpy_calibrate
 *
 * Blocks are taken from one counter (protocol/share.h), not split in halves beforehand: so a
 * shadow that starts late, or an owner that has its end in the cache, costs at most one block of
 * waiting. The owner's other ways of using a shadow for a copy (prefetching ahead of it, alternate
 * blocks, halves) are in bench/kernels/memcpy.c, beside this one.
 */
#ifndef UMBRA_MEMCPY_H
#define UMBRA_MEMCPY_H

#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/impl/pick.h>
#include <umbra/protocol/share.h>
#include <umbra/shadow.h>

/*
 * The defaults, which other values may be given for at compile time: twice and four times
 * what umbra_memcpy_calibrate found on two virtual processors of a Xeon (Sapphire Rapids) with an
 * L3 in common, about 32 KiB and 200 to 700 KiB, for pairs that are further apart. Blocks: below
 * 16 KiB taking them costs noticeably (a cache line's way between the two for each), above it the
 * last one does.
 */
#ifndef UMBRA_MEMCPY_AWAKE_BYTES
#define UMBRA_MEMCPY_AWAKE_BYTES 65536
#endif
#ifndef UMBRA_MEMCPY_ASLEEP_BYTES
#define UMBRA_MEMCPY_ASLEEP_BYTES 2097152
#endif
#ifndef UMBRA_MEMCPY_BLOCK_BYTES
#define UMBRA_MEMCPY_BLOCK_BYTES 16384
#endif

/*
 * What copies of one shadow's owner took, by that thread only; all zero at first. One copy in 61
 * is made the way that is thought to be slower, so as to know (see impl/pick.h).
 */
struct umbra_memcpy_judge {
    struct um_pick size[64]; /* i: of 2^i bytes and more, but below 2^(i+1) */
};

/* From which sizes on a shadow helps. */
struct umbra_memcpy_limits {
    size_t awake_bytes;  /* least copy that a polling shadow is forked for; SIZE_MAX: never */
    size_t asleep_bytes; /* least one that a sleeping shadow is woken for; not below awake_bytes */
    size_t block_bytes;  /* least piece that either takes at a time, but for the first and last */
    struct umbra_memcpy_judge *judge; /* may leave the shadow out of copies; NULL: never */
};

#define UMBRA_MEMCPY_LIMITS                                                                        \
    {                                                                                              \
        UMBRA_MEMCPY_AWAKE_BYTES, UMBRA_MEMCPY_ASLEEP_BYTES, UMBRA_MEMCPY_BLOCK_BYTES, NULL        \
    }

/*
 * Copies n bytes, of any alignment and as memcpy does: the two must not overlap, and nothing else
 * is written. limits may be NULL for the defaults. Any thread; from the shadow's owner it uses the
 * shadow, and blocks the thread until the shadow has done its part. From others, or while the
 * shadow is busy, asleep as above, left out by limits->judge, destroyed, or NULL, it is memcpy: so
 * it cannot fail. Below awake_bytes that decision is one comparison. Returns whether the shadow was
 * forked to.
 */
UM_INLINE bool shadow_memcpy(struct umbra_shadow *shadow, void *restrict to,
                             const void *restrict from, size_t n,
                             const struct umbra_memcpy_limits *limits);

/*
 * Measures from which sizes on this shadow helps. The owner only, while the shadow is not busy;
 * blocks for some milliseconds, and needs 8 MiB of memory or four times the L2 meanwhile.
 *
 * It measures on memory that is in no private cache but may be in a shared one. A copy from memory
 * proper takes longer, so that a fork is worth it sooner: the limit found is then a little high.
 *
 *   awake_bytes   the least power of two from which on both together are faster by a ninth in three
 *                 of four pairs of copies, at two sizes in succession; SIZE_MAX if that is nowhere
 *                 up to 2 MiB
 *   asleep_bytes  what the owner copies alone in four times the time of a wake-up and a join; of
 *                 a shadow that never sleeps awake_bytes
 *   block_bytes   the default, or half of awake_bytes
 *   judge         NULL
 *
 * Returns 0, -ENOMEM, or as shadow_fork -EBUSY, -EPERM, -ESRCH; limits untouched on failure.
 */
UM_LINKONCE int umbra_memcpy_calibrate(struct umbra_shadow *shadow,
                                       struct umbra_memcpy_limits *limits);

/* ---- a copy by two ---- */

#define UM_COPY_BLOCKS_MOST                                                                        \
    64 /* of larger copies the blocks are larger, so that counting is rare */

/* On the owner's stack; one line, so that the helper's first look brings all. */
struct um_copy {
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_share share; /* both */
    char *to;                                           /* the rest: owner before the fork */
    const char *from;
    size_t bytes;
    size_t lead;  /* so that all blocks but the first begin with a line of `to` */
    size_t block; /* whole lines; the last one has what is left over, too */
};

#include <umbra/impl/memcpy.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

_Static_assert(sizeof(struct um_copy) == UMBRA_CACHE_LINE, "a copy is one line");

#endif
