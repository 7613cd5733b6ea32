/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Gaussian elimination by rows (examples/gauss) against the number of threads or fibers (Karasik and
 * Prihozhy 2020, Figure 5), at one row a group, where they meet most often; and at larger groups,
 * for as many as go with them. The limit is one processor, row by row.
 *
 * A solution takes from a quarter of a second to a quarter of a minute. What takes more than a second
 * has no other to warm up, and what takes several seconds is not in every round.
 */
#include "harness.h"
#include "program_rows.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS 3
#define NAME_BYTES 32

#define NONE SIZE_MAX

static const struct way {
    const char *name;
    size_t most;  /* sides that it is measured with */
    size_t least; /* rows of a group, likewise */
    /* In the full form, as many sides by rows of a group, or more: */
    size_t cold;          /* no warm-up */
    size_t second, third; /* in one round of two, of three */
} ways[] = {
    {"umbra-mu1k", .most = NONE, .cold = NONE, .second = NONE, .third = NONE},
    {"umbra-mu2k", .most = NONE, .cold = 0, .second = NONE, .third = NONE},
    {"umbra-mu1k-pure", .most = NONE, .cold = NONE, .second = NONE, .third = NONE},
    {"umbra-mu2k-pure", .most = NONE, .cold = 0, .second = NONE, .third = NONE},
    {"umbra-mu2k-no-fetch", .most = NONE, .cold = 0, .second = NONE, .third = NONE},
    {"umbra-mu1k-no-help", .most = NONE, .least = 8, .cold = NONE, .second = NONE, .third = NONE},
    {"pthread-mu1", .most = NONE, .cold = 160, .second = 400, .third = 1000},
    {"pthread-mu2", .most = 400, .cold = 0, .second = 10, .third = 400},
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* The last of the sides have a row each. */
static const struct size {
    size_t unknowns;
    size_t sides[8]; /* until 0 */
    struct grouping {
        size_t sides, group;
    } larger[5];
} full = {2400, {2, 8, 48, 160, 400, 1000, 2400}, {{8, 15}, {8, 150}, {40, 15}, {160, 15}}},
  quick = {480, {2, 8, 40, 160, 480}, {{8, 15}, {32, 15}}}, tiny = {31, {2, 31}, {{3, 5}}};

static const struct size *size_of(const struct bench *bench)
{
    return bench_tiny(bench) ? &tiny : bench_quick(bench) ? &quick : &full;
}

/* Less often what takes long. */
static void space_out(struct bench_row *row, const struct way *way, size_t sides)
{
    row->cold = sides >= way->cold;
    row->every = sides >= way->third ? 3 : sides >= way->second ? 2 : 1;
}

static void add(struct bench *bench, size_t sides, size_t group, struct bench_row *limit)
{
    for (size_t w = 0; w < WAYS; w++) {
        struct gauss_case gauss = {
            .way = ways[w].name, .n = size_of(bench)->unknowns, .sides = sides, .group = group};
        struct bench_row *row;
        char *name;

        if (sides > ways[w].most || group < ways[w].least)
            continue;
        name = malloc(NAME_BYTES);
        if (name == NULL)
            exit(BENCH_FAILED);
        snprintf(name, NAME_BYTES, "%s-%zux%zu", ways[w].name, sides, group);
        row = gauss_row(bench, name, &gauss);
        row->limit = limit;
        if (size_of(bench) == &full)
            space_out(row, &ways[w], sides / group);
    }
}

static int declare(struct bench *bench)
{
    const struct size *size = size_of(bench);
    struct gauss_case alone = {.way = "serial", .n = size->unknowns};
    struct gauss_case openmp = {.way = "openmp-rows", .n = size->unknowns};
    struct bench_row *limit = gauss_row(bench, "serial", &alone);

    limit->cold = size == &full;
    gauss_row(bench, "openmp-rows", &openmp)->limit = limit;
    for (const size_t *sides = size->sides; *sides > 0; sides++)
        add(bench, *sides, 1, limit);
    for (const struct grouping *larger = size->larger; larger->sides > 0; larger++)
        add(bench, larger->sides, larger->group, limit);
    return 0;
}

static void remark(const struct bench *bench, FILE *out)
{
    for (size_t w = 0; w < WAYS; w++)
        if (ways[w].most < size_of(bench)->unknowns) /* as many sides as there may be */
            fprintf(out, "%s: left out with more than %zu threads, which take too long\n",
                    ways[w].name, ways[w].most);
}

static const struct bench_kernel kernel = {
    .name = "gauss-threads",
    .about = "a system of linear equations by rows, against the number of threads or fibers",
    .cpus = 2,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS,
    .batch = 1,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
