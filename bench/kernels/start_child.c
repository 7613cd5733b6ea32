/* SPDX-License-Identifier: BSL-1.0 */
/* Runtimes, teams and threads for start, by the first argument after the channel. */
#define _GNU_SOURCE
#include "start_child.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <umbra/core.h>
#include <umbra/team.h>

static void *nothing(void *arg)
{
    return arg;
}

static void no_part(unsigned part, unsigned parts, void *arg)
{
    (void)part;
    (void)parts;
    (void)arg;
}

static unsigned run(const struct child_channel *channel)
{
    (void)channel;
    return umbra_run(NULL, nothing, NULL) == 0;
}

static unsigned team(const struct child_channel *channel)
{
    struct umbra_team *team;
    bool ran;

    (void)channel;
    if (umbra_team_create(NULL, &team) != 0)
        return 0;
    ran = umbra_team_run(team, 0, no_part, NULL) == 0;
    return umbra_team_destroy(team) == 0 && ran;
}

static unsigned pthreads(const struct child_channel *channel)
{
    pthread_t thread[CHILD_CHANNEL_CPUS];
    unsigned started = 0;

    while (started < channel->n_cpus && pthread_create(&thread[started], NULL, nothing, NULL) == 0)
        started++;
    for (unsigned i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return started == channel->n_cpus;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";

    return start_child(argc, argv,
                       strcmp(what, "run") == 0    ? run
                       : strcmp(what, "team") == 0 ? team
                                                   : pthreads);
}
