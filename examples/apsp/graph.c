/* SPDX-License-Identifier: BSL-1.0 */
/* See graph.h. */
#define _GNU_SOURCE
#include "graph.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../lines.h"

#define VERTICES_MOST UINT32_C(100000000)

static int add(struct graph *graph, uint32_t from, uint32_t to, double weight)
{
    if (graph->edges == graph->room) {
        size_t room = graph->room ? 2 * graph->room : 1024;
        struct edge *edge = realloc(graph->edge, room * sizeof(*edge));

        if (!edge)
            return -ENOMEM;
        graph->edge = edge;
        graph->room = room;
    }
    graph->edge[graph->edges++] = (struct edge){from, to, weight};
    if (weight != nearbyint(weight))
        graph->whole = false;
    return 0;
}

void graph_destroy(struct graph *graph)
{
    free(graph->edge);
    graph->edge = NULL;
}

/* ---- files ---- */

struct reader {
    struct lines lines;
    struct graph *graph;
    size_t promised; /* edges */
    bool begun;      /* the size is known */
};

static int weight(struct reader *reader, double *value)
{
    const char *word = lines_word(&reader->lines);
    char *end;

    if (!word)
        return lines_wrong(&reader->lines, "the weight is missing");
    *value = strtod(word, &end);
    if (*end || !isfinite(*value))
        return lines_wrong(&reader->lines, "the weight is no number: '%.40s'", word);
    return lines_end(&reader->lines, "the weight");
}

/* from, to and weight, vertices from `least` to `most`. */
static int edge_of(struct reader *reader, uint64_t least, uint64_t most)
{
    uint64_t from, to;
    double value = 0;
    int error = lines_number(&reader->lines, "the first vertex", least, most, &from);

    if (!error)
        error = lines_number(&reader->lines, "the second vertex", least, most, &to);
    if (!error)
        error = weight(reader, &value);
    if (!error)
        error = add(reader->graph, (uint32_t)(from - least), (uint32_t)(to - least), value);
    if (!error && most == VERTICES_MOST)
        reader->graph->n = fmax((double)reader->graph->n, fmax((double)from, (double)to) + 1);
    return error;
}

static int dimacs_line(void *arg)
{
    struct reader *reader = arg;
    const char *kind = lines_word(&reader->lines);
    uint64_t value;
    int error;

    if (!kind || strcmp(kind, "c") == 0)
        return 0;
    if (strcmp(kind, "p") == 0) {
        const char *problem = lines_word(&reader->lines);

        if (reader->begun)
            return lines_wrong(&reader->lines, "a second line 'p'");
        if (!problem || strcmp(problem, "sp") != 0)
            return lines_wrong(&reader->lines, "no shortest-path problem, 'p sp': '%.40s'",
                               problem ? problem : "");
        error =
            lines_number(&reader->lines, "the number of vertices", 1, VERTICES_MOST - 1, &value);
        reader->graph->n = (size_t)value;
        if (!error)
            error = lines_number(&reader->lines, "the number of edges", 0, UINT64_MAX, &value);
        reader->promised = (size_t)value;
        reader->begun = true;
        return error ? error : lines_end(&reader->lines, "the number of edges");
    }
    if (strcmp(kind, "a") != 0)
        return lines_wrong(&reader->lines, "no line of kind c, p or a: '%.40s'", kind);
    if (!reader->begun)
        return lines_wrong(&reader->lines, "an edge before the line 'p sp'");
    return edge_of(reader, 1, reader->graph->n);
}

static int edges_line(void *arg)
{
    struct reader *reader = arg;
    char *comment = strchr(reader->lines.at, '#');

    if (comment)
        *comment = 0;
    while (isspace((unsigned char)*reader->lines.at))
        reader->lines.at++;
    return *reader->lines.at ? edge_of(reader, 0, VERTICES_MOST) : 0;
}

int graph_read_dimacs(struct graph *graph, const char *path, struct lines_fault *fault)
{
    struct reader reader = {.lines = {.fault = fault}, .graph = graph};
    int error;

    *graph = (struct graph){.whole = true, .first = 1};
    error = lines_read(&reader.lines, path, dimacs_line, &reader);
    if (!error && !reader.begun) {
        error = lines_wrong(&reader.lines, "there is no line 'p sp'");
    } else if (!error && graph->edges != reader.promised) {
        error = lines_wrong(&reader.lines, "%zu edges, but the line 'p sp' says %zu", graph->edges,
                            reader.promised);
    }
    return error;
}

int graph_read_edges(struct graph *graph, const char *path, struct lines_fault *fault)
{
    struct reader reader = {.lines = {.fault = fault}, .graph = graph};
    int error;

    *graph = (struct graph){.whole = true};
    error = lines_read(&reader.lines, path, edges_line, &reader);
    if (!error && graph->n == 0) {
        error = lines_wrong(&reader.lines, "there is no edge");
    }
    return error;
}

/* ---- by chance ---- */

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/*
 * Negative weights without a negative cycle: each vertex gets a height, and an edge is as much
 * shorter as it leads down; round a cycle that cancels (Johnson 1977, backwards).
 */
int graph_generate(struct graph *graph, size_t n, double degree, bool negative, uint64_t seed)
{
    size_t edges = (size_t)((double)n * degree);
    uint64_t heights = seed ^ UINT64_C(0xd1b54a32d192ed03);
    int error = 0;

    *graph = (struct graph){.n = n, .whole = true};
    for (size_t e = 0; e < edges && !error; e++) {
        uint32_t from = (uint32_t)(random_next(&seed) % n);
        uint32_t to = (uint32_t)(random_next(&seed) % n);
        double value = (double)(1 + random_next(&seed) % 100);

        if (negative) {
            uint64_t above = heights + from, below = heights + to;

            value += (double)(random_next(&above) % 100) - (double)(random_next(&below) % 100);
        }
        if (from != to)
            error = add(graph, from, to, value);
    }
    return error;
}

/* ---- bounds ---- */

double graph_longest(const struct graph *graph)
{
    double *most = calloc(graph->n, sizeof(*most)); /* of each vertex's edges: a path takes one */
    double sum = 0;

    if (!most)
        return INFINITY;
    for (size_t e = 0; e < graph->edges; e++)
        most[graph->edge[e].from] = fmax(most[graph->edge[e].from], fabs(graph->edge[e].weight));
    for (size_t i = 0; i < graph->n; i++)
        sum += most[i];
    free(most);
    return sum;
}

bool graph_has_negative(const struct graph *graph)
{
    for (size_t e = 0; e < graph->edges; e++)
        if (graph->edge[e].weight < 0)
            return true;
    return false;
}
