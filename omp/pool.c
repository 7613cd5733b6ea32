/* SPDX-License-Identifier: BSL-1.0 */
/* Members, teams and pools: how they are made, and freed when their thread ends. state.h */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/os/run_once.h>

#include "count.h"

UM_OMP_THREAD struct um_omp_member *um_omp_here;

#define MEASURE_NS 100000000 /* the age at which a pool measures: some 50 times what that takes */

static struct um_run_once once;
static pthread_key_t root_key;          /* the root of a thread, freed when it ends */
static struct umbra_wait_policy policy; /* of members that sleep */
static char why[512];                   /* no member can be made; else empty */

um_atomic_u64 um_omp_poll_cycles;

/* ---- teams ---- */

static void member_init(struct um_omp_team *team, unsigned number)
{
    struct um_omp_member *member = &team->member[number];

    member->team = team;
    member->number = number;
    member->task = &member->implicit;
    member->implicit.member = member;
    member->implicit.kind = um_omp_settings.cancel ? UM_OMP_CANCELLABLE : 0;
    um_atomic_store(&member->implicit.count, UM_OMP_HOLD, relaxed); /* no other thread has it */
    um_waiter_init(&member->waiter, &policy);
    um_tasks_init(&member->tasks, false);
}

static struct um_omp_team *team_make(unsigned members)
{
    struct um_omp_team *team = um_omp_memory(sizeof(*team));
    size_t rounds = 1;

    for (unsigned ahead = 2; ahead < members; ahead *= 2)
        rounds++;
    team->members = members;
    team->crowded = (int)members > um_omp_settings.processors;
    team->member = um_omp_memory(members * sizeof(*team->member));
    team->flag = um_omp_memory(UMBRA_CACHE_LINE * rounds * members);
    for (unsigned i = 0; i < members; i++)
        member_init(team, i);
    for (unsigned i = 0; i < UM_OMP_SHARES; i++) /* relaxed: no other thread has it */
        um_atomic_store(&team->share[i].state, 3 * (uint64_t)i, relaxed);
    return team;
}

static void pool_free(struct um_omp_pool *pool);

static void team_free(struct um_omp_team *team)
{
    for (unsigned i = 0; i < team->members; i++) {
        void *chunk = team->member[i].chunks;

        pool_free(team->member[i].pool);
        if (team->member[i].implicit.depends)
            um_omp_depends_free(team->member[i].implicit.depends);
        if (team->member[i].alone) {
            um_omp_share_free(team->member[i].alone);
            free(team->member[i].alone);
        }
        while (chunk) {
            void *next = *(void **)chunk;

            free(chunk);
            chunk = next;
        }
    }
    free(team->member);
    free((void *)team->flag);
    free(team);
}

/* A team for regions that `self` begins. */
static struct um_omp_team *team_make_inner(const struct um_omp_member *self, unsigned members)
{
    struct um_omp_team *team = team_make(members);

    team->outer = self->team;
    team->outer_number = self->number;
    team->level = self->team->level + 1;
    team->active = self->team->active + (members > 1);
    team->busy = self->team->busy;
    return team;
}

struct um_omp_team *um_omp_team_find(struct um_omp_member *self, unsigned members)
{
    struct um_omp_pool *pool = self->pool;
    struct um_omp_team **at, *team;

    if (UM_UNLIKELY(!pool))
        pool = self->pool = um_omp_memory(sizeof(*pool));
    for (at = &pool->teams; *at && (*at)->members != members;)
        at = &(*at)->next;
    team = *at;
    if (UM_LIKELY(team && team == pool->teams)) /* its members have this line: it is not written */
        return team;
    if (!team)
        team = team_make_inner(self, members);
    else
        *at = team->next;
    team->next = pool->teams;
    pool->teams = team;
    return team;
}

/* ---- threads ---- */

/* Ends the pool's threads, and those of the regions that they began. */
static void threads_end(struct um_omp_pool *pool)
{
    if (pool->threads) /* seq_cst: see stuck.c */
        um_atomic_fetch_add(&um_omp_pool_threads, UM_OMP_POOL_CHANGE + 1 - pool->members, seq_cst);
    umbra_team_destroy(pool->threads);
    pool->threads = NULL;
    for (struct um_omp_team *team = pool->teams; team; team = team->next)
        for (unsigned i = 1; i < team->members; i++) {
            pool_free(team->member[i].pool);
            team->member[i].pool = NULL;
        }
}

void um_omp_pool_pause(struct um_omp_member *self)
{
    if (!self->pool)
        return;
    threads_end(self->pool);
    for (struct um_omp_team *team = self->pool->teams; team; team = team->next)
        um_omp_pool_pause(&team->member[0]); /* the same thread */
}

static void pool_free(struct um_omp_pool *pool)
{
    if (!pool)
        return;
    threads_end(pool);
    while (pool->teams) {
        struct um_omp_team *team = pool->teams;

        pool->teams = team->next;
        team_free(team);
    }
    free(pool);
}

/* Which threads are bound. Where nothing is said of it, the threads of an outer region are bound if each
 * can have a processor, and their caller is not: two unbound threads that wake each other are put on one
 * processor by Linux, and stay there. */
static enum umbra_team_bind binding(unsigned members, unsigned level)
{
    const struct um_omp_settings *set = &um_omp_settings;

    if (level > 0) /* where the members of the outer region are */
        return UMBRA_TEAM_BIND_NONE;
    if (set->bind_levels > 0)
        return set->bind[0] != 0 ? UMBRA_TEAM_BIND_ALL : UMBRA_TEAM_BIND_NONE;
    return (int)members <= set->processors ? UMBRA_TEAM_BIND_MEMBERS : UMBRA_TEAM_BIND_NONE;
}

/* How the pool's threads wait. Where other threads want the processors, they do not spin for ever. */
static struct umbra_wait_options waiting(unsigned members, unsigned level)
{
    const struct um_omp_settings *set = &um_omp_settings;
    bool shared = level > 0 || (int)members > set->processors;

    return (struct umbra_wait_options){
        .mode = set->wait == UMBRA_WAIT_SPIN && shared ? UMBRA_WAIT_TWO_PHASE : set->wait};
}

/* Members that wait poll as long as the team's threads do. */
static void poll_cycles_set(void)
{
    struct umbra_wait_policy polls;

    if (umbra_wait_policy_init(&polls, NULL) != 0)
        um_omp_fatal("%s", umbra_last_error_text());
    /* relaxed: a number; one that is put off until it is measured, and then always the same */
    um_atomic_store(&um_omp_poll_cycles, polls.block_cycles, relaxed);
}

/* Measuring takes 2 ms, for which a process that begins is not kept waiting. Threads that spin for
 * ever would be in its way later. Inner regions take what there is: other members work meanwhile. */
static bool measures_later(const struct umbra_wait_options *wait, unsigned level)
{
    if (level == 0 && wait->mode == UMBRA_WAIT_SPIN)
        um_machine_put_off(false);
    return level == 0 && um_machine_is_put_off();
}

static void threads_start(struct um_omp_pool *pool, unsigned members, unsigned level)
{
    const struct um_omp_settings *set = &um_omp_settings;
    struct umbra_team_options options = {
        .members = members,
        .cpus = set->cpus[0] ? set->cpus : NULL,
        .siblings = set->siblings,
        .bind = binding(members, level),
        .parts_stay = true,
        .wait = waiting(members, level),
        .stack_bytes = set->stack_bytes,
    };
    bool later = measures_later(&options.wait, level);

    if (umbra_team_create(&options, &pool->threads) != 0)
        um_omp_fatal("a region of %u members, OMP_STACKSIZE %zu (0: not set), cannot begin: %s",
                     members, set->stack_bytes, umbra_last_error_text());
    um_atomic_fetch_add(&um_omp_pool_threads, UM_OMP_POOL_CHANGE + members - 1,
                        seq_cst); /* see stuck.c */
    poll_cycles_set();
    pool->members = members;
    pool->most = later ? 0 : members;
    pool->measure_at = um_cycles() + um_ns_to_cycles(MEASURE_NS);
}

/* When the pool's threads have been there for long, measures what was put off. */
static void measure(struct um_omp_pool *pool)
{
    struct umbra_wait_options wait = waiting(pool->members, 0);

    if (um_cycles() < pool->measure_at)
        return;
    um_machine_put_off(false);
    /* without threads, in a child of fork(2), it fails, as the next run does, which makes others */
    if (um_team_measure(pool->threads, &wait) == 0)
        poll_cycles_set();
    pool->most = pool->members;
}

void um_omp_pool_run(struct um_omp_member *self, unsigned members, umbra_team_fn *fn, void *arg)
{
    struct um_omp_pool *pool = self->pool;
    int error = -ESRCH;

    if (UM_LIKELY(pool->threads && members <= pool->most)) {
        error = umbra_team_run(pool->threads, members, fn, arg);
    } else if (pool->threads && members <= pool->members) {
        measure(pool);
        error = umbra_team_run(pool->threads, members, fn, arg);
    }
    if (UM_LIKELY(error == 0))
        return;
    /* too few; or they are the parent process's; or this thread is ending, and owns them no more */
    threads_end(pool);
    threads_start(pool, members, self->team->level);
    error = umbra_team_run(pool->threads, members, fn, arg);
    if (error != 0)
        um_omp_fatal("a region cannot begin: %s", umbra_last_error_text());
}

/* ---- roots ---- */

static void root_end(void *arg)
{
    um_omp_here = NULL;
    um_omp_root_free(arg);
}

static void prepare(void)
{
    struct umbra_wait_options sleeps = {.mode = UMBRA_WAIT_PARK};
    int error;

    um_omp_settings_read();
    um_machine_put_off(true);
    error = -pthread_key_create(&root_key, root_end);
    if (error == 0)
        error = um_omp_see_read();
    if (error != 0)
        snprintf(why, sizeof(why), "OpenMP cannot begin: %s", strerror(-error));
    else if (umbra_wait_policy_init(&policy, &sleeps) != 0)
        snprintf(why, sizeof(why), "%s", umbra_last_error_text());
}

struct um_omp_member *um_omp_root_make(void)
{
    struct um_omp_member *root;
    struct um_omp_team *team;

    um_once_in_process(&once, prepare);
    if (why[0])
        um_omp_fatal("%s", why);
    team = team_make(1);
    root = &team->member[0];
    team->busy = um_omp_memory(sizeof(*team->busy));
    um_atomic_store(team->busy, 1, relaxed); /* no other thread has it */
    team->teams = 1;
    root->implicit.icv = um_omp_settings.icv;
    if (!um_omp_here) {
        pthread_setspecific(root_key, root); /* without memory for that it is not freed */
        um_omp_here = root;
        um_omp_unbind();
    }
    return root;
}

void um_omp_root_free(struct um_omp_member *root)
{
    free((void *)root->team->busy);
    team_free(root->team);
}
