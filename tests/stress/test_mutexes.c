/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A mutex that fibers of two cores and threads want: some wait, some give up after a random time,
 * some only try, some are canceled. Turns of random lengths, some across a switch. The seed is
 * printed; give it back in UMBRA_SEED. UMBRA_STRESS_MS sets the length of each test (default 1000).
 * A lost wake-up shows as a test that does not end.
 */
#define _GNU_SOURCE
#include "random_run.h"

#include <pthread.h>
#include <runner.h>

#include <umbra/core.h>
#include <umbra/fiber.h>
#include <umbra/sync.h>

#define THREADS 3
#define ACTORS 12 /* threads and fibers */

struct scene {
    struct umbra_mutex mutex;
    uint64_t turns; /* plain: under the mutex */
    uint64_t end;
    struct actor {
        struct scene *scene;
        struct umbra_fiber fiber;
        pthread_t thread;
        uint64_t random;
        uint64_t turns;
        bool gives_up, is_fiber;
    } actor[ACTORS];
};

static int lock_somehow(struct actor *actor, uint64_t random)
{
    struct umbra_mutex *mutex = &actor->scene->mutex;

    if (!actor->gives_up || (random & 3) == 0)
        return umbra_mutex_lock_deadline(mutex, UMBRA_NEVER);
    if ((random & 3) == 1)
        return umbra_mutex_lock_deadline(mutex, 0);
    return umbra_mutex_lock_deadline(mutex, umbra_deadline(random >> 8 & 0x3ffff));
}

/* Without the mutex, for 0 to 4 us, or in a switch. */
static void pass_time(const struct actor *actor, uint64_t random)
{
    uint64_t end = umbra_now_ns() + (random >> 40 & 0xfff);

    if ((random >> 32 & 7) != 0)
        return;
    if (actor->is_fiber && random >> 36 & 1)
        umbra_yield();
    while (umbra_now_ns() < end)
        um_arch_pause();
}

static void *act(void *arg)
{
    struct actor *actor = arg;
    struct scene *scene = actor->scene;

    while (umbra_now_ns() < scene->end) {
        uint64_t random = random_next(&actor->random);
        int error = lock_somehow(actor, random);

        if (error == -ECANCELED)
            break;
        if (error == 0) {
            uint64_t seen = scene->turns;

            pass_time(actor, random);
            scene->turns = seen + 1;
            actor->turns++;
            cr_assert_eq(umbra_mutex_unlock(&scene->mutex), 0);
        }
        pass_time(actor, random_next(&actor->random));
    }
    return NULL;
}

static void begin(struct scene *scene, struct umbra_runtime *runtime, uint64_t *random)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *actor = &scene->actor[i];
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = i % 2};

        actor->scene = scene;
        actor->random = random_next(random);
        actor->gives_up = *random >> 20 & 1;
        actor->is_fiber = i >= THREADS;
        if (actor->is_fiber)
            cr_assert_eq(umbra_spawn_with(runtime, &there, act, actor, &actor->fiber), 0);
        else
            cr_assert_eq(pthread_create(&actor->thread, NULL, act, actor), 0);
    }
}

static void finish(struct scene *scene, uint64_t *random)
{
    uint64_t turns = 0;

    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *actor = &scene->actor[i];

        if (actor->is_fiber && (random_next(random) & 3) == 0)
            umbra_cancel(actor->fiber);
    }
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *actor = &scene->actor[i];

        if (actor->is_fiber)
            cr_assert_eq(umbra_join(actor->fiber, UMBRA_NEVER, NULL), 0);
        else
            pthread_join(actor->thread, NULL);
        turns += actor->turns;
    }
    cr_assert_eq(scene->turns, turns);
    cr_assert_eq(umbra_mutex_lock_deadline(&scene->mutex, 0), 0, "no waiter is left");
    cr_assert_eq(umbra_mutex_unlock(&scene->mutex), 0);
}

Test(mutexes, of_fibers_and_threads)
{
    uint64_t random = seed_of_run(), end = end_of_run_ns();
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    while (umbra_now_ns() < end) {
        struct scene scene = {.mutex = UMBRA_MUTEX_INIT,
                              .end = umbra_now_ns() + (random_next(&random) & 0x1ffffff)};

        begin(&scene, runtime, &random);
        finish(&scene, &random);
    }
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}
