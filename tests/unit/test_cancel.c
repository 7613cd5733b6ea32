/* SPDX-License-Identifier: BSL-1.0 */
/* umbra_cancel: a wait that may fail returns -ECANCELED, before it begins and while it lasts. */
#define _GNU_SOURCE
#include "fibers.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* ---- one wait of each kind, for what never comes ---- */

static struct umbra_event never = UMBRA_EVENT_INIT, nor_this = UMBRA_EVENT_INIT_MANUAL;
static struct umbra_mutex mutex = UMBRA_MUTEX_INIT, other_mutex = UMBRA_MUTEX_INIT;
static struct umbra_condition condition = UMBRA_CONDITION_INIT;
static struct umbra_semaphore semaphore = UMBRA_SEMAPHORE_INIT(0);
static struct umbra_rwlock rwlock = UMBRA_RWLOCK_INIT;
static struct umbra_latch latch = UMBRA_LATCH_INIT(1);
static struct umbra_port port;
static struct umbra_fiber endless[2];

static bool no(void *arg)
{
    (void)arg;
    return false;
}

static int waits_event(void)
{
    return umbra_event_wait(&never, UMBRA_NEVER);
}

static int waits_event_deadline(void)
{
    return umbra_event_wait(&never, umbra_deadline(10 * SECOND));
}

static int waits_until(void)
{
    return umbra_event_wait_until(&never, no, NULL, UMBRA_NEVER);
}

static int waits_any(void)
{
    struct umbra_event *both[] = {&never, &nor_this};

    return umbra_event_wait_any(both, 2, UMBRA_NEVER, NULL);
}

static int sleeps(void)
{
    return umbra_sleep_ns(10 * SECOND);
}

static int locks(void)
{
    return umbra_mutex_lock_deadline(&mutex, umbra_deadline(10 * SECOND));
}

static int waits_condition(void)
{
    int error = umbra_mutex_lock_deadline(&other_mutex, UMBRA_NEVER);

    if (error == 0)
        error = umbra_condition_wait(&condition, &other_mutex, UMBRA_NEVER);
    cr_expect_eq(umbra_mutex_unlock(&other_mutex), 0, "it is locked again");
    return error;
}

static int waits_semaphore(void)
{
    return umbra_semaphore_wait(&semaphore, UMBRA_NEVER);
}

static int reads(void)
{
    return umbra_rwlock_read_deadline(&rwlock, umbra_deadline(10 * SECOND));
}

static int writes(void)
{
    return umbra_rwlock_write_deadline(&rwlock, umbra_deadline(10 * SECOND));
}

static int waits_latch(void)
{
    return umbra_latch_wait(&latch, UMBRA_NEVER);
}

static int receives(void)
{
    struct umbra_message *message;

    return umbra_port_receive(&port, &message, UMBRA_NEVER);
}

static int joins_here(void)
{
    return umbra_join(endless[0], UMBRA_NEVER, NULL);
}

static int joins_elsewhere(void)
{
    return umbra_join(endless[1], UMBRA_NEVER, NULL);
}

static int joins_deadline(void)
{
    return umbra_join(endless[0], umbra_deadline(10 * SECOND), NULL);
}

static const struct {
    const char *name;
    int (*wait)(void);
} waits[] = {
    {"event", waits_event},
    {"event, deadline", waits_event_deadline},
    {"condition of an event", waits_until},
    {"any of two events", waits_any},
    {"sleep", sleeps},
    {"mutex, deadline", locks},
    {"condition", waits_condition},
    {"semaphore", waits_semaphore},
    {"read, deadline", reads},
    {"write, deadline", writes},
    {"latch", waits_latch},
    {"port", receives},
    {"join here", joins_here},
    {"join elsewhere", joins_elsewhere},
    {"join, deadline", joins_deadline},
};

#define WAITS (sizeof(waits) / sizeof(waits[0]))

/* What a fiber found: when it was canceled while it waited, and then again. */
struct found {
    size_t which;
    int first, again;
};

static void *waits_twice(void *arg)
{
    struct found *found = arg;

    found->first = waits[found->which].wait();
    found->again = waits[found->which].wait();
    return arg;
}

static void *ends_when_canceled(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)umbra_event_wait(&never, UMBRA_NEVER);
}

static void expect_canceled(struct umbra_fiber fiber, const struct found *found)
{
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(found->first, -ECANCELED, "%s: %d", waits[found->which].name, found->first);
    cr_expect_eq(found->again, -ECANCELED, "%s again: %d", waits[found->which].name, found->again);
}

/* From this core and from another: `blocked` at first, or canceled before it begins. */
static void cancel_one(size_t which, bool blocked)
{
    struct found found = {which, 1, 1};
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_spawn(waits_twice, &found, &fiber), 0);
    while (blocked && umbra_fiber_info(fiber, NULL) != UMBRA_FIBER_BLOCKED)
        umbra_yield();
    cr_expect_eq(umbra_cancel(fiber), 0);
    expect_canceled(fiber, &found);
}

static void set_up(void)
{
    struct umbra_spawn_options there = on_core(1);

    UMBRA_PORT_OPEN(&port, 0);
    umbra_mutex_lock(&mutex);
    umbra_rwlock_write(&rwlock);
    umbra_spawn(ends_when_canceled, NULL, &endless[0]);
    umbra_spawn_with(NULL, &there, ends_when_canceled, NULL, &endless[1]);
}

static void take_down(void)
{
    void *error;

    umbra_mutex_unlock(&mutex);
    umbra_rwlock_unlock(&rwlock);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(umbra_cancel(endless[i]), 0);
        cr_expect_eq(umbra_join(endless[i], UMBRA_NEVER, &error), 0);
        cr_expect_eq((intptr_t)error, -ECANCELED);
        cr_expect_eq(umbra_cancel(endless[i]), -ESRCH);
    }
}

static void *cancels_each_wait(void *arg)
{
    set_up();
    for (size_t which = 0; which < WAITS; which++) {
        cancel_one(which, true);
        cancel_one(which, false);
    }
    take_down();
    return arg;
}

Test(cancel, ends_each_wait)
{
    cr_assert_eq(run_cores(2, cancels_each_wait, NULL), 0);
}

/* ---- from another core, and from a thread ---- */

static struct umbra_fiber far;

static void *cancels_from_afar(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct found found[WAITS];

    set_up();
    for (size_t which = 0; which < WAITS; which++) {
        found[which] = (struct found){which, 1, 1};
        cr_expect_eq(umbra_spawn_with(NULL, &there, waits_twice, &found[which], &far), 0);
        while (which % 2 && umbra_fiber_info(far, NULL) != UMBRA_FIBER_BLOCKED)
            umbra_yield();
        cr_expect_eq(umbra_cancel(far), 0);
        expect_canceled(far, &found[which]);
    }
    take_down();
    return arg;
}

Test(cancel, comes_from_other_cores)
{
    cr_assert_eq(run_cores(2, cancels_from_afar, NULL), 0);
}

static void *sleeps_once(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)sleeps();
}

static void *returns(void *arg)
{
    return arg;
}

/* The next fiber in the memory of one that slept begins at once. */
static void *begins_after_a_sleep(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    uint64_t start = umbra_now_ns();

    for (int i = 0; i < 20; i++) {
        cr_assert_eq(umbra_spawn_with(NULL, &there, sleeps_once, NULL, &far), 0);
        while (umbra_fiber_info(far, NULL) != UMBRA_FIBER_BLOCKED)
            umbra_yield();
        cr_expect_eq(umbra_cancel(far), 0);
        cr_expect_eq(umbra_join(far, UMBRA_NEVER, NULL), 0);
        cr_assert_eq(umbra_spawn_with(NULL, &there, returns, NULL, &far), 0);
        cr_expect_eq(umbra_join(far, UMBRA_NEVER, NULL), 0);
    }
    cr_expect_lt(umbra_now_ns() - start, 9 * SECOND);
    return arg;
}

Test(cancel, of_a_sleep_does_not_delay_the_next_fiber)
{
    cr_assert_eq(run_cores(2, begins_after_a_sleep, NULL), 0);
}

Test(cancel, comes_from_threads)
{
    struct umbra_options options = {.cores = 1};
    struct umbra_runtime *runtime;
    void *error;

    cr_assert_eq(umbra_cancel((struct umbra_fiber){NULL, 0}), -ESRCH);
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (int i = 0; i < 200; i++) {
        cr_assert_eq(umbra_spawn_with(runtime, NULL, ends_when_canceled, NULL, &far), 0);
        while (i % 2 && umbra_fiber_info(far, NULL) != UMBRA_FIBER_BLOCKED)
            umbra_yield();
        cr_assert_eq(umbra_cancel(far), 0); /* perhaps before a core has taken it */
        cr_assert_eq(umbra_join(far, UMBRA_NEVER, &error), 0);
        cr_assert_eq((intptr_t)error, -ECANCELED);
    }
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

/* ---- what is given as a wait ends ---- */

static struct umbra_event one_event = UMBRA_EVENT_INIT;
static struct umbra_semaphore one_semaphore = UMBRA_SEMAPHORE_INIT(0);
static struct umbra_condition one_condition = UMBRA_CONDITION_INIT;
static struct umbra_mutex its_mutex = UMBRA_MUTEX_INIT;
static struct umbra_port one_port = UMBRA_PORT_INIT;
static struct umbra_message given_message[2];
static UMBRA_CHANNEL(int) one_channel;
static int given;

static int takes_signal(uint64_t deadline)
{
    return umbra_event_wait(&one_event, deadline);
}

static void gives_signal(void)
{
    umbra_event_signal(&one_event);
}

static int takes_place(uint64_t deadline)
{
    return umbra_semaphore_wait(&one_semaphore, deadline);
}

static void gives_place(void)
{
    umbra_semaphore_post(&one_semaphore, 1);
}

static int is_notified(uint64_t deadline)
{
    int error;

    umbra_mutex_lock(&its_mutex);
    error = umbra_condition_wait(&one_condition, &its_mutex, deadline);
    umbra_mutex_unlock(&its_mutex);
    return error;
}

static void notifies(void)
{
    umbra_condition_notify(&one_condition, false);
}

static int takes_message(uint64_t deadline)
{
    struct umbra_message *message;

    return umbra_port_receive(&one_port, &message, deadline);
}

static void gives_message(void)
{
    cr_expect_eq(umbra_port_post(&one_port, &given_message[given++ % 2], 0), 0);
}

static int takes_item(uint64_t deadline)
{
    int item;

    return UMBRA_CHANNEL_POP(&one_channel, &item, deadline);
}

static void gives_item(void)
{
    cr_expect_eq(UMBRA_CHANNEL_PUSH(&one_channel, &given, 0), 0);
}

static const struct piece {
    const char *name;
    int (*take)(uint64_t deadline);
    void (*give)(void);
} pieces[] = {
    {"signal", takes_signal, gives_signal},        {"place", takes_place, gives_place},
    {"notification", is_notified, notifies},       {"message", takes_message, gives_message},
    {"item of a channel", takes_item, gives_item},
};

struct taker {
    const struct piece *piece;
    uint64_t deadline;
    int error;
};

static void *takes_one(void *arg)
{
    struct taker *taker = arg;

    taker->error = taker->piece->take(taker->deadline);
    return NULL;
}

/* Two wait. The first wait is ended, and before that fiber runs one is given: to the one or the
 * other. */
static void give_as_a_wait_ends(const struct piece *piece, bool cancel)
{
    struct taker taker[2] = {{piece, cancel ? UMBRA_NEVER : umbra_deadline(MS), 1},
                             {piece, umbra_deadline(10 * SECOND), 1}};
    struct umbra_fiber fiber[2];

    for (int i = 0; i < 2; i++)
        cr_expect_eq(umbra_spawn(takes_one, &taker[i], &fiber[i]), 0);
    umbra_yield();
    umbra_yield();
    while (!cancel && umbra_now_ns() < taker[0].deadline)
        umbra_pause();
    if (cancel)
        umbra_cancel(fiber[0]);
    piece->give();
    umbra_join(fiber[0], UMBRA_NEVER, NULL);
    if (taker[0].error == 0)
        piece->give();
    umbra_join(fiber[1], UMBRA_NEVER, NULL);
    cr_expect_eq(taker[1].error, 0, "%s, %s: %d and %d", piece->name,
                 cancel ? "cancel" : "deadline", taker[0].error, taker[1].error);
}

static void *gives_as_waits_end(void *arg)
{
    cr_expect_eq(UMBRA_CHANNEL_OPEN(&one_channel, 4, UMBRA_CHANNEL_MANY), 0);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++)
        for (int k = 0; k < 20; k++)
            give_as_a_wait_ends(&pieces[i], k % 2 == 0);
    UMBRA_CHANNEL_FINI(&one_channel);
    return arg;
}

Test(cancel, what_is_given_as_a_wait_ends_is_not_lost)
{
    cr_assert_eq(run_cores(1, gives_as_waits_end, NULL), 0);
}

/* ---- what it does not end ---- */

static struct umbra_barrier pair = UMBRA_BARRIER_INIT(2);

static void nothing(void)
{
}

static void holds_mutex(void)
{
    umbra_mutex_lock(&mutex);
}

static void gives_mutex(void)
{
    cr_expect_eq(umbra_mutex_unlock(&mutex), 0);
}

static int takes_mutex(void)
{
    umbra_mutex_lock(&mutex);
    return umbra_mutex_unlock(&mutex);
}

static struct umbra_event other_may_end = UMBRA_EVENT_INIT;

static void *holds_other(void *arg)
{
    umbra_mutex_lock(&other_mutex);
    cr_expect_eq(umbra_event_wait(&other_may_end, UMBRA_NEVER), 0);
    cr_expect_eq(umbra_mutex_unlock(&other_mutex), 0);
    return arg;
}

/* The condition's wait ends by the cancel, while another fiber has the mutex. */
static int takes_mutex_again(void)
{
    umbra_mutex_lock(&other_mutex);
    cr_expect_eq(umbra_spawn(holds_other, NULL, NULL), 0);
    umbra_yield();
    cr_expect_eq(umbra_condition_wait(&condition, &other_mutex, UMBRA_NEVER), -ECANCELED);
    return umbra_mutex_unlock(&other_mutex);
}

static void gives_other(void)
{
    umbra_event_signal(&other_may_end);
}

static void holds_rwlock(void)
{
    umbra_rwlock_write(&rwlock);
}

static void gives_rwlock(void)
{
    cr_expect_eq(umbra_rwlock_unlock(&rwlock), 0);
}

static int takes_to_read(void)
{
    umbra_rwlock_read(&rwlock);
    return umbra_rwlock_unlock(&rwlock);
}

static int takes_to_write(void)
{
    umbra_rwlock_write(&rwlock);
    return umbra_rwlock_unlock(&rwlock);
}

static int meets(void)
{
    return umbra_barrier_wait(&pair, UMBRA_NEVER) >= 0 ? 0 : -ECANCELED;
}

static void comes(void)
{
    cr_expect_geq(umbra_barrier_wait(&pair, UMBRA_NEVER), 0);
}

static const struct lock {
    const char *name;
    void (*hold)(void);
    int (*take)(void);
    void (*give)(void);
} locks_without_deadline[] = {
    {"mutex", holds_mutex, takes_mutex, gives_mutex},
    {"mutex, after a condition", nothing, takes_mutex_again, gives_other},
    {"read", holds_rwlock, takes_to_read, gives_rwlock},
    {"write", holds_rwlock, takes_to_write, gives_rwlock},
    {"barrier", nothing, meets, comes},
};

static void *takes_a_lock(void *lock)
{
    return (void *)(intptr_t)((const struct lock *)lock)->take();
}

static void cancel_one_that_locks(const struct lock *lock, bool blocked)
{
    struct umbra_fiber fiber;
    void *error;

    lock->hold();
    cr_expect_eq(umbra_spawn(takes_a_lock, (void *)(uintptr_t)lock, &fiber), 0);
    for (int i = 0; blocked && i < 10; i++)
        umbra_yield();
    cr_expect_eq(umbra_cancel(fiber), 0);
    for (int i = 0; i < 10; i++)
        umbra_yield();
    cr_expect_eq(umbra_fiber_info(fiber, NULL), UMBRA_FIBER_BLOCKED, "%s", lock->name);
    lock->give();
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &error), 0);
    cr_expect_eq((intptr_t)error, 0, "%s: %d", lock->name, (int)(intptr_t)error);
}

static void *cancels_what_locks(void *arg)
{
    for (size_t i = 0; i < sizeof(locks_without_deadline) / sizeof(*locks_without_deadline); i++) {
        cancel_one_that_locks(&locks_without_deadline[i], true);
        cancel_one_that_locks(&locks_without_deadline[i], false);
    }
    return arg;
}

Test(cancel, does_not_end_a_lock_without_a_deadline)
{
    cr_assert_eq(run_cores(1, cancels_what_locks, NULL), 0);
}

/* ---- what it does not do ---- */

static void *succeeds_without_waiting(void *arg)
{
    struct umbra_event ready = UMBRA_EVENT_INIT;

    cr_expect(umbra_canceled());
    umbra_event_signal(&ready);
    cr_expect_eq(umbra_event_wait(&ready, UMBRA_NEVER), 0);
    cr_expect_eq(umbra_event_wait(&ready, UMBRA_NEVER), -ECANCELED);
    umbra_mutex_lock(&mutex);
    cr_expect_eq(umbra_mutex_unlock(&mutex), 0);
    return arg;
}

static void *only_naps(void *arg)
{
    return (void *)(intptr_t)(umbra_canceled() ? 1 : umbra_sleep_ns((uintptr_t)arg));
}

static void *shields(void *arg)
{
    umbra_shield(false);
    cr_expect_eq(umbra_sleep_ns(MS), -ECANCELED);
    umbra_shield(true);
    umbra_shield(true);
    cr_expect(!umbra_canceled());
    cr_expect_eq(umbra_sleep_ns(MS), 0);
    umbra_shield(false);
    cr_expect_eq(umbra_sleep_ns(MS), 0);
    umbra_shield(false);
    cr_expect(umbra_canceled());
    cr_expect_eq(umbra_sleep_ns(MS), -ECANCELED);
    umbra_shield(true); /* and ends with it */
    return arg;
}

static void *shielded_wait(void *arg)
{
    umbra_shield(true);
    cr_expect_eq(umbra_event_wait(&never, UMBRA_NEVER), 0);
    umbra_shield(false);
    cr_expect_eq(umbra_event_wait(&never, UMBRA_NEVER), -ECANCELED);
    return arg;
}

static void *looks_at_the_rest(void *arg)
{
    struct umbra_spawn_options stopped = {.stopped = true};
    struct umbra_fiber fiber;
    void *result;

    umbra_spawn(succeeds_without_waiting, arg, &fiber);
    umbra_cancel(fiber);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    umbra_spawn(shields, arg, &fiber);
    umbra_cancel(fiber);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    umbra_spawn(only_naps, (void *)1, &fiber); /* in the same memory */
    umbra_join(fiber, UMBRA_NEVER, &result);
    cr_expect_null(result, "the next life is not canceled");
    umbra_spawn(shielded_wait, arg, &fiber);
    while (umbra_fiber_info(fiber, NULL) != UMBRA_FIBER_BLOCKED)
        umbra_yield();
    umbra_cancel(fiber);
    umbra_yield();
    cr_expect_eq(umbra_fiber_info(fiber, NULL), UMBRA_FIBER_BLOCKED);
    umbra_event_signal(&never);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(umbra_spawn_with(NULL, &stopped, only_naps, NULL, &fiber), 0);
    umbra_cancel(fiber);
    umbra_yield();
    cr_expect_eq(umbra_fiber_info(fiber, NULL), UMBRA_FIBER_STOPPED);
    umbra_continue(fiber);
    umbra_join(fiber, UMBRA_NEVER, &result);
    cr_expect_eq((intptr_t)result, 1);
    cr_expect_eq(umbra_cancel(umbra_self()), 0);
    cr_expect(umbra_canceled());
    return arg;
}

Test(cancel, leaves_the_rest_as_it_is)
{
    cr_assert(!umbra_canceled());
    cr_assert_eq(run_cores(1, looks_at_the_rest, NULL), 0);
}

/* ---- at the very moment of a signal ---- */

#define ROUNDS 4000

static struct umbra_semaphore tokens = UMBRA_SEMAPHORE_INIT(0);
static _Atomic uint64_t taken, gone;

static void *takes_tokens(void *arg)
{
    while (umbra_semaphore_wait(&tokens, UMBRA_NEVER) == 0)
        taken++;
    gone++;
    return arg;
}

static void *posts_and_cancels(void *arg)
{
    struct umbra_spawn_options there = on_core(1);

    for (int i = 0; i < ROUNDS; i++) {
        struct umbra_fiber fiber[2];

        umbra_spawn_with(NULL, &there, takes_tokens, NULL, &fiber[0]);
        umbra_spawn_with(NULL, i % 2 ? &there : NULL, takes_tokens, NULL, &fiber[1]);
        if (i % 3)
            umbra_yield();
        umbra_semaphore_post(&tokens, 1);
        umbra_cancel(fiber[i / 2 % 2]);
        umbra_semaphore_post(&tokens, 1);
        umbra_cancel(fiber[1 - i / 2 % 2]);
        umbra_join(fiber[0], UMBRA_NEVER, NULL);
        umbra_join(fiber[1], UMBRA_NEVER, NULL);
    }
    while (umbra_semaphore_wait(&tokens, 0) == 0)
        taken++;
    return arg;
}

Test(cancel, loses_no_signal)
{
    cr_assert_eq(run_cores(2, posts_and_cancels, NULL), 0);
    cr_assert_eq(taken, 2 * ROUNDS);
    cr_assert_eq(gone, 2 * ROUNDS);
}
