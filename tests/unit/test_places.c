/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Where reports say that a fiber waits: in the function of the program that called, whatever the
 * compiler has inlined. Each function that waits is in a section of its own, whose ends the linker
 * knows. Built at several levels of optimization.
 */
#define _GNU_SOURCE
#include "fibers.h"

#include <sys/wait.h>
#include <unistd.h>

/* A function that is alone in its section, and is no tail call's caller: it returns what it is given. */
#define PLACE(fn)                                                                                  \
    extern const char __start_at_##fn[], __stop_at_##fn[];                                         \
    static void *fn(void *arg) __attribute__((noinline, section("at_" #fn)));                      \
    static void *fn(void *arg)

#define PLACED(fn)                                                                                 \
    {                                                                                              \
#fn, fn, __start_at_##fn, __stop_at_##fn                                                   \
    }

struct place {
    const char *name;
    umbra_fiber_fn *fn;
    const char *start, *stop;
};

#define HOUR (3600 * SECOND)

struct item {
    struct umbra_message message;
};

static struct umbra_event never, other;
static struct umbra_mutex mutex, mine;
static struct umbra_condition condition;
static struct umbra_semaphore semaphore;
static struct umbra_rwlock rwlock;
static struct umbra_latch latch;
static struct umbra_barrier barrier;
static struct umbra_port full = UMBRA_PORT_INIT_BOUNDED(1), empty;
static UMBRA_PORT(struct item) items;
static struct umbra_message message[3];
static struct umbra_task task;
static struct umbra_arbiter arbiter;
static struct umbra_branch choice_branch = {UMBRA_RECEIVE(&empty)};
static struct umbra_dispatch *dispatch;
static struct umbra_fiber joined[4], far;

/* ---- what waits ---- */

PLACE(waits_for_event)
{
    umbra_event_wait(&never, UMBRA_NEVER);
    return arg;
}

PLACE(waits_for_event_deadline)
{
    umbra_event_wait(&never, umbra_deadline(HOUR));
    return arg;
}

static bool no(void *arg)
{
    (void)arg;
    return false;
}

PLACE(waits_until)
{
    umbra_event_wait_until(&never, no, NULL, UMBRA_NEVER);
    return arg;
}

PLACE(waits_for_any)
{
    struct umbra_event *events[] = {&never, &other};

    umbra_event_wait_any(events, 2, UMBRA_NEVER, NULL);
    return arg;
}

PLACE(sleeps)
{
    umbra_sleep_ns(HOUR);
    return arg;
}

PLACE(locks)
{
    umbra_mutex_lock(&mutex);
    return arg;
}

PLACE(locks_deadline)
{
    if (umbra_mutex_lock_deadline(&mutex, umbra_deadline(HOUR)) != 0)
        return NULL;
    return arg;
}

PLACE(waits_for_condition)
{
    umbra_mutex_lock(&mine);
    if (umbra_condition_wait(&condition, &mine, UMBRA_NEVER) != 0)
        return NULL;
    return arg;
}

PLACE(waits_for_semaphore)
{
    if (umbra_semaphore_wait(&semaphore, UMBRA_NEVER) != 0)
        return NULL;
    return arg;
}

PLACE(reads)
{
    umbra_rwlock_read(&rwlock);
    return arg;
}

PLACE(writes)
{
    umbra_rwlock_write(&rwlock);
    return arg;
}

PLACE(waits_for_latch)
{
    if (umbra_latch_wait(&latch, UMBRA_NEVER) != 0)
        return NULL;
    return arg;
}

PLACE(waits_for_barrier)
{
    umbra_barrier_wait(&barrier, UMBRA_NEVER);
    return arg;
}

PLACE(posts)
{
    umbra_port_post(&full, &message[1], UMBRA_NEVER);
    return arg;
}

PLACE(receives)
{
    struct umbra_message *received;

    umbra_port_receive(&empty, &received, UMBRA_NEVER);
    return arg;
}

PLACE(receives_typed)
{
    struct item *item;

    (void)UMBRA_PORT_RECEIVE(&items, &item, UMBRA_NEVER);
    return arg;
}

PLACE(chooses)
{
    umbra_choose(&choice_branch, 1, UMBRA_NEVER, NULL, NULL);
    return arg;
}

PLACE(joins)
{
    umbra_join(joined[0], UMBRA_NEVER, NULL);
    return arg;
}

PLACE(joins_alone)
{
    umbra_spawn(waits_for_event, NULL, &joined[1]);
    umbra_join(joined[1], UMBRA_NEVER, NULL);
    return arg;
}

PLACE(joins_far)
{
    umbra_join(far, UMBRA_NEVER, NULL);
    return arg;
}

PLACE(joins_deadline)
{
    umbra_join(joined[2], umbra_deadline(HOUR), NULL);
    return arg;
}

PLACE(joins_task)
{
    umbra_task_join(&task, UMBRA_NEVER);
    return arg;
}

PLACE(joins_arbiter)
{
    umbra_arbiter_join(&arbiter, UMBRA_NEVER);
    return arg;
}

PLACE(ends_step)
{
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    umbra_dispatch_put(dispatch, &never, UMBRA_ANY_NODE);
    umbra_dispatch_end(dispatch, UMBRA_NEVER);
    return arg;
}

PLACE(transfers_slowly)
{
    umbra_transfer(*(struct umbra_fiber *)arg); /* to a fiber that is ready */
    return arg;
}

PLACE(transfers)
{
    umbra_transfer(*(struct umbra_fiber *)arg); /* to one that is stopped */
    return arg;
}

/* ---- where ---- */

static const struct place there = PLACED(joins_alone);

static const struct place here[] = {PLACED(waits_for_event),
                                    PLACED(waits_for_event_deadline),
                                    PLACED(waits_until),
                                    PLACED(waits_for_any),
                                    PLACED(sleeps),
                                    PLACED(locks),
                                    PLACED(locks_deadline),
                                    PLACED(waits_for_condition),
                                    PLACED(waits_for_semaphore),
                                    PLACED(reads),
                                    PLACED(writes),
                                    PLACED(waits_for_latch),
                                    PLACED(waits_for_barrier),
                                    PLACED(posts),
                                    PLACED(receives),
                                    PLACED(receives_typed),
                                    PLACED(chooses),
                                    PLACED(joins),
                                    PLACED(joins_far),
                                    PLACED(joins_deadline),
                                    PLACED(joins_task),
                                    PLACED(joins_arbiter),
                                    PLACED(ends_step),
                                    PLACED(transfers_slowly),
                                    PLACED(transfers)};

/* Whether the fiber is said to wait in the function that it runs. Not known: so be it. */
static bool in_place(struct umbra_fiber fiber, const struct place *place)
{
    const char *at = um_report_at(fiber.block);

    if (!at || (at >= place->start && at <= place->stop))
        return true;
    fprintf(stderr, "%s: at %p, not from %p to %p\n", place->name, (const void *)at,
            (const void *)place->start, (const void *)place->stop);
    return false;
}

static bool has_left(struct umbra_fiber fiber)
{
    int state = umbra_fiber_info(fiber, NULL);

    return state == UMBRA_FIBER_BLOCKED || state == UMBRA_FIBER_STOPPED;
}

static void forever(void *arg)
{
    waits_for_event(arg);
}

static int processes_forever(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    waits_for_event(arg);
    return 0;
}

static void handles(struct umbra_message *messages, void *arg)
{
    (void)messages;
    (void)arg;
}

static struct umbra_branch handled = {UMBRA_RECEIVE(&empty), .handler = handles};

/* What is waited for; the caller has the locks. */
static void prepare(void)
{
    struct umbra_dispatch_options options = {.fn = processes_forever, .workers = 1};
    struct umbra_spawn_options away = on_core(1);

    umbra_mutex_lock(&mutex);
    umbra_rwlock_write(&rwlock);
    latch = (struct umbra_latch)UMBRA_LATCH_INIT(1);
    barrier = (struct umbra_barrier)UMBRA_BARRIER_INIT(2);
    umbra_port_post(&full, &message[0], UMBRA_NEVER);
    umbra_spawn(waits_for_event, NULL, &joined[0]);
    umbra_spawn(waits_for_event, NULL, &joined[2]);
    umbra_spawn_with(NULL, &away, joins_alone, NULL, &far);
    umbra_task_start(NULL, &task, forever, NULL);
    umbra_arbiter_start(&arbiter, &handled, 1, NULL);
    umbra_dispatch_create(NULL, &options, &dispatch);
}

/* A fiber that is continued by a transfer, while the caller is stopped. */
static void starts_stopped(const struct place *place, struct umbra_fiber *self,
                           struct umbra_fiber *fiber)
{
    struct umbra_spawn_options options = {.stopped = true};

    umbra_spawn_with(NULL, &options, place->fn, self, fiber);
    umbra_transfer(*fiber);
}

static void *looks(void *arg)
{
    struct umbra_fiber self = umbra_self(), fiber;
    int wrong = 0;

    (void)arg;
    prepare();
    for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++) {
        if (here[i].fn == transfers)
            starts_stopped(&here[i], &self, &fiber);
        else
            umbra_spawn(here[i].fn, &self, &fiber);
        while (!has_left(fiber))
            umbra_yield();
        wrong += !in_place(fiber, &here[i]);
    }
    while (!has_left(far) || core_state(umbra_runtime_self(), 1) != UMBRA_CORE_IDLE)
        umbra_yield();
    wrong += !in_place(far, &there);
    _exit(wrong);
}

Test(places, every_wait_is_in_the_function_that_called_it)
{
    int status;
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0)
        _exit(run_cores(2, looks, NULL) ? 100 : 101);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status));
    cr_expect_eq(WEXITSTATUS(status), 0);
}
