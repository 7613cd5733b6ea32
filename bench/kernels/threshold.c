/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How long to spin before the cool phases of a wait (Hori et al., "Shadow Thread", Table 2 and
 * Figure 8). Against the threshold between the two, counted in polls or in time-stamp cycles:
 *
 *   the sample                what fork and join take beyond the forked function's own time
 *   ended_..._percent         which phase ended the joins: spin, monitor, or park (sleep)
 *   burned_percent            processor time of the joining thread in percent of the time that went
 *                             by (CLOCK_THREAD_CPUTIME_ID), for functions that take their time
 *   energy                    waiting_curve.h: all processors waiting at once
 *
 * The forked function takes partner_ns, once by the clock; 0: it only counts. The limit is to spin
 * for ever, the threshold infinity; threshold 0 is to go to the cool phases at once. Thresholds in polls
 * are the paper's: after them the monitor alone, without sleep (shadow_fork_paper_wait). Those in cycles
 * are Umbra's, with sleep as the third phase.
 */
#include "harness.h"
#include "ping_pong.h"
#include "shadow_fork.h"
#include "waiting_curve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/topology.h>

#define ROUNDS 301
#define ROUNDS_QUICK 21
#define LONG_NS UINT64_C(10000000)
#define MIDDLE_NS UINT64_C(10000)
#define WARM_UP_NS UINT64_C(200000) /* the longest partner of a batch that is thrown away */
#define MIDDLE_BATCH 25             /* as much as a quarter of a millisecond */
#define CURVE_SAMPLES 10
#define CURVE_LEAST_POLLS 100000
#define POLLS_MOST UINT64_C(10000000000) /* beyond all samples of a curve */
#define CURVE_NS UINT64_C(2000000000)
#define CURVE_QUICK_SAMPLES 2
#define CURVE_QUICK_NS UINT64_C(400000000)
#define CURVE_TINY_NS UINT64_C(1000000)
#define ROWS_MOST 80
#define ROUND_TRIPS 4 /* a threshold of more of them is no matter of luck */

enum counted { ITERATIONS, CYCLES, DEFAULT, INFINITE };

/* One row: when a wait stops to spin, and what it waits for. */
struct threshold {
    enum counted counted;
    uint64_t amount; /* polls or cycles */
    uint64_t partner_ns;
};

/* All rows, as they are declared. */
static struct entry {
    struct threshold threshold;
    struct bench_row *row;
} entries[ROWS_MOST];
static unsigned n_entries;

/* What changes hands, on the harness's lines. */
struct exchange {
    struct umbra_shadow shadow;                  /* first, as in the rows of null-fork */
    UM_ALIGNED(BENCH_LINES_ALIGN) uint64_t done; /* functions that have run; the function adds */
    uint64_t partner_ns;                         /* the caller sets it between forks */
    uint64_t worked_ns;                          /* by the function's own clock */
};

_Static_assert(sizeof(struct exchange) <= BENCH_LINES_BYTES, "fits the harness's lines");
_Static_assert(_Alignof(struct exchange) <= BENCH_LINES_ALIGN, "and is aligned there");

/* What a row keeps from turn to turn. */
struct record {
    const struct threshold *threshold;
    struct umbra_wait_options wait;
    struct exchange *exchange; /* of this turn */
    bool warm;                 /* the batch that is thrown away has run */
    uint64_t ended[3], waits;  /* sums over all batches that count */
    uint64_t wall_ns, burned_ns;
};

static void count(void *arg)
{
    struct exchange *exchange = arg;

    exchange->done++;
}

static void work(void *arg)
{
    struct exchange *exchange = arg;
    uint64_t begin = bench_now_ns();
    uint64_t now;

    do {
        umbra_pause();
        now = bench_now_ns();
    } while (now - begin < exchange->partner_ns);
    exchange->done++;
    exchange->worked_ns += now - begin;
}

/* ---- one row ---- */

static int choose_wait(struct bench_row *row, struct umbra_wait_options *wait)
{
    const struct threshold *threshold = row->arg;
    int error = 0;

    *wait = (struct umbra_wait_options){.mode = UMBRA_WAIT_TWO_PHASE};
    switch (threshold->counted) {
    case ITERATIONS:
        error = shadow_fork_paper_wait(row, threshold->amount, wait);
        json_object_set_new(row->params, "spin_cycles",
                            json_integer((json_int_t)wait->spin_cycles));
        json_object_set_new(row->params, "monitor",
                            json_string(wait->backend != NULL ? wait->backend : "pause"));
        break;
    case CYCLES:
        wait->spin_cycles = threshold->amount > 0 ? threshold->amount : SHADOW_FORK_NO_SPIN;
        break;
    case DEFAULT:
        return 0;
    case INFINITE:
        wait->mode = UMBRA_WAIT_SPIN;
        return 0;
    }
    return error;
}

/* The paper's curves: the monitor alone, thresholds, spinning for ever; and what Umbra does by default.
 * The quick form has no thresholds. */
static bool has_curve(const struct bench_row *row)
{
    const struct threshold *threshold = row->arg;

    if (threshold->partner_ns != LONG_NS || threshold->counted == CYCLES)
        return false;
    return threshold->amount == 0 ||
           (!bench_quick(row->bench) && threshold->amount >= CURVE_LEAST_POLLS);
}

static int add_curve(struct bench_row *row, const struct umbra_wait_options *wait)
{
    bool quick = bench_quick(row->bench);
    struct waiting_curve curve = {.wait = *wait,
                                  .samples = quick ? CURVE_QUICK_SAMPLES : CURVE_SAMPLES,
                                  .every_ns = bench_tiny(row->bench) ? CURVE_TINY_NS
                                              : quick                ? CURVE_QUICK_NS
                                                                     : CURVE_NS};

    return waiting_curve_add(row, &curve);
}

static int open_row(struct bench_row *row)
{
    struct record *record = calloc(1, sizeof *record);
    int error = record != NULL ? choose_wait(row, &record->wait) : -ENOMEM;

    if (error == 0 && has_curve(row))
        error = add_curve(row, &record->wait);
    if (error != 0) {
        free(record);
        return error;
    }
    record->threshold = row->arg;
    row->state = record;
    return 0;
}

static int start(struct bench_row *row)
{
    struct record *record = row->state;
    struct exchange *exchange = bench_lines(row->bench);

    record->exchange = exchange;
    record->warm = false;
    exchange->done = 0;
    exchange->worked_ns = 0;
    return shadow_fork_create(row, &record->wait, &exchange->shadow);
}

static uint64_t fork_and_join(struct record *record, uint64_t iterations)
{
    struct exchange *exchange = record->exchange;
    umbra_shadow_fn *function = record->threshold->partner_ns > 0 ? work : count;
    uint64_t begin = bench_now_ns();

    for (uint64_t i = 0; i < iterations; i++) {
        shadow_fork(&exchange->shadow, function, exchange);
        shadow_join(&exchange->shadow);
    }
    return bench_now_ns() - begin;
}

/* Adds how the joins of one batch ended; whether there was one for each iteration. */
static bool note_ends(struct record *record, const struct umbra_wait_stats *before,
                      uint64_t iterations)
{
    struct umbra_wait_stats now = umbra_waiter_stats(&record->exchange->shadow.owner_waiter);
    uint64_t waits = 0;

    for (int end = 0; end < 3; end++) {
        uint64_t ended = now.ended[end] - before->ended[end];

        waits += ended;
        record->ended[end] += ended;
    }
    record->waits += waits;
    return waits == iterations;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct record *record = row->state;
    struct exchange *exchange = record->exchange;
    struct umbra_wait_stats before = umbra_waiter_stats(&exchange->shadow.owner_waiter);
    uint64_t done = exchange->done;
    uint64_t worked = exchange->worked_ns;
    uint64_t wanted = record->threshold->partner_ns;
    uint64_t burned, wall;

    exchange->partner_ns = record->warm || wanted < WARM_UP_NS ? wanted : WARM_UP_NS;
    burned = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    wall = fork_and_join(record, batch->iterations);
    burned = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - burned;
    batch->ns = wall - (exchange->worked_ns - worked);
    batch->verified = exchange->done - done;
    if (!record->warm) {
        record->warm = true;
        return 0;
    }
    record->wall_ns += wall;
    record->burned_ns += burned;
    return note_ends(record, &before, batch->iterations) ? 0 : -EPROTO;
}

static void stop(struct bench_row *row)
{
    struct record *record = row->state;

    shadow_destroy(&record->exchange->shadow);
}

static void set_percent(struct bench_row *row, const char *name, uint64_t part, uint64_t whole)
{
    json_object_set_new(row->params, name, json_real(100.0 * (double)part / (double)whole));
}

static void close_row(struct bench_row *row)
{
    static const char *const names[3] = {"ended_spin_percent", "ended_monitor_percent",
                                         "ended_park_percent"};
    struct record *record = row->state;

    for (int end = 0; end < 3 && record->waits > 0; end++)
        set_percent(row, names[end], record->ended[end], record->waits);
    if (record->threshold->partner_ns > 0 && record->wall_ns > 0)
        set_percent(row, "burned_percent", record->burned_ns, record->wall_ns);
    free(record);
    row->state = NULL;
}

static const struct bench_ops ops = {
    .open = open_row, .start = start, .run = run, .stop = stop, .close = close_row};

/* ---- all rows ---- */

static struct bench_row *add(struct bench *bench, const char *name, struct threshold threshold,
                             struct bench_row *limit)
{
    struct entry *entry = &entries[n_entries++];
    struct bench_row *row = bench_add(bench, name, &ops, &entry->threshold);

    *entry = (struct entry){threshold, row};
    row->limit = limit;
    if (threshold.partner_ns > 0)
        row->batch = threshold.partner_ns == MIDDLE_NS ? MIDDLE_BATCH : 1;
    if (threshold.counted == ITERATIONS)
        json_object_set_new(row->params, "iterations", json_integer((json_int_t)threshold.amount));
    else if (threshold.counted == CYCLES)
        json_object_set_new(row->params, "cycles", json_integer((json_int_t)threshold.amount));
    json_object_set_new(row->params, "partner_ns", json_integer((json_int_t)threshold.partner_ns));
    return row;
}

static void add_thresholds(struct bench *bench, enum counted counted, uint64_t partner_ns,
                           struct bench_row *limit)
{
    uint64_t most = counted == ITERATIONS && partner_ns == LONG_NS ? POLLS_MOST : 100000000;

    add(bench, "shadow-two-phase", (struct threshold){counted, 0, partner_ns}, limit);
    for (uint64_t amount = 100; amount <= most; amount *= 10)
        add(bench, "shadow-two-phase", (struct threshold){counted, amount, partner_ns}, limit);
}

static void add_default(struct bench *bench, uint64_t partner_ns, struct bench_row *limit)
{
    struct bench_row *row =
        add(bench, "shadow-two-phase", (struct threshold){DEFAULT, 0, partner_ns}, limit);

    json_object_set_new(row->params, "cycles",
                        json_integer((json_int_t)um_ns_to_cycles(UMBRA_SPIN_NS)));
    json_object_set_new(row->params, "default", json_true());
}

static int declare(struct bench *bench)
{
    static const uint64_t partners[] = {0, MIDDLE_NS, LONG_NS};

    ping_pong_add_between(bench, bench_cpu(bench, 0), bench_cpu(bench, 1));
    for (size_t p = 0; p < sizeof partners / sizeof partners[0]; p++) {
        struct bench_row *limit =
            add(bench, "shadow-spin", (struct threshold){INFINITE, 0, partners[p]}, NULL);

        add_thresholds(bench, ITERATIONS, partners[p], limit);
        add_thresholds(bench, CYCLES, partners[p], limit);
        add_default(bench, partners[p], limit);
    }
    return 0;
}

/* ---- in words ---- */

static double parameter(const struct bench_row *row, const char *name)
{
    return json_number_value(json_object_get(row->params, name));
}

/* The length of a row's spin phase. */
static double threshold_of(const struct entry *entry)
{
    return parameter(entry->row, entry->threshold.counted == ITERATIONS ? "spin_cycles" : "cycles");
}

static void remark_on_cost(double round_trip, FILE *out)
{
    double worst = 0;

    for (unsigned i = 0; i < n_entries; i++) {
        const struct entry *entry = &entries[i];

        if (entry->row->shown && entry->row->limit != NULL && entry->threshold.partner_ns == 0 &&
            threshold_of(entry) > ROUND_TRIPS * round_trip)
            worst = fmax(worst, bench_quotient(entry->row, entry->row->limit).median);
    }
    fprintf(out,
            "Thresholds above %d round trips (%.0f cycles): at most %.2f times the time of "
            "shadow-spin.\n",
            ROUND_TRIPS, ROUND_TRIPS * round_trip, worst);
}

static void remark_on_burning(FILE *out)
{
    for (unsigned i = 0; i < n_entries; i++) {
        const struct entry *entry = &entries[i];

        if (entry->row->shown && entry->threshold.partner_ns == LONG_NS &&
            (entry->threshold.counted == DEFAULT || entry->threshold.counted == INFINITE))
            fprintf(out, "  %-20s burned %7.3f %% of the processor in waits of 10 ms\n",
                    entry->threshold.counted == DEFAULT ? "default threshold" : "shadow-spin",
                    parameter(entry->row, "burned_percent"));
    }
}

static void remark(const struct bench *bench, FILE *out)
{
    const struct bench_row *ping_pong = bench_find(bench, "ping-pong");

    if (ping_pong != NULL && bench_find(bench, "shadow-two-phase") != NULL)
        remark_on_cost(
            bench_summary_of(ping_pong).median * (double)um_ns_to_cycles(1000000000) / 1e9, out);
    remark_on_burning(out);
    fprintf(
        out,
        "The paper's Table 2, on SMT siblings of a Xeon X5560 at 2.8 GHz, in cycles: threshold 0\n"
        "2879, 10^2 to 10^8 iterations 70 to 74, infinity 58.\n");
}

static const struct bench_kernel kernel = {
    .name = "threshold",
    .about = "fork and join against the length of the spin phase",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
