/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Channels under contention, while what must hold is checked. The seed is printed; give it back in
 * UMBRA_SEED. UMBRA_STRESS_MS sets the length of each test (default 1000). An item or a wake-up that
 * is lost shows as a test that does not end, as a deadlock, or in the last count.
 */
#define _GNU_SOURCE
#include "random_run.h"

#include <runner.h>

#include <pthread.h>
#include <string.h>

#include <umbra.h>

#define ACTORS 6 /* of each side, at most; the last is a thread */

/* What is pushed: larger than a word, so that a copy that is torn shows. */
struct item {
    uint64_t sequence; /* of what this pusher has pushed */
    uint64_t from;
    uint64_t check; /* of both */
};

typedef UMBRA_CHANNEL(struct item) item_channel;

struct actor {
    uint64_t random;
    uint64_t number;
    uint64_t count;        /* items that it has pushed or popped */
    uint64_t last[ACTORS]; /* popper: sequence + 1 of the last item of each pusher */
};

static struct world {
    struct umbra_runtime *runtime;
    uint64_t end_ns;
    unsigned cores, actors;
    item_channel channel;
    struct actor pusher[ACTORS], popper[ACTORS];
    _Atomic unsigned pushing; /* pushers that have not ended */
} world;

static bool over(void)
{
    return umbra_now_ns() >= world.end_ns;
}

/* A deadline, by chance: none, no wait, or a few microseconds. */
static uint64_t some_deadline(uint64_t r)
{
    if (r & 1)
        return UMBRA_NEVER;
    return r & 2 ? 0 : umbra_deadline(r >> 50);
}

/* Now and then something between two calls. */
static void linger(uint64_t r)
{
    if ((r >> 8 & 15) == 0)
        umbra_yield();
    if ((r >> 12 & 1023) == 0 && umbra_runtime_self())
        umbra_sleep_ns(r >> 48);
}

static void *pushes(void *arg)
{
    struct actor *self = arg;

    while (!over()) {
        uint64_t r = random_next(&self->random);
        struct item item = {self->count, self->number, self->count ^ self->number << 32};
        int error = UMBRA_CHANNEL_PUSH(&world.channel, &item, some_deadline(r));

        self->count += error == 0;
        cr_expect(error == 0 || error == -ETIMEDOUT);
        linger(r);
        if (error == -ETIMEDOUT)
            umbra_yield();
    }
    if (--world.pushing == 0)
        cr_expect_eq(UMBRA_CHANNEL_CLOSE(&world.channel), 0);
    return NULL;
}

static void *pops(void *arg)
{
    struct actor *self = arg;

    for (;;) {
        uint64_t r = random_next(&self->random);
        struct item item;
        int error = UMBRA_CHANNEL_POP(&world.channel, &item, some_deadline(r));

        if (error == -EPIPE)
            return NULL;
        linger(r);
        if (error != 0) {
            cr_expect_eq(error, -ETIMEDOUT);
            umbra_yield();
            continue;
        }
        cr_expect_eq(item.check, item.sequence ^ item.from << 32, "an item is torn");
        cr_expect_lt(self->last[item.from], item.sequence + 1, "an item is out of order");
        self->last[item.from] = item.sequence + 1;
        self->count++;
    }
}

struct thread {
    umbra_fiber_fn *fn;
    struct actor *actor;
};

/* A thread that is no core holds the runtime, since it wakes fibers. */
static void *in_thread(void *arg)
{
    struct thread *thread = arg;

    thread->fn(thread->actor);
    umbra_release(world.runtime);
    return NULL;
}

static void start_actor(umbra_fiber_fn *fn, struct actor *actor, unsigned core, pthread_t *thread,
                        struct thread *in)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = core % world.cores};

    if (!thread) {
        cr_assert_eq(umbra_spawn_with(world.runtime, &there, fn, actor, NULL), 0);
        return;
    }
    *in = (struct thread){fn, actor};
    umbra_hold(world.runtime);
    cr_assert_eq(pthread_create(thread, NULL, in_thread, in), 0);
}

static void run(unsigned cores, unsigned actors, size_t capacity, enum umbra_channel_sides sides)
{
    struct umbra_options options = {.cores = cores, .oversubscribe = true};
    uint64_t random = seed_of_run(), pushed = 0, popped = 0;
    pthread_t thread[2];
    struct thread in[2];

    memset(&world, 0, sizeof(world));
    world.cores = cores;
    world.pushing = actors;
    cr_assert_eq(umbra_runtime_create(&options, &world.runtime), 0);
    cr_assert_eq(UMBRA_CHANNEL_OPEN(&world.channel, capacity, sides), 0);
    world.end_ns = end_of_run_ns();
    for (unsigned i = 0; i < actors; i++) {
        bool last = actors > 1 && i == actors - 1;

        world.pusher[i] = (struct actor){.random = random_next(&random), .number = i};
        world.popper[i] = (struct actor){.random = random_next(&random), .number = i};
        start_actor(pushes, &world.pusher[i], i, last ? &thread[0] : NULL, &in[0]);
        start_actor(pops, &world.popper[i], i + 1, last ? &thread[1] : NULL, &in[1]);
    }
    cr_assert_eq(umbra_runtime_wait(world.runtime), 0);
    for (int i = 0; i < 2 && actors > 1; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < actors; i++) {
        pushed += world.pusher[i].count;
        popped += world.popper[i].count;
    }
    cr_assert_eq(pushed, popped);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(world.channel.channel.both.waiting[i], 0);
    fprintf(stderr, "  %llu items\n", (unsigned long long)popped);
    UMBRA_CHANNEL_FINI(&world.channel);
    cr_assert_eq(umbra_runtime_destroy(world.runtime), 0);
}

Test(channels, of_many_on_two_cores)
{
    run(2, ACTORS, 16, UMBRA_CHANNEL_MANY);
}

Test(channels, of_one_place)
{
    run(2, ACTORS, 1, UMBRA_CHANNEL_MANY);
}

Test(channels, of_many_on_one_core)
{
    run(1, ACTORS, 5, UMBRA_CHANNEL_MANY);
}

Test(channels, of_many_on_more_cores_than_there_are)
{
    run(8, ACTORS, 64, UMBRA_CHANNEL_MANY);
}

Test(channels, of_one_on_each_side)
{
    run(2, 1, 64, UMBRA_CHANNEL_ONE);
}

Test(channels, of_one_on_each_side_and_many_places)
{
    run(2, 1, 8192, UMBRA_CHANNEL_ONE);
}

Test(channels, of_one_on_each_side_of_one_core)
{
    run(1, 1, 8192, UMBRA_CHANNEL_ONE);
}
