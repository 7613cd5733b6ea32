/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A helper that runs ahead: a shadow, or any other thread near the leader, goes through the same
 * items as the leader, without the work, so that what the work needs is in a cache that both can
 * reach when the leader comes to it. This header keeps the distance: a helper too far ahead would
 * push lines out of the cache before they are used, and waits; one that fell behind is of no use,
 * and goes on in front of the leader.
 *
 *     struct umbra_prefetch ahead;                         one for each pair
 *
 *     umbra_prefetch_init(&ahead, NULL);
 *     umbra_prefetch_begin(&ahead, list);                  leader: the first item is number 0
 *     shadow_fork(&shadow, walk_ahead, &ahead);
 *     for (i = 0; node; node = node->next, i++) {
 *         umbra_prefetch_at_place(&ahead, i, node);        now and then a few stores
 *         work_on(node);
 *     }
 *     umbra_prefetch_end(&ahead);                          the helper returns ...
 *     shadow_join(&shadow);                                ... and all may begin again
 *
 *     static void walk_ahead(void *arg)                    the helper
 *     {
 *         struct umbra_prefetch *ahead = arg;
 *         const void *place = umbra_prefetch_first(ahead);
 *         uint64_t i = 0;
 *
 *         while (place && umbra_prefetch_next_place(ahead, &i, &place)) {
 *             const struct node *node = place;             moved on if it was late
 *
 *             umbra_prefetch_line(ahead, node->record);
 *             place = node->next;
 *             i++;
 *         }
 *     }
 *
 * Where items have numbers and the next one needs no chain (an array of keys, of indices), it is
 * umbra_prefetch_at and umbra_prefetch_next instead, without places. The helper may read what it
 * needs to find addresses, as long as the leader does not write it meanwhile; for the rest it calls
 * umbra_prefetch_line, which never faults.
 *
 * Who may call what. Only umbra_prefetch_line may be left out.
 *
 *     init, begin, stats    anybody, while no helper runs        end, at, at_place     the leader
 *     first, next, next_place, line                                                    the helper
 *
 * None allocates, makes a system call or switches fibers; next and next_place wait, with pauses,
 * while the helper is too far ahead, until the leader comes nearer or calls end. So whoever starts
 * a helper must come to umbra_prefetch_end, on every way out.
 *
 * The price for the leader is a test an item, and a store, or three, every UMBRA_PREFETCH_EVERY
 * items (on x86-64 two instructions an item, and one or three moves). What it gains depends on how
 * near the helper is: on a sibling thread lines arrive in the leader's own L1; on another core they
 * arrive in a cache between the two. There are processors whose shared cache is filled by what its
 * cores' own caches let go: from these a line that another core has fetched comes hardly sooner
 * than from memory. options->demote makes umbra_prefetch_line pass the lines on to the shared cache.
 */
#ifndef UMBRA_PREFETCH_H
#define UMBRA_PREFETCH_H

#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/protocol/ahead.h>

/* Items from one of the leader's publications to the next; a power of two. */
#ifndef UMBRA_PREFETCH_EVERY
#define UMBRA_PREFETCH_EVERY 16
#endif

/* The window unless options say something else. Wide enough for some fetches to be under way. */
#ifndef UMBRA_PREFETCH_WINDOW
#define UMBRA_PREFETCH_WINDOW 64
#endif

/* Lines fetched until one is passed on: it should have arrived by then. A power of two. */
#define UM_PREFETCH_LAG 8

/* All zero, or NULL for the whole, is a good default. */
struct umbra_prefetch_options {
    uint64_t window; /* items the helper may be ahead, 2 * UMBRA_PREFETCH_EVERY at least; 0:
                        UMBRA_PREFETCH_WINDOW */
    uint64_t lead;   /* items in front of the leader where a late helper goes on, less than the
                        window; 0: a quarter of it. Of no meaning in a chain: there it is where the
                        leader was. */
    bool demote;     /* pass lines on to the cache that both share: for a helper that shares no
                        nearer one, umbra_shadow_info(shadow).shared == UMBRA_SHARED_L3 */
};

/* What a helper did, since umbra_prefetch_init. */
struct umbra_prefetch_stats {
    uint64_t looks;   /* at the leader's place; each costs both a transfer of its line */
    uint64_t waits;   /* of them, that found the helper too far ahead */
    uint64_t skips;   /* of them, that found it late */
    uint64_t skipped; /* items left out so */
};

/* Leader and helper. In the caller's memory, which may be malloc's, but is better a line of its own
 * (_Alignas(UMBRA_CACHE_LINE), aligned_alloc); not to be moved while a helper runs. */
struct umbra_prefetch {
    UM_ALIGNED(UM_ANY_MEMORY) struct um_ahead_leader leader; /* leader writes, helper reads */
    unsigned char apart[UM_LINE_REST(sizeof(struct um_ahead_leader))];

    /* the helper's lines */
    struct um_ahead_helper helper;
    struct umbra_prefetch_stats stats;          /* helper; anybody after it has ended */
    bool demote;                                /* set by init */
    const void *first;                          /* place of item 0; set by begin */
    unsigned lines;                             /* fetched, as far as it fits */
    const void *line[UM_PREFETCH_LAG];          /* the last of them */
    unsigned char apart_too[UM_LINE_REST(152)]; /* asserted below */
};

/* Prepares it. 0, or -EINVAL: window or lead out of range. */
UM_INLINE int umbra_prefetch_init(struct umbra_prefetch *prefetch,
                                  const struct umbra_prefetch_options *options);

/* The leader is about to start from the first item, number 0; place: where it is, or NULL. */
UM_INLINE void umbra_prefetch_begin(struct umbra_prefetch *prefetch, const void *place);

/* The leader comes to this item. Call it with each, or at least with the multiples of
 * UMBRA_PREFETCH_EVERY. */
UM_INLINE void umbra_prefetch_at(struct umbra_prefetch *prefetch, uint64_t item);

/* Likewise, and says where the item is. For all items from begin to end, or for none. */
UM_INLINE void umbra_prefetch_at_place(struct umbra_prefetch *prefetch, uint64_t item,
                                       const void *place);

/* The leader is done, wherever it is. The helper's next or next_place returns false. */
UM_INLINE void umbra_prefetch_end(struct umbra_prefetch *prefetch);

/* The place that was given to umbra_prefetch_begin. */
UM_INLINE const void *umbra_prefetch_first(const struct umbra_prefetch *prefetch);

/*
 * Before the helper fetches *item: waits while that is too far ahead. Moves *item on if it is late,
 * perhaps past the last one: compare again. False when the leader is done.
 */
UM_INLINE bool umbra_prefetch_next(struct umbra_prefetch *prefetch, uint64_t *item);

/* Likewise; if *item is moved on, *place becomes where it is. */
UM_INLINE bool umbra_prefetch_next_place(struct umbra_prefetch *prefetch, uint64_t *item,
                                         const void **place);

/* Starts fetching a line for the leader. With options->demote it is passed on some lines later, and
 * so should lines be that the helper itself reads: call it with them, too. Any address. */
UM_INLINE void umbra_prefetch_line(struct umbra_prefetch *prefetch, const void *p);

/* What the helpers did so far. */
UM_INLINE struct umbra_prefetch_stats umbra_prefetch_stats(const struct umbra_prefetch *prefetch);

#include <umbra/impl/prefetch.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

_Static_assert((UMBRA_PREFETCH_EVERY & (UMBRA_PREFETCH_EVERY - 1)) == 0, "a power of two");

_Static_assert(_Alignof(struct umbra_prefetch) <= UM_ANY_MEMORY, "malloc's memory will do");
_Static_assert(offsetof(struct umbra_prefetch, helper) == UMBRA_CACHE_LINE, "lines of their own");
_Static_assert(sizeof(struct umbra_prefetch) % UMBRA_CACHE_LINE == 0, "and in an array, too");


UM_INLINE int umbra_prefetch_init(struct umbra_prefetch *prefetch,
                                  const struct umbra_prefetch_options *options)
{
    uint64_t window = options && options->window ? options->window : UMBRA_PREFETCH_WINDOW;
    uint64_t lead = options && options->lead ? options->lead : window / 4;

    if (window < 2 * UMBRA_PREFETCH_EVERY || window > UM_AHEAD_END / 4 || lead >= window)
        return -EINVAL;
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
    um_ahead_begin(&prefetch->leader, &prefetch->helper);
}

UM_INLINE const void *umbra_prefetch_first(const struct umbra_prefetch *prefetch)
{
    return prefetch->first;
}

UM_INLINE void umbra_prefetch_at(struct umbra_prefetch *prefetch, uint64_t item)
{
    if ((item & (UMBRA_PREFETCH_EVERY - 1)) == 0)
        um_ahead_publish(&prefetch->leader, item);
}

UM_INLINE void umbra_prefetch_at_place(struct umbra_prefetch *prefetch, uint64_t item,
                                       const void *place)
{
    if ((item & (UMBRA_PREFETCH_EVERY - 1)) == 0)
        um_ahead_publish_place(&prefetch->leader, item, (uintptr_t)place);
}

UM_INLINE void umbra_prefetch_end(struct umbra_prefetch *prefetch)
{
    um_ahead_end(&prefetch->leader);
}

UM_INLINE bool umbra_prefetch_next(struct umbra_prefetch *prefetch, uint64_t *item)
{
    return UM_LIKELY(*item < prefetch->helper.limit) || um_prefetch_look(prefetch, item, NULL);
}

UM_INLINE bool umbra_prefetch_next_place(struct umbra_prefetch *prefetch, uint64_t *item,
                                         const void **place)
{
    uintptr_t there = (uintptr_t)*place;

    if (UM_LIKELY(*item < prefetch->helper.limit))
        return true;
    if (!um_prefetch_look(prefetch, item, &there))
        return false;
    *place = (const void *)there;
    return true;
}

UM_INLINE void umbra_prefetch_line(struct umbra_prefetch *prefetch, const void *p)
{
    const void **slot = &prefetch->line[prefetch->lines % UM_PREFETCH_LAG];

    umbra_prefetch_read(p);
    if (!prefetch->demote)
        return;
    if (prefetch->lines >= UM_PREFETCH_LAG)
        umbra_demote(*slot);
    *slot = p;
    prefetch->lines =
        prefetch->lines + 1 < 2 * UM_PREFETCH_LAG ? prefetch->lines + 1 : UM_PREFETCH_LAG;
}

UM_INLINE struct umbra_prefetch_stats umbra_prefetch_stats(const struct umbra_prefetch *prefetch)
{
    return prefetch->stats;
}

#endif
