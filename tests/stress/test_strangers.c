/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Threads that are no cores and all use one runtime at once: they spawn, join with deadlines, cancel
 * each other's fibers, signal, lock and dump, while a timer interrupts one of the process's threads
 * every millisecond with a handler that posts. What was spawned ends or says that it was canceled, what
 * was posted is taken. The seed is printed; give it back in UMBRA_SEED. UMBRA_STRESS_MS sets the length
 * (default 1000; a long run takes 60000). What is lost shows as a test that does not end.
 */
#define _GNU_SOURCE
#include "random_run.h"

#include <runner.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <umbra.h>

#define STRANGERS 64
#define CORES 2
#define TAKERS 3  /* fibers */
#define EVENTS 4  /* shared */
#define FIBERS 6  /* that a stranger spawns at once, at most */
#define KNOWN 32  /* handles that all strangers may cancel */
#define DUMPS 256 /* deeds for one dump, about */
#define STACK_BYTES 262144

static struct world {
    struct umbra_runtime *runtime;
    uint64_t end_ns;
    int null; /* what dumps go to */

    _Atomic uint64_t spawned, ended, canceled; /* fibers */
    _Atomic uint64_t posted, taken;            /* tokens */
    struct umbra_semaphore tokens;
    struct umbra_event event[EVENTS]; /* signaled now and then; waits have deadlines */
    struct umbra_mutex mutex;
    uint64_t plain; /* under the mutex */
    _Atomic uint64_t locked;

    pthread_mutex_t known_lock;
    struct umbra_fiber known[KNOWN]; /* under known_lock; most of them have ended */

    _Atomic int wrong; /* the first line of a check that failed */
} world;

static void check_at(int line, bool right)
{
    int none = 0;

    if (!right)
        atomic_compare_exchange_strong(&world.wrong, &none, line);
}

#define check(right) check_at(__LINE__, (right)) /* Criterion's checks are for one thread */

static void on_timer(int number)
{
    int error = errno;

    (void)number;
#ifndef UMBRA_POSIX_ONLY /* where posts are not for handlers */
    world.posted++;
    umbra_semaphore_post_async(&world.tokens, 1);
#endif
    errno = error;
}

static void take_until(uint64_t deadline)
{
    int error = umbra_semaphore_wait(&world.tokens, deadline);

    if (error == 0)
        world.taken++;
    else
        check(error == -ETIMEDOUT);
}

static void lock_and_count(int error)
{
    if (error != 0)
        return;
    world.plain++;
    world.locked++;
    check(umbra_mutex_unlock(&world.mutex) == 0);
}

/* ---- fibers ---- */

/* What a fiber is to do; in its stranger's frame. */
struct order {
    uint64_t random;
    struct umbra_event own; /* its stranger may signal it */
};

static int carry_out(struct order *order)
{
    uint64_t r = order->random;
    int error = 0;

    switch (r % 5) {
    case 0:
        umbra_yield();
        break;
    case 1:
        error = umbra_sleep_ns(r >> 40 & 0x3ffff);
        break;
    case 2:
        error =
            umbra_event_wait(&world.event[(r >> 8) % EVENTS], umbra_deadline(r >> 40 & 0x3ffff));
        check(error == 0 || error == -ETIMEDOUT || error == -ECANCELED);
        break;
    case 3:
        error = umbra_mutex_lock_deadline(&world.mutex, UMBRA_NEVER);
        lock_and_count(error);
        break;
    default:
        error = umbra_event_wait(&order->own, UMBRA_NEVER);
    }
    return error;
}

static void *fiber(void *arg)
{
    struct order *order = arg;
    int error = carry_out(order);
    void *result = (void *)(uintptr_t)(order->random * 3);

    if (error == -ECANCELED) {
        check(umbra_canceled());
        check(umbra_sleep_ns(1) == -ECANCELED);
        world.canceled++;
    } else {
        check(error == 0 || error == -ETIMEDOUT);
        world.ended++;
    }
    return result;
}

static void *takes_tokens(void *arg)
{
    int error;

    while ((error = umbra_semaphore_wait(&world.tokens, UMBRA_NEVER)) == 0)
        world.taken++;
    check(error == -ECANCELED);
    return arg;
}

/* ---- strangers ---- */

static void make_known(uint64_t r, struct umbra_fiber fiber)
{
    pthread_mutex_lock(&world.known_lock);
    world.known[r % KNOWN] = fiber;
    pthread_mutex_unlock(&world.known_lock);
}

static bool may_have_ended(int error)
{
    return error == 0 || error == -ESRCH;
}

static void cancel_known(uint64_t r)
{
    struct umbra_fiber fiber;

    pthread_mutex_lock(&world.known_lock);
    fiber = world.known[r % KNOWN];
    pthread_mutex_unlock(&world.known_lock);
    check(may_have_ended(umbra_cancel(fiber)));
}

/* Joins in one go, or by several attempts, between which the fiber's event is signaled or it is
 * canceled. Each attempt has more patience: requests that come faster than a core, which has to share
 * its processor with all the threads, can answer would pile up there. */
static void join(struct umbra_fiber fiber, struct order *order, uint64_t r)
{
    uint64_t patience_ns = r >> 40 & 0xffff;
    void *result = NULL;
    int error = -ETIMEDOUT;

    if (r & 1)
        umbra_event_signal(&order->own);
    else if (r & 2)
        check(may_have_ended(umbra_cancel(fiber)));
    while (error == -ETIMEDOUT) {
        error = umbra_join(fiber, umbra_deadline(patience_ns), &result);
        if (error == -ETIMEDOUT && !(r & 4))
            umbra_event_signal(&order->own);
        else if (error == -ETIMEDOUT)
            check(may_have_ended(umbra_cancel(fiber)));
        patience_ns = 4 * patience_ns + 10000;
    }
    check(error == 0);
    check((uintptr_t)result == (uintptr_t)(order->random * 3));
    check(umbra_join(fiber, UMBRA_NEVER, NULL) == -ESRCH);
    check(umbra_cancel(fiber) == -ESRCH);
}

static void spawn_some(uint64_t *random)
{
    uint64_t count = 1 + random_next(random) % FIBERS;
    struct umbra_fiber fibers[FIBERS];
    struct order orders[FIBERS];

    for (uint64_t i = 0; i < count; i++) {
        uint64_t r = random_next(random);
        struct umbra_spawn_options options = {.where = r & 1 ? UMBRA_ON_CORE : UMBRA_ANYWHERE,
                                              .core = (unsigned)(r >> 1) % CORES,
                                              .name = r & 4 ? "spawned by a stranger" : NULL};

        orders[i].random = random_next(random);
        orders[i].own = (struct umbra_event)UMBRA_EVENT_INIT;
        check(umbra_spawn_with(world.runtime, &options, fiber, &orders[i], &fibers[i]) == 0);
        world.spawned++;
        make_known(r >> 8, fibers[i]);
    }
    for (uint64_t i = 0; i < count; i++)
        join(fibers[i], &orders[i], random_next(random));
}

static void do_something(uint64_t *random)
{
    uint64_t r = random_next(random);
    int error;

    switch (r >> 8 & 7) {
    case 0:
        umbra_event_signal(&world.event[r % EVENTS]);
        break;
    case 1:
        error = umbra_event_wait(&world.event[r % EVENTS], umbra_deadline(r >> 48));
        check(error == 0 || error == -ETIMEDOUT);
        break;
    case 2:
        world.posted += 1 + r % 3;
        umbra_semaphore_post(&world.tokens, 1 + r % 3);
        break;
    case 3:
        take_until(umbra_deadline(r >> 48));
        break;
    case 4:
        lock_and_count(umbra_mutex_lock_deadline(&world.mutex, umbra_deadline(r >> 48)));
        break;
    case 5:
        cancel_known(r);
        break;
    default:
        spawn_some(random);
    }
    if ((r >> 16) % DUMPS == 0)
        umbra_dump(world.runtime, world.null);
}

static void *stranger(void *arg)
{
    uint64_t random = (uintptr_t)arg;

    while (umbra_now_ns() < world.end_ns)
        do_something(&random);
    return NULL;
}

/* ---- the test ---- */

static void start(void)
{
    struct umbra_options options = {.cores = CORES, .oversubscribe = true};
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct itimerval every_ms = {{0, 1000}, {0, 1000}};

    world.end_ns = end_of_run_ns();
    world.null = open("/dev/null", O_WRONLY);
    pthread_mutex_init(&world.known_lock, NULL);
    world.tokens = (struct umbra_semaphore)UMBRA_SEMAPHORE_INIT(0);
    world.mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
    for (int i = 0; i < EVENTS; i++)
        world.event[i].event.manual = i % 2 != 0;
    cr_assert_eq(umbra_runtime_create(&options, &world.runtime), 0);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every_ms, NULL);
}

static void *nothing(void *arg)
{
    return arg;
}

/* No handler posts any more when this returns: one that a core's thread was in has ended when a fiber
 * runs there afterwards. */
static void stop_posting(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};
    struct umbra_fiber fiber;

    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    for (unsigned core = 0; core < CORES; core++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = core};

        cr_assert_eq(umbra_spawn_with(world.runtime, &there, nothing, NULL, &fiber), 0);
        cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
}

/* A fiber that is canceled takes what is there before it is told so. */
static void stop_taking(struct umbra_fiber *takers)
{
    for (int i = 0; i < TAKERS; i++) {
        cr_expect_eq(umbra_cancel(takers[i]), 0);
        cr_expect_eq(umbra_join(takers[i], UMBRA_NEVER, NULL), 0);
    }
}

Test(strangers, use_one_runtime_while_a_timer_interrupts_them)
{
    uint64_t seed = seed_of_run();
    pthread_t threads[STRANGERS];
    struct umbra_fiber takers[TAKERS];
    pthread_attr_t attributes;

    start();
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int i = 0; i < TAKERS; i++)
        cr_assert_eq(umbra_spawn_with(world.runtime, NULL, takes_tokens, NULL, &takers[i]), 0);
    for (int i = 0; i < STRANGERS; i++)
        cr_assert_eq(pthread_create(&threads[i], &attributes, stranger,
                                    (void *)(uintptr_t)random_next(&seed)),
                     0);
    for (int i = 0; i < STRANGERS; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attributes);
    stop_posting();
    stop_taking(takers);
    cr_expect_eq(umbra_runtime_wait(world.runtime), 0, "no fiber is left");
    cr_expect_eq(umbra_runtime_destroy(world.runtime), 0);
    close(world.null);
    cr_log_info("%llu fibers ended, %llu were canceled, %llu tokens\n",
                (unsigned long long)world.ended, (unsigned long long)world.canceled,
                (unsigned long long)world.taken);
    cr_expect_eq(world.wrong, 0, "the check in line %d failed", world.wrong);
    cr_expect_eq(world.spawned, world.ended + world.canceled);
    cr_expect_eq(world.posted, world.taken);
    cr_expect_eq(world.plain, world.locked);
    cr_expect(world.ended > 0 && world.canceled > 0 && world.taken > 0);
}
