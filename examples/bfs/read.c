/* SPDX-License-Identifier: BSL-1.0 */
/* Reads files of graphs: see edges.h. */
#define _GNU_SOURCE
#include "edges.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "../lines.h"
#include "placed.h"

#define FIRST_ROOM 4096   /* edges */
#define WEIGHTS_MOST 1000 /* of a vertex */

struct reader {
    struct lines lines;
    struct edges *edges;
    enum graph_format format;
    bool begun;        /* the line with the sizes has been read */
    uint64_t promised; /* edges or entries, by that line */
    uint64_t read;     /* entries so far; of METIS, edges to a later vertex */
    uint64_t back;     /* of METIS: edges to an earlier vertex */
    uint64_t balance;  /* of METIS: 0 if both counts are of the same edges */
    uint64_t vertex;   /* of METIS: lines so far */
    uint64_t before;   /* of METIS: words before a line's first neighbour */
    bool weights;      /* of METIS: a word after each neighbour */
};

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

/* True if the next word is one of these, which are separated by spaces. */
static bool word_among(struct reader *reader, const char *words, const char **word)
{
    const char *found;
    size_t length;

    *word = lines_word(&reader->lines);
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

    reader->lines.at[strcspn(reader->lines.at, "#")] = '\0';
    word = lines_word(&reader->lines);
    if (!word)
        return 0;
    error = lines_number_in(&reader->lines, "the first vertex", word, 0, VERTICES_MOST - 1, &a);
    if (!error)
        error = lines_number(&reader->lines, "the second vertex", 0, VERTICES_MOST - 1, &b);
    if (!error)
        error = add(edges, a, b);
    if (!error && (a > b ? a : b) >= edges->vertices)
        edges->vertices = (a > b ? a : b) + 1;
    return error;
}

static int snap_end(struct reader *reader)
{
    return reader->edges->count > 0 ? 0 : lines_wrong(&reader->lines, "there is no edge");
}

/* ---- Matrix Market ---- */

static int market_header(struct reader *reader)
{
    const char *word;

    if (!word_among(reader, "%%MatrixMarket", &word))
        return lines_wrong(&reader->lines, "not the header of a Matrix Market file: '%.40s'", word);
    if (!word_among(reader, "matrix", &word))
        return lines_wrong(&reader->lines, "not a matrix: '%.40s'", word);
    if (!word_among(reader, "coordinate", &word))
        return lines_wrong(&reader->lines, "not the format coordinate: '%.40s'", word);
    if (!word_among(reader, "real integer complex pattern", &word))
        return lines_wrong(&reader->lines, "not a field of numbers or a pattern: '%.40s'", word);
    if (!word_among(reader, "general symmetric skew-symmetric hermitian", &word))
        return lines_wrong(&reader->lines, "not a kind of symmetry: '%.40s'", word);
    return lines_end(&reader->lines, "the symmetry");
}

static int market_sizes(struct reader *reader, char *first)
{
    uint64_t rows, columns;
    int error =
        lines_number_in(&reader->lines, "the number of rows", first, 1, VERTICES_MOST, &rows);

    if (!error)
        error = lines_number(&reader->lines, "the number of columns", 1, VERTICES_MOST, &columns);
    if (!error && rows != columns)
        return lines_wrong(&reader->lines, "the matrix is not square");
    if (!error)
        error = lines_number(&reader->lines, "the number of entries", 0, UINT64_MAX / 2,
                             &reader->promised);
    if (error)
        return error;
    reader->begun = true;
    reader->edges->vertices = rows;
    return lines_end(&reader->lines, "the number of entries");
}

static int market_line(struct reader *reader)
{
    uint64_t n = reader->edges->vertices, row, column;
    char *word = lines_word(&reader->lines);
    int error;

    if (!word || *word == '%')
        return 0;
    if (!reader->begun)
        return market_sizes(reader, word);
    if (reader->read++ == reader->promised)
        return lines_wrong(&reader->lines, "an entry too many: '%.40s'", word);
    error = lines_number_in(&reader->lines, "the row", word, 1, n, &row);
    if (!error)
        error = lines_number(&reader->lines, "the column", 1, n, &column);
    return error ? error : add(reader->edges, row - 1, column - 1);
}

static int market_end(struct reader *reader)
{
    if (!reader->begun)
        return lines_wrong(&reader->lines, "there is no line with the sizes");
    if (reader->read < reader->promised)
        return lines_wrong(&reader->lines, "%llu entries, but the sizes say %llu",
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
        return lines_wrong(&reader->lines, "the format is not three digits of 0 and 1: '%.40s'",
                           word);
    reader->weights = word[digits - 1] == '1';
    by_vertex = digits > 1 && word[digits - 2] == '1';
    count = lines_word(&reader->lines);
    if (count)
        error = lines_number_in(&reader->lines, "the number of weights", count, 1, WEIGHTS_MOST,
                                &constraints);
    reader->before = (digits > 2 && word[0] == '1') + (by_vertex ? constraints : 0);
    return error ? error : lines_end(&reader->lines, "the number of weights");
}

static int metis_sizes(struct reader *reader)
{
    char *word = lines_word(&reader->lines);
    uint64_t vertices;
    int error;

    if (!word)
        return 0; /* a blank line before the sizes */
    error = lines_number_in(&reader->lines, "the number of vertices", word, 1, VERTICES_MOST,
                            &vertices);
    if (!error)
        error = lines_number(&reader->lines, "the number of edges", 0, UINT64_MAX / 4,
                             &reader->promised);
    if (error)
        return error;
    reader->begun = true;
    reader->edges->vertices = vertices;
    word = lines_word(&reader->lines);
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

    if (reader->lines.at[strspn(reader->lines.at, " \t")] == '%')
        return 0;
    if (!reader->begun)
        return metis_sizes(reader);
    word = lines_word(&reader->lines);
    vertex = ++reader->vertex;
    if (vertex > reader->edges->vertices)
        return word ? lines_wrong(&reader->lines, "a vertex too many: '%.40s'", word) : 0;
    for (uint64_t passed = 0; passed < reader->before; passed++, word = lines_word(&reader->lines))
        if (!word)
            return lines_wrong(&reader->lines, "a weight or size of the vertex is missing");
    for (; word && !error; word = lines_word(&reader->lines)) {
        error =
            lines_number_in(&reader->lines, "a neighbour", word, 1, reader->edges->vertices, &to);
        if (!error && to == vertex)
            error = lines_wrong(&reader->lines, "the vertex is its own neighbour: '%.40s'", word);
        if (!error && reader->weights && !lines_word(&reader->lines))
            error = lines_wrong(&reader->lines, "the weight of an edge is missing");
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
        return lines_wrong(&reader->lines, "there is no line with the sizes");
    if (reader->vertex < reader->edges->vertices)
        return lines_wrong(&reader->lines, "%llu lines of vertices, but the sizes say %zu",
                           (unsigned long long)reader->vertex, reader->edges->vertices);
    if (reader->read != reader->promised || reader->back != reader->promised)
        return lines_wrong(&reader->lines,
                           "%llu edges to later vertices and %llu back, but the sizes say %llu",
                           (unsigned long long)reader->read, (unsigned long long)reader->back,
                           (unsigned long long)reader->promised);
    return reader->balance == 0
               ? 0
               : lines_wrong(&reader->lines, "an edge is in one of its two lines only");
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

static int line_of(void *arg)
{
    struct reader *reader = arg;
    bool first = reader->lines.fault->line == 1;

    return first && formats[reader->format].first ? formats[reader->format].first(reader)
                                                  : formats[reader->format].line(reader);
}

int edges_read(struct edges *edges, enum graph_format format, const char *path,
               struct lines_fault *fault)
{
    struct reader reader = {.lines = {.fault = fault}, .edges = edges, .format = format};
    int error;

    *edges = (struct edges){.first = formats[format].vertex};
    error = lines_read(&reader.lines, path, line_of, &reader);
    return error ? error : formats[format].end(&reader);
}
