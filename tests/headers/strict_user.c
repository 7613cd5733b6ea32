/* SPDX-License-Identifier: BSL-1.0 */
/* A user's file, free of warnings itself: it expands our macros and has our hot functions inlined. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <umbra.h>

struct note {
    struct umbra_message message;
    uint32_t number;
};

struct job {
    struct umbra_task task;
    uint32_t in;
    uint32_t out;
};

static struct umbra_event ready = UMBRA_EVENT_INIT;
static struct umbra_event gate = UMBRA_EVENT_INIT_MANUAL;
static struct umbra_mutex lock = UMBRA_MUTEX_INIT;
static struct umbra_condition changed = UMBRA_CONDITION_INIT;
static struct umbra_semaphore places = UMBRA_SEMAPHORE_INIT(2);
static struct umbra_rwlock table = UMBRA_RWLOCK_INIT;
static struct umbra_latch latch = UMBRA_LATCH_INIT(1);
static struct umbra_port raw = UMBRA_PORT_INIT_BOUNDED(3);
static UMBRA_PORT(struct note) notes = {UMBRA_PORT_INIT};
static struct umbra_branch at_file_scope = {UMBRA_ITEMS(2, UMBRA_FROM(&notes), UMBRA_FROM(&raw))};

static void halve(void *arg)
{
    struct job *job = arg;

    job->out = job->in / 2;
}

static bool take(uint32_t *sum)
{
    struct umbra_branch branches[] = {{UMBRA_RECEIVE(&raw)},
                                      {UMBRA_JOIN(UMBRA_FROM(&raw), UMBRA_FROM(&notes))}};
    struct umbra_message *message = NULL;
    struct note *note = NULL;
    unsigned which = 0;

    if (UMBRA_PORT_RECEIVE(&notes, &note, 0) == 0)
        *sum += note->number;
    if (UMBRA_PORT_RECEIVE(&notes, &note, umbra_deadline(1000)) == 0)
        *sum += note->number;
    if (umbra_choose(&at_file_scope, 1, 0, NULL, NULL) != 0)
        *sum += 1;
    if (umbra_choose(branches, 2, 0, &which, &message) == 0 && which == 0)
        *sum += UMBRA_MESSAGE_AS(struct note, message)->number +
                UMBRA_MESSAGE_OF(&notes, message)->number;
    if (message && UMBRA_MESSAGE_FROM(&notes, message))
        *sum += (uint32_t)notes.port.capacity;
    return *sum > 0;
}

static void *child(void *arg)
{
    struct note one = {.number = 7}, two = {.number = 8}, three = {.number = 9};
    struct job job = {.in = 14};
    uint32_t *sum = arg;

    umbra_task_fork(&job.task, halve, &job);
    umbra_task_join(&job.task, UMBRA_NEVER);
    UMBRA_PORT_POST(&notes, &one, UMBRA_NEVER);
    UMBRA_PORT_POST(&notes, &two, 0);
    umbra_port_post(&raw, &three.message, UMBRA_NEVER);
    umbra_mutex_lock(&lock);
    if (take(sum))
        umbra_condition_notify(&changed, false);
    umbra_mutex_unlock(&lock);
    if (umbra_semaphore_wait(&places, UMBRA_NEVER) == 0)
        umbra_semaphore_post(&places, 1);
    umbra_rwlock_read(&table);
    umbra_rwlock_unlock(&table);
    umbra_latch_count_down(&latch);
    umbra_yield();
    umbra_event_signal(&ready);
    umbra_event_signal(&gate);
    UMBRA_PORT_CLOSE(&notes);
    return NULL;
}

static void *first(void *arg)
{
    struct umbra_fiber fiber;

    UMBRA_PORT_OPEN(&notes, 3);
    if (umbra_spawn(child, arg, &fiber) == 0) {
        umbra_event_wait(&ready, UMBRA_NEVER);
        umbra_event_wait(&gate, UMBRA_NEVER);
        umbra_join(fiber, UMBRA_NEVER, NULL);
    }
    __builtin_prefetch(arg);
    umbra_sleep_ns(um_cycles_to_ns(um_cycles() & 1));
    return NULL;
}

int main(void)
{
    uint32_t sum = 0;
    struct umbra_shadow shadow;
    struct job job = {.in = 2};

    if (shadow_create(&shadow, NULL) == 0) {
        if (shadow_fork(&shadow, halve, &job) == 0)
            shadow_join(&shadow);
        shadow_destroy(&shadow);
    }
    return umbra_run(NULL, first, &sum) == 0 && sum > 0 ? 0 : 1;
}
