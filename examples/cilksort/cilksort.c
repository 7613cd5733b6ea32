/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cilksort: a sort whose tasks are made while it runs, in several ways; says how long each took and
 * how many tasks there were.
 *
 *     cilksort [--count N] [--input random|sorted|reversed] [--seed S] [--cutoff N]
 *              [--only NAME[,NAME ...]] [--processors P] [--rounds R]
 *
 * The ways take turns, round by round; times are medians. Exit status: 0; 1 if the numbers are not in
 * order or something could not be had; 2 for a bad argument.
 */
#define _GNU_SOURCE
#include "../memory.h"
#include "../options.h"
#include "../program.h"
#include "input.h"
#include "variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/cpu.h>

const char program_name[] = "cilksort";

#define COUNT_MOST 1000000000
#define PROCESSORS_MOST 1024
#define ROUNDS_MOST 10000

static struct variant {
    struct way way;
    sort_fn *sort;
    size_t tasks;
    double *ms; /* one a round */
} variants[] = {
    {.way.name = "qsort", .sort = sort_qsort, .way.about = "the C library's, one processor"},
    {.way.name = "serial", .sort = sort_serial, .way.about = "Cilksort as calls, one processor"},
    {.way.name = "umbra-task", .sort = sort_umbra, .way.about = "Cilksort, Umbra's tasks"},
#ifdef CILKSORT_OPENMP
    {.way.name = "openmp", .sort = sort_openmp, .way.about = "Cilksort, OpenMP's tasks"},
#endif
#ifdef CILKSORT_TBB
    {.way.name = "tbb", .sort = sort_tbb, .way.about = "oneTBB's parallel_sort"},
#endif
};

#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

struct options {
    enum input input;
    size_t seed, rounds;
    struct setting setting;
    uint64_t sum; /* of the numbers */
};

static bool read_input(const char *text, void *input)
{
    return input_read(text, input);
}

static void read_options(int argc, char **argv, struct options *options)
{
    static const struct ways ways = {variants, VARIANTS, sizeof(variants[0]), .column = 12};
    struct setting *setting = &options->setting;
    const struct option_row rows[] = {
        {"--count", "N", "numbers, 3000000 by default",
         .number = {&setting->part.count, 1, COUNT_MOST}},
        {"--input", "ORDER", "random, sorted or reversed", .by = {read_input, &options->input},
         .wrong = "--input: not random, sorted or reversed"},
        {"--seed", "S", "of random numbers", .number = {&options->seed, 0, SIZE_MAX}},
        {"--cutoff", "N", "numbers that are not divided, 2048 by default",
         .number = {&setting->part.cutoff, CUTOFF_LEAST, COUNT_MOST}},
        {"--processors", "P", "to use; all by default",
         .number = {&setting->processors, 1, PROCESSORS_MOST}},
        {"--rounds", "R", "3 by default", .number = {&options->rounds, 1, ROUNDS_MOST}},
        {"--only", "NAMES", .ways = &ways},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "usage: cilksort [--count N] [--input random|sorted|reversed] [--seed S]\n"
                 "                [--cutoff N] [--only NAME[,NAME ...]] [--processors P]\n"
                 "                [--rounds R]\n",
        .column = 18,
        .rows = rows,
    };

    options_read(&table, argc, argv);
}

/* Sorts once, in one way. An exit status; what failed has been said. */
static int run(struct variant *variant, struct options *options, size_t round)
{
    struct setting *setting = &options->setting;
    const struct part *part = &setting->part;
    uint64_t begin;
    int error;

    input_fill(part->numbers, part->count, options->input, options->seed);
    options->sum = input_sum(part->numbers, part->count);
    begin = umbra_now_ns();
    error = variant->sort(setting);
    variant->ms[round] = (double)(umbra_now_ns() - begin) / 1e6;
    variant->tasks = setting->tasks;
    if (error) {
        fprintf(stderr, "cilksort: %s: %s\n", variant->way.name, error_text(error));
        return 1;
    }
    if (input_in_order(part->numbers, part->count) &&
        input_sum(part->numbers, part->count) == options->sum)
        return 0;
    fprintf(stderr, "cilksort: %s: the numbers are not in order\n", variant->way.name);
    return 1;
}

static void report(const struct options *options)
{
    const struct setting *setting = &options->setting;

    printf("%zu %s numbers, %zu not divided, %zu processors, %zu rounds\n", setting->part.count,
           input_name(options->input), setting->part.cutoff, setting->processors, options->rounds);
    printf("%-12s %12s %10s\n", "", "ms", "tasks");
    for (size_t v = 0; v < VARIANTS; v++) {
        char tasks[24] = "-";

        if (variants[v].way.hidden)
            continue;
        if (variants[v].tasks)
            snprintf(tasks, sizeof(tasks), "%zu", variants[v].tasks);
        printf("%-12s %12.3f %10s\n", variants[v].way.name, median(variants[v].ms, options->rounds),
               tasks);
    }
    if (setting->inlined + setting->called + setting->fibers > 0)
        printf("umbra-task, last: %zu run by the fork, %zu by the join, %zu in fibers\n",
               setting->inlined, setting->called, setting->fibers);
}

static int measure(struct options *options)
{
    int status = 0;

    for (size_t round = 0; round < options->rounds && status == 0; round++)
        for (size_t v = 0; v < VARIANTS && status == 0; v++)
            if (!variants[v].way.hidden)
                status = run(&variants[v], options, round);
    if (status == 0)
        report(options);
    return status;
}

int main(int argc, char **argv)
{
    struct options options = {
        .seed = 1, .rounds = 3, .setting.part = {.count = 3000000, .cutoff = CUTOFF}};
    struct part *part = &options.setting.part;
    double *ms;
    int status = 1;

    read_options(argc, argv, &options);
    if (options.setting.processors == 0)
        options.setting.processors = processors_here();
    if (memory_suffices(2.0 * sizeof(*part->numbers) * (double)part->count))
        part->numbers = malloc(2 * part->count * sizeof(*part->numbers));
    ms = calloc(VARIANTS * options.rounds, sizeof(*ms));
    for (size_t v = 0; ms && v < VARIANTS; v++)
        variants[v].ms = ms + v * options.rounds;
    if (part->numbers && ms) {
        part->room = part->numbers + part->count;
        status = measure(&options);
    } else {
        fprintf(stderr, "cilksort: not enough memory for %zu numbers\n", part->count);
    }
    free(part->numbers);
    free(ms);
    return printed(status);
}
