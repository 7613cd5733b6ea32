/* SPDX-License-Identifier: BSL-1.0 */
/* See graph.h. */
#define _GNU_SOURCE
#include "graph.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    struct graph *graph;
    struct graph_fault *fault;
    char *at;        /* in the line */
    size_t promised; /* edges */
    bool begun;      /* the size is known */
};

__attribute__((format(printf, 2, 3))) static int wrong(struct reader *reader, const char *format,
                                                       ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(reader->fault->text, sizeof(reader->fault->text), format, args);
    va_end(args);
    for (char *c = reader->fault->text; *c; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
    return -EINVAL;
}

/* The next word of the line, or NULL. */
static char *word_of(struct reader *reader)
{
    char *begin;

    while (isspace((unsigned char)*reader->at))
        reader->at++;
    begin = reader->at;
    while (*reader->at && !isspace((unsigned char)*reader->at))
        reader->at++;
    if (*reader->at)
        *reader->at++ = 0;
    return *begin ? begin : NULL;
}

static int number(struct reader *reader, const char *what, uint64_t least, uint64_t most,
                  uint64_t *value)
{
    const char *word = word_of(reader);
    char *end;

    if (!word)
        return wrong(reader, "%s is missing", what);
    errno = 0;
    *value = strtoull(word, &end, 10);
    if (errno || *end || !isdigit((unsigned char)*word) || *value < least || *value > most)
        return wrong(reader, "%s is no number from %llu to %llu: '%.40s'", what,
                     (unsigned long long)least, (unsigned long long)most, word);
    return 0;
}

/* There is nothing more in the line. */
static int end_of(struct reader *reader, const char *last)
{
    const char *word = word_of(reader);

    return word ? wrong(reader, "nothing is expected after %s: '%.40s'", last, word) : 0;
}

static int weight(struct reader *reader, double *value)
{
    const char *word = word_of(reader);
    char *end;

    if (!word)
        return wrong(reader, "the weight is missing");
    *value = strtod(word, &end);
    if (*end || !isfinite(*value))
        return wrong(reader, "the weight is no number: '%.40s'", word);
    return end_of(reader, "the weight");
}

/* from, to and weight, vertices from `least` to `most`. */
static int edge_of(struct reader *reader, uint64_t least, uint64_t most)
{
    uint64_t from, to;
    double value = 0;
    int error = number(reader, "the first vertex", least, most, &from);

    if (!error)
        error = number(reader, "the second vertex", least, most, &to);
    if (!error)
        error = weight(reader, &value);
    if (!error)
        error = add(reader->graph, (uint32_t)(from - least), (uint32_t)(to - least), value);
    if (!error && most == VERTICES_MOST)
        reader->graph->n = fmax((double)reader->graph->n, fmax((double)from, (double)to) + 1);
    return error;
}

static int dimacs_line(struct reader *reader)
{
    const char *kind = word_of(reader);
    uint64_t value;
    int error;

    if (!kind || strcmp(kind, "c") == 0)
        return 0;
    if (strcmp(kind, "p") == 0) {
        const char *problem = word_of(reader);

        if (reader->begun)
            return wrong(reader, "a second line 'p'");
        if (!problem || strcmp(problem, "sp") != 0)
            return wrong(reader, "no shortest-path problem, 'p sp': '%.40s'",
                         problem ? problem : "");
        error = number(reader, "the number of vertices", 1, VERTICES_MOST - 1, &value);
        reader->graph->n = (size_t)value;
        if (!error)
            error = number(reader, "the number of edges", 0, UINT64_MAX, &value);
        reader->promised = (size_t)value;
        reader->begun = true;
        return error ? error : end_of(reader, "the number of edges");
    }
    if (strcmp(kind, "a") != 0)
        return wrong(reader, "no line of kind c, p or a: '%.40s'", kind);
    if (!reader->begun)
        return wrong(reader, "an edge before the line 'p sp'");
    return edge_of(reader, 1, reader->graph->n);
}

static int edges_line(struct reader *reader)
{
    char *comment = strchr(reader->at, '#');

    if (comment)
        *comment = 0;
    while (isspace((unsigned char)*reader->at))
        reader->at++;
    return *reader->at ? edge_of(reader, 0, VERTICES_MOST) : 0;
}

static int read_lines(struct reader *reader, const char *path, int (*take)(struct reader *))
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int error = 0;

    if (!file)
        return -errno;
    while (!error && (length = getline(&line, &room, file)) >= 0) {
        reader->fault->line++;
        reader->at = line;
        if (strlen(line) < (size_t)length)
            error = wrong(reader, "not a line of text");
        else
            error = take(reader);
    }
    if (!error && !feof(file)) /* nor if there is no memory for a line */
        error = errno ? -errno : -EIO;
    free(line);
    fclose(file);
    return error;
}

int graph_read_dimacs(struct graph *graph, const char *path, struct graph_fault *fault)
{
    struct reader reader = {.graph = graph, .fault = fault};
    int error;

    *graph = (struct graph){.whole = true, .first = 1};
    *fault = (struct graph_fault){0};
    error = read_lines(&reader, path, dimacs_line);
    if (!error && !reader.begun) {
        fault->line = 0;
        error = wrong(&reader, "there is no line 'p sp'");
    } else if (!error && graph->edges != reader.promised) {
        fault->line = 0;
        error = wrong(&reader, "%zu edges, but the line 'p sp' says %zu", graph->edges,
                      reader.promised);
    }
    return error;
}

int graph_read_edges(struct graph *graph, const char *path, struct graph_fault *fault)
{
    struct reader reader = {.graph = graph, .fault = fault};
    int error;

    *graph = (struct graph){.whole = true};
    *fault = (struct graph_fault){0};
    error = read_lines(&reader, path, edges_line);
    if (!error && graph->n == 0) {
        fault->line = 0;
        error = wrong(&reader, "there is no edge");
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
