/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Producers and consumers as most people write them first: a bounded queue from malloc with a mutex
 * and two conditions. Each producer and consumer is a fiber, on whichever core is idle first. A
 * consumer gathers numbers in 64 KiB on its own stack before it adds them up. (A port with a bound is
 * such a queue that is there already, umbra/port.h; pipeline.c has one for a single pair, of events.)
 *
 *     producers [PRODUCERS [CONSUMERS [ITEMS]]]
 *
 * Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <umbra/sync.h>

#include "program.h"

const char program_name[] = "producers";

#define PLACES 100

struct queue {
    struct umbra_mutex mutex;
    struct umbra_condition has_item, has_place;
    unsigned long item[PLACES];
    size_t first, count;
    size_t producers; /* that have not ended */
};

static struct queue *queue;
static size_t producers = 4, consumers = 4, items = 10000; /* the last of each producer */

static void must(int error)
{
    if (error == 0)
        return;
    fprintf(stderr, "producers: %s\n", error_text(error));
    exit(1);
}

/* No fiber here is canceled, or waits until a time: the waits do not fail. */
static void put(unsigned long item)
{
    umbra_mutex_lock(&queue->mutex);
    while (queue->count == PLACES)
        must(umbra_condition_wait(&queue->has_place, &queue->mutex, UMBRA_NEVER));
    queue->item[(queue->first + queue->count++) % PLACES] = item;
    umbra_condition_notify(&queue->has_item, false);
    umbra_mutex_unlock(&queue->mutex);
}

/* False: the producers have ended, and there is no item. */
static bool get(unsigned long *item)
{
    bool found;

    umbra_mutex_lock(&queue->mutex);
    while (queue->count == 0 && queue->producers > 0)
        must(umbra_condition_wait(&queue->has_item, &queue->mutex, UMBRA_NEVER));
    found = queue->count > 0;
    if (found) {
        *item = queue->item[queue->first];
        queue->first = (queue->first + 1) % PLACES;
        queue->count--;
        umbra_condition_notify(&queue->has_place, false);
    }
    umbra_mutex_unlock(&queue->mutex);
    return found;
}

static void *produce(void *unused)
{
    for (size_t i = 1; i <= items; i++)
        put(i);
    umbra_mutex_lock(&queue->mutex);
    if (--queue->producers == 0)
        umbra_condition_notify(&queue->has_item, true);
    umbra_mutex_unlock(&queue->mutex);
    return unused;
}

static void *consume(void *arg)
{
    unsigned long gathered[65536 / sizeof(unsigned long)];
    const size_t most = sizeof(gathered) / sizeof(*gathered);
    unsigned long *sum = arg;
    size_t count;

    do {
        for (count = 0; count < most && get(&gathered[count]);)
            count++;
        for (size_t i = 0; i < count; i++)
            *sum += gathered[i];
    } while (count == most);
    return NULL;
}

/* Starts all, and adds up what the consumers have got. */
static void *run(void *sum)
{
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};
    struct umbra_fiber *fiber = malloc(consumers * sizeof(*fiber));
    unsigned long *part = calloc(consumers, sizeof(*part));

    must(fiber && part ? 0 : -ENOMEM);
    for (size_t i = 0; i < consumers; i++)
        must(umbra_spawn_with(NULL, &anywhere, consume, &part[i], &fiber[i]));
    for (size_t i = 0; i < producers; i++)
        must(umbra_spawn_with(NULL, &anywhere, produce, queue, NULL));
    for (size_t i = 0; i < consumers; i++) {
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
        *(unsigned long *)sum += part[i];
    }
    free(part);
    free(fiber);
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned long sum = 0, right;
    int error;

    if (argc > 4)
        refuse(argv[4], "unknown argument");
    producers = argc > 1 ? number_of("PRODUCERS", argv[1], 1, 1000) : producers;
    consumers = argc > 2 ? number_of("CONSUMERS", argv[2], 1, 1000) : consumers;
    items = argc > 3 ? number_of("ITEMS", argv[3], 1, 1000000) : items;
    queue = malloc(sizeof(*queue));
    must(queue ? 0 : -ENOMEM);
    queue->mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
    queue->has_item = (struct umbra_condition)UMBRA_CONDITION_INIT;
    queue->has_place = (struct umbra_condition)UMBRA_CONDITION_INIT;
    queue->first = queue->count = 0;
    queue->producers = producers;
    error = umbra_run(NULL, run, &sum);
    free(queue);
    must(error);
    right = producers * (items * (items + 1) / 2);
    printf("%zu producers, %zu consumers: the sum is %lu, %s\n", producers, consumers, sum,
           sum == right ? "as it must be" : "WRONG");
    return printed(sum == right ? 0 : 1);
}
