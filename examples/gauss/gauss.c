/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Solves a dense system of linear equations by Gaussian elimination, in several ways, and says how
 * long each took and how good its answer is.
 *
 *     gauss [--size N] [--seed S] [--only NAME[,NAME ...]] [--processors P] [--sides S]
 *           [--group ROWS] [--block COLUMNS] [--rounds R]
 *     gauss --matrix FILE [--rhs FILE] [--solution FILE] ...
 *     gauss --pivot partial ...
 *
 * The ways take turns, round by round; times are medians. Exit status: 0; 1 if an answer was wrong
 * or something could not be had; 2 for a bad argument or a malformed file.
 */
#define _GNU_SOURCE
#include "../memory.h"
#include "../options.h"
#include "../output.h"
#include "../program.h"
#include "rows.h"
#include "variants.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/cpu.h>

const char program_name[] = "gauss";

#define SIZE_MOST 100000
#define SIDES_MOST 100000
#define PROCESSORS_MOST 1024
#define ROUNDS_MOST 10000

static struct variant {
    struct way way;
    eliminate_fn *eliminate;
    bool pivots;                          /* can choose them */
    bool solves;                          /* leaves the answer, not a triangle */
    double *eliminate_ms, *substitute_ms; /* one a round */
    double error, residual;               /* the largest */
} variants[] = {
    {.way.name = "serial",
     .eliminate = eliminate_serial,
     .way.about = "one processor, pivot by pivot",
     .pivots = true},
#ifdef GAUSS_OPENMP
    {.way.name = "openmp-rows",
     .eliminate = eliminate_openmp,
     .way.about = "OpenMP, a barrier a pivot",
     .pivots = true},
#endif
    {.way.name = "umbra-team",
     .eliminate = eliminate_team,
     .way.about = "a team, a barrier a pivot",
     .pivots = true},
    {.way.name = "pthread-mu1",
     .eliminate = eliminate_mu1,
     .way.about = "threads, an event a pivot"},
    {.way.name = "pthread-mu2",
     .eliminate = eliminate_mu2,
     .way.about = "threads, all meet at each pivot"},
    {.way.name = "umbra-mu1k",
     .eliminate = eliminate_mu1k,
     .way.about = "fibers, an event a pivot"},
    {.way.name = "umbra-mu2k",
     .eliminate = eliminate_mu2k,
     .way.about = "fibers, all meet at each pivot"},
    {.way.name = "umbra-mu1k-pure",
     .eliminate = eliminate_mu1k_pure,
     .way.about = "the same as its paper has it"},
    {.way.name = "umbra-mu2k-pure",
     .eliminate = eliminate_mu2k_pure,
     .way.about = "the same as its paper has it"},
#ifdef GAUSS_OPENMP
    {.way.name = "openmp-blocked",
     .eliminate = eliminate_openmp_blocked,
     .way.about = "OpenMP by blocks, a barrier a panel",
     .pivots = true},
#endif
    {.way.name = "umbra-blocked",
     .eliminate = eliminate_blocked,
     .way.about = "fibers by blocks",
     .pivots = true},
#ifdef GAUSS_DGESV
    {.way.name = "dgesv",
     .eliminate = eliminate_dgesv,
     .way.about = "LAPACK, by OpenBLAS, to the answer; pivots always",
     .pivots = true,
     .solves = true},
#endif
};

#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

struct options {
    size_t n;
    size_t seed;
    size_t rounds;
    const char *named;                   /* "--only" if it names ways, or NULL */
    const char *generated;               /* the option that asks for a generated system, or NULL */
    const char *matrix, *rhs, *solution; /* files, or NULL */
    struct setting setting;
};

/* ---- arguments ---- */

static bool read_pivoting(const char *text, void *pivoting)
{
    *(bool *)pivoting = strcmp(text, "partial") == 0;
    return *(bool *)pivoting || strcmp(text, "none") == 0;
}

/* Ways that cannot choose pivots: an error if one was named; the others are left out. */
static void show_pivoting(const char *named)
{
    for (size_t v = 0; v < VARIANTS; v++) {
        if (!variants[v].way.hidden && !variants[v].pivots && named)
            refuse(variants[v].way.name, "--pivot partial: cannot choose pivots");
        variants[v].way.hidden = variants[v].way.hidden || !variants[v].pivots;
    }
}

/* What options mean together. */
static void check_options(const struct options *options)
{
    if (options->matrix && options->generated)
        refuse(options->matrix, "--matrix: not with %s", options->generated);
    if (options->rhs && !options->matrix)
        refuse(options->rhs, "--rhs: not without --matrix");
    if (options->setting.pivoting)
        show_pivoting(options->named);
}

static void read_options(int argc, char **argv, struct options *options)
{
    static const struct ways ways = {variants, VARIANTS, sizeof(variants[0]), .column = 16};
    struct setting *setting = &options->setting;
    const struct option_row rows[] = {
        {"--size", "N", "unknowns, 2400 by default", .number = {&options->n, 1, SIZE_MOST},
         .given = &options->generated},
        {"--seed", "S", "of the system's numbers", .number = {&options->seed, 0, SIZE_MAX},
         .given = &options->generated},
        {"--processors", "P", "to use; all by default",
         .number = {&setting->processors, 1, PROCESSORS_MOST}},
        {"--sides", "S", "threads or fibers among which the rows are dealt, 160 by default",
         .number = {&setting->sides, 1, SIDES_MOST}},
        {"--group", "ROWS", "consecutive rows that are dealt together, 1 by default",
         .number = {&setting->group_rows, 1, SIZE_MOST}},
        {"--block", "COLUMNS", "to eliminate at a time, in the ways by blocks, 192 by default",
         .number = {&setting->block, 1, SIZE_MOST}},
        {"--rounds", "R", "3 by default", .number = {&options->rounds, 1, ROUNDS_MOST}},
        {"--matrix", "FILE", "coefficients, in the Matrix Market format", .text = &options->matrix},
        {"--rhs", "FILE", "right-hand sides, the same; by default the answer is all ones",
         .text = &options->rhs},
        {"--solution", "FILE", "where to write the last answer, the same",
         .text = &options->solution},
        {"--pivot", "HOW", "none, by default, or partial",
         .by = {read_pivoting, &setting->pivoting}, .wrong = "--pivot: neither none nor partial"},
        {"--only", "NAMES", .ways = &ways, .given = &options->named},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "usage: gauss [--size N] [--seed S] [--only NAME[,NAME ...]] [--processors P]\n"
                 "             [--sides S] [--group ROWS] [--block COLUMNS] [--rounds R]\n"
                 "       gauss --matrix FILE [--rhs FILE] [--solution FILE] ...\n"
                 "       gauss --pivot partial ...\n",
        .column = 18,
        .rows = rows,
    };

    options_read(&table, argc, argv);
    check_options(options);
}

/* ---- the system: functions give an exit status, and what failed has been said ---- */

/* What there is to solve, and room to do so. */
struct task {
    struct mm_reader matrix, rhs;
    struct system system, work;
    double *x, *times;
    struct output solution;
};

static int refuse_file(const struct mm_reader *reader)
{
    fprintf(stderr, "gauss: %s\n", reader->problem);
    return 2;
}

/* Opens the files, which say how many unknowns there are. */
static int open_files(struct task *task, struct options *options)
{
    struct mm_reader *matrix = &task->matrix, *rhs = &task->rhs;

    if (mm_open(matrix, options->matrix) != 0)
        return refuse_file(matrix);
    if (matrix->rows != matrix->columns) {
        mm_refuse(matrix, "not square");
        return refuse_file(matrix);
    }
    options->n = matrix->rows;
    if (options->rhs && mm_open(rhs, options->rhs) != 0)
        return refuse_file(rhs);
    if (options->rhs && (rhs->rows != matrix->rows || rhs->columns != 1)) {
        mm_refuse(rhs, "not one column with a number for each row of the matrix");
        return refuse_file(rhs);
    }
    return 0;
}

static int make_room(struct task *task, const struct options *options)
{
    double n = (double)options->n;

    if (memory_suffices(2 * sizeof(double) * n * n)) {
        task->x = malloc(options->n * sizeof(*task->x));
        task->times = malloc(2 * VARIANTS * options->rounds * sizeof(*task->times));
        if (task->x && task->times && system_create(&task->system, options->n) == 0 &&
            system_create(&task->work, options->n) == 0)
            return 0;
    }
    fprintf(stderr, "gauss: not enough memory for %zu unknowns\n", options->n);
    return 1;
}

static int fill(struct task *task, const struct options *options)
{
    if (!options->matrix) {
        system_generate(&task->system, options->seed);
        return 0;
    }
    if (system_read(&task->system, &task->matrix) != 0)
        return refuse_file(&task->matrix);
    if (options->rhs && system_read_rhs(&task->system, &task->rhs) != 0)
        return refuse_file(&task->rhs);
    return 0;
}

/* ---- measuring ---- */

static double ms_since(uint64_t begin)
{
    return (double)(umbra_now_ns() - begin) / 1e6;
}

static void take_answer(const struct system *work, double *x)
{
    for (size_t i = 0; i < work->n; i++)
        x[i] = system_row(work, i)[work->n];
}

/* One way, once. */
static int run(struct variant *variant, struct task *task, const struct options *options,
               size_t round)
{
    uint64_t begin;
    double error, residual;
    size_t zero;
    int failed;

    system_copy(&task->work, &task->system);
    begin = umbra_now_ns();
    failed = variant->eliminate(&task->work, &options->setting);
    variant->eliminate_ms[round] = ms_since(begin);
    if (failed) {
        fprintf(stderr, "gauss: %s: %s\n", variant->way.name,
                failed == -EDOM ? "the system is singular" : error_text(failed));
        return 1;
    }
    zero = variant->solves ? options->n : rows_singular(&task->work);
    if (zero < options->n) {
        fprintf(stderr, "gauss: %s: the system is singular: nothing is left of pivot %zu of %zu\n",
                variant->way.name, zero + 1, options->n);
        return 1;
    }
    begin = umbra_now_ns();
    if (variant->solves)
        take_answer(&task->work, task->x);
    else
        rows_substitute_back(&task->work, task->x);
    variant->substitute_ms[round] = ms_since(begin);
    error = system_backward_error(&task->system, task->x);
    residual = system_residual(&task->system, task->x);
    variant->error = fmax(variant->error, error);
    variant->residual = fmax(variant->residual, residual);
    if (!(error <= 4 * DBL_EPSILON * (double)options->n)) {
        fprintf(stderr, "gauss: %s: the answer is wrong: backward error %g\n", variant->way.name,
                error);
        return 1;
    }
    return 0;
}

static void report_left_out(void)
{
    const char *before = "without";

    for (size_t v = 0; v < VARIANTS; v++)
        if (!variants[v].pivots) {
            printf("%s %s", before, variants[v].way.name);
            before = ",";
        }
    printf(", which cannot choose pivots\n");
}

static void report(const struct options *options)
{
    printf("%zu unknowns, %zu processors, %zu sides, %zu rows a group, %zu rounds%s\n", options->n,
           options->setting.processors, options->setting.sides, options->setting.group_rows,
           options->rounds, options->setting.pivoting ? ", partial pivoting" : "");
    if (options->setting.pivoting && !options->named)
        report_left_out();
    printf("%-16s %14s %14s %16s %10s\n", "", "eliminate, ms", "substitute, ms", "backward error",
           "residual");
    for (size_t v = 0; v < VARIANTS; v++)
        if (!variants[v].way.hidden)
            printf("%-16s %14.2f %14.2f %16.1e %10.1e\n", variants[v].way.name,
                   median(variants[v].eliminate_ms, options->rounds),
                   median(variants[v].substitute_ms, options->rounds), variants[v].error,
                   variants[v].residual);
}

static int measure(struct task *task, const struct options *options)
{
    for (size_t v = 0; v < VARIANTS; v++) {
        variants[v].eliminate_ms = task->times + 2 * v * options->rounds;
        variants[v].substitute_ms = variants[v].eliminate_ms + options->rounds;
    }
    for (size_t round = 0; round < options->rounds; round++)
        for (size_t v = 0; v < VARIANTS; v++)
            if (!variants[v].way.hidden && run(&variants[v], task, options, round) != 0)
                return 1;
    report(options);
    return 0;
}

int main(int argc, char **argv)
{
    struct options options = {.n = 2400,
                              .seed = 1,
                              .rounds = 3,
                              .setting = {.processors = 0, .sides = 160, .group_rows = 1}};
    struct task task = {0};
    int status = 0;

    read_options(argc, argv, &options);
    if (options.setting.processors == 0)
        options.setting.processors = processors_here();
    if (options.matrix)
        status = open_files(&task, &options);
    if (status == 0)
        status = make_room(&task, &options);
    if (status == 0)
        status = fill(&task, &options);
    if (status == 0)
        status = output_open(&task.solution, "--solution", options.solution);
    if (status == 0)
        status = measure(&task, &options);
    if (status == 0 && task.solution.file)
        mm_write_column(task.solution.file, task.x, options.n);
    status = output_close(&task.solution, status);
    mm_close(&task.matrix);
    mm_close(&task.rhs);
    system_destroy(&task.system);
    system_destroy(&task.work);
    free(task.times);
    free(task.x);
    return printed(status);
}
