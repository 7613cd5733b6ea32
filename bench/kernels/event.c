/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An event that another processor waits for: from the signal until the waiter runs. Two sides
 * signal each other over two events, each on its own lines; a sample is one way, half a round trip.
 * It is compared with a whole round trip of the ping-pong.
 */
#define _GNU_SOURCE
#include "futex.h"
#include "harness.h"
#include "peers.h"
#include "ping_pong.h"

#include <semaphore.h>
#include <stdatomic.h>

#define ROUNDS 1001
#define ROUNDS_QUICK 101

static int start(struct bench_row *row)
{
    const struct event_way *way = row->arg;
    struct event_pair *pair = bench_lines(row->bench);

    _Static_assert(sizeof *pair <= BENCH_LINES_BYTES, "fits the harness's lines");
    row->state = pair;
    pair->answered = 0;
    pair->quit = false;
    way->init(pair->there);
    way->init(pair->back);
    return bench_thread(&pair->partner, bench_cpu(row->bench, 1), way->answer, pair);
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    const struct event_way *way = row->arg;
    struct event_pair *pair = row->state;
    uint64_t before = pair->answered;

    batch->ns = way->call(pair, batch->iterations);
    batch->verified = row->parts * (pair->answered - before);
    return 0;
}

static void stop(struct bench_row *row)
{
    const struct event_way *way = row->arg;
    struct event_pair *pair = row->state;

    pair->quit = true;
    way->signal(pair->there);
    pthread_join(pair->partner, NULL);
    way->fini(pair->there);
    way->fini(pair->back);
}

static const struct bench_ops event_ops = {.start = start, .run = run, .stop = stop};

/* ---- condition variable ---- */

struct cond {
    pthread_mutex_t lock; /* protects set */
    pthread_cond_t changed;
    bool set;
};

_Static_assert(sizeof(struct cond) <= EVENT_BYTES, "fits");

static void cond_init(void *event)
{
    struct cond *cond = event;

    pthread_mutex_init(&cond->lock, NULL);
    pthread_cond_init(&cond->changed, NULL);
    cond->set = false;
}

static void cond_fini(void *event)
{
    struct cond *cond = event;

    pthread_cond_destroy(&cond->changed);
    pthread_mutex_destroy(&cond->lock);
}

static void cond_signal(void *event)
{
    struct cond *cond = event;

    pthread_mutex_lock(&cond->lock);
    cond->set = true;
    pthread_mutex_unlock(&cond->lock);
    pthread_cond_signal(&cond->changed);
}

static void cond_wait(void *event)
{
    struct cond *cond = event;

    pthread_mutex_lock(&cond->lock);
    while (!cond->set)
        pthread_cond_wait(&cond->changed, &cond->lock);
    cond->set = false;
    pthread_mutex_unlock(&cond->lock);
}

EVENT_WAY(cond);

/* ---- futex: a word that is 1 while the event is set ---- */

static void futex_init(void *event)
{
    atomic_init((_Atomic uint32_t *)event, 0);
}

static void futex_fini(void *event)
{
    (void)event;
}

static void futex_signal(void *event)
{
    _Atomic uint32_t *word = event;

    /* release: what happened before the signal; pairs with futex_wait */
    atomic_store_explicit(word, 1, memory_order_release);
    futex_wake(word);
}

static void futex_wait(void *event)
{
    _Atomic uint32_t *word = event;

    /* acquire: pairs with futex_signal */
    while (atomic_exchange_explicit(word, 0, memory_order_acquire) == 0)
        futex_sleep(word, 0);
}

EVENT_WAY(futex);

/* ---- POSIX semaphore ---- */

static void semaphore_init(void *event)
{
    sem_init(event, 0, 0);
}

static void semaphore_fini(void *event)
{
    sem_destroy(event);
}

static void semaphore_signal(void *event)
{
    sem_post(event);
}

static void semaphore_wait(void *event)
{
    while (sem_wait(event) != 0)
        continue;
}

EVENT_WAY(semaphore);

/* ---- rows ---- */

static void add(struct bench *bench, const char *name, const struct event_way *way,
                struct bench_row *limit, const char *timed)
{
    struct bench_row *row = bench_add_peer(bench, name, &event_ops, way);

    row->parts = 2;
    row->limit = limit;
    bench_state_timed(row, timed);
}

static void add_umbra(struct bench *bench, const char *name, const void *kind,
                      struct bench_row *limit, const char *timed)
{
    struct bench_row *row = bench_add(bench, name, &umbra_two_cores_ops, kind);

    row->parts = 2;
    row->limit = limit;
    bench_state_timed(row, timed);
}

static int declare(struct bench *bench)
{
    struct bench_row *limit = ping_pong_add(bench);

    ping_pong_add_two_lines(bench, limit);
    add_umbra(bench, "umbra-event", umbra_event_left, limit,
              "to a fiber that has left its core, which idles");
    add_umbra(bench, "umbra-event-in-place", umbra_event_in_place, limit,
              "to a fiber whose core has nothing else to run");
    add_umbra(bench, "umbra-event-busy", umbra_event_busy, limit,
              "to a fiber whose core runs another, which yields");
    add_umbra(bench, "umbra-event-thread", umbra_event_thread, limit,
              "between a fiber and a thread");
    add(bench, "boost-fiber", &boost_fiber_event, limit,
        "condition_variable; a fiber that waits alone on its thread");
    add(bench, "argobots", &argobots_event, limit,
        "eventual, set and reset; a thread that waits alone on its stream");
    add(bench, "pthread-cond", &cond_event, limit, "mutex, flag, condition variable");
    add(bench, "futex", &futex_event, limit, "FUTEX_WAKE, FUTEX_WAIT");
    add(bench, "semaphore", &semaphore_event, limit, "sem_post, sem_wait");
    return 0;
}

/* A pair of events moves two lines in a round trip, so one way is compared with half of that, too. */
static void remark(const struct bench *bench, FILE *out)
{
    static const char *const names[] = {"umbra-event", "umbra-event-in-place",
                                        "umbra-event-thread"};
    const struct bench_row *two_lines = bench_find(bench, "ping-pong-two-lines");

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct bench_row *row = bench_find(bench, names[i]);

        if (two_lines != NULL && row != NULL)
            fprintf(out, "%8.2f times half of ping-pong-two-lines: %s\n",
                    2 * bench_quotient(row, two_lines).median, names[i]);
    }
}

static const struct bench_kernel kernel = {
    .name = "event",
    .about = "signal an event that another processor waits for, one way",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
