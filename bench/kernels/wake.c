/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A wake-up under load: a fiber or thread waits on a processor whose other fibers or threads each
 * work for a slice, and then yield. Another processor signals it after pauses of random length. A
 * sample is the median of a round's wake-ups, from just before the signal until the waiter runs;
 * "p50", "p99" and "p999" are those of all wake-ups of the row, and "others_percent" is how much of
 * the processor the others had.
 *
 * The limit is one thread without a scheduler, which works for a slice, looks at a word, works on: a
 * wake-up waits for the rest of a slice there, too, and for interrupts and for a host that takes the
 * processor away. "late_percent" is how many wake-ups took longer than a slice and a half, which only
 * these can make them: what the limit has of them is the machine's part.
 *
 * In a storm 32 waiters are signaled in turn, one each 200 ns. There a sample is the time between
 * two slices of the fiber that had the fewest, and "least_percent" what it had of its equal share.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <umbra.h>

#define ROUNDS 101
#define ROUNDS_QUICK 31
#define WAKE_UPS 200 /* of a batch */
#define OTHERS_MOST 100
#define SLICE_NS 5000
#define LATE_NS (SLICE_NS * 3 / 2)
#define PAUSE_LEAST_NS 20000
#define PAUSE_SPREAD_NS 50000
#define STORM_WAITERS 32
#define STORM_NS 200
#define STORM_SIGNALS 250 /* of an iteration */
#define TUNE_TURNS 1000000

enum wake_way {
    FIBERS,  /* and events */
    THREADS, /* and POSIX semaphores */
    LOOP     /* one thread that looks at a word between two slices */
};

struct wake_case {
    enum wake_way way;
    bool storm;
    unsigned others;
};

/* One that waits. */
struct waiter {
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event event;
    sem_t semaphore;
    struct wake *wake;
    pthread_t thread;
    UM_ALIGNED(UMBRA_CACHE_LINE) _Atomic bool signaled;    /* of LOOP */
    UM_ALIGNED(UMBRA_CACHE_LINE) _Atomic uint64_t answers; /* wake-ups until now; the waiter */
    _Atomic uint64_t ran_ns;                               /* when the last one ran; the waiter */
};

/* One that works beside. */
struct other {
    UM_ALIGNED(UMBRA_CACHE_LINE) _Atomic uint64_t slices; /* begun; the other itself */
    struct wake *wake;
    pthread_t thread;
};

struct wake {
    struct waiter waiter[STORM_WAITERS];
    struct other other[OTHERS_MOST];
    const struct wake_case *what;
    unsigned waiters;
    struct umbra_runtime *runtime;
    _Atomic bool quit;
    uint64_t slice_turns; /* of work() */
    uint64_t random;
    uint64_t *took; /* wake-ups of all batches but warm-ups, ns */
    size_t taken, room;
    uint64_t batches; /* of this turn */
    uint64_t wall_ns, others_slices, least_slices;
};

/* A slice's work: a fixed number of multiplications, each of which needs the one before. */
static void work(uint64_t turns)
{
    uint64_t value = 1;

    for (uint64_t i = 0; i < turns; i++) {
        value *= UINT64_C(6364136223846793005);
        __asm__ volatile("" : "+r"(value));
    }
}

static uint64_t turns_of_slice(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 5; i++) {
        uint64_t begin = bench_now_ns();
        uint64_t took;

        work(TUNE_TURNS);
        took = bench_now_ns() - begin;
        if (took < least)
            least = took;
    }
    return SLICE_NS * (uint64_t)TUNE_TURNS / least;
}

/* ---- those on the processor ---- */

static void answer(struct waiter *waiter)
{
    if (!waiter->wake->what->storm)
        atomic_store(&waiter->ran_ns, bench_now_ns());
    atomic_fetch_add(&waiter->answers, 1);
}

static void *waits(void *arg)
{
    struct waiter *waiter = arg;
    struct wake *wake = waiter->wake;

    for (;;) {
        if (wake->what->way == FIBERS)
            umbra_event_wait(&waiter->event, UMBRA_NEVER);
        else
            while (sem_wait(&waiter->semaphore) != 0)
                continue;
        if (atomic_load(&wake->quit))
            return NULL;
        answer(waiter);
    }
}

/* What comes between two slices. */
static void between(struct wake *wake)
{
    struct waiter *waiter = &wake->waiter[0];

    if (wake->what->way == FIBERS) {
        umbra_yield();
    } else if (wake->what->way == THREADS) {
        sched_yield();
    } else if (atomic_load(&waiter->signaled)) {
        atomic_store(&waiter->signaled, false);
        answer(waiter);
    }
}

static void *works(void *arg)
{
    struct other *other = arg;
    struct wake *wake = other->wake;

    while (!atomic_load_explicit(&wake->quit, memory_order_relaxed)) { /* guards nothing */
        atomic_store_explicit(&other->slices, other->slices + 1,
                              memory_order_relaxed); /* a count */
        work(wake->slice_turns);
        between(wake);
    }
    return NULL;
}

static void signal_one(struct waiter *waiter)
{
    if (waiter->wake->what->way == FIBERS)
        umbra_event_signal(&waiter->event);
    else if (waiter->wake->what->way == THREADS)
        sem_post(&waiter->semaphore);
    else
        atomic_store(&waiter->signaled, true);
}

/* ---- a turn ---- */

static int start_threads(struct bench_row *row)
{
    struct wake *wake = row->state;
    int cpu = bench_cpu(row->bench, 1);
    int error = 0;

    for (unsigned i = 0; i < wake->waiters && error == 0; i++)
        error = bench_thread(&wake->waiter[i].thread, cpu, waits, &wake->waiter[i]);
    for (unsigned i = 0; i < wake->what->others && error == 0; i++)
        error = bench_thread(&wake->other[i].thread, cpu, works, &wake->other[i]);
    return error;
}

static int start_fibers(struct bench_row *row)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE};
    struct wake *wake = row->state;
    char cpu[16];
    struct umbra_options options = {
        .cpus = cpu, .topology = bench_topology(row->bench), .quiet = true};
    int error;

    snprintf(cpu, sizeof cpu, "%d", bench_cpu(row->bench, 1));
    error = umbra_runtime_create(&options, &wake->runtime);
    for (unsigned i = 0; i < wake->waiters && error == 0; i++)
        error = umbra_spawn_with(wake->runtime, &there, waits, &wake->waiter[i], NULL);
    for (unsigned i = 0; i < wake->what->others && error == 0; i++)
        error = umbra_spawn_with(wake->runtime, &there, works, &wake->other[i], NULL);
    return error;
}

static int start(struct bench_row *row)
{
    struct wake *wake = row->state;

    atomic_store(&wake->quit, false);
    wake->batches = 0;
    for (unsigned i = 0; i < wake->waiters; i++) {
        wake->waiter[i].event = (struct umbra_event)UMBRA_EVENT_INIT;
        sem_init(&wake->waiter[i].semaphore, 0, 0);
    }
    return wake->what->way == FIBERS ? start_fibers(row) : start_threads(row);
}

static void stop(struct bench_row *row)
{
    struct wake *wake = row->state;

    atomic_store(&wake->quit, true);
    for (unsigned i = 0; i < wake->waiters; i++)
        signal_one(&wake->waiter[i]);
    if (wake->what->way == FIBERS) {
        umbra_runtime_wait(wake->runtime);
        umbra_runtime_destroy(wake->runtime);
        return;
    }
    for (unsigned i = 0; i < wake->waiters; i++)
        pthread_join(wake->waiter[i].thread, NULL);
    for (unsigned i = 0; i < wake->what->others; i++)
        pthread_join(wake->other[i].thread, NULL);
}

/* ---- batches ---- */

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13; /* xorshift64, Marsaglia 2003 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void pause_until(uint64_t ns)
{
    while (bench_now_ns() < ns)
        umbra_pause();
}

/* One wake-up after a pause; how long it took, ns. */
static uint64_t wake_up(struct wake *wake)
{
    struct waiter *waiter = &wake->waiter[0];
    uint64_t answers = atomic_load(&waiter->answers);
    uint64_t signaled;

    pause_until(bench_now_ns() + PAUSE_LEAST_NS + random_next(&wake->random) % PAUSE_SPREAD_NS);
    signaled = bench_now_ns();
    signal_one(waiter);
    while (atomic_load(&waiter->answers) == answers)
        umbra_pause();
    return atomic_load(&waiter->ran_ns) - signaled;
}

static void storm(struct wake *wake, uint64_t signals)
{
    uint64_t next = bench_now_ns();

    for (uint64_t i = 0; i < signals; i++) {
        signal_one(&wake->waiter[i % STORM_WAITERS]);
        next += STORM_NS;
        pause_until(next);
    }
}

/* Keeps the batch's wake-ups; their median, ns. */
static uint64_t keep(struct wake *wake, uint64_t *took, uint64_t count)
{
    for (uint64_t i = 0; i < count && wake->batches > 1 && wake->taken < wake->room; i++)
        wake->took[wake->taken++] = took[i];
    qsort(took, count, sizeof *took, compare);
    return took[count / 2];
}

/* Adds the slices of a batch to the row's sums; of the fiber that had the fewest, how many. */
static uint64_t count_slices(struct wake *wake, const uint64_t *before, uint64_t wall_ns)
{
    uint64_t least = UINT64_MAX, sum = 0;

    for (unsigned i = 0; i < wake->what->others; i++) {
        uint64_t slices = wake->other[i].slices - before[i];

        sum += slices;
        least = slices < least ? slices : least;
    }
    if (wake->batches > 1) { /* the first one warms up */
        wake->wall_ns += wall_ns;
        wake->others_slices += sum;
        wake->least_slices += least;
    }
    return least;
}

static void say_shares(struct bench_row *row)
{
    struct wake *wake = row->state;
    double wall = (double)wake->wall_ns / 100; /* percent */

    if (wake->wall_ns == 0)
        return;
    json_object_set_new(row->params, "others_percent",
                        json_real((double)wake->others_slices * SLICE_NS / wall));
    json_object_set_new(
        row->params, "least_percent",
        json_real((double)wake->least_slices * SLICE_NS * wake->what->others / wall));
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct wake *wake = row->state;
    uint64_t before[OTHERS_MOST], took[WAKE_UPS];
    uint64_t begin, wall, least;

    for (unsigned i = 0; i < wake->what->others; i++)
        before[i] = wake->other[i].slices;
    wake->batches++;
    begin = bench_now_ns();
    if (wake->what->storm)
        storm(wake, batch->iterations * STORM_SIGNALS);
    else
        for (uint64_t i = 0; i < batch->iterations; i++)
            took[i] = wake_up(wake);
    wall = bench_now_ns() - begin;
    least = count_slices(wake, before, wall);
    batch->verified = batch->iterations;
    batch->ns = wake->what->storm ? wall / (least + 1) * batch->iterations
                                  : keep(wake, took, batch->iterations) * batch->iterations;
    say_shares(row);
    return 0;
}

/* ---- rows ---- */

static int open_row(struct bench_row *row)
{
    struct wake *wake = aligned_alloc(UMBRA_CACHE_LINE, sizeof *wake);

    if (wake == NULL)
        return -ENOMEM;
    memset(wake, 0, sizeof *wake);
    wake->what = row->arg;
    wake->waiters = wake->what->storm ? STORM_WAITERS : wake->what->way == LOOP ? 0 : 1;
    wake->random = 88172645463325252u;
    wake->slice_turns = turns_of_slice();
    wake->room = (size_t)WAKE_UPS * ROUNDS;
    wake->took = malloc(wake->room * sizeof *wake->took);
    if (wake->took == NULL) {
        free(wake);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < STORM_WAITERS; i++)
        wake->waiter[i].wake = wake;
    for (unsigned i = 0; i < OTHERS_MOST; i++)
        wake->other[i].wake = wake;
    row->state = wake;
    return 0;
}

static void say_quantile(struct bench_row *row, const char *name, double q)
{
    struct wake *wake = row->state;
    size_t at = (size_t)(q * (double)wake->taken);

    json_object_set_new(row->params, name, json_integer((json_int_t)wake->took[at]));
}

static void say_late(struct bench_row *row)
{
    struct wake *wake = row->state;
    size_t late = 0;

    while (late < wake->taken && wake->took[wake->taken - 1 - late] > LATE_NS)
        late++;
    json_object_set_new(row->params, "late_percent",
                        json_real(100.0 * (double)late / (double)wake->taken));
}

static void close_row(struct bench_row *row)
{
    struct wake *wake = row->state;

    if (wake->taken > 0) {
        qsort(wake->took, wake->taken, sizeof *wake->took, compare);
        say_quantile(row, "p50", 0.5);
        say_quantile(row, "p99", 0.99);
        say_quantile(row, "p999", 0.999);
        say_late(row);
    }
    free(wake->took);
    free(wake);
}

static const struct bench_ops wake_ops = {
    .open = open_row, .start = start, .run = run, .stop = stop, .close = close_row};

static struct bench_row *add(struct bench *bench, const char *name, const struct wake_case *what)
{
    struct bench_row *row = bench_add(bench, name, &wake_ops, what);

    json_object_set_new(row->params, "others", json_integer(what->others));
    json_object_set_new(row->params, "slice_ns", json_integer(SLICE_NS));
    bench_state_timed(row, what->storm ? "between two slices of the fiber that had the fewest"
                                       : "from the signal until the waiter runs");
    return row;
}

static int declare(struct bench *bench)
{
    static const struct wake_case alone = {.way = LOOP, .others = 1}, few = {.others = 10},
                                  many = {.others = 100},
                                  few_threads = {.way = THREADS, .others = 10},
                                  many_threads = {.way = THREADS, .others = 100},
                                  few_in_storm = {.storm = true, .others = 10},
                                  many_in_storm = {.storm = true, .others = 100};
    struct bench_row *limit = add(bench, "loop", &alone);

    add(bench, "umbra-event", &few)->limit = limit;
    add(bench, "umbra-event", &many)->limit = limit;
    add(bench, "pthread-semaphore", &few_threads)->limit = limit;
    add(bench, "pthread-semaphore", &many_threads)->limit = limit;
    add(bench, "umbra-event-storm", &few_in_storm);
    add(bench, "umbra-event-storm", &many_in_storm);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "wake",
    .about = "signal a fiber whose core runs others, which work for a slice and yield",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .batch = WAKE_UPS,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
