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
 * Blocks are taken from one counter (detail/share_protocol.h), not split in halves beforehand: so a
 * shadow that starts late, or an owner that has its end in the cache, costs at most one block of
 * waiting. The owner's other ways of using a shadow for a copy (prefetching ahead of it, alternate
 * blocks, halves) are in bench/memcpy.c, beside this one.
 */
#ifndef UMBRA_MEMCPY_H
#define UMBRA_MEMCPY_H

#include <stdlib.h>
#include <string.h>

#include <umbra/detail/base.h>
#include <umbra/detail/block.h>
#include <umbra/detail/judge.h>
#include <umbra/detail/share_protocol.h>
#include <umbra/shadow.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

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
 * is made the way that is thought to be slower, so as to know (see detail/judge.h).
 */
struct umbra_memcpy_judge {
    struct um_judge size[64]; /* i: of 2^i bytes and more, but below 2^(i+1) */
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

_Static_assert(sizeof(struct um_copy) == UMBRA_CACHE_LINE, "a copy is one line");

/* Where block i begins, and the one before ends. */
UM_INLINE size_t um_copy_bound(const struct um_copy *copy, uint64_t i)
{
    if (i == 0)
        return 0;
    return i == copy->share.blocks ? copy->bytes : copy->lead + (size_t)i * copy->block;
}

UM_INLINE void um_copy_block(const struct um_copy *copy, uint64_t i)
{
    size_t begin = um_copy_bound(copy, i);

    memcpy(copy->to + begin, copy->from + begin, um_copy_bound(copy, i + 1) - begin);
}

/* The helper's part. */
UM_LINKONCE void um_copy_backwards(void *arg)
{
    struct um_copy *copy = arg;

    for (uint64_t i = copy->share.blocks; um_share_take(&copy->share);)
        um_copy_block(copy, --i);
}

/* Lays out blocks; whether there are at least two. */
UM_INLINE bool um_copy_divide(struct um_copy *copy, size_t block_bytes)
{
    size_t least = block_bytes < UMBRA_CACHE_LINE ? UMBRA_CACHE_LINE : block_bytes;
    size_t blocks = copy->bytes / least;

    if (blocks < 2)
        return false;
    if (blocks > UM_COPY_BLOCKS_MOST)
        blocks = UM_COPY_BLOCKS_MOST;
    copy->share.blocks = blocks;
    copy->block = copy->bytes / blocks / UMBRA_CACHE_LINE * UMBRA_CACHE_LINE;
    copy->lead = -(uintptr_t)copy->to % UMBRA_CACHE_LINE;
    return true;
}

/* Whether the helper sleeps in the kernel, or did a moment ago. */
UM_INLINE bool um_copy_asleep(const struct umbra_shadow *shadow)
{
    return um_atomic_load(&shadow->helper_waiter.park.parked, relaxed) != 0; /* only a guess */
}

/* Whether the caller may fork such a copy to the shadow and limits are for it; lays out blocks. */
UM_INLINE bool um_copy_may_fork(struct um_copy *copy, const struct umbra_shadow *shadow,
                                const struct umbra_memcpy_limits *limits)
{
    return shadow && um_shadow_owner(shadow) == um_arch_thread_id() &&
           (copy->bytes >= limits->asleep_bytes || !um_copy_asleep(shadow)) &&
           um_copy_divide(copy, limits->block_bytes);
}

/* By both, if the shadow is not busy. Whether it was not. */
UM_INLINE bool um_copy_both(struct um_copy *copy, struct umbra_shadow *shadow)
{
    if (shadow_fork(shadow, um_copy_backwards, copy)) {
        memcpy(copy->to, copy->from, copy->bytes);
        return false;
    }
    for (uint64_t i = 0; um_share_take(&copy->share); i++)
        um_copy_block(copy, i);
    shadow_join(shadow);
    return true;
}

/* The way the judge wants it, who is told how long it took. Whether by both. */
UM_INLINE bool um_copy_judged(struct um_copy *copy, struct umbra_shadow *shadow,
                              struct um_judge *judge)
{
    bool shared = um_judge_next(judge) == UM_JUDGE_FIRST;
    uint64_t start = um_arch_cycles();

    if (shared)
        shared = um_copy_both(copy, shadow);
    else
        memcpy(copy->to, copy->from, copy->bytes);
    um_judge_hear(judge, shared ? UM_JUDGE_FIRST : UM_JUDGE_SECOND,
                  ((um_arch_cycles() - start) << 16) / copy->bytes);
    return shared;
}

/* The part of shadow_memcpy for sizes at which the shadow may help. */
UM_LINKONCE UM_NOINLINE bool um_copy_by_two(struct umbra_shadow *shadow, void *to, const void *from,
                                            size_t n, const struct umbra_memcpy_limits *limits)
{
    struct um_copy copy = {.to = to, .from = from, .bytes = n};

    if (!um_copy_may_fork(&copy, shadow, limits)) {
        memcpy(to, from, n);
        return false;
    }
    if (limits->judge)
        return um_copy_judged(&copy, shadow, &limits->judge->size[63 - __builtin_clzll(n)]);
    return um_copy_both(&copy, shadow);
}

UM_INLINE bool shadow_memcpy(struct umbra_shadow *shadow, void *restrict to,
                             const void *restrict from, size_t n,
                             const struct umbra_memcpy_limits *limits)
{
    static const struct umbra_memcpy_limits defaults = UMBRA_MEMCPY_LIMITS;

    limits = limits ? limits : &defaults;
    if (n >= limits->awake_bytes)
        return um_copy_by_two(shadow, to, from, n, limits);
    memcpy(to, from, n);
    return false;
}

/* ---- calibration ---- */

#define UM_COPY_AREA_LEAST ((size_t)4 << 20) /* to copy from, and as much to copy to */
#define UM_COPY_AREA_MOST ((size_t)64 << 20)
#define UM_COPY_FROM_BYTES ((size_t)4 << 10) /* the sizes that are tried: from, to, by doubling */
#define UM_COPY_TO_BYTES ((size_t)2 << 20)
#define UM_COPY_TRIALS 15           /* pairs of copies of each size */
#define UM_COPY_PATIENCE_NS 1000000 /* how long a shadow may take to fall asleep */
#define UM_COPY_DOZE_NS 200000      /* how long it then sleeps before it is woken */

/* What is copied to find the limits. */
struct um_copy_trial {
    struct umbra_shadow *shadow;
    char *to, *from; /* two areas, walked through again and again */
    size_t area;     /* bytes of each: what comes round again has left the private caches */
    size_t at;       /* where the next copy begins */
};

/* Makes the two areas; touched, so that no copy faults pages in. */
UM_LINKONCE UM_COLD bool um_copy_trial_init(struct um_copy_trial *trial,
                                            struct umbra_shadow *shadow)
{
    const struct umbra_topology_cpu *cpu =
        umbra_topology_cpu_of(shadow->topology, shadow->info.owner_cpu);
    size_t area = cpu ? 2 * (size_t)cpu->l2_bytes : 0;

    area = area < UM_COPY_AREA_LEAST ? UM_COPY_AREA_LEAST : area;
    area = area > UM_COPY_AREA_MOST ? UM_COPY_AREA_MOST : area;
    *trial = (struct um_copy_trial){.shadow = shadow, .from = malloc(2 * area), .area = area};
    if (!trial->from)
        return false;
    trial->to = trial->from + area;
    memset(trial->from, 1, 2 * area);
    return true;
}

/* One copy of n bytes, ns; by the owner alone where limits say so. */
UM_LINKONCE UM_COLD uint64_t um_copy_time(struct um_copy_trial *trial, size_t n,
                                          const struct umbra_memcpy_limits *limits)
{
    uint64_t start;

    if (trial->at + n > trial->area)
        trial->at = 0;
    shadow_fork(trial->shadow, um_shadow_nothing, NULL); /* so that it is awake */
    shadow_join(trial->shadow);
    start = um_os_now_ns();
    shadow_memcpy(trial->shadow, trial->to + trial->at, trial->from + trial->at, n, limits);
    start = um_os_now_ns() - start;
    trial->at += n;
    return start;
}

/* Copies n bytes by the owner alone and by both, alternately; ns of each. */
UM_LINKONCE UM_COLD void um_copy_times(struct um_copy_trial *trial, size_t n,
                                       uint64_t alone[UM_COPY_TRIALS],
                                       uint64_t both[UM_COPY_TRIALS])
{
    static const struct umbra_memcpy_limits never = {SIZE_MAX, SIZE_MAX, SIZE_MAX, NULL};
    struct umbra_memcpy_limits always = {0, 0, UMBRA_MEMCPY_BLOCK_BYTES, NULL};

    if (n / 2 < always.block_bytes)
        always.block_bytes = n / 2;
    for (int i = 0; i < UM_COPY_TRIALS; i++) {
        alone[i] = um_copy_time(trial, n, &never);
        both[i] = um_copy_time(trial, n, &always);
    }
}

/* Whether both are faster by a ninth in all but a quarter of the trials, each beside its own. */
UM_LINKONCE UM_COLD bool um_copy_wins(const uint64_t alone[UM_COPY_TRIALS],
                                      const uint64_t both[UM_COPY_TRIALS])
{
    int won = 0;

    for (int i = 0; i < UM_COPY_TRIALS; i++)
        won += alone[i] * 9 >= both[i] * 10;
    return won >= UM_COPY_TRIALS - UM_COPY_TRIALS / 4;
}

/* awake_bytes; and what the owner copies alone in a microsecond. */
UM_LINKONCE UM_COLD size_t um_copy_find_awake(struct um_copy_trial *trial, size_t *per_us)
{
    size_t first = 0; /* of the sizes at which both were faster, up to the present one */

    for (size_t n = UM_COPY_FROM_BYTES; n <= UM_COPY_TO_BYTES; n *= 2) {
        uint64_t alone[UM_COPY_TRIALS], both[UM_COPY_TRIALS];

        um_copy_times(trial, n, alone, both);
        if (!um_copy_wins(alone, both))
            first = 0;
        else if (first == 0)
            first = n;
        qsort(alone, UM_COPY_TRIALS, sizeof(alone[0]), um_compare_u64);
        *per_us = n * 1000 / (size_t)(alone[UM_COPY_TRIALS / 2] + 1);
        if (first != 0 && first != n)
            return first;
    }
    return SIZE_MAX;
}

/* Lets the helper fall asleep, and a while longer: it says so before it does. Whether it did. */
UM_LINKONCE UM_COLD bool um_copy_put_to_sleep(const struct umbra_shadow *shadow)
{
    uint64_t patience = umbra_deadline(UM_COPY_PATIENCE_NS);
    uint64_t asleep;

    while (!um_copy_asleep(shadow) && um_arch_cycles() < patience)
        um_arch_pause();
    asleep = umbra_deadline(UM_COPY_DOZE_NS);
    while (um_arch_cycles() < asleep)
        um_arch_pause();
    return um_copy_asleep(shadow);
}

/* Median of fork and join of a shadow that sleeps, ns; 0 if it does not fall asleep soon. */
UM_LINKONCE UM_COLD uint64_t um_copy_wake_ns(struct umbra_shadow *shadow)
{
    uint64_t took[UM_BLOCK_TRIALS];

    for (int i = 0; i < UM_BLOCK_TRIALS; i++) {
        uint64_t start;

        if (!um_copy_put_to_sleep(shadow))
            return 0;
        start = um_os_now_ns();
        shadow_fork(shadow, um_shadow_nothing, NULL);
        shadow_join(shadow);
        took[i] = um_os_now_ns() - start;
    }
    return um_block_median(took);
}

/* asleep_bytes. */
UM_LINKONCE UM_COLD size_t um_copy_find_asleep(struct umbra_shadow *shadow, size_t awake_bytes,
                                               size_t per_us)
{
    size_t asleep_bytes = UMBRA_MEMCPY_ASLEEP_BYTES;
    uint64_t wake_ns;

    if (shadow->policy.block_cycles == UMBRA_NEVER || awake_bytes == SIZE_MAX)
        return awake_bytes;
    wake_ns = um_copy_wake_ns(shadow);
    if (wake_ns)
        asleep_bytes = (size_t)(4 * wake_ns) * per_us / 1000;
    return asleep_bytes < awake_bytes ? awake_bytes : asleep_bytes;
}

UM_LINKONCE int umbra_memcpy_calibrate(struct umbra_shadow *shadow,
                                       struct umbra_memcpy_limits *limits)
{
    struct umbra_memcpy_limits found = UMBRA_MEMCPY_LIMITS;
    struct um_copy_trial trial;
    size_t per_us = 0;
    int error = shadow_fork(shadow, um_shadow_nothing, NULL);

    if (error)
        return error;
    shadow_join(shadow);
    if (!um_copy_trial_init(&trial, shadow))
        return -ENOMEM;
    found.awake_bytes = um_copy_find_awake(&trial, &per_us);
    found.asleep_bytes = um_copy_find_asleep(shadow, found.awake_bytes, per_us);
    if (found.block_bytes > found.awake_bytes / 2)
        found.block_bytes = found.awake_bytes / 2;
    free(trial.from);
    *limits = found;
    return 0;
}

#endif
