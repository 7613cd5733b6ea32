/* SPDX-License-Identifier: BSL-1.0 */
/*
 * See prefetch_run.h. The data are visited in stretches, by turns with and without the shadow; then
 * again with the turns exchanged, so that either way visits every item and the checksums must agree.
 * What is printed are medians over the stretches.
 */
#define _GNU_SOURCE
#include "prefetch_run.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1024 * 1024)
#define CACHE_MULTIPLE 3     /* size of the data in last-level caches, unless given */
#define UNKNOWN_CACHE_MIB 32 /* taken for a last-level cache of unknown size */
#define STRETCH 8192         /* items visited with one fork and join: some milliseconds */
#define LEAST_MIB 4          /* two stretches at least */
#define MOST_WORKS 16

struct options {
    unsigned long mib; /* 0: CACHE_MULTIPLE times the last-level cache */
    unsigned long works[MOST_WORKS];
    unsigned n_works;
    unsigned long distance;
    unsigned long passes;
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

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

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

static const struct option long_options[] = {
    {"mib", required_argument, NULL, 'm'},
    {"work", required_argument, NULL, 'w'},
    {"distance", required_argument, NULL, 'd'},
    {"passes", required_argument, NULL, 'p'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void print_help(void)
{
    printf("%s: %s\n\n"
           "  --mib N           size of the data, at least 4 (default: 3 last-level caches)\n"
           "  --work N[,N...]   steps of arithmetic on each item (default: 0,4,8,16,32,64)\n"
           "  --distance N      how far the shadow may be ahead, in items (default: 32)\n"
           "  --passes N        how often all is visited each way (default: 2)\n"
           "  --quiet           no progress\n",
           subject->name, subject->about);
}

static int usage(const char *what, const char *value)
{
    fprintf(stderr, "%s: %s: '%s'\n", subject->name, what, value);
    return 2;
}

static int bad_value(const char *option, const char *value)
{
    fprintf(stderr, "%s: not a value for --%s: '%s' (see --help)\n", subject->name, option, value);
    return 2;
}

static bool parse_number(const char *text, unsigned long least, unsigned long most,
                         unsigned long *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoul(text, &end, 10);
    return errno == 0 && *end == '\0' && *out >= least && *out <= most;
}

static bool parse_works(char *list, struct options *options)
{
    char *word;

    options->n_works = 0;
    while ((word = strsep(&list, ",")))
        if (options->n_works == MOST_WORKS ||
            !parse_number(word, 0, 1000000, &options->works[options->n_works++]))
            return false;
    return true;
}

static bool parse_option(int option, struct options *options)
{
    char works[256];

    switch (option) {
    case 'm':
        return parse_number(optarg, LEAST_MIB, 1024 * 1024, &options->mib);
    case 'w':
        return snprintf(works, sizeof works, "%s", optarg) < (int)sizeof works &&
               parse_works(works, options);
    case 'd':
        return parse_number(optarg, 2 * UMBRA_PREFETCH_EVERY, 1000000000, &options->distance);
    case 'p':
        return parse_number(optarg, 1, 1000, &options->passes);
    default:
        options->quiet = true;
        return true;
    }
}

/* Exit status, or -1 to go on. */
static int parse(int argc, char **argv, struct options *options)
{
    int option, index = 0;

    while ((option = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (option == '?')
            return 2; /* getopt_long has printed the line */
        if (option == 'h') {
            print_help();
            return 0;
        }
        if (!parse_option(option, options))
            return bad_value(long_options[index].name, optarg);
    }
    return optind < argc ? usage("unknown argument", argv[optind]) : -1;
}

/* ---- all of it ---- */

/* Bytes of the last-level cache that the cpu sees. */
static uint64_t last_level_cache(const struct umbra_topology *topology, int cpu)
{
    const struct umbra_topology_cpu *place = umbra_topology_cpu_of(topology, cpu);

    if (place && place->l3_bytes)
        return place->l3_bytes;
    return place && place->l2_bytes ? place->l2_bytes : (uint64_t)UNKNOWN_CACHE_MIB * MIB;
}

/* One amount of work: all passes both ways, and its line. */
static bool measure(struct stretch *stretch, uint64_t items, struct umbra_shadow *shadow,
                    const struct options *options, struct result *result)
{
    result->count = result->sum[0] = result->sum[1] = 0;
    for (unsigned long p = 0; p < 2 * options->passes; p++) {
        if (!options->quiet)
            fprintf(stderr, "\rwork %lu: pass %lu of %lu ", stretch->rounds, p + 1,
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
    for (unsigned i = 0; i < options->n_works; i++) {
        stretch->rounds = options->works[i];
        same = measure(stretch, items, shadow, options, result) && same;
    }
    printf("\nwork: steps of arithmetic on %s; plain, shadow: ns each, medians over stretches\n",
           subject->items);
    if (!same)
        fprintf(stderr, "%s: checksums differ\n", subject->name);
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
               const struct options *options)
{
    struct umbra_shadow_info info = umbra_shadow_info(shadow);
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
           subject->name, (unsigned long long)bytes / MIB, (unsigned long long)cache / MIB,
           info.owner_cpu, info.shadow_cpu, umbra_topology_shared_name(info.shared));
    if (stretch.data && result.ns[0] && result.ns[1])
        status = measure_all(&stretch, pairs * 2 * STRETCH, shadow, options, &result);
    else
        fprintf(stderr, "%s: no memory for %llu MiB\n", subject->name,
                (unsigned long long)bytes / MIB);
    free(result.ns[0]);
    free(result.ns[1]);
    if (stretch.data)
        subject->destroy(stretch.data);
    return status;
}

/* Why there is no shadow; an exit status. */
static int refuse(int error)
{
    const char *forced = getenv("UMBRA_WAIT");

    if (forced && (error == -EINVAL || error == -EOPNOTSUPP))
        return usage("UMBRA_WAIT cannot be used here", forced);
    fprintf(stderr, "%s: no shadow: %s\n", subject->name, umbra_last_error_text());
    return error == -ENODEV ? 77 : 1;
}

int prefetch_main(const struct subject *of, int argc, char **argv)
{
    struct options options = {
        .works = {0, 4, 8, 16, 32, 64}, .n_works = 6, .distance = 32, .passes = 2};
    struct umbra_shadow_options place = {0};
    _Alignas(UMBRA_CACHE_LINE) struct umbra_shadow shadow;
    int status, error;

    subject = of;
    status = parse(argc, argv, &options);
    if (status >= 0)
        return status;
    error = umbra_topology_create(NULL, &place.topology);
    if (!error)
        error = shadow_create(&shadow, &place);
    if (error) {
        umbra_topology_destroy(place.topology);
        return refuse(error);
    }
    status = run(&shadow, place.topology, &options);
    shadow_destroy(&shadow);
    umbra_topology_destroy(place.topology);
    return status;
}
