/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A helper that prefetches (umbra/prefetch.h): six workloads whose addresses the processor cannot
 * guess (prefetch_workloads.h), with data from a part of a core's own cache to a multiple of the
 * last-level cache, and with several amounts of work on each item. The limit is the plain loop;
 * contenders are the loop with prefetch instructions in line, as far ahead as the data allow, and
 * the plain loop with a shadow that runs ahead of it. Time is an item's.
 */
#include "harness.h"
#include "prefetch_workloads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/topology.h>

#define ROUNDS 51
#define ROUNDS_QUICK 21
#define VISIT 2048u /* items a batch */
#define MIB ((size_t)1 << 20)
#define WINDOW 32 /* items; tried: 32 to 2048 */
#define SIZES 3u
#define WORKS 6u

/* Where the topology does not say. */
#define L2_BYTES_UNKNOWN MIB
#define L3_BYTES_UNKNOWN (32 * MIB)

#define TINY_BYTES (MIB / 2)

/* An eighth of an L2, a quarter of the last level, 2.5 of these. */
enum { NEAR, SHARED, FAR };

static const unsigned works[WORKS] = {0, 4, 8, 16, 32, 64};
static const char *const names[] = {"plain", "inline-prefetch", "shadow-prefetch"};

/* A workload with some data, and one amount of work: three rows. */
struct point {
    struct workload_data *data;
    const struct workload *workload;
    size_t bytes;
    unsigned work;
    char variant[40];
    struct bench_row *row[3];
};

static struct workload_data all_data[WORKLOADS][SIZES];
static struct point points[WORKLOADS * SIZES * WORKS];
static unsigned n_points;

/* ---- rows ---- */

struct turn {
    struct visit visit;
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_shadow shadow;
};

/* The data are made for the first row that wants them. */
static int open_row(struct bench_row *row)
{
    const struct point *point = row->arg;

    if (point->data->workload == NULL &&
        workload_build(point->data, point->workload, point->bytes) != 0)
        return bench_refuse(row, -ENOMEM, "no memory for %zu MiB", point->bytes / MIB);
    row->state = aligned_alloc(_Alignof(struct turn), sizeof(struct turn));
    if (row->state == NULL)
        return -ENOMEM;
    json_object_set_new(row->params, "items", json_integer((json_int_t)point->data->items));
    return 0;
}

static void close_row(struct bench_row *row)
{
    const struct point *point = row->arg;

    free(row->state);
    if (point->data->workload != NULL)
        workload_free(point->data);
}

static enum way way_of(const struct bench_row *row)
{
    const struct point *point = row->arg;
    unsigned way = 0;

    while (point->row[way] != row)
        way++;
    return (enum way)way;
}

static int start(struct bench_row *row)
{
    const struct point *point = row->arg;
    struct turn *turn = row->state;
    struct umbra_shadow_options place = {
        .topology = bench_topology(row->bench),
        .place_owner = true,
        .place_shadow = true,
        .owner_cpu = bench_cpu(row->bench, 0),
        .shadow_cpu = bench_cpu(row->bench, 1),
    };
    struct umbra_prefetch_options options = {.window = WINDOW};
    int error;

    turn->visit = (struct visit){.data = point->data, .work = point->work, .way = way_of(row)};
    if (turn->visit.way != WAY_SHADOW)
        return 0;
    error = shadow_create(&turn->shadow, &place);
    if (error != 0)
        return error;
    turn->visit.shadow = &turn->shadow;
    options.demote = turn->shadow.info.shared == UMBRA_SHARED_L3;
    return umbra_prefetch_init(&turn->visit.ahead, &options);
}

static void stop(struct bench_row *row)
{
    struct turn *turn = row->state;

    if (turn->visit.way == WAY_SHADOW)
        shadow_destroy(&turn->shadow);
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct visit *visit = &((struct turn *)row->state)->visit;
    struct workload_data *data = visit->data;
    const struct workload *workload = data->workload;
    uint64_t begin, sum;

    for (uint64_t left = batch->iterations; left > 0; left -= visit->count) {
        uint64_t rest = data->items - data->position;

        visit->first = data->position;
        visit->count = left < rest ? left : rest;
        begin = bench_now_ns();
        sum = workload->visit(visit);
        batch->ns += bench_now_ns() - begin;
        data->position = (data->position + visit->count) % data->items;
        batch->verified += sum == workload->expect(visit) ? visit->count : 0;
    }
    return 0;
}

static const struct bench_ops ops = {
    .open = open_row, .start = start, .run = run, .stop = stop, .close = close_row};

/* ---- which ---- */

static size_t size_of(const struct bench *bench, unsigned size)
{
    const struct umbra_topology *topology = bench_topology(bench); /* none with --list */
    const struct umbra_topology_cpu *cpu =
        topology != NULL ? umbra_topology_cpu_of(topology, bench_cpu(bench, 0)) : NULL;
    size_t l2 = cpu != NULL && cpu->l2_bytes != 0 ? cpu->l2_bytes : L2_BYTES_UNKNOWN;
    size_t l3 = cpu != NULL && cpu->l3_bytes != 0 ? cpu->l3_bytes : L3_BYTES_UNKNOWN;

    if (bench_tiny(bench))
        return TINY_BYTES << size;
    return size == NEAR ? l2 / 8 : size == SHARED ? l3 / 4 : l3 / 2 * 5;
}

static void add_point(struct bench *bench, unsigned workload, unsigned size, unsigned work)
{
    struct point *point = &points[n_points++];

    *point = (struct point){.data = &all_data[workload][size],
                            .workload = &workloads[workload],
                            .bytes = size_of(bench, size),
                            .work = work};
    snprintf(point->variant, sizeof point->variant, "%s %zu KiB %u", point->workload->name,
             point->bytes / 1024, work);
    for (unsigned way = 0; way < 3; way++) {
        struct bench_row *row = bench_add(bench, names[way], &ops, point);

        row->limit = way == 0 ? NULL : point->row[0];
        json_object_set_new(row->params, "workload", json_string(point->workload->name));
        json_object_set_new(row->params, "bytes", json_integer((json_int_t)point->bytes));
        json_object_set_new(row->params, "work", json_integer(work));
        point->row[way] = row;
    }
}

/* Quick: the lists and the hash table far beyond the caches, and a look at the others. */
static bool is_quick(unsigned workload, unsigned size, unsigned work)
{
    const char *name = workloads[workload].name;
    bool thorough = strcmp(name, "list") == 0 || strcmp(name, "hash") == 0;

    if (size == FAR)
        return thorough ? work != 64 : work == 8 || work == 32;
    return thorough && work == 8;
}

static int declare(struct bench *bench)
{
    n_points = 0;
    for (unsigned workload = 0; workload < WORKLOADS; workload++)
        for (unsigned size = 0; size < SIZES; size++)
            for (unsigned i = 0; i < WORKS; i++)
                if (!bench_quick(bench) || is_quick(workload, size, works[i]))
                    add_point(bench, workload, size, works[i]);
    return 0;
}

/* How many times as fast as the plain loop, or "-". */
static void print_speed_up(const struct point *point, unsigned way, FILE *out)
{
    if (point->row[way]->runs && point->row[0]->runs)
        fprintf(out, " %16.2f", bench_quotient(point->row[0], point->row[way]).median);
    else
        fprintf(out, " %16s", "-");
}

static void remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    fprintf(out, "Speed-up: %22s %10s %16s %16s\n", "workload, KiB, work", "plain, ns", names[1],
            names[2]);
    for (unsigned p = 0; p < n_points; p++) {
        const struct point *point = &points[p];

        if (!point->row[0]->runs)
            continue;
        fprintf(out, "%32s %10.1f", point->variant, bench_summary_of(point->row[0]).median);
        print_speed_up(point, 1, out);
        print_speed_up(point, 2, out);
        fputc('\n', out);
    }
    fputs(
        "Work is rounds of six multiplications each. In line, prefetch looks ahead by a node of a\n"
        "list, since nobody knows where the one after it is, and by 8 or 16 items of all else.\n",
        out);
}

static const struct bench_kernel kernel = {
    .name = "prefetch",
    .about = "a shadow that prefetches ahead of its owner, and prefetch in line; time an item",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .batch = VISIT,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
