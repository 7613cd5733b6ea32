/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Finds the shortest paths between all pairs of vertices of a directed graph, in several ways, and
 * says how long each took.
 *
 *     apsp [--graph FILE | --edges FILE | --random N [--degree D] [--negative] [--seed S]]
 *          [--type float32|int32] [--block B] [--processors P] [--rounds R]
 *          [--only NAME[,NAME ...]] [--distances FILE] [--path FROM,TO]
 *
 * The ways take turns, round by round; times are medians. All must find the same distances. Exit
 * status: 0; 1 if they differ, if there is a negative cycle, or something could not be had; 2 for a
 * bad argument or a malformed file.
 */
#define _GNU_SOURCE
#include "../lines.h"
#include "../memory.h"
#include "../options.h"
#include "../output.h"
#include "../program.h"
#include "path.h"
#include "roofline.h"
#include "variants.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/core.h>

const char program_name[] = "apsp";

#define VERTICES_MOST 1000000
#define DEGREE_MOST 10000
#define BLOCK_MOST 4096
#define ROUNDS_MOST 10000
#define PATHS_MOST 100
#define PROCESSORS_MOST 1024
#define FLOAT_DIFFERENCE 1e-5 /* relative; whole numbers that a float can hold must be equal */
#define FLOAT_WHOLE 16777216  /* up to which it holds all of them */

static struct variant {
    struct way way;
    solve_fn *solve;
    double *ms; /* one a round */
} variants[] = {
    {.way.name = "plain", .solve = solve_plain, .way.about = "three loops, one processor"},
#ifdef APSP_OPENMP
    {.way.name = "openmp-tasks",
     .solve = solve_openmp_tasks,
     .way.about = "blocks, tasks and barriers"},
    {.way.name = "openmp-depend",
     .solve = solve_openmp_depend,
     .way.about = "blocks, tasks by dependence"},
#endif
    {.way.name = "umbra-ctbpa",
     .solve = solve_ctbpa,
     .way.about = "blocks, a fiber a row, no barrier"},
    {.way.name = "umbra-ctbpa-pure",
     .solve = solve_ctbpa_pure,
     .way.about = "the same as its paper has it"},
};

#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

struct options {
    const char *dimacs, *edges; /* files */
    const char *generated;      /* the option that asks for a generated graph, or NULL */
    size_t n;
    double degree;
    bool negative;
    size_t seed;
    enum element element;
    size_t block;
    size_t rounds;
    const char *distances; /* file to write */
    struct {
        const char *text;
        size_t from, to; /* as the graph's file numbers them */
    } path[PATHS_MOST];
    size_t paths;
    int cpu[PROCESSORS_MOST]; /* that this process may use */
    unsigned cpus;
    struct setting setting;
};

/* ---- arguments ---- */

static bool read_degree(const char *text, void *degree)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= 0 && value <= DEGREE_MOST))
        refuse(text, "--degree: not a number from 0 to %d", DEGREE_MOST);
    *(double *)degree = value;
    return true;
}

/* What follows the number of a vertex, or NULL if there is none. One too large is no vertex of any. */
static const char *read_vertex(const char *text, size_t *vertex)
{
    char *end;

    *vertex = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' ? end : NULL;
}

static bool read_path(const char *text, void *arg)
{
    struct options *options = arg;
    const char *after;

    if (options->paths == PATHS_MOST)
        refuse(text, "--path: %d are asked for before", PATHS_MOST);
    options->path[options->paths].text = text;
    after = read_vertex(text, &options->path[options->paths].from);
    if (!after || *after != ',')
        return false;
    after = read_vertex(after + 1, &options->path[options->paths].to);
    options->paths++;
    return after && !*after;
}

static bool read_type(const char *text, void *element)
{
    *(enum element *)element = strcmp(text, "int32") == 0 ? INT32 : FLOAT32;
    return strcmp(text, "int32") == 0 || strcmp(text, "float32") == 0;
}

/* What options mean together. */
static void check_options(const struct options *options)
{
    if (options->dimacs && options->edges) {
        fprintf(stderr, "apsp: one graph only, not both '%s' and '%s'\n", options->dimacs,
                options->edges);
        exit(2);
    }
    if (options->generated && (options->dimacs || options->edges))
        refuse(options->dimacs ? options->dimacs : options->edges, "%s: not with %s",
               options->dimacs ? "--graph" : "--edges", options->generated);
}

static void read_options(int argc, char **argv, struct options *options)
{
    static const struct ways ways = {variants, VARIANTS, sizeof(variants[0]), .column = 16};
    const char **generated = &options->generated;
    const struct option_row rows[] = {
        {"--graph", "FILE", "in the format of the DIMACS challenge, .gr", .text = &options->dimacs},
        {"--edges", "FILE", "lines of \"from to weight\", vertices from 0",
         .text = &options->edges},
        {"--random", "N", "N vertices, 2400 by default, and edges by chance:",
         .number = {&options->n, 1, VERTICES_MOST}, .given = generated},
        {"--degree", "D", "so many a vertex, 50 by default", .nested = true,
         .by = {read_degree, &options->degree}, .given = generated},
        {"--negative", NULL, "some of them negative", .nested = true, .flag = &options->negative,
         .given = generated},
        {"--seed", "S", "1 by default", .nested = true, .number = {&options->seed, 0, SIZE_MAX},
         .given = generated},
        {"--type", "T", "float32 (default) or int32", .by = {read_type, &options->element},
         .wrong = "--type: neither float32 nor int32"},
        {"--block", "B", "rows of a block, 120 by default",
         .number = {&options->block, 1, BLOCK_MOST}},
        {"--processors", "P", "all by default; more than there are share them",
         .number = {&options->setting.processors, 1, PROCESSORS_MOST}},
        {"--rounds", "R", "3 by default", .number = {&options->rounds, 1, ROUNDS_MOST}},
        {"--only", "NAMES", "of these ways:", .ways = &ways},
        {"--distances", "FILE", "writes all distances, a line a vertex",
         .text = &options->distances},
        {"--path", "FROM,TO", "prints a shortest path; may be repeated", .by = {read_path, options},
         .wrong = "--path: not two vertices, FROM,TO"},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "usage: apsp [--graph FILE | --edges FILE | --random N] [options]\n",
        .column = 20,
        .rows = rows,
    };

    options_read(&table, argc, argv);
    check_options(options);
}

/* ---- the graph ---- */

/* Ends the program if there is no room for the edges, the distances, twice, and others to compare
 * with. */
static void check_memory(const struct options *options, size_t vertices, double edges)
{
    double n = (double)vertices, block = (double)options->block;
    double side = ceil(n / block);

    if (memory_suffices(edges * sizeof(struct edge) + n * n * (ELEMENT_BYTES + sizeof(double)) +
                        side * side * (double)block_bytes(options->block)))
        return;
    fprintf(stderr, "apsp: not enough memory for %zu vertices and %.0f edges\n", vertices, edges);
    exit(1);
}

static void get_graph(const struct options *options, struct graph *graph)
{
    const char *path = options->dimacs ? options->dimacs : options->edges;
    struct lines_fault fault = {0};
    int error;

    if (options->dimacs) {
        error = graph_read_dimacs(graph, path, &fault);
    } else if (options->edges) {
        error = graph_read_edges(graph, path, &fault);
    } else {
        check_memory(options, options->n, (double)options->n * options->degree);
        error =
            graph_generate(graph, options->n, options->degree, options->negative, options->seed);
    }
    if (error == -EINVAL && fault.line)
        fprintf(stderr, "apsp: %s:%zu: %s\n", path, fault.line, fault.text);
    else if (error == -EINVAL)
        fprintf(stderr, "apsp: %s: %s\n", path, fault.text);
    else if (error)
        fprintf(stderr, "apsp: %s: %s\n", path ? path : "the graph", strerror(-error));
    if (error)
        exit(error == -ENOMEM ? 1 : 2);
    check_memory(options, graph->n, (double)graph->edges);
}

/* Whether the numbers can hold every distance. */
static void check_graph(const struct options *options, const struct graph *graph)
{
    double longest = graph_longest(graph);
    double most = graph_has_negative(graph) ? INT32_LONGEST : INT32_NO_PATH - 1;

    if (options->element == FLOAT32 && longest > FLT_MAX) {
        fprintf(stderr, "apsp: --type float32: a path might be %g long, and %g is the most\n",
                longest, (double)FLT_MAX);
        exit(2);
    }
    if (options->element == INT32 && (!graph->whole || longest > most)) {
        fprintf(stderr,
                graph->whole
                    ? "apsp: --type int32: a path might be %.0f long, and %.0f is the most\n"
                    : "apsp: --type int32: there are weights with a fraction\n",
                longest, most);
        exit(2);
    }
    for (size_t p = 0; p < options->paths; p++)
        if (options->path[p].from - graph->first >= graph->n ||
            options->path[p].to - graph->first >= graph->n)
            refuse(options->path[p].text, "--path: the vertices are %zu to %zu", graph->first,
                   graph->first + graph->n - 1);
}

/* The processors that this process may use. 0, or it has been said why not. */
/* A float holds whole numbers up to a limit, and where some weights are negative, what was rounded in
 * long sums is more of the short ones that are left. */
static void expect_rounding(const struct options *options, struct graph *graph)
{
    double longest = graph_longest(graph);

    if (options->element == INT32)
        return;
    graph->whole = graph->whole && longest <= FLOAT_WHOLE;
    graph->slack = graph_has_negative(graph) ? FLOAT_DIFFERENCE * longest : 0;
}

static int get_processors(struct options *options)
{
    struct umbra_topology *topology;
    int error = umbra_topology_create(NULL, &topology);

    if (error) {
        fprintf(stderr, "apsp: the processors: %s\n", umbra_last_error_text());
        return 1;
    }
    while (options->cpus < PROCESSORS_MOST && options->cpus < umbra_topology_info(topology)->cpus) {
        options->cpu[options->cpus] = umbra_topology_info(topology)->cpu[options->cpus].cpu;
        options->cpus++;
    }
    umbra_topology_destroy(topology);
    if (options->setting.processors == 0)
        options->setting.processors = options->cpus;
    return 0;
}

/* ---- measuring ---- */

struct run {
    struct graph graph;
    struct blocks blocks; /* what is computed in */
    double *expected;     /* distances of the first way, n x n */
    bool compared;        /* they are there */
    double *roofline;     /* relaxations a second, one a round */
    struct output distances;
};

static bool as_expected(const struct graph *graph, double distance, double expected)
{
    if (distance == expected)
        return true;
    return !graph->whole &&
           fabs(distance - expected) <= FLOAT_DIFFERENCE * fabs(expected) + graph->slack;
}

/* Compares with the first way's distances, or keeps them. */
static int check(struct run *run, const struct variant *variant)
{
    size_t n = run->graph.n;
    bool first = !run->compared;

    run->compared = true;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double distance = blocks_distance(&run->blocks, i, j);

            if (first) {
                run->expected[i * n + j] = distance;
            } else if (!as_expected(&run->graph, distance, run->expected[i * n + j])) {
                fprintf(stderr, "apsp: %s: from %zu to %zu: %.9g instead of %.9g\n",
                        variant->way.name, i + run->graph.first, j + run->graph.first, distance,
                        run->expected[i * n + j]);
                return 1;
            }
        }
    return 0;
}

/* One way, once. 0, or what failed has been said. */
static int take_turn(struct run *run, struct variant *variant, const struct options *options,
                     size_t round)
{
    uint64_t begin;
    size_t vertex = 0;
    int error;

    blocks_fill(&run->blocks, &run->graph);
    begin = umbra_now_ns();
    error = variant->solve(&run->blocks, &options->setting, &vertex);
    variant->ms[round] = (double)(umbra_now_ns() - begin) / 1e6;
    if (error == -EDOM)
        fprintf(stderr, "apsp: %s: a cycle of negative length leads through vertex %zu\n",
                variant->way.name, vertex + run->graph.first);
    else if (error)
        fprintf(stderr, "apsp: %s: %s\n", variant->way.name, error_text(error));
    return error ? 1 : check(run, variant);
}

static void report(struct run *run, const struct options *options)
{
    double n = (double)run->graph.n;
    double most = median(run->roofline, options->rounds);

    printf("%zu vertices, %zu edges, blocks of %zu, %zu processors, %zu rounds\n", run->graph.n,
           run->graph.edges, options->block, options->setting.processors, options->rounds);
    printf("%-16s %10s %18s %14s\n", "", "ms", "G relaxations/s", "of the limit");
    printf("%-16s %10s %18.1f %13s%%\n", "the limit", "", most * 1e-9, "100");
    for (size_t v = 0; v < VARIANTS; v++)
        if (!variants[v].way.hidden) {
            double ms = median(variants[v].ms, options->rounds);

            printf("%-16s %10.2f %18.1f %13.1f%%\n", variants[v].way.name, ms,
                   n * n * n / ms * 1e-6, 100 * n * n * n / ms * 1e3 / most);
        }
}

static int measure(struct run *run, const struct options *options)
{
    size_t processors = options->setting.processors;
    size_t threads = processors < options->cpus ? processors : options->cpus;

    for (size_t round = 0; round < options->rounds; round++) {
        int error;

        blocks_fill(&run->blocks, &run->graph);
        error = roofline(&run->blocks, options->cpu, threads, &run->roofline[round]);

        if (error) {
            fprintf(stderr, "apsp: %s\n", error_text(error));
            return 1;
        }
        for (size_t v = 0; v < VARIANTS; v++)
            if (!variants[v].way.hidden && take_turn(run, &variants[v], options, round) != 0)
                return 1;
    }
    report(run, options);
    return 0;
}

/* ---- answers ---- */

static void write_distances(const struct run *run)
{
    for (size_t i = 0; i < run->graph.n; i++)
        for (size_t j = 0; j < run->graph.n; j++)
            fprintf(run->distances.file, "%.9g%c", blocks_distance(&run->blocks, i, j),
                    j + 1 < run->graph.n ? ' ' : '\n');
}

static int print_paths(const struct run *run, const struct options *options)
{
    size_t first = run->graph.first;
    int error = 0;

    for (size_t p = 0; p < options->paths && !error; p++) {
        size_t from = options->path[p].from - first, to = options->path[p].to - first;
        size_t *vertex, count;

        error = path_find(&run->graph, &run->blocks, from, to, &vertex, &count);
        if (error) {
            fprintf(stderr, "apsp: --path: %s\n", strerror(-error));
            break;
        }
        printf("%zu to %zu: %.9g", from + first, to + first,
               blocks_distance(&run->blocks, from, to));
        for (size_t i = 0; i < count; i++)
            printf("%s%zu", i ? " -> " : ": ", vertex[i] + first);
        printf("\n");
        free(vertex);
    }
    return error ? 1 : 0;
}

/* Cores that wait when nobody needs them, as the threads of OpenMP do. */
static int start_runtime(struct setting *setting)
{
    struct umbra_options options = {.cores = (unsigned)setting->processors, .oversubscribe = true};
    int error = umbra_runtime_create(&options, &setting->runtime);

    if (error)
        fprintf(stderr, "apsp: %s\n", umbra_last_error_text());
    return error ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct options options = {
        .n = 2400, .degree = 50, .seed = 1, .element = FLOAT32, .block = 120, .rounds = 3};
    struct run run = {.expected = NULL};
    double *times;
    int status = 1;

    read_options(argc, argv, &options);
    if (get_processors(&options) != 0)
        return 1;
    get_graph(&options, &run.graph);
    check_graph(&options, &run.graph);
    expect_rounding(&options, &run.graph);
    times = malloc((VARIANTS + 1) * options.rounds * sizeof(*times));
    run.expected = malloc(run.graph.n * run.graph.n * sizeof(*run.expected));
    if (!times || !run.expected ||
        blocks_create(&run.blocks, options.element, run.graph.n, options.block) != 0) {
        fprintf(stderr, "apsp: not enough memory for %zu vertices\n", run.graph.n);
    } else {
        run.roofline = times + VARIANTS * options.rounds;
        for (size_t v = 0; v < VARIANTS; v++)
            variants[v].ms = times + v * options.rounds;
        status = start_runtime(&options.setting);
        if (status == 0)
            status = output_open(&run.distances, "--distances", options.distances);
        if (status == 0)
            status = measure(&run, &options);
        if (status == 0 && run.distances.file)
            write_distances(&run);
        status = output_close(&run.distances, status);
        if (status == 0)
            status = print_paths(&run, &options);
    }
    umbra_runtime_destroy(options.setting.runtime);
    blocks_destroy(&run.blocks);
    graph_destroy(&run.graph);
    free(run.expected);
    free(times);
    return printed(status);
}
