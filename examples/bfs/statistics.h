/* SPDX-License-Identifier: BSL-1.0 */
/* What the Graph500 specification wants to know of all searches of a run, and how it is printed. */
#ifndef BFS_STATISTICS_H
#define BFS_STATISTICS_H

#include <stddef.h>

struct statistics {
    double min, first_quartile, median, third_quartile, max;
    double mean, deviation; /* arithmetic; of rates, harmonic */
};

/* Of at least one value, which are sorted. Between two of them, quartiles lie in proportion. */
struct statistics statistics_of(double *value, size_t count);

/* The same of rates, none below 0: the harmonic mean, and its standard deviation (the specification's,
 * after Norris 1940). */
struct statistics statistics_of_rates(double *value, size_t count);

/* Lines "min_time: ..." with this name; `mean` and `deviation` are the names of these two. */
void statistics_print(const struct statistics *statistics, const char *name, const char *mean,
                      const char *deviation);

#endif
