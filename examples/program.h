/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the larger programs share: numbers among the arguments, medians, texts of errors, the end of
 * the output. A program that includes this defines program_name. A bad argument ends the program:
 * one line that names it, exit status 2.
 */
#ifndef EXAMPLES_PROGRAM_H
#define EXAMPLES_PROGRAM_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/topology.h>

extern const char program_name[];

/* Ends the program: the format says what is wrong with the argument. */
static inline void refuse(const char *argument, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

static inline void refuse(const char *argument, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    fprintf(stderr, "%s: ", program_name);
    vfprintf(stderr, format, values);
    fprintf(stderr, ": '%s'\n", argument);
    va_end(values);
    exit(2);
}

/* Reads a whole number from `least` to `most` where the text begins: digits. What follows it, or
 * NULL: there is no such number. */
static inline const char *number_read(const char *text, size_t least, size_t most, size_t *number)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || errno || value < least || value > most)
        return NULL;
    *number = (size_t)value;
    return end;
}

/* The number that is all of an argument; `what` is the name of the argument. */
static inline size_t number_of(const char *what, const char *text, size_t least, size_t most)
{
    size_t number;
    const char *after = number_read(text, least, most, &number);

    if (!after || *after)
        refuse(text, "%s: not a number from %zu to %zu", what, least, most);
    return number;
}

static inline int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

/* What went wrong, from the negative errno of a failure: the library's text if there is one; else
 * the system's. */
static inline const char *error_text(int error)
{
    const char *text = umbra_last_error_text();

    return *text ? text : strerror(-error);
}

/* At the end: the exit status, or 1 if what was printed has not all been written, which is said. */
static inline int printed(int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "%s: standard output: %s\n", program_name, strerror(errno ? errno : EIO));
    return status ? status : 1;
}

/* Processors that this process may use. */
static inline size_t processors_here(void)
{
    struct umbra_topology *topology;
    size_t count = 1;

    if (umbra_topology_create(NULL, &topology) == 0) {
        count = umbra_topology_info(topology)->cpus;
        umbra_topology_destroy(topology);
    }
    return count;
}

#endif
