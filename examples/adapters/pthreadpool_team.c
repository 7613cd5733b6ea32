/* SPDX-License-Identifier: BSL-1.0 */
/*
 * pthreadpool's interface on a team, under pthreadpool's names: a program that is linked with this
 * file has its loops on the team. Of the many forms of loops this is the one that the others can be
 * made from: theirs number their tiles, and the task of this one finds the tile by its number.
 *
 * Two threads that call one pool at the same time do not wait for each other, as they would in the
 * library: the second does its loop alone. (A form whose task is told its thread's number, to find a
 * buffer by, must not do that: there the caller waits for its turn.) A pool of 0 threads has one for
 * each core, as a team has, not for each hardware thread. The flags are not needed: members sleep
 * after a while in any case, and denormals are only slow.
 */
#include <stdlib.h>

#include <pthreadpool.h>
#include <umbra/team.h>

struct pthreadpool {
    struct umbra_team *team;
    unsigned members;
};

struct loop {
    pthreadpool_task_1d_t task;
    void *context;
    size_t range;
};

static void count_members(unsigned member, unsigned members, void *count)
{
    if (member == 0)
        *(unsigned *)count = members;
}

pthreadpool_t pthreadpool_create(size_t threads)
{
    struct umbra_team_options options = {
        .members = (unsigned)threads, .any_thread = true, .bind = UMBRA_TEAM_BIND_MEMBERS};
    pthreadpool_t pool = malloc(sizeof(*pool));

    if (pool && umbra_team_create(&options, &pool->team) == 0) {
        umbra_team_run(pool->team, 0, count_members, &pool->members);
        return pool;
    }
    free(pool);
    return NULL;
}

size_t pthreadpool_get_threads_count(pthreadpool_t pool)
{
    return pool ? pool->members : 1;
}

static void loop_part(unsigned member, unsigned members, void *arg)
{
    const struct loop *loop = arg;
    size_t end = loop->range * (member + 1) / members;

    for (size_t i = loop->range * member / members; i < end; i++)
        loop->task(loop->context, i);
}

void pthreadpool_parallelize_1d(pthreadpool_t pool, pthreadpool_task_1d_t task, void *context,
                                size_t range, uint32_t flags)
{
    struct loop loop = {task, context, range};
    unsigned members = pool && range < pool->members ? (unsigned)range : 0; /* 0: all */

    (void)flags;
    if (!pool || range < 2 || umbra_team_run(pool->team, members, loop_part, &loop) != 0)
        loop_part(0, 1, &loop); /* alone */
}

void pthreadpool_destroy(pthreadpool_t pool)
{
    if (pool)
        umbra_team_destroy(pool->team);
    free(pool);
}
