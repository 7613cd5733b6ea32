/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How much the run times of the programs in examples/ differ from run to run (Karasik and Prihozhy
 * 2020, Tables 1 and 2, Figures 6 and 8): Gaussian elimination by rows and by blocks and all-pairs
 * shortest paths, in many runs, each contender in its turn. The spread is p95 - p5. The limit of a
 * row is the cooperative program that does the same. How much the processors themselves differ from
 * one moment to the next is the spread of their arithmetic alone (kernel-roofline), where nobody
 * waits for anybody.
 */
#include "harness.h"
#include "program_rows.h"

#include <apsp_case.h>

#define ROUNDS 200 /* the paper has 1000: --rounds */
#define ROUNDS_QUICK 100
#define BLOCK 120
#define ROOFLINE "kernel-roofline"

static const struct size {
    size_t unknowns, vertices;
} full = {2400, 2400}, quick = {400, 480}, tiny = {61, 61};

/* By rows, in as many threads as the paper's Table 1 has for four cores; cooperative first. */
static const struct {
    const char *name;
    size_t sides, group;
    unsigned every; /* has a turn in one of so many rounds: takes seconds */
} gauss_ways[] = {
    {"umbra-mu1k", 160, 1, 1},  {"umbra-mu1k-pure", 160, 1, 1}, {"pthread-mu1", 160, 1, 1},
    {"openmp-rows", 0, 0, 1},   {"umbra-mu2k", 160, 1, 1},      {"umbra-mu2k-pure", 160, 1, 1},
    {"pthread-mu2", 48, 1, 10}, {"umbra-blocked", 0, 0, 1},     {"openmp-blocked", 0, 0, 1},
};

static const struct {
    const char *name, *order;
    enum openmp openmp;
} apsp_ways[] = {
    {"umbra-ctbpa", "ctbpa", NO_OPENMP}, {"umbra-ctbpa-pure", "pure", NO_OPENMP},
    {"openmp-gomp", "tasks", GOMP},      {"openmp-gomp-depend", "depend", GOMP},
    {"openmp-llvm", "tasks", LLVM},      {"openmp-llvm-depend", "depend", LLVM},
};

#define GAUSS_WAYS (sizeof(gauss_ways) / sizeof(gauss_ways[0]))
#define APSP_WAYS (sizeof(apsp_ways) / sizeof(apsp_ways[0]))

/* Not as its paper has it: those rows are compared with ours, too. */
static bool is_cooperative(const struct bench_row *row)
{
    return strncmp(row->name, "umbra-", strlen("umbra-")) == 0 && !strstr(row->name, "-pure");
}

static void add_gauss(struct bench *bench, size_t n)
{
    struct bench_row *cooperative = NULL;

    for (size_t w = 0; w < GAUSS_WAYS; w++) {
        struct gauss_case gauss = {.way = gauss_ways[w].name,
                                   .n = n,
                                   .sides = gauss_ways[w].sides,
                                   .group = gauss_ways[w].group};
        struct bench_row *row = gauss_row(bench, gauss_ways[w].name, &gauss);

        row->every = bench_quick(bench) || bench_tiny(bench) ? 1 : gauss_ways[w].every;
        if (is_cooperative(row))
            cooperative = row;
        else
            row->limit = cooperative;
    }
}

static int add_apsp(struct bench *bench, size_t n)
{
    static struct blocks blocks; /* the roofline's */
    struct apsp_case apsp = {.n = n, .block = BLOCK};
    struct bench_row *cooperative = NULL;
    struct graph graph;
    int error = apsp_case_graph(n, &graph);

    if (error == 0 && !bench_lists(bench))
        error = apsp_case_expect(&apsp, &graph);
    if (error == 0)
        error = blocks_create(&blocks, FLOAT32, n, BLOCK);
    if (error == 0)
        blocks_fill(&blocks, &graph);
    for (size_t w = 0; w < APSP_WAYS && error == 0; w++) {
        struct bench_row *row =
            apsp_row(bench, apsp_ways[w].name, apsp_ways[w].openmp, apsp_ways[w].order, &apsp);

        if (is_cooperative(row))
            cooperative = row;
        else
            row->limit = cooperative;
    }
    if (error == 0)
        roofline_row(bench, ROOFLINE, &apsp, &blocks)->limit = cooperative;
    graph_destroy(&graph);
    return error;
}

static int declare(struct bench *bench)
{
    const struct size *size = bench_tiny(bench) ? &tiny : bench_quick(bench) ? &quick : &full;

    add_gauss(bench, size->unknowns);
    return add_apsp(bench, size->vertices);
}

static double spread_of(const struct bench_row *row)
{
    struct bench_summary summary = bench_summary_of(row);

    return summary.p95 - summary.p5;
}

static void remark_on(const struct bench *bench, const char *name, FILE *out)
{
    const struct bench_row *row = bench_find(bench, name);
    struct bench_summary s;

    if (row == NULL)
        return;
    s = bench_summary_of(row);
    fprintf(out, "%-20s %9.3f %9.3f %9.3f ms, spread %8.3f ms", name, s.p5 / 1e6, s.median / 1e6,
            s.p95 / 1e6, (s.p95 - s.p5) / 1e6);
    if (row->limit != NULL && row->limit->runs)
        fprintf(out, ", %.1f times that of %s", spread_of(row) / spread_of(row->limit),
                row->limit->name);
    fputc('\n', out);
}

static void remark(const struct bench *bench, FILE *out)
{
    fprintf(out, "%-20s %9s %9s %9s\n", "Spread of run times", "p5", "median", "p95");
    for (size_t w = 0; w < GAUSS_WAYS; w++)
        remark_on(bench, gauss_ways[w].name, out);
    for (size_t w = 0; w < APSP_WAYS; w++)
        remark_on(bench, apsp_ways[w].name, out);
    remark_on(bench, ROOFLINE, out);
}

static const struct bench_kernel kernel = {
    .name = "spread",
    .about = "how much run times differ, Gaussian elimination and all-pairs shortest paths",
    .cpus = 2,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .batch = 1,
    .distributions = true,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
