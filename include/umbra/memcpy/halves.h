/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/memcpy.h: the copy by two threads, and the measurement of when it pays.
 * Private; included by that header, after its declarations.
 */
#ifndef UMBRA_MEMCPY_HALVES_H
#define UMBRA_MEMCPY_HALVES_H

#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/cpu.h>
#include <umbra/memcpy/faster_way.h>
#include <umbra/memcpy/protocol.h>
#include <umbra/os/os.h>
#include <umbra/shadow.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* True if the helper sleeps in the kernel, or did a moment ago. */
UM_INLINE bool um_copy_asleep(const struct umbra_shadow *shadow)
{
    return um_atomic_load(&shadow->helper_waiter.park.parked, relaxed) != 0; /* relaxed: a guess */
}

UM_LINKONCE UM_NOINLINE bool um_copy_by_two(struct umbra_shadow *shadow, void *to, const void *from,
                                            size_t n, const struct umbra_memcpy_limits *limits);

UM_INLINE bool shadow_memcpy(struct umbra_shadow *shadow, void *__restrict to,
                             const void *__restrict from, size_t n,
                             const struct umbra_memcpy_limits *limits)
{
    static const struct umbra_memcpy_limits defaults = UMBRA_MEMCPY_LIMITS;

    limits = limits ? limits : &defaults;
    if (n >= limits->awake_bytes)
        return um_copy_by_two(shadow, to, from, n, limits);
    memcpy(to, from, n);
    return false;
}

#define UM_COPY_TRIALS 15 /* pairs of copies of each size */

UM_LINKONCE UM_COLD bool um_copy_wins(const uint64_t alone[UM_COPY_TRIALS],
                                      const uint64_t both[UM_COPY_TRIALS]);

#ifdef UMBRA_IMPLEMENTATION

/* The offset at which block i begins and block i - 1 ends. */
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

    for (uint64_t i = copy->share.blocks; um_copy_blocks_take(&copy->share);)
        um_copy_block(copy, --i);
}

/* Lays out blocks. True if there are at least two. */
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

/* True if the caller may fork this copy to the shadow, and limits allow it. Lays out blocks. */
UM_INLINE bool um_copy_may_fork(struct um_copy *copy, const struct umbra_shadow *shadow,
                                const struct umbra_memcpy_limits *limits)
{
    return shadow && um_owned_by_caller(&shadow->owned) &&
           (copy->bytes >= limits->asleep_bytes || !um_copy_asleep(shadow)) &&
           um_copy_divide(copy, limits->block_bytes);
}

/* Copies with the shadow, or alone if the shadow is busy. True if the shadow was forked to. */
UM_INLINE bool um_copy_both(struct um_copy *copy, struct umbra_shadow *shadow)
{
    if (shadow_fork(shadow, um_copy_backwards, copy)) {
        memcpy(copy->to, copy->from, copy->bytes);
        return false;
    }
    for (uint64_t i = 0; um_copy_blocks_take(&copy->share); i++)
        um_copy_block(copy, i);
    shadow_join(shadow);
    return true;
}

/* Copies the way that is chosen for this size, and records the time. True if the shadow helped. */
UM_INLINE bool um_copy_chosen(struct um_copy *copy, struct umbra_shadow *shadow,
                              struct um_faster *choice)
{
    bool shared = um_faster_next(choice) == UM_FASTER_FIRST;
    uint64_t start = um_arch_cycles();

    if (shared)
        shared = um_copy_both(copy, shadow);
    else
        memcpy(copy->to, copy->from, copy->bytes);
    um_faster_hear(choice, shared ? UM_FASTER_FIRST : UM_FASTER_SECOND,
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
    if (limits->choice)
        return um_copy_chosen(&copy, shadow, &limits->choice->size[63 - __builtin_clzll(n)]);
    return um_copy_both(&copy, shadow);
}

/* ---- calibration ---- */

#define UM_COPY_AREA_LEAST ((size_t)4 << 20) /* to copy from, and as much to copy to */
#define UM_COPY_AREA_MOST ((size_t)64 << 20)
#define UM_COPY_FROM_BYTES ((size_t)4 << 10) /* sizes tried: doubled from the first to the second */
#define UM_COPY_TO_BYTES ((size_t)2 << 20)

/* The memory that is copied to find the limits. */
struct um_copy_trial {
    struct umbra_shadow *shadow;
    char *to, *from; /* two areas, walked through again and again */
    size_t area;     /* bytes of each: enough that memory has left the private caches next time */
    size_t at;       /* where the next copy begins */
};

/* Allocates the two areas and touches them, so that no copy faults pages in. False: no memory. */
UM_LINKONCE UM_COLD bool um_copy_trial_init(struct um_copy_trial *trial,
                                            struct umbra_shadow *shadow)
{
    const struct umbra_topology_cpu *cpu =
        umbra_topology_cpu_of(shadow->owned.topology, shadow->info.owner_cpu);
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

/* Forked in order to wake the shadow. */
UM_LINKONCE UM_COLD void um_copy_nothing(void *arg)
{
    (void)arg;
}

/* The time of one copy of n bytes, ns; by the owner alone if limits say so. */
UM_LINKONCE UM_COLD uint64_t um_copy_time(struct um_copy_trial *trial, size_t n,
                                          const struct umbra_memcpy_limits *limits)
{
    uint64_t start;

    if (trial->at + n > trial->area)
        trial->at = 0;
    shadow_fork(trial->shadow, um_copy_nothing, NULL); /* so that it is awake */
    shadow_join(trial->shadow);
    start = um_os_now_ns();
    shadow_memcpy(trial->shadow, trial->to + trial->at, trial->from + trial->at, n, limits);
    start = um_os_now_ns() - start;
    trial->at += n;
    return start;
}

/* Copies n bytes by the owner alone and by both, alternately. Writes the times, ns. */
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

/* True if both together are faster by a ninth in at least three quarters of the pairs of copies. */
UM_LINKONCE UM_COLD bool um_copy_wins(const uint64_t alone[UM_COPY_TRIALS],
                                      const uint64_t both[UM_COPY_TRIALS])
{
    int won = 0;

    for (int i = 0; i < UM_COPY_TRIALS; i++)
        won += alone[i] * 9 >= both[i] * 10;
    return won >= UM_COPY_TRIALS - UM_COPY_TRIALS / 4;
}

/* Finds awake_bytes, and the bytes that the owner copies alone in a microsecond. */
UM_LINKONCE UM_COLD size_t um_copy_find_awake(struct um_copy_trial *trial, size_t *per_us)
{
    size_t first = 0; /* first of the sizes in a row, up to this one, at which both were faster */

    for (size_t n = UM_COPY_FROM_BYTES; n <= UM_COPY_TO_BYTES; n *= 2) {
        uint64_t alone[UM_COPY_TRIALS], both[UM_COPY_TRIALS];

        um_copy_times(trial, n, alone, both);
        if (!um_copy_wins(alone, both))
            first = 0;
        else if (first == 0)
            first = n;
        *per_us = n * 1000 / (size_t)(um_median(alone, UM_COPY_TRIALS) + 1);
        if (first != 0 && first != n)
            return first;
    }
    return SIZE_MAX;
}

/* Finds asleep_bytes. */
UM_LINKONCE UM_COLD size_t um_copy_find_asleep(const struct umbra_shadow *shadow,
                                               size_t awake_bytes, size_t per_us)
{
    size_t asleep_bytes;

    if (shadow->policy.block_cycles == UMBRA_NEVER || awake_bytes == SIZE_MAX)
        return awake_bytes;
    asleep_bytes = (size_t)(4 * um_min_u64(um_wake_ns(), UM_BLOCK_MOST_NS)) * per_us / 1000;
    return asleep_bytes < awake_bytes ? awake_bytes : asleep_bytes;
}

UM_LINKONCE int umbra_memcpy_calibrate(struct umbra_shadow *shadow,
                                       struct umbra_memcpy_limits *limits)
{
    struct umbra_memcpy_limits found = UMBRA_MEMCPY_LIMITS;
    struct um_copy_trial trial;
    size_t per_us = 0;
    int error = shadow_fork(shadow, um_copy_nothing, NULL);

    if (error)
        return error;
    shadow_join(shadow);
    if (!um_copy_trial_init(&trial, shadow))
        return um_why_none(-ENOMEM);
    found.awake_bytes = um_copy_find_awake(&trial, &per_us);
    found.asleep_bytes = um_copy_find_asleep(shadow, found.awake_bytes, per_us);
    if (found.block_bytes > found.awake_bytes / 2)
        found.block_bytes = found.awake_bytes / 2;
    free(trial.from);
    *limits = found;
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
