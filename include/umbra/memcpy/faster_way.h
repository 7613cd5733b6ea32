/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Learns which of two ways to do the same kind of work is faster, while the work is done. Private.
 *
 *     way = um_faster_next(&pick);        the faster way; once in a while, the other way
 *     work(way);
 *     um_faster_hear(&pick, way, pace);   how long that took
 *
 * A pace is the time for a fixed amount of work, in units so small that it is a hundred or more.
 * Paces are averaged: the last eight count most, and none counts for more than twice the average.
 * So one interruption does not change the choice; five in a row may. The first way is left as soon
 * as it is slower on average, and taken again when it is faster by a tenth, so that noise does not
 * make the choice swing. The price: one piece of work in 61 is done the slower way, and when the
 * faster way becomes the slower one, the choice follows some hundred pieces later. 61 is a prime:
 * if the caller's work has a period, each way is still tried with all sorts of its work.
 *
 * One thread at a time uses a struct um_faster. All zero knows nothing yet.
 */
#ifndef UMBRA_MEMCPY_FASTER_WAY_H
#define UMBRA_MEMCPY_FASTER_WAY_H

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_FASTER_EVERY 61 /* the slower way is tried once in so many pieces; at first more often */
#define UM_FASTER_WEIGHT 8 /* one over the weight of the newest pace */
#define UM_FASTER_ENOUGH 3u /* paces of each way before the choice may change */

enum um_faster_way { UM_FASTER_FIRST, UM_FASTER_SECOND };

struct um_faster {
    uint64_t pace[2];  /* average of each way */
    uint32_t heard[2]; /* how many paces; counted up to UM_FASTER_WEIGHT */
    uint32_t asked;    /* how many pieces of work so far */
    bool second;       /* the choice: the second way is the faster one */
};

/* True if piece i is for the slower way: 1, 2, 4, ... at first, then one in UM_FASTER_EVERY. */
UM_INLINE bool um_faster_tries(uint32_t i)
{
    return i < UM_FASTER_EVERY ? i > 0 && (i & (i - 1)) == 0 : i % UM_FASTER_EVERY == 0;
}

/* The way for the next piece of work. */
UM_INLINE enum um_faster_way um_faster_next(struct um_faster *choice)
{
    return choice->second != um_faster_tries(choice->asked++) ? UM_FASTER_SECOND : UM_FASTER_FIRST;
}

UM_INLINE void um_faster_average(struct um_faster *choice, enum um_faster_way way, uint64_t pace)
{
    uint64_t average = choice->pace[way];

    if (choice->heard[way] > 0 && pace > 2 * average)
        pace = 2 * average;
    if (choice->heard[way] < UM_FASTER_WEIGHT)
        choice->heard[way]++;
    choice->pace[way] = average - average / choice->heard[way] + pace / choice->heard[way];
}

/* Records the pace of a piece of work that was done this way; below 2^60. */
UM_INLINE void um_faster_hear(struct um_faster *choice, enum um_faster_way way, uint64_t pace)
{
    uint64_t first, second;

    um_faster_average(choice, way, pace);
    first = choice->pace[UM_FASTER_FIRST];
    second = choice->pace[UM_FASTER_SECOND];
    if (choice->heard[UM_FASTER_FIRST] < UM_FASTER_ENOUGH ||
        choice->heard[UM_FASTER_SECOND] < UM_FASTER_ENOUGH)
        return;
    choice->second = choice->second ? first >= second - second / 10 : first > second;
}

#endif
