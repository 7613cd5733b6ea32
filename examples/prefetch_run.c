/* SPDX-License-Identifier: BSL-1.0 */
/*
 * See prefetch_run.h. The data are visited in stretches, by turns with and without the shadow; then
 * again with the turns exchanged, so that either way visits every item and the checksums must agree.
 * What is printed are medians over the stretches.
 */
#define _GNU_SOURCE
#include "prefetch_run.h"
#include "options.h"
#include "with_shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_MULTIPLE 3 /* size of the data in last-level caches, unless given */
#define STRETCH 8192     /* items visited with one fork and join: some milliseconds */
#define LEAST_MIB 4      /* two stretches at least */

struct options {
    size_t mib; /* 0: CACHE_MULTIPLE times the last-level cache */
    struct numbers works;
    size_t distance;
    size_t passes;
    bool quiet;
};

static const struct subject *subject;

/* ---- for the programs ---- */

uint64_t prefetch_work(const struct record *record, unsigned long rounds)
{
    uint64_t lane[WORDS];
    uint64_t sum = 0;

    memcpy(lane, record->words, sizeof lane);
    for (unsigned long r = 0; r < rounds; r++)
        for (size_t i = 0; i < WORDS; i++)
            lane[i] = (lane[i] ^ lane[i] >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < WORDS; i++)
        sum += lane[i];
    return sum;
}

uint64_t prefetch_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

size_t *prefetch_shuffled(size_t count, uint64_t *random)
{
    size_t *order = malloc(count * sizeof *order);

    for (size_t i = 0; order && i < count; i++) {
        size_t j = prefetch_random(random) % (i + 1);

        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

void prefetch_fill(struct record *record, uint64_t *random)
{
    for (size_t i = 0; i < WORDS; i++)
        record->words[i] = prefetch_random(random);
}

/* ---- measuring ---- */

/* Figures of one amount of work, alone [0] and with the shadow [1]. */
struct result {
    uint64_t sum[2];
    double *ns[2]; /* an item, for each stretch */
    size_t count;  /* how many in each of the two, when complete */
};

/* One stretch, with the shadow or (NULL) alone; ns in all. */
static double timed_visit(struct stretch *stretch, struct umbra_shadow *shadow)
{
    uint64_t start = umbra_now_ns();

    stretch->shadow = shadow;
    subject->visit(stretch);
    return (double)(umbra_now_ns() - start);
}

/* All items once; turn says whether the first stretch is alone (0) or shadowed (1). */
static void pass(struct stretch *stretch, uint64_t items, struct umbra_shadow *shadow,
                 unsigned turn, struct result *result)
{
    stretch->count = STRETCH;
    for (stretch->first = 0; stretch->first < items; stretch->first += STRETCH, turn ^= 1) {
        stretch->sum = 0;
        result->ns[turn][result->count / 2] = timed_visit(stretch, turn ? shadow : NULL) / STRETCH;
        result->sum[turn] += stretch->sum;
        result->count++;
    }
}

/* Prints the line of one amount of work; whether both checksums agreed. */
static bool report(struct result *result, unsigned long rounds)
{
    size_t count = result->count / 2;
    double plain, shadow;

    plain = median(result->ns[0], count);
    shadow = median(result->ns[1], count);
    printf("%8lu %10.1f %10.1f %10.2f   %016llx\n", rounds, plain, shadow, plain / shadow,
           (unsigned long long)result->sum[0]);
    fflush(stdout);
    return result->sum[0] == result->sum[1];
}

/* ---- options ---- */

static void read_options(int argc, char **argv, struct options *options)
{
    const struct option_row rows[] = {
        {"--mib", "N", "size of the data, at least 4 (default: 3 last-level caches)",
         .number = {&options->mib, LEAST_MIB, 1024 * 1024}},
        {"--work", "N[,N...]", "steps of arithmetic on each item (default: 0,4,8,16,32,64)",
         .number = {options->works.number, 0, 1000000}, .count = &options->works.count},
        {"--distance", "N", "how far the shadow may be ahead, in items (default: 32)",
         .number = {&options->distance, 2 * UMBRA_PREFETCH_EVERY, 1000000000}},
        {"--passes", "N", "how often all is visited each way (default: 2)",
         .number = {&options->passes, 1, 1000}},
        {"--quiet", NULL, "no progress", .flag = &options->quiet},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = subject->usage,
        .column = 20,
        .surplus = "unknown argument",
        .see_help = true,
        .rows = rows,
    };

    options_read(&table, argc, argv);
}

/* ---- all of it ---- */

/* One amount of work: all passes both ways, and its line. */
static bool measure(struct stretch *stretch, uint64_t items, struct umbra_shadow *shadow,
                    const struct options *options, struct result *result)
{
    result->count = result->sum[0] = result->sum[1] = 0;
    for (size_t p = 0; p < 2 * options->passes; p++) {
        if (!options->quiet)
            fprintf(stderr, "\rwork %lu: pass %zu of %zu ", stretch->rounds, p + 1,
                    2 * options->passes);
        pass(stretch, items, shadow, p % 2, result);
    }
    if (!options->quiet)
        fprintf(stderr, "\r%*s\r", 40, "");
    return report(result, stretch->rounds);
}

/* All amounts of work on the same data; an exit status. */
static int measure_all(struct stretch *stretch, uint64_t items, struct umbra_shadow *shadow,
                       const struct options *options, struct result *result)
{
    bool same = true;

    printf("%8s %10s %10s %10s   checksum\n", "work", "plain", "shadow", "speed-up");
    for (size_t i = 0; i < options->works.count; i++) {
        stretch->rounds = options->works.number[i];
        same = measure(stretch, items, shadow, options, result) && same;
    }
    printf("\nwork: steps of arithmetic on %s; plain, shadow: ns each, medians over stretches\n",
           subject->items);
    if (!same)
        fprintf(stderr, "%s: checksums differ\n", program_name);
    return same ? 0 : 1;
}

/* How the two run: a shadow that shares only the L3 passes lines on to it. */
static void prepare(struct stretch *stretch, const struct umbra_shadow_info *info,
                    const struct options *options)
{
    struct umbra_prefetch_options how = {.window = options->distance,
                                         .demote = info->shared == UMBRA_SHARED_L3};

    umbra_prefetch_init(&stretch->ahead, &how); /* the distance is in range */
}

static int run(struct umbra_shadow *shadow, const struct umbra_topology *topology,
               const void *given)
{
    const struct options *options = given;
    struct umbra_shadow_info info = shadow->info;
    uint64_t cache = last_level_cache(topology, info.owner_cpu);
    uint64_t bytes = options->mib ? (uint64_t)options->mib * MIB : CACHE_MULTIPLE * cache;
    struct stretch stretch = {0};
    struct result result = {0};
    size_t made = 0, pairs;
    int status = 1;

    stretch.data = subject->make(bytes, &made);
    pairs = made / (2 * STRETCH); /* of stretches; what is left over is not visited */
    prepare(&stretch, &info, options);
    for (int turn = 0; turn < 2; turn++)
        result.ns[turn] = calloc((pairs + 1) * 2 * options->passes, sizeof(double));
    printf("%s: %llu MiB, last-level cache: %llu MiB; owner on cpu %d, shadow on cpu %d, nearest "
           "shared: %s\n\n",
           program_name, (unsigned long long)bytes / MIB, (unsigned long long)cache / MIB,
           info.owner_cpu, info.shadow_cpu, umbra_topology_shared_name(info.shared));
    if (stretch.data && result.ns[0] && result.ns[1])
        status = measure_all(&stretch, pairs * 2 * STRETCH, shadow, options, &result);
    else
        fprintf(stderr, "%s: no memory for %llu MiB\n", program_name,
                (unsigned long long)bytes / MIB);
    free(result.ns[0]);
    free(result.ns[1]);
    if (stretch.data)
        subject->destroy(stretch.data);
    return status;
}

int prefetch_main(const struct subject *of, int argc, char **argv)
{
    struct options options = {
        .works = {{0, 4, 8, 16, 32, 64}, .count = 6}, .distance = 32, .passes = 2};

    subject = of;
    read_options(argc, argv, &options);
    return with_shadow(run, &options);
}
