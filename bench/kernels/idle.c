/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A signal after a long sleep: the other processor has waited for seconds, and a sample is the time
 * from just before the signal until the waiter runs. "burned_percent" is the processor time of the
 * whole process meanwhile, in percent of the time slept (CLOCK_PROCESS_CPUTIME_ID).
 */
#define _GNU_SOURCE
#include "futex.h"
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <umbra.h>

#define ROUNDS 5
#define ROUNDS_QUICK 3
#define LENGTH_NS UINT64_C(10000000000)
#define LENGTH_QUICK_NS UINT64_C(700000000)
#define LENGTH_TINY_NS UINT64_C(20000000)
#define WARM_UP_NS UINT64_C(5000000) /* the batch that is thrown away: to fall asleep at all */

enum kind { FUTEX, FIBER, THREAD };

struct idle {
    enum kind kind;
    uint64_t length_ns;
    uint64_t turns; /* batches since the row's turn began */
    struct umbra_runtime *runtime;
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event order;
    pthread_t thread;
    _Atomic uint32_t word;             /* futex: 1: signaled */
    bool quit;                         /* written before the signal */
    _Atomic uint64_t runs_ns, answers; /* the waiter: when it ran, and how often it has */
    uint64_t slept_ns, burned_ns;      /* sums */
};

/* ---- the waiters ---- */

static void wait_for_order(struct idle *idle)
{
    if (idle->kind != FUTEX) {
        umbra_event_wait(&idle->order, UMBRA_NEVER);
        return;
    }
    /* acquire: pairs with signal_order() */
    while (atomic_exchange_explicit(&idle->word, 0, memory_order_acquire) == 0)
        futex_sleep(&idle->word, 0);
}

static void signal_order(struct idle *idle)
{
    if (idle->kind != FUTEX) {
        umbra_event_signal(&idle->order);
        return;
    }
    /* release: what happened before; pairs with wait_for_order() */
    atomic_store_explicit(&idle->word, 1, memory_order_release);
    futex_wake(&idle->word);
}

static void *waits(void *arg)
{
    struct idle *idle = arg;

    for (;;) {
        wait_for_order(idle);
        if (idle->quit)
            return NULL;
        atomic_store(&idle->runs_ns, bench_now_ns());
        atomic_fetch_add(&idle->answers, 1);
    }
}

static int start(struct bench_row *row)
{
    struct umbra_spawn_options named = {.where = UMBRA_ON_CORE, .name = "waits"};
    struct idle *idle = row->state;
    struct umbra_options options = {.topology = bench_topology(row->bench), .quiet = true};
    char cpu[16];
    int error;

    idle->turns = 0;
    idle->quit = false;
    idle->order = (struct umbra_event)UMBRA_EVENT_INIT;
    if (idle->kind != FIBER)
        return bench_thread(&idle->thread, bench_cpu(row->bench, 1), waits, idle);
    snprintf(cpu, sizeof cpu, "%d", bench_cpu(row->bench, 1));
    options.cpus = cpu;
    error = umbra_runtime_create(&options, &idle->runtime);
    return error != 0 ? error : umbra_spawn_with(idle->runtime, &named, waits, idle, NULL);
}

static void stop(struct bench_row *row)
{
    struct idle *idle = row->state;

    idle->quit = true;
    signal_order(idle);
    if (idle->kind != FIBER) {
        pthread_join(idle->thread, NULL);
        return;
    }
    umbra_runtime_wait(idle->runtime);
    umbra_runtime_destroy(idle->runtime);
}

/* ---- rows ---- */

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct idle *idle = row->state;
    uint64_t before = idle->answers;

    for (uint64_t i = 0; i < batch->iterations; i++) {
        uint64_t burned = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        uint64_t begin = bench_now_ns();
        uint64_t seen = idle->answers;
        bool warm_up = idle->turns++ == 0;
        uint64_t signaled;

        bench_sleep_ns(warm_up ? WARM_UP_NS : idle->length_ns);
        burned = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - burned;
        signaled = bench_now_ns();
        signal_order(idle);
        while (atomic_load(&idle->answers) == seen)
            umbra_pause();
        batch->ns += idle->runs_ns - signaled;
        if (!warm_up) {
            idle->slept_ns += signaled - begin;
            idle->burned_ns += burned;
        }
    }
    batch->verified = idle->answers - before;
    if (idle->slept_ns > 0)
        json_object_set_new(row->params, "burned_percent",
                            json_real(100.0 * (double)idle->burned_ns / (double)idle->slept_ns));
    return 0;
}

static int open_row(struct bench_row *row)
{
    struct idle *idle = aligned_alloc(BENCH_LINES_ALIGN, (sizeof *idle + BENCH_LINES_ALIGN - 1) /
                                                             BENCH_LINES_ALIGN * BENCH_LINES_ALIGN);

    if (idle == NULL)
        return -ENOMEM;
    *idle = (struct idle){.kind = *(const enum kind *)row->arg};
    idle->length_ns = bench_tiny(row->bench)    ? LENGTH_TINY_NS
                      : bench_quick(row->bench) ? LENGTH_QUICK_NS
                                                : LENGTH_NS;
    json_object_set_new(row->params, "slept_ms",
                        json_integer((json_int_t)(idle->length_ns / 1000000)));
    row->state = idle;
    return 0;
}

static void close_row(struct bench_row *row)
{
    free(row->state);
}

static const struct bench_ops idle_ops = {
    .open = open_row, .start = start, .run = run, .stop = stop, .close = close_row};

static int declare(struct bench *bench)
{
    static const enum kind kinds[] = {FUTEX, FIBER, THREAD};
    struct bench_row *limit = bench_add(bench, "futex", &idle_ops, &kinds[FUTEX]);

    bench_add(bench, "umbra-event", &idle_ops, &kinds[FIBER])->limit = limit;
    bench_add(bench, "umbra-event-thread", &idle_ops, &kinds[THREAD])->limit = limit;
    return 0;
}

static void remark_row(const struct bench *bench, FILE *out, const char *name)
{
    const struct bench_row *row = bench_find(bench, name);

    if (row != NULL)
        fprintf(out, "  %-20s burned %7.4f %% of a processor in sleeps of %.3f s\n", name,
                json_real_value(json_object_get(row->params, "burned_percent")),
                (double)json_integer_value(json_object_get(row->params, "slept_ms")) / 1000);
}

static void remark(const struct bench *bench, FILE *out)
{
    remark_row(bench, out, "futex");
    remark_row(bench, out, "umbra-event");
    remark_row(bench, out, "umbra-event-thread");
}

static const struct bench_kernel kernel = {
    .name = "idle",
    .about = "a signal after seconds of idleness, until the waiter on another processor runs",
    .cpus = 2,
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
