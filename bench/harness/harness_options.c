/* SPDX-License-Identifier: BSL-1.0 */
/* Options of the harness: which processors, which rows, how many rounds. See harness.h. */
#define _GNU_SOURCE
#include "harness_private.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/wait.h>

#define MAX_ROUNDS 1000000ul
#define MAX_SECONDS 1000000ul

static const struct option long_options[] = {
    {"quick", no_argument, NULL, 'q'},        {"json", optional_argument, NULL, 'j'},
    {"only", required_argument, NULL, 'o'},   {"cpus", required_argument, NULL, 'c'},
    {"rounds", required_argument, NULL, 'r'}, {"seconds", required_argument, NULL, 's'},
    {"list", no_argument, NULL, 'l'},         {"tiny", no_argument, NULL, 't'},
    {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
};

static void print_help(const struct bench_kernel *kernel)
{
    printf("%s: %s\n\n"
           "  --quick           fewer rounds (%u instead of %u), small problems\n"
           "  --tiny            sizes for tests: the figures mean nothing\n"
           "  --json[=FILE]     one JSON object a line: instead of the table, or into FILE\n"
           "  --only A[,B...]   these contenders, and the limit\n"
           "  --cpus A,B...     the hardware threads to use (%u%s of them)\n"
           "  --rounds N        how often each contender has its turn\n"
           "  --seconds S       no more rounds after so long\n"
           "  --list            print the contenders' names\n",
           kernel->name, kernel->about, kernel->rounds_quick, kernel->rounds, kernel->cpus,
           kernel->all_cpus ? " or more" : "");
}

static int usage(const struct bench *bench, const char *what, const char *value)
{
    fprintf(stderr, "%s: %s: %s\n", bench->kernel->name, what, value);
    return BENCH_USAGE;
}

static bool parse_number(const char *text, unsigned long max, unsigned long *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoul(text, &end, 10);
    return errno == 0 && *end == '\0' && *out <= max;
}

static int parse_option(struct bench *bench, int option)
{
    struct bench_options *options = &bench->options;
    unsigned long number;

    switch (option) {
    case 'q':
        options->quick = true;
        return BENCH_OK;
    case 't':
        options->tiny = true;
        return BENCH_OK;
    case 'j':
        options->json = optarg == NULL;
        options->json_file = optarg;
        return BENCH_OK;
    case 'l':
        options->list = true;
        return BENCH_OK;
    case 'o':
        options->only = optarg;
        return BENCH_OK;
    case 'c':
        options->cpu_list = optarg;
        return BENCH_OK;
    case 'r':
        if (!parse_number(optarg, MAX_ROUNDS, &number) || number == 0)
            return usage(bench, "not a number of rounds", optarg);
        options->rounds = (unsigned)number;
        return BENCH_OK;
    case 's':
        if (!parse_number(optarg, MAX_SECONDS, &number) || number == 0)
            return usage(bench, "not a number of seconds", optarg);
        options->seconds = (unsigned)number;
        return BENCH_OK;
    default:
        return BENCH_USAGE; /* getopt_long has printed the line */
    }
}

int bench_parse(struct bench *bench, int argc, char **argv, bool *done)
{
    int status = BENCH_OK;
    int option;

    while (status == BENCH_OK && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == 'h') {
            print_help(bench->kernel);
            *done = true;
            return BENCH_OK;
        }
        status = parse_option(bench, option);
    }
    if (status == BENCH_OK && optind < argc)
        status = usage(bench, "unknown argument", argv[optind]);
    bench->rounds = bench->options.quick ? bench->kernel->rounds_quick : bench->kernel->rounds;
    if (bench->options.rounds != 0)
        bench->rounds = bench->options.rounds;
    *done = status != BENCH_OK;
    return status;
}

int bench_choose_backend(struct bench *bench)
{
    struct umbra_wait_options options = {.block_cycles = 1}; /* given, so that it is not measured */
    struct umbra_wait_policy policy;
    int error = umbra_wait_policy_init(&policy, &options);

    if (error != 0)
        return usage(bench,
                     error == -EINVAL ? "UMBRA_WAIT names no wait back end, or no gap"
                                      : "UMBRA_WAIT names a back end that cannot run here",
                     getenv("UMBRA_WAIT"));
    bench->backend = um_wait_report()->backend[policy.backend].name;
    return BENCH_OK;
}

static int parse_cpu(struct bench *bench, const char *text, unsigned n)
{
    unsigned long cpu;

    if (!parse_number(text, 1u << 20, &cpu) || !umbra_topology_cpu_of(bench->topology, (int)cpu))
        return usage(bench, "no such processor allowed here", text);
    for (unsigned i = 0; i < n; i++)
        if (bench->cpus[i] == (int)cpu)
            return usage(bench, "processor named twice", text);
    bench->cpus[n] = (int)cpu;
    return BENCH_OK;
}

static int parse_cpu_list(struct bench *bench)
{
    char *copy = strdup(bench->options.cpu_list);
    char *rest = copy;
    char *word;
    unsigned n = 0;
    int status = copy != NULL ? BENCH_OK : BENCH_FAILED;

    while (status == BENCH_OK && (word = strsep(&rest, ",")) != NULL) {
        if (n == (bench->kernel->all_cpus ? BENCH_MAX_CPUS : bench->kernel->cpus))
            status = usage(bench, "too many processors", bench->options.cpu_list);
        else
            status = parse_cpu(bench, word, n++);
    }
    if (status == BENCH_OK && n < bench->kernel->cpus)
        status = usage(bench, "too few processors", bench->options.cpu_list);
    bench->n_cpus = n;
    free(copy);
    return status;
}

/* Those the process may use, as they are numbered; how many. */
static unsigned every_cpu(struct bench *bench)
{
    unsigned allowed = umbra_topology_info(bench->topology)->cpus;

    for (unsigned n = 0; n < allowed && n < BENCH_MAX_CPUS; n++)
        bench->cpus[n] = umbra_topology_info(bench->topology)->cpu[n].cpu;
    if (allowed > BENCH_MAX_CPUS)
        fprintf(stderr, "%s: only %d of %u processors\n", bench->kernel->name, BENCH_MAX_CPUS,
                allowed);
    return allowed < BENCH_MAX_CPUS ? allowed : BENCH_MAX_CPUS;
}

/* The first allowed hardware thread and those nearest to it: its SMT siblings first. */
static int nearest_cpus(struct bench *bench)
{
    bench->cpus[0] = umbra_topology_info(bench->topology)->cpu[0].cpu;
    for (unsigned n = 1; n < bench->kernel->cpus; n++) {
        bench->cpus[n] = umbra_topology_nearest(bench->topology, bench->cpus[0], bench->cpus, n);
        if (bench->cpus[n] < 0)
            return bench->cpus[n];
    }
    bench->n_cpus = bench->kernel->cpus;
    return 0;
}

int bench_choose_cpus(struct bench *bench)
{
    int error = umbra_topology_create(NULL, &bench->topology);

    if (error != 0) {
        fprintf(stderr, "%s: cannot read the topology: %s\n", bench->kernel->name,
                umbra_last_error_text());
        return BENCH_FAILED;
    }
    if (umbra_topology_info(bench->topology)->cpus < bench->kernel->cpus) {
        fprintf(stderr, "%s: needs %u processors, this process may use %u\n", bench->kernel->name,
                bench->kernel->cpus, umbra_topology_info(bench->topology)->cpus);
        return BENCH_SKIPPED;
    }
    if (bench->options.cpu_list != NULL)
        return parse_cpu_list(bench);
    if (bench->kernel->all_cpus) {
        bench->n_cpus = every_cpu(bench);
        return BENCH_OK;
    }
    return nearest_cpus(bench) == 0 ? BENCH_OK : BENCH_FAILED;
}

static bool select_rows(struct bench *bench, const char *name)
{
    bool found = false;

    for (unsigned i = 0; i < bench->n_rows; i++)
        if (strcmp(bench->rows[i]->name, name) == 0)
            bench->rows[i]->shown = found = true;
    return found;
}

static int select_only(struct bench *bench)
{
    char *copy = strdup(bench->options.only);
    char *rest = copy;
    char *word;
    int status = copy != NULL ? BENCH_OK : BENCH_FAILED;

    while (status == BENCH_OK && (word = strsep(&rest, ",")) != NULL)
        if (!select_rows(bench, word))
            status = usage(bench, "unknown contender", word);
    free(copy);
    return status;
}

/* Shown are the chosen rows and their limits; what a shown row is the best of runs unseen. */
int bench_choose_rows(struct bench *bench)
{
    int status = BENCH_OK;

    for (unsigned i = 0; i < bench->n_rows; i++)
        bench->rows[i]->shown = bench->options.only == NULL && !bench->rows[i]->hidden;
    if (bench->options.only != NULL)
        status = select_only(bench);
    for (unsigned i = 0; i < bench->n_rows; i++)
        if (bench->rows[i]->shown && bench->rows[i]->limit != NULL)
            bench->rows[i]->limit->shown = true;
    for (unsigned i = 0; i < bench->n_rows; i++) {
        struct bench_row *row = bench->rows[i];

        row->runs = row->shown || (row->part_of != NULL && row->part_of->shown);
    }
    return status;
}
