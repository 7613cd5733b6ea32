/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The interface, at random: fibers and threads make legal and illegal calls on objects that they
 * share, with deadlines of none, little and more. What must hold is checked at each call and at the
 * end: what is sent is received once, at most one holds what one may hold, and a call whose result
 * is determined has it. The operations are the table `operations`: a new one is a function and a
 * line there.
 *
 *     interface --seconds N | --seeds N | SEED [STEPS]
 *
 * Each seed decides the cores, the actors and what each of them calls; it is printed, and given back
 * as an argument repeats its calls (but not how threads interleave). Exit status 0; what does not
 * hold is printed, with the seed, and aborts; 2: wrong arguments.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <umbra.h>

#include "../stress/random_run.h"

#define FIBERS 7
#define THREADS 2
#define STEPS 60
#define HANGS_S 250 /* a seed takes this long: it hangs */

struct actor {
    uint64_t random;
    unsigned number; /* from 1 */
    unsigned step;
    const char *operation;
    bool thread;
    struct umbra_fiber fiber;
    pthread_t in;
};

static struct world {
    uint64_t seed;
    struct umbra_runtime *runtime;
    unsigned cores, steps;
    struct actor actor[FIBERS + THREADS];

    struct umbra_event automatic, manual, raised;
    _Atomic uint64_t signals, signals_taken, level;
    struct umbra_mutex mutex;
    struct umbra_condition condition;
    unsigned holder; /* of the mutex: its number; guarded by the mutex */
    struct umbra_semaphore semaphore;
    _Atomic uint64_t posted, posts_taken;
    struct umbra_rwlock rwlock;
    _Atomic unsigned readers;
    unsigned writer; /* its number; guarded by rwlock */
    UMBRA_CHANNEL(uint64_t) channel;
    _Atomic uint64_t pushes, pushed, pops, popped; /* counts and sums */
    struct umbra_port port[2];
    _Atomic uint64_t messages, received;
    _Atomic uint64_t detached, ended; /* fibers */
} world;

/* ---- checks ---- */

#define EXPECT(condition) ((condition) ? (void)0 : fails(#condition, __LINE__))

static void fails(const char *condition, int line)
{
    fprintf(stderr, "interface.c:%d: does not hold: %s\nseed %llu, %u cores\n", line, condition,
            (unsigned long long)world.seed, world.cores);
    for (unsigned i = 0; i < FIBERS + THREADS; i++)
        fprintf(stderr, "  %s %u: step %u, %s\n", world.actor[i].thread ? "thread" : "fiber", i + 1,
                world.actor[i].step, world.actor[i].operation ? world.actor[i].operation : "");
    abort();
}

/* A result that is wrong is printed, too. */
static void expect_result(int result, int wanted, int line)
{
    char text[80];

    snprintf(text, sizeof(text), "%d (%s) == %d", result, strerror(result < 0 ? -result : 0),
             wanted);
    if (result != wanted)
        fails(text, line);
}

#define RETURNS(call, wanted) expect_result((call), (wanted), __LINE__)

static void hangs(int number)
{
    (void)number;
    umbra_dump(world.runtime, 2);
    fails("a seed takes minutes", 0);
}

/* ---- chance ---- */

static uint64_t roll(struct actor *self, uint64_t sides)
{
    return (random_next(&self->random) >> 11) % sides;
}

static uint64_t some_deadline(struct actor *self)
{
    uint64_t kind = roll(self, 4);

    return kind == 0 ? 0 : umbra_deadline(roll(self, kind == 3 ? 1000000 : 20000));
}

/* True if a wait with a deadline, or one that may be canceled, succeeded. */
static bool succeeded(int error)
{
    EXPECT(error == 0 || error == -ETIMEDOUT || (error == -ECANCELED && umbra_canceled()));
    return error == 0;
}

/* What an actor does between two calls. */
static void linger(struct actor *self)
{
    uint64_t kind = roll(self, 16);

    if (kind < 4)
        umbra_yield();
    else if (kind < 6)
        umbra_poll();
    else if (kind == 6)
        succeeded(umbra_sleep_ns(roll(self, 20000)));
}

/* ---- children ---- */

struct child {
    uint64_t random;
    struct umbra_fiber parent;
    struct umbra_event event;
    struct umbra_barrier barrier;
    struct umbra_latch latch;
    _Atomic unsigned last;
};

static struct umbra_fiber spawned(struct actor *self, umbra_fiber_fn *fn, void *arg)
{
    struct umbra_spawn_options options = {.name = "child"};
    struct umbra_fiber fiber;

    options.where = (enum umbra_where)roll(self, 3);
    options.core = (unsigned)roll(self, world.cores);
    if (options.where == UMBRA_ON_CORE)
        options.delay_ns = roll(self, 2) * roll(self, 50000);
    RETURNS(umbra_spawn_with(world.runtime, &options, fn, arg, &fiber), 0);
    return fiber;
}

/* Joins, even if the caller is canceled: what the child uses is in its frame. */
static void *joined(struct umbra_fiber fiber)
{
    void *result = NULL;

    umbra_shield(true);
    RETURNS(umbra_join(fiber, UMBRA_NEVER, &result), 0);
    umbra_shield(false);
    return result;
}

static void *returns(void *arg)
{
    struct child *child = arg;

    for (uint64_t i = child->random % 4; i > 0; i--)
        umbra_yield();
    return arg;
}

static void joins(struct actor *self)
{
    struct child child = {.random = roll(self, 1000)};
    struct umbra_fiber fiber = spawned(self, returns, &child);
    void *result = &child;

    RETURNS(umbra_join(umbra_self(), 0, NULL), self->thread ? -ESRCH : -EDEADLK);
    if (roll(self, 2) || !succeeded(umbra_join(fiber, some_deadline(self), &result)))
        result = joined(fiber);
    EXPECT(result == &child);
    RETURNS(umbra_join(fiber, UMBRA_NEVER, &result), -ESRCH);
    RETURNS(umbra_join(fiber, 0, NULL), -ESRCH);
    RETURNS(umbra_detach(fiber), -ESRCH);
    RETURNS(umbra_cancel(fiber), -ESRCH);
    RETURNS(umbra_continue(fiber), -ESRCH);
    RETURNS(umbra_fiber_info(fiber, NULL), -ESRCH);
    RETURNS(umbra_transfer(fiber), self->thread ? -EPERM : -ESRCH);
}

static void *ends_alone(void *arg)
{
    umbra_yield();
    world.ended++;
    return arg;
}

static void detaches(struct actor *self)
{
    struct umbra_fiber fiber = spawned(self, ends_alone, NULL);
    int error;

    world.detached++;
    umbra_shield(true);
    RETURNS(umbra_detach(fiber), 0);
    error = umbra_join(fiber, UMBRA_NEVER, NULL);
    EXPECT(error == -EINVAL || error == -ESRCH);
    error = umbra_detach(fiber);
    EXPECT(error == -EINVAL || error == -ESRCH);
    umbra_shield(false);
}

static void *waits_for_cancel(void *arg)
{
    struct child *child = arg;

    RETURNS(umbra_event_wait(&child->event, UMBRA_NEVER), -ECANCELED);
    EXPECT(umbra_canceled());
    RETURNS(umbra_sleep_ns(1000), -ECANCELED);
    RETURNS(umbra_event_wait(&child->event, UMBRA_NEVER), -ECANCELED);
    umbra_shield(true);
    EXPECT(!umbra_canceled());
    RETURNS(umbra_event_wait(&child->event, umbra_deadline(1000)), -ETIMEDOUT);
    umbra_shield(false);
    umbra_event_signal(&child->event);
    RETURNS(umbra_event_wait(&child->event, UMBRA_NEVER), 0);
    return arg;
}

static void cancels(struct actor *self)
{
    struct child child = {.event = UMBRA_EVENT_INIT};
    struct umbra_fiber fiber = spawned(self, waits_for_cancel, &child);
    int again;

    linger(self);
    RETURNS(umbra_cancel(fiber), 0);
    again = umbra_cancel(fiber);
    EXPECT(again == 0 || again == -ESRCH);
    EXPECT(joined(fiber) == &child);
}

static void cancels_an_actor(struct actor *self)
{
    struct actor *other = &world.actor[roll(self, FIBERS)];
    int error;

    if (roll(self, 40) != 0)
        return;
    error = umbra_cancel(other->fiber); /* which may have ended */
    EXPECT(error == 0 || error == -ESRCH);
}

static void *transfers_back(void *arg)
{
    struct child *child = arg;

    RETURNS(umbra_transfer(child->parent), 0);
    return arg;
}

static void transfers(struct actor *self)
{
    struct umbra_spawn_options stopped = {.where = UMBRA_HERE, .stopped = true};
    struct child child = {.parent = umbra_self()};
    struct umbra_fiber fiber;

    RETURNS(umbra_transfer(umbra_self()), -EINVAL);
    RETURNS(umbra_spawn_with(NULL, &stopped, transfers_back, &child, &fiber), 0);
    RETURNS(umbra_fiber_info(fiber, NULL), UMBRA_FIBER_STOPPED);
    RETURNS(umbra_transfer(fiber), 0);
    RETURNS(umbra_fiber_info(fiber, NULL), UMBRA_FIBER_STOPPED);
    if (roll(self, 2))
        RETURNS(umbra_continue(fiber), 0);
    else
        RETURNS(umbra_cancel(fiber) || umbra_continue(fiber), 0);
    EXPECT(joined(fiber) == &child);
}

static void *meets(void *arg)
{
    struct child *child = arg;

    for (uint64_t round = 0; round < child->random; round++) {
        int last = umbra_barrier_wait(&child->barrier, UMBRA_NEVER);

        EXPECT(last == 0 || last == 1);
        child->last += (unsigned)last;
    }
    return arg;
}

static void meets_at_barrier(struct actor *self)
{
    struct child child = {.random = 1 + roll(self, 4)};
    struct umbra_fiber fiber[3];
    unsigned others = (unsigned)roll(self, 4);

    child.barrier = (struct umbra_barrier)UMBRA_BARRIER_INIT(0);
    RETURNS(umbra_barrier_wait(&child.barrier, UMBRA_NEVER), -EINVAL);
    child.barrier = (struct umbra_barrier)UMBRA_BARRIER_INIT(others + 1);
    for (unsigned i = 0; i < others; i++)
        fiber[i] = spawned(self, meets, &child);
    umbra_shield(true);
    meets(&child);
    umbra_shield(false);
    for (unsigned i = 0; i < others; i++)
        joined(fiber[i]);
    EXPECT(child.last == child.random);
}

static void *counts_down(void *arg)
{
    struct child *child = arg;

    umbra_yield();
    RETURNS(umbra_latch_count_down(&child->latch), 0);
    return arg;
}

static void waits_for_latch(struct actor *self)
{
    struct child child = {.random = 0};
    struct umbra_fiber fiber[3];
    unsigned others = (unsigned)roll(self, 4);

    child.latch = (struct umbra_latch)UMBRA_LATCH_INIT(1);
    RETURNS(umbra_latch_add(&child.latch, UINT64_MAX), -EOVERFLOW);
    RETURNS(umbra_latch_add(&child.latch, others), 0);
    for (unsigned i = 0; i < others; i++)
        fiber[i] = spawned(self, counts_down, &child);
    EXPECT(!succeeded(umbra_latch_wait(&child.latch, some_deadline(self))));
    RETURNS(umbra_latch_count_down(&child.latch), 0);
    umbra_shield(true);
    RETURNS(umbra_latch_wait(&child.latch, UMBRA_NEVER), 0);
    umbra_shield(false);
    RETURNS(umbra_latch_count_down(&child.latch), -EINVAL);
    RETURNS(umbra_latch_add(&child.latch, 1), -EINVAL);
    RETURNS(umbra_latch_wait(&child.latch, 0), 0);
    for (unsigned i = 0; i < others; i++)
        joined(fiber[i]);
}

/* ---- events ---- */

static void takes_signal(void)
{
    uint64_t taken = ++world.signals_taken;

    EXPECT(taken <= world.signals);
}

static void signals(struct actor *self)
{
    world.signals++;
    if (roll(self, 2))
        umbra_event_signal(&world.automatic);
    else
        umbra_event_signal_async(&world.automatic);
}

static void waits(struct actor *self)
{
    if (succeeded(umbra_event_wait(&world.automatic, some_deadline(self))))
        takes_signal();
}

static void sets_and_resets(struct actor *self)
{
    if (roll(self, 2))
        umbra_event_signal(&world.manual);
    else
        umbra_event_reset(&world.manual);
    succeeded(umbra_event_wait(&world.manual, some_deadline(self)));
}

static void waits_for_any(struct actor *self)
{
    struct umbra_event *events[] = {&world.manual, &world.automatic};
    unsigned which = 5;
    int error = umbra_event_wait_any(events, 2, some_deadline(self), &which);

    if (succeeded(error))
        EXPECT(which < 2);
    else
        EXPECT(which == 5);
    if (which == 1)
        takes_signal();
    RETURNS(umbra_event_wait_any(events, 0, 0, &which), -EINVAL);
    RETURNS(umbra_event_wait_any(events, 1001, 0, &which), -EINVAL);
}

static bool raised_to(void *arg)
{
    return world.level >= *(uint64_t *)arg;
}

static void waits_until(struct actor *self)
{
    uint64_t wanted = world.level + roll(self, 3);

    if (succeeded(umbra_event_wait_until(&world.raised, raised_to, &wanted, some_deadline(self))))
        EXPECT(world.level >= wanted);
}

static void raises(struct actor *self)
{
    (void)self;
    world.level++;
    umbra_event_signal(&world.raised);
}

/* ---- locks ---- */

/* The caller has just locked the mutex. */
static void holds(struct actor *self)
{
    EXPECT(world.holder == 0);
    world.holder = self->number;
    RETURNS(umbra_mutex_lock_deadline(&world.mutex, UMBRA_NEVER), -EDEADLK);
    linger(self);
    EXPECT(world.holder == self->number);
    world.holder = 0;
}

static void locks(struct actor *self)
{
    RETURNS(umbra_mutex_unlock(&world.mutex), -EPERM);
    if (!succeeded(umbra_mutex_lock_deadline(&world.mutex, some_deadline(self))))
        return;
    holds(self);
    RETURNS(umbra_mutex_unlock(&world.mutex), 0);
}

static void waits_for_condition(struct actor *self)
{
    RETURNS(umbra_condition_wait(&world.condition, &world.mutex, some_deadline(self)), -EPERM);
    if (!succeeded(umbra_mutex_lock_deadline(&world.mutex, some_deadline(self))))
        return;
    holds(self);
    succeeded(umbra_condition_wait(&world.condition, &world.mutex, some_deadline(self)));
    holds(self);
    RETURNS(umbra_mutex_unlock(&world.mutex), 0);
}

static void notifies(struct actor *self)
{
    umbra_condition_notify(&world.condition, roll(self, 2));
}

static void waits_for_semaphore(struct actor *self)
{
    if (succeeded(umbra_semaphore_wait(&world.semaphore, some_deadline(self)))) {
        uint64_t taken = ++world.posts_taken;

        EXPECT(taken <= world.posted);
    }
}

static void posts_semaphore(struct actor *self)
{
    uint64_t more = roll(self, 3);

    world.posted += more;
    if (roll(self, 2))
        umbra_semaphore_post(&world.semaphore, more);
    else
        umbra_semaphore_post_async(&world.semaphore, more);
}

static void reads(struct actor *self)
{
    if (!succeeded(umbra_rwlock_read_deadline(&world.rwlock, some_deadline(self))))
        return;
    world.readers++;
    EXPECT(world.writer == 0);
    linger(self);
    EXPECT(world.writer == 0);
    world.readers--;
    RETURNS(umbra_rwlock_unlock(&world.rwlock), 0);
}

static void writes(struct actor *self)
{
    if (!succeeded(umbra_rwlock_write_deadline(&world.rwlock, some_deadline(self))))
        return;
    EXPECT(world.writer == 0 && world.readers == 0);
    world.writer = self->number;
    linger(self);
    EXPECT(world.writer == self->number && world.readers == 0);
    world.writer = 0;
    RETURNS(umbra_rwlock_unlock(&world.rwlock), 0);
}

/* ---- messages ---- */

static void pushes(struct actor *self)
{
    uint64_t item = roll(self, 1000000);

    world.pushed += item;
    world.pushes++;
    if (succeeded(UMBRA_CHANNEL_PUSH(&world.channel, &item, some_deadline(self))))
        return;
    world.pushed -= item;
    world.pushes--;
}

static void pops(struct actor *self)
{
    uint64_t item = UINT64_MAX;

    if (!succeeded(UMBRA_CHANNEL_POP(&world.channel, &item, some_deadline(self)))) {
        EXPECT(item == UINT64_MAX);
        return;
    }
    world.popped += item;
    world.pops++;
}

static void posts(struct actor *self)
{
    struct umbra_message *message = calloc(1, sizeof(*message));

    EXPECT(message);
    if (succeeded(umbra_port_post(&world.port[roll(self, 2)], message, some_deadline(self))))
        world.messages++;
    else
        free(message);
}

static void receives(struct actor *self)
{
    struct umbra_port *port = &world.port[roll(self, 2)];
    struct umbra_message *message = NULL, *next;
    uint64_t most = 1 + roll(self, 3), count = 0;

    RETURNS(umbra_port_receive_some(port, 0, 0, &message), -EINVAL);
    if (!succeeded(umbra_port_receive_some(port, most, some_deadline(self), &message)))
        EXPECT(!message);
    for (; message; message = next, count++) {
        next = message->next;
        free(message);
    }
    EXPECT(count <= most);
    world.received += count;
}

static void chooses(struct actor *self)
{
    struct umbra_branch branches[] = {
        {UMBRA_JOIN(UMBRA_FROM(&world.port[0]), UMBRA_FROM(&world.port[1]))},
        {UMBRA_RECEIVE(&world.port[1])},
        {UMBRA_JOIN(UMBRA_FROM(&world.port[0]), UMBRA_FROM(&world.port[0]))},
    };
    struct umbra_message *message = NULL;
    unsigned which = 5;

    RETURNS(umbra_choose(branches, 0, 0, &which, &message), -EINVAL);
    RETURNS(umbra_choose(branches, 3, 0, &which, &message), -EINVAL);
    if (!succeeded(umbra_choose(branches, 2, some_deadline(self), &which, &message)))
        return;
    EXPECT(which < 2 && message);
    EXPECT(UMBRA_MESSAGE_FROM(&world.port[which], message));
    if (which == 0) {
        EXPECT(UMBRA_MESSAGE_FROM(&world.port[1], message->next));
        free(message->next);
    }
    free(message);
    world.received += which == 0 ? 2 : 1;
}

/* ---- work ---- */

struct sum {
    struct umbra_task task;
    uint64_t to, result;
};

static void sums(void *arg)
{
    struct sum *sum = arg, left = {.to = sum->to - 1}, right = {.to = sum->to - 2};

    sum->result = sum->to;
    if (sum->to < 2)
        return;
    umbra_task_fork(&left.task, sums, &left);
    sums(&right);
    umbra_task_join(&left.task, UMBRA_NEVER);
    sum->result = left.result + right.result;
}

static void runs_tasks(struct actor *self)
{
    struct sum sum = {.to = 8}, outside = {.to = 7};
    int error;

    RETURNS(umbra_task_start(world.runtime, &outside.task, NULL, NULL), -EINVAL);
    RETURNS(umbra_task_start(world.runtime, &outside.task, sums, &outside), 0);
    sums(&sum);
    EXPECT(sum.result == 21);
    error = umbra_task_join(&outside.task, some_deadline(self));
    if (!succeeded(error))
        umbra_task_join(&outside.task, UMBRA_NEVER);
    EXPECT(outside.result == 13);
}

static void begins_sum(void *value, void *arg)
{
    (void)arg;
    *(uint64_t *)value = 0;
}

static void adds_range(size_t begin, size_t end, void *value, void *arg)
{
    (void)arg;
    for (; begin < end; begin++)
        *(uint64_t *)value += begin;
}

static void adds_sums(void *value, const void *right, void *arg)
{
    (void)arg;
    *(uint64_t *)value += *(const uint64_t *)right;
}

static void reduces(struct actor *self)
{
    struct umbra_reduction reduction = {sizeof(uint64_t), begins_sum, adds_range, adds_sums};
    uint64_t end = roll(self, 500), sum = 0;

    RETURNS(umbra_parallel_reduce(0, end, roll(self, 9), &reduction, NULL, &sum), 0);
    EXPECT(sum == (end ? end * (end - 1) / 2 : 0));
    reduction.bytes = UMBRA_REDUCTION_BYTES + 1;
    RETURNS(umbra_parallel_reduce(0, end, 1, &reduction, NULL, &sum), -EINVAL);
}

static int adds_value(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    *(_Atomic uint64_t *)arg += value.end ? value.end - value.begin : 1;
    return 0;
}

static void dispatches(struct actor *self)
{
    _Atomic uint64_t done = 0;
    struct umbra_dispatch_options options = {.arg = (void *)&done};
    struct umbra_dispatch *dispatch;
    uint64_t range = roll(self, 100);

    RETURNS(umbra_dispatch_create(world.runtime, &options, &dispatch), -EINVAL);
    options.fn = adds_value;
    umbra_shield(true);
    RETURNS(umbra_dispatch_create(world.runtime, &options, &dispatch), 0);
    RETURNS(umbra_dispatch_end(dispatch, UMBRA_NEVER), -EINVAL);
    RETURNS(umbra_dispatch_begin(dispatch), 0);
    RETURNS(umbra_dispatch_begin(dispatch), -EBUSY);
    RETURNS(umbra_dispatch_destroy(dispatch), -EBUSY);
    RETURNS(umbra_dispatch_put(dispatch, NULL, UMBRA_ANY_NODE), -EINVAL);
    RETURNS(umbra_dispatch_put(dispatch, self, UMBRA_ANY_NODE), 0);
    RETURNS(umbra_dispatch_range(dispatch, 0, range, 1 + roll(self, 9)), 0);
    RETURNS(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    EXPECT(done == range + 1);
    RETURNS(umbra_dispatch_destroy(dispatch), 0);
    umbra_shield(false);
}

struct run {
    struct umbra_team *team;
    _Atomic unsigned parts;
};

static void is_part(unsigned member, unsigned members, void *arg)
{
    struct run *run = arg;

    run->parts++;
    umbra_team_barrier(run->team, member);
    EXPECT(run->parts == members);
    if (member == 0)
        RETURNS(umbra_team_run(run->team, 0, is_part, run), -EBUSY);
}

static void runs_team(struct actor *self)
{
    struct umbra_team_options options = {.members = 1 + (unsigned)roll(self, 3)};
    struct run run = {.parts = 0};

    if (roll(self, 8) != 0)
        return;
    RETURNS(umbra_team_create(&options, &run.team), 0);
    RETURNS(umbra_team_run(run.team, 0, NULL, NULL), -EINVAL);
    RETURNS(umbra_team_run(run.team, 0, is_part, &run), 0);
    EXPECT(run.parts == options.members);
    RETURNS(umbra_team_destroy(run.team), 0);
}

static void is_called(void *arg)
{
    ++*(unsigned *)arg;
}

static void blocks(struct actor *self)
{
    unsigned calls = 0;
    int error;

    (void)self;
    RETURNS(umbra_blocking(NULL, NULL), -EINVAL);
    error = umbra_blocking(is_called, &calls);
    EXPECT(calls == (succeeded(error) ? 1 : 0));
}

static void is_refused(struct actor *self)
{
    struct umbra_spawn_options wrong[] = {
        {.where = UMBRA_ON_CORE, .core = world.cores},
        {.where = UMBRA_ANYWHERE, .delay_ns = 1},
        {.where = UMBRA_ANYWHERE, .stopped = true},
        {.where = UMBRA_HERE, .delay_ns = 1, .stopped = true},
    };
    size_t which = roll(self, sizeof(wrong) / sizeof(wrong[0]));
    struct umbra_channel channel;
    struct umbra_core_info info;

    RETURNS(umbra_spawn_with(world.runtime, &wrong[which], returns, NULL, NULL), -EINVAL);
    RETURNS(umbra_spawn_with(world.runtime, NULL, NULL, NULL, NULL), -EINVAL);
    RETURNS(umbra_spawn(NULL, NULL, NULL), -EINVAL);
    RETURNS(umbra_core_info(world.runtime, world.cores, &info), -EINVAL);
    RETURNS(umbra_channel_init(&channel, 0, 8, UMBRA_CHANNEL_MANY), -EINVAL);
    RETURNS(umbra_channel_init(&channel, SIZE_MAX / 4, 8, UMBRA_CHANNEL_MANY), -EINVAL);
    RETURNS(umbra_local_set(UMBRA_LOCAL_KEYS, NULL), self->thread ? -EPERM : -EINVAL);
    if (!self->thread) {
        RETURNS(umbra_runtime_wait(world.runtime), -EPERM);
        RETURNS(umbra_runtime_destroy(world.runtime), -EPERM);
    }
}

/* ---- the table ---- */

enum caller { EITHER, FIBER, THREAD };

static const struct operation {
    const char *name;
    void (*run)(struct actor *self);
    enum caller caller;
    unsigned weight;
} operations[] = {
    {"join", joins, EITHER, 4},
    {"detach", detaches, EITHER, 2},
    {"cancel", cancels, EITHER, 3},
    {"cancel an actor", cancels_an_actor, EITHER, 1},
    {"transfer", transfers, FIBER, 3},
    {"barrier", meets_at_barrier, EITHER, 2},
    {"latch", waits_for_latch, EITHER, 2},
    {"signal", signals, EITHER, 4},
    {"wait", waits, EITHER, 4},
    {"set or reset", sets_and_resets, EITHER, 3},
    {"wait for any", waits_for_any, EITHER, 3},
    {"wait until", waits_until, EITHER, 3},
    {"raise", raises, EITHER, 3},
    {"lock", locks, EITHER, 6},
    {"condition wait", waits_for_condition, EITHER, 3},
    {"notify", notifies, EITHER, 3},
    {"semaphore wait", waits_for_semaphore, EITHER, 4},
    {"semaphore post", posts_semaphore, EITHER, 4},
    {"read", reads, EITHER, 4},
    {"write", writes, EITHER, 3},
    {"push", pushes, EITHER, 5},
    {"pop", pops, EITHER, 5},
    {"post", posts, EITHER, 5},
    {"receive", receives, EITHER, 3},
    {"choose", chooses, EITHER, 3},
    {"tasks", runs_tasks, EITHER, 2},
    {"reduce", reduces, EITHER, 2},
    {"dispatch", dispatches, EITHER, 1},
    {"team", runs_team, THREAD, 1},
    {"blocking", blocks, EITHER, 1},
    {"refusals", is_refused, EITHER, 1},
    {"linger", linger, EITHER, 4},
};

#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static const struct operation *some_operation(struct actor *self)
{
    unsigned all = 0, at;
    size_t i = 0;

    for (i = 0; i < OPERATIONS; i++)
        all += operations[i].weight;
    at = (unsigned)roll(self, all);
    for (i = 0; at >= operations[i].weight; i++)
        at -= operations[i].weight;
    return &operations[i];
}

static void *acts(void *arg)
{
    struct actor *self = arg;

    for (self->step = 0; self->step < world.steps; self->step++) {
        const struct operation *operation = some_operation(self);

        if (operation->caller == (self->thread ? FIBER : THREAD))
            continue;
        self->operation = operation->name;
        operation->run(self);
    }
    self->operation = "ended";
    return arg;
}

static void *acts_in_thread(void *arg)
{
    acts(arg);
    umbra_release(world.runtime);
    return arg;
}

/* ---- a seed ---- */

static void world_open(void)
{
    world.automatic = (struct umbra_event)UMBRA_EVENT_INIT;
    world.manual = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    world.raised = (struct umbra_event)UMBRA_EVENT_INIT;
    world.mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
    world.condition = (struct umbra_condition)UMBRA_CONDITION_INIT;
    world.semaphore = (struct umbra_semaphore)UMBRA_SEMAPHORE_INIT(0);
    world.rwlock = (struct umbra_rwlock)UMBRA_RWLOCK_INIT;
    RETURNS(UMBRA_CHANNEL_OPEN(&world.channel, 1 + world.seed % 5, UMBRA_CHANNEL_MANY), 0);
    UMBRA_PORT_OPEN(&world.port[0], 0);
    UMBRA_PORT_OPEN(&world.port[1], 1 + world.seed % 3);
}

/* All is quiet: what was sent and not received must be there. */
static void world_close(void)
{
    struct umbra_message *message;
    uint64_t item;

    EXPECT(world.detached == world.ended);
    RETURNS(umbra_mutex_lock_deadline(&world.mutex, 0), 0);
    RETURNS(umbra_mutex_unlock(&world.mutex), 0);
    RETURNS(umbra_rwlock_unlock(&world.rwlock), -EPERM);
    while (umbra_semaphore_wait(&world.semaphore, 0) == 0)
        world.posts_taken++;
    EXPECT(world.posts_taken == world.posted);
    RETURNS(UMBRA_CHANNEL_CLOSE(&world.channel), 0);
    RETURNS(UMBRA_CHANNEL_CLOSE(&world.channel), -EALREADY);
    RETURNS(UMBRA_CHANNEL_PUSH(&world.channel, &item, UMBRA_NEVER), -EPIPE);
    for (; UMBRA_CHANNEL_POP(&world.channel, &item, UMBRA_NEVER) == 0; world.popped += item)
        world.pops++;
    EXPECT(world.pushes == world.pops && world.pushed == world.popped);
    UMBRA_CHANNEL_FINI(&world.channel);
    for (int i = 0; i < 2; i++) {
        RETURNS(umbra_port_close(&world.port[i]), 0);
        RETURNS(umbra_port_close(&world.port[i]), -EALREADY);
        for (; umbra_port_receive(&world.port[i], &message, UMBRA_NEVER) == 0; free(message))
            world.received++;
    }
    EXPECT(world.messages == world.received);
}

static void actor_start(struct actor *self)
{
    struct umbra_spawn_options options = {.where = UMBRA_ON_CORE};

    if (self->thread) {
        umbra_hold(world.runtime);
        RETURNS(-pthread_create(&self->in, NULL, acts_in_thread, self), 0);
        return;
    }
    options.core = (unsigned)roll(self, world.cores);
    RETURNS(umbra_spawn_with(world.runtime, &options, acts, self, &self->fiber), 0);
}

static void seed_run(uint64_t seed, unsigned steps)
{
    struct umbra_options options = {.cores = 1 + (unsigned)(seed >> 3) % 3, .oversubscribe = true};
    uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;

    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    world = (struct world){.seed = seed, .cores = options.cores, .steps = steps};
    alarm(HANGS_S);
    world_open();
    RETURNS(umbra_runtime_create(&options, &world.runtime), 0);
    for (unsigned i = 0; i < FIBERS + THREADS; i++) {
        struct actor *actor = &world.actor[i];

        *actor = (struct actor){.random = random_next(&random), .number = i + 1};
        actor->thread = i >= FIBERS;
        actor_start(actor);
    }
    for (unsigned i = 0; i < FIBERS; i++)
        EXPECT(joined(world.actor[i].fiber) == &world.actor[i]);
    for (unsigned i = FIBERS; i < FIBERS + THREADS; i++)
        RETURNS(-pthread_join(world.actor[i].in, NULL), 0);
    RETURNS(umbra_runtime_wait(world.runtime), 0);
    world_close();
    RETURNS(umbra_runtime_destroy(world.runtime), 0);
    alarm(0);
}

/* ---- arguments ---- */

static uint64_t number_of(const char *text)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end) {
        fprintf(stderr, "interface: not a number: '%s'\n", text);
        exit(2);
    }
    return number;
}

int main(int argc, char **argv)
{
    uint64_t seed = umbra_now_ns(), seeds = UINT64_MAX, end_ns = UINT64_MAX;
    bool by_time = argc == 3 && strcmp(argv[1], "--seconds") == 0;

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "interface: wanted: --seconds N | --seeds N | SEED [STEPS]\n");
        return 2;
    }
    signal(SIGALRM, hangs);
    if (by_time) {
        end_ns = umbra_now_ns() + number_of(argv[2]) * 1000000000;
    } else if (strcmp(argv[1], "--seeds") == 0 && argc == 3) {
        seeds = number_of(argv[2]);
    } else {
        seed_run(number_of(argv[1]), argc == 3 ? (unsigned)number_of(argv[2]) : STEPS);
        return 0;
    }
    for (uint64_t i = 0; i < seeds && umbra_now_ns() < end_ns; i++)
        seed_run(seed + i, STEPS);
    return 0;
}
