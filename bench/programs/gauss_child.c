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
} ways[] = {
    {"serial", eliminate_serial, false},      {"umbra-mu1k", eliminate_mu1k, false},
    {"umbra-mu2k", eliminate_mu2k, false},    {"umbra-blocked", eliminate_blocked, false},
    {"pthread-mu1", eliminate_mu1, false},    {"pthread-mu2", eliminate_mu2, false},
    {"umbra-team", eliminate_team, false},
#ifdef GAUSS_OPENMP
    {"openmp-rows", eliminate_openmp, false}, {"openmp-blocked", eliminate_openmp_blocked, false},
#endif
#ifdef GAUSS_DGESV
    {"dgesv", eliminate_dgesv, true},
#endif
};

static const struct way *way;
static struct setting setting = {.processors = 2};
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

/* The processors of fibers, or of a team; other runtimes keep their threads from one solution to the next, too. */
static int start_runtime(const int cpus[2])
{
    char text[32];
    struct umbra_options options = {.cpus = text, .quiet = true};
    struct umbra_team_options members = {.cpus = text};

    snprintf(text, sizeof(text), "%d,%d", cpus[0], cpus[1]);
    if (way->eliminate == eliminate_team)
        return umbra_team_create(&members, &setting.team);
    return umbra_runtime_create(&options, &setting.runtime);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !read_argument(argv[2]))
        return 2;
    if (strncmp(way->name, "umbra-", strlen("umbra-")) == 0 && start_runtime(channel->cpus) != 0)
        return 2;
    system_generate(&given, 1);
    child_channel_serve(channel, batch);
}
