/* SPDX-License-Identifier: BSL-1.0 */
/*
 * One contender of the kernel gauss, in a process of its own: a way of examples/gauss, given as
 * "name:n:sides:group". Told what to do by child_channel.h. A solution is timed from the system to
 * its answer, and verified by its backward error.
 */
#define _GNU_SOURCE
#include "child_channel.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include <rows.h>
#include <umbra.h>
#include <variants.h>

static const struct way {
    const char *name;
    eliminate_fn *eliminate;
    bool solves;
    unsigned without; /* of enum mu_addition */
} ways[] = {
    {"serial", eliminate_serial, false, 0},
    {"umbra-mu1k", eliminate_mu1k, false, 0},
    {"umbra-mu2k", eliminate_mu2k, false, 0},
    {"umbra-blocked", eliminate_blocked, false, 0},
    {"pthread-mu1", eliminate_mu1, false, 0},
    {"pthread-mu2", eliminate_mu2, false, 0},
    {"umbra-team", eliminate_team, false, 0},
    {"umbra-mu1k-pure", eliminate_mu1k_pure, false, 0},
    {"umbra-mu2k-pure", eliminate_mu2k_pure, false, 0},
    {"umbra-mu1k-no-help", eliminate_mu1k, false, MU_HELP},
    {"umbra-mu1k-no-runs", eliminate_mu1k, false, MU_RUNS},
    {"umbra-mu2k-no-runs", eliminate_mu2k, false, MU_RUNS},
    {"umbra-mu2k-no-turns", eliminate_mu2k, false, MU_TURNS},
    {"umbra-mu2k-no-fetch", eliminate_mu2k, false, MU_FETCH},
#ifdef GAUSS_OPENMP
    {"openmp-rows", eliminate_openmp, false, 0},
    {"openmp-blocked", eliminate_openmp_blocked, false, 0},
#endif
#if defined(GAUSS_DGESV) && defined(GAUSS_CHILD_DGESV)
    {"dgesv", eliminate_dgesv, true, 0},
#endif
};

static const struct way *way;
static struct setting setting;
static struct system given, work;
static double *x;

static void take_answer(void)
{
    for (size_t i = 0; i < work.n; i++)
        x[i] = system_row(&work, i)[work.n];
}

static void batch(struct child_channel *channel)
{
    channel->verified = channel->elsewhere = 0;
    for (uint64_t i = 0; i < channel->iterations; i++) {
        uint64_t begin;
        int error;

        system_copy(&work, &given);
        begin = child_channel_now_ns();
        error = way->eliminate(&work, &setting);
        if (error == 0 && way->solves)
            take_answer();
        else if (error == 0)
            rows_substitute_back(&work, x);
        channel->own_ns += child_channel_now_ns() - begin;
        channel->verified +=
            error == 0 && system_backward_error(&given, x) <= 4 * DBL_EPSILON * (double)given.n;
    }
}

static bool read_argument(const char *text)
{
    char name[32];
    size_t n;

    if (sscanf(text, "%31[a-z0-9-]:%zu:%zu:%zu", name, &n, &setting.sides, &setting.group_rows) !=
        4)
        return false;
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        if (strcmp(ways[w].name, name) == 0)
            way = &ways[w];
    x = malloc(n * sizeof(*x));
    return way && x && system_create(&given, n) == 0 && system_create(&work, n) == 0;
}

/* The processors of fibers, or of a team; other runtimes keep their threads from one solution to the
 * next, too. */
static int start_runtime(const struct child_channel *channel)
{
    char text[CHILD_CHANNEL_LIST_BYTES];
    struct umbra_options options = {.cpus = child_channel_list(channel, channel->n_cpus, text),
                                    .quiet = true};
    struct umbra_team_options members = {.cpus = text};

    if (way->eliminate == eliminate_team)
        return umbra_team_create(&members, &setting.team);
    return umbra_runtime_create(&options, &setting.runtime);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !read_argument(argv[2]))
        return 2;
    setting.processors = channel->n_cpus;
    setting.without = way->without;
    if (strncmp(way->name, "umbra-", strlen("umbra-")) == 0 && start_runtime(channel) != 0)
        return 2;
    system_generate(&given, 1);
    child_channel_serve(channel, batch);
}
