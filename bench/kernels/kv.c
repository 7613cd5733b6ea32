/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The store of examples/kv in its four ways: short requests, and one in a hundred that takes a hundred
 * times as long, which arrive on two processors at times that do not depend on the answers. A sample
 * is the 99.9 % quantile of what the answers to short requests took in a run of the program; "p50_us",
 * "p99_us" and "long_us", the median of the long ones, are medians over the rounds. Runs are short, so
 * that most of them are undisturbed: a thousandth of a run is less than the system takes a processor
 * for at a time.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 41
#define ROUNDS_QUICK 11
#define MAX_SAMPLES 256
#define REQUESTS 20000 /* on each processor */
#define REQUESTS_TINY 500

struct run {
    const char *way;
    unsigned load, requests;
    unsigned samples;
    double p50[MAX_SAMPLES], p99[MAX_SAMPLES], long_p50[MAX_SAMPLES];
};

/* A line of the program, in us. */
struct said {
    double p50, p99, p999, long_p50;
};

/* Starts the program on both processors: to it the caller is bound meanwhile. NULL: errno says why. */
static FILE *start_program(const struct bench_row *row)
{
    const struct run *run = row->state;
    char path[BENCH_PATH_BYTES], command[BENCH_PATH_BYTES + 128];
    cpu_set_t own, both;
    FILE *from;
    int error = bench_beside(KV_PROGRAM, path);

    if (error != 0) {
        errno = -error;
        return NULL;
    }
    snprintf(command, sizeof command, "'%s' --only %s --load %u --cores 2 --requests %u --seed %u",
             path, run->way, run->load, run->requests,
             run->samples + 1); /* all rows of a round the same */
    CPU_ZERO(&both);
    for (unsigned i = 0; i < 2; i++)
        CPU_SET((unsigned)bench_cpu(row->bench, i), &both);
    if (sched_getaffinity(0, sizeof own, &own) != 0 ||
        sched_setaffinity(0, sizeof both, &both) != 0)
        return NULL;
    from = popen(command, "r");
    sched_setaffinity(0, sizeof own, &own);
    return from;
}

static int run_program(const struct bench_row *row, struct said *said)
{
    const struct run *run = row->state;
    char line[256], way[32];
    FILE *from = start_program(row);
    unsigned load;
    bool found = false;

    if (!from)
        return -errno;
    while (fgets(line, sizeof line, from))
        found |= sscanf(line, "%31s %u %lf %lf %lf %lf", way, &load, &said->p50, &said->p99,
                        &said->p999, &said->long_p50) == 6 &&
                 strcmp(way, run->way) == 0;
    return pclose(from) == 0 && found ? 0 : -ECHILD;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct run *run = row->state;

    for (uint64_t i = 0; i < batch->iterations; i++) {
        struct said said;
        int error = run_program(row, &said);

        if (error != 0)
            return error;
        batch->ns += (uint64_t)(said.p999 * 1000);
        batch->verified++; /* the program fails if an answer is wrong */
        if (run->samples < MAX_SAMPLES) {
            run->p50[run->samples] = said.p50;
            run->p99[run->samples] = said.p99;
            run->long_p50[run->samples++] = said.long_p50;
        }
    }
    bench_state_median(row, "p50_us", run->p50, run->samples);
    bench_state_median(row, "p99_us", run->p99, run->samples);
    bench_state_median(row, "long_us", run->long_p50, run->samples);
    return 0;
}

static void close_row(struct bench_row *row)
{
    free(row->state);
}

static const struct bench_ops ops = {.run = run, .close = close_row};

static struct bench_row *add(struct bench *bench, const char *name, const char *way, unsigned load)
{
    struct bench_row *row = bench_add(bench, name, &ops, NULL);
    struct run *run = calloc(1, sizeof *run);

    if (!run)
        abort();
    run->way = way;
    run->load = load;
    run->requests = bench_tiny(bench) ? REQUESTS_TINY : REQUESTS;
    row->state = run;
    row->batch = 1;
    row->cold = true;
    json_object_set_new(row->params, "load_percent", json_integer(load));
    bench_state_timed(row, "99.9 % of the answers to short requests take no longer");
    return row;
}

static int declare(struct bench *bench)
{
    static const unsigned loads[] = {70, 50, 30};

    for (size_t i = 0; i < (bench_tiny(bench) ? 1 : 3); i++) {
        struct bench_row *held = add(bench, "umbra-held", "held", loads[i]);

        add(bench, "umbra-kv", "fibers", loads[i])->limit = held;
        add(bench, "epoll", "epoll", loads[i])->limit = held;
        add(bench, "threads", "threads", loads[i])->limit = held;
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "kv",
    .about = "a store with short and long requests, with safe points and without",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
