/* SPDX-License-Identifier: BSL-1.0 */
/* Output of the harness: quantiles, JSON lines, the table for people. See harness.h. */
#define _GNU_SOURCE
#include "harness_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/cpu.h>

#define LABEL_BYTES 64
#define TABLE_MOST 60 /* rows of the table: more are for programs to read */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

void bench_state_median(struct bench_row *row, const char *name, double *samples, unsigned n)
{
    qsort(samples, n, sizeof *samples, compare);
    json_object_set_new(row->params, name, json_real(samples[n / 2]));
}

/* The q-quantile of n sorted values, linear between neighbours. */
static double quantile(const double *sorted, unsigned n, double q)
{
    double position = q * (n - 1);
    unsigned below = (unsigned)position;
    unsigned above = below + 1 < n ? below + 1 : below;

    return sorted[below] + (position - below) * (sorted[above] - sorted[below]);
}

/*
 * How many of n values a sorted end may have that are not taken for the median with 95 % confidence,
 * whatever their distribution: each lies above it with probability 1/2, and the normal distribution
 * stands for the binomial one, whose standard deviation is sqrt(n) / 2; 1.96 of them.
 */
static unsigned outside_median(unsigned n)
{
    double most = n / 2.0 - 0.98 * sqrt(n);

    return most < 1 ? 0 : (unsigned)most - 1;
}

/* Sorts values. Without any, as in a run that failed, there is no number. */
static struct bench_summary summarise(double *values, unsigned n)
{
    if (n == 0)
        return (struct bench_summary){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    qsort(values, n, sizeof *values, compare);
    return (struct bench_summary){.min = values[0],
                                  .p5 = quantile(values, n, 0.05),
                                  .median = quantile(values, n, 0.5),
                                  .p90 = quantile(values, n, 0.9),
                                  .p95 = quantile(values, n, 0.95),
                                  .p99 = quantile(values, n, 0.99),
                                  .low = values[outside_median(n)],
                                  .high = values[n - 1 - outside_median(n)]};
}

static double *new_values(unsigned n)
{
    double *values = malloc(n * sizeof *values);

    if (values == NULL) {
        fprintf(stderr, "bench: out of memory\n");
        exit(BENCH_FAILED);
    }
    return values;
}

/* In how many rounds the row had a turn. */
static unsigned rounds_of(const struct bench_row *row)
{
    unsigned n = 0;

    for (unsigned r = 0; r < row->bench->rounds; r++)
        n += !isnan(row->samples[r]);
    return n;
}

/* Of every `step`th round from the first on. */
static struct bench_summary summary_of(const struct bench_row *row, unsigned first, unsigned step)
{
    double *values = new_values(row->bench->rounds);
    struct bench_summary summary;
    unsigned n = 0;

    for (unsigned r = first; r < row->bench->rounds; r += step)
        if (!isnan(row->samples[r]))
            values[n++] = row->samples[r];
    summary = summarise(values, n);
    free(values);
    return summary;
}

struct bench_summary bench_summary_of(const struct bench_row *row)
{
    return summary_of(row, 0, 1);
}

/* As summary_of() has it. */
static const struct bench_row *best_of(struct bench_row *const *rows, size_t count, unsigned first,
                                       unsigned step)
{
    const struct bench_row *best = NULL;
    double least = INFINITY;

    for (size_t i = 0; i < count; i++) {
        bool there = rows[i] != NULL && rows[i]->runs;
        double median = there ? summary_of(rows[i], first, step).median : NAN;

        if (median < least) {
            least = median;
            best = rows[i];
        }
    }
    return best;
}

const struct bench_row *bench_best(struct bench_row *const *rows, size_t count)
{
    return best_of(rows, count, 0, 1);
}

struct bench_summary bench_quotient_of_best(const struct bench_row *above,
                                            struct bench_row *const *others, size_t count)
{
    double *values = new_values(above->bench->rounds);
    struct bench_summary summary;
    unsigned n = 0;

    for (unsigned half = 0; half < 2; half++) {
        const struct bench_row *best = best_of(others, count, !half, 2);

        for (unsigned r = half; best != NULL && r < above->bench->rounds; r += 2)
            if (!isnan(above->samples[r]) && !isnan(best->samples[r]))
                values[n++] = above->samples[r] / best->samples[r];
    }
    summary = summarise(values, n);
    free(values);
    return summary;
}

struct bench_summary bench_quotient(const struct bench_row *above, const struct bench_row *below)
{
    double *values = new_values(above->bench->rounds);
    struct bench_summary summary;
    unsigned n = 0;

    for (unsigned r = 0; r < above->bench->rounds; r++)
        if (!isnan(above->samples[r]) && !isnan(below->samples[r]))
            values[n++] = above->samples[r] / below->samples[r];
    summary = summarise(values, n);
    free(values);
    return summary;
}

static void print_object(json_t *object, FILE *out)
{
    json_dumpf(object, out, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    fputc('\n', out);
    json_decref(object);
}

static bool has_limit(const struct bench_row *row)
{
    return row->limit != NULL && row->limit->runs;
}

static json_t *samples_array(const struct bench_row *row)
{
    json_t *samples = json_array();

    for (unsigned r = 0; r < row->bench->rounds; r++)
        if (!isnan(row->samples[r]))
            json_array_append_new(samples, json_real(row->samples[r]));
    return samples;
}

static json_t *row_object(const struct bench_row *row)
{
    struct bench_summary summary = bench_summary_of(row);
    json_t *object = json_pack("{s:s, s:s, s:O, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "bench",
                               row->bench->kernel->name, "contender", row->name, "params",
                               row->params, "unit", row->unit, "rounds", (int)rounds_of(row), "min",
                               summary.min, "p5", summary.p5, "median", summary.median, "p90",
                               summary.p90, "p95", summary.p95, "p99", summary.p99);

    if (has_limit(row)) {
        struct bench_summary ratio = bench_quotient(row, row->limit);

        json_object_set_new(object, "limit", json_string(row->limit->name));
        json_object_set_new(object, "ratio", json_real(ratio.median));
        json_object_set_new(object, "ratio_low", json_real(ratio.low));
        json_object_set_new(object, "ratio_high", json_real(ratio.high));
    }
    if (row->bench->kernel->distributions)
        json_object_set_new(object, "samples", samples_array(row));
    return object;
}

void bench_print_json(const struct bench *bench, FILE *out)
{
    print_object(bench_machine(bench), out);
    for (unsigned i = 0; i < bench->n_rows; i++)
        if (bench->rows[i]->runs && bench->rows[i]->shown)
            print_object(row_object(bench->rows[i]), out);
}

/* Limits first, then by median. */
static int compare_rows(const void *a, const void *b)
{
    const struct bench_row *x = *(struct bench_row *const *)a;
    const struct bench_row *y = *(struct bench_row *const *)b;
    double left = bench_summary_of(x).median;
    double right = bench_summary_of(y).median;

    if ((x->limit == NULL) != (y->limit == NULL))
        return x->limit == NULL ? -1 : 1;
    return (left > right) - (left < right);
}

/* Adds a parameter to a label. */
static void tell(const char *name, const json_t *value, char label[static LABEL_BYTES])
{
    size_t length = strlen(label);
    long long number = json_integer_value(value);
    bool mib = number % (1 << 20) == 0;

    label += length;
    length = LABEL_BYTES - length;
    if (json_is_string(value))
        snprintf(label, length, " %s", json_string_value(value));
    else if (strcmp(name, "bytes") == 0 && number % 1024 == 0)
        snprintf(label, length, " %lld %s", number >> (mib ? 20 : 10), mib ? "MiB" : "KiB");
    else if (strcmp(name, "count") == 0 || strcmp(name, "bytes") == 0)
        snprintf(label, length, " %lld", number);
    else
        snprintf(label, length, " %s %lld", name, number);
}

/* The parameter of that name, if it tells a row from others: with a block alone the name does. */
static const json_t *telling_of(const struct bench_row *row, const char *name)
{
    if (strcmp(name, "block") == 0 && json_object_get(row->params, "bytes") == NULL)
        return NULL;
    return json_object_get(row->params, name);
}

/* The contender, and what tells it from the rows of the same name. */
static size_t label_of(const struct bench_row *row, char label[static LABEL_BYTES])
{
    static const char *const telling[] = {"count",      "cores",  "items",      "task",  "workload",
                                          "bytes",      "block",  "work",       "from",  "to",
                                          "iterations", "cycles", "partner_ns", "input", "limit",
                                          "live",       "others"};

    snprintf(label, LABEL_BYTES, "%s", row->name);
    for (size_t i = 0; i < sizeof telling / sizeof telling[0]; i++) {
        const json_t *value = telling_of(row, telling[i]);

        if (value != NULL)
            tell(telling[i], value, label);
    }
    return strlen(label);
}

/* Whether rows had turns in different numbers of rounds. */
static bool rounds_differ(const struct bench *bench)
{
    bool differ = false;

    for (unsigned i = 0; i < bench->n_rows; i++)
        differ |= bench->rows[i]->runs && rounds_of(bench->rows[i]) != bench->rounds;
    return differ;
}

static void print_row(const struct bench_row *row, size_t width, bool rounds)
{
    char label[LABEL_BYTES];
    struct bench_summary s = bench_summary_of(row);
    bool time = strcmp(row->unit, "ns") == 0;

    label_of(row, label);
    printf("%-*s %11.1f %11.1f %11.1f %11.1f %-5s", (int)width, label, s.min, s.median, s.p90,
           s.p99, row->unit);
    if (time)
        printf(" %10.0f", s.median * (double)um_ns_to_cycles(1000000000) / 1e9);
    if (has_limit(row))
        printf(" %9.2fx", bench_quotient(row, row->limit).median);
    else if (rounds)
        printf(" %10s", "");
    if (rounds)
        printf(" %7u", rounds_of(row));
    putchar('\n');
}

static void print_machine(const struct bench *bench)
{
    json_t *machine = bench_machine(bench);
    const char *key;
    json_t *value;

    json_object_foreach(machine, key, value)
    {
        char *text = json_is_string(value) ? strdup(json_string_value(value))
                                           : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

        if (text != NULL && strcmp(key, "bench") != 0)
            printf("  %-13s %s\n", key, text);
        free(text);
    }
    json_decref(machine);
}

/* A line a row. */
static void print_rows(const struct bench *bench)
{
    struct bench_row **shown = calloc(bench->n_rows, sizeof(struct bench_row *));
    size_t width = strlen("contender");
    bool rounds = rounds_differ(bench);
    char label[LABEL_BYTES];
    unsigned n = 0;

    if (shown == NULL)
        return;
    for (unsigned i = 0; i < bench->n_rows; i++) {
        if (!bench->rows[i]->runs || !bench->rows[i]->shown)
            continue;
        shown[n++] = bench->rows[i];
        if (label_of(bench->rows[i], label) > width)
            width = strlen(label);
    }
    qsort(shown, n, sizeof(struct bench_row *), compare_rows);
    printf("%-*s %11s %11s %11s %11s %-5s %10s %10s%s\n", (int)width, "contender", "min", "median",
           "p90", "p99", "unit", "cycles", "ratio", rounds ? "  rounds" : "");
    for (unsigned i = 0; i < n && i < TABLE_MOST; i++)
        print_row(shown[i], width, rounds);
    if (n > TABLE_MOST)
        printf("... and %u more rows, which --json has\n", n - TABLE_MOST);
    free(shown);
}

void bench_print_table(const struct bench *bench)
{
    printf("%s: %s\n", bench->kernel->name, bench->kernel->about);
    print_machine(bench);
    putchar('\n');
    if (bench->kernel->table != NULL)
        bench->kernel->table(bench, stdout);
    else
        print_rows(bench);
    if (bench->kernel->remark != NULL) {
        putchar('\n');
        bench->kernel->remark(bench, stdout);
    }
}
