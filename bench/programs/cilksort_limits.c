/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cilksort's three MPI programs (examples/cilksort) against the limit of children in a process (Lima
 * and Maillard, Figure 2): without the library, with limits, and with none; three random inputs. More
 * tasks than the limit become processes, each with children in it up to the limit.
 *
 * Processes take so long that the problem is smaller than the paper's, with tasks of the same size;
 * --quick has one input.
 */
#include "harness.h"
#include "mpi_sort.h"

#define ROUNDS 20
#define ROUNDS_QUICK 3
#define NUMBERS 20000
#define NUMBERS_QUICK 9000
#define NUMBERS_TINY 2500
#define CUTOFF 2048
#define SEEDS 3

static const char *const inputs[SEEDS] = {"random-1", "random-2", "random-3"};
static const long limits[] = {MPI_SORT_NO_LIBRARY, 1, 2, 4, 20, 40, 60, 80, 100, 1000,
                              MPI_SORT_NO_LIMIT};

#define LIMITS (sizeof(limits) / sizeof(limits[0]))

static struct bench_row *rows[SEEDS][LIMITS];

static void add(struct bench *bench, unsigned seed, size_t at)
{
    struct mpi_sort sort = {.count = bench_tiny(bench)    ? NUMBERS_TINY
                                     : bench_quick(bench) ? NUMBERS_QUICK
                                                          : NUMBERS,
                            .cutoff = CUTOFF,
                            .input = "random",
                            .seed = seed + 1,
                            .limit = limits[at]};
    const char *name = sort.limit == MPI_SORT_NO_LIBRARY ? "mpi-process" : "mpi-in-process";
    struct bench_row *row = mpi_sort_row(bench, name, &sort);

    json_object_set_new(row->params, "input", json_string(inputs[seed]));
    row->limit = at > 0 ? rows[seed][0] : NULL;
    rows[seed][at] = row;
}

static int declare(struct bench *bench)
{
    for (unsigned seed = 0; seed < (bench_quick(bench) ? 1 : SEEDS); seed++)
        for (size_t at = 0; at < LIMITS; at++)
            add(bench, seed, at);
    return 0;
}

/* The paper's gains: what is saved of the time without the library. */
static void remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    for (unsigned seed = 0; seed < SEEDS; seed++)
        for (size_t at = 1; at < LIMITS; at++) {
            const struct bench_row *row = rows[seed][at];
            struct bench_summary quotient;

            if (!row || !row->runs || !row->limit->runs)
                continue;
            quotient = bench_quotient(row, row->limit);
            fprintf(out, "%8.1f %% less time than all tasks as processes: %s, ",
                    100 * (1 - quotient.median), inputs[seed]);
            if (limits[at] == MPI_SORT_NO_LIMIT)
                fprintf(out, "no limit\n");
            else
                fprintf(out, "limit %ld\n", limits[at]);
        }
}

static const struct bench_kernel kernel = {
    .name = "cilksort-limits",
    .about = "a sort by MPI programs, against the limit of children in a process",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .distributions = true,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
