/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Objects that users place, where malloc puts them: at addresses that are aligned to 16 bytes and no
 * more, in the middle of a line and across two. Also compiled for this machine's own processor, whose
 * widest stores then initialise them.
 */
#define _GNU_SOURCE
#include "fibers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 100

/* Memory for an object, so many bytes after the beginning of a line. */
static void *place(void **memory, size_t offset, size_t bytes)
{
    uintptr_t line;

    *memory = malloc(bytes + offset + UMBRA_CACHE_LINE);
    cr_assert_not_null(*memory);
    line = ((uintptr_t)*memory + UMBRA_CACHE_LINE - 1) & ~(uintptr_t)(UMBRA_CACHE_LINE - 1);
    memset((void *)(line + offset), 0xa5, bytes);
    return (void *)(line + offset);
}

/* Calls fn with the memory of an object in each place. */
#define EACH_PLACE(type, fn)                                                                       \
    for (size_t offset = 16; offset < UMBRA_CACHE_LINE; offset += 16) {                            \
        void *memory;                                                                              \
        type *object = place(&memory, offset, sizeof(type));                                       \
                                                                                                   \
        fn(object);                                                                                \
        free(memory);                                                                              \
    }

/* Runs fn(arg) in a thread and in a fiber on each of two cores at once. */
static void together(umbra_fiber_fn *fn, void *arg)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber[2];
    pthread_t thread;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (unsigned i = 0; i < 2; i++) {
        struct umbra_spawn_options there = on_core(i);

        cr_assert_eq(umbra_spawn_with(runtime, &there, fn, arg, &fiber[i]), 0);
    }
    cr_assert_eq(pthread_create(&thread, NULL, fn, arg), 0);
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

#define TOGETHER 3

/* ---- events ---- */

static void *passes_on(void *arg)
{
    struct umbra_event *event = arg;

    for (int i = 0; i < ROUNDS; i++) {
        cr_expect_eq(umbra_event_wait(event, UMBRA_NEVER), 0);
        umbra_event_signal(event);
    }
    return NULL;
}

static void use_event(struct umbra_event *event)
{
    *event = (struct umbra_event)UMBRA_EVENT_INIT;
    umbra_event_signal(event);
    together(passes_on, event);
    cr_assert_eq(umbra_event_wait(event, umbra_deadline(SECOND)), 0);
    cr_assert_eq(umbra_event_wait(event, umbra_deadline(1)), -ETIMEDOUT);
}

Test(anywhere, an_event)
{
    EACH_PLACE(struct umbra_event, use_event)
}

/* ---- what is made of them ---- */

/* As a newcomer would have it: on the heap, with what it guards. */
struct account {
    char owner[20];
    struct umbra_mutex mutex;
    struct umbra_condition changed;
    long balance;
};

static void *deposits(void *arg)
{
    struct account *account = arg;

    for (int i = 0; i < ROUNDS; i++) {
        umbra_mutex_lock(&account->mutex);
        account->balance++;
        umbra_condition_notify(&account->changed, true);
        while (i == ROUNDS - 1 && account->balance < (long)TOGETHER * ROUNDS)
            cr_expect_eq(umbra_condition_wait(&account->changed, &account->mutex, UMBRA_NEVER), 0);
        cr_expect_eq(umbra_mutex_unlock(&account->mutex), 0);
    }
    return NULL;
}

static void use_account(struct account *account)
{
    *account = (struct account){
        .owner = "newcomer", .mutex = UMBRA_MUTEX_INIT, .changed = UMBRA_CONDITION_INIT};
    together(deposits, account);
    cr_assert_eq(account->balance, (long)TOGETHER * ROUNDS);
}

Test(anywhere, a_mutex_and_a_condition_in_a_struct_of_the_user)
{
    EACH_PLACE(struct account, use_account)
}

struct meeting {
    char name[5];
    struct umbra_semaphore places;
    struct umbra_rwlock minutes;
    struct umbra_latch open;
    struct umbra_barrier round;
    int inside, written;
};

static void *meets(void *arg)
{
    struct meeting *meeting = arg;

    cr_expect_eq(umbra_latch_count_down(&meeting->open), 0);
    cr_expect_eq(umbra_latch_wait(&meeting->open, UMBRA_NEVER), 0);
    for (int i = 0; i < ROUNDS; i++) {
        cr_expect_eq(umbra_semaphore_wait(&meeting->places, UMBRA_NEVER), 0);
        meeting->inside++;
        umbra_semaphore_post(&meeting->places, 1);
        umbra_rwlock_write(&meeting->minutes);
        meeting->written++;
        cr_expect_eq(umbra_rwlock_unlock(&meeting->minutes), 0);
        cr_expect_geq(umbra_barrier_wait(&meeting->round, UMBRA_NEVER), 0);
        umbra_rwlock_read(&meeting->minutes);
        cr_expect_geq(meeting->written, (i + 1) * TOGETHER);
        cr_expect_eq(umbra_rwlock_unlock(&meeting->minutes), 0);
    }
    return NULL;
}

static void use_meeting(struct meeting *meeting)
{
    *meeting = (struct meeting){.places = UMBRA_SEMAPHORE_INIT(1),
                                .minutes = UMBRA_RWLOCK_INIT,
                                .open = UMBRA_LATCH_INIT(TOGETHER),
                                .round = UMBRA_BARRIER_INIT(TOGETHER)};
    together(meets, meeting);
    cr_assert_eq(meeting->inside, TOGETHER * ROUNDS);
    cr_assert_eq(meeting->written, TOGETHER * ROUNDS);
}

Test(anywhere, all_others_of_sync_h)
{
    EACH_PLACE(struct meeting, use_meeting)
}

/* ---- ports, tasks ---- */

struct item {
    struct umbra_message message;
    int number;
};

struct office {
    UMBRA_PORT(struct item) items;
    struct umbra_arbiter arbiter;
    struct umbra_source source;
    struct umbra_branch branch;
    struct item item[ROUNDS];
    int sum;
};

static void adds(struct umbra_message *messages, void *arg)
{
    struct office *office = arg;

    office->sum += UMBRA_MESSAGE_AS(struct item, messages)->number;
}

static void *serves(void *arg)
{
    struct office *office = arg;

    UMBRA_PORT_OPEN(&office->items, 0);
    office->sum = 0;
    office->source = (struct umbra_source)UMBRA_FROM(&office->items);
    office->branch = (struct umbra_branch){.source = &office->source,
                                           .sources = 1,
                                           .items = 1,
                                           .handler = adds,
                                           .arg = office,
                                           .group = UMBRA_EXCLUSIVE};
    cr_expect_eq(umbra_arbiter_start(&office->arbiter, &office->branch, 1, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        office->item[i].number = i;
        cr_expect_eq(UMBRA_PORT_POST(&office->items, &office->item[i], UMBRA_NEVER), 0);
    }
    UMBRA_PORT_CLOSE(&office->items);
    cr_expect_eq(umbra_arbiter_join(&office->arbiter, UMBRA_NEVER), -EPIPE);
    return NULL;
}

static void use_office(struct office *office)
{
    cr_assert_eq(run_cores(1, serves, office), 0);
    cr_assert_eq(office->sum, ROUNDS * (ROUNDS - 1) / 2);
}

Test(anywhere, a_port_and_an_arbiter)
{
    EACH_PLACE(struct office, use_office)
}

struct two_tasks {
    struct umbra_task task[2];
    int done;
};

static void does(void *arg)
{
    ++*(int *)arg;
}

static void *forks(void *arg)
{
    struct two_tasks *tasks = arg;

    tasks->done = 0;
    for (int i = 0; i < 2; i++)
        umbra_task_fork(&tasks->task[i], does, &tasks->done);
    for (int i = 2; i-- > 0;)
        umbra_task_join(&tasks->task[i], UMBRA_NEVER);
    return NULL;
}

static void use_tasks(struct two_tasks *tasks)
{
    cr_assert_eq(run_cores(1, forks, tasks), 0);
    cr_assert_eq(tasks->done, 2);
}

Test(anywhere, a_task)
{
    EACH_PLACE(struct two_tasks, use_tasks)
}

/* ---- shadows, waiters ---- */

struct helped {
    struct umbra_shadow shadow;
    struct umbra_prefetch ahead;
    uint64_t items;
};

static void runs_ahead(void *arg)
{
    struct helped *helped = arg;
    uint64_t item = 0;

    while (umbra_prefetch_next(&helped->ahead, &item, NULL))
        helped->items = ++item;
}

static void use_helped(struct helped *helped)
{
    struct umbra_topology *topology;
    struct umbra_shadow_options options = {0};

    cr_assert_eq(umbra_topology_create(&(struct umbra_topology_options){.synthetic = "core:1 pu:2"},
                                       &topology),
                 0);
    options.topology = topology;
    cr_assert_eq(shadow_create(&helped->shadow, &options), 0);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(umbra_prefetch_init(&helped->ahead, NULL), 0);
        umbra_prefetch_begin(&helped->ahead, NULL);
        cr_assert_eq(shadow_fork(&helped->shadow, runs_ahead, helped), 0);
        for (uint64_t item = 0; item < ROUNDS; item++)
            umbra_prefetch_at(&helped->ahead, item, NULL);
        umbra_prefetch_end(&helped->ahead);
        cr_assert_eq(shadow_join(&helped->shadow), 0);
    }
    cr_assert_eq(shadow_destroy(&helped->shadow), 0);
    umbra_topology_destroy(topology);
}

Test(anywhere, a_shadow_and_its_prefetch)
{
    EACH_PLACE(struct helped, use_helped)
}

struct waited {
    struct umbra_waiter waiter;
    _Atomic uint32_t word;
};

static void *signals(void *arg)
{
    struct waited *waited = arg;

    umbra_signal(&waited->word, 1, &waited->waiter);
    return NULL;
}

static void use_waiter(struct waited *waited)
{
    struct umbra_wait_policy policy;
    pthread_t thread;

    cr_assert_eq(umbra_wait_policy_init(&policy, NULL), 0);
    waited->waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&policy);
    atomic_store(&waited->word, 0);
    cr_assert_eq(pthread_create(&thread, NULL, signals, waited), 0);
    cr_assert_geq(
        umbra_wait_while_equal(&waited->waiter, &waited->word, 0, UINT32_MAX, UMBRA_NEVER), 0);
    pthread_join(thread, NULL);
}

Test(anywhere, a_waiter)
{
    EACH_PLACE(struct waited, use_waiter)
}
