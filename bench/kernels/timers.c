/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Fibers of two cores that sleep for 1 to 50 ms, again and again. A sample is the processor time of a
 * sleep, that of all threads together. "late_p50_us" and "late_p999_us" say how long after its end a
 * fiber ran again. The limit is written by hand, for a core each: a heap of four children in an array,
 * Boost.Context, and a sleep in the kernel until the earliest.
 */
#define _GNU_SOURCE
#include "boost_context.h"
#include "harness.h"
#include "in_fiber.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SIDES 2
#define LEAST_NS 1000000
#define MOST_NS 50000000
#define WINDOW_NS 50000000
#define LATE_US 100000   /* the longest that is told from longer ones */
#define CLOCKS_NS 100000 /* by which clocks may differ in a sleep */
#define STACK_BYTES 16384

struct entry {
    uint64_t due;
    uint32_t sleeper;
};

struct side {
    struct sleepers *of;
    uint64_t random;
    _Atomic uint64_t ended; /* sleeps; the side writes both */
    _Atomic uint64_t early;
    uint32_t *late; /* how many sleeps were so many us late */
    struct umbra_fiber spawner, *fiber;
    /* by hand */
    pthread_t thread;
    struct entry *heap;
    uint32_t count;   /* in the heap */
    uint32_t running; /* the sleeper that runs */
    fcontext *context;
    char *stacks;
};

struct sleepers {
    uint32_t fibers; /* of a side */
    _Atomic bool stopping;
    struct umbra_runtime *runtime;
    struct side side[SIDES];
};

/* How long the next sleep is. */
static uint64_t next_length(struct side *side)
{
    side->random ^= side->random << 13; /* xorshift64, Marsaglia 2003 */
    side->random ^= side->random >> 7;
    side->random ^= side->random << 17;
    return LEAST_NS + side->random % (MOST_NS - LEAST_NS);
}

/* The sleep has ended. The side's counters are read by the harness's thread, which needs no order. */
static void note(struct side *side, uint64_t due)
{
    uint64_t now = bench_now_ns(), late = now < due ? 0 : (now - due) / 1000;
    _Atomic uint64_t *counter = now + CLOCKS_NS < due ? &side->early : &side->ended;

    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    side->late[late < LATE_US ? late : LATE_US]++;
}

static bool stops(struct side *side)
{
    return atomic_load_explicit(&side->of->stopping, memory_order_relaxed);
}

/* ---- Umbra ---- */

static void *sleeper(void *arg)
{
    struct side *side = arg;

    while (!stops(side)) {
        uint64_t length = next_length(side), due = bench_now_ns() + length;

        umbra_sleep_ns(length);
        note(side, due);
    }
    return NULL;
}

static void *spawner(void *arg)
{
    struct side *side = arg;

    for (uint32_t i = 0; i < side->of->fibers; i++)
        if (umbra_spawn(sleeper, side, &side->fiber[i]) != 0)
            abort();
    for (uint32_t i = 0; i < side->of->fibers; i++)
        umbra_join(side->fiber[i], UMBRA_NEVER, NULL);
    return NULL;
}

static int open_umbra(struct bench_row *row)
{
    return in_fiber_cores(row->bench, SIDES, &((struct sleepers *)row->state)->runtime);
}

static int start_umbra(struct side *side, unsigned index)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = index};

    return umbra_spawn_with(side->of->runtime, &there, spawner, side, &side->spawner);
}

static void stop_umbra(struct side *side)
{
    umbra_join(side->spawner, UMBRA_NEVER, NULL);
}

/* ---- by hand ---- */

static void push(struct side *side, struct entry entry)
{
    uint32_t at = side->count++;

    for (; at > 0 && side->heap[(at - 1) / 4].due > entry.due; at = (at - 1) / 4)
        side->heap[at] = side->heap[(at - 1) / 4];
    side->heap[at] = entry;
}

static uint32_t pop(struct side *side)
{
    uint32_t sleeper = side->heap[0].sleeper, at = 0, below;
    struct entry last = side->heap[--side->count];

    while ((below = 4 * at + 1) < side->count) {
        for (uint32_t i = below + 1, least = below; i < side->count && i < least + 4; i++)
            if (side->heap[i].due < side->heap[below].due)
                below = i;
        if (side->heap[below].due >= last.due)
            break;
        side->heap[at] = side->heap[below];
        at = below;
    }
    side->heap[at] = last;
    return sleeper;
}

static void context_main(struct fcontext_transfer from)
{
    struct side *side = from.data;
    uint32_t self = side->running;

    for (uint64_t due = 0;;) {
        if (due != 0)
            note(side, due);
        due = stops(side) ? 0 : bench_now_ns() + next_length(side);
        if (due != 0)
            push(side, (struct entry){due, self});
        from = jump_fcontext(from.from, NULL);
    }
}

static void run_context(struct side *side, uint32_t sleeper)
{
    side->running = sleeper;
    side->context[sleeper] = jump_fcontext(side->context[sleeper], side).from;
}

static void *run_by_hand(void *arg)
{
    struct side *side = arg;

    for (uint32_t i = 0; i < side->of->fibers; i++)
        run_context(side, i);
    while (side->count > 0) {
        uint64_t now = bench_now_ns(), due = side->heap[0].due;
        struct timespec until = {(time_t)(due / 1000000000), (long)(due % 1000000000)};

        if (due > now)
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        else
            run_context(side, pop(side));
    }
    return NULL;
}

/* Stacks begin in different lines of their pages, as those of fibers do. */
static int open_by_hand(struct bench_row *row)
{
    struct sleepers *all = row->state;

    for (struct side *side = all->side; side < all->side + SIDES; side++) {
        side->heap = calloc(all->fibers, sizeof *side->heap);
        side->context = calloc(all->fibers, sizeof *side->context);
        side->stacks = mmap(NULL, (size_t)all->fibers * STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!side->heap || !side->context || side->stacks == MAP_FAILED)
            return -ENOMEM;
        for (uint32_t i = 0; i < all->fibers; i++)
            side->context[i] =
                make_fcontext(side->stacks + (size_t)(i + 1) * STACK_BYTES - i % 32 * 64,
                              STACK_BYTES / 2, context_main);
    }
    return 0;
}

static int start_by_hand(struct side *side, unsigned cpu)
{
    return bench_thread(&side->thread, (int)cpu, run_by_hand, side);
}

static void stop_by_hand(struct side *side)
{
    pthread_join(side->thread, NULL);
}

/* ---- rows ---- */

struct contender {
    const char *name;
    int (*open)(struct bench_row *row);
    int (*start)(struct side *side, unsigned place);
    void (*stop)(struct side *side);
};

static const struct contender contenders[] = {
    {"boost-context", open_by_hand, start_by_hand, stop_by_hand},
    {"umbra", open_umbra, start_umbra, stop_umbra},
};

static int open_row(struct bench_row *row)
{
    const struct contender *contender = row->arg;
    struct sleepers *all = row->state;

    for (unsigned i = 0; i < SIDES; i++) {
        struct side *side = &all->side[i];

        *side = (struct side){.of = all, .random = 88172645463325252u + i};
        side->late = calloc(LATE_US + 1, sizeof *side->late);
        side->fiber = calloc(all->fibers, sizeof *side->fiber);
        if (!side->late || !side->fiber)
            return -ENOMEM;
    }
    return contender->open(row);
}

static int start(struct bench_row *row)
{
    const struct contender *contender = row->arg;
    struct sleepers *all = row->state;
    int error = 0;

    atomic_store(&all->stopping, false);
    for (unsigned i = 0; i < SIDES && error == 0; i++)
        error =
            contender->start(&all->side[i], all->runtime ? i : (unsigned)bench_cpu(row->bench, i));
    return error;
}

/* The sleeps that have ended; adds those that ended early. */
static uint64_t ended(struct sleepers *all, uint64_t *early)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < SIDES; i++) {
        sum += atomic_load(&all->side[i].ended);
        *early += atomic_load(&all->side[i].early);
    }
    return sum;
}

/* A batch is a window of time; its own number of sleeps is what its time is divided by. */
static int run(struct bench_row *row, struct bench_batch *batch)
{
    const struct timespec window = {0, WINDOW_NS};
    uint64_t early = 0, before = ended(row->state, &early);
    uint64_t begin = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID), count;

    do {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &window, NULL);
        batch->ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin;
        count = ended(row->state, &early) - before;
    } while (count == 0); /* on a machine that has other work */
    batch->ns = batch->ns * batch->iterations / count;
    batch->verified = early == 0 ? batch->iterations : 0;
    return 0;
}

/* The lateness below which all but so many of a thousand sleeps stayed. */
static void state_late(struct bench_row *row, const char *name, uint64_t more)
{
    struct sleepers *all = row->state;
    uint64_t early = 0, left = ended(all, &early) * more / 1000, us = LATE_US + 1;

    for (uint64_t above = 0; us > 0 && above <= left; us--)
        for (unsigned i = 0; i < SIDES; i++)
            above += all->side[i].late[us - 1];
    json_object_set_new(row->params, name, json_integer((json_int_t)us));
}

static void stop(struct bench_row *row)
{
    const struct contender *contender = row->arg;
    struct sleepers *all = row->state;

    atomic_store(&all->stopping, true);
    for (unsigned i = 0; i < SIDES; i++)
        contender->stop(&all->side[i]);
    state_late(row, "late_p50_us", 500);
    state_late(row, "late_p999_us", 1);
}

static void close_row(struct bench_row *row)
{
    struct sleepers *all = row->state;

    if (all->runtime)
        umbra_runtime_destroy(all->runtime);
    for (struct side *side = all->side; side < all->side + SIDES; side++) {
        if (side->stacks)
            munmap(side->stacks, (size_t)all->fibers * STACK_BYTES);
        free(side->context);
        free(side->heap);
        free(side->fiber);
        free(side->late);
    }
}

static const struct bench_ops ops = {
    .open = open_row, .start = start, .run = run, .stop = stop, .close = close_row};

static int declare(struct bench *bench)
{
    static const uint32_t sizes[] = {10000, 100000};
    static struct sleepers cases[4];
    struct bench_row *limit = NULL;

    for (unsigned i = 0; i < 4; i++) {
        struct bench_row *row = bench_add(bench, contenders[i % 2].name, &ops, &contenders[i % 2]);
        uint32_t fibers = bench_tiny(bench) ? 100 : sizes[i / 2];

        cases[i].fibers = fibers / SIDES;
        row->state = &cases[i];
        row->limit = i % 2 != 0 ? limit : NULL;
        limit = row;
        json_object_set_new(row->params, "fibers", json_integer(fibers));
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "timers",
    .about = "many fibers that sleep: processor time of a sleep, and how late it ends",
    .cpus = SIDES,
    .rounds = 31,
    .rounds_quick = 3,
    .batch = 1,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
