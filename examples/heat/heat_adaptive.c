/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A hot spot that spreads through a body, with blocks that are looked at more closely while the
 * temperature changes steeply in them: so the number of a step's tasks changes from step to step,
 * and is known when the step is over, not before. A worker that finds a block steep adds its pieces.
 *
 *     heat-adaptive [--nodes SIZE] [--block SIZE] [--bound B] [--steps N] [--processors P]
 *
 * A SIZE is one number, or three: 96 or 96x64x48; a block's are even. Says for the body as it is,
 * for one with half the distance between nodes, and for the adaptive one, serially and with a
 * dispatcher's workers: the time of a step, the largest error of the coarse nodes' values, the part
 * of the heat that was lost or made, the least and the most tasks and fine blocks of a step.
 *
 * Exit status: 0; 1 if a result was wrong or something could not be had; 2 for a bad argument. Right
 * is: the workers' result is the serial one, bit for bit; no heat is lost; the error is smaller than
 * without fine blocks, if there were any, and else the same; with all blocks fine it is the fine
 * body's.
 */
#define _GNU_SOURCE
#include "../memory.h"
#include "../program.h"
#include "adaptive_ways.h"
#include "arguments.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <umbra/cpu.h>

const char program_name[] = "heat-adaptive";

#define STEPS_MOST 100000
#define PROCESSORS_MOST 1024
#define ROUNDING 1e-12 /* of the hottest node, or of all heat */

struct options {
    size_t nodes[3], edge[3], steps, processors;
    double bound;
};

struct result {
    const char *name;
    double ms, error, heat_lost;
    double *means; /* of the coarse nodes, x fastest */
    struct range tasks, fine;
};

enum { COARSE, FINE, SERIAL, WORKERS, RESULTS };

/* ---- the ways ---- */

static void sweep_all(struct body *body, size_t steps)
{
    struct box all = body_box(body);

    for (size_t step = 0; step < steps; step++) {
        body_sweep(body, body_after(body, step), body_after(body, step + 1), &all);
        body_mirror(body, body_after(body, step + 1), &all);
    }
}

/* ---- results ---- */

/* Row by row, so that few additions are of a small number to a large one. */
static double heat_of(const struct body *body, const double *now)
{
    double sum = 0;

    for (size_t z = 0; z < body->nodes[Z]; z++)
        for (size_t y = 0; y < body->nodes[Y]; y++) {
            double row = 0;

            for (size_t x = 0; x < body->nodes[X]; x++)
                row += now[body_at(body, x, y, z)];
            sum += row;
        }
    return sum;
}

/* The values of coarse nodes, of a body with `closer` times as many in each direction, 1 or 2. */
static int take_means(struct result *result, const struct body *body, const double *now,
                      size_t closer, const struct options *options)
{
    const size_t *nodes = options->nodes;
    double *mean = malloc(nodes[X] * nodes[Y] * nodes[Z] * sizeof(*mean));

    result->means = mean;
    if (!mean)
        return -ENOMEM;
    for (size_t z = 0; z < nodes[Z]; z++)
        for (size_t y = 0; y < nodes[Y]; y++)
            for (size_t x = 0; x < nodes[X]; x++)
                *mean++ = closer == 1 ? now[body_at(body, x, y, z)]
                                      : body_mean_of_8(body, now, 2 * x, 2 * y, 2 * z);
    return 0;
}

/* Infinity if one is no number. */
static double worst_of(double worst, double difference)
{
    return isnan(difference) ? INFINITY : fmax(worst, fabs(difference));
}

static double difference(const struct result *a, const struct result *b, const size_t nodes[3])
{
    double worst = 0;

    for (size_t i = 0; i < nodes[X] * nodes[Y] * nodes[Z]; i++)
        worst = worst_of(worst, a->means[i] - b->means[i]);
    return worst;
}

static double error_of(const double *mean, const struct spot *exact, const size_t nodes[3])
{
    double worst = 0;

    for (size_t z = 0; z < nodes[Z]; z++)
        for (size_t y = 0; y < nodes[Y]; y++)
            for (size_t x = 0; x < nodes[X]; x++)
                worst = worst_of(worst, *mean++ - spot_at(exact, x, y, z));
    return worst;
}

/* ---- measuring: functions give 0 or a negative errno ---- */

static int run_body(const struct options *options, size_t closer, struct result *result)
{
    const size_t *n = options->nodes;
    const size_t nodes[] = {closer * n[X], closer * n[Y], closer * n[Z]};
    size_t steps = closer * closer * options->steps;
    struct body body;
    struct spot spot;
    uint64_t begin;
    int error = body_create(&body, nodes);

    if (error)
        return error;
    error = spot_create(&spot, n, closer, body.rate, 0);
    if (!error) {
        body_heat_spot(&body, &spot);
        spot_destroy(&spot);
        result->heat_lost = heat_of(&body, body.array[0]);
        begin = umbra_now_ns();
        sweep_all(&body, steps);
        result->ms = (double)(umbra_now_ns() - begin) / 1e6;
        result->heat_lost = fabs(heat_of(&body, body_after(&body, steps)) / result->heat_lost - 1);
        error = take_means(result, &body, body_after(&body, steps), closer, options);
    }
    body_destroy(&body);
    return error;
}

static int run_adaptive(struct adaptive *adaptive, const struct options *options,
                        adaptive_fn *steps, struct result *result)
{
    struct adaptive_run run = {
        .adaptive = adaptive, .steps = options->steps, .processors = options->processors};
    struct body *body = &adaptive->coarse;
    uint64_t begin;
    double heat;
    int error = adaptive_heat_spot(adaptive);

    if (error)
        return error;
    heat = heat_of(body, body->array[0]);
    begin = umbra_now_ns();
    error = steps(&run);
    result->tasks = run.tasks;
    result->fine = run.fine;
    result->ms = (double)(umbra_now_ns() - begin) / 1e6;
    result->heat_lost = fabs(heat_of(body, body_after(body, options->steps)) / heat - 1);
    return error ? error : take_means(result, body, body_after(body, options->steps), 1, options);
}

static int run_both(const struct options *options, struct result results[RESULTS], bool *same)
{
    struct adaptive serial, workers;
    int error = adaptive_create(&serial, options->nodes, options->edge, options->bound);

    if (error)
        return error;
    error = adaptive_create(&workers, options->nodes, options->edge, options->bound);
    if (!error) {
        error = run_adaptive(&serial, options, adaptive_serial, &results[SERIAL]);
        if (!error)
            error = run_adaptive(&workers, options, adaptive_dispatch, &results[WORKERS]);
        *same = !error && adaptive_same(&serial, &workers, options->steps);
        adaptive_destroy(&workers);
    }
    adaptive_destroy(&serial);
    return error;
}

static int find_errors(const struct options *options, struct result results[RESULTS])
{
    struct spot exact;
    int error = spot_create(&exact, options->nodes, 1, BODY_RATE, options->steps);

    if (error)
        return error;
    for (int r = 0; r < RESULTS; r++)
        results[r].error = error_of(results[r].means, &exact, options->nodes);
    spot_destroy(&exact);
    return 0;
}

/* What is wrong, or NULL. */
static const char *problem_of(const struct options *options, const struct result results[RESULTS],
                              bool same)
{
    const struct result *serial = &results[SERIAL], *workers = &results[WORKERS];

    for (int r = 0; r < RESULTS; r++)
        if (!(results[r].heat_lost < ROUNDING))
            return "heat was lost";
    if (!same)
        return "the workers' result is not the serial one";
    if (serial->tasks.least != workers->tasks.least || serial->tasks.most != workers->tasks.most)
        return "the workers had not as many tasks";
    if (options->bound == 0 && difference(serial, &results[FINE], options->nodes) > ROUNDING)
        return "the result is not that of the fine body";
    if (serial->fine.most == 0 && difference(serial, &results[COARSE], options->nodes) > ROUNDING)
        return "the result is not that of the coarse body";
    if (serial->fine.most > 0 && !(serial->error < results[COARSE].error))
        return "fine blocks made the error no smaller";
    return NULL;
}

static void report(const struct options *options, const struct result results[RESULTS])
{
    const size_t *nodes = options->nodes, *edge = options->edge;

    printf(
        "%zu x %zu x %zu nodes, blocks of %zu x %zu x %zu, bound %g, %zu steps, %zu processors\n",
        nodes[X], nodes[Y], nodes[Z], edge[X], edge[Y], edge[Z], options->bound, options->steps,
        options->processors);
    printf("%-18s %12s %10s %10s %18s %14s\n", "", "a step, ms", "error", "heat lost",
           "tasks a step", "fine blocks");
    for (int r = 0; r < RESULTS; r++) {
        const struct result *result = &results[r];

        printf("%-18s %12.3f %10.2e %10.1e", result->name, result->ms / (double)options->steps,
               result->error, result->heat_lost);
        if (r >= SERIAL)
            printf(" %8zu to %6zu %5zu to %5zu", result->tasks.least, result->tasks.most,
                   result->fine.least, result->fine.most);
        printf("\n");
    }
}

static void say_too_large(const struct options *options)
{
    fprintf(stderr, "heat-adaptive: not enough memory for %zu x %zu x %zu nodes\n",
            options->nodes[X], options->nodes[Y], options->nodes[Z]);
}

/* What there is at the same time of each coarse node, at least: two values of 8 fine ones, and two
 * results; if all blocks are fine, two bodies of both kinds and all four results. */
static bool fits(const struct options *options)
{
    double nodes =
        (double)options->nodes[X] * (double)options->nodes[Y] * (double)options->nodes[Z];
    double values = options->bound > 0 ? 2 * 8 + 2 : 2 * 2 * (1 + 8) + RESULTS;

    return memory_suffices(values * sizeof(double) * nodes);
}

static int measure(const struct options *options)
{
    struct result results[RESULTS] = {[COARSE] = {.name = "coarse"},
                                      [FINE] = {.name = "fine"},
                                      [SERIAL] = {.name = "adaptive"},
                                      [WORKERS] = {.name = "adaptive, workers"}};
    const char *problem = NULL;
    bool same = false;
    int error = run_body(options, 1, &results[COARSE]);

    if (!error)
        error = run_body(options, 2, &results[FINE]);
    if (!error)
        error = run_both(options, results, &same);
    if (!error)
        error = find_errors(options, results);
    if (!error) {
        report(options, results);
        problem = problem_of(options, results, same);
    }
    if (error == -ENOMEM)
        say_too_large(options);
    else if (error)
        fprintf(stderr, "heat-adaptive: %s\n", error_text(error));
    else if (problem)
        fprintf(stderr, "heat-adaptive: %s\n", problem);
    for (int r = 0; r < RESULTS; r++)
        free(results[r].means);
    return error || problem ? 1 : 0;
}

/* ---- arguments ---- */

static bool read_block(const char *text, void *block)
{
    const size_t *edge = block;

    if (!read_size(text, block))
        return false;
    if (edge[X] % 2 != 0 || edge[Y] % 2 != 0 || edge[Z] % 2 != 0)
        refuse(text, "--block: not even");
    return true;
}

static bool read_bound(const char *text, void *bound)
{
    char *end;

    *(double *)bound = strtod(text, &end);
    return end != text && *end == '\0' && *(double *)bound >= 0;
}

static void read_options(int argc, char **argv, struct options *options)
{
    const struct option_row rows[] = {
        {"--nodes", "SIZE", "of the coarse body, 64 (so many in each direction) by default",
         .by = {read_size, options->nodes}, .wrong = "--nodes: " SIZE_WRONG},
        {"--block", "SIZE", "coarse nodes of a block, even, 8 by default",
         .by = {read_block, options->edge}, .wrong = "--block: " SIZE_WRONG},
        {"--bound", "B",
         "slope, from one node to the next, from which on a block is fine;\n"
         "the hottest is 1 to begin with; 0.005 by default, 0 for all blocks",
         .by = {read_bound, &options->bound}, .wrong = "--bound: not a number from 0 on"},
        {"--steps", "N", "of time, 50 by default", .number = {&options->steps, 1, STEPS_MOST}},
        {"--processors", "P", "to use; all by default",
         .number = {&options->processors, 1, PROCESSORS_MOST}},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "usage: heat-adaptive [--nodes SIZE] [--block SIZE] [--bound B] [--steps N]\n"
                 "                     [--processors P]\n",
        .column = 18,
        .rows = rows,
    };

    options_read(&table, argc, argv);
}

int main(int argc, char **argv)
{
    struct options options = {
        .nodes = {64, 64, 64}, .edge = {8, 8, 8}, .steps = 50, .bound = 0.005};

    read_options(argc, argv, &options);
    if (options.processors == 0)
        options.processors = processors_here();
    if (!fits(&options)) {
        say_too_large(&options);
        return 1;
    }
    return printed(measure(&options));
}
