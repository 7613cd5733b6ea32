/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the larger programs share: numbers among the arguments, the choice of ways to run, medians.
 * Whoever includes this has defined PROGRAM as its name. A bad argument ends the program: one line
 * that names it, exit status 2.
 */
#ifndef EXAMPLES_PROGRAM_H
#define EXAMPLES_PROGRAM_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/topology.h>

/* The whole number that is the value of an option: digits, and no more than fit. */
static inline size_t number_of(const char *what, const char *text, size_t least, size_t most)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value < least || value > most) {
        fprintf(stderr, PROGRAM ": %s: not a number from %zu to %zu: '%s'\n", what, least, most,
                text);
        exit(2);
    }
    return (size_t)value;
}

/* A way to do what the program does: the first field of whatever else is known about it. */
struct way {
    const char *name;
    const char *about;
    bool hidden; /* not to be run */
};

/* The n-th of ways that lie so many bytes apart. */
static inline struct way *way_at(void *ways, size_t n, size_t bytes)
{
    return (struct way *)((char *)ways + n * bytes);
}

/* Shows only those ways whose names are listed, one at least, with commas, which are overwritten. */
static inline void show_only(char *names, void *ways, size_t count, size_t bytes)
{
    for (size_t w = 0; w < count; w++)
        way_at(ways, w, bytes)->hidden = true;
    if (strspn(names, ",") == strlen(names)) {
        fprintf(stderr, PROGRAM ": --only: no way is named: '%s'\n", names);
        exit(2);
    }
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        size_t w = 0;

        while (w < count && strcmp(way_at(ways, w, bytes)->name, name) != 0)
            w++;
        if (w == count) {
            fprintf(stderr, PROGRAM ": --only: no such way: '%s'\n", name);
            exit(2);
        }
        way_at(ways, w, bytes)->hidden = false;
    }
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

/* At the end: the exit status, or 1 if what was printed has not all been written, which is said. */
static inline int printed(int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, PROGRAM ": standard output: %s\n", strerror(errno ? errno : EIO));
    return status ? status : 1;
}

/* Processors that this process may use. */
static inline size_t processors_here(void)
{
    struct umbra_topology *topology;
    size_t count = 1;

    if (umbra_topology_create(NULL, &topology) == 0) {
        count = umbra_topology_cpus(topology);
        umbra_topology_destroy(topology);
    }
    return count;
}

#endif
