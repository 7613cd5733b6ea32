/* SPDX-License-Identifier: BSL-1.0 */
/* See os_handover.h. */
#define _GNU_SOURCE
#include "os_handover.h"

#include "futex.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

static void count_one(void *counter)
{
    ++*(uint64_t *)counter;
}

/* ---- pthread_create ---- */

struct creation {
    pthread_attr_t attributes; /* binds the thread; made once */
    uint64_t counter;          /* one thread at a time adds; create and join order them */
};

static void *count_in_thread(void *counter)
{
    count_one(counter);
    return NULL;
}

static int creation_open(struct bench_row *row)
{
    struct creation *creation = calloc(1, sizeof *creation);
    cpu_set_t set;
    int error;

    if (creation == NULL)
        return -ENOMEM;
    CPU_ZERO(&set);
    CPU_SET((size_t)bench_cpu(row->bench, 1), &set);
    error = pthread_attr_init(&creation->attributes);
    if (error == 0)
        error = pthread_attr_setaffinity_np(&creation->attributes, sizeof set, &set);
    if (error != 0) {
        free(creation);
        return -error;
    }
    row->state = creation;
    return 0;
}

static int creation_run(struct bench_row *row, struct bench_batch *batch)
{
    struct creation *creation = row->state;
    uint64_t before = creation->counter;
    uint64_t begin = bench_now_ns();

    for (uint64_t i = 0; i < batch->iterations; i++) {
        pthread_t thread;
        int error =
            pthread_create(&thread, &creation->attributes, count_in_thread, &creation->counter);

        if (error != 0)
            return -error;
        pthread_join(thread, NULL);
    }
    batch->ns = bench_now_ns() - begin;
    batch->verified = creation->counter - before;
    return 0;
}

static void creation_close(struct bench_row *row)
{
    struct creation *creation = row->state;

    pthread_attr_destroy(&creation->attributes);
    free(creation);
}

const struct bench_ops pthread_create_ops = {
    .open = creation_open,
    .run = creation_run,
    .close = creation_close,
};

/* ---- what condition variable and futex have in common ---- */

enum order { IDLE, RUN, QUIT };

struct helper {
    pthread_mutex_t lock;    /* protects order */
    pthread_cond_t ordered;  /* the helper sleeps here */
    pthread_cond_t finished; /* the caller sleeps here */
    enum order order;        /* caller: IDLE to RUN, QUIT; helper: RUN to IDLE */
    _Atomic uint32_t word;   /* the futex: an order, written like `order` */
    void (*fn)(void *);      /* written before RUN, read after it */
    void *arg;               /* likewise */
    uint64_t counter;        /* the forked function adds */
    pthread_t thread;        /* of this turn */
};

static int helper_open(struct bench_row *row)
{
    struct helper *helper = calloc(1, sizeof *helper);

    if (helper == NULL)
        return -ENOMEM;
    pthread_mutex_init(&helper->lock, NULL);
    pthread_cond_init(&helper->ordered, NULL);
    pthread_cond_init(&helper->finished, NULL);
    row->state = helper;
    return 0;
}

static int helper_start(struct bench_row *row, void *(*body)(void *))
{
    struct helper *helper = row->state;

    helper->order = IDLE;
    helper->fn = count_one;
    helper->arg = &helper->counter;
    atomic_init(&helper->word, IDLE);
    return bench_thread(&helper->thread, bench_cpu(row->bench, 1), body, helper);
}

static void helper_close(struct bench_row *row)
{
    struct helper *helper = row->state;

    pthread_cond_destroy(&helper->finished);
    pthread_cond_destroy(&helper->ordered);
    pthread_mutex_destroy(&helper->lock);
    free(helper);
}

/* ---- condition variable ---- */

static void *cond_body(void *arg)
{
    struct helper *helper = arg;

    pthread_mutex_lock(&helper->lock);
    for (;;) {
        while (helper->order == IDLE)
            pthread_cond_wait(&helper->ordered, &helper->lock);
        if (helper->order == QUIT)
            break;
        helper->fn(helper->arg);
        helper->order = IDLE;
        pthread_cond_signal(&helper->finished);
    }
    pthread_mutex_unlock(&helper->lock);
    return NULL;
}

static void cond_order(struct helper *helper, enum order order)
{
    pthread_mutex_lock(&helper->lock);
    helper->order = order;
    pthread_cond_signal(&helper->ordered);
    pthread_mutex_unlock(&helper->lock);
}

static int cond_start(struct bench_row *row)
{
    return helper_start(row, cond_body);
}

static int cond_run(struct bench_row *row, struct bench_batch *batch)
{
    struct helper *helper = row->state;
    uint64_t before = helper->counter;
    uint64_t begin = bench_now_ns();

    for (uint64_t i = 0; i < batch->iterations; i++) {
        cond_order(helper, RUN);
        pthread_mutex_lock(&helper->lock);
        while (helper->order != IDLE)
            pthread_cond_wait(&helper->finished, &helper->lock);
        pthread_mutex_unlock(&helper->lock);
    }
    batch->ns = bench_now_ns() - begin;
    batch->verified = helper->counter - before;
    return 0;
}

static void cond_stop(struct bench_row *row)
{
    struct helper *helper = row->state;

    cond_order(helper, QUIT);
    pthread_join(helper->thread, NULL);
}

const struct bench_ops pthread_cond_ops = {
    .open = helper_open,
    .start = cond_start,
    .run = cond_run,
    .stop = cond_stop,
    .close = helper_close,
};

/* ---- futex ---- */

static void futex_post(_Atomic uint32_t *word, uint32_t order)
{
    /* release: fn, arg and counter before the order; pairs with futex_await */
    atomic_store_explicit(word, order, memory_order_release);
    futex_wake(word);
}

/* Sleep while the word has that value; returns the new one. */
static uint32_t futex_await(_Atomic uint32_t *word, uint32_t old)
{
    uint32_t now;

    /* acquire: pairs with futex_post */
    while ((now = atomic_load_explicit(word, memory_order_acquire)) == old)
        futex_sleep(word, old);
    return now;
}

static void *futex_body(void *arg)
{
    struct helper *helper = arg;

    while (futex_await(&helper->word, IDLE) == RUN) {
        helper->fn(helper->arg);
        futex_post(&helper->word, IDLE);
    }
    return NULL;
}

static int futex_start(struct bench_row *row)
{
    return helper_start(row, futex_body);
}

static int futex_run(struct bench_row *row, struct bench_batch *batch)
{
    struct helper *helper = row->state;
    uint64_t before = helper->counter;
    uint64_t begin = bench_now_ns();

    for (uint64_t i = 0; i < batch->iterations; i++) {
        futex_post(&helper->word, RUN);
        futex_await(&helper->word, RUN);
    }
    batch->ns = bench_now_ns() - begin;
    batch->verified = helper->counter - before;
    return 0;
}

static void futex_stop(struct bench_row *row)
{
    struct helper *helper = row->state;

    futex_post(&helper->word, QUIT);
    pthread_join(helper->thread, NULL);
}

const struct bench_ops futex_ops = {
    .open = helper_open,
    .start = futex_start,
    .run = futex_run,
    .stop = futex_stop,
    .close = helper_close,
};
