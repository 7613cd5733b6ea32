/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The gap between two polls of a word that another thread is about to write: what the waiter does
 * between them, and whether it asks for the word's line to write. Private.
 *
 * Which gap is fastest differs from processor to processor and from place to place: one processor
 * shows a store 40 % later after PAUSE than after a fence, the next one the other way round. So the
 * gap is measured (wait/probe.h). It never changes the order of memory accesses: each poll is
 * the same load with or without a gap before it, and no protocol relies on the gap.
 */
#ifndef UMBRA_WAIT_GAP_H
#define UMBRA_WAIT_GAP_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/cpu.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* What a waiter does between two polls. UMBRA_GAP_WRITE may be added. */
enum umbra_gap {
    UMBRA_GAP_NONE,   /* nothing */
    UMBRA_GAP_PAUSE,  /* one pause: PAUSE, ISB, ... */
    UMBRA_GAP_PAUSES, /* two of them */
    UMBRA_GAP_FENCE,  /* later loads wait for the earlier ones: LFENCE, DMB ISHLD, ... */
    UMBRA_GAP_CLOCK,  /* reads the time stamp: RDTSC, CNTVCT, ... */
    UMBRA_GAP_COUNT
};

#define UMBRA_GAP_WRITE 8u /* then asks for the line to write: PREFETCHW, PRFM PSTL1KEEP, ... */
#define UM_GAPS 16         /* more than any gap's number */

/* What was found good on the first processors, and stays where nothing better is measured. */
#define UMBRA_GAP_USUAL UMBRA_GAP_FENCE

/* A kind of place that polls. */
enum umbra_poll_place {
    UMBRA_POLL_SLOT,  /* a shadow and its owner, a team; forced, at barriers, too */
    UMBRA_POLL_OTHER, /* events, idle cores, joins, and any other wait of umbra/wait.h */
    UMBRA_POLL_PLACES
};

/* How a place polls: gap, and polls between two looks at the clock. */
struct um_polls {
    uint32_t gap; /* enum umbra_gap, and UMBRA_GAP_WRITE or not */
    uint32_t batch;
};

/* One gap before the next poll of a word. Constant or not: a loop's gap never changes, so the
 * branches are predicted. */
UM_INLINE void um_gap_pass(uint32_t gap, const void *word)
{
    uint32_t kind = gap & ~UMBRA_GAP_WRITE;

    if (kind == UMBRA_GAP_FENCE)
        um_arch_relax();
    else if (kind == UMBRA_GAP_PAUSE)
        um_arch_pause();
    else if (kind == UMBRA_GAP_CLOCK)
        um_arch_cycles();
    else if (kind == UMBRA_GAP_PAUSES) {
        um_arch_pause();
        um_arch_pause();
    }
    if (gap & UMBRA_GAP_WRITE)
        um_arch_prefetch_write(word);
}

/* So many polls of a word, whatever its value. */
UM_INLINE void um_gap_rest(uint32_t gap, const um_atomic_u32 *word, uint32_t polls)
{
    for (uint32_t i = 0; i < polls; i++) {
        um_gap_pass(gap, word);
        um_atomic_load(word, acquire); /* as a wait's look */
    }
}

/* The name of a gap as in UMBRA_WAIT, such as "fence+write". */
UM_LINKONCE const char *um_gap_name(uint32_t gap);

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE const char *um_gap_name(uint32_t gap)
{
    static const char *const names[UM_GAPS] = {[UMBRA_GAP_NONE] = "none",
                                               [UMBRA_GAP_PAUSE] = "pause",
                                               [UMBRA_GAP_PAUSES] = "pauses",
                                               [UMBRA_GAP_FENCE] = "fence",
                                               [UMBRA_GAP_CLOCK] = "clock",
                                               [UMBRA_GAP_NONE | UMBRA_GAP_WRITE] = "none+write",
                                               [UMBRA_GAP_PAUSE | UMBRA_GAP_WRITE] = "pause+write",
                                               [UMBRA_GAP_PAUSES | UMBRA_GAP_WRITE] =
                                                   "pauses+write",
                                               [UMBRA_GAP_FENCE | UMBRA_GAP_WRITE] = "fence+write",
                                               [UMBRA_GAP_CLOCK | UMBRA_GAP_WRITE] = "clock+write"};

    return gap < UM_GAPS ? names[gap] : NULL;
}
#endif /* UMBRA_IMPLEMENTATION */

/* The name of a place as in UMBRA_WAIT. */
UM_INLINE const char *um_place_name(uint32_t place)
{
    static const char *const names[UMBRA_POLL_PLACES] = {"slot", "other"};

    return names[place];
}

/* A gap for each place; UM_GAPS: none is named. */
struct um_gaps {
    uint8_t of[UMBRA_POLL_PLACES];
};

/* The gaps that UMBRA_WAIT forces. 0, or -EINVAL: it names a place or a gap that does not exist. Any
 * thread; never blocks. */
UM_LINKONCE UM_COLD int um_gaps_forced(struct um_gaps *gaps);

#ifdef UMBRA_IMPLEMENTATION

/* True if the first `length` bytes of a text are a name. */
UM_LINKONCE UM_COLD bool um_text_is(const char *text, size_t length, const char *name)
{
    return strncmp(text, name, length) == 0 && name[length] == '\0';
}

#define UM_GAP_ITEM_MOST 60 /* bytes of a wrong item that an error shows */

/* The gap of this name, or UM_GAPS. */
UM_LINKONCE UM_COLD uint32_t um_gap_named(const char *name, size_t length)
{
    uint32_t gap = 0;

    while (gap < UM_GAPS && !(um_gap_name(gap) && um_text_is(name, length, um_gap_name(gap))))
        gap++;
    return gap;
}

/* Reads one PLACE=GAP; the place `gap` means all. seen: a bit for each name that was read. 0 or
 * -EINVAL. */
UM_LINKONCE UM_COLD int um_gaps_read(struct um_gaps *gaps, uint32_t *seen, const char *item,
                                     size_t length)
{
    size_t named = strcspn(item, "=,");
    size_t rest = named < length ? named + 1 : length;
    uint32_t gap = um_gap_named(item + rest, length - rest);
    int shown = (int)(length < UM_GAP_ITEM_MOST ? length : UM_GAP_ITEM_MOST);
    bool all = um_text_is(item, named, "gap");
    uint32_t names = all ? 1u << UMBRA_POLL_PLACES : 0;

    for (uint32_t place = 0; place < UMBRA_POLL_PLACES; place++) {
        bool meant = um_text_is(item, named, um_place_name(place));

        names |= meant ? 1u << place : 0;
        if (meant || all)
            gaps->of[place] = (uint8_t)gap;
    }
    if (names == 0)
        return um_why(
            -EINVAL,
            "UMBRA_WAIT: %.*s: no place is called so; there are gap (both), slot and other",
            shown, item);
    if (gap == UM_GAPS)
        return um_why(
            -EINVAL,
            "UMBRA_WAIT: %.*s: no gap is called so; there are none, pause, pauses, fence, "
            "clock, also with +write",
            shown, item);
    if (*seen & names)
        return um_why(-EINVAL, "UMBRA_WAIT: %.*s: the place is named twice", shown, item);
    *seen |= names;
    return 0;
}

UM_LINKONCE UM_COLD int um_gaps_forced(struct um_gaps *gaps)
{
    const char *text = getenv("UMBRA_WAIT");
    const char *item = text && *text ? text : NULL;
    uint32_t seen = 0;
    int error = 0;

    memset(gaps->of, UM_GAPS, sizeof(gaps->of));
    while (item && error == 0) {
        size_t length = strcspn(item, ",");

        if (length == 0)
            error = um_why(-EINVAL, "UMBRA_WAIT=%.60s: nothing between commas", text);
        else if (item != text || memchr(item, '=', length)) /* else it is the back end */
            error = um_gaps_read(gaps, &seen, item, length);
        item = item[length] ? item + length + 1 : NULL;
    }
    return error;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
