/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How many null functions a second one hardware thread can fork to another and join, for every
 * ordered pair of them (Hori et al., "Shadow Thread", Figures 5 and 6): where a shadow should sit.
 * The rows are numbered from core to core, so that siblings are neighbours.
 *
 * The number of pairs grows with the square of that of the processors, so it settles how many
 * rounds there are; and the quick form, which shall be over in seconds, leaves pairs out where even
 * three rounds are too long: never those of one core, and evenly from all others. Rows say in
 * "pairs" how many there are, so that what was left out can be told.
 */
#include "harness.h"
#include "ping_pong.h"
#include "shadow_fork.h"

#include <stdlib.h>
#include <string.h>

#include <umbra/topology.h>

#define ROUNDS 1001
#define ROUNDS_QUICK 301
#define TURNS 30000      /* rounds times pairs; one takes 6 ms */
#define TURNS_QUICK 1000 /* the same for the quick form */
#define ROUNDS_LEAST 3
#define TINY_CPUS 3
#define BACKEND_BYTES 40

static const struct umbra_wait_options spin = {.mode = UMBRA_WAIT_SPIN};
static const struct umbra_wait_options two_phase = {.mode = UMBRA_WAIT_TWO_PHASE};

/* Figure 6: a wait by one back end alone, for each that can execute here. */
static char names[UMBRA_BACKEND_COUNT][BACKEND_BYTES];
static struct umbra_wait_options waits[UMBRA_BACKEND_COUNT];

static struct way {
    const char *name;
    const struct umbra_wait_options *wait;
} ways[2 + UMBRA_BACKEND_COUNT] = {{"shadow-spin", &spin}, {"shadow-two-phase", &two_phase}};

/* How many ways there are, to wait. */
static size_t ways_here(void)
{
    const struct um_wait_report *report = um_wait_report();
    size_t count = 2;

    for (int i = 0; i < UMBRA_BACKEND_COUNT; i++) {
        if (i == UMBRA_BACKEND_PAUSE || !report->backend[i].executes)
            continue;
        waits[i] = (struct umbra_wait_options){.mode = UMBRA_WAIT_MONITOR,
                                               .backend = report->backend[i].name};
        snprintf(names[i], sizeof names[i], "shadow-%s", waits[i].backend);
        ways[count++] = (struct way){names[i], &waits[i]};
    }
    return count;
}

static void add_names(struct bench *bench)
{
    bench_add(bench, "ping-pong", NULL, NULL);
    for (size_t w = 0, all = ways_here(); w < all; w++)
        bench_add(bench, ways[w].name, &shadow_fork_ops, ways[w].wait);
}

static enum umbra_shared shared(const struct bench *bench, unsigned from, unsigned to)
{
    return (enum umbra_shared)umbra_topology_shared(bench_topology(bench), bench_cpu(bench, from),
                                                    bench_cpu(bench, to));
}

static void describe(struct bench_row *row, const char *sharing, unsigned pairs)
{
    json_object_set_new(row->params, "shared", json_string(sharing));
    json_object_set_new(row->params, "pairs", json_integer((json_int_t)pairs));
}

static void add_pair(struct bench *bench, unsigned from, unsigned to, size_t n_ways, unsigned pairs)
{
    int a = bench_cpu(bench, from);
    int b = bench_cpu(bench, to);
    const char *sharing = umbra_topology_shared_name(shared(bench, from, to));
    struct bench_row *limit = ping_pong_add_between(bench, a, b);

    describe(limit, sharing, pairs);
    for (size_t w = 0; w < n_ways; w++) {
        struct bench_row *row = bench_add(bench, ways[w].name, &shadow_fork_ops, ways[w].wait);

        bench_place(row, a, b);
        describe(row, sharing, pairs);
        row->limit = limit;
    }
}

/* The pairs of one core, and of the others every so-many-th; a step of 1 is all. */
static bool is_chosen(const struct bench *bench, unsigned from, unsigned to, unsigned step)
{
    return from != to && (shared(bench, from, to) == UMBRA_SHARED_CORE || (from + to) % step == 0);
}

static unsigned count_pairs(const struct bench *bench, unsigned cpus, unsigned step)
{
    unsigned pairs = 0;

    for (unsigned from = 0; from < cpus; from++)
        for (unsigned to = 0; to < cpus; to++)
            pairs += is_chosen(bench, from, to, step);
    return pairs;
}

/* The smallest step at which the quick form is over in time; the full form takes its time. */
static unsigned choose_step(const struct bench *bench, unsigned cpus)
{
    unsigned step = 1;

    while (bench_quick(bench) && step < cpus &&
           count_pairs(bench, cpus, step) > TURNS_QUICK / ROUNDS_LEAST)
        step++;
    return step;
}

static int declare(struct bench *bench)
{
    unsigned cpus = bench_cpus(bench);
    size_t n_ways = ways_here();
    unsigned step, pairs;

    if (bench_lists(bench)) {
        add_names(bench);
        return 0;
    }
    if (bench_tiny(bench) && cpus > TINY_CPUS)
        cpus = TINY_CPUS;
    step = choose_step(bench, cpus);
    pairs = count_pairs(bench, cpus, step);
    bench_limit_rounds(bench, (bench_quick(bench) ? TURNS_QUICK : TURNS) / pairs);
    if (pairs < cpus * (cpus - 1))
        fprintf(stderr, "pair-matrix: --quick: %u of %u pairs\n", pairs, cpus * (cpus - 1));
    for (unsigned from = 0; from < cpus; from++)
        for (unsigned to = 0; to < cpus; to++)
            if (is_chosen(bench, from, to, step))
                add_pair(bench, from, to, n_ways, cpus * (cpus - 1));
    return 0;
}

static void remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    if (shadow_fork_monitor() == NULL)
        fprintf(out, "The paper's Figure 6 is left out: no monitor instruction executes here.\n");
}

static const struct bench_kernel kernel = {
    .name = "pair-matrix",
    .about = "null forks from every hardware thread to every other",
    .cpus = 2,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
