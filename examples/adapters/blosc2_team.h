/* SPDX-License-Identifier: BSL-1.0 */
/*
 * c-blosc2 on a team. Its jobs take blocks from a common list: they may also be done one after
 * another, in the order of their numbers, so a call whose team is in use by another thread does its
 * jobs alone. Contexts of as many threads (nthreads) as the team has members use all of them.
 *
 *     struct blosc2_team team;
 *
 *     blosc2_team_open(&team, 4);
 *     blosc2_set_threads_callback(blosc2_team_run, &team);
 */
#ifndef EXAMPLES_BLOSC2_TEAM_H
#define EXAMPLES_BLOSC2_TEAM_H

#include <umbra/team.h>

struct blosc2_team {
    struct umbra_team *team;
    unsigned members;
};

struct blosc2_jobs {
    void (*job)(void *data);
    char *data;
    size_t bytes; /* of data, for a job */
    unsigned count;
};

static int blosc2_team_open(struct blosc2_team *team, unsigned members)
{
    struct umbra_team_options options = {
        .members = members, .any_thread = true, .bind = UMBRA_TEAM_BIND_MEMBERS};

    team->members = members;
    return umbra_team_create(&options, &team->team);
}

static void blosc2_part(unsigned member, unsigned members, void *arg)
{
    const struct blosc2_jobs *jobs = arg;

    for (unsigned i = member; i < jobs->count; i += members)
        jobs->job(jobs->data + i * jobs->bytes);
}

/* What c-blosc2 calls: it wants all jobs done at the return. */
static void blosc2_team_run(void *arg, void (*job)(void *), int count, size_t bytes, void *data)
{
    const struct blosc2_team *team = arg;
    struct blosc2_jobs jobs = {job, data, bytes, (unsigned)count};
    unsigned members = jobs.count < team->members ? jobs.count : team->members;

    if (umbra_team_run(team->team, members, blosc2_part, &jobs) != 0)
        blosc2_part(0, 1, &jobs); /* alone */
}

#endif
