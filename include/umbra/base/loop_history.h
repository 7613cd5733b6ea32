/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Learns for one kind of short loop whether it is faster on several cores or whole on one, while
 * the program runs it. Private.
 *
 *     way = um_site_next(site);                  the way for the next loop
 *     begun = um_site_timed(site) ? now : 0;
 *     run(way);
 *     if (begun)
 *         um_site_hear(site, now - begun, most); both scaled to a fixed number of indices
 *
 * From time to time there is a trial: UM_SITE_WARM loops on several cores, which are not timed,
 * since the other cores may have slept; UM_SITE_TIMES more, timed; and as many whole, timed. The
 * way with the lower median is taken until the next trial. A loop that is not short is not run
 * whole: it would keep idle cores waiting. One whole loop in UM_SITE_LOOK is timed, too. If two in
 * a row were long, the next ones run on several cores; one alone may be an interruption. A trial
 * that chooses the same way as the trial before doubles the distance to the next one, so that a
 * loop for which other cores are of no use hardly pays for them.
 *
 * One thread uses a site. All zero knows nothing yet: the first trial begins with the next loop.
 */
#ifndef UMBRA_BASE_LOOP_HISTORY_H
#define UMBRA_BASE_LOOP_HISTORY_H

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_SITES 16      /* of a core; a power of two */
#define UM_SITE_WARM 24  /* loops of some 100 ns to some us: the other core is woken meanwhile */
#define UM_SITE_TIMES 7  /* so that two interruptions do not count */
#define UM_SITE_NEAR 64  /* loops between the first trial and the next */
#define UM_SITE_FAR 8192 /* and at most: a trial is less than 1 % of the loops then */
#define UM_SITE_LOOK 16  /* whole loops, of which one is timed */

struct um_site {
    uintptr_t key;                   /* of the kind; 0: none */
    uint32_t left;                   /* loops until the next trial, or of this one */
    uint32_t apart;                  /* loops from the last trial to the next */
    bool trial;                      /* there is one now */
    bool whole;                      /* the faster way, so far */
    bool was_long;                   /* the last whole loop that was timed between trials */
    uint64_t seen[2][UM_SITE_TIMES]; /* times of a trial: on several cores; whole */
};

/* The site of a kind, in a table of UM_SITES. If another kind had its place, nothing is known yet. */
UM_INLINE struct um_site *um_site_of(struct um_site *sites, uintptr_t key)
{
    struct um_site *site = &sites[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 60];

    if (UM_UNLIKELY(site->key != key))
        *site = (struct um_site){.key = key, .apart = UM_SITE_NEAR};
    return site;
}

UM_STATIC_ASSERT(UM_SITES == 1 << 4, "um_site_of() takes four bits");

/* True if the next loop is to be run whole. */
UM_INLINE bool um_site_next(struct um_site *site)
{
    if (UM_UNLIKELY(site->left == 0)) {
        site->trial = true;
        site->left = UM_SITE_WARM + 2 * UM_SITE_TIMES;
    }
    site->left--;
    return site->trial ? site->left < UM_SITE_TIMES : site->whole;
}

/* True if the loop that um_site_next() has just told the way of is to be timed. */
UM_INLINE bool um_site_timed(const struct um_site *site)
{
    return site->trial ? site->left < 2 * UM_SITE_TIMES
                       : site->whole && site->left % UM_SITE_LOOK == 0;
}

/* Records the time of a loop, of a trial or whole; after the last one of a trial chooses. most: a loop
 * that takes longer is not run whole, since idle cores would wait. */
UM_LINKONCE UM_COLD void um_site_hear(struct um_site *site, uint64_t took, uint64_t most);

#ifdef UMBRA_IMPLEMENTATION

/* Median of the times, which it sorts. */
UM_LINKONCE UM_COLD uint64_t um_site_median(uint64_t *of)
{
    for (int i = 1; i < UM_SITE_TIMES; i++)
        for (int j = i; j > 0 && of[j - 1] > of[j]; j--) {
            uint64_t less = of[j];

            of[j] = of[j - 1];
            of[j - 1] = less;
        }
    return of[UM_SITE_TIMES / 2];
}

/* Ends a trial. */
UM_LINKONCE UM_COLD void um_site_choose(struct um_site *site, bool whole)
{
    if (whole != site->whole)
        site->apart = UM_SITE_NEAR;
    else if (site->apart < UM_SITE_FAR)
        site->apart *= 2;
    site->whole = whole;
    site->was_long = false;
    site->left = site->apart;
    site->trial = false;
}

UM_LINKONCE UM_COLD void um_site_hear(struct um_site *site, uint64_t took, uint64_t most)
{
    if (!site->trial) {
        if (site->was_long && took > most)
            um_site_choose(site, false);
        else
            site->was_long = took > most;
        return;
    }
    site->seen[site->left < UM_SITE_TIMES][site->left % UM_SITE_TIMES] = took;
    if (site->left == UM_SITE_TIMES && um_site_median(site->seen[0]) > most)
        um_site_choose(site, false);
    else if (site->left == 0)
        um_site_choose(site, um_site_median(site->seen[1]) <= um_site_median(site->seen[0]) &&
                                 um_site_median(site->seen[1]) <= most);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
