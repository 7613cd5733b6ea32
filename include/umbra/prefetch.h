/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Prefetch by a helper that runs ahead. The leader is the thread that works through a sequence of
 * items. The helper, a shadow or any other thread near the leader, goes through the same items
 * without the work, so that the data is in a cache of both when the leader comes to it. This header
 * keeps the distance: a helper too far ahead waits, since it would push lines out of the cache
 * before they are used; a helper that fell behind is of no use, and goes on in front of the leader.
 *
 *     struct umbra_prefetch ahead;                         one for each pair
 *
 *     umbra_prefetch_init(&ahead, NULL);
 *     umbra_prefetch_begin(&ahead, list);                  leader: the first item is number 0
 *     shadow_fork(&shadow, walk_ahead, &ahead);
 *     for (i = 0; node; node = node->next, i++) {
 *         umbra_prefetch_at(&ahead, i, node);              now and then a few stores
 *         work_on(node);
 *     }
 *     umbra_prefetch_end(&ahead);                          the helper returns ...
 *     shadow_join(&shadow);                                ... and all may begin again
 *
 *     static void walk_ahead(void *arg)                    the helper
 *     {
 *         struct umbra_prefetch *ahead = arg;
 *         const void *place = ahead->first;
 *         uint64_t i = 0;
 *
 *         while (place && umbra_prefetch_next(ahead, &i, &place)) {
 *             const struct node *node = place;             moved on if it was late
 *
 *             umbra_prefetch_line(ahead, node->record);
 *             place = node->next;
 *             i++;
 *         }
 *     }
 *
 * If items have numbers and the next item needs no chain (an array of keys, of indices), the places
 * are NULL. The helper may read what it needs to find addresses, as long as the leader does not
 * write it meanwhile; for all other data it calls umbra_prefetch_line, which never faults.
 *
 * Callers. umbra_prefetch_line is optional; the other calls are needed.
 *
 *     init, begin   any thread or fiber, while no helper runs
 *     at, end       the leader
 *     next, line    the helper
 *
 * No call allocates, makes a system call or switches fibers. next waits, with pauses, while the
 * helper is too far ahead, until the leader comes nearer or calls end. So the leader must
 * call umbra_prefetch_end on every way out: otherwise the helper waits for ever.
 *
 * The leader pays a test an item, and one or three stores every UMBRA_PREFETCH_EVERY items (on
 * x86-64 two instructions an item, and one or three moves). Its gain depends on how near the helper
 * is: from a sibling, lines arrive in the leader's own L1; from another core, in a cache that both
 * share. On some processors the shared cache contains only what the cores' own caches have evicted:
 * there, a line that another core has fetched comes hardly sooner than from memory. options->demote
 * makes umbra_prefetch_line pass the lines on to the shared cache.
 */
#ifndef UMBRA_PREFETCH_H
#define UMBRA_PREFETCH_H

#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/cpu.h>
#include <umbra/prefetch/protocol.h>

/* The leader publishes its place once in so many items, for one line's way; a power of two. */
#ifndef UMBRA_PREFETCH_EVERY
#define UMBRA_PREFETCH_EVERY 16
#endif

/* The default window, in items: ten misses at the same time need as many. */
#ifndef UMBRA_PREFETCH_WINDOW
#define UMBRA_PREFETCH_WINDOW 64
#endif

/* With `demote` a line is passed on after so many other fetches: it should have arrived. A power of
 * two. */
#define UM_PREFETCH_LAG 8

/* How far the helper may run ahead. All zero, or NULL for all, is a good default. */
struct umbra_prefetch_options {
    uint64_t window; /* items that the helper may be ahead, 2 * UMBRA_PREFETCH_EVERY at least; 0:
                        UMBRA_PREFETCH_WINDOW */
    uint64_t lead;   /* a late helper goes on so many items in front of the leader; less than the
                        window; 0: a quarter of the window. Not used in a chain: there the helper
                        goes on at the leader's last published place */
    bool demote;     /* pass lines on to the cache that both share: for a helper that shares no
                        nearer cache, shadow->info.shared == UMBRA_SHARED_L3 */
};

/* What the helpers did since umbra_prefetch_init. */
struct umbra_prefetch_stats {
    uint64_t looks;   /* at the leader's place; each moves the leader's line there and back */
    uint64_t waits;   /* looks that found the helper too far ahead */
    uint64_t skips;   /* looks that found the helper late */
    uint64_t skipped; /* items that late helpers left out */
};

/* A leader and its helper. In the caller's memory: malloc's will do, but it is faster if it begins
 * a line (_Alignas(UMBRA_CACHE_LINE), aligned_alloc). It must not move while a helper runs. */
struct umbra_prefetch {
    UM_ALIGNED(UM_ANY_MEMORY)
    struct um_prefetch_pair_leader leader; /* leader writes, helper reads */
    unsigned char apart[UM_LINE_REST(sizeof(struct um_prefetch_pair_leader))];

    /* the helper's lines */
    struct um_prefetch_pair_helper helper;
    struct umbra_prefetch_stats stats;          /* helper; any thread may read it when none runs */
    bool demote;                                /* set by init */
    const void *first;                          /* what begin was given; the helper may read it */
    unsigned lines;                             /* fetched; counted up to 2 * UM_PREFETCH_LAG */
    const void *line[UM_PREFETCH_LAG];          /* the last ones fetched */
    unsigned char apart_too[UM_LINE_REST(152)]; /* asserted below */
};

/* Prepares the struct; options may be NULL. Any thread or fiber, while no helper runs; never
 * blocks. Returns 0, or -EINVAL: window or lead out of range. */
UM_INLINE int umbra_prefetch_init(struct umbra_prefetch *prefetch,
                                  const struct umbra_prefetch_options *options);

/* The leader will start from the first item, number 0; place: where that item is, or NULL. Any
 * thread or fiber, before the helper starts; never blocks. */
UM_INLINE void umbra_prefetch_begin(struct umbra_prefetch *prefetch, const void *place);

/* The leader comes to this item. place: where the item is; or NULL, then for all items up to the
 * end. The leader only; never blocks. Call it for every item, or at least for the multiples of
 * UMBRA_PREFETCH_EVERY. */
UM_INLINE void umbra_prefetch_at(struct umbra_prefetch *prefetch, uint64_t item, const void *place);

/* The leader is done, at whatever item: the helper's next returns false. The leader only; never
 * blocks. */
UM_INLINE void umbra_prefetch_end(struct umbra_prefetch *prefetch);

/*
 * Before the helper fetches *item: waits, with pauses, while *item is too far ahead. If *item is
 * late, moves it on, perhaps past the last item: compare again; and sets *place to where that item
 * is. place: NULL if the leader tells no places. Returns false when the leader is done. The helper
 * only; blocks its thread while it waits.
 */
UM_INLINE bool umbra_prefetch_next(struct umbra_prefetch *prefetch, uint64_t *item,
                                   const void **place);

/*
 * Starts fetching a line for the leader. With options->demote the line is passed on some lines
 * later; call this also for lines that the helper reads. Any address. The helper; never blocks.
 */
UM_INLINE void umbra_prefetch_line(struct umbra_prefetch *prefetch, const void *p);

#include <umbra/prefetch/distance.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_STATIC_ASSERT((UMBRA_PREFETCH_EVERY & (UMBRA_PREFETCH_EVERY - 1)) == 0, "a power of two");

UM_STATIC_ASSERT(__alignof__(struct umbra_prefetch) <= UM_ANY_MEMORY, "malloc's memory will do");
UM_STATIC_ASSERT(offsetof(struct umbra_prefetch, helper) == UMBRA_CACHE_LINE, "lines of their own");
UM_STATIC_ASSERT(sizeof(struct umbra_prefetch) % UMBRA_CACHE_LINE == 0, "and in an array, too");

UM_INLINE int umbra_prefetch_init(struct umbra_prefetch *prefetch,
                                  const struct umbra_prefetch_options *options)
{
    uint64_t window = options && options->window ? options->window : UMBRA_PREFETCH_WINDOW;
    uint64_t lead = options && options->lead ? options->lead : window / 4;

    if (window < 2 * UMBRA_PREFETCH_EVERY || window > UM_PREFETCH_PAIR_END / 4 || lead >= window)
        return um_why(-EINVAL, "window = %llu, lead = %llu: out of range",
                      (unsigned long long)window, (unsigned long long)lead);
    *prefetch = (struct umbra_prefetch){
        .helper = {.window = window, .lead = lead, .step = window / 4},
        .demote = options && options->demote,
    };
    return 0;
}

UM_INLINE void umbra_prefetch_begin(struct umbra_prefetch *prefetch, const void *place)
{
    prefetch->lines = 0;
    prefetch->first = place;
    um_prefetch_pair_begin(&prefetch->leader, &prefetch->helper);
}

UM_INLINE void umbra_prefetch_at(struct umbra_prefetch *prefetch, uint64_t item, const void *place)
{
    if ((item & (UMBRA_PREFETCH_EVERY - 1)) != 0)
        return;
    if (place)
        um_prefetch_pair_publish_place(&prefetch->leader, item, (uintptr_t)place);
    else
        um_prefetch_pair_publish(&prefetch->leader, item);
}

UM_INLINE void umbra_prefetch_end(struct umbra_prefetch *prefetch)
{
    um_prefetch_pair_end(&prefetch->leader);
}

UM_INLINE bool umbra_prefetch_next(struct umbra_prefetch *prefetch, uint64_t *item,
                                   const void **place)
{
    uintptr_t there;

    if (UM_LIKELY(*item < prefetch->helper.limit))
        return true;
    if (!place)
        return um_prefetch_look(prefetch, item, NULL);
    there = (uintptr_t)*place;
    if (!um_prefetch_look(prefetch, item, &there))
        return false;
    *place = (const void *)there;
    return true;
}

UM_INLINE void umbra_prefetch_line(struct umbra_prefetch *prefetch, const void *p)
{
    const void **slot = &prefetch->line[prefetch->lines % UM_PREFETCH_LAG];

    um_arch_prefetch_read(p);
    if (!prefetch->demote)
        return;
    if (prefetch->lines >= UM_PREFETCH_LAG)
        um_arch_demote(*slot);
    *slot = p;
    prefetch->lines =
        prefetch->lines + 1 < 2 * UM_PREFETCH_LAG ? prefetch->lines + 1 : UM_PREFETCH_LAG;
}
#endif
