/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "fibers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIBERS 6
#define ROUNDS 300

/* Runs fn in FIBERS fibers on two cores and in two threads besides, and waits for all. */
static void everywhere(umbra_fiber_fn *fn, void *arg)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber[FIBERS];
    pthread_t thread[2];

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (unsigned i = 0; i < FIBERS; i++) {
        struct umbra_spawn_options there = on_core(i % 2);

        cr_assert_eq(umbra_spawn_with(runtime, &there, fn, arg, &fiber[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, fn, arg), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < FIBERS; i++)
        cr_assert_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

#define ALL (FIBERS + 2)

static uint64_t in_ms(uint64_t ms)
{
    return umbra_deadline(ms * MS);
}

/* ---- mutex ---- */

static struct umbra_mutex mutex = UMBRA_MUTEX_INIT;
static int counter; /* under the mutex */

static void *counts(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        int seen;

        umbra_mutex_lock(&mutex);
        seen = counter;
        if (i % 7 == 0)
            umbra_yield();
        counter = seen + 1;
        cr_expect_eq(umbra_mutex_unlock(&mutex), 0);
    }
    return arg;
}

Test(sync, a_mutex_lets_one_in)
{
    everywhere(counts, NULL);
    cr_assert_eq(counter, ALL * ROUNDS);
    cr_assert_eq(atomic_load(&mutex.word), 0);
}

static void *holds_it(void *arg)
{
    umbra_mutex_lock(&mutex);
    umbra_event_wait(arg, UMBRA_NEVER);
    umbra_mutex_unlock(&mutex);
    return NULL;
}

static void *mutex_errors(void *arg)
{
    struct umbra_event go = UMBRA_EVENT_INIT;
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_mutex_unlock(&mutex), -EPERM);
    cr_expect(umbra_mutex_lock_deadline(&mutex, 0) == 0);
    cr_expect_eq(umbra_mutex_lock_deadline(&mutex, UMBRA_NEVER), -EDEADLK);
    cr_expect(umbra_mutex_lock_deadline(&mutex, 0) != 0);
    cr_expect_eq(umbra_mutex_unlock(&mutex), 0);
    umbra_spawn(holds_it, &go, &fiber);
    umbra_yield();
    cr_expect_eq(umbra_mutex_unlock(&mutex), -EPERM);
    cr_expect_eq(umbra_mutex_lock_deadline(&mutex, in_ms(2)), -ETIMEDOUT);
    umbra_event_signal(&go);
    cr_expect_eq(umbra_mutex_lock_deadline(&mutex, in_ms(60000)), 0);
    cr_expect_eq(umbra_mutex_unlock(&mutex), 0);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

Test(sync, a_mutex_tells_misuse)
{
    cr_assert_eq(run_cores(1, mutex_errors, NULL), 0);
}

static struct umbra_mutex inherited = UMBRA_MUTEX_INIT;

static void *ends_holding(void *arg)
{
    umbra_mutex_lock(&inherited);
    return arg;
}

static void *may_not_unlock(void *arg)
{
    cr_expect_eq(umbra_mutex_unlock(&inherited), -EPERM);
    cr_expect_eq(umbra_mutex_lock_deadline(&inherited, 0), -ETIMEDOUT);
    cr_expect_eq(umbra_mutex_lock_deadline(&inherited, in_ms(1)), -ETIMEDOUT, "not -EDEADLK");
    return arg;
}

static void *in_the_same_memory(void *arg)
{
    struct umbra_fiber first, second;

    umbra_spawn(ends_holding, NULL, &first);
    umbra_join(first, UMBRA_NEVER, NULL);
    for (int i = 0; i < 100; i++) {
        umbra_spawn(may_not_unlock, NULL, &second);
        umbra_join(second, UMBRA_NEVER, NULL);
        cr_expect_eq(second.block, first.block);
    }
    return arg;
}

Test(sync, a_mutex_of_a_fiber_that_has_ended_is_not_the_next_ones)
{
    cr_assert_eq(run_cores(1, in_the_same_memory, NULL), 0);
}

/* Owners that would be one, if anything but their distance in lives told them apart. */
Test(sync, owners_of_a_mutex_differ)
{
    const struct um_fiber *block = (const struct um_fiber *)UINT64_C(0x7ffff6800e40);
    uintptr_t self = um_fiber_self(block, 1);

    cr_assert_eq(um_self_block(self), (uintptr_t)block);
    cr_assert_neq(self, um_fiber_self(block, 2));
    cr_assert_eq(self + UM_SELF_LIFE, um_fiber_self(block, 2));
    cr_assert_neq(self, um_fiber_self(block + 1, 1));
    cr_assert_eq(um_fiber_self(block, UINT64_C(1) << 21), um_fiber_self(block, 0), "it goes round");
    cr_assert_eq(self & UM_SELF_THREAD, 0);
    cr_assert_eq(um_sync_self() & UM_SELF_THREAD, UM_SELF_THREAD);
}

static void *takes_a_turn(void *arg)
{
    umbra_mutex_lock(arg);
    cr_expect_eq(umbra_mutex_unlock(arg), 0);
    return NULL;
}

/* A waiter queues, or is called. */
static bool is_waited_for(struct umbra_mutex *held)
{
    return (atomic_load(&held->word) & (UM_WAITERS_SOME | UM_MUTEX_CALLED)) != 0;
}

/* Overtakes a thread that has queued for at least `us`, up to `most` times. But it gets its turn. */
static void overtake(unsigned us, int most)
{
    struct umbra_mutex held = UMBRA_MUTEX_INIT;
    unsigned overtaken = 0;

    for (int i = 0; i < 20 || (overtaken == 0 && i < most); i++) {
        pthread_t thread;

        umbra_mutex_lock(&held);
        cr_assert_eq(pthread_create(&thread, NULL, takes_a_turn, &held), 0);
        while (!is_waited_for(&held))
            sched_yield();
        usleep(us);
        umbra_mutex_unlock(&held);
        overtaken += umbra_mutex_lock_deadline(&held, 0) == 0 && is_waited_for(&held);
        while (is_waited_for(&held)) {
            umbra_mutex_unlock(&held);
            umbra_mutex_lock(&held);
        }
        umbra_mutex_unlock(&held);
        pthread_join(thread, NULL);
    }
    cr_assert_gt(overtaken, 0u);
    cr_assert_eq(atomic_load(&held.word), 0);
}

/* Callers need not wait until a thread that was woken has a processor. */
Test(sync, a_thread_in_the_queue_of_a_mutex_is_overtaken_for_a_while)
{
    overtake(0, 10000);
}

/* Also if the holder has kept it waiting: else one long turn makes each later one wait for a thread
 * to run, and those that queue meanwhile wait for as long. */
Test(sync, a_thread_that_has_queued_for_long_is_overtaken_for_a_while)
{
    overtake(3 * UMBRA_MUTEX_PATIENCE_NS / 1000, 500);
}

/* Also if others take the mutex as often as they can. */
Test(sync, a_thread_in_the_queue_of_a_mutex_is_not_overtaken_for_ever)
{
    struct umbra_mutex held = UMBRA_MUTEX_INIT;
    uint64_t end = umbra_now_ns() + 10000000000;
    pthread_t thread;

    umbra_mutex_lock(&held);
    cr_assert_eq(pthread_create(&thread, NULL, takes_a_turn, &held), 0);
    while (!is_waited_for(&held))
        sched_yield();
    while (is_waited_for(&held) && umbra_now_ns() < end) {
        cr_expect_eq(umbra_mutex_unlock(&held), 0);
        umbra_mutex_lock(&held);
    }
    cr_expect(!is_waited_for(&held));
    cr_expect_eq(umbra_mutex_unlock(&held), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(atomic_load(&held.word), 0);
}

/* How long the shortest of 100 waits takes, ns, if its deadline has passed at the call. The caller
 * waits for the mutex `held`, or for an event if that is NULL. */
static uint64_t shortest_wait(struct umbra_mutex *held)
{
    struct umbra_event event = UMBRA_EVENT_INIT;
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 100; i++) {
        uint64_t begin = umbra_now_ns(), took;
        int error = held ? umbra_mutex_lock_deadline(held, 1) : umbra_event_wait(&event, 1);

        took = umbra_now_ns() - begin;
        cr_expect_eq(error, -ETIMEDOUT);
        least = took < least ? took : least;
    }
    return least;
}

/* Looks that become rarer do not make the wait in place longer. */
static void *gives_up_in_time(void *arg)
{
    uint64_t event_ns = shortest_wait(NULL), mutex_ns = shortest_wait(arg);

    cr_expect_lt(mutex_ns, 16 * event_ns, "%llu ns, an event %llu ns", (unsigned long long)mutex_ns,
                 (unsigned long long)event_ns);
    return NULL;
}

Test(sync, a_mutex_is_given_up_as_soon_as_an_event)
{
    struct umbra_mutex held = UMBRA_MUTEX_INIT;
    pthread_t thread;

    umbra_mutex_lock(&held);
    cr_assert_eq(pthread_create(&thread, NULL, gives_up_in_time, &held), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(run_cores(1, gives_up_in_time, &held), 0);
    umbra_mutex_unlock(&held);
}

/* ---- condition ---- */

static struct umbra_condition filled = UMBRA_CONDITION_INIT, emptied = UMBRA_CONDITION_INIT;
static int in_buffer;
static _Atomic int turn, put, got;

static void *puts_or_gets(void *arg)
{
    bool puts = turn++ % 2;

    for (int i = 0; i < ROUNDS; i++) {
        umbra_mutex_lock(&mutex);
        while (in_buffer == (puts ? 3 : 0))
            cr_expect_eq(umbra_condition_wait(puts ? &emptied : &filled, &mutex, UMBRA_NEVER), 0);
        in_buffer += puts ? 1 : -1;
        cr_expect(in_buffer >= 0 && in_buffer <= 3);
        (*(puts ? &put : &got))++;
        umbra_condition_notify(puts ? &filled : &emptied, false);
        umbra_mutex_unlock(&mutex);
    }
    return arg;
}

Test(sync, conditions_make_a_bounded_buffer)
{
    everywhere(puts_or_gets, NULL);
    cr_assert_eq(put, ALL / 2 * ROUNDS);
    cr_assert_eq(got, put);
}

static int condition_order[8], waiting, ended;

static void *waits_for_condition(void *arg)
{
    umbra_mutex_lock(&mutex);
    waiting++;
    cr_expect_eq(umbra_condition_wait(&filled, &mutex, UMBRA_NEVER), 0);
    condition_order[ended++] = (int)(intptr_t)arg;
    umbra_mutex_unlock(&mutex);
    return NULL;
}

static void *times_out_of_condition(void *arg)
{
    umbra_mutex_lock(&mutex);
    cr_expect_eq(umbra_condition_wait(&filled, &mutex, in_ms(2)), -ETIMEDOUT);
    umbra_mutex_unlock(&mutex);
    return arg;
}

static void *notifies(void *arg)
{
    struct umbra_fiber fiber[6], late;

    cr_expect_eq(umbra_condition_wait(&filled, &mutex, UMBRA_NEVER), -EPERM);
    umbra_spawn(times_out_of_condition, NULL, &late);
    umbra_yield();
    for (int i = 0; i < 6; i++)
        umbra_spawn(waits_for_condition, (void *)(intptr_t)i, &fiber[i]);
    umbra_join(late, UMBRA_NEVER, NULL);
    while (waiting < 6) /* on a slow machine `late` gives up before they have begun */
        umbra_yield();
    umbra_condition_notify(&filled, false);
    umbra_condition_notify(&filled, false);
    for (int i = 0; i < 3; i++)
        umbra_yield();
    cr_expect_eq(ended, 2);
    umbra_condition_notify(&filled, true);
    for (int i = 0; i < 6; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    for (int i = 0; i < 6; i++)
        cr_expect_eq(condition_order[i], i);
    umbra_condition_notify(&filled, false); /* no fiber waits: forgotten */
    umbra_condition_notify(&filled, true);
    times_out_of_condition(NULL);
    return arg;
}

Test(sync, notifications_go_to_who_has_waited_longest)
{
    cr_assert_eq(run_cores(1, notifies, NULL), 0);
}

static int round_of_all; /* under the mutex */
static _Atomic int come, finished;

static void makes_rounds(void)
{
    while (finished < ALL - 1) {
        umbra_mutex_lock(&mutex);
        umbra_condition_notify(&filled, round_of_all++ % 4 != 0);
        umbra_mutex_unlock(&mutex);
        umbra_yield();
    }
}

/* Half of the waits are given up when a notification may be under way. */
static void *makes_rounds_or_waits(void *arg)
{
    if (come++ == 0) {
        makes_rounds();
        return arg;
    }
    for (int i = 0; i < ROUNDS; i++) {
        int seen, error;

        umbra_mutex_lock(&mutex);
        seen = round_of_all;
        error = umbra_condition_wait(
            &filled, &mutex, i % 2 ? UMBRA_NEVER : umbra_deadline((uint64_t)(i % 50) * 1000));
        cr_expect(error == -ETIMEDOUT || (error == 0 && round_of_all != seen));
        umbra_mutex_unlock(&mutex);
    }
    finished++;
    return arg;
}

/* ---- waiters that are notified together ---- */

static struct umbra_condition opened = UMBRA_CONDITION_INIT;
static struct umbra_mutex door = UMBRA_MUTEX_INIT;
static int at_door, through; /* under the mutex */

static void *waits_at_door(void *deadline)
{
    umbra_mutex_lock(&door);
    at_door++;
    cr_expect_eq(umbra_condition_wait(&opened, &door, *(uint64_t *)deadline), 0);
    through++;
    cr_expect_eq(umbra_mutex_unlock(&door), 0);
    return deadline;
}

/* Its waiters are in the mutex's list at once: none wakes up to wait again. They are notified, so
 * that neither a deadline nor a cancel ends their calls any more. */
static void *opens_door(void *arg)
{
    uint64_t deadline[3] = {UMBRA_NEVER, in_ms(500), UMBRA_NEVER};
    struct umbra_fiber fiber[3];

    for (int i = 0; i < 3; i++)
        umbra_spawn(waits_at_door, &deadline[i], &fiber[i]);
    while (at_door < 3)
        umbra_yield();
    umbra_mutex_lock(&door);
    umbra_condition_notify(&opened, true);
    cr_expect_eq(door.waiters.strict, 3);
    cr_expect_null(opened.waiters.first);
    cr_expect_eq(fiber[0].block->waits_on, &door, "as reports say");
    umbra_cancel(fiber[2]);
    while (umbra_now_ns() < deadline[1] + MS)
        umbra_sleep_ns(MS);
    cr_expect_eq(through, 0);
    cr_expect_eq(umbra_mutex_unlock(&door), 0);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    cr_expect_eq(through, 3);
    return arg;
}

Test(sync, waiters_notified_together_move_to_the_mutex)
{
    cr_assert_eq(run_cores(1, opens_door, NULL), 0);
    at_door = through = 0;
    cr_assert_eq(run_cores(2, opens_door, NULL), 0);
}

static void *waits_with_other_mutex(void *arg)
{
    struct umbra_mutex other = UMBRA_MUTEX_INIT;
    uint64_t deadline = UMBRA_NEVER;
    struct umbra_fiber fiber;

    umbra_spawn(waits_at_door, &deadline, &fiber);
    umbra_yield();
    umbra_mutex_lock(&other);
    cr_expect_eq(umbra_condition_wait(&opened, &other, in_ms(1)), -EINVAL);
    cr_expect_eq(umbra_mutex_unlock(&other), 0, "it is held still");
    umbra_condition_notify(&opened, false);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    umbra_mutex_lock(&other);
    cr_expect_eq(umbra_condition_wait(&opened, &other, in_ms(1)), -ETIMEDOUT, "none waits now");
    cr_expect_eq(umbra_mutex_unlock(&other), 0);
    return arg;
}

Test(sync, a_condition_has_one_mutex_at_a_time)
{
    cr_assert_eq(run_cores(1, waits_with_other_mutex, NULL), 0);
}

Test(sync, all_are_notified_while_some_give_up)
{
    everywhere(makes_rounds_or_waits, NULL);
    cr_assert(!filled.waiters.first && !filled.waiters.last);
}

/* ---- semaphore ---- */

static struct umbra_semaphore places = UMBRA_SEMAPHORE_INIT(3);
static _Atomic int inside, most;

static void *enters(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        int now;

        cr_expect_eq(umbra_semaphore_wait(&places, UMBRA_NEVER), 0);
        now = ++inside;
        cr_expect_leq(now, 3);
        if (now > most)
            most = now;
        umbra_yield();
        inside--;
        umbra_semaphore_post(&places, 1);
    }
    return arg;
}

Test(sync, a_semaphore_lets_so_many_in)
{
    everywhere(enters, NULL);
    cr_assert_eq(inside, 0);
    cr_assert_gt(most, 0);
    for (int i = 0; i < 3; i++)
        cr_assert(umbra_semaphore_wait(&places, 0) == 0);
    cr_assert(umbra_semaphore_wait(&places, 0) != 0);
    cr_assert_eq(umbra_semaphore_wait(&places, in_ms(2)), -ETIMEDOUT);
    umbra_semaphore_post(&places, 2);
    cr_assert_eq(umbra_semaphore_wait(&places, 0), 0);
    cr_assert_eq(umbra_semaphore_wait(&places, UMBRA_NEVER), 0);
}

static struct umbra_semaphore due = UMBRA_SEMAPHORE_INIT(0);

static void *takes_one(void *arg)
{
    cr_expect_eq(umbra_semaphore_wait(&due, UMBRA_NEVER), 0);
    return arg;
}

static void posts_one(int number)
{
    (void)number;
    umbra_semaphore_post_async(&due, 1);
}

static void *posted_by_a_handler(void *arg)
{
    signal(SIGUSR1, posts_one);
    for (int i = 0; i < 100; i++) {
        struct umbra_fiber fiber;

        umbra_spawn(takes_one, NULL, &fiber);
        if (i % 2)
            umbra_yield();
        pthread_kill(pthread_self(), SIGUSR1);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
    cr_expect(umbra_semaphore_wait(&due, 0) != 0);
    return arg;
}

Test(sync, a_signal_handler_may_post)
{
    cr_assert_eq(run_cores(1, posted_by_a_handler, NULL), 0);
}

/* ---- handlers that interrupt a core ---- */

static struct umbra_event handlers_event;

static int waits_event(void)
{
    return umbra_event_wait(&handlers_event, UMBRA_NEVER);
}

static void signals_event(int number)
{
    (void)number;
    umbra_event_signal_async(&handlers_event);
}

static int waits_due(void)
{
    return umbra_semaphore_wait(&due, UMBRA_NEVER);
}

static const struct of_handlers {
    const char *name;
    int (*wait)(void);
    void (*handler)(int number);
} of_handlers[] = {
    {"umbra_event_signal_async", waits_event, signals_event},
    {"umbra_semaphore_post_async", waits_due, posts_one},
};

#define OF_HANDLERS (sizeof(of_handlers) / sizeof(of_handlers[0]))

static pthread_t cores_thread;
static struct umbra_event handled;

static void *waits_for_handler(void *arg)
{
    cores_thread = pthread_self();
    cr_expect_eq(((const struct of_handlers *)arg)->wait(), 0);
    umbra_event_signal(&handled);
    return NULL;
}

/* The handler leaves the fiber to its core, which may be in the midst of its queue. */
static void *interrupts_itself(void *arg)
{
    for (size_t i = 0; i < OF_HANDLERS; i++) {
        const struct of_handlers *row = &of_handlers[i];
        struct umbra_fiber fiber;

        signal(SIGUSR1, row->handler);
        cr_expect_eq(umbra_spawn(waits_for_handler, (void *)(uintptr_t)row, &fiber), 0);
        while (umbra_fiber_info(fiber, NULL) != UMBRA_FIBER_BLOCKED)
            umbra_yield();
        pthread_kill(pthread_self(), SIGUSR1);
        cr_expect_eq(umbra_fiber_info(fiber, NULL), UMBRA_FIBER_BLOCKED, "%s", row->name);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(sync, a_signal_handler_leaves_the_queue_of_its_core_alone)
{
    handlers_event = (struct umbra_event)UMBRA_EVENT_INIT;
    cr_assert_eq(run_cores(1, interrupts_itself, NULL), 0);
}

/* In its looks or its sleep, by the mode. Nothing but the handler wakes the core: a join would. */
static void interrupt_idle(const struct of_handlers *row, enum umbra_wait_mode mode)
{
    struct umbra_options options = {.cores = 1, .quiet = true, .wait.mode = mode};
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;

    handlers_event = handled = (struct umbra_event)UMBRA_EVENT_INIT;
    signal(SIGUSR1, row->handler);
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    umbra_hold(runtime); /* this thread will interrupt it */
    cr_assert_eq(umbra_spawn_with(runtime, NULL, waits_for_handler, (void *)(uintptr_t)row, &fiber),
                 0);
    while (umbra_fiber_info(fiber, NULL) != UMBRA_FIBER_BLOCKED ||
           core_state(runtime, 0) != UMBRA_CORE_IDLE)
        sched_yield();
    pthread_kill(cores_thread, SIGUSR1);
    cr_assert_eq(umbra_event_wait(&handled, in_ms(10000)), 0, "%s, mode %d", row->name, (int)mode);
    cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    umbra_release(runtime);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

Test(sync, a_signal_handler_wakes_the_idle_core_that_it_interrupts)
{
#ifdef UMBRA_POSIX_ONLY
    cr_skip_test("a handler must not interrupt a call that waits, in the POSIX form");
#endif
#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer calls no handler before the thread's next call that it knows");
#endif
    for (size_t i = 0; i < OF_HANDLERS; i++) {
        interrupt_idle(&of_handlers[i], UMBRA_WAIT_TWO_PHASE);
        interrupt_idle(&of_handlers[i], UMBRA_WAIT_PARK);
        interrupt_idle(&of_handlers[i], UMBRA_WAIT_SPIN);
    }
}

/* A post is as long as there are waiters, not as what it adds. */
static void *many_at_once(void *arg)
{
    struct umbra_fiber fiber[3];

    for (int i = 0; i < 3; i++)
        umbra_spawn(takes_one, NULL, &fiber[i]);
    umbra_yield();
    umbra_semaphore_post(&due, UINT64_C(1) << 50);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    cr_expect_eq(atomic_load(&due.word), ((UINT64_C(1) << 50) - 3) * UM_SEMAPHORE_ONE);
    return arg;
}

Test(sync, a_post_may_add_many)
{
    cr_assert_eq(run_cores(1, many_at_once, NULL), 0);
}

/* ---- read-write lock ---- */

static struct umbra_rwlock rwlock = UMBRA_RWLOCK_INIT;
static _Atomic int readers, writers;

static void *reads_and_writes(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 4) {
            umbra_rwlock_read(&rwlock);
            readers++;
            cr_expect_eq(writers, 0);
            umbra_yield();
            readers--;
        } else {
            umbra_rwlock_write(&rwlock);
            cr_expect_eq(++writers, 1);
            cr_expect_eq(readers, 0);
            umbra_yield();
            writers--;
        }
        cr_expect_eq(umbra_rwlock_unlock(&rwlock), 0);
    }
    return arg;
}

Test(sync, a_rwlock_lets_readers_or_one_writer_in)
{
    everywhere(reads_and_writes, NULL);
    cr_assert_eq(um_rwlock_next(rwlock.word, 0, um_rwlock_readers(rwlock.word)), 0, "it is free");
    cr_assert_eq(umbra_rwlock_unlock(&rwlock), -EPERM);
    umbra_rwlock_read(&rwlock);
    cr_assert_eq(umbra_rwlock_unlock(&rwlock), 0,
                 "the unlock that was refused has changed nothing");
    cr_assert_eq(umbra_rwlock_write_deadline(&rwlock, 0), 0);
    cr_assert_eq(umbra_rwlock_unlock(&rwlock), 0);
}

/* What would take an hour of reads: the numbers are as after it. */
Test(sync, a_rwlock_forgets_how_many_have_read)
{
    struct umbra_rwlock lock = {.word = (UM_RWLOCK_NUMBER / 2 + 1) * UM_RWLOCK_CAME +
                                        (UM_RWLOCK_NUMBER / 2) * UM_RWLOCK_LEFT};

    cr_assert_eq(um_rwlock_readers(lock.word), 1);
    umbra_rwlock_read(&lock);
    cr_assert_eq(lock.word, 2 * UM_RWLOCK_CAME, "two hold it, and no more have come");
    cr_assert_eq(umbra_rwlock_write_deadline(&lock, 0), -ETIMEDOUT);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(umbra_rwlock_unlock(&lock), 0);
    cr_assert_eq(umbra_rwlock_write_deadline(&lock, 0), 0);
    cr_assert_eq(umbra_rwlock_unlock(&lock), 0);
}

static int reads_begun; /* on one core */
static bool has_written;

static void *reads_on_and_on(void *arg)
{
    while (!has_written) {
        umbra_rwlock_read(&rwlock);
        reads_begun++;
        umbra_yield();
        cr_expect_eq(umbra_rwlock_unlock(&rwlock), 0);
    }
    return arg;
}

static void *writes_among_readers(void *arg)
{
    struct umbra_fiber fiber[3];
    int before;

    for (int i = 0; i < 3; i++)
        umbra_spawn(reads_on_and_on, NULL, &fiber[i]);
    while (reads_begun < 10)
        umbra_yield();
    for (int i = 0; i < 100; i++) {
        before = reads_begun;
        umbra_rwlock_write(&rwlock);
        cr_expect_eq(reads_begun, before, "it was overtaken");
        cr_expect_eq(umbra_rwlock_unlock(&rwlock), 0);
        umbra_yield();
        umbra_yield();
    }
    has_written = true;
    for (int i = 0; i < 3; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    return arg;
}

Test(sync, readers_do_not_overtake_a_writer_that_queues)
{
    cr_assert_eq(run_cores(1, writes_among_readers, NULL), 0);
}

static void *writes_once(void *arg)
{
    umbra_rwlock_write(&rwlock);
    *(int *)arg = 1;
    umbra_rwlock_unlock(&rwlock);
    return NULL;
}

static void *rwlock_rules(void *arg)
{
    struct umbra_fiber writer;
    int written = 0;

    cr_expect(umbra_rwlock_read_deadline(&rwlock, 0) == 0);
    cr_expect_eq(umbra_rwlock_read_deadline(&rwlock, 0), 0);
    cr_expect(umbra_rwlock_write_deadline(&rwlock, 0) != 0);
    cr_expect_eq(umbra_rwlock_write_deadline(&rwlock, in_ms(2)), -ETIMEDOUT);
    cr_expect(umbra_rwlock_read_deadline(&rwlock, 0) == 0,
              "the writer that gave up keeps nobody out");
    umbra_spawn(writes_once, &written, &writer);
    umbra_yield();
    cr_expect(umbra_rwlock_read_deadline(&rwlock, 0) != 0, "one that waits does");
    cr_expect_eq(umbra_rwlock_read_deadline(&rwlock, in_ms(2)), -ETIMEDOUT);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_rwlock_unlock(&rwlock), 0);
    umbra_rwlock_read(&rwlock);
    cr_expect_eq(written, 1);
    umbra_rwlock_unlock(&rwlock);
    umbra_join(writer, UMBRA_NEVER, NULL);
    return arg;
}

Test(sync, a_writer_that_waits_keeps_readers_out)
{
    cr_assert_eq(run_cores(1, rwlock_rules, NULL), 0);
}

/* ---- a thread that only waits, and has the list when another caller gives ---- */

static struct umbra_semaphore one = UMBRA_SEMAPHORE_INIT(1);

static int take_mutex(uint64_t deadline)
{
    return umbra_mutex_lock_deadline(&mutex, deadline);
}

static void give_mutex(void)
{
    umbra_mutex_unlock(&mutex);
}

static int take_semaphore(uint64_t deadline)
{
    return umbra_semaphore_wait(&one, deadline);
}

static void give_semaphore(void)
{
    umbra_semaphore_post(&one, 1);
}

static int take_rwlock(uint64_t deadline)
{
    return umbra_rwlock_write_deadline(&rwlock, deadline);
}

static void give_rwlock(void)
{
    umbra_rwlock_unlock(&rwlock);
}

static const struct listing {
    const char *name;
    um_atomic_u64 *word;
    int (*take)(uint64_t deadline);
    void (*give)(void);
} listings[] = {
    {"mutex", &mutex.word, take_mutex, give_mutex},
    {"semaphore", &one.word, take_semaphore, give_semaphore},
    {"write lock", &rwlock.word, take_rwlock, give_rwlock},
};

static const struct listing *listing;
static pthread_t lister;
static _Atomic bool may_list, has_list, judged;

/* In the lister. Stays where the thread has the list, until the runtime has ended, or for 50 ms. */
static void stays_with_list(int number)
{
    (void)number;
    if (has_list || !(*listing->word & UM_WAITERS_LOCKED))
        return;
    has_list = true;
    for (int i = 0; i < 50 && !judged; i++)
        usleep(1000);
}

static void *waits_in_vain(void *arg)
{
    while (!may_list)
        sched_yield();
    while (!has_list)
        if (listing->take(umbra_deadline(1)) == 0)
            listing->give();
    return arg;
}

static void *takes_and_gives(void *arg)
{
    cr_expect_eq(listing->take(UMBRA_NEVER), 0);
    listing->give();
    return arg;
}

static void *gives_to_list(void *arg)
{
    cr_expect_eq(listing->take(0), 0);
    umbra_spawn(takes_and_gives, NULL, NULL);
    umbra_yield(); /* until it is in the list */
    may_list = true;
    while (!has_list) {
        pthread_kill(lister, SIGUSR1);
        umbra_sleep_ns(20000);
    }
    listing->give();
    return arg;
}

Test(sync, what_is_left_to_a_thread_in_a_call_is_no_deadlock)
{
#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer delays handlers");
#endif
    signal(SIGUSR1, stays_with_list);
    for (size_t i = 0; i < 4 * sizeof(listings) / sizeof(listings[0]); i++) {
        listing = &listings[i / 4];
        may_list = has_list = judged = false;
        cr_assert_eq(pthread_create(&lister, NULL, waits_in_vain, NULL), 0);
        cr_expect_eq(run_cores(1, gives_to_list, NULL), 0, "%s", listing->name);
        judged = true;
        pthread_join(lister, NULL);
    }
}

/* ---- barrier, latch, once ---- */

static struct umbra_barrier barrier = UMBRA_BARRIER_INIT(ALL);
static _Atomic int came[ROUNDS], last_ones;

static void *meets(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        int last;

        came[i]++;
        last = umbra_barrier_wait(&barrier, UMBRA_NEVER);
        cr_expect_eq(came[i], ALL);
        last_ones += last;
    }
    return arg;
}

Test(sync, a_barrier_waits_for_all_every_time)
{
    everywhere(meets, NULL);
    cr_assert_eq(last_ones, ROUNDS);
}

static struct umbra_latch latch = UMBRA_LATCH_INIT(ALL);
static _Atomic int done;

static void *starts_together(void *arg)
{
    done++;
    cr_expect_eq(umbra_latch_count_down(&latch), 0);
    cr_expect_eq(umbra_latch_wait(&latch, UMBRA_NEVER), 0);
    cr_expect_eq(done, ALL);
    return arg;
}

Test(sync, a_latch_opens_for_all_once_it_is_counted_down)
{
    struct umbra_latch open = UMBRA_LATCH_INIT(0), shut = UMBRA_LATCH_INIT(1);

    everywhere(starts_together, NULL);
    cr_assert_eq(umbra_latch_count_down(&latch), -EINVAL);
    cr_assert_eq(umbra_latch_wait(&open, 0), 0);
    cr_assert_eq(umbra_latch_wait(&shut, in_ms(1)), -ETIMEDOUT);
    cr_assert_eq(umbra_latch_count_down(&shut), 0);
    cr_assert_eq(umbra_latch_wait(&shut, 0), 0);
}

/* ---- barriers that are left ---- */

static void *leaves_and_comes_again(void *arg)
{
    struct umbra_barrier alone, two;

    alone = (struct umbra_barrier)UMBRA_BARRIER_INIT(1);
    two = (struct umbra_barrier)UMBRA_BARRIER_INIT(2);
    cr_expect_eq(umbra_barrier_wait(&alone, 0), 1, "the last to come does not wait");
    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_barrier_wait(&two, in_ms(1)), -ETIMEDOUT);
    cr_expect_eq(um_barrier_come(&two), 0, "nor has it come");
    return arg;
}

Test(sync, a_barrier_for_no_parties_is_refused)
{
    struct umbra_barrier none = UMBRA_BARRIER_INIT(0);

    cr_expect_eq(umbra_barrier_wait(&none, UMBRA_NEVER), -EINVAL);
    cr_expect_eq(umbra_barrier_wait(&none, 0), -EINVAL);
    none = (struct umbra_barrier)UMBRA_BARRIER_INIT(1);
    cr_expect_eq(umbra_barrier_wait(&none, UMBRA_NEVER), 1);
}

Test(sync, a_barrier_forgets_one_whose_time_is_up)
{
    leaves_and_comes_again(NULL);
    cr_assert_eq(run_cores(1, leaves_and_comes_again, NULL), 0);
}

static void *waits_canceled(void *arg)
{
    cr_expect_eq(umbra_barrier_wait(arg, in_ms(60000)), -ECANCELED);
    return NULL;
}

static void *cancels_one_at_a_barrier(void *arg)
{
    struct umbra_barrier two = UMBRA_BARRIER_INIT(2);
    struct umbra_fiber fiber;

    umbra_spawn(waits_canceled, &two, &fiber);
    umbra_yield();
    cr_expect_eq(um_barrier_come(&two), 1);
    cr_expect_eq(umbra_cancel(fiber), 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(um_barrier_come(&two), 0);
    return arg;
}

Test(sync, a_barrier_forgets_one_that_is_canceled)
{
    cr_assert_eq(run_cores(1, cancels_one_at_a_barrier, NULL), 0);
}

#define MEETINGS 200

static struct umbra_barrier impatient;
static _Atomic int came_to[MEETINGS], opened_by[MEETINGS];
static _Atomic unsigned seeds, gave_up;

/* All who come to a meeting come to the next only after it, however often they give up. */
static void *meets_impatiently(void *arg)
{
    unsigned random = ++seeds * 2654435761u;

    for (int i = 0; i < MEETINGS; i++) {
        int result;

        came_to[i]++;
        do {
            random = random * 1664525u + 1013904223u;
            result = umbra_barrier_wait(&impatient, umbra_deadline(random >> 14));
            gave_up += result == -ETIMEDOUT;
        } while (result == -ETIMEDOUT);
        cr_expect_eq(came_to[i], ALL, "meeting %d was with %d", i, came_to[i]);
        opened_by[i] += result;
    }
    return arg;
}

Test(sync, a_barrier_opens_once_for_all_however_many_give_up)
{
    impatient = (struct umbra_barrier)UMBRA_BARRIER_INIT(ALL);
    everywhere(meets_impatiently, NULL);
    for (int i = 0; i < MEETINGS; i++)
        cr_assert_eq(opened_by[i], 1);
    cr_log_info("%u gave up", gave_up);
}

/* Party b is last of the first meeting, and slow: a has come to the second one before b has done what
 * is left to do. */
Test(sync, a_barrier_keeps_a_waiter_of_the_next_meeting)
{
    um_atomic_u64 state = 0;
    struct um_barrier_arrival a, b;

    a = um_barrier_arrive(&state, 2);
    cr_assert(!a.last && !um_barrier_is_open(&a));
    um_barrier_announce(&a);
    b = um_barrier_arrive(&state, 2);
    cr_assert(b.last && b.signal, "a queues");
    cr_assert(um_barrier_is_open(&a));
    cr_assert(!um_barrier_leave(&a), "it is too late");
    um_barrier_announce(&a); /* late: leaves no bit */
    a = um_barrier_arrive(&state, 2);
    cr_assert(!a.last && !um_barrier_is_open(&a));
    um_barrier_announce(&a);
    um_barrier_clear(&b, 2);
    b = um_barrier_arrive(&state, 2);
    cr_assert(b.last && b.signal, "a queues still");
    um_barrier_clear(&b, 2);
    cr_assert(um_barrier_is_open(&a));
    cr_assert_eq(state, 4 * UM_BARRIER_ONE, "no bit is left");
}

/* The last party of the first meeting is so slow that others have had the second one, and one of them
 * queues for the third. */
Test(sync, a_late_step_of_a_meeting_keeps_a_waiter_of_a_later_one)
{
    um_atomic_u64 state = 0;
    struct um_barrier_arrival owner, slow, last;

    owner = um_barrier_arrive(&state, 2);
    um_barrier_announce(&owner);
    slow = um_barrier_arrive(&state, 2);
    cr_assert(slow.last && slow.signal);
    owner = um_barrier_arrive(&state, 2);
    last = um_barrier_arrive(&state, 2);
    cr_assert(last.last && !last.signal);
    owner = um_barrier_arrive(&state, 2);
    um_barrier_announce(&owner);
    um_barrier_clear(&slow, 2);
    last = um_barrier_arrive(&state, 2);
    cr_assert(last.last && last.signal, "the owner queues still");
    um_barrier_clear(&last, 2);
    cr_assert_eq(state, 6 * UM_BARRIER_ONE, "no bit is left");
}

/* ---- latches that are added to ---- */

struct crowd {
    struct umbra_latch all;
    _Atomic int ended;
};

static void *brings_others(void *arg)
{
    struct crowd *crowd = arg;
    static _Atomic int spawned;

    for (int i = 0; i < 2 && ++spawned < 50; i++) {
        cr_expect_eq(umbra_latch_add(&crowd->all, 1), 0);
        cr_expect_eq(umbra_spawn(brings_others, crowd, NULL), 0);
    }
    umbra_yield();
    crowd->ended++;
    cr_expect_eq(umbra_latch_count_down(&crowd->all), 0);
    return NULL;
}

static void *waits_for_a_crowd(void *arg)
{
    static struct crowd crowd;

    crowd.all = (struct umbra_latch)UMBRA_LATCH_INIT(1);
    brings_others(&crowd);
    cr_expect_eq(umbra_latch_wait(&crowd.all, in_ms(10000)), 0);
    cr_expect_eq(crowd.ended, 50);
    return arg;
}

Test(sync, a_latch_waits_for_fibers_that_are_spawned_meanwhile)
{
    cr_assert_eq(run_cores(2, waits_for_a_crowd, NULL), 0);
}

Test(sync, a_latch_says_what_cannot_be_added)
{
    struct umbra_latch counted;

    counted = (struct umbra_latch)UMBRA_LATCH_INIT(2);
    cr_assert_eq(umbra_latch_add(&counted, UINT64_MAX - 1), -EOVERFLOW);
    cr_assert_eq(umbra_latch_add(&counted, UINT64_MAX - 2), 0);
    cr_assert_eq(umbra_latch_add(&counted, 1), -EOVERFLOW);
    counted = (struct umbra_latch)UMBRA_LATCH_INIT(1);
    cr_assert_eq(umbra_latch_count_down(&counted), 0);
    cr_assert_eq(umbra_latch_add(&counted, 1), -EINVAL);
    cr_assert_eq(umbra_latch_wait(&counted, 0), 0, "it stays open");
}

/* ---- objects on the heap ---- */

struct kit {
    struct umbra_mutex mutex;
    struct umbra_condition condition;
    struct umbra_semaphore semaphore;
    struct umbra_rwlock rwlock;
    struct umbra_latch latch;
    struct umbra_barrier barrier;
    struct umbra_event event, manual;
};

Test(sync, initializers_are_values_too)
{
    struct kit *kit = malloc(sizeof(*kit));

    memset(kit, 0xa5, sizeof(*kit));
    kit->mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
    kit->condition = (struct umbra_condition)UMBRA_CONDITION_INIT;
    kit->semaphore = (struct umbra_semaphore)UMBRA_SEMAPHORE_INIT(2);
    kit->rwlock = (struct umbra_rwlock)UMBRA_RWLOCK_INIT;
    kit->latch = (struct umbra_latch)UMBRA_LATCH_INIT(1);
    kit->barrier = (struct umbra_barrier)UMBRA_BARRIER_INIT(1);
    kit->event = (struct umbra_event)UMBRA_EVENT_INIT;
    kit->manual = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    umbra_mutex_lock(&kit->mutex);
    cr_assert_eq(umbra_condition_wait(&kit->condition, &kit->mutex, in_ms(1)), -ETIMEDOUT);
    cr_assert_eq(umbra_mutex_unlock(&kit->mutex), 0);
    for (int i = 0; i < 2; i++)
        cr_assert(umbra_semaphore_wait(&kit->semaphore, 0) == 0);
    cr_assert_eq(umbra_semaphore_wait(&kit->semaphore, 0), -ETIMEDOUT);
    cr_assert(umbra_rwlock_write_deadline(&kit->rwlock, 0) == 0);
    cr_assert_eq(umbra_rwlock_read_deadline(&kit->rwlock, 0), -ETIMEDOUT);
    cr_assert_eq(umbra_rwlock_unlock(&kit->rwlock), 0);
    cr_assert_eq(umbra_latch_wait(&kit->latch, in_ms(1)), -ETIMEDOUT);
    cr_assert_eq(umbra_latch_count_down(&kit->latch), 0);
    cr_assert_eq(umbra_latch_wait(&kit->latch, UMBRA_NEVER), 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(umbra_barrier_wait(&kit->barrier, UMBRA_NEVER), 1,
                     "the last, and the only one");
    umbra_event_signal(&kit->event);
    umbra_event_signal(&kit->manual);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq((umbra_event_wait(&kit->event, 0) == 0), i == 0);
        cr_assert(umbra_event_wait(&kit->manual, 0) == 0);
    }
    free(kit);
}

/* ---- where nobody may wait ---- */

static struct umbra_barrier pair = UMBRA_BARRIER_INIT(2);
static struct umbra_mutex theirs = UMBRA_MUTEX_INIT;
static int said[3];

static void on_alternate_stack(int number)
{
    (void)number;
    said[0] = umbra_condition_wait(&filled, &mutex, UMBRA_NEVER);
    said[1] = umbra_barrier_wait(&pair, UMBRA_NEVER);
    said[2] = umbra_mutex_lock_deadline(&theirs, UMBRA_NEVER);
}

static void *holds_theirs(void *arg)
{
    umbra_mutex_lock(&theirs);
    umbra_yield();
    cr_expect_eq(umbra_mutex_unlock(&theirs), 0, "no fiber waits for it");
    return arg;
}

static void *comes_second(void *arg)
{
    cr_expect_eq(umbra_barrier_wait(&pair, UMBRA_NEVER), 1);
    return arg;
}

static void *refused(void *arg)
{
    struct sigaction action = {.sa_handler = on_alternate_stack, .sa_flags = SA_ONSTACK};
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, before;
    struct umbra_fiber fiber;

    umbra_mutex_lock(&mutex);
    umbra_spawn(holds_theirs, NULL, &fiber);
    umbra_yield();
    sigaltstack(&stack, &before);
    sigaction(SIGUSR1, &action, NULL);
    pthread_kill(pthread_self(), SIGUSR1);
    sigaltstack(&before, NULL);
    free(stack.ss_sp);
    cr_expect_eq(said[0], -EPERM);
    cr_expect_eq(umbra_mutex_unlock(&mutex), 0, "it is held still");
    cr_expect_null(filled.waiters.first, "nobody waits");
    cr_expect_eq(said[1], -EPERM);
    cr_expect_eq(said[2], -EPERM);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    umbra_spawn(comes_second, NULL, &fiber);
    cr_expect_eq(umbra_barrier_wait(&pair, UMBRA_NEVER), 0,
                 "the one that was refused has not come");
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

Test(sync, what_may_not_wait_changes_nothing)
{
    cr_assert_eq(run_cores(1, refused, NULL), 0);
}
