/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The Graph500 benchmark's breadth-first search, in several versions: makes or reads a graph, searches
 * it from 64 roots by each version in turn, checks every tree by the specification's five rules, and
 * says how many edges a second (TEPS) each version goes through.
 *
 *     bfs [--scale S [--edge-factor F] | --matrix-market FILE | --snap FILE | --metis FILE] [--seed S]
 *         [--roots N | --root VERTEX] [--processors P] [--parts K] [--only NAME[,NAME ...]]
 *         [--statistics] [--unchecked] [--tree FILE]
 *
 * With OMP_PROC_BIND or OMP_PLACES in the environment OpenMP binds the first thread before main begins,
 * and the program may use that one's processor only.
 *
 * Exit status: 0; 1 if a tree breaks a rule, or something could not be had; 2 for a bad argument or a
 * malformed file.
 */
#define _GNU_SOURCE
#include "../lines.h"
#include "../memory.h"
#include "../options.h"
#include "../output.h"
#include "../program.h"
#include "crew.h"
#include "statistics.h"
#include "validate.h"
#include "versions.h"

#include <energy.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char program_name[] = "bfs";

#define SCALE_MOST 31
#define FACTOR_MOST 1024
#define ROOTS_MOST 10000
#define PROCESSORS_MOST CREW_MOST
#define GIB 1073741824.0

static struct version versions[] = {
#ifdef BFS_OPENMP
    {{.name = "openmp-hybrid", .about = "Beamer's, what the others are compared with"},
     PLAIN,
     HYBRID,
     openmp_create,
     openmp_destroy,
     openmp_search},
    {{.name = "openmp-hybrid-relabelled", .about = "the same in the order of degrees"},
     ORDERED,
     HYBRID,
     openmp_ordered_create,
     openmp_destroy,
     openmp_ordered_search},
#endif
    {{.name = "umbra-bfs", .about = "hybrid in the order of degrees, with a new representation"},
     ORDERED,
     HYBRID,
     ordered_create,
     ordered_destroy,
     ordered_search},
    {{.name = "umbra-partitioned", .about = "hybrid in parts, the paper's first version"},
     PARTS,
     HYBRID,
     parts_create,
     parts_destroy,
     parts_search},
    {{.name = "top-down", .about = "from the frontier alone"},
     ONE_PART,
     TOP_DOWN,
     parts_create,
     parts_destroy,
     parts_search},
    {{.name = "bottom-up", .about = "from what is left alone"},
     ONE_PART,
     BOTTOM_UP,
     parts_create,
     parts_destroy,
     parts_search},
};

#define VERSIONS (sizeof(versions) / sizeof(versions[0]))

/* Of a version, over all roots. */
struct result {
    struct search search;
    double *seconds, *edges;
    double joules;
};

struct options {
    const char *file[3];   /* in the order of enum graph_format */
    const char *generated; /* the option that asks for a generated graph, or NULL */
    size_t scale, edge_factor, seed;
    size_t roots, root; /* how many by chance; or this one, as the file numbers it */
    const char *one_root;
    size_t processors, parts;
    bool statistics, unchecked;
    const char *tree; /* file to write */
};

struct run {
    const struct options *options;
    struct crew crew;
    struct graph graph;
    bool wanted[REPRESENTATIONS];
    double generation; /* seconds */
    struct validation validation;
    struct energy *energy;
    uint32_t *root, *parent;
    size_t roots;
    struct result result[VERSIONS];
    struct output tree;
};

/* ---- arguments ---- */

static void check_options(const struct options *options)
{
    const char *file = NULL;

    for (unsigned f = 0; f < 3; f++) {
        if (file && options->file[f])
            refuse(options->file[f], "one graph only, not '%s' and another", file);
        if (options->file[f])
            file = options->file[f];
    }
    if (options->generated && file)
        refuse(file, "a file, but also %s", options->generated);
}

static void read_options(int argc, char **argv, struct options *options)
{
    static const struct ways ways = {versions, VERSIONS, sizeof(versions[0]), .column = 24};
    const char **generated = &options->generated;
    const struct option_row rows[] = {
        {"--scale", "S", "2^S vertices by chance (Kronecker), 16 by default",
         .number = {&options->scale, 1, SCALE_MOST}, .given = generated},
        {"--edge-factor", "F", "edges a vertex, 16 by default", .nested = true,
         .number = {&options->edge_factor, 1, FACTOR_MOST}, .given = generated},
        {"--matrix-market", "FILE", "a square matrix of coordinates",
         .text = &options->file[MATRIX_MARKET]},
        {"--snap", "FILE", "lines of \"from to\", vertices from 0", .text = &options->file[SNAP]},
        {"--metis", "FILE", "lines of neighbours, vertices from 1", .text = &options->file[METIS]},
        {"--seed", "S", "of the graph and the roots, 1 by default",
         .number = {&options->seed, 0, UINT32_MAX}},
        {"--roots", "N", "searches from N vertices by chance, 64 by default",
         .number = {&options->roots, 1, ROOTS_MOST}},
        {"--root", "VERTEX", "searches from this vertex alone",
         .number = {&options->root, 0, VERTICES_MOST}, .given = &options->one_root},
        {"--processors", "P", "all by default; more than there are share them",
         .number = {&options->processors, 1, PROCESSORS_MOST}},
        {"--parts", "K", "of umbra-partitioned; one a NUMA node by default, and two at least",
         .number = {&options->parts, 1, CREW_PARTS_MOST}},
        {"--only", "NAMES", "of these versions:", .ways = &ways},
        {"--statistics", NULL, "prints them as the specification has it",
         .flag = &options->statistics},
        {"--unchecked", NULL, "does not check the trees", .flag = &options->unchecked},
        {"--tree", "FILE", "writes the last tree: each vertex's parent, or -1",
         .text = &options->tree},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "usage: bfs [--scale S | --matrix-market FILE | --snap FILE | --metis FILE] "
                 "[options]\n",
        .column = 24,
        .rows = rows,
    };

    options_read(&table, argc, argv);
    check_options(options);
}

/* ---- the graph ---- */

/* True if there is as much memory; else says how much it would have to be. */
static bool check_memory(const struct run *run, double vertices, double edges)
{
    double bytes = graph_bytes(vertices, edges, run->wanted, (unsigned)run->options->parts);

    if (memory_suffices(bytes))
        return true;
    fprintf(stderr,
            "bfs: %.0f vertices and %.0f edges need %.1f GiB of memory, which is not there\n",
            vertices, edges, bytes / GIB);
    return false;
}

static int read_graph(struct run *run)
{
    unsigned format = MATRIX_MARKET;
    struct lines_fault fault;
    const char *path;
    int error;

    while (!run->options->file[format])
        format++;
    path = run->options->file[format];
    error = edges_read(&run->graph.edges, (enum graph_format)format, path, &fault);
    if (error == -EINVAL && fault.line)
        fprintf(stderr, "bfs: %s:%zu: %s\n", path, fault.line, fault.text);
    else if (error == -EINVAL)
        fprintf(stderr, "bfs: %s: %s\n", path, fault.text);
    else if (error)
        fprintf(stderr, "bfs: %s: %s\n", path, strerror(-error));
    if (error)
        return error == -ENOMEM ? 1 : 2;
    return check_memory(run, (double)run->graph.edges.vertices, (double)run->graph.edges.count) ? 0
                                                                                                : 1;
}

static bool is_generated(const struct options *options)
{
    return !options->file[MATRIX_MARKET] && !options->file[SNAP] && !options->file[METIS];
}

/* 0, or an exit status: it has been said why. */
static int get_graph(struct run *run)
{
    const struct options *options = run->options;
    uint64_t begin = umbra_now_ns();
    int error = 0, status = 0;

    if (is_generated(options))
        error = edges_generate(&run->graph.edges, &run->crew, (unsigned)options->scale,
                               options->edge_factor, options->seed);
    else
        status = read_graph(run);
    run->generation = (double)(umbra_now_ns() - begin) * 1e-9;
    if (!error && !status)
        error = graph_build(&run->graph, run->wanted, (unsigned)options->parts);
    if (error)
        fprintf(stderr, "bfs: the graph: %s\n", strerror(-error));
    return error ? 1 : status;
}

static int get_roots(struct run *run)
{
    const struct options *options = run->options;
    size_t first = run->graph.edges.first, n = run->graph.edges.vertices;

    if (options->one_root && options->root - first >= n) {
        fprintf(stderr, "bfs: --root: the vertices are %zu to %zu: '%zu'\n", first, first + n - 1,
                options->root);
        return 2;
    }
    if (options->one_root) {
        run->root[0] = (uint32_t)(options->root - first);
        run->roots = 1;
        return 0;
    }
    run->roots = graph_roots(&run->graph, options->seed, run->root, options->roots);
    if (run->roots > 0)
        return 0;
    fprintf(stderr, "bfs: no vertex has an edge to another one\n");
    return 1;
}

/* ---- searching ---- */

/* 0, or which rule is broken has been said. */
static int check_tree(struct run *run, const struct version *version, uint32_t root)
{
    size_t first = run->graph.edges.first;
    enum rule rule = RULES_KEPT;
    uint32_t vertex;
    int error = validate_tree(&run->validation, root, run->parent, &rule, &vertex);

    if (!error && rule == RULES_KEPT)
        error = validate_levels(&run->validation, root, run->parent, &rule, &vertex);
    if (error)
        fprintf(stderr, "bfs: %s: %s\n", version->way.name, strerror(-error));
    else if (rule != RULES_KEPT)
        fprintf(stderr, "bfs: %s, root %zu, vertex %zu: %s\n", version->way.name, root + first,
                vertex + first, rule_text(rule));
    return error || rule != RULES_KEPT ? 1 : 0;
}

static double joules_now(const struct run *run)
{
    struct energy_reading reading;

    return run->energy && energy_read(run->energy, &reading) == 0 ? reading.joules : 0;
}

static int take_turn(struct run *run, size_t which, size_t r)
{
    struct version *version = &versions[which];
    struct result *result = &run->result[which];
    double before = joules_now(run);
    uint64_t ns = 0;
    int error = version->search(&result->search, run->root[r], run->parent, &ns);

    result->joules += joules_now(run) - before;
    if (error) {
        fprintf(stderr, "bfs: %s: %s\n", version->way.name, error_text(error));
        return 1;
    }
    result->seconds[r] = (double)(ns > 0 ? ns : 1) * 1e-9;
    result->edges[r] = (double)graph_edges_of(&run->graph, run->parent);
    return run->options->unchecked ? 0 : check_tree(run, version, run->root[r]);
}

static int search_all(struct run *run)
{
    for (size_t r = 0; r < run->roots; r++)
        for (size_t v = 0; v < VERSIONS; v++)
            if (!versions[v].way.hidden && take_turn(run, v, r) != 0)
                return 1;
    return 0;
}

/* ---- results ---- */

/* Of one version, in lines as the specification has them. */
static void print_statistics(const struct run *run, size_t which, double *value)
{
    const struct result *result = &run->result[which];
    struct statistics statistics;

    printf("version: %s\n", versions[which].way.name);
    if (is_generated(run->options))
        printf("SCALE: %zu\nedgefactor: %zu\n", run->options->scale, run->options->edge_factor);
    printf("NBFS: %zu\ngraph_generation: %.6g\nconstruction_time: %.6g\n", run->roots,
           run->generation, run->graph.seconds[versions[which].in]);
    memcpy(value, result->seconds, run->roots * sizeof(*value));
    statistics = statistics_of(value, run->roots);
    statistics_print(&statistics, "time", "mean", "stddev");
    memcpy(value, result->edges, run->roots * sizeof(*value));
    statistics = statistics_of(value, run->roots);
    statistics_print(&statistics, "nedge", "mean", "stddev");
    for (size_t r = 0; r < run->roots; r++)
        value[r] = result->edges[r] / result->seconds[r];
    statistics = statistics_of_rates(value, run->roots);
    statistics_print(&statistics, "TEPS", "harmonic_mean", "harmonic_stddev");
    printf("\n");
}

/* A line of the table; the harmonic mean of the rates is returned. */
static void print_row(const struct run *run, size_t which, double *value, double *first)
{
    const struct result *result = &run->result[which];
    struct statistics rates;
    double edges = 0;

    for (size_t r = 0; r < run->roots; r++) {
        value[r] = result->edges[r] / result->seconds[r];
        edges += result->edges[r];
    }
    if (edges == 0)
        return;
    rates = statistics_of_rates(value, run->roots);
    if (*first == 0)
        *first = rates.mean;
    memcpy(value, result->seconds, run->roots * sizeof(*value));
    printf("%-24s %11.2f %11.3f %11.3f %8.2f", versions[which].way.name,
           run->graph.seconds[versions[which].in], median(value, run->roots) * 1e3,
           rates.mean * 1e-9, rates.mean / *first);
    if (run->energy && energy_has_joules(run->energy) && result->joules > 0)
        printf(" %11.1f", edges / result->joules * 1e-6);
    printf("\n");
}

static void report(const struct run *run, double *value)
{
    bool joules = run->energy && energy_has_joules(run->energy);
    double first = 0;

    for (size_t v = 0; v < VERSIONS && run->options->statistics; v++)
        if (!versions[v].way.hidden)
            print_statistics(run, v, value);
    printf("%zu vertices, %zu edges, %zu roots, %zu processors, %zu parts\n",
           run->graph.edges.vertices, run->graph.edges.count, run->roots, run->options->processors,
           run->options->parts);
    printf("%-24s %11s %11s %11s %8s%s\n", "", "kernel 1, s", "median, ms", "GTEPS", "times",
           joules ? "     MTEPS/W" : "");
    for (size_t v = 0; v < VERSIONS; v++)
        if (!versions[v].way.hidden)
            print_row(run, v, value, &first);
    if (!joules)
        printf("No meter of energy here, so no TEPS/W.\n");
    printf(run->options->unchecked ? "The trees were not checked.\n" : "All trees are valid.\n");
}

static void write_tree(const struct run *run)
{
    for (size_t v = 0; v < run->graph.edges.vertices; v++)
        if (run->parent[v] == NO_VERTEX)
            fprintf(run->tree.file, "-1\n");
        else
            fprintf(run->tree.file, "%zu\n", (size_t)run->parent[v] + run->graph.edges.first);
}

/* ---- memory ---- */

static int create_searches(struct run *run, double *values)
{
    size_t n = run->graph.edges.vertices;
    int error = validation_create(&run->validation, &run->crew, &run->graph.edges);

    run->parent = malloc(n * sizeof(*run->parent));
    if (!run->parent)
        error = -ENOMEM;
    for (size_t v = 0; v < VERSIONS && !error; v++) {
        struct result *result = &run->result[v];

        if (versions[v].way.hidden)
            continue;
        result->seconds = values + 2 * v * run->roots;
        result->edges = values + (2 * v + 1) * run->roots;
        result->search =
            graph_search(&run->graph, &versions[v], (unsigned)run->options->processors);
        error = versions[v].create(&result->search);
    }
    if (error)
        fprintf(stderr, "bfs: not enough memory for %zu vertices\n", n);
    return error ? 1 : 0;
}

static void destroy_all(struct run *run)
{
    for (size_t v = 0; v < VERSIONS; v++)
        versions[v].destroy(&run->result[v].search);
    validation_destroy(&run->validation);
    if (run->energy)
        energy_close(run->energy);
    graph_destroy(&run->graph);
    free(run->parent);
    free(run->root);
}

/* With the graph: searches, and says what was found. An exit status. */
static int measure(struct run *run)
{
    double *values = malloc((2 * VERSIONS + 1) * run->roots * sizeof(*values));
    int status = 1;

    if (values)
        status = create_searches(run, values);
    if (status == 0)
        status = output_open(&run->tree, "--tree", run->options->tree);
    if (status == 0)
        status = search_all(run);
    if (status == 0 && run->tree.file)
        write_tree(run);
    status = output_close(&run->tree, status);
    if (status == 0)
        report(run, values + 2 * VERSIONS * run->roots);
    free(values);
    return status;
}

/* What follows from the machine. 0, or a status: it has been said why. */
static int get_machine(struct run *run, struct options *options)
{
    struct umbra_topology *topology;

    if (umbra_topology_create(NULL, &topology) != 0) {
        fprintf(stderr, "bfs: %s\n", umbra_last_error_text());
        return 1;
    }
    if (options->processors == 0)
        options->processors = umbra_topology_info(topology)->cores;
    if (options->parts == 0)
        options->parts =
            umbra_topology_info(topology)->nodes > 1 ? umbra_topology_info(topology)->nodes : 2;
    umbra_topology_destroy(topology);
    for (size_t v = 0; v < VERSIONS; v++)
        if (!versions[v].way.hidden)
            run->wanted[versions[v].in] = true;
    if (is_generated(options) &&
        !check_memory(run, (double)((size_t)1 << options->scale),
                      (double)((size_t)1 << options->scale) * (double)options->edge_factor))
        return 1;
    return 0;
}

static int start_runtime(struct run *run, struct umbra_runtime **runtime)
{
    struct umbra_options options = {.cores = (unsigned)run->options->processors,
                                    .oversubscribe = true};
    int error = umbra_runtime_create(&options, runtime);

    if (error)
        fprintf(stderr, "bfs: %s\n", umbra_last_error_text());
    else
        error = crew_init(&run->crew, *runtime);
    run->graph.crew = &run->crew;
    return error ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct options options = {.scale = 16, .edge_factor = 16, .seed = 1, .roots = 64};
    static struct run run;
    struct umbra_runtime *runtime = NULL;
    int status;

    read_options(argc, argv, &options);
    run.options = &options;
    run.root = malloc(options.roots * sizeof(*run.root));
    status = run.root ? get_machine(&run, &options) : 1;
    if (status == 0)
        status = start_runtime(&run, &runtime);
    if (status == 0)
        status = get_graph(&run);
    if (status == 0)
        status = get_roots(&run);
    if (status == 0) {
        run.energy = energy_open("/sys");
        status = measure(&run);
    }
    destroy_all(&run);
    crew_fini(&run.crew);
    umbra_runtime_destroy(runtime);
    return printed(status);
}
