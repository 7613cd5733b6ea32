/* SPDX-License-Identifier: BSL-1.0 */
/* The rounds of the harness. See harness.h. */
#define _GNU_SOURCE
#include "harness_private.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A batch long enough for the clock and short enough to fall between two jumps of the machine. */
#define BATCH_MIN_NS 100000u
#define BATCH_AIM_NS 250000u
#define BATCH_MAX_NS 1000000u
#define BATCH_MAX_ITERATIONS 100000000u
#define ROUNDS_LEAST 3 /* however short the time is */
#define TELL_NS UINT64_C(10000000000)
#define TELL_TERMINAL_NS UINT64_C(50000000)

uint64_t bench_clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t bench_now_ns(void)
{
    return bench_clock_ns(CLOCK_MONOTONIC);
}

void bench_sleep_ns(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_nsec = (long)(ns % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        continue;
}

int bench_thread(pthread_t *out, int cpu, void *(*body)(void *), void *arg)
{
    pthread_attr_t attributes;
    cpu_set_t set;
    int error;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    error = pthread_attr_init(&attributes);
    if (error != 0)
        return -error;
    error = pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
    if (error == 0)
        error = pthread_create(out, &attributes, body, arg);
    pthread_attr_destroy(&attributes);
    return -error;
}

int bench_beside(const char *file, char path[BENCH_PATH_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", path, BENCH_PATH_BYTES - 1);
    char *slash;
    size_t room;

    if (length < 0)
        return -errno;
    path[length] = '\0';
    slash = strrchr(path, '/');
    room = BENCH_PATH_BYTES - (size_t)(slash + 1 - path);
    return snprintf(slash + 1, room, "%s", file) < (int)room ? 0 : -ENAMETOOLONG;
}

int bench_refuse(struct bench_row *row, int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(row->reason, sizeof row->reason, format, arguments);
    va_end(arguments);
    return error;
}

static void *need(void *memory)
{
    if (memory != NULL)
        return memory;
    fprintf(stderr, "bench: out of memory\n");
    exit(BENCH_FAILED);
}

struct bench_row *bench_add(struct bench *bench, const char *name, const struct bench_ops *ops,
                            const void *arg)
{
    struct bench_row *row = need(calloc(1, sizeof *row));
    json_t *cpus = need(json_array());

    for (unsigned i = 0; i < bench->kernel->cpus; i++)
        json_array_append_new(cpus, json_integer(bench->cpus[i]));
    memcpy(row->cpus, bench->cpus, sizeof row->cpus);
    row->params = need(json_object());
    json_object_set_new(row->params, "cpus", cpus);
    row->name = name;
    row->ops = ops;
    row->arg = arg;
    row->unit = "ns";
    row->parts = 1;
    row->batch = bench->kernel->batch;
    row->every = 1;
    row->bench = bench;
    bench->rows = need(realloc(bench->rows, (bench->n_rows + 1) * sizeof *bench->rows));
    bench->rows[bench->n_rows++] = row;
    return row;
}

static int not_built(struct bench_row *row)
{
    return bench_refuse(row, -ENOENT, "not built, its library was not there");
}

static const struct bench_ops not_built_ops = {.open = not_built};

struct bench_row *bench_add_peer(struct bench *bench, const char *name, const struct bench_ops *ops,
                                 const void *arg)
{
    return bench_add(bench, name, ops != NULL && arg != NULL ? ops : &not_built_ops, arg);
}

void bench_state_timed(struct bench_row *row, const char *what)
{
    json_object_set_new(row->params, "timed", json_string(what));
}

void bench_place(struct bench_row *row, int from, int to)
{
    row->cpus[0] = from;
    row->cpus[1] = to;
    json_object_del(row->params, "cpus");
    json_object_set_new(row->params, "from", json_integer(from));
    json_object_set_new(row->params, "to", json_integer(to));
}

bool bench_lists(const struct bench *bench)
{
    return bench->options.list;
}

void bench_limit_rounds(struct bench *bench, unsigned most)
{
    most = most < 3 ? 3 : most;
    if (bench->options.rounds == 0 && bench->rounds > most)
        bench->rounds = most;
}

bool bench_quick(const struct bench *bench)
{
    return bench->options.quick;
}

bool bench_tiny(const struct bench *bench)
{
    return bench->options.tiny;
}

int bench_cpu(const struct bench *bench, unsigned i)
{
    return bench->cpus[i];
}

unsigned bench_cpus(const struct bench *bench)
{
    return bench->n_cpus;
}

unsigned bench_cpu_counts(const struct bench *bench, unsigned counts[BENCH_COUNTS])
{
    unsigned n = 0;

    for (unsigned count = 1; count < bench->n_cpus; count *= 2)
        counts[n++] = count;
    counts[n++] = bench->n_cpus;
    return n;
}

struct umbra_topology *bench_topology(const struct bench *bench)
{
    return bench->topology;
}

void *bench_lines(const struct bench *bench)
{
    return bench->lines + (size_t)(bench->round % BENCH_LINES_PLACES) * BENCH_LINES_ALIGN;
}

const struct bench_row *bench_find(const struct bench *bench, const char *name)
{
    for (unsigned i = 0; i < bench->n_rows; i++)
        if (bench->rows[i]->runs && strcmp(bench->rows[i]->name, name) == 0)
            return bench->rows[i];
    return NULL;
}

void bench_take_samples(struct bench_row *row, const struct bench_row *other)
{
    memcpy(row->samples, other->samples, row->bench->rounds * sizeof *row->samples);
}

static int say(const struct bench_row *row, const char *what, int error)
{
    fprintf(stderr, "%s: %s: %s: %s\n", row->bench->kernel->name, row->name, what,
            strerror(-error));
    return error;
}

/* One batch, checked. */
static int run_batch(struct bench_row *row, struct bench_batch *batch)
{
    int error;

    *batch = (struct bench_batch){.iterations = row->iterations};
    error = row->ops->run(row, batch);
    if (error != 0)
        return say(row, "batch failed", error);
    if (batch->verified == batch->iterations * row->parts)
        return 0;
    fprintf(stderr, "%s: %s: wrong result: counted %llu of %llu\n", row->bench->kernel->name,
            row->name, (unsigned long long)batch->verified,
            (unsigned long long)(batch->iterations * row->parts));
    return -EILSEQ;
}

/* Choose the size of the next batch from the time of the last one. */
static void resize_batch(struct bench_row *row, const struct bench_batch *last)
{
    double each = (double)(last->ns > 0 ? last->ns : 1) / (double)last->iterations;
    double wanted = BATCH_AIM_NS / each;

    if (row->batch != 0 || (last->ns >= BATCH_MIN_NS && last->ns <= BATCH_MAX_NS))
        return;
    /* Not by more than 16 times at once: a first batch is mostly start-up. */
    if (wanted > 16.0 * (double)last->iterations)
        wanted = 16.0 * (double)last->iterations;
    if (wanted > BATCH_MAX_ITERATIONS)
        wanted = BATCH_MAX_ITERATIONS;
    row->iterations = wanted < 1.0 ? 1 : (uint64_t)wanted;
}

static int start_turn(struct bench_row *row)
{
    int error = umbra_topology_bind(row->bench->topology, row->cpus[0], NULL);

    if (error != 0)
        return say(row, "cannot bind", error);
    error = row->ops->start != NULL ? row->ops->start(row) : 0;
    return error == 0 ? 0 : say(row, "cannot start", error);
}

static void stop_turn(struct bench_row *row)
{
    if (row->ops->stop != NULL)
        row->ops->stop(row);
}

/* One row's turn: a batch to warm up, unless it is cold, and one whose time counts. */
static int take_turn(struct bench_row *row)
{
    struct bench_batch batch;
    int error = start_turn(row);

    if (error != 0)
        return error;
    if (!row->cold)
        error = run_batch(row, &batch);
    if (error == 0)
        error = run_batch(row, &batch);
    stop_turn(row);
    if (error != 0)
        return error;
    row->samples[row->bench->round] =
        (double)batch.ns / (double)batch.iterations / (double)row->parts;
    resize_batch(row, &batch);
    return 0;
}

/* Grow the batch until it takes its time, unless it is given. */
static int calibrate(struct bench_row *row)
{
    struct bench_batch batch;
    int error;

    row->iterations = row->batch != 0 ? row->batch : 1;
    if (row->batch != 0)
        return 0;
    error = start_turn(row);
    if (error != 0)
        return error;
    for (int attempt = 0; attempt < 12 && error == 0; attempt++) {
        uint64_t before = row->iterations;

        error = run_batch(row, &batch);
        resize_batch(row, &batch);
        if (row->iterations == before)
            break;
    }
    stop_turn(row);
    return error;
}

/* Rows without ops take the best sample of their variants in each round. */
static void fill_best(struct bench *bench)
{
    for (unsigned i = 0; i < bench->n_rows; i++) {
        struct bench_row *part = bench->rows[i];
        struct bench_row *whole = part->part_of;

        if (whole == NULL || !part->runs || !whole->runs)
            continue;
        for (unsigned r = 0; r < bench->rounds; r++)
            whole->samples[r] = fmin(whole->samples[r], part->samples[r]);
    }
}

/* Start one row later each pair of rounds, and every other round backwards. */
static struct bench_row *row_of_turn(const struct bench *bench, unsigned turn)
{
    unsigned i = (turn + bench->round / 2) % bench->n_rows;

    return bench->rows[bench->round % 2 == 0 ? i : bench->n_rows - 1 - i];
}

static bool takes_part(const struct bench_row *row)
{
    return row->runs && row->ops != NULL;
}

/* Says whose turn it is, unless it has been said lately. */
static void tell_progress(struct bench *bench, unsigned turn, const struct bench_row *row)
{
    bool terminal = bench->terminal;
    uint64_t now = bench_now_ns();

    if (now - bench->told_ns < (terminal ? TELL_TERMINAL_NS : TELL_NS))
        return;
    bench->told_ns = now;
    fprintf(stderr, "%s%s: round %u of %u, row %u of %u: %s%s", terminal ? "\r" : "",
            bench->kernel->name, bench->round + 1, bench->rounds, turn + 1, bench->n_rows,
            row->name, terminal ? "\033[K" : "\n");
}

static int run_round(struct bench *bench)
{
    int error = 0;

    for (unsigned turn = 0; turn < bench->n_rows && error == 0; turn++) {
        struct bench_row *row = row_of_turn(bench, turn);

        if (!takes_part(row) || bench->round % row->every != 0)
            continue;
        tell_progress(bench, turn, row);
        error = take_turn(row);
    }
    return error;
}

/* Whether another round is to be run: an odd number of them has a middle. */
static bool goes_on(const struct bench *bench)
{
    uint64_t most = (uint64_t)bench->options.seconds * 1000000000;

    if (bench->round >= bench->rounds)
        return false;
    return most == 0 || bench->round < ROUNDS_LEAST || bench->round % 2 == 0 ||
           bench_now_ns() - bench->begin_ns < most;
}

static int run_rounds(struct bench *bench)
{
    int error = 0;

    for (unsigned i = 0; i < bench->n_rows && error == 0; i++)
        if (takes_part(bench->rows[i]))
            error = calibrate(bench->rows[i]);
    bench->terminal = isatty(STDERR_FILENO) != 0;
    bench->stolen_before = bench_stolen_ms();
    bench->begin_ns = bench->told_ns = bench_now_ns();
    for (bench->round = 0; error == 0 && goes_on(bench); bench->round++)
        error = run_round(bench);
    bench->rounds = bench->round;
    bench->run_ns = bench_now_ns() - bench->begin_ns;
    bench->stolen_ms = bench_stolen_ms() - bench->stolen_before;
    if (bench->terminal)
        fprintf(stderr, "\r\033[K");
    fill_best(bench);
    return error == 0 ? BENCH_OK : BENCH_FAILED;
}

/* Whether a row of the same name, with other parameters, was left out for the same reason. */
static bool left_out_before(const struct bench *bench, unsigned i)
{
    for (unsigned j = 0; j < i; j++)
        if (!bench->rows[j]->runs && strcmp(bench->rows[j]->name, bench->rows[i]->name) == 0 &&
            strcmp(bench->rows[j]->reason, bench->rows[i]->reason) == 0)
            return true;
    return false;
}

static void leave_out(struct bench *bench, unsigned i, int error)
{
    struct bench_row *row = bench->rows[i];

    row->runs = row->shown = false;
    if (row->reason[0] == '\0')
        bench_refuse(row, error, "%s", strerror(-error));
    if (!left_out_before(bench, i))
        fprintf(stderr, "%s: without %s: %s\n", bench->kernel->name, row->name, row->reason);
}

/* The rows without ops none of whose variants runs. */
static void leave_out_empty(struct bench *bench)
{
    for (unsigned i = 0; i < bench->n_rows; i++) {
        struct bench_row *whole = bench->rows[i];
        bool part_runs = false;

        for (unsigned j = 0; j < bench->n_rows; j++)
            part_runs |= bench->rows[j]->part_of == whole && bench->rows[j]->runs;
        if (whole->ops == NULL && whole->runs && !part_runs)
            leave_out(bench, i, bench_refuse(whole, -ENOENT, "none of its variants can run"));
    }
}

/* Open every chosen row; those that cannot run here are left out, with the reason. */
static unsigned open_rows(struct bench *bench)
{
    unsigned open = 0;

    for (unsigned i = 0; i < bench->n_rows; i++) {
        struct bench_row *row = bench->rows[i];
        int error = row->runs && row->ops != NULL && row->ops->open ? row->ops->open(row) : 0;

        if (error != 0)
            leave_out(bench, i, error);
    }
    leave_out_empty(bench);
    for (unsigned i = 0; i < bench->n_rows; i++) {
        struct bench_row *row = bench->rows[i];

        if (!row->runs)
            continue;
        row->samples = need(malloc(bench->rounds * sizeof *row->samples));
        for (unsigned r = 0; r < bench->rounds; r++)
            row->samples[r] = NAN;
        open += row->shown; /* without ops: some of what it is the best of is open */
    }
    return open;
}

static void close_rows(struct bench *bench)
{
    for (unsigned i = 0; i < bench->n_rows; i++) {
        struct bench_row *row = bench->rows[i];

        if (row->runs && row->ops != NULL && row->ops->close != NULL)
            row->ops->close(row);
    }
}

static void free_bench(struct bench *bench)
{
    for (unsigned i = 0; i < bench->n_rows; i++) {
        json_decref(bench->rows[i]->params);
        free(bench->rows[i]->samples);
        free(bench->rows[i]);
    }
    free(bench->rows);
    free(bench->lines);
    umbra_topology_destroy(bench->topology);
}

/* The table, the lines, or both. */
static int report(const struct bench *bench)
{
    const char *name = bench->options.json_file;
    FILE *file = name != NULL ? fopen(name, "w") : NULL;

    if (bench->options.json)
        bench_print_json(bench, stdout);
    else
        bench_print_table(bench);
    if (file != NULL) {
        bench_print_json(bench, file);
        if (fclose(file) == 0)
            return BENCH_OK;
    }
    if (name == NULL)
        return BENCH_OK;
    fprintf(stderr, "%s: cannot write %s: %s\n", bench->kernel->name, name, strerror(errno));
    return BENCH_FAILED;
}

static int measure(struct bench *bench)
{
    int status = BENCH_SKIPPED;
    int error;

    bench->lines =
        need(aligned_alloc(4096, BENCH_LINES_PLACES * BENCH_LINES_ALIGN + BENCH_LINES_BYTES));
    if (open_rows(bench) == 0) {
        fprintf(stderr, "%s: nothing that was asked for can run here\n", bench->kernel->name);
        return status;
    }
    error = umbra_topology_bind(bench->topology, bench->cpus[0], NULL);
    if (error == 0) {
        status = run_rounds(bench);
    } else {
        fprintf(stderr, "%s: %s\n", bench->kernel->name, umbra_last_error_text());
        status = BENCH_FAILED;
    }
    close_rows(bench);
    return status == BENCH_OK ? report(bench) : status;
}

/* Each once, however many rows have it. */
static void list_names(const struct bench *bench)
{
    for (unsigned i = 0; i < bench->n_rows; i++) {
        unsigned first = 0;

        while (strcmp(bench->rows[first]->name, bench->rows[i]->name) != 0)
            first++;
        if (first == i && !bench->rows[i]->hidden)
            puts(bench->rows[i]->name);
    }
}

int bench_main(const struct bench_kernel *kernel, int argc, char **argv)
{
    struct bench bench = {.kernel = kernel};
    bool done = false;
    int status = bench_parse(&bench, argc, argv, &done);

    if (done)
        return status;
    status = bench_choose_backend(&bench);
    if (status == BENCH_OK && bench.options.list)
        bench.n_cpus = kernel->cpus; /* there are none; but so many would have the same names */
    else if (status == BENCH_OK)
        status = bench_choose_cpus(&bench);
    if (status == BENCH_OK && kernel->declare(&bench) != 0)
        status = BENCH_FAILED;
    if (status == BENCH_OK)
        status = bench_choose_rows(&bench);
    if (status == BENCH_OK && bench.options.list) {
        list_names(&bench);
    } else if (status == BENCH_OK) {
        status = measure(&bench);
    }
    free_bench(&bench);
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "%s: standard output: %s\n", kernel->name, strerror(errno ? errno : EIO));
        status = status == BENCH_OK ? BENCH_FAILED : status;
    }
    return status;
}
