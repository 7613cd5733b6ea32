/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Producers and consumers on different cores, with bounded queues between them. A queue belongs to
 * one producer and one consumer; each waits, without burning its core, until the other has made
 * room or brought something: umbra_event_wait_until asks a condition again for each signal.
 *
 *     pipeline [PAIRS [ITEMS]]
 *
 * Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/event.h>

#define SLOTS 64 /* a power of two */

struct queue {
    _Alignas(UMBRA_CACHE_LINE) _Atomic unsigned long put; /* by the producer */
    _Alignas(UMBRA_CACHE_LINE) _Atomic unsigned long got; /* by the consumer */
    _Alignas(UMBRA_CACHE_LINE) struct umbra_event changed_put, changed_got;
    unsigned long slot[SLOTS];
    unsigned long items; /* to go through */
};

static bool has_room(void *arg)
{
    struct queue *queue = arg;

    return atomic_load(&queue->put) - atomic_load(&queue->got) < SLOTS;
}

static bool has_item(void *arg)
{
    struct queue *queue = arg;

    return atomic_load(&queue->put) != atomic_load(&queue->got);
}

static void *produce(void *arg)
{
    struct queue *queue = arg;

    for (unsigned long i = 0; i < queue->items; i++) {
        umbra_event_wait_until(&queue->changed_got, has_room, queue, UMBRA_NEVER);
        queue->slot[i % SLOTS] = i;
        atomic_store(&queue->put, i + 1);
        umbra_event_signal(&queue->changed_put);
    }
    return NULL;
}

static void *consume(void *arg)
{
    struct queue *queue = arg;
    uintptr_t sum = 0;

    for (unsigned long i = 0; i < queue->items; i++) {
        umbra_event_wait_until(&queue->changed_put, has_item, queue, UMBRA_NEVER);
        sum += queue->slot[i % SLOTS];
        atomic_store(&queue->got, i + 1);
        umbra_event_signal(&queue->changed_got);
    }
    return (void *)sum;
}

struct job {
    unsigned long pairs, items;
    struct queue *queue; /* one a pair; a producer may still signal when its consumer has all */
    int status;
};

/* Producers on even cores, their consumers on the next. Waits for all; whether all sums are right.
 */
static bool run_pairs(struct umbra_fiber *consumer, const struct job *job)
{
    unsigned cores = umbra_runtime_cores(umbra_runtime_self());
    unsigned long sum = job->items * (job->items - 1) / 2;
    bool right = true;

    for (unsigned long i = 0; i < job->pairs; i++) {
        struct umbra_spawn_options at = {.where = UMBRA_ON_CORE, .core = 2 * i % cores};

        if (umbra_spawn_with(NULL, &at, produce, &job->queue[i], NULL) != 0)
            return false;
        at.core = (2 * i + 1) % cores;
        if (umbra_spawn_with(NULL, &at, consume, &job->queue[i], &consumer[i]) != 0)
            return false;
    }
    for (unsigned long i = 0; i < job->pairs; i++) {
        void *result = NULL;

        right =
            umbra_join(consumer[i], UMBRA_NEVER, &result) == 0 && (uintptr_t)result == sum && right;
    }
    return right;
}

static void *run(void *arg)
{
    struct job *job = arg;
    struct queue *queue = job->queue;
    struct umbra_fiber *consumer = calloc(job->pairs, sizeof(*consumer));
    uint64_t start = umbra_now_ns();

    if (queue && consumer) {
        for (unsigned long i = 0; i < job->pairs; i++) {
            memset(&queue[i], 0, sizeof(queue[i]));
            queue[i].changed_put = (struct umbra_event)UMBRA_EVENT_INIT;
            queue[i].changed_got = (struct umbra_event)UMBRA_EVENT_INIT;
            queue[i].items = job->items;
        }
        job->status = run_pairs(consumer, job) ? 0 : 1;
    }
    printf("%lu pairs, %lu items each: %.1f ns an item\n", job->pairs, job->items,
           (double)(umbra_now_ns() - start) / (double)(job->pairs * job->items));
    free(consumer);
    return NULL;
}

static bool parse(const char *text, unsigned long most, unsigned long *number)
{
    char *end;

    *number = strtoul(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == 0 && *number >= 1 && *number <= most)
        return true;
    fprintf(stderr, "pipeline: not a number from 1 to %lu: '%s'\n", most, text);
    return false;
}

int main(int argc, char **argv)
{
    struct job job = {.pairs = 4, .items = 100000, .status = 1};
    int error;

    if (argc > 3) {
        fprintf(stderr, "pipeline: unknown argument: '%s'\n", argv[3]);
        return 2;
    }
    if ((argc > 1 && !parse(argv[1], 10000, &job.pairs)) ||
        (argc > 2 && !parse(argv[2], 100000000, &job.items)))
        return 2;
    job.queue = aligned_alloc(UMBRA_CACHE_LINE, job.pairs * sizeof(*job.queue));
    error = umbra_run(NULL, run, &job);
    free(job.queue);
    if (error)
        fprintf(stderr, "pipeline: %s\n", umbra_last_error_text());
    return error ? 1 : job.status;
}
