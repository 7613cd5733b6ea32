/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Files of text that are read line by line and word by word; what is wrong is told with its line.
 * The includer defines _GNU_SOURCE.
 */
#ifndef EXAMPLES_LINES_H
#define EXAMPLES_LINES_H

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is wrong with a file. line 0: with the file as a whole. */
struct lines_fault {
    size_t line;
    char text[120];
};

struct lines {
    struct lines_fault *fault;
    char *at; /* in the line */
};

/* Says what is wrong. Always -EINVAL. */
__attribute__((format(printf, 2, 3))) static inline int lines_wrong(struct lines *lines,
                                                                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(lines->fault->text, sizeof(lines->fault->text), format, args);
    va_end(args);
    for (char *c = lines->fault->text; *c; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
    return -EINVAL;
}

/* The next word of the line, or NULL. */
static inline char *lines_word(struct lines *lines)
{
    char *begin;

    while (isspace((unsigned char)*lines->at))
        lines->at++;
    begin = lines->at;
    while (*lines->at && !isspace((unsigned char)*lines->at))
        lines->at++;
    if (*lines->at)
        *lines->at++ = 0;
    return *begin ? begin : NULL;
}

/* The number that a word is; NULL: it is missing. 0 or -EINVAL. */
static inline int lines_number_in(struct lines *lines, const char *what, const char *word,
                                  uint64_t least, uint64_t most, uint64_t *number)
{
    char *end;

    *number = 0;
    if (!word)
        return lines_wrong(lines, "%s is missing", what);
    errno = 0;
    *number = strtoull(word, &end, 10);
    if (errno || *end || !isdigit((unsigned char)*word) || *number < least || *number > most)
        return lines_wrong(lines, "%s is no number from %llu to %llu: '%.40s'", what,
                           (unsigned long long)least, (unsigned long long)most, word);
    return 0;
}

/* The same of the next word. */
static inline int lines_number(struct lines *lines, const char *what, uint64_t least, uint64_t most,
                               uint64_t *number)
{
    return lines_number_in(lines, what, lines_word(lines), least, most, number);
}

/* 0 if the line has no more words, else -EINVAL. */
static inline int lines_end(struct lines *lines, const char *last)
{
    const char *word = lines_word(lines);

    return word ? lines_wrong(lines, "nothing is expected after %s: '%.40s'", last, word) : 0;
}

/*
 * Calls take(arg) for each line until it returns something else than 0, with lines->at at the line's
 * beginning. Clears the fault first; its line is 0 again if all lines were taken. 0; what take
 * returned; -EINVAL: no text; or another negative errno.
 */
static inline int lines_read(struct lines *lines, const char *path, int (*take)(void *arg),
                             void *arg)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int error = 0;

    *lines->fault = (struct lines_fault){0};
    if (!file)
        return -errno;
    while (!error && (length = getline(&line, &room, file)) >= 0) {
        lines->fault->line++;
        lines->at = line;
        if (strlen(line) < (size_t)length)
            error = lines_wrong(lines, "not a line of text");
        else
            error = take(arg);
    }
    if (!error && !feof(file)) /* nor if there is no memory for a line */
        error = errno ? -errno : -EIO;
    if (!error)
        lines->fault->line = 0;
    free(line);
    fclose(file);
    return error;
}

#endif
