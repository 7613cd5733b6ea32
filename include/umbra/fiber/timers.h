/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A core's timers: a pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986), earliest deadline
 * first. Private; only the core's own thread calls this. Nothing here switches, blocks or fails.
 *
 * The links are in the timer of each fiber, so nothing is allocated, and a timer is taken out at
 * once when its wait ends early. To add a timer or to look at the earliest takes a constant number
 * of steps; to take one out takes a logarithmic number, on average over the calls.
 */
#ifndef UMBRA_FIBER_TIMERS_H
#define UMBRA_FIBER_TIMERS_H

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_timer {
    uint64_t deadline;        /* time stamp of um_cycles() */
    struct um_timer *child;   /* first of those below, of which none is earlier than this */
    struct um_timer *sibling; /* the next below the same parent */
    struct um_timer *before;  /* previous sibling, or parent; NULL: the top, or in no heap */
};

struct um_timers {
    struct um_timer *top; /* the earliest; NULL: none */
};

/* Makes one heap of two; either may be NULL. Returns its top. */
UM_INLINE struct um_timer *um_timers_meld(struct um_timer *a, struct um_timer *b)
{
    struct um_timer *earlier = !b || (a && a->deadline <= b->deadline) ? a : b;
    struct um_timer *later = earlier == a ? b : a;

    if (!later)
        return earlier;
    later->sibling = earlier->child;
    if (later->sibling)
        later->sibling->before = later;
    later->before = earlier;
    earlier->child = later;
    return earlier;
}

/* Adds a timer that is in no heap and has its deadline set. */
UM_INLINE void um_timers_add(struct um_timers *timers, struct um_timer *timer)
{
    timer->child = timer->sibling = timer->before = NULL;
    timers->top = um_timers_meld(timers->top, timer);
}

/* True if the timer is in this heap; it is in no other. */
UM_INLINE bool um_timers_has(const struct um_timers *timers, const struct um_timer *timer)
{
    return timer->before != NULL || timers->top == timer;
}

UM_LINKONCE void um_timers_remove(struct um_timers *timers, struct um_timer *timer);

#ifdef UMBRA_IMPLEMENTATION

/* Makes one heap of a list of siblings: in pairs from the front, then the pairs from the back. */
UM_LINKONCE struct um_timer *um_timers_combine(struct um_timer *first)
{
    struct um_timer *pairs = NULL;
    struct um_timer *all = NULL;

    while (first) {
        struct um_timer *second = first->sibling;
        struct um_timer *rest = second ? second->sibling : NULL;
        struct um_timer *pair;

        first->sibling = first->before = NULL;
        if (second)
            second->sibling = second->before = NULL;
        pair = um_timers_meld(first, second);
        pair->sibling = pairs;
        pairs = pair;
        first = rest;
    }
    while (pairs) {
        struct um_timer *next = pairs->sibling;

        pairs->sibling = NULL;
        all = um_timers_meld(all, pairs);
        pairs = next;
    }
    return all;
}

/* Takes out a timer, which must be in this heap. */
UM_LINKONCE void um_timers_remove(struct um_timers *timers, struct um_timer *timer)
{
    struct um_timer *below = um_timers_combine(timer->child);

    if (timers->top == timer) {
        timers->top = below;
    } else {
        if (timer->before->child == timer)
            timer->before->child = timer->sibling;
        else
            timer->before->sibling = timer->sibling;
        if (timer->sibling)
            timer->sibling->before = timer->before;
        timers->top = um_timers_meld(timers->top, below);
    }
    timer->child = timer->sibling = timer->before = NULL;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
