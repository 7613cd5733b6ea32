/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Heat that spreads through a body, step by step, in several ways; says how long each took and how
 * far it is from what the mathematics says.
 *
 *     heat [--nodes SIZE] [--block SIZE] [--steps N] [--only NAME[,NAME ...]] [--processors P]
 *          [--rounds R] [--picture FILE.png] [--taken N]
 *
 * A SIZE is one number, or three: 100 or 200x100x50. The ways take turns, round by round; times are
 * medians. With --taken another program uses a processor, the first being 0, while the second half of
 * the steps is done. Exit status: 0; 1 if a result was wrong or something could not be had; 2 for a bad
 * argument.
 */
#define _GNU_SOURCE
#include "../output.h"
#include "arguments.h"
#include "picture.h"
#include "taker.h"
#include "variants.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/cpu.h>

const char program_name[] = "heat";

#define STEPS_MOST 100000000
#define PROCESSORS_MOST 1024
#define ROUNDS_MOST 10000
#define ERROR_MOST 1e-12

/* What is measured of a way, in each round. */
enum {
    STEP, /* milliseconds a step */
    BEFORE,
    AFTER,  /* the same of the steps in each half */
    SLOWER, /* AFTER / BEFORE */
    LOST,   /* the share of all processors' time in the second half that others were given */
    MEASURES
};

static struct variant {
    struct way way;
    spread_fn *spread;
    bool elsewhere;             /* in other processes: leaves nothing in the body */
    double *measured[MEASURES]; /* one a round */
    double error;
    size_t bytes; /* of all arrays */
} variants[] = {
    {.way.name = "serial",
     .spread = spread_serial,
     .way.about = "one processor, the body as a whole"},
    {.way.name = "umbra-dispatch",
     .spread = spread_dispatch,
     .way.about = "H-Dispatch: workers pull blocks"},
    {.way.name = "umbra-dispatch-pure",
     .spread = spread_dispatch_pure,
     .way.about = "H-Dispatch as its paper has it, on ports"},
    {.way.name = "umbra-dispatch-ahead",
     .spread = spread_dispatch_ahead,
     .way.about = "H-Dispatch: workers do not wait for the end of a step"},
    {.way.name = "umbra-scatter-gather",
     .spread = spread_scatter_gather,
     .way.about = "ports: a message and a task a block"},
#ifdef HEAT_OPENMP
    {.way.name = "openmp-static",
     .spread = spread_openmp_static,
     .way.about = "OpenMP, blocks dealt out"},
    {.way.name = "openmp-dynamic",
     .spread = spread_openmp_dynamic,
     .way.about = "OpenMP, a block at a time"},
    {.way.name = "openmp-guided",
     .spread = spread_openmp_guided,
     .way.about = "OpenMP, fewer and fewer"},
    {.way.name = "openmp-tasks",
     .spread = spread_openmp_tasks,
     .way.about = "OpenMP, a task a block"},
    {.way.name = "openmp-depend",
     .spread = spread_openmp_depend,
     .way.about = "OpenMP, tasks that wait for their neighbours"},
#endif
#ifdef HEAT_TBB
    {.way.name = "tbb", .spread = spread_tbb, .way.about = "oneTBB, blocks where they were before"},
#endif
#ifdef HEAT_MPIEXEC
    {.way.name = "mpi",
     .spread = spread_mpi,
     .elsewhere = true,
     .way.about = "MPI, a rank a processor, with copied planes"},
#endif
};

#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

struct options {
    size_t nodes[3];
    size_t rounds;
    const char *picture; /* a file, or NULL */
    int taken;           /* a processor, or -1 */
    struct setting setting;
};

/* ---- arguments ---- */

/* As the system numbers it. */
static bool read_processor(const char *text, void *number)
{
    size_t left = number_of("--taken", text, 0, CPU_SETSIZE - 1);
    cpu_set_t here;

    CPU_ZERO(&here);
    sched_getaffinity(0, sizeof(here), &here);
    for (size_t processor = 0; processor < CPU_SETSIZE; processor++)
        if (CPU_ISSET(processor, &here) && left-- == 0) {
            *(int *)number = (int)processor;
            return true;
        }
    return false;
}

/* What ways in other processes cannot do. */
static void check_elsewhere(const struct options *options)
{
    const size_t *nodes = options->nodes;
    bool here = false;

    for (size_t v = 0; v < VARIANTS; v++) {
        here = here || (!variants[v].way.hidden && !variants[v].elsewhere);
        if (variants[v].way.hidden || !variants[v].elsewhere ||
            (nodes[X] <= RANKS_SIZE_MOST && nodes[Y] <= RANKS_SIZE_MOST))
            continue;
        fprintf(stderr, "heat: --nodes: %s takes %d at most but in the last: '%zux%zux%zu'\n",
                variants[v].way.name, RANKS_SIZE_MOST, nodes[X], nodes[Y], nodes[Z]);
        exit(2);
    }
    if (options->picture && !here)
        refuse(options->picture, "--picture: not of other processes' bodies alone");
}

static void read_options(int argc, char **argv, struct options *options)
{
    static const struct ways ways = {variants, VARIANTS, sizeof(variants[0]), .column = 20};
    struct setting *setting = &options->setting;
    const struct option_row rows[] = {
        {"--nodes", "SIZE", "of the body, 100 (so many in each direction) by default, or 90x60x30",
         .by = {read_size, options->nodes}, .wrong = "--nodes: " SIZE_WRONG},
        {"--block", "SIZE", "nodes of a block, the same, 100x10x5 by default",
         .by = {read_size, setting->edge}, .wrong = "--block: " SIZE_WRONG},
        {"--steps", "N", "of time, 100 by default", .number = {&setting->steps, 0, STEPS_MOST}},
        {"--processors", "P", "to use; all by default",
         .number = {&setting->processors, 1, PROCESSORS_MOST}},
        {"--rounds", "R", "3 by default", .number = {&options->rounds, 1, ROUNDS_MOST}},
        {"--picture", "FILE", "where to draw the plane in the middle, at the end",
         .text = &options->picture},
        {"--taken", "N",
         "another program uses a processor in the second half of the steps: 0 is\n"
         "the first that this program may use",
         .by = {read_processor, &options->taken},
         .wrong = "--taken: this program may not use so many processors"},
        {"--only", "NAMES", .ways = &ways},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "usage: heat [--nodes SIZE] [--block SIZE] [--steps N] [--only NAME[,NAME ...]]\n"
                 "            [--processors P] [--rounds R] [--picture FILE.png] [--taken N]\n",
        .column = 18,
        .rows = rows,
    };
    char steps[32];

    options_read(&table, argc, argv);
    snprintf(steps, sizeof(steps), "%zu", setting->steps);
    if (options->taken >= 0 && setting->steps < 2)
        refuse(steps, "--steps: --taken needs 2 or more");
    check_elsewhere(options);
}

/* ---- measuring: functions give an exit status, and what failed has been said ---- */

/* One way, once. 0 or a negative errno. */
static int spread(struct variant *variant, struct body *body, struct setting *setting)
{
    uint64_t begin;
    int error;

    if (!variant->elsewhere)
        body_heat(body);
    setting->ms = 0;
    setting_at(setting, BEGUN);
    begin = umbra_now_ns();
    error = variant->spread(body, setting);
    if (error || setting->ms != 0)
        return error;
    setting->ms = (double)(umbra_now_ns() - begin) / 1e6;
    setting_at(setting, DONE);
    setting->error = body_error(body, setting->steps);
    setting->bytes = body_bytes(body);
    return 0;
}

/* A run whose second half another program disturbs. */
struct halves {
    struct taker taker;
    struct {
        uint64_t ns;
        double taken_ms; /* what the other program has got */
    } at[MOMENTS];
};

static void note(enum moment moment, void *arg)
{
    struct halves *halves = arg;

    if (moment == HALF_WAY)
        taker_begin(&halves->taker);
    halves->at[moment].taken_ms = taker_ms(&halves->taker);
    halves->at[moment].ns = umbra_now_ns();
}

/* Milliseconds of the half that ended then. */
static double half_ms(const struct halves *halves, enum moment end)
{
    return (double)(halves->at[end].ns - halves->at[end - 1].ns) / 1e6;
}

static void note_halves(struct variant *variant, const struct halves *halves,
                        const struct setting *setting, size_t round)
{
    double first = (double)(setting->steps / 2), second = (double)setting->steps - first;
    double before = half_ms(halves, HALF_WAY) / first, after = half_ms(halves, DONE) / second;

    variant->measured[BEFORE][round] = before;
    variant->measured[AFTER][round] = after;
    variant->measured[SLOWER][round] = after / before;
    variant->measured[LOST][round] = (halves->at[DONE].taken_ms - halves->at[HALF_WAY].taken_ms) /
                                     (half_ms(halves, DONE) * (double)setting->processors);
}

static int spread_in_halves(struct variant *variant, struct body *body, struct setting *setting,
                            int taken, size_t round)
{
    struct halves halves = {.at = {{0}}};
    int error = taker_create(&halves.taker, taken);

    if (error)
        return error;
    setting->at = note;
    setting->at_arg = &halves;
    error = spread(variant, body, setting);
    setting->at = NULL;
    if (!error)
        note_halves(variant, &halves, setting, round);
    taker_destroy(&halves.taker);
    return error;
}

static int run(struct variant *variant, struct body *body, struct options *options, size_t round)
{
    struct setting *setting = &options->setting;
    int error;

    if (options->taken >= 0)
        error = spread_in_halves(variant, body, setting, options->taken, round);
    else
        error = spread(variant, body, setting);
    if (error) {
        fprintf(stderr, "heat: %s: %s\n", variant->way.name, error_text(error));
        return 1;
    }
    variant->measured[STEP][round] = setting->ms / (double)(setting->steps ? setting->steps : 1);
    variant->bytes = setting->bytes;
    variant->error = setting->error > variant->error ? setting->error : variant->error;
    if (!(setting->error < ERROR_MOST)) {
        fprintf(stderr, "heat: %s: the result is wrong: off by %g\n", variant->way.name,
                setting->error);
        return 1;
    }
    return 0;
}

static void report_steps(size_t rounds)
{
    printf("%-20s %14s %14s %10s\n", "", "a step, ms", "memory, MB", "error");
    for (size_t v = 0; v < VARIANTS; v++)
        if (!variants[v].way.hidden)
            printf("%-20s %14.4f %14.2f %10.1e\n", variants[v].way.name,
                   median(variants[v].measured[STEP], rounds), (double)variants[v].bytes / 1e6,
                   variants[v].error);
}

/* Who needs k times as long has lost 1 - 1/k of its speed. */
static void report_halves(const struct options *options)
{
    printf("another program uses processor %d from step %zu on\n"
           "lost: time it got, of all processors' time meanwhile; speed lost: 1 - before / after\n",
           options->taken, options->setting.steps / 2);
    printf("%-20s %14s %14s %8s %8s %11s\n", "", "before, ms", "after, ms", "slower", "lost",
           "speed lost");
    for (size_t v = 0; v < VARIANTS; v++) {
        double value[MEASURES];

        if (variants[v].way.hidden)
            continue;
        for (int m = BEFORE; m < MEASURES; m++)
            value[m] = median(variants[v].measured[m], options->rounds);
        printf("%-20s %14.4f %14.4f %7.2fx %7.1f%% %10.1f%%\n", variants[v].way.name, value[BEFORE],
               value[AFTER], value[SLOWER], 100 * value[LOST], 100 * (1 - 1 / value[SLOWER]));
    }
}

static void report(const struct options *options, const struct body *body)
{
    struct blocks blocks = blocks_of(body, options->setting.edge);

    printf("%zu x %zu x %zu nodes, %zu blocks of %zu x %zu x %zu, %zu steps, %zu processors, %zu "
           "rounds\n",
           body->nodes[X], body->nodes[Y], body->nodes[Z], blocks.all, blocks.edge[X],
           blocks.edge[Y], blocks.edge[Z], options->setting.steps, options->setting.processors,
           options->rounds);
    if (options->taken < 0)
        report_steps(options->rounds);
    else
        report_halves(options);
}

static int measure(struct options *options, struct body *body)
{
    double *times = calloc(VARIANTS * MEASURES * options->rounds, sizeof(*times));
    int status = 0;

    if (!times) {
        fprintf(stderr, "heat: not enough memory for %zu rounds\n", options->rounds);
        return 1;
    }
    for (size_t v = 0; v < VARIANTS; v++)
        for (size_t m = 0; m < MEASURES; m++)
            variants[v].measured[m] = times + (v * MEASURES + m) * options->rounds;
    for (size_t round = 0; round < options->rounds && status == 0; round++)
        for (size_t v = 0; v < VARIANTS && status == 0; v++)
            if (!variants[v].way.hidden)
                status = run(&variants[v], body, options, round);
    if (status == 0)
        report(options, body);
    free(times);
    return status;
}

/* Draws it, if it is asked for. 0, or 1: no, which is said. */
static int draw(const struct body *body, const struct options *options,
                const struct output *picture)
{
    int error = picture->file ? picture_write(body, options->setting.steps, picture->file) : 0;

    return output_status(picture, -error);
}

int main(int argc, char **argv)
{
    struct options options = {.nodes = {100, 100, 100},
                              .rounds = 3,
                              .taken = -1,
                              .setting = {.steps = 100, .edge = {100, 10, 5}}};
    struct body body;
    struct output picture = {.file = NULL};
    int status;

    read_options(argc, argv, &options);
    if (options.setting.processors == 0)
        options.setting.processors = processors_here();
    if (body_create(&body, options.nodes) != 0) {
        fprintf(stderr, "heat: not enough memory for %zu x %zu x %zu nodes\n", options.nodes[X],
                options.nodes[Y], options.nodes[Z]);
        return 1;
    }
    status = output_open(&picture, "--picture", options.picture);
    if (status == 0)
        status = measure(&options, &body);
    if (status == 0)
        status = draw(&body, &options, &picture);
    status = output_close(&picture, status);
    body_destroy(&body);
    return printed(status);
}
