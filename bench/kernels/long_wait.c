/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A wait of 10 ms: what it costs the processor that waits, and how soon after its end the waiter
 * runs again. The partner computes for 10 ms on the other processor, notes the time and is done; a
 * sample is the time from that note until the waiter is back. "burned_percent" is the processor
 * time of the waiting thread in percent of the time it waited (CLOCK_THREAD_CPUTIME_ID).
 */
#define _GNU_SOURCE
#include "futex.h"
#include "harness.h"
#include "shadow_fork.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LENGTH_NS 10000000u
#define ROUNDS 101
#define ROUNDS_QUICK 31

/* What both kinds of waiter share. */
struct long_wait {
    struct umbra_shadow shadow;             /* shadow rows */
    pthread_t partner;                      /* futex row */
    UM_ALIGNED(128) _Atomic uint32_t order; /* futex row: 1: go, 2: end; partner sets 0 */
    UM_ALIGNED(128) uint64_t ended_ns;      /* partner writes at the end of its work */
    uint64_t done;                          /* works ended; partner adds */
    UM_ALIGNED(128) uint64_t waited_ns;     /* waiter: sums over all waits */
    uint64_t burned_ns;
};

static void work(void *arg)
{
    struct long_wait *state = arg;
    uint64_t end = bench_now_ns() + LENGTH_NS;

    while (bench_now_ns() < end)
        umbra_pause();
    state->done++;
    state->ended_ns = bench_now_ns();
}

/* ---- the two ways to wait ---- */

static void futex_await(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load(word) == value)
        futex_sleep(word, value);
}

static void futex_send(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value);
    futex_wake(word);
}

static void *futex_partner(void *arg)
{
    struct long_wait *state = arg;

    for (;;) {
        futex_await(&state->order, 0);
        if (atomic_load(&state->order) == 2)
            return NULL;
        work(state);
        futex_send(&state->order, 0);
    }
}

static void futex_begin(struct long_wait *state)
{
    futex_send(&state->order, 1);
}

static void futex_end(struct long_wait *state)
{
    futex_await(&state->order, 1);
}

static void shadow_begin(struct long_wait *state)
{
    shadow_fork(&state->shadow, work, state);
}

static void shadow_end(struct long_wait *state)
{
    shadow_join(&state->shadow);
}

/* ---- rows ---- */

static int run(struct bench_row *row, struct bench_batch *batch, void (*begin)(struct long_wait *),
               void (*end)(struct long_wait *))
{
    struct long_wait *state = row->state;
    uint64_t before = state->done;

    for (uint64_t i = 0; i < batch->iterations; i++) {
        uint64_t wall, burned;

        begin(state);
        wall = bench_now_ns();
        burned = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        end(state);
        batch->ns += bench_now_ns() - state->ended_ns;
        state->burned_ns += bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - burned;
        state->waited_ns += bench_now_ns() - wall;
    }
    batch->verified = state->done - before;
    json_object_set_new(row->params, "burned_percent",
                        json_real(100.0 * (double)state->burned_ns / (double)state->waited_ns));
    return 0;
}

static int open_row(struct bench_row *row)
{
    row->state = aligned_alloc(_Alignof(struct long_wait), sizeof(struct long_wait));
    if (row->state == NULL)
        return -ENOMEM;
    *(struct long_wait *)row->state = (struct long_wait){.waited_ns = 0};
    return 0;
}

static void close_row(struct bench_row *row)
{
    free(row->state);
}

static int futex_start(struct bench_row *row)
{
    struct long_wait *state = row->state;

    atomic_store(&state->order, 0);
    return bench_thread(&state->partner, bench_cpu(row->bench, 1), futex_partner, state);
}

static int futex_run(struct bench_row *row, struct bench_batch *batch)
{
    return run(row, batch, futex_begin, futex_end);
}

static void futex_stop(struct bench_row *row)
{
    struct long_wait *state = row->state;

    futex_send(&state->order, 2);
    pthread_join(state->partner, NULL);
}

static int shadow_start(struct bench_row *row)
{
    struct long_wait *state = row->state;

    return shadow_fork_create(row, row->arg, &state->shadow);
}

static int shadow_run(struct bench_row *row, struct bench_batch *batch)
{
    return run(row, batch, shadow_begin, shadow_end);
}

static void shadow_stop(struct bench_row *row)
{
    struct long_wait *state = row->state;

    shadow_destroy(&state->shadow);
}

static const struct bench_ops futex_ops = {.open = open_row,
                                           .start = futex_start,
                                           .run = futex_run,
                                           .stop = futex_stop,
                                           .close = close_row};
static const struct bench_ops shadow_ops = {.open = open_row,
                                            .start = shadow_start,
                                            .run = shadow_run,
                                            .stop = shadow_stop,
                                            .close = close_row};

static const struct umbra_wait_options spin = {.mode = UMBRA_WAIT_SPIN};
static const struct umbra_wait_options two_phase = {.mode = UMBRA_WAIT_TWO_PHASE};
static const struct umbra_wait_options park = {.mode = UMBRA_WAIT_PARK};

static int declare(struct bench *bench)
{
    struct bench_row *limit = bench_add(bench, "futex", &futex_ops, NULL);

    bench_add(bench, "shadow-spin", &shadow_ops, &spin)->limit = limit;
    bench_add(bench, "shadow-two-phase", &shadow_ops, &two_phase)->limit = limit;
    bench_add(bench, "shadow-park", &shadow_ops, &park)->limit = limit;
    return 0;
}

static void remark_row(const struct bench *bench, FILE *out, const char *name)
{
    const struct bench_row *row = bench_find(bench, name);

    if (row != NULL)
        fprintf(out, "  %-16s burned %7.3f %% of the time it waited\n", name,
                json_real_value(json_object_get(row->params, "burned_percent")));
}

static void remark(const struct bench *bench, FILE *out)
{
    remark_row(bench, out, "futex");
    remark_row(bench, out, "shadow-park");
    remark_row(bench, out, "shadow-two-phase");
    remark_row(bench, out, "shadow-spin");
}

static const struct bench_kernel kernel = {
    .name = "long-wait",
    .about = "return from a wait of 10 ms, and the processor time it burned",
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
