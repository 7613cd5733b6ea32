/* SPDX-License-Identifier: BSL-1.0 */
/* See statistics.h. */
#include "statistics.h"

#include <math.h>
#include <stdio.h>

#include "../program.h"

static double quantile(const double *value, size_t count, double part)
{
    double at = part * (double)(count - 1);
    size_t below = (size_t)at;
    size_t above = below + 1 < count ? below + 1 : below;

    return value[below] + (at - (double)below) * (value[above] - value[below]);
}

static double deviation_of(const double *value, size_t count, double mean)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += (value[i] - mean) * (value[i] - mean);
    return count > 1 ? sqrt(sum / (double)(count - 1)) : 0;
}

struct statistics statistics_of(double *value, size_t count)
{
    struct statistics statistics;
    double sum = 0;

    qsort(value, count, sizeof(*value), compare);
    for (size_t i = 0; i < count; i++)
        sum += value[i];
    statistics = (struct statistics){
        .min = value[0],
        .first_quartile = quantile(value, count, 0.25),
        .median = quantile(value, count, 0.5),
        .third_quartile = quantile(value, count, 0.75),
        .max = value[count - 1],
        .mean = sum / (double)count,
    };
    statistics.deviation = deviation_of(value, count, statistics.mean);
    return statistics;
}

struct statistics statistics_of_rates(double *value, size_t count)
{
    struct statistics rates = statistics_of(value, count);
    double sum = 0, squares = 0, mean;

    if (value[0] == 0) { /* the least: the mean is its limit */
        rates.mean = rates.deviation = 0;
        return rates;
    }
    for (size_t i = 0; i < count; i++)
        sum += 1 / value[i];
    mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (1 / value[i] - mean) * (1 / value[i] - mean);
    rates.mean = 1 / mean;
    rates.deviation = count > 1 ? sqrt(squares) / ((double)count - 1) / (mean * mean) : 0;
    return rates;
}

void statistics_print(const struct statistics *statistics, const char *name, const char *mean,
                      const char *deviation)
{
    printf("min_%s: %.9g\n", name, statistics->min);
    printf("firstquartile_%s: %.9g\n", name, statistics->first_quartile);
    printf("median_%s: %.9g\n", name, statistics->median);
    printf("thirdquartile_%s: %.9g\n", name, statistics->third_quartile);
    printf("max_%s: %.9g\n", name, statistics->max);
    printf("%s_%s: %.9g\n", mean, name, statistics->mean);
    printf("%s_%s: %.9g\n", deviation, name, statistics->deviation);
}
