/* SPDX-License-Identifier: BSL-1.0 */
/* Reads files of graphs: see edges.h. */
#define _GNU_SOURCE
#include "edges.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "placed.h"

#define FIRST_ROOM 4096   /* edges */
#define WEIGHTS_MOST 1000 /* of a vertex */

struct reader {
    struct edges *edges;
    struct edges_fault *fault;
    char *at;          /* in the line */
    bool begun;        /* the line with the sizes has been read */
    uint64_t promised; /* edges or entries, by that line */
    uint64_t read;     /* entries so far; of METIS, edges to a later vertex */
    uint64_t back;     /* of METIS: edges to an earlier vertex */
    uint64_t balance;  /* of METIS: 0 if both counts are of the same edges */
    uint64_t vertex;   /* of METIS: lines so far */
    uint64_t before;   /* of METIS: words before a line's first neighbour */
    bool weights;      /* of METIS: a word after each neighbour */
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

static int add(struct edges *edges, uint64_t a, uint64_t b)
{
    if (edges->count == edges->room) {
        size_t room = edges->room ? 2 * edges->room : FIRST_ROOM;
        struct edge *edge = placed_alloc(room * sizeof(*edge), 0);

        if (!edge)
            return -ENOMEM;
        if (edges->count > 0)
            memcpy(edge, edges->edge, edges->count * sizeof(*edge));
        placed_free(edges->edge);
        edges->edge = edge;
        edges->room = room;
    }
    edges->edge[edges->count++] = (struct edge){{(uint32_t)a, (uint32_t)b}};
    return 0;
}

/* ---- words ---- */

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

static int number_in(struct reader *reader, const char *what, const char *word, uint64_t least,
                     uint64_t most, uint64_t *number)
{
    char *end;

    if (!word)
        return wrong(reader, "%s is missing", what);
    errno = 0;
    *number = strtoull(word, &end, 10);
    if (errno || *end || !isdigit((unsigned char)*word) || *number < least || *number > most)
        return wrong(reader, "%s is no number from %llu to %llu: '%.40s'", what,
                     (unsigned long long)least, (unsigned long long)most, word);
    return 0;
}

static int number_of_line(struct reader *reader, const char *what, uint64_t least, uint64_t most,
                          uint64_t *number)
{
    return number_in(reader, what, word_of(reader), least, most, number);
}

static int end_of_line(struct reader *reader, const char *last)
{
    const char *word = word_of(reader);

    return word ? wrong(reader, "nothing is expected after %s: '%.40s'", last, word) : 0;
}

/* True if the next word is one of these, which are separated by spaces. */
static bool word_among(struct reader *reader, const char *words, const char **word)
{
    const char *found;
    size_t length;

    *word = word_of(reader);
    if (!*word)
        *word = "";
    length = strlen(*word);
    for (found = strcasestr(words, *word); length > 0 && found;
         found = strcasestr(found + 1, *word))
        if ((found == words || found[-1] == ' ') && (found[length] == ' ' || !found[length]))
            return true;
    return false;
}

/* ---- SNAP ---- */

static int snap_line(struct reader *reader)
{
    struct edges *edges = reader->edges;
    uint64_t a, b;
    const char *word;
    int error;

    reader->at[strcspn(reader->at, "#")] = '\0';
    word = word_of(reader);
    if (!word)
        return 0;
    error = number_in(reader, "the first vertex", word, 0, VERTICES_MOST - 1, &a);
    if (!error)
        error = number_of_line(reader, "the second vertex", 0, VERTICES_MOST - 1, &b);
    if (!error)
        error = add(edges, a, b);
    if (!error && (a > b ? a : b) >= edges->vertices)
        edges->vertices = (a > b ? a : b) + 1;
    return error;
}

static int snap_end(struct reader *reader)
{
    return reader->edges->count > 0 ? 0 : wrong(reader, "there is no edge");
}

/* ---- Matrix Market ---- */

static int market_header(struct reader *reader)
{
    const char *word;

    if (!word_among(reader, "%%MatrixMarket", &word))
        return wrong(reader, "not the header of a Matrix Market file: '%.40s'", word);
    if (!word_among(reader, "matrix", &word))
        return wrong(reader, "not a matrix: '%.40s'", word);
    if (!word_among(reader, "coordinate", &word))
        return wrong(reader, "not the format coordinate: '%.40s'", word);
    if (!word_among(reader, "real integer complex pattern", &word))
        return wrong(reader, "not a field of numbers or a pattern: '%.40s'", word);
    if (!word_among(reader, "general symmetric skew-symmetric hermitian", &word))
        return wrong(reader, "not a kind of symmetry: '%.40s'", word);
    return end_of_line(reader, "the symmetry");
}

static int market_sizes(struct reader *reader, char *first)
{
    uint64_t rows, columns;
    int error = number_in(reader, "the number of rows", first, 1, VERTICES_MOST, &rows);

    if (!error)
        error = number_of_line(reader, "the number of columns", 1, VERTICES_MOST, &columns);
    if (!error && rows != columns)
        return wrong(reader, "the matrix is not square");
    if (!error)
        error =
            number_of_line(reader, "the number of entries", 0, UINT64_MAX / 2, &reader->promised);
    if (error)
        return error;
    reader->begun = true;
    reader->edges->vertices = rows;
    return end_of_line(reader, "the number of entries");
}

static int market_line(struct reader *reader)
{
    uint64_t n = reader->edges->vertices, row, column;
    char *word = word_of(reader);
    int error;

    if (!word || *word == '%')
        return 0;
    if (!reader->begun)
        return market_sizes(reader, word);
    if (reader->read++ == reader->promised)
        return wrong(reader, "an entry too many: '%.40s'", word);
    error = number_in(reader, "the row", word, 1, n, &row);
    if (!error)
        error = number_of_line(reader, "the column", 1, n, &column);
    return error ? error : add(reader->edges, row - 1, column - 1);
}

static int market_end(struct reader *reader)
{
    if (!reader->begun)
        return wrong(reader, "there is no line with the sizes");
    if (reader->read < reader->promised)
        return wrong(reader, "%llu entries, but the sizes say %llu",
                     (unsigned long long)reader->read, (unsigned long long)reader->promised);
    return 0;
}

/* ---- METIS ---- */

/* Digits of 0 and 1: sizes of vertices, weights of vertices, weights of edges. */
static int metis_format(struct reader *reader, const char *word)
{
    uint64_t constraints = 1;
    size_t digits = strlen(word);
    const char *count;
    bool by_vertex;
    int error = 0;

    if (digits > 3 || strspn(word, "01") < digits)
        return wrong(reader, "the format is not three digits of 0 and 1: '%.40s'", word);
    reader->weights = word[digits - 1] == '1';
    by_vertex = digits > 1 && word[digits - 2] == '1';
    count = word_of(reader);
    if (count)
        error = number_in(reader, "the number of weights", count, 1, WEIGHTS_MOST, &constraints);
    reader->before = (digits > 2 && word[0] == '1') + (by_vertex ? constraints : 0);
    return error ? error : end_of_line(reader, "the number of weights");
}

static int metis_sizes(struct reader *reader)
{
    char *word = word_of(reader);
    uint64_t vertices;
    int error;

    if (!word)
        return 0; /* a blank line before the sizes */
    error = number_in(reader, "the number of vertices", word, 1, VERTICES_MOST, &vertices);
    if (!error)
        error = number_of_line(reader, "the number of edges", 0, UINT64_MAX / 4, &reader->promised);
    if (error)
        return error;
    reader->begun = true;
    reader->edges->vertices = vertices;
    word = word_of(reader);
    return word ? metis_format(reader, word) : 0;
}

/* From each of its ends, an edge adds to the balance what it takes away from the other one: a number
 * that hardly any other edge has. */
static void count_edge(struct reader *reader, uint64_t from, uint64_t to)
{
    uint64_t low = from < to ? from : to, high = from < to ? to : from;
    uint64_t mixed = (low << 32 | high) * UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    if (from < to) {
        reader->read++;
        reader->balance += mixed ^ mixed >> 32;
    } else {
        reader->back++;
        reader->balance -= mixed ^ mixed >> 32;
    }
}

/* Of an edge, which two lines have, one is kept. */
static int metis_line(struct reader *reader)
{
    uint64_t vertex, to;
    const char *word;
    int error = 0;

    if (reader->at[strspn(reader->at, " \t")] == '%')
        return 0;
    if (!reader->begun)
        return metis_sizes(reader);
    word = word_of(reader);
    vertex = ++reader->vertex;
    if (vertex > reader->edges->vertices)
        return word ? wrong(reader, "a vertex too many: '%.40s'", word) : 0;
    for (uint64_t passed = 0; passed < reader->before; passed++, word = word_of(reader))
        if (!word)
            return wrong(reader, "a weight or size of the vertex is missing");
    for (; word && !error; word = word_of(reader)) {
        error = number_in(reader, "a neighbour", word, 1, reader->edges->vertices, &to);
        if (!error && to == vertex)
            error = wrong(reader, "the vertex is its own neighbour: '%.40s'", word);
        if (!error && reader->weights && !word_of(reader))
            error = wrong(reader, "the weight of an edge is missing");
        if (!error)
            count_edge(reader, vertex, to);
        if (!error && to > vertex)
            error = add(reader->edges, vertex - 1, to - 1);
    }
    return error;
}

static int metis_end(struct reader *reader)
{
    if (!reader->begun)
        return wrong(reader, "there is no line with the sizes");
    if (reader->vertex < reader->edges->vertices)
        return wrong(reader, "%llu lines of vertices, but the sizes say %zu",
                     (unsigned long long)reader->vertex, reader->edges->vertices);
    if (reader->read != reader->promised || reader->back != reader->promised)
        return wrong(reader, "%llu edges to later vertices and %llu back, but the sizes say %llu",
                     (unsigned long long)reader->read, (unsigned long long)reader->back,
                     (unsigned long long)reader->promised);
    return reader->balance == 0 ? 0 : wrong(reader, "an edge is in one of its two lines only");
}

/* ---- files ---- */

static const struct {
    int (*first)(struct reader *reader); /* line; NULL: as the others */
    int (*line)(struct reader *reader);
    int (*end)(struct reader *reader);
    uint32_t vertex; /* the first one's number */
} formats[] = {
    [MATRIX_MARKET] = {market_header, market_line, market_end, 1},
    [SNAP] = {NULL, snap_line, snap_end, 0},
    [METIS] = {NULL, metis_line, metis_end, 1},
};

static int read_lines(struct reader *reader, enum graph_format format, FILE *file)
{
    size_t room = 0;
    char *line = NULL;
    ssize_t length;
    int error = 0;

    errno = 0;
    while (!error && (length = getline(&line, &room, file)) >= 0) {
        bool first = ++reader->fault->line == 1;

        reader->at = line;
        if (strlen(line) != (size_t)length)
            error = wrong(reader, "not a line of text");
        else if (first && formats[format].first)
            error = formats[format].first(reader);
        else
            error = formats[format].line(reader);
        errno = 0;
    }
    if (!error && errno)
        error = -errno;
    if (!error) {
        reader->fault->line = 0;
        error = formats[format].end(reader);
    }
    free(line);
    return error;
}

int edges_read(struct edges *edges, enum graph_format format, const char *path,
               struct edges_fault *fault)
{
    struct reader reader = {.edges = edges, .fault = fault};
    FILE *file = fopen(path, "r");
    int error;

    *edges = (struct edges){.first = formats[format].vertex};
    *fault = (struct edges_fault){.line = 0};
    if (!file)
        return -errno;
    error = read_lines(&reader, format, file);
    fclose(file);
    return error;
}
