/* SPDX-License-Identifier: BSL-1.0 */
/* See matrix_market.h. */
#define _POSIX_C_SOURCE 200809L
#include "matrix_market.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define QUOTED_MOST 60 /* characters */

/* Part of a line. */
struct word {
    const char *at;
    int length;
};

/* ---- problems ---- */

static int refuse_word(struct mm_reader *reader, const char *what, struct word word)
{
    int length = word.length < QUOTED_MOST ? word.length : QUOTED_MOST;
    int said = snprintf(reader->problem, sizeof(reader->problem), "%s:%zu: %s: '%.*s'",
                        reader->path, reader->line, what, length, word.at);

    for (int i = 0; i < said && reader->problem[i]; i++)
        if (iscntrl((unsigned char)reader->problem[i]))
            reader->problem[i] = '?';
    return -EINVAL;
}

int mm_refuse(struct mm_reader *reader, const char *what)
{
    size_t length = strlen(reader->text);

    while (length > 0 && isspace((unsigned char)reader->text[length - 1]))
        length--;
    return refuse_word(reader, what, (struct word){reader->text, (int)length});
}

static int refuse_file(struct mm_reader *reader, int error)
{
    snprintf(reader->problem, sizeof(reader->problem), "%s: %s", reader->path, strerror(error));
    return -error;
}

/* ---- lines and words ---- */

/* The next line. 1, 0 at the end (which is a line without text), or a negative errno. */
static int read_line(struct mm_reader *reader)
{
    size_t length = 0;
    int c;

    reader->line++;
    reader->text[0] = '\0';
    errno = 0;
    while ((c = getc_unlocked(reader->file)) != EOF && c != '\n') {
        if (c == '\0' || length == MM_LINE_MOST)
            return mm_refuse(reader, c ? "longer than 1024 characters" : "not a line of text");
        reader->text[length++] = (char)c;
        reader->text[length] = '\0';
    }
    if (c == EOF && ferror(reader->file))
        return refuse_file(reader, errno ? errno : EIO);
    return c != EOF || length > 0;
}

static struct word next_word(const char **at)
{
    struct word word;

    word.at = *at + strspn(*at, " \t\r\f\v");
    word.length = (int)strcspn(word.at, " \t\r\f\v");
    *at = word.at + word.length;
    return word;
}

static bool word_is(struct word word, const char *text)
{
    return (size_t)word.length == strlen(text) &&
           strncasecmp(word.at, text, (size_t)word.length) == 0;
}

/* The same, but no comment and no blank line. */
static int read_data_line(struct mm_reader *reader)
{
    const char *at;
    int got;

    do {
        got = read_line(reader);
        at = reader->text;
    } while (got == 1 && (*at == '%' || next_word(&at).length == 0));
    return got;
}

static int end_line(struct mm_reader *reader, const char *at)
{
    struct word word = next_word(&at);

    return word.length == 0 ? 0 : refuse_word(reader, "surplus text", word);
}

static int read_size(struct mm_reader *reader, const char **at, const char *what, size_t least,
                     size_t most, size_t *size)
{
    struct word word = next_word(at);
    unsigned long long value;

    errno = 0;
    value = strtoull(word.at, NULL, 10);
    if (word.length == 0 || strspn(word.at, "0123456789") < (size_t)word.length || value < least ||
        value > most || errno)
        return refuse_word(reader, what, word);
    *size = (size_t)value;
    return 0;
}

static int read_value(struct mm_reader *reader, const char **at, double *value)
{
    const char *digits = reader->integer ? "+-0123456789" : "+-.0123456789eE";
    struct word word = next_word(at);
    char *end;
    double read = strtod(word.at, &end);

    if (word.length == 0 || strspn(word.at, digits) < (size_t)word.length ||
        end != word.at + word.length)
        return refuse_word(reader, reader->integer ? "not an integer" : "not a number", word);
    if (!isfinite(read))
        return refuse_word(reader, "too large a number", word);
    *value = read;
    return 0;
}

/* ---- header and sizes ---- */

/* The next word must be one of two. */
static int read_choice(struct mm_reader *reader, const char **at, const char *what,
                       const char *first, const char *second, bool *is_second)
{
    struct word word = next_word(at);

    *is_second = word_is(word, second);
    return *is_second || word_is(word, first) ? 0 : refuse_word(reader, what, word);
}

static int read_header(struct mm_reader *reader)
{
    const char *at = reader->text;
    struct word object;
    int got = read_line(reader);

    if (got < 0)
        return got;
    if (!word_is(next_word(&at), "%%MatrixMarket"))
        return mm_refuse(reader, "not the header of a Matrix Market file");
    object = next_word(&at);
    if (!word_is(object, "matrix"))
        return refuse_word(reader, "not a matrix", object);
    if (read_choice(reader, &at, "format neither array nor coordinate", "array", "coordinate",
                    &reader->coordinate) != 0 ||
        read_choice(reader, &at, "field neither real nor integer", "real", "integer",
                    &reader->integer) != 0 ||
        read_choice(reader, &at, "symmetry neither general nor symmetric", "general", "symmetric",
                    &reader->symmetric) != 0)
        return -EINVAL;
    return end_line(reader, at);
}

static int read_sizes(struct mm_reader *reader)
{
    const char *at = reader->text;
    int got = read_data_line(reader);

    if (got < 0)
        return got;
    if (read_size(reader, &at, "not a number of rows", 1, SIZE_MAX, &reader->rows) != 0 ||
        read_size(reader, &at, "not a number of columns", 1, SIZE_MAX, &reader->columns) != 0)
        return -EINVAL;
    if (reader->symmetric && reader->rows != reader->columns)
        return mm_refuse(reader, "symmetric, but not square");
    if (reader->coordinate) {
        if (read_size(reader, &at, "not a number of entries", 0, SIZE_MAX, &reader->entries) != 0)
            return -EINVAL;
    } else {
        reader->entries =
            reader->columns <= SIZE_MAX / reader->rows ? reader->rows * reader->columns : SIZE_MAX;
        if (reader->symmetric) /* n * (n + 1) / 2 */
            reader->entries -= (reader->entries - reader->rows) / 2;
    }
    return end_line(reader, at);
}

int mm_open(struct mm_reader *reader, const char *path)
{
    int error;

    *reader = (struct mm_reader){.path = path};
    reader->file = fopen(path, "r");
    if (!reader->file)
        return refuse_file(reader, errno);
    error = read_header(reader);
    return error ? error : read_sizes(reader);
}

void mm_close(struct mm_reader *reader)
{
    if (reader->file)
        fclose(reader->file);
    reader->file = NULL;
}

/* ---- entries ---- */

static int refuse_count(struct mm_reader *reader)
{
    char what[64], count[32];
    int length = snprintf(count, sizeof(count), "%zu", reader->read);

    snprintf(what, sizeof(what), "too few entries, not %zu", reader->entries);
    return refuse_word(reader, what, (struct word){count, length});
}

static int read_indices(struct mm_reader *reader, const char **at, struct mm_entry *entry)
{
    size_t row, column;

    if (read_size(reader, at, "not a row of the matrix", 1, reader->rows, &row) != 0 ||
        read_size(reader, at, "not a column of the matrix", 1, reader->columns, &column) != 0)
        return -EINVAL;
    if (reader->symmetric && column > row)
        return mm_refuse(reader, "above the diagonal of a symmetric matrix");
    entry->row = row - 1;
    entry->column = column - 1;
    return 0;
}

static void next_of_array(struct mm_reader *reader, struct mm_entry *entry)
{
    entry->row = reader->row++;
    entry->column = reader->column;
    if (reader->row == reader->rows) {
        reader->column++;
        reader->row = reader->symmetric ? reader->column : 0;
    }
}

int mm_next(struct mm_reader *reader, struct mm_entry *entry)
{
    const char *at = reader->text;
    int got = read_data_line(reader);

    if (got < 0)
        return got;
    if (got == 0)
        return reader->read == reader->entries ? 0 : refuse_count(reader);
    if (reader->read == reader->entries)
        return mm_refuse(reader, "an entry too many");
    if (!reader->coordinate)
        next_of_array(reader, entry);
    else if (read_indices(reader, &at, entry) != 0)
        return -EINVAL;
    reader->read++;
    if (read_value(reader, &at, &entry->value) != 0 || end_line(reader, at) != 0)
        return -EINVAL;
    return 1;
}

/* ---- writing ---- */

void mm_write_column(FILE *file, const double *values, size_t rows)
{
    fprintf(file, "%%%%MatrixMarket matrix array real general\n%zu 1\n", rows);
    for (size_t i = 0; i < rows; i++)
        fprintf(file, "%.17g\n", values[i]);
}
