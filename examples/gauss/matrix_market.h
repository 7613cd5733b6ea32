/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Reads and writes Matrix Market files (Boisvert, Pozo, Remington 1996): array and coordinate; real
 * and integer; general and symmetric. Lines that begin with % and blank lines may be anywhere after
 * the header. One entry a line.
 *
 *     %%MatrixMarket matrix coordinate real symmetric
 *     3 3 4                    rows, columns, entries; an array has no third number
 *     1 1 2.0                  row and column, from 1, and value; an array, column by column, has
 *     2 2 4.0                  only the value
 *     3 1 -1.5                 symmetric: the lower triangle alone
 *     3 3 1.0
 *
 * The format does not say what an index that is given twice means. Here both entries come out, for
 * the reader to sum, as is the custom.
 */
#ifndef GAUSS_MATRIX_MARKET_H
#define GAUSS_MATRIX_MARKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define MM_LINE_MOST 1024 /* characters, as the format has it */

struct mm_reader {
    FILE *file;
    const char *path;
    size_t rows, columns;
    size_t entries; /* those in the file, at most SIZE_MAX */
    bool coordinate, integer, symmetric;
    size_t read;                 /* entries so far */
    size_t row, column;          /* an array's next; from 0 */
    size_t line;                 /* where we are, from 1 */
    char text[MM_LINE_MOST + 1]; /* that line */
    char problem[1024];          /* what went wrong: FILE:LINE: what: 'text' */
};

struct mm_entry {
    size_t row, column; /* from 0 */
    double value;       /* finite */
};

/*
 * Opens a file and reads its header and sizes, which are at least 1. 0 or a negative errno: then
 * reader->problem says why. In both cases the reader may, and must, be closed.
 */
int mm_open(struct mm_reader *reader, const char *path);
void mm_close(struct mm_reader *reader);

/* The next entry. 1, 0 after the last, or a negative errno as above. */
int mm_next(struct mm_reader *reader, struct mm_entry *entry);

/* For whom these sizes or this entry will not do: says so in reader->problem. -EINVAL. */
int mm_refuse(struct mm_reader *reader, const char *what);

/* Writes an array of one column. Whether it could is for who closes the file to find. */
void mm_write_column(FILE *file, const double *values, size_t rows);

#endif
