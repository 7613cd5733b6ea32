/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Fibers on all cores do random things to each other, while what must hold is checked. The seed is
 * printed; give it back in UMBRA_SEED. UMBRA_STRESS_MS sets the length of each test (default 1000;
 * a long run takes 60000). What is lost shows as a test that does not end, or as a deadlock.
 */
#define _GNU_SOURCE
#include "random_run.h"

#include <runner.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <umbra.h>

#define ACTORS 24   /* fibers that act, at a time */
#define CHILDREN 20 /* spawned by one of them at once, at most */
#define CELLS 8     /* shared objects of each kind */
#define STEPS 40    /* of one actor's life */

/* ---- what they share ---- */

static struct world {
    uint64_t end_ns;
    unsigned cores;
    _Atomic uint64_t spawned, ended; /* children */
    _Atomic uint64_t lives;          /* actors that have ended */

    struct umbra_mutex mutex[CELLS];
    uint64_t plain[CELLS];          /* under the mutex */
    _Atomic uint64_t locked[CELLS]; /* how often each was */

    struct umbra_semaphore tokens[CELLS]; /* one each, to begin with */
    struct umbra_event manual[CELLS];     /* signaled and reset by anybody */
    struct umbra_event automatic[CELLS];  /* likewise; waits have deadlines */
    struct umbra_event request[CELLS];    /* answered by a fiber each, until it is asked to end */
    struct umbra_event reply[CELLS];
    struct umbra_mutex asking[CELLS];
    bool over; /* under asking[] */
    _Atomic uint64_t asked[CELLS], answered[CELLS];
} world;

struct actor {
    uint64_t random;
    int core; /* -1: not yet known */
};

static void check_place(struct actor *actor)
{
    if (actor->core < 0)
        actor->core = umbra_core_index();
    cr_expect_eq(umbra_core_index(), actor->core, "a fiber has left its core");
}

/* ---- what they do ---- */

struct child {
    uint64_t number;
    uint64_t naps_ns;
    bool yields;
};

static void *child(void *arg)
{
    struct child *self = arg;

    if (self->naps_ns)
        umbra_sleep_ns(self->naps_ns);
    if (self->yields)
        umbra_yield();
    world.ended++;
    return (void *)(uintptr_t)(self->number * 3);
}

static struct umbra_spawn_options random_spawn(uint64_t r)
{
    return (struct umbra_spawn_options){
        .where = (enum umbra_where)(r % 3),
        .core = (unsigned)(r >> 2) % world.cores,
        .name = r >> 8 & 7 ? NULL : "child",
        .stack_bytes = r >> 11 & 15 ? 0 : 100000,
        .delay_ns = r % 3 != UMBRA_ANYWHERE && (r >> 15 & 31) == 0 ? 50000 : 0,
        .stopped = r % 3 != UMBRA_ANYWHERE && (r >> 15 & 7) == 1};
}

static void spawn_some(struct actor *actor)
{
    uint64_t count = 1 + random_next(&actor->random) % CHILDREN;
    struct umbra_fiber fiber[CHILDREN];
    struct child self[CHILDREN];

    for (uint64_t i = 0; i < count; i++) {
        uint64_t r = random_next(&actor->random);
        struct umbra_spawn_options options = random_spawn(r);

        self[i] = (struct child){r, r >> 40 & 15 ? 0 : r >> 44 & 0xffff, r >> 60 & 1};
        world.spawned++;
        cr_expect_eq(umbra_spawn_with(NULL, &options, child, &self[i], &fiber[i]), 0);
        if (options.stopped)
            cr_expect_eq(umbra_continue(fiber[i]), 0);
        else if ((r >> 20 & 3) == 0) /* a permit it has no use for */
            umbra_continue(fiber[i]);
    }
    for (uint64_t i = 0; i < count; i++) {
        void *result = NULL;

        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, &result), 0);
        cr_expect_eq((uintptr_t)result, (uintptr_t)(self[i].number * 3));
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), -ESRCH);
        cr_expect_eq(umbra_continue(fiber[i]), -ESRCH);
    }
}

static void *transfers_back(void *arg)
{
    struct umbra_fiber *first = arg;

    for (int i = 0; i < 5; i++)
        cr_expect_eq(umbra_transfer(*first), 0);
    umbra_continue(*first);
    return NULL;
}

static void transfer_there_and_back(struct actor *actor)
{
    struct umbra_fiber self = umbra_self(), other;

    (void)actor;
    cr_expect_eq(umbra_spawn(transfers_back, &self, &other), 0);
    for (int i = 0; i < 6; i++)
        cr_expect_eq(umbra_transfer(other), 0);
    cr_expect_eq(umbra_join(other, UMBRA_NEVER, NULL), 0);
}

static void lock_and_count(struct actor *actor)
{
    uint64_t r = random_next(&actor->random);
    unsigned i = r % CELLS;
    uint64_t seen;

    if (r >> 8 & 3) {
        umbra_mutex_lock(&world.mutex[i]);
    } else if (umbra_mutex_lock_deadline(&world.mutex[i], umbra_deadline(r >> 16 & 0xfff)) != 0) {
        return;
    }
    seen = world.plain[i];
    if (r >> 40 & 1)
        umbra_yield();
    world.plain[i] = seen + 1;
    world.locked[i]++;
    cr_expect_eq(umbra_mutex_unlock(&world.mutex[i]), 0);
}

static void pass_a_token(struct actor *actor)
{
    uint64_t r = random_next(&actor->random);

    cr_expect_eq(umbra_semaphore_wait(&world.tokens[r % CELLS], UMBRA_NEVER), 0);
    if (r >> 8 & 1)
        umbra_yield();
    umbra_semaphore_post(&world.tokens[r % CELLS], 1);
}

static void wait_for_something(struct actor *actor)
{
    uint64_t r = random_next(&actor->random);
    uint64_t deadline = umbra_deadline(r >> 48);
    struct umbra_event *any[3] = {&world.automatic[r % CELLS], &world.manual[(r >> 4) % CELLS],
                                  &world.automatic[(r >> 8) % CELLS]};
    unsigned which = 3;
    int error;

    if (r >> 12 & 1)
        error = umbra_event_wait(any[r >> 13 & 1], deadline);
    else
        error = umbra_event_wait_any(any, 3, deadline, &which);
    cr_expect(error == 0 || error == -ETIMEDOUT);
    cr_expect(error != 0 || r >> 12 & 1 || which < 3);
}

static void signal_something(struct actor *actor)
{
    uint64_t r = random_next(&actor->random);

    switch (r >> 8 & 7) {
    case 0:
        umbra_event_reset(&world.automatic[r % CELLS]);
        break;
    case 1:
        umbra_event_reset(&world.manual[r % CELLS]);
        break;
    case 2:
        umbra_event_signal(&world.manual[r % CELLS]);
        break;
    case 3:
        umbra_event_signal_async(&world.automatic[r % CELLS]);
        break;
    default:
        umbra_event_signal(&world.automatic[r % CELLS]);
    }
}

/* Every request is answered once: a signal lost would stop both sides for good. */
static void ask(struct actor *actor)
{
    unsigned i = random_next(&actor->random) % CELLS;

    umbra_mutex_lock(&world.asking[i]);
    if (!world.over) {
        uint64_t before = world.answered[i];

        world.asked[i]++;
        umbra_event_signal(&world.request[i]);
        cr_expect_eq(umbra_event_wait(&world.reply[i], UMBRA_NEVER), 0);
        cr_expect_eq(world.answered[i], before + 1);
    }
    umbra_mutex_unlock(&world.asking[i]);
}

static void *answerer(void *arg)
{
    size_t i = (size_t)(uintptr_t)arg;

    for (;;) {
        umbra_event_wait(&world.request[i], UMBRA_NEVER);
        if (world.over)
            return NULL;
        world.answered[i]++;
        umbra_event_signal(&world.reply[i]);
    }
}

static void nap(struct actor *actor)
{
    umbra_sleep_ns(random_next(&actor->random) & 0x7fff);
}

static void just_yield(struct actor *actor)
{
    (void)actor;
    umbra_yield();
}

/* One life, then its successor. */
static void *act(void *arg)
{
    static void (*const deeds[])(struct actor *) = {spawn_some,
                                                    transfer_there_and_back,
                                                    lock_and_count,
                                                    pass_a_token,
                                                    wait_for_something,
                                                    signal_something,
                                                    signal_something,
                                                    ask,
                                                    nap,
                                                    just_yield};
    struct actor actor = {(uintptr_t)arg, -1};

    for (int step = 0; step < STEPS && umbra_now_ns() < world.end_ns; step++) {
        check_place(&actor);
        deeds[random_next(&actor.random) % (sizeof(deeds) / sizeof(deeds[0]))](&actor);
    }
    world.lives++;
    if (umbra_now_ns() < world.end_ns) {
        uint64_t r = random_next(&actor.random);
        struct umbra_spawn_options next = random_spawn(r);

        next.stopped = false;
        cr_expect_eq(umbra_spawn_with(NULL, &next, act, (void *)(uintptr_t)(r | 1), NULL), 0);
    }
    return NULL;
}

/* ---- a run ---- */

static void world_init(unsigned cores)
{
    memset(&world, 0, sizeof(world));
    world.cores = cores;
    world.end_ns = end_of_run_ns();
    for (int i = 0; i < CELLS; i++) {
        world.tokens[i] = (struct umbra_semaphore)UMBRA_SEMAPHORE_INIT(1);
        world.manual[i] = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    }
}

/* A thread that is no core, and does what such a thread may. */
static void *outside(void *arg)
{
    struct umbra_runtime *runtime = arg;
    struct actor actor = {umbra_now_ns() | 1, -1};

    while (umbra_now_ns() < world.end_ns) {
        struct child self = {random_next(&actor.random), 0, false};
        struct umbra_fiber fiber;
        void *result = NULL;

        world.spawned++;
        cr_assert_eq(umbra_spawn_with(runtime, NULL, child, &self, &fiber), 0);
        signal_something(&actor);
        wait_for_something(&actor);
        lock_and_count(&actor);
        ask(&actor);
        cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
        cr_assert_eq((uintptr_t)result, (uintptr_t)(self.number * 3));
    }
    return NULL;
}

static void stop_answerers(void)
{
    for (int i = 0; i < CELLS; i++)
        umbra_mutex_lock(&world.asking[i]);
    world.over = true;
    for (int i = 0; i < CELLS; i++) {
        umbra_mutex_unlock(&world.asking[i]);
        umbra_event_signal(&world.request[i]);
    }
}

static void check_end(void)
{
    uint64_t tokens = 0;

    cr_assert_eq(world.spawned, world.ended);
    for (int i = 0; i < CELLS; i++) {
        cr_assert_eq(world.plain[i], world.locked[i]);
        cr_assert_eq(world.asked[i], world.answered[i]);
        while (umbra_semaphore_wait(&world.tokens[i], 0) == 0)
            tokens++;
    }
    cr_assert_eq(tokens, CELLS);
    fprintf(stderr, "  %llu lives, %llu children\n", (unsigned long long)world.lives,
            (unsigned long long)world.spawned);
}

static void run(unsigned cores, enum umbra_wait_mode mode)
{
    struct umbra_options options = {.cores = cores, .oversubscribe = true, .wait.mode = mode};
    uint64_t random = seed_of_run();
    struct umbra_runtime *runtime;
    pthread_t thread;

    world_init(cores);
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (size_t i = 0; i < CELLS; i++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = (unsigned)i % cores};

        cr_assert_eq(umbra_spawn_with(runtime, &there, answerer, (void *)(uintptr_t)i, NULL), 0);
    }
    for (int i = 0; i < ACTORS; i++)
        cr_assert_eq(umbra_spawn_with(runtime, NULL, act,
                                      (void *)(uintptr_t)(random_next(&random) | 1), NULL),
                     0);
    cr_assert_eq(pthread_create(&thread, NULL, outside, runtime), 0);
    pthread_join(thread, NULL);
    stop_answerers();
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
    check_end();
}

Test(fibers, on_two_cores)
{
    run(2, UMBRA_WAIT_TWO_PHASE);
}

Test(fibers, on_one_core)
{
    run(1, UMBRA_WAIT_TWO_PHASE);
}

Test(fibers, that_park_at_once)
{
    run(2, UMBRA_WAIT_PARK);
}

Test(fibers, that_only_spin)
{
    run(2, UMBRA_WAIT_SPIN);
}

Test(fibers, that_monitor)
{
    run(2, UMBRA_WAIT_MONITOR);
}

/* Eight schedulers, whatever the machine has. */
Test(fibers, on_more_cores_than_there_are)
{
    run(8, UMBRA_WAIT_TWO_PHASE);
}
