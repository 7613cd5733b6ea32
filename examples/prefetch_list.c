/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A shadow that prefetches ahead: a linked list, several times as large as the last-level cache and
 * in random order, is walked with some work on each node, alone and with a shadow that walks ahead
 * of the owner and so brings the nodes into a cache that both can reach.
 *
 * A chain of pointers hides the next address from the processor, and the shadow cannot hurry: it
 * too waits for memory at each node. It helps while the owner computes. So the gain is largest
 * where the work on a node takes about as long as a load from memory; there is none where the work
 * takes no time or far longer, nor where the two share no cache: then the node comes from another
 * core's cache instead of from memory, which takes about as long.
 *
 * The distance is bounded on both sides. A shadow too far ahead would push nodes out of the cache
 * before they are used: it waits. A shadow that fell behind is of no use: it goes on from the
 * owner's place. For that the owner writes now and then where it is.
 *
 * The list is walked in stretches, by turns with and without the shadow, one fork and join each;
 * then again with the turns exchanged, so that either way visits every node and the checksums must
 * agree. What is printed are medians over the stretches.
 *
 *     prefetch_list [--mib N] [--work N[,N...]] [--distance N] [--passes N] [--quiet]
 *
 * Exit status: 0; 1 wrong checksum or no memory; 2 bad argument; 77 no second hardware thread.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/shadow.h>

#define MIB (1024 * 1024)
#define CACHE_MULTIPLE 4     /* list size in last-level caches, unless given */
#define UNKNOWN_CACHE_MIB 32 /* taken for a last-level cache of unknown size */
#define PUBLISH_EVERY 16     /* nodes; the shadow's look at the owner's place costs both */
#define STRETCH 16384        /* nodes walked with one fork and join: some milliseconds */
#define LEAST_MIB 4          /* two stretches at least */
#define MOST_WORKS 16
#define WORDS ((UMBRA_CACHE_LINE - 2 * sizeof(uint64_t)) / sizeof(uint64_t))

struct node {
    _Alignas(UMBRA_CACHE_LINE) struct node *next; /* NULL in the last */
    uint64_t position;                            /* in the list, from 0 */
    uint64_t data[WORDS];
};

_Static_assert(sizeof(struct node) == UMBRA_CACHE_LINE, "a node is one line");

struct options {
    unsigned long mib; /* 0: CACHE_MULTIPLE times the last-level cache */
    unsigned long works[MOST_WORKS];
    unsigned n_works;
    unsigned long distance;
    unsigned long passes;
    bool quiet;
};

/* One stretch. The owner's place has a line of its own: the shadow polls it. */
struct stretch {
    const struct node *first;
    uint64_t end;      /* position behind the last node */
    uint64_t distance; /* how far the shadow may be ahead, nodes */
    _Alignas(UMBRA_CACHE_LINE) _Atomic(const struct node *) owner; /* NULL: at the end */
};

/* ---- owner and shadow ---- */

/* Several independent chains of arithmetic, as real work has, `rounds` steps long. */
static uint64_t work_on(const struct node *node, unsigned long rounds)
{
    uint64_t lane[WORDS];
    uint64_t sum = 0;

    memcpy(lane, node->data, sizeof lane);
    for (unsigned long r = 0; r < rounds; r++)
        for (size_t i = 0; i < WORDS; i++)
            lane[i] = (lane[i] ^ lane[i] >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < WORDS; i++)
        sum += lane[i];
    return sum;
}

/* What the owner does, with and without a shadow alike. Returns the node behind the stretch. */
static const struct node *walk(struct stretch *stretch, unsigned long rounds, uint64_t *sum)
{
    const struct node *node = stretch->first;

    for (; node && node->position != stretch->end; node = node->next) {
        /* relaxed: the list does not change, and the place is only a hint */
        if (node->position % PUBLISH_EVERY == 0)
            atomic_store_explicit(&stretch->owner, node, memory_order_relaxed);
        *sum += work_on(node, rounds);
    }
    atomic_store_explicit(&stretch->owner, NULL, memory_order_relaxed); /* likewise */
    return node;
}

/* What the shadow does: reading a node's position loads the line that the owner will need. */
static void walk_ahead(void *arg)
{
    struct stretch *stretch = arg;
    const struct node *node = stretch->first;

    while (node && node->position != stretch->end) {
        /* relaxed: see walk; shadow_fork made the list visible */
        const struct node *owner = atomic_load_explicit(&stretch->owner, memory_order_relaxed);

        if (!owner)
            return;
        if (node->position < owner->position)
            node = owner;
        else if (node->position - owner->position < stretch->distance)
            node = node->next;
        else
            umbra_pause();
    }
}

/* ---- the list ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Links the nodes in random order, starting with the first; returns false without memory. */
static bool link_nodes(struct node *nodes, size_t count)
{
    size_t *order = malloc(count * sizeof *order);
    uint64_t random = UINT64_C(88172645463325252);

    if (!order)
        return false;
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count - 1; i > 1; i--) {
        size_t j = 1 + next_random(&random) % i;
        size_t swapped = order[i];

        order[i] = order[j];
        order[j] = swapped;
    }
    for (size_t i = 0; i < count; i++) {
        struct node *node = &nodes[order[i]];

        node->next = i + 1 < count ? &nodes[order[i + 1]] : NULL;
        node->position = i;
        for (size_t w = 0; w < WORDS; w++)
            node->data[w] = next_random(&random);
    }
    free(order);
    return true;
}

static struct node *make_list(size_t count)
{
    struct node *nodes = aligned_alloc(UMBRA_CACHE_LINE, count * sizeof *nodes);

    if (nodes && !link_nodes(nodes, count)) {
        free(nodes);
        nodes = NULL;
    }
    return nodes;
}

/* ---- measuring ---- */

/* Figures of one amount of work, alone [0] and with the shadow [1]. */
struct result {
    uint64_t sum[2];
    double *ns[2]; /* a node, for each stretch */
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

/* One stretch, with the shadow or (NULL) alone; ns in all. Moves stretch->first on. */
static double timed_walk(struct stretch *stretch, struct umbra_shadow *shadow, unsigned long rounds,
                         uint64_t *sum)
{
    uint64_t start = umbra_now_ns();
    const struct node *next;

    atomic_store_explicit(&stretch->owner, stretch->first, memory_order_relaxed); /* none runs */
    if (shadow)
        shadow_fork(shadow, walk_ahead, stretch);
    next = walk(stretch, rounds, sum);
    if (shadow)
        shadow_join(shadow);
    stretch->first = next;
    return (double)(umbra_now_ns() - start);
}

/* The whole list once; turn says whether the first stretch is alone (0) or shadowed (1). */
static void pass(const struct node *list, uint64_t distance, struct umbra_shadow *shadow,
                 unsigned long rounds, unsigned turn, struct result *result)
{
    struct stretch stretch = {.first = list, .distance = distance};

    for (; stretch.first; turn ^= 1) {
        stretch.end = stretch.first->position + STRETCH;
        result->ns[turn][result->count / 2] =
            timed_walk(&stretch, turn ? shadow : NULL, rounds, &result->sum[turn]) / STRETCH;
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
    puts(
        "prefetch_list: walk a list while a shadow prefetches ahead\n\n"
        "  --mib N           size of the list, at least 4 (default: 4 times the last-level cache)\n"
        "  --work N[,N...]   steps of arithmetic on each node (default: 0,8,16,24,32,64)\n"
        "  --distance N      how far the shadow may be ahead, in nodes (default: 256)\n"
        "  --passes N        how often the list is walked each way (default: 2)\n"
        "  --quiet           no progress");
}

static int usage(const char *what, const char *value)
{
    fprintf(stderr, "prefetch_list: %s: '%s'\n", what, value);
    return 2;
}

static int bad_value(const char *option, const char *value)
{
    fprintf(stderr, "prefetch_list: not a value for --%s: '%s' (see --help)\n", option, value);
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
        return parse_number(optarg, 1, 1000000000, &options->distance);
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
static bool measure(const struct node *list, struct umbra_shadow *shadow,
                    const struct options *options, unsigned long rounds, struct result *result)
{
    result->count = result->sum[0] = result->sum[1] = 0;
    for (unsigned long p = 0; p < 2 * options->passes; p++) {
        if (!options->quiet)
            fprintf(stderr, "\rwork %lu: pass %lu of %lu ", rounds, p + 1, 2 * options->passes);
        pass(list, options->distance, shadow, rounds, p % 2, result);
    }
    if (!options->quiet)
        fprintf(stderr, "\r%*s\r", 40, "");
    return report(result, rounds);
}

/* All amounts of work on one list; an exit status. */
static int measure_all(const struct node *list, struct umbra_shadow *shadow,
                       const struct options *options, struct result *result)
{
    bool same = true;

    printf("%8s %10s %10s %10s   checksum\n", "work", "plain", "shadow", "speed-up");
    for (unsigned i = 0; i < options->n_works; i++)
        same = measure(list, shadow, options, options->works[i], result) && same;
    puts("\nwork: steps of arithmetic a node; plain, shadow: ns a node, medians over stretches");
    if (!same)
        fprintf(stderr, "prefetch_list: checksums differ\n");
    return same ? 0 : 1;
}

static int run(struct umbra_shadow *shadow, const struct umbra_topology *topology,
               const struct options *options)
{
    struct umbra_shadow_info info = umbra_shadow_info(shadow);
    uint64_t cache = last_level_cache(topology, info.owner_cpu);
    uint64_t bytes = options->mib ? (uint64_t)options->mib * MIB : CACHE_MULTIPLE * cache;
    size_t pairs = bytes / sizeof(struct node) / (2 * STRETCH); /* of stretches */
    struct node *list = make_list(pairs * 2 * STRETCH);
    struct result result = {0};
    int status = 1;

    for (int turn = 0; turn < 2; turn++)
        result.ns[turn] = calloc(pairs * 2 * options->passes, sizeof(double));
    printf("list: %llu MiB, last-level cache: %llu MiB; owner on cpu %d, shadow on cpu %d, "
           "nearest shared: %s\n\n",
           (unsigned long long)bytes / MIB, (unsigned long long)cache / MIB, info.owner_cpu,
           info.shadow_cpu, umbra_topology_shared_name(info.shared));
    if (list && result.ns[0] && result.ns[1])
        status = measure_all(list, shadow, options, &result);
    else
        fprintf(stderr, "prefetch_list: no memory for %llu MiB\n", (unsigned long long)bytes / MIB);
    free(result.ns[0]);
    free(result.ns[1]);
    free(list);
    return status;
}

/* Why there is no shadow; an exit status. */
static int refuse(int error)
{
    const char *forced = getenv("UMBRA_WAIT");

    if (forced && (error == -EINVAL || error == -EOPNOTSUPP))
        return usage("UMBRA_WAIT cannot be used here", forced);
    fprintf(stderr, "prefetch_list: no shadow: %s\n", strerror(-error));
    return error == -ENODEV ? 77 : 1;
}

int main(int argc, char **argv)
{
    struct options options = {
        .works = {0, 8, 16, 24, 32, 64}, .n_works = 6, .distance = 256, .passes = 2};
    struct umbra_shadow_options place = {0};
    struct umbra_shadow shadow;
    int status = parse(argc, argv, &options);
    int error;

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
