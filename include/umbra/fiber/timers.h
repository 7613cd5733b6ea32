/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A core's timers: a heap in which each has up to four below it, none earlier than itself. Private;
 * only the core's own thread calls this. Nothing here switches, blocks or fails.
 *
 * What is compared and moved lies in an array of the core, not in the fibers, of which each has a page
 * of its own. A timer that is set has a number, under which the array says where in the heap it is:
 * it is taken out at once when its wait ends early. A full array doubles; as long as there is no
 * memory for that, further timers are in a list, all of which is searched each time.
 */
#ifndef UMBRA_FIBER_TIMERS_H
#define UMBRA_FIBER_TIMERS_H

#include <stdlib.h>

#include <umbra/base/base.h>
#include <umbra/cpu.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_timer {
    uint64_t deadline;     /* time stamp of um_cycles() */
    struct um_timer *next; /* in the list */
    uint32_t number;       /* one more than it; 0: not set; UM_TIMER_LISTED: in the list */
    bool brief;            /* of a sleep that is too short for one in the kernel */
};

#define UM_TIMER_LISTED UINT32_MAX

/* A place of the heap; and of the timer that has the index of this place as its number: */
struct um_timer_place {
    uint64_t deadline; /* of the timer that is here */
    uint32_t number;   /* its number; behind the heap, a free one */
    uint32_t at;       /* the place of the timer with this number */
    struct um_timer *timer;
};

struct um_timers {
    struct um_timer_place *heap;
    uint32_t room;
    uint32_t count; /* in the heap */
    uint32_t set;   /* with the list */
    uint32_t brief; /* how many of those set are */
    struct um_timer *listed;
};

#ifdef UMBRA_IMPLEMENTATION

#define UM_TIMERS_FIRST 64

/* Makes room. False: there is no memory. */
UM_LINKONCE UM_COLD bool um_timers_grow(struct um_timers *timers)
{
    uint32_t room = timers->room == 0 ? UM_TIMERS_FIRST : 2 * timers->room;
    struct um_timer_place *heap;

    if (room < timers->room) /* 32 bits are used up */
        return false;
    heap = realloc(timers->heap, room * sizeof(*heap));
    if (!heap)
        return false;
    timers->heap = heap;
    for (; timers->room < room; timers->room++)
        heap[timers->room].number = timers->room;
    return true;
}

UM_INLINE void um_timers_put(struct um_timers *timers, uint32_t at, uint64_t deadline,
                             uint32_t number)
{
    timers->heap[at].deadline = deadline;
    timers->heap[at].number = number;
    timers->heap[number].at = at;
}

/* The earliest below a place; if there is none, a place behind the heap. */
UM_INLINE uint32_t um_timers_below(const struct um_timers *timers, uint32_t at)
{
    uint32_t earliest = 4 * at + 1;

    for (uint32_t i = earliest + 1; i <= 4 * at + 4 && i < timers->count; i++)
        if (timers->heap[i].deadline < timers->heap[earliest].deadline)
            earliest = i;
    return earliest;
}

/* Puts a timer into a free place, or above or below it, where others make way. */
UM_LINKONCE void um_timers_settle(struct um_timers *timers, uint32_t at, uint64_t deadline,
                                  uint32_t number)
{
    struct um_timer_place *heap = timers->heap;
    uint32_t next;

    for (; at > 0 && heap[next = (at - 1) / 4].deadline > deadline; at = next)
        um_timers_put(timers, at, heap[next].deadline, heap[next].number);
    for (; (next = um_timers_below(timers, at)) < timers->count && heap[next].deadline < deadline;
         at = next)
        um_timers_put(timers, at, heap[next].deadline, heap[next].number);
    um_timers_put(timers, at, deadline, number);
}

/* Sets a timer, which is not set and has its deadline. */
UM_INLINE void um_timers_add(struct um_timers *timers, struct um_timer *timer)
{
    uint32_t number;

    timers->set++;
    timers->brief += timer->brief;
    if (UM_UNLIKELY(timers->count == timers->room) && !um_timers_grow(timers)) {
        timer->number = UM_TIMER_LISTED;
        timer->next = timers->listed;
        timers->listed = timer;
        return;
    }
    number = timers->heap[timers->count].number;
    timers->heap[number].timer = timer;
    timer->number = number + 1;
    um_timers_settle(timers, timers->count++, timer->deadline, number);
}

/* Takes out a timer, which must be set. */
UM_LINKONCE void um_timers_remove(struct um_timers *timers, struct um_timer *timer)
{
    struct um_timer **link = &timers->listed;
    uint32_t number = timer->number - 1;
    struct um_timer_place last;
    uint32_t at;

    timers->set--;
    timers->brief -= timer->brief;
    timer->brief = false;
    timer->number = 0;
    if (UM_UNLIKELY(number == UM_TIMER_LISTED - 1)) {
        while (*link != timer)
            link = &(*link)->next;
        *link = timer->next;
        return;
    }
    at = timers->heap[number].at;
    last = timers->heap[--timers->count];
    timers->heap[timers->count].number = number;
    if (at < timers->count)
        um_timers_settle(timers, at, last.deadline, last.number);
}

/* The earliest deadline; UMBRA_NEVER: none is set. */
UM_INLINE uint64_t um_timers_next(const struct um_timers *timers)
{
    uint64_t next = timers->count > 0 ? timers->heap[0].deadline : UMBRA_NEVER;

    for (const struct um_timer *timer = timers->listed; UM_UNLIKELY(timer != NULL);
         timer = timer->next)
        if (timer->deadline < next)
            next = timer->deadline;
    return next;
}

/* Takes out a timer with a deadline that is not after `now`, the earliest of the heap; NULL: there is
 * none. */
UM_LINKONCE struct um_timer *um_timers_take(struct um_timers *timers, uint64_t now)
{
    struct um_timer *timer = timers->listed;

    while (UM_UNLIKELY(timer != NULL) && timer->deadline > now)
        timer = timer->next;
    if (!timer && timers->count > 0 && timers->heap[0].deadline <= now)
        timer = timers->heap[timers->heap[0].number].timer;
    if (timer)
        um_timers_remove(timers, timer);
    if (timers->count > 0) /* the next may be due, too */
        um_arch_prefetch_write(timers->heap[timers->heap[0].number].timer);
    return timer;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
