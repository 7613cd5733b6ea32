/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Learns for one kind of short loop whether it is faster on several cores or whole on one, while
 * the program runs it. Private.
 *
 *     way = um_history_next(history);                  the way for the next loop
 *     begun = um_history_timed(history) ? now : 0;
 *     run(way);
 *     if (begun)
 *         um_history_hear(history, now - begun, most); both scaled to a fixed number of indices
 *
 * From time to time there is a trial: UM_HISTORY_WARM loops on several cores, which are not timed,
 * since the other cores may have slept; UM_HISTORY_TIMES more, timed; and as many whole, timed. The
 * way with the lower median is taken until the next trial. A loop that is not short is not run
 * whole: it would keep idle cores waiting. One whole loop in UM_HISTORY_LOOK is timed, too. If two
 * in a row were long, the next ones run on several cores; one alone may be an interruption. A trial
 * that chooses the same way as the trial before doubles the distance to the next one, so that a
 * loop for which other cores are of no use hardly pays for them.
 *
 * One thread uses a history. All zero knows nothing yet: the first trial begins with the next loop.
 */
#ifndef UMBRA_BASE_LOOP_HISTORY_H
#define UMBRA_BASE_LOOP_HISTORY_H

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_HISTORIES 16     /* of a core; a power of two */
#define UM_HISTORY_WARM 24  /* loops of some 100 ns to some us: the other core is woken meanwhile */
#define UM_HISTORY_TIMES 7  /* so that two interruptions do not count */
#define UM_HISTORY_NEAR 64  /* loops between the first trial and the next */
#define UM_HISTORY_FAR 8192 /* and at most: a trial is less than 1 % of the loops then */
#define UM_HISTORY_LOOK 16  /* whole loops, of which one is timed */

struct um_history {
    uintptr_t key;                      /* of the kind; 0: none */
    uint32_t left;                      /* loops until the next trial, or of this one */
    uint32_t interval;                  /* loops from the last trial to the next */
    bool trial;                         /* there is one now */
    bool whole;                         /* the faster way, so far */
    bool was_long;                      /* the last whole loop that was timed between trials */
    uint64_t seen[2][UM_HISTORY_TIMES]; /* times of a trial: on several cores; whole */
};

/* The history of a kind, in a table of UM_HISTORIES. If another kind had its place, nothing is
 * known yet. */
UM_INLINE struct um_history *um_history_of(struct um_history *histories, uintptr_t key)
{
    struct um_history *history = &histories[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 60];

    if (UM_UNLIKELY(history->key != key))
        *history = (struct um_history){.key = key, .interval = UM_HISTORY_NEAR};
    return history;
}

UM_STATIC_ASSERT(UM_HISTORIES == 1 << 4, "um_history_of() takes four bits");

/* True if the next loop is to be run whole. */
UM_INLINE bool um_history_next(struct um_history *history)
{
    if (UM_UNLIKELY(history->left == 0)) {
        history->trial = true;
        history->left = UM_HISTORY_WARM + 2 * UM_HISTORY_TIMES;
    }
    history->left--;
    return history->trial ? history->left < UM_HISTORY_TIMES : history->whole;
}

/* True if the loop that um_history_next() has just told the way of is to be timed. */
UM_INLINE bool um_history_timed(const struct um_history *history)
{
    return history->trial ? history->left < 2 * UM_HISTORY_TIMES
                          : history->whole && history->left % UM_HISTORY_LOOK == 0;
}

/* Records the time of a loop, of a trial or whole; after the last one of a trial chooses. most: a loop
 * that takes longer is not run whole, since idle cores would wait. */
UM_LINKONCE UM_COLD void um_history_hear(struct um_history *history, uint64_t took, uint64_t most);

#ifdef UMBRA_IMPLEMENTATION

/* Median of the times, which it sorts. */
UM_LINKONCE UM_COLD uint64_t um_history_median(uint64_t *of)
{
    for (int i = 1; i < UM_HISTORY_TIMES; i++)
        for (int j = i; j > 0 && of[j - 1] > of[j]; j--) {
            uint64_t less = of[j];

            of[j] = of[j - 1];
            of[j - 1] = less;
        }
    return of[UM_HISTORY_TIMES / 2];
}

/* Ends a trial. */
UM_LINKONCE UM_COLD void um_history_choose(struct um_history *history, bool whole)
{
    if (whole != history->whole)
        history->interval = UM_HISTORY_NEAR;
    else if (history->interval < UM_HISTORY_FAR)
        history->interval *= 2;
    history->whole = whole;
    history->was_long = false;
    history->left = history->interval;
    history->trial = false;
}

UM_LINKONCE UM_COLD void um_history_hear(struct um_history *history, uint64_t took, uint64_t most)
{
    if (!history->trial) {
        if (history->was_long && took > most)
            um_history_choose(history, false);
        else
            history->was_long = took > most;
        return;
    }
    history->seen[history->left < UM_HISTORY_TIMES][history->left % UM_HISTORY_TIMES] = took;
    if (history->left == UM_HISTORY_TIMES && um_history_median(history->seen[0]) > most)
        um_history_choose(history, false);
    else if (history->left == 0)
        um_history_choose(history, um_history_median(history->seen[1]) <=
                                           um_history_median(history->seen[0]) &&
                                       um_history_median(history->seen[1]) <= most);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
