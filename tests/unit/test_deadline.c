/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Each call with a deadline, in a fiber and in a thread that is no core: it waits until then, and
 * succeeds if what it waits for comes before. A call that fails takes nothing, and leaves its fiber
 * as it was. The calls of umbra/io.h are in test_io_table.c, that of a shadow is in test_shadow.c.
 */
#include "fibers.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>

/* ---- one wait of each kind, and what ends it ---- */

static struct umbra_event event, go;
static struct umbra_mutex mutex;
static struct umbra_condition condition;
static struct umbra_semaphore semaphore;
static struct umbra_rwlock rwlock;
static struct umbra_latch latch;
static struct umbra_barrier barrier;
static struct umbra_port port;
static struct umbra_message note[2];
static UMBRA_CHANNEL(int) channel;
static struct umbra_arbiter arbiter;
static struct umbra_branch branch = {UMBRA_RECEIVE(&port)};
static struct umbra_task task;
static struct umbra_dispatch *dispatch;
static struct umbra_fiber joined;
static _Atomic int come;

static bool has_come(void *arg)
{
    (void)arg;
    return come != 0;
}

static int waits_event(uint64_t deadline)
{
    return umbra_event_wait(&event, deadline);
}

static int waits_until(uint64_t deadline)
{
    return umbra_event_wait_until(&event, has_come, NULL, deadline);
}

static int waits_any(uint64_t deadline)
{
    struct umbra_event *both[] = {&go, &event};

    return umbra_event_wait_any(both, 2, deadline, NULL);
}

static void signals(void)
{
    come = 1;
    umbra_event_signal(&event);
}

static void holds_mutex(void)
{
    umbra_mutex_lock(&mutex);
}

static int locks(uint64_t deadline)
{
    int error = umbra_mutex_lock_deadline(&mutex, deadline);

    return error == 0 ? umbra_mutex_unlock(&mutex) : error;
}

static void unlocks(void)
{
    cr_expect_eq(umbra_mutex_unlock(&mutex), 0);
}

static int waits_condition(uint64_t deadline)
{
    int error = 0;

    umbra_mutex_lock(&mutex);
    while (!come && error == 0)
        error = umbra_condition_wait(&condition, &mutex, deadline);
    cr_expect_eq(umbra_mutex_unlock(&mutex), 0);
    return error;
}

static void notifies(void)
{
    umbra_mutex_lock(&mutex);
    come = 1;
    umbra_condition_notify(&condition, false);
    cr_expect_eq(umbra_mutex_unlock(&mutex), 0);
}

static int waits_semaphore(uint64_t deadline)
{
    return umbra_semaphore_wait(&semaphore, deadline);
}

static void posts_semaphore(void)
{
    umbra_semaphore_post(&semaphore, 1);
}

static void writes(void)
{
    umbra_rwlock_write(&rwlock);
}

static int reads_in_time(uint64_t deadline)
{
    int error = umbra_rwlock_read_deadline(&rwlock, deadline);

    return error == 0 ? umbra_rwlock_unlock(&rwlock) : error;
}

static int writes_in_time(uint64_t deadline)
{
    int error = umbra_rwlock_write_deadline(&rwlock, deadline);

    return error == 0 ? umbra_rwlock_unlock(&rwlock) : error;
}

static void has_written(void)
{
    cr_expect_eq(umbra_rwlock_unlock(&rwlock), 0);
}

static int waits_latch(uint64_t deadline)
{
    return umbra_latch_wait(&latch, deadline);
}

static void counts_down(void)
{
    cr_expect_eq(umbra_latch_count_down(&latch), 0);
}

static int waits_barrier(uint64_t deadline)
{
    int result = umbra_barrier_wait(&barrier, deadline);

    return result == 1 ? 0 : result; /* 1: the last one */
}

static void *is_the_other_party(void *arg)
{
    cr_expect_geq(umbra_barrier_wait(&barrier, UMBRA_NEVER), 0);
    return arg;
}

static void sends_the_other_party(void)
{
    cr_expect_eq(umbra_spawn(is_the_other_party, NULL, NULL), 0);
}

static int receives(uint64_t deadline)
{
    struct umbra_message *message;

    return umbra_port_receive(&port, &message, deadline);
}

static int receives_some(uint64_t deadline)
{
    struct umbra_message *messages;

    return umbra_port_receive_some(&port, 2, deadline, &messages);
}

static int chooses(uint64_t deadline)
{
    return umbra_choose(&branch, 1, deadline, NULL, NULL);
}

static int posts_other(uint64_t deadline)
{
    return umbra_port_post(&port, &note[1], deadline);
}

static void posts(void)
{
    cr_expect_eq(umbra_port_post(&port, &note[0], 0), 0);
}

static void receives_one(void)
{
    cr_expect_eq(receives(0), 0);
}

static int pops(uint64_t deadline)
{
    int item;

    return UMBRA_CHANNEL_POP(&channel, &item, deadline);
}

static int pushes(uint64_t deadline)
{
    int item = 1;

    return UMBRA_CHANNEL_PUSH(&channel, &item, deadline);
}

static void pushes_one(void)
{
    cr_expect_eq(pushes(0), 0);
}

static void pops_one(void)
{
    cr_expect_eq(pops(0), 0);
}

static void *waits_to_go(void *arg)
{
    cr_expect_eq(umbra_event_wait(&go, UMBRA_NEVER), 0);
    return arg;
}

static void lets_go(void)
{
    umbra_event_signal(&go);
}

static void spawns_here(void)
{
    cr_expect_eq(umbra_spawn(waits_to_go, NULL, &joined), 0);
}

static void spawns_elsewhere(void)
{
    struct umbra_spawn_options there = on_core(1);

    cr_expect_eq(umbra_spawn_with(NULL, &there, waits_to_go, NULL, &joined), 0);
}

static int joins(uint64_t deadline)
{
    return umbra_join(joined, deadline, NULL);
}

static void has_to_go(void *arg)
{
    waits_to_go(arg);
}

static void starts_task(void)
{
    cr_expect_eq(umbra_task_start(NULL, &task, has_to_go, NULL), 0);
}

static int joins_task(uint64_t deadline)
{
    return umbra_task_join(&task, deadline);
}

static void handles(struct umbra_message *messages, void *arg)
{
    (void)messages;
    (void)arg;
}

static void starts_arbiter(void)
{
    struct umbra_arbiter_options once = {.once = true};

    branch.handler = handles;
    cr_expect_eq(umbra_arbiter_start(&arbiter, &branch, 1, &once), 0);
}

static int joins_arbiter(uint64_t deadline)
{
    return umbra_arbiter_join(&arbiter, deadline);
}

static int processes(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    waits_to_go(arg);
    return 0;
}

static void begins_step(void)
{
    struct umbra_dispatch_options options = {.fn = processes, .workers = 1};

    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_put(dispatch, &go, UMBRA_ANY_NODE), 0);
}

static int ends_step(uint64_t deadline)
{
    return umbra_dispatch_end(dispatch, deadline);
}

static void ends_workers(void)
{
    cr_expect_eq(umbra_dispatch_destroy(dispatch), 0);
}

static void nothing(void)
{
}

static const struct call {
    const char *name;
    void (*prepare)(void);
    int (*wait)(uint64_t deadline);
    void (*end)(void);
    void (*clear)(void); /* NULL: nothing is left */
    bool firm;           /* waits in a canceled fiber, too */
} calls[] = {
    {"umbra_event_wait", nothing, waits_event, signals, NULL, false},
    {"umbra_event_wait_until", nothing, waits_until, signals, NULL, false},
    {"umbra_event_wait_any", nothing, waits_any, signals, NULL, false},
    {"umbra_mutex_lock_deadline", holds_mutex, locks, unlocks, NULL, false},
    {"umbra_condition_wait", nothing, waits_condition, notifies, NULL, false},
    {"umbra_semaphore_wait", nothing, waits_semaphore, posts_semaphore, NULL, false},
    {"umbra_rwlock_read_deadline", writes, reads_in_time, has_written, NULL, false},
    {"umbra_rwlock_write_deadline", writes, writes_in_time, has_written, NULL, false},
    {"umbra_latch_wait", nothing, waits_latch, counts_down, NULL, false},
    {"umbra_barrier_wait", nothing, waits_barrier, sends_the_other_party, NULL, false},
    {"umbra_port_receive", nothing, receives, posts, NULL, false},
    {"umbra_port_receive_some", nothing, receives_some, posts, NULL, false},
    {"umbra_choose", nothing, chooses, posts, NULL, false},
    {"umbra_port_post", posts, posts_other, receives_one, NULL, false},
    {"umbra_channel_pop", nothing, pops, pushes_one, NULL, false},
    {"umbra_channel_push", pushes_one, pushes, pops_one, NULL, false},
    {"umbra_join, here", spawns_here, joins, lets_go, NULL, false},
    {"umbra_join, elsewhere", spawns_elsewhere, joins, lets_go, NULL, false},
    {"umbra_task_join", starts_task, joins_task, lets_go, NULL, false},
    {"umbra_arbiter_join", starts_arbiter, joins_arbiter, posts, NULL, false},
    {"umbra_dispatch_end", begins_step, ends_step, lets_go, ends_workers, true},
};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

static void prepare(const struct call *call)
{
    event = (struct umbra_event)UMBRA_EVENT_INIT;
    go = (struct umbra_event)UMBRA_EVENT_INIT;
    mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
    condition = (struct umbra_condition)UMBRA_CONDITION_INIT;
    semaphore = (struct umbra_semaphore)UMBRA_SEMAPHORE_INIT(0);
    rwlock = (struct umbra_rwlock)UMBRA_RWLOCK_INIT;
    latch = (struct umbra_latch)UMBRA_LATCH_INIT(1);
    barrier = (struct umbra_barrier)UMBRA_BARRIER_INIT(2);
    UMBRA_PORT_OPEN(&port, 1);
    cr_expect_eq(UMBRA_CHANNEL_OPEN(&channel, 1, UMBRA_CHANNEL_MANY), 0);
    come = 0;
    call->prepare();
}

static void clear(const struct call *call)
{
    if (call->clear)
        call->clear();
    UMBRA_CHANNEL_FINI(&channel);
}

/* ---- until then, and what comes before ---- */

struct waiter {
    const struct call *call;
    _Atomic int may_end, done;
};

static void expect(const struct call *call, uint64_t deadline, int wanted)
{
    int error = call->wait(deadline);
    uint64_t now = umbra_now_ns();

    cr_expect_eq(error, wanted, "%s: %d, not %d", call->name, error, wanted);
    if (wanted == -ETIMEDOUT)
        cr_expect_geq(now, deadline, "%s: too early", call->name);
    else
        cr_expect_lt(now, deadline, "%s: at its deadline", call->name);
}

static void *waits(void *arg)
{
    struct waiter *waiter = arg;

    expect(waiter->call, 0, -ETIMEDOUT);
    expect(waiter->call, umbra_deadline(MS), -ETIMEDOUT);
    waiter->may_end = 1;
    expect(waiter->call, umbra_deadline(20 * SECOND), 0);
    waiter->done = 1;
    return NULL;
}

static void *in_fibers(void *arg)
{
    for (size_t i = 0; i < CALLS; i++) {
        struct waiter waiter = {.call = &calls[i]};
        struct umbra_fiber fiber;

        prepare(&calls[i]);
        cr_expect_eq(umbra_spawn(waits, &waiter, &fiber), 0);
        until(&waiter.may_end);
        while (!waiter.done && umbra_fiber_info(fiber, NULL) != UMBRA_FIBER_BLOCKED)
            umbra_yield();
        calls[i].end();
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
        clear(&calls[i]);
    }
    return arg;
}

Test(deadline, of_a_fiber_is_waited_for_unless_something_comes_before)
{
    cr_assert_eq(run_cores(2, in_fibers, NULL), 0);
}

/* Perhaps it comes before the thread waits. */
static void *in_threads(void *arg)
{
    for (size_t i = 0; i < CALLS; i++) {
        struct waiter waiter = {.call = &calls[i]};
        pthread_t thread;

        prepare(&calls[i]);
        cr_expect_eq(pthread_create(&thread, NULL, waits, &waiter), 0);
        until(&waiter.may_end);
        calls[i].end();
        until(&waiter.done);
        pthread_join(thread, NULL);
        clear(&calls[i]);
    }
    return arg;
}

Test(deadline, of_a_thread_is_waited_for_unless_something_comes_before)
{
    cr_assert_eq(run_cores(2, in_threads, NULL), 0);
}

/* ---- soon after it ---- */

static void *waits_briefly(void *arg)
{
    struct waiter *waiter = arg;
    struct short_waits waits = SHORT_WAITS_INIT;
    uint64_t deadline;

    do {
        deadline = umbra_deadline(MS / 10);
        cr_expect_eq(waiter->call->wait(deadline), -ETIMEDOUT, "%s", waiter->call->name);
    } while (was_late(&waits, deadline));
    expect_in_time(&waits, waiter->call->name);
    waiter->done = 1;
    return NULL;
}

static void *each_briefly(void *arg)
{
    for (size_t i = 0; i < 2 * CALLS; i++) {
        struct waiter waiter = {.call = &calls[i / 2]};
        struct umbra_fiber fiber;
        pthread_t thread;

        prepare(waiter.call);
        if (i % 2 == 0) {
            cr_expect_eq(umbra_spawn(waits_briefly, &waiter, &fiber), 0);
            cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
        } else {
            cr_expect_eq(pthread_create(&thread, NULL, waits_briefly, &waiter), 0);
            until(&waiter.done);
            pthread_join(thread, NULL);
        }
        waiter.call->end();
        cr_expect_eq(waiter.call->wait(UMBRA_NEVER), 0, "%s", waiter.call->name);
        clear(waiter.call);
    }
    return arg;
}

Test(deadline, is_kept_to_less_than_a_millisecond)
{
    if (under_valgrind)
        cr_skip_test("Valgrind executes one thread at a time");
    cr_assert_eq(run_cores(2, each_briefly, NULL), 0);
}

/* ---- after an error ---- */

/* With its own control words where there are any; else those that it sets are the core's. */
static void *fails(void *arg)
{
    const struct call *call = arg;

    fesetround(FE_UPWARD);
    expect(call, umbra_deadline(MS), -ETIMEDOUT);
    cr_expect_eq(fegetround(), FE_UPWARD, "%s", call->name);
    cr_expect_eq(umbra_cancel(umbra_self()), 0);
    cr_expect(umbra_canceled(), "%s: shielded after an error", call->name);
    if (call->firm)
        expect(call, umbra_deadline(MS), -ETIMEDOUT);
    else
        expect(call, umbra_deadline(20 * SECOND), -ECANCELED);
    cr_expect(umbra_canceled(), "%s: shielded after an error", call->name);
    cr_expect_eq(umbra_sleep_ns(1), -ECANCELED, "%s: shielded after an error", call->name);
    fesetround(FE_TONEAREST);
    return NULL;
}

static void *fail_in_fibers(void *arg)
{
    struct umbra_spawn_options own = {.where = UMBRA_HERE, .own_float_control = true};

    for (size_t i = 0; i < CALLS; i++) {
        struct umbra_fiber fiber;

        prepare(&calls[i]);
        cr_expect_eq(umbra_spawn_with(NULL, &own, fails, (void *)(uintptr_t)&calls[i], &fiber), 0);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
        calls[i].end();
        cr_expect_eq(calls[i].wait(UMBRA_NEVER), 0, "%s: something was taken", calls[i].name);
        clear(&calls[i]);
    }
    return arg;
}

Test(deadline, call_that_fails_takes_nothing_and_leaves_its_fiber_as_it_was)
{
    cr_assert_eq(run_cores(2, fail_in_fibers, NULL), 0);
}
