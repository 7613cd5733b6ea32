/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Regions: one function, executed by all members of a team. A region of several members is a run of
 * the pool's umbra_team, whose parts end with the barrier of barrier.c. A region of one member is a
 * call.
 */
#include <stdlib.h>

#include "api.h"
#include "library.h"

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Counts the members of a region beside the caller, as many as the limit allows. */
static unsigned reserve(um_atomic_u32 *busy, unsigned members, int limit)
{
    uint32_t are = um_atomic_load(busy, relaxed); /* relaxed, all: only the number counts */
    unsigned most;

    do {
        most = are < (uint32_t)limit ? (uint32_t)limit - are + 1 : 1;
        members = least(members, most);
    } while (!um_atomic_cas(busy, &are, are + members - 1, relaxed, relaxed));
    return members;
}

unsigned um_omp_region_size(const struct um_omp_member *self, unsigned asked)
{
    const struct um_omp_icv *icv = &self->task->icv;
    unsigned members = asked > 0 ? asked : (unsigned)icv->threads;

    if (members == 1 || self->team->active >= icv->levels)
        return 1;
    if (icv->dynamic)
        members = least(members, (unsigned)um_omp_settings.processors);
    members = least(members, UMBRA_TEAM_MOST);
    return icv->limit == UM_OMP_NO_LIMIT ? members : reserve(self->team->busy, members, icv->limit);
}

void um_omp_region_prepare(struct um_omp_member *self, struct um_omp_team *team)
{
    const struct um_omp_settings *set = &um_omp_settings;

    team->icv = self->task->icv;
    if (UM_UNLIKELY(set->thread_levels > 1) && team->level < set->thread_levels)
        team->icv.threads = set->threads[team->level];
    /* relaxed: published with the region */
    if (um_atomic_load(&team->tasked, relaxed)) {
        um_atomic_store(&team->tasked, 0, relaxed);
        if (UM_UNLIKELY(um_atomic_load(&team->cancelled, relaxed) != 0)) {
            um_atomic_store(&team->cancelled, 0, relaxed);
            um_omp_shares_reset(team);
        }
    }
    team->member[0].implicit.icv = team->icv;
}

static void execute(struct um_omp_member *self, um_omp_fn *fn, void *data)
{
    const void *place = UM_OMP_PLACE(um_omp_fn_of(fn, data));

    um_omp_see(UM_OMP_SEE_REGION, place);
    um_omp_here = self;
    fn(data);
    self->at = place;
    if (um_omp_barrier(self) != 0)
        um_omp_barrier_settle(self);
    um_omp_seen(UM_OMP_SEE_REGION);
}

/* A member's part of a region. */
static void part(unsigned number, unsigned members, void *arg)
{
    struct um_omp_team *team = arg;
    struct um_omp_member *member = &team->member[number];

    (void)members;
    member->implicit.icv = team->icv;
    execute(member, team->fn, team->data);
}

/* The same; first shows where the member is. */
static void part_shown(unsigned number, unsigned members, void *arg)
{
    struct um_omp_team *team = arg;

    um_omp_here = &team->member[number];
    omp_display_affinity(NULL);
    part(number, members, arg);
}

/* A member's part. With OMP_DISPLAY_AFFINITY the first region of a pool shows its members, and so
 * does each that has another number of them than the last. */
static umbra_team_fn *part_of(struct um_omp_pool *pool, unsigned members)
{
    if (UM_LIKELY(!um_omp_settings.display_affinity) || pool->shown == members)
        return part;
    pool->shown = members;
    return part_shown;
}

void um_omp_region_run(struct um_omp_member *self, struct um_omp_team *team, um_omp_fn *fn,
                       void *data)
{
    team->fn = fn;
    team->data = data;
    if (team->members == 1) {
        execute(&team->member[0], fn, data); /* its barrier is for detached tasks */
    } else {
        um_omp_pool_run(self, team->members, part_of(self->pool, team->members), team);
        if (UM_UNLIKELY(team->icv.limit != UM_OMP_NO_LIMIT))
            um_atomic_fetch_add(team->busy, 1 - team->members, relaxed); /* as in reserve() */
    }
    um_omp_here = self;
}

void um_omp_region_enter(struct um_omp_member *self, struct um_omp_team *team)
{
    um_omp_region_prepare(self, team);
    team->fn = NULL; /* the program's own function goes on */
    um_omp_here = &team->member[0];
}

void um_omp_region_leave(struct um_omp_member *self)
{
    struct um_omp_team *team = self->team;

    um_omp_loop_settle(team);
    if (team->outer)
        um_omp_here = &team->outer->member[team->outer_number];
}

UM_OMP_ABI void GOMP_parallel(um_omp_fn *fn, void *data, unsigned threads, unsigned flags)
{
    struct um_omp_member *self = um_omp_self();
    struct um_omp_team *team = um_omp_team_find(self, um_omp_region_size(self, threads));

    (void)flags;
    um_omp_region_prepare(self, team);
    um_omp_region_run(self, team, fn, data);
}

/* A region with reductions of tasks: each member is in a taskgroup. Returns how many members it
 * had, since the program combines their copies. */
UM_OMP_ABI unsigned GOMP_parallel_reductions(um_omp_fn *fn, void *data, unsigned threads,
                                             unsigned flags)
{
    struct um_omp_member *self = um_omp_self();
    unsigned members = um_omp_region_size(self, threads);
    struct um_omp_team *team = um_omp_team_find(self, members);
    struct um_omp_group *groups = um_omp_memory(members * sizeof(*groups));
    uintptr_t *reductions = *(uintptr_t **)data;

    (void)flags;
    um_omp_reduce_region(reductions, members);
    um_omp_region_prepare(self, team);
    for (unsigned i = 0; i < members; i++) {
        groups[i].reductions = reductions;
        groups[i].member = &team->member[i];
        groups[i].task = &team->member[i].implicit;
        team->member[i].implicit.group = &groups[i];
    }
    um_omp_region_run(self, team, fn, data);
    for (unsigned i = 0; i < members; i++)
        team->member[i].implicit.group = NULL;
    free(groups);
    return members;
}

/* Before gcc 4.9 the program called the region's function between these: regions of one member. */
UM_OMP_ABI void GOMP_parallel_start(um_omp_fn *fn, void *data, unsigned threads)
{
    struct um_omp_member *self = um_omp_self();

    (void)fn;
    (void)data;
    (void)threads;
    um_omp_region_enter(self, um_omp_team_find(self, 1));
}

UM_OMP_ABI void GOMP_parallel_end(void)
{
    um_omp_region_leave(um_omp_self());
}
