/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a row needs whose two sides run at the same time, each on one of two processors: as the threads
 * of a team, or as fibers, each on a core (in_fiber.h). C.
 */
#ifndef UMBRA_BENCH_TWO_SIDES_H
#define UMBRA_BENCH_TWO_SIDES_H

#include <stdbool.h>
#include <stdio.h>

#include <umbra/core.h>
#include <umbra/team.h>

#include "harness.h"
#include "in_fiber.h"

/* What a side does in a batch. side: 0 or 1. */
typedef void two_sides_fn(void *arg, unsigned side);

struct two_sides {
    struct umbra_team *team;       /* of rows of threads; else NULL */
    struct umbra_runtime *runtime; /* of rows of fibers */
    two_sides_fn *fn;
    void *arg;
};

/* A team on the row's two processors. 0 or a negative errno. */
static inline int two_sides_team(const struct bench_row *row, struct umbra_team **team)
{
    char cpus[32];
    struct umbra_team_options options = {.cpus = cpus, .topology = bench_topology(row->bench)};

    snprintf(cpus, sizeof cpus, "%d,%d", row->cpus[0], row->cpus[1]);
    return umbra_team_create(&options, team);
}

/* For start: 0 or a negative errno. */
static inline int two_sides_start(struct two_sides *sides, const struct bench_row *row, bool fibers)
{
    *sides = (struct two_sides){.team = NULL};
    return fibers ? in_fiber_cores(row->bench, 2, &sides->runtime)
                  : two_sides_team(row, &sides->team);
}

static inline void two_sides_member(unsigned member, unsigned members, void *arg)
{
    const struct two_sides *sides = arg;

    (void)members;
    sides->fn(sides->arg, member);
}

static inline void *two_sides_second(void *arg)
{
    const struct two_sides *sides = arg;

    sides->fn(sides->arg, 1);
    return NULL;
}

static inline void *two_sides_first(void *arg)
{
    const struct two_sides *sides = arg;
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 1};
    struct umbra_fiber second;

    if (umbra_spawn_with(NULL, &there, two_sides_second, arg, &second) == 0) {
        sides->fn(sides->arg, 0);
        umbra_join(second, UMBRA_NEVER, NULL);
    }
    return NULL;
}

/* For run: fn(arg, 0) and fn(arg, 1) at the same time. 0 or a negative errno. */
static inline int two_sides_run(struct two_sides *sides, two_sides_fn *fn, void *arg)
{
    sides->fn = fn;
    sides->arg = arg;
    return sides->team ? umbra_team_run(sides->team, 0, two_sides_member, sides)
                       : in_fiber(sides->runtime, two_sides_first, sides);
}

/* For stop. */
static inline void two_sides_stop(struct two_sides *sides)
{
    if (sides->team)
        umbra_team_destroy(sides->team);
    else
        umbra_runtime_destroy(sides->runtime);
}

#endif
