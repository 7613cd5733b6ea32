/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a blocked fiber costs in memory: the growth of VmRSS and VmPTE over the number of fibers, in
 * a process of its own. A few fibers are there before, so that what a library allocates once is not
 * counted. "make_ns" is the time to make one and run it until it blocks, page faults included.
 */
#define _GNU_SOURCE
#include "boost_context.h"
#include "harness.h"
#include "peers.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <umbra/core.h>

#define ROUNDS 3
#define ROUNDS_QUICK 1
#define FIRST 16 /* fibers before the measurement */
#define COUNT 100000
#define COUNT_THREADS 30000
#define QUICK_PART 5 /* --quick: a fifth of them */
#define COUNT_TINY 200
#define MILLION 1000000
#define MAX_SAMPLES 1024

struct footprint_row {
    const char *name;
    const struct population_way *way;
    bool prints;
    uint64_t count;
};

/* What the measuring process says, in shared memory. */
struct finding {
    int error;
    char why[256];     /* what the library says of it; empty: nothing */
    uint64_t bytes;    /* growth */
    uint64_t ns;       /* it took to make them */
    uint64_t made;     /* in all; fewer than asked for when the system allowed no more */
    uint64_t verified; /* of the fibers measured, how many blocked and went on to their end */
};

struct state {
    struct finding *finding;
    double make_ns[MAX_SAMPLES];
    unsigned n;
};

/* ---- in the measuring process ---- */

static uint64_t field_kib(const char *status, const char *name)
{
    const char *field = strstr(status, name);

    return field != NULL ? strtoull(field + strlen(name), NULL, 10) : 0;
}

static uint64_t resident_bytes(void)
{
    static char status[8192];
    FILE *file = fopen("/proc/self/status", "re");
    size_t length = file != NULL ? fread(status, 1, sizeof status - 1, file) : 0;

    status[length] = '\0';
    if (file != NULL)
        fclose(file);
    return 1024 * (field_kib(status, "\nVmRSS:") + field_kib(status, "\nVmPTE:"));
}

/* All have blocked, and those that went on to their end were each of them once: sum and number. */
static uint64_t verified(const struct population *population)
{
    uint64_t n = population->made;
    bool complete = population->blocked == n && population->sum == n * (n - 1) / 2;

    return complete ? n - FIRST : 0;
}

static void measure(const struct footprint_row *what, struct finding *finding)
{
    struct population population = {.capacity = FIRST + what->count, .prints = what->prints};
    const struct population_way *way = what->way;
    uint64_t before, begin;
    int error = way->open != NULL ? way->open(&population) : 0;

    finding->error = error;
    if (error != 0) { /* nothing to release */
        snprintf(finding->why, sizeof finding->why, "%s", umbra_last_error_text());
        return;
    }
    error = way->grow(&population, FIRST);
    before = resident_bytes();
    begin = bench_now_ns();
    if (error == 0)
        error = way->grow(&population, population.capacity);
    finding->ns = bench_now_ns() - begin;
    finding->bytes = resident_bytes() - before;
    finding->made = population.made;
    if (way->release(&population) != 0)
        error = -ENOTRECOVERABLE;
    finding->verified = verified(&population);
    finding->error = error;
}

/* ---- rows ---- */

static int measure_in_child(const struct footprint_row *what, struct finding *finding)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        measure(what, finding);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? finding->error : -ECHILD;
}

/* Tries once, and takes as many as there can be if that is fewer than wanted. */
static int open_row(struct bench_row *row)
{
    struct footprint_row *what = (struct footprint_row *)row->arg;
    struct state *state = calloc(1, sizeof *state);
    int error;

    if (state == NULL)
        return -ENOMEM;
    row->state = state;
    state->finding = mmap(NULL, sizeof *state->finding, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (state->finding == MAP_FAILED) {
        free(state);
        return -ENOMEM;
    }
    error = measure_in_child(what, state->finding);
    if (error == -EAGAIN && state->finding->made > 2 * FIRST) {
        what->count = (state->finding->made - FIRST) / 100 * 95;
        error = 0;
    }
    if (error != 0) {
        bench_refuse(row, error, "%s", state->finding->why);
        munmap(state->finding, sizeof *state->finding);
        free(state);
        return error;
    }
    row->parts = what->count;
    json_object_set_new(row->params, "count", json_integer((json_int_t)what->count));
    return 0;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct state *state = row->state;
    int error = measure_in_child(row->arg, state->finding);

    batch->ns = state->finding->bytes;
    batch->verified = state->finding->verified;
    if (state->n < MAX_SAMPLES)
        state->make_ns[state->n++] = (double)state->finding->ns / (double)row->parts;
    return error;
}

static void close_row(struct bench_row *row)
{
    struct state *state = row->state;

    if (state->n > 0)
        bench_state_median(row, "make_ns", state->make_ns, state->n);
    munmap(state->finding, sizeof *state->finding);
    free(state);
}

static const struct bench_ops footprint_ops = {.open = open_row, .run = run, .close = close_row};

/* ---- bare contexts ---- */

struct contexts {
    char *stacks;
    fcontext *fiber; /* where each has blocked */
};

struct context_start {
    struct population *population;
    uint64_t i;
};

static void context_entry(struct fcontext_transfer transfer)
{
    struct context_start start = *(struct context_start *)transfer.data;

    population_enter(start.population);
    transfer = jump_fcontext(transfer.from, NULL);
    population_leave(start.population, start.i);
    jump_fcontext(transfer.from, NULL);
}

static int context_open(struct population *population)
{
    struct contexts *contexts = calloc(1, sizeof *contexts);

    if (contexts == NULL)
        return -ENOMEM;
    contexts->fiber = calloc(population->capacity, sizeof(fcontext));
    contexts->stacks = mmap(NULL, population->capacity * BENCH_STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    population->state = contexts;
    return contexts->fiber != NULL && contexts->stacks != MAP_FAILED ? 0 : -ENOMEM;
}

static int context_grow(struct population *population, uint64_t n)
{
    struct contexts *contexts = population->state;

    for (; population->made < n; population->made++) {
        struct context_start start = {population, population->made};
        char *top = contexts->stacks + (start.i + 1) * BENCH_STACK_BYTES;
        fcontext fiber = make_fcontext(top, BENCH_STACK_BYTES, context_entry);

        contexts->fiber[start.i] = jump_fcontext(fiber, &start).from;
    }
    return 0;
}

static int context_release(struct population *population)
{
    struct contexts *contexts = population->state;

    for (uint64_t i = 0; i < population->made; i++)
        jump_fcontext(contexts->fiber[i], NULL);
    return 0;
}

static const struct population_way context_population = {.stack_bytes = BENCH_STACK_BYTES,
                                                         .open = context_open,
                                                         .grow = context_grow,
                                                         .release = context_release};

/* ---- threads ---- */

struct threads {
    pthread_attr_t attributes;
    pthread_mutex_t gate; /* closed: held by the measuring thread; here they block */
    pthread_t *thread;
    struct thread_start {
        struct population *population;
        uint64_t i;
    } * start;
};

static void *thread_body(void *arg)
{
    struct thread_start *start = arg;
    struct threads *threads = start->population->state;

    population_enter(start->population);
    pthread_mutex_lock(&threads->gate);
    pthread_mutex_unlock(&threads->gate);
    population_leave(start->population, start->i);
    return NULL;
}

static int thread_open(struct population *population)
{
    struct threads *threads = calloc(1, sizeof *threads);

    if (threads == NULL)
        return -ENOMEM;
    threads->thread = calloc(population->capacity, sizeof *threads->thread);
    threads->start = calloc(population->capacity, sizeof *threads->start);
    population->state = threads;
    pthread_mutex_init(&threads->gate, NULL);
    pthread_mutex_lock(&threads->gate);
    pthread_attr_init(&threads->attributes);
    pthread_attr_setstacksize(&threads->attributes, BENCH_STACK_BYTES);
    return threads->thread != NULL && threads->start != NULL ? 0 : -ENOMEM;
}

static int thread_grow(struct population *population, uint64_t n)
{
    struct threads *threads = population->state;
    int error = 0;

    while (population->made < n && error == 0) {
        uint64_t i = population->made;

        threads->start[i] = (struct thread_start){population, i};
        error = pthread_create(&threads->thread[i], &threads->attributes, thread_body,
                               &threads->start[i]);
        population->made += error == 0;
    }
    /* acquire: pairs with population_enter */
    while (__atomic_load_n(&population->blocked, __ATOMIC_ACQUIRE) < population->made)
        sched_yield();
    return -error;
}

static int thread_release(struct population *population)
{
    struct threads *threads = population->state;

    pthread_mutex_unlock(&threads->gate);
    for (uint64_t i = 0; i < population->made; i++)
        pthread_join(threads->thread[i], NULL);
    return 0;
}

static const struct population_way thread_population = {.stack_bytes = BENCH_STACK_BYTES,
                                                        .guarded = true,
                                                        .open = thread_open,
                                                        .grow = thread_grow,
                                                        .release = thread_release};

/* ---- declaration ---- */

static struct footprint_row rows[32];
static unsigned n_rows;

static void add_one(struct bench *bench, const char *name, const struct population_way *way,
                    uint64_t count, bool prints)
{
    struct footprint_row *what = &rows[n_rows++];
    struct bench_row *row = bench_add_peer(bench, name, &footprint_ops, way != NULL ? what : NULL);

    if (bench_quick(bench) && count < MILLION)
        count /= QUICK_PART;
    *what = (struct footprint_row){name, way, prints, bench_tiny(bench) ? COUNT_TINY : count};
    row->unit = "bytes";
    row->parts = what->count;
    json_object_set_new(row->params, "count", json_integer((json_int_t)what->count));
    if (way == NULL)
        return;
    json_object_set_new(row->params, "stack_bytes", json_integer((json_int_t)way->stack_bytes));
    json_object_set_new(row->params, "guarded", json_boolean(way->guarded));
}

/* A row for fibers that only block, and one for such as called snprintf before. */
static void add(struct bench *bench, const char *names[2], const struct population_way *way,
                uint64_t count)
{
    add_one(bench, names[0], way, count, false);
    add_one(bench, names[1], way, count, true);
}

#define NAMES(name) ((const char *[]){name, name "-snprintf"})

static int declare(struct bench *bench)
{
    n_rows = 0;
    add(bench, NAMES("boost-context"), &context_population, COUNT);
    add(bench, NAMES("umbra-blocked"), &umbra_population, COUNT);
    add(bench, NAMES("umbra-blocked-small"), &umbra_small_population, COUNT);
    add_one(bench, "umbra-blocked-million", &umbra_population, MILLION, false);
    add(bench, NAMES("boost-fiber"), &boost_fiber_population, COUNT);
    add(bench, NAMES("pthread"), &thread_population, COUNT_THREADS);
    return 0;
}

static void remark(const struct bench *bench, FILE *out)
{
    for (unsigned i = 0; i < n_rows; i++) {
        const struct bench_row *row = bench_find(bench, rows[i].name);

        if (row != NULL)
            fprintf(out, "  %-30s %8.0f ns to make one\n", row->name,
                    json_real_value(json_object_get(row->params, "make_ns")));
    }
}

static const struct bench_kernel kernel = {
    .name = "footprint",
    .about = "memory of a blocked fiber (VmRSS and VmPTE), and the time to make one",
    .cpus = 1,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .batch = 1,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
