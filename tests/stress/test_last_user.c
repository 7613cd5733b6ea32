/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The last user of an object frees it, while the call that has given the object up may not have
 * returned: a table of objects, in fibers of one core, of two cores, in threads, and in both. Freed
 * memory is inaccessible for some rounds, or filled with a pattern that must stay. The seed is
 * printed; give it back in UMBRA_SEED. UMBRA_STRESS_MS sets the length of the test (default 1000).
 */
#define _GNU_SOURCE
#include "random_run.h"

#include <pthread.h>
#include <runner.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include <umbra.h>

#define PAIRS                                                                                      \
    3 /* more callers than processors: one may lose its processor in the middle of a call */
#define PAGES 64
#define PAGE 65536 /* of all systems, the largest */
#define PATTERN 0x5a

struct object {
    union {
        struct umbra_event event;
        struct umbra_mutex mutex;
        struct umbra_semaphore semaphore;
        struct umbra_rwlock rwlock;
        struct umbra_latch latch;
        struct umbra_barrier barrier;
        struct umbra_port port;
    };
    struct umbra_condition condition; /* with the mutex */
    int users, turn;                  /* under the mutex or lock */
    _Atomic int counted;              /* users, or what has begun */
    struct umbra_message message;
};

struct pair {
    const struct kind *kind;
    char *pages;
    uint64_t end; /* time of the last round */
    _Atomic uint64_t round, ended;
    struct actor {
        struct pair *pair;
        unsigned side;
        bool is_fiber;
        uint64_t random;
        pthread_t thread;
        struct umbra_fiber fiber;
    } actor[2];
};

/* Each function is called once for each object, by one side each; true: the caller frees it. */
struct kind {
    const char *name;
    void (*prepare)(struct object *object);
    bool (*use[2])(struct object *object, struct actor *actor);
};

static void pass(const struct actor *actor)
{
    if (actor->is_fiber)
        umbra_yield();
    else
        sched_yield();
}

/* Sometimes with another fiber's turn, or for up to 4 us. */
static void linger(struct actor *actor)
{
    uint64_t random = random_next(&actor->random);
    uint64_t end = umbra_now_ns() + (random >> 40 & 0xfff);

    if ((random >> 32 & 3) == 0)
        pass(actor);
    while ((random >> 34 & 3) == 0 && umbra_now_ns() < end)
        um_arch_pause();
}

/* ---- each kind ---- */

static void prepare_mutex(struct object *object)
{
    object->mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
    object->condition = (struct umbra_condition)UMBRA_CONDITION_INIT;
    object->users = 2;
}

static bool count_in_mutex(struct object *object, struct actor *actor)
{
    bool last;

    umbra_mutex_lock(&object->mutex);
    linger(actor);
    last = --object->users == 0;
    cr_expect_eq(umbra_mutex_unlock(&object->mutex), 0);
    return last;
}

static bool count_in_time(struct object *object, struct actor *actor)
{
    uint64_t ns = random_next(&actor->random) >> 50;
    bool last;

    while (umbra_mutex_lock_deadline(&object->mutex, umbra_deadline(ns)) != 0)
        pass(actor);
    linger(actor);
    last = --object->users == 0;
    cr_expect_eq(umbra_mutex_unlock(&object->mutex), 0);
    return last;
}

static void prepare_rwlock(struct object *object)
{
    object->rwlock = (struct umbra_rwlock)UMBRA_RWLOCK_INIT;
    object->users = 2;
    object->counted = 0;
}

static bool count_in_rwlock(struct object *object, struct actor *actor)
{
    bool last;

    umbra_rwlock_write(&object->rwlock);
    linger(actor);
    last = --object->users == 0;
    cr_expect_eq(umbra_rwlock_unlock(&object->rwlock), 0);
    return last;
}

static bool read_once(struct object *object, struct actor *actor)
{
    umbra_rwlock_read(&object->rwlock);
    object->counted = 1;
    linger(actor);
    cr_expect_eq(umbra_rwlock_unlock(&object->rwlock), 0);
    return false;
}

static bool write_after_reader(struct object *object, struct actor *actor)
{
    while (object->counted == 0)
        pass(actor);
    umbra_rwlock_write(&object->rwlock);
    cr_expect_eq(umbra_rwlock_unlock(&object->rwlock), 0);
    return true;
}

static bool notify(struct object *object, struct actor *actor)
{
    umbra_mutex_lock(&object->mutex);
    linger(actor);
    object->users = 1;
    umbra_condition_notify(&object->condition, random_next(&actor->random) >> 40 & 1);
    cr_expect_eq(umbra_mutex_unlock(&object->mutex), 0);
    return false;
}

static bool wait_for_notify(struct object *object, struct actor *actor)
{
    (void)actor;
    umbra_mutex_lock(&object->mutex);
    while (object->users != 1)
        cr_expect_eq(umbra_condition_wait(&object->condition, &object->mutex, UMBRA_NEVER), 0);
    cr_expect_eq(umbra_mutex_unlock(&object->mutex), 0);
    return true;
}

static void prepare_semaphore(struct object *object)
{
    object->semaphore = (struct umbra_semaphore)UMBRA_SEMAPHORE_INIT(0);
}

static bool post(struct object *object, struct actor *actor)
{
    linger(actor);
    umbra_semaphore_post(&object->semaphore, 1);
    return false;
}

static bool post_async(struct object *object, struct actor *actor)
{
    linger(actor);
    umbra_semaphore_post_async(&object->semaphore, 1);
    return false;
}

static bool wait_for_post(struct object *object, struct actor *actor)
{
    linger(actor);
    cr_expect_eq(umbra_semaphore_wait(&object->semaphore, UMBRA_NEVER), 0);
    return true;
}

static bool wait_for_post_in_time(struct object *object, struct actor *actor)
{
    uint64_t ns = random_next(&actor->random) >> 50;

    while (umbra_semaphore_wait(&object->semaphore, umbra_deadline(ns)) != 0)
        pass(actor);
    return true;
}

static void prepare_event(struct object *object)
{
    object->event = (struct umbra_event)UMBRA_EVENT_INIT;
}

static bool signal_event(struct object *object, struct actor *actor)
{
    linger(actor);
    umbra_event_signal(&object->event);
    return false;
}

static bool wait_for_event(struct object *object, struct actor *actor)
{
    linger(actor);
    cr_expect_eq(umbra_event_wait(&object->event, UMBRA_NEVER), 0);
    return true;
}

static void prepare_latch(struct object *object)
{
    object->latch = (struct umbra_latch)UMBRA_LATCH_INIT(1);
}

static bool count_down(struct object *object, struct actor *actor)
{
    linger(actor);
    cr_expect_eq(umbra_latch_count_down(&object->latch), 0);
    return false;
}

static bool wait_for_latch(struct object *object, struct actor *actor)
{
    linger(actor);
    cr_expect_eq(umbra_latch_wait(&object->latch, UMBRA_NEVER), 0);
    return true;
}

static void prepare_barrier(struct object *object)
{
    object->barrier = (struct umbra_barrier)UMBRA_BARRIER_INIT(2);
    object->counted = 2;
}

static bool meet(struct object *object, struct actor *actor)
{
    linger(actor);
    cr_expect_geq(umbra_barrier_wait(&object->barrier, UMBRA_NEVER), 0);
    return --object->counted == 0;
}

static void prepare_port(struct object *object)
{
    UMBRA_PORT_OPEN(&object->port, 0);
}

static bool post_message(struct object *object, struct actor *actor)
{
    linger(actor);
    cr_expect_eq(umbra_port_post(&object->port, &object->message, UMBRA_NEVER), 0);
    return false;
}

static bool receive_message(struct object *object, struct actor *actor)
{
    struct umbra_message *message;

    linger(actor);
    cr_expect_eq(umbra_port_receive(&object->port, &message, UMBRA_NEVER), 0);
    return true;
}

static const struct kind kinds[] = {
    {"mutex", prepare_mutex, {count_in_mutex, count_in_mutex}},
    {"mutex, deadline", prepare_mutex, {count_in_time, count_in_mutex}},
    {"condition", prepare_mutex, {notify, wait_for_notify}},
    {"semaphore", prepare_semaphore, {post, wait_for_post}},
    {"semaphore, deadline", prepare_semaphore, {post, wait_for_post_in_time}},
    {"semaphore, async", prepare_semaphore, {post_async, wait_for_post}},
    {"read-write lock", prepare_rwlock, {count_in_rwlock, count_in_rwlock}},
    {"read-write lock, reader", prepare_rwlock, {read_once, write_after_reader}},
    {"event", prepare_event, {signal_event, wait_for_event}},
    {"latch", prepare_latch, {count_down, wait_for_latch}},
    {"barrier", prepare_barrier, {meet, meet}},
    {"port", prepare_port, {post_message, receive_message}},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* ---- rounds ---- */

static struct object *object_of(const struct pair *pair, uint64_t round)
{
    return (struct object *)(pair->pages + round % PAGES * PAGE);
}

/* No call may touch the object from now on. */
static void bury(struct object *object, bool deep)
{
    memset(object, PATTERN, sizeof(*object));
    if (deep)
        cr_expect_eq(mprotect(object, PAGE, PROT_NONE), 0);
}

static void dig_out(const struct pair *pair, uint64_t round)
{
    struct object *object = object_of(pair, round);
    const unsigned char *byte = (const unsigned char *)object;

    cr_expect_eq(mprotect(object, PAGE, PROT_READ | PROT_WRITE), 0);
    for (size_t i = 0; i < sizeof(*object) && round >= PAGES; i++)
        if (byte[i] != PATTERN) {
            cr_expect(false, "%s: byte %zu was written after the end", pair->kind->name, i);
            break;
        }
    pair->kind->prepare(object);
}

static void *act(void *arg)
{
    struct actor *actor = arg;
    struct pair *pair = actor->pair;

    for (uint64_t round = 0;; round++) {
        struct object *object = object_of(pair, round);

        while (pair->round < round && !pair->ended)
            pass(actor);
        if (pair->ended && pair->round < round)
            return NULL;
        if (!pair->kind->use[actor->side](object, actor))
            continue;
        bury(object, random_next(&actor->random) >> 40 & 1);
        if (umbra_now_ns() > pair->end) {
            pair->ended = 1;
            return NULL;
        }
        dig_out(pair, round + 1);
        pair->round = round + 1;
    }
}

enum place { ONE_CORE, TWO_CORES, THREADS, BOTH, PLACES };

static void start(struct pair *pair, enum place place, struct umbra_runtime *runtime,
                  uint64_t *random)
{
    for (unsigned side = 0; side < 2; side++) {
        struct actor *actor = &pair->actor[side];
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE,
                                            .core = place == TWO_CORES ? side : 0};

        *actor = (struct actor){.pair = pair, .side = side, .random = random_next(random)};
        actor->is_fiber = place != THREADS && (place != BOTH || (*random >> 20 & 1) == side);
        if (actor->is_fiber)
            cr_assert_eq(umbra_spawn_with(runtime, &there, act, actor, &actor->fiber), 0);
        else
            cr_assert_eq(pthread_create(&actor->thread, NULL, act, actor), 0);
    }
}

static void finish(struct pair *pair)
{
    for (unsigned side = 0; side < 2; side++) {
        if (pair->actor[side].is_fiber)
            cr_assert_eq(umbra_join(pair->actor[side].fiber, UMBRA_NEVER, NULL), 0);
        else
            pthread_join(pair->actor[side].thread, NULL);
    }
    munmap(pair->pages, PAGES * PAGE);
}

static void run(const struct kind *kind, enum place place, struct umbra_runtime *runtime,
                uint64_t *random, uint64_t ns)
{
    struct pair pair[PAIRS];

    for (int i = 0; i < PAIRS; i++) {
        pair[i] = (struct pair){.kind = kind, .end = umbra_now_ns() + ns};
        pair[i].pages =
            mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert(pair[i].pages != MAP_FAILED);
        dig_out(&pair[i], 0);
        start(&pair[i], place, runtime, random);
    }
    for (int i = 0; i < PAIRS; i++)
        finish(&pair[i]);
}

Test(last_user, frees)
{
    uint64_t random = seed_of_run(), ns = end_of_run_ns() - umbra_now_ns();
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (size_t kind = 0; kind < KINDS; kind++)
        for (int place = 0; place < PLACES; place++)
            run(&kinds[kind], (enum place)place, runtime, &random, ns / KINDS / PLACES * 2);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}
