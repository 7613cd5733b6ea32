/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Gaussian elimination by rows (examples/gauss) against the number of threads or fibers (Karasik and
 * Prihozhy 2020, Figure 5), at one row a group, where they meet most often; and at larger groups,
 * for as many as go with them. The limit is one processor, row by row.
 */
#include "harness.h"
#include "program_rows.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS 3
#define NAME_BYTES 32
#define MU2_MOST 400 /* threads: more take a minute a run */

static const char *const ways[] = {"umbra-mu1k", "umbra-mu2k", "pthread-mu1", "pthread-mu2"};

/* The last of the sides have a row each. */
static const struct size {
    size_t unknowns;
    size_t sides[8]; /* until 0 */
    struct grouping {
        size_t sides, group;
    } larger[5];
} full = {2400, {2, 8, 32, 160, 400, 1000, 2400}, {{8, 15}, {8, 150}, {40, 15}, {160, 15}}},
  quick = {480, {2, 8, 40, 160, 480}, {{8, 15}, {32, 15}}}, tiny = {31, {2, 31}, {{3, 5}}};

static void add(struct bench *bench, size_t n, size_t sides, size_t group, struct bench_row *limit)
{
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        struct gauss_case gauss = {.way = ways[w], .n = n, .sides = sides, .group = group};
        char *name;

        if (sides > MU2_MOST && strcmp(ways[w], "pthread-mu2") == 0)
            continue;
        name = malloc(NAME_BYTES);
        if (name == NULL)
            exit(BENCH_FAILED);
        snprintf(name, NAME_BYTES, "%s-%zux%zu", ways[w], sides, group);
        gauss_row(bench, name, &gauss)->limit = limit;
    }
}

static int declare(struct bench *bench)
{
    const struct size *size = bench_tiny(bench) ? &tiny : bench_quick(bench) ? &quick : &full;
    struct gauss_case alone = {.way = "serial", .n = size->unknowns};
    struct gauss_case openmp = {.way = "openmp-rows", .n = size->unknowns};
    struct bench_row *limit = gauss_row(bench, "serial", &alone);

    gauss_row(bench, "openmp-rows", &openmp)->limit = limit;
    for (const size_t *sides = size->sides; *sides > 0; sides++)
        add(bench, size->unknowns, *sides, 1, limit);
    for (const struct grouping *larger = size->larger; larger->sides > 0; larger++)
        add(bench, size->unknowns, larger->sides, larger->group, limit);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "gauss-threads",
    .about = "a system of linear equations by rows, against the number of threads or fibers",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS,
    .batch = 1,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
