/* SPDX-License-Identifier: BSL-1.0 */
/*
 * One contender of the kernels apsp and spread, in a process of its own, compiled once by gcc
 * (libgomp) and once by clang (libomp) together with examples/apsp/openmp.c. Told what to do by
 * child_channel.h.
 */
#define _GNU_SOURCE
#include "apsp_case.h"
#include "child_channel.h"

#include <umbra.h>
#include <variants.h>

static struct setting setting;
static struct apsp_case apsp;
static struct graph graph;
static struct blocks blocks;
static solve_fn *solve;

/* Only the solving is timed. */
static void batch(struct child_channel *channel)
{
    uint64_t ns = 0, right = 0;

    for (uint64_t i = 0; i < channel->iterations; i++) {
        size_t vertex;
        uint64_t begin;
        int error;

        blocks_fill(&blocks, &graph);
        begin = child_channel_now_ns();
        error = solve(&blocks, &setting, &vertex);
        ns += child_channel_now_ns() - begin;
        right += error == 0 && apsp_checksum(&blocks) == apsp.checksum;
    }
    channel->own_ns = ns;
    channel->verified = right;
    channel->elsewhere = 0;
}

static int start_runtime(const struct child_channel *channel)
{
    char text[CHILD_CHANNEL_LIST_BYTES];
    struct umbra_options options = {.cpus = child_channel_list(channel, channel->n_cpus, text),
                                    .quiet = true};

    return umbra_runtime_create(&options, &setting.runtime);
}

static bool choose(const char *order, const struct child_channel *channel)
{
    setting.processors = channel->n_cpus;
    if (strcmp(order, "ctbpa") == 0 || strcmp(order, "pure") == 0) {
        solve = strcmp(order, "ctbpa") == 0 ? solve_ctbpa : solve_ctbpa_pure;
        return start_runtime(channel) == 0;
    }
    solve = strcmp(order, "tasks") == 0 ? solve_openmp_tasks : solve_openmp_depend;
    return true;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;
    char order[8];

    if (channel == NULL || !apsp_case_read(&apsp, order, argv[2]) ||
        apsp_case_graph(apsp.n, &graph) != 0 ||
        blocks_create(&blocks, FLOAT32, apsp.n, apsp.block) != 0 || !choose(order, channel))
        return 2;
    child_channel_serve(channel, batch);
}
