/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Which of two ways to do the same kind of work is faster, learned while it is done. Private.
 *
 *     way = um_pick_next(&judge);        the better one; or, once in a while, the other
 *     work(way);
 *     um_pick_hear(&judge, way, pace);   how long that took
 *
 * Paces are times for an equal amount of work, in units so small that they are hundreds at least.
 * They are averaged, the last eight counting most, and none for more than twice the average: one
 * interruption does not overturn a verdict, five in a row may. The first way is left as soon as it is
 * slower on average, and taken again when it is faster by a tenth, so that noise does not make the
 * verdict swing. That costs one piece of work in 61 at the pace of the worse way, and is late by a
 * few hundred pieces when the better one becomes the worse one and turns back. A prime, so that a
 * caller whose work itself has a rhythm does not try one way with one sort of work only.
 *
 * Nothing in it is shared: one thread at a time. All zero is a judge that knows nothing yet.
 */
#ifndef UMBRA_IMPL_PICK_H
#define UMBRA_IMPL_PICK_H

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_PICK_EVERY 61  /* the worse way has its turn after so many pieces; at first sooner */
#define UM_PICK_WEIGHT 8  /* one over the weight of the newest pace */
#define UM_PICK_ENOUGH 3u /* paces of each way before there is a verdict */

enum um_pick_way { UM_PICK_FIRST, UM_PICK_SECOND };

struct um_pick {
    uint64_t pace[2];  /* average of each way */
    uint32_t heard[2]; /* how many paces; counted up to UM_PICK_WEIGHT */
    uint32_t asked;    /* how many pieces of work so far */
    bool second;       /* the verdict: the second way is the better one */
};

/* Whether piece i is for the worse way: 1, 2, 4, ... at first, then one in UM_PICK_EVERY. */
UM_INLINE bool um_pick_tries(uint32_t i)
{
    return i < UM_PICK_EVERY ? i > 0 && (i & (i - 1)) == 0 : i % UM_PICK_EVERY == 0;
}

/* The way for the next piece of work. */
UM_INLINE enum um_pick_way um_pick_next(struct um_pick *judge)
{
    return judge->second != um_pick_tries(judge->asked++) ? UM_PICK_SECOND : UM_PICK_FIRST;
}

UM_INLINE void um_pick_average(struct um_pick *judge, enum um_pick_way way, uint64_t pace)
{
    uint64_t average = judge->pace[way];

    if (judge->heard[way] > 0 && pace > 2 * average)
        pace = 2 * average;
    if (judge->heard[way] < UM_PICK_WEIGHT)
        judge->heard[way]++;
    judge->pace[way] = average - average / judge->heard[way] + pace / judge->heard[way];
}

/* What a piece of work that was done this way took; below 2^60. */
UM_INLINE void um_pick_hear(struct um_pick *judge, enum um_pick_way way, uint64_t pace)
{
    uint64_t first, second;

    um_pick_average(judge, way, pace);
    first = judge->pace[UM_PICK_FIRST];
    second = judge->pace[UM_PICK_SECOND];
    if (judge->heard[UM_PICK_FIRST] < UM_PICK_ENOUGH ||
        judge->heard[UM_PICK_SECOND] < UM_PICK_ENOUGH)
        return;
    judge->second = judge->second ? first >= second - second / 10 : first > second;
}

#endif
