/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The times of the same calls on a library's own threads and on a team, which take turns. A turn
 * begins with a pause, in which the threads of the turn before fall asleep, and with calls that are
 * not counted, which wake those of this one.
 */
#ifndef EXAMPLES_BESIDE_H
#define EXAMPLES_BESIDE_H

#include "../program.h"

#include <time.h>

#include <umbra/cpu.h>

#define TURNS 5
#define PAUSE_NS 100000000
#define WAKE_NS 20000000
#define TURN_NS 30000000
#define CALLS 16 /* from one look at the clock to the next */

struct side {
    void (*enter)(void *arg); /* the next calls are this side's; NULL: nothing is to be done */
    void (*call)(void *arg);
    void *arg;
};

/* Calls for so long. Returns the time of a call, in nanoseconds. */
static inline double calls(const struct side *side, uint64_t ns)
{
    uint64_t begin = umbra_now_ns(), now = begin, count = 0;

    for (; now < begin + ns; now = umbra_now_ns(), count += CALLS)
        for (int i = 0; i < CALLS; i++)
            side->call(side->arg);
    return (double)(now - begin) / (double)count;
}

static inline double turn(const struct side *side)
{
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    if (side->enter)
        side->enter(side->arg);
    calls(side, WAKE_NS);
    return calls(side, TURN_NS);
}

/* Prints the medians of both sides' turns, and their ratio. */
static inline void beside(const char *what, const struct side *own, const struct side *team)
{
    double own_ns[TURNS], team_ns[TURNS], own_median, team_median;

    for (int i = 0; i < TURNS; i++) {
        own_ns[i] = turn(own);
        team_ns[i] = turn(team);
    }
    own_median = median(own_ns, TURNS);
    team_median = median(team_ns, TURNS);
    printf("%-24s its own threads %10.0f ns, Umbra's %10.0f ns: %.2f times as long\n", what,
           own_median, team_median, team_median / own_median);
}

#endif
