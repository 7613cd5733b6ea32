/* SPDX-License-Identifier: BSL-1.0 */
/*
 * memcpy with the help of a shadow (Hori et al., "Shadow Thread", section 4 and Figure 13): the
 * owner copies from the front, its shadow from the back, block by block until they meet. One
 * hardware thread alone cannot have as many requests to memory under way as the memory could serve.
 *
 *     struct umbra_memcpy_limits limits;
 *
 *     shadow_create(&shadow, NULL);
 *     umbra_memcpy_calibrate(&shadow, &limits);        once; some milliseconds
 *     shadow_memcpy(&shadow, to, from, n, &limits);    fork and join are inside
 *
 * When it helps. The memory should not be in the owner's caches: from there the owner copies faster
 * than it can fork. And the copy must be large enough to be worth a fork and a join or, when the
 * shadow sleeps in the kernel, a wake-up:
 *
 *     bytes                       the shadow polls      the shadow sleeps
 *     below awake_bytes           memcpy                memcpy
 *     up to asleep_bytes          both copy             memcpy; the shadow sleeps on
 *     from asleep_bytes           both copy             both copy, the shadow a little later
 *
 * So a shadow that should help with smaller copies that come rarely must be kept awake
 * (UMBRA_WAIT_SPIN, or larger block_cycles; see umbra/wait.h).
 *
 * These sizes cannot be known beforehand: they differ by a factor of ten between two hardware
 * threads that share a core, a cache or only a node. The defaults are on the safe side.
 * umbra_memcpy_calibrate measures the pair at hand; a program that has its own measurements fills
 * the struct itself.
 *
 * Measurements grow old. When the machine gets other work, the system takes the processor away from
 * the shadow in the middle of a block for some milliseconds, and the owner waits for that block.
 * This happens most to shadows that spin (they have used up their share), and large copies suffer:
 * beside a process that kept the shadow's processor busy, copies of 64 KiB to 4 MiB stayed 1.7 to
 * 2.1 times as fast as memcpy, copies of 16 MiB fell from 1.9 to 0.93. With limits.choice,
 * shadow_memcpy goes on measuring, for each power of two separately, and leaves the shadow out
 * while it does not help:
 *
 *     struct umbra_memcpy_choice choice = {0};
 *
 *     limits.choice = &choice;                           after umbra_memcpy_calibrate
 *
 * The two threads take blocks from one counter (memcpy/protocol.h) instead of a half each: so a
 * shadow that starts late, or an owner that has its end in the cache, waits for at most one block.
 * Other ways of using a shadow for a copy (prefetching ahead of it, alternate blocks, halves) are
 * measured beside this one in bench/kernels/memcpy.c.
 *
 * Callers. Any thread may call shadow_memcpy; only the shadow's owner is helped. It blocks the
 * thread while the shadow finishes its last block, never switches fibers, and cannot fail.
 */
#ifndef UMBRA_MEMCPY_H
#define UMBRA_MEMCPY_H

#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/memcpy/faster_way.h>
#include <umbra/memcpy/protocol.h>
#include <umbra/shadow.h>

/*
 * The defaults, which a program may define otherwise at compile time. On two virtual processors of
 * a Xeon (Sapphire Rapids) that share an L3, umbra_memcpy_calibrate found about 32 KiB and 200 to
 * 700 KiB; the defaults are twice and four times that, for pairs that are further apart. Blocks:
 * below 16 KiB, 1 to 2 us, taking them costs noticeably (a cache line moves between the two for
 * each); above, waiting for the last one does.
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
 * How long the copies of one shadow's owner took. All zero at first; only that thread uses it. One
 * copy in 61 is made the way that was slower so far, in order to measure it (see
 * memcpy/faster_way.h).
 */
struct umbra_memcpy_choice {
    struct um_faster size[64]; /* i: copies of 2^i bytes and more, but below 2^(i+1) */
};

/* The sizes from which on a shadow helps. */
struct umbra_memcpy_limits {
    size_t awake_bytes;  /* smallest copy that a polling shadow helps with; SIZE_MAX: none */
    size_t asleep_bytes; /* smallest copy that a sleeping shadow is woken for; >= awake_bytes */
    size_t block_bytes;  /* what a thread takes at a time, at least; first and last may be less */
    struct umbra_memcpy_choice
        *choice; /* goes on measuring, see above; NULL: limits alone decide */
};

#define UMBRA_MEMCPY_LIMITS                                                                        \
    {                                                                                              \
        UMBRA_MEMCPY_AWAKE_BYTES, UMBRA_MEMCPY_ASLEEP_BYTES, UMBRA_MEMCPY_BLOCK_BYTES, NULL        \
    }

/*
 * Copies n bytes, of any alignment, as memcpy does: the two ranges must not overlap, and nothing
 * else is written. limits may be NULL: the defaults. Any thread. If the caller is the shadow's
 * owner, the shadow helps, and the call blocks the thread until the shadow has done its part. In
 * other threads, or if the shadow is busy, asleep as above, left out by limits->choice, destroyed,
 * or NULL, the call is memcpy: so it cannot fail. Below awake_bytes that decision is one
 * comparison. Never switches fibers. Returns true if the shadow was forked to.
 */
UM_INLINE bool shadow_memcpy(struct umbra_shadow *shadow, void *__restrict to,
                             const void *__restrict from, size_t n,
                             const struct umbra_memcpy_limits *limits);

/*
 * Measures the sizes from which on this shadow helps. The owner only, while the shadow is not busy;
 * blocks for some milliseconds, never switches fibers, and allocates 8 MiB, or four times the L2 if
 * that is more (at most 128 MiB), meanwhile.
 *
 * It measures on memory that is in no private cache but may be in a shared one. A copy from main
 * memory takes longer, so that a fork pays at smaller sizes: the limit found is then a little high.
 *
 *   awake_bytes   the smallest power of two at which, and at the next one, both together are faster
 *                 by a ninth in at least three of four pairs of copies; SIZE_MAX: none up to 2 MiB
 *   asleep_bytes  what the owner copies alone in four times what a wake-up costs, at most 0.8 ms;
 *                 awake_bytes if the shadow never sleeps
 *   block_bytes   the default, or half of awake_bytes
 *   choice         NULL
 *
 * Returns 0, -ENOMEM, or, as shadow_fork, -EBUSY, -EPERM, -ESRCH; limits are untouched on failure.
 */
UM_LINKONCE int umbra_memcpy_calibrate(struct umbra_shadow *shadow,
                                       struct umbra_memcpy_limits *limits);

/* ---- a copy by two ---- */

#define UM_COPY_BLOCKS_MOST                                                                        \
    64 /* larger copies have larger blocks, so that the counter is touched rarely */

/* One copy. On the owner's stack; one line, so that the helper's first look brings all of it. */
struct um_copy {
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_copy_blocks share; /* both write */
    char *to; /* this and below: owner before the fork */
    const char *from;
    size_t bytes;
    size_t lead;  /* so that all blocks but the first begin with a line of `to` */
    size_t block; /* whole lines; the last block also has what is left over */
};

#include <umbra/memcpy/halves.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_STATIC_ASSERT(sizeof(struct um_copy) == UMBRA_CACHE_LINE, "a copy is one line");

#endif
