/* SPDX-License-Identifier: BSL-1.0 */
/* What is used while calls fail: the table, and fibers and what they wait for. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <umbra.h>

#include "scenario.h"

atomic_int first_error, first_wrong;

/* ---- fibers ---- */

#define FIBERS 40

static void *echo(void *arg)
{
    return arg;
}

static void *spawns(void *unused)
{
    static char mark[FIBERS];
    struct umbra_fiber fiber[FIBERS];
    int made = 0;

    for (; made < FIBERS; made++) {
        struct umbra_spawn_options options = {.where = made % 3 == 0   ? UMBRA_HERE
                                                       : made % 3 == 1 ? UMBRA_ON_CORE
                                                                       : UMBRA_ANYWHERE,
                                              .core = 1,
                                              .name = "echo",
                                              .stack_bytes = made == 7 ? 1 << 20 : 0};

        if (!note(umbra_spawn_with(NULL, &options, echo, &mark[made], &fiber[made])))
            break;
    }
    for (int i = 0; i < made; i++) {
        void *value = NULL;

        if (note(umbra_join(fiber[i], UMBRA_NEVER, &value)))
            ALWAYS(value == &mark[i]);
    }
    return unused;
}

static int use_fibers(void)
{
    return on_two_cores(spawns);
}

#define MANY 20 /* events for one wait */

static void *sleeps(void *unused)
{
    struct umbra_event never = UMBRA_EVENT_INIT, nor_these[MANY];
    struct umbra_event *all[MANY];
    int error;

    for (int i = 0; i < MANY; i++) {
        nor_these[i] = (struct umbra_event)UMBRA_EVENT_INIT;
        all[i] = &nor_these[i];
    }
    note(umbra_sleep_ns(MS / 10));
    error = umbra_event_wait(&never, umbra_deadline(MS / 10));
    ALWAYS(error < 0);
    note(error == -ETIMEDOUT ? 0 : error);
    error = umbra_event_wait_any(all, MANY, umbra_deadline(MS / 10), NULL);
    ALWAYS(error < 0);
    note(error == -ETIMEDOUT ? 0 : error);
    return unused;
}

/* The first file that is opened would become standard input. */
static int use_without_input(void)
{
    __real_close(0);
    return use_fibers();
}

static void *sleeps_on_both(void *unused)
{
    on_both(sleeps, NULL, NULL);
    return unused;
}

static int use_timers(void)
{
    return on_two_cores(sleeps_on_both);
}

static void *waits_to_be_canceled(void *value)
{
    unsigned *key = value;

    note(umbra_local_set(*key, key));
    umbra_sleep_ns(LONG);
    return value;
}

static void *cancels(void *unused)
{
    static unsigned key;
    struct umbra_spawn_options stopped = {.stopped = true};
    struct umbra_fiber fiber;

    if (!note(umbra_local_create(NULL, &key)) ||
        !note(umbra_spawn_with(NULL, &stopped, waits_to_be_canceled, &key, &fiber)))
        return NULL;
    if (!note(umbra_continue(fiber)))
        return NULL;
    umbra_yield();
    note(umbra_cancel(fiber));
    note(umbra_join(fiber, umbra_deadline(LONG), NULL));
    return unused;
}

static int use_cancel(void)
{
    return on_two_cores(cancels);
}

static void nothing(void *unused)
{
    (void)unused;
}

static void *looks(void *unused)
{
    int fd = open("/dev/null", O_WRONLY);
    struct umbra_fiber_info info;

    umbra_dump(umbra_runtime_self(), fd);
    __real_close(fd);
    ALWAYS(umbra_fiber_info(umbra_self(), &info) >= 0);
    note(umbra_core_unbound(nothing, NULL));
    return unused;
}

static int use_reports(void)
{
    int nowhere = open("/dev/null", O_WRONLY);
    struct umbra_options options = {.dump_signal = SIGUSR2, .watchdog_ms = 5000};

    dup2(nowhere, 2); /* what the signal prints, and the counters */
    __real_close(nowhere);
    return on_two_cores_with(options, looks);
}

/* ---- what fibers and threads wait for ---- */

static struct umbra_event bell = UMBRA_EVENT_INIT, answer = UMBRA_EVENT_INIT;

static void *answers(void *unused)
{
    note(umbra_event_wait(&bell, UMBRA_NEVER));
    umbra_event_signal(&answer);
    return unused;
}

static void *rings(void *unused)
{
    umbra_event_signal(&bell);
    note(umbra_event_wait(&answer, umbra_deadline(LONG)));
    return unused;
}

static int use_runtime(void)
{
    struct umbra_options options = {.quiet = true, .topology = topology};
    char cpus[20];
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;

    snprintf(cpus, sizeof(cpus), "%d", umbra_topology_info(topology)->cpu[0].cpu);
    options.cpus = cpus;
    if (!note(umbra_runtime_create(&options, &runtime)))
        return result();
    if (note(umbra_spawn_with(runtime, NULL, answers, NULL, &fiber))) {
        in_thread(rings, NULL);
        note(umbra_join(fiber, UMBRA_NEVER, NULL));
    }
    note(umbra_runtime_wait(runtime));
    note(umbra_runtime_destroy(runtime));
    return result();
}

static struct umbra_mutex mutex = UMBRA_MUTEX_INIT;
static struct umbra_condition changed = UMBRA_CONDITION_INIT;
static struct umbra_semaphore semaphore = UMBRA_SEMAPHORE_INIT(0);
static struct umbra_rwlock rwlock = UMBRA_RWLOCK_INIT;
static struct umbra_barrier barrier = UMBRA_BARRIER_INIT(2);
static struct umbra_latch latch = UMBRA_LATCH_INIT(2);
static int counted, expected, turns;

static void *counts(void *unused)
{
    for (int i = 0; i < 20; i++) {
        if (!note(umbra_mutex_lock_deadline(&mutex, umbra_deadline(LONG))))
            return NULL;
        expected++;
        umbra_yield();
        counted++;
        note(umbra_mutex_unlock(&mutex));
    }
    return unused;
}

static void *meets(void *unused)
{
    int last = umbra_barrier_wait(&barrier, umbra_deadline(LONG));

    note(last < 0 ? last : 0);
    umbra_latch_count_down(&latch);
    note(umbra_latch_wait(&latch, umbra_deadline(LONG)));
    return unused;
}

static void *takes_turns(void *self)
{
    int mine = self == &turns;

    if (!note(umbra_mutex_lock_deadline(&mutex, umbra_deadline(LONG))))
        return NULL;
    for (int i = 0; i < 10 && first_error == 0; i++) {
        while (turns % 2 != mine &&
               note(umbra_condition_wait(&changed, &mutex, umbra_deadline(LONG))))
            ;
        turns++;
        umbra_condition_notify(&changed, true);
    }
    note(umbra_mutex_unlock(&mutex));
    return NULL;
}

static void *reads_and_writes(void *writes)
{
    for (int i = 0; i < 20; i++) {
        int error = writes ? umbra_rwlock_write_deadline(&rwlock, umbra_deadline(LONG))
                           : umbra_rwlock_read_deadline(&rwlock, umbra_deadline(LONG));

        if (!note(error))
            return NULL;
        umbra_yield();
        note(umbra_rwlock_unlock(&rwlock));
        umbra_semaphore_post(&semaphore, 1);
        note(umbra_semaphore_wait(&semaphore, umbra_deadline(LONG)));
    }
    return NULL;
}

static void *synchronises(void *unused)
{
    on_both(counts, NULL, NULL);
    on_both(meets, NULL, NULL);
    on_both(takes_turns, NULL, &turns);
    on_both(reads_and_writes, NULL, &rwlock);
    in_thread(counts, NULL);
    ALWAYS(counted == expected);
    MUST(counted == 60 && turns == 20);
    return unused;
}

static int use_sync(void)
{
    return on_two_cores(synchronises);
}

/* ---- messages ---- */

#define ITEMS 50

static void *pushes(void *channel)
{
    for (int i = 0; i < ITEMS; i++)
        if (!note(umbra_channel_push(channel, &i, umbra_deadline(LONG))))
            break;
    umbra_channel_close(channel);
    return NULL;
}

static void *passes_through(void *sides)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 1};
    struct umbra_channel channel;
    struct umbra_fiber fiber;
    int item, popped = 0, error = 0;

    if (!note(umbra_channel_init(&channel, 4, sizeof(int),
                                 sides ? UMBRA_CHANNEL_ONE : UMBRA_CHANNEL_MANY)))
        return NULL;
    if (note(umbra_spawn_with(NULL, &there, pushes, &channel, &fiber))) {
        while ((error = umbra_channel_pop(&channel, &item, umbra_deadline(LONG))) == 0)
            ALWAYS(item == popped++);
        note(error == -EPIPE ? 0 : error);
        MUST(popped == ITEMS);
        umbra_channel_close(&channel);
        while (umbra_join(fiber, UMBRA_NEVER, NULL) != 0)
            umbra_yield();
    }
    umbra_channel_fini(&channel);
    return NULL;
}

static void *passes_both_ways(void *unused)
{
    passes_through(unused);
    passes_through(&bell);
    return NULL;
}

static int use_channels(void)
{
    return on_two_cores(passes_both_ways);
}

struct job {
    struct umbra_message message;
    int number;
};

static UMBRA_PORT(struct job) jobs = {UMBRA_PORT_INIT_BOUNDED(4)};
static UMBRA_PORT(struct job) others = {UMBRA_PORT_INIT};
static struct job job[ITEMS], other[ITEMS];
static atomic_int handled;

static void *posts(void *unused)
{
    for (int i = 0; i < ITEMS; i++) {
        job[i].number = other[i].number = i;
        if (!note(UMBRA_PORT_POST(&others, &other[i], UMBRA_NEVER)) ||
            !note(UMBRA_PORT_POST(&jobs, &job[i], umbra_deadline(LONG))))
            break;
    }
    UMBRA_PORT_CLOSE(&jobs);
    UMBRA_PORT_CLOSE(&others);
    return unused;
}

static void handles(struct umbra_message *messages, void *arg)
{
    (void)messages;
    (void)arg;
    handled++;
}

static struct umbra_branch both_ports[] = {
    {UMBRA_JOIN(UMBRA_FROM(&jobs), UMBRA_FROM(&others)), .handler = handles},
};

static void *receives(void *unused)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 1};
    struct umbra_message *messages;
    struct umbra_arbiter arbiter;
    unsigned which;
    int error;

    if (!note(umbra_spawn_with(NULL, &there, posts, NULL, NULL)))
        return NULL;
    if (note(umbra_choose(both_ports, 1, umbra_deadline(LONG), &which, &messages)))
        handled++;
    if (note(umbra_arbiter_start(&arbiter, both_ports, 1, NULL))) {
        while ((error = umbra_arbiter_join(&arbiter, UMBRA_NEVER)) != 0 && error != -EPIPE)
            umbra_yield();
    } else {
        UMBRA_PORT_CLOSE(&jobs);
    }
    MUST(handled == ITEMS);
    return unused;
}

static int use_ports(void)
{
    return on_two_cores(receives);
}

/* ---- work ---- */

static void adds_range(size_t begin, size_t end, void *sum)
{
    atomic_fetch_add((atomic_size_t *)sum, end - begin);
}

static void begins_at_0(void *value, void *arg)
{
    (void)arg;
    *(size_t *)value = 0;
}

static void reduces_range(size_t begin, size_t end, void *value, void *arg)
{
    (void)arg;
    *(size_t *)value += end - begin;
}

static void joins_values(void *value, const void *right, void *arg)
{
    (void)arg;
    *(size_t *)value += *(const size_t *)right;
}

static void forks_down(void *depth)
{
    struct umbra_task left, right;
    uintptr_t below = (uintptr_t)depth - 1;

    if (!depth) {
        handled++;
        return;
    }
    umbra_task_fork(&left, forks_down, (void *)below);
    umbra_task_fork(&right, forks_down, (void *)below);
    umbra_task_join(&right, UMBRA_NEVER);
    umbra_task_join(&left, UMBRA_NEVER);
}

/* Tasks have no errors: all must run. */
static void *works(void *unused)
{
    static const struct umbra_reduction sums = {sizeof(size_t), begins_at_0, reduces_range,
                                                joins_values};
    atomic_size_t sum = 0;
    size_t total = 0;
    struct umbra_task started;

    handled = 0;
    forks_down((void *)6);
    ALWAYS(handled == 64);
    umbra_parallel_for(0, 100000, 100, adds_range, &sum);
    ALWAYS(sum == 100000);
    ALWAYS(umbra_parallel_reduce(0, 100000, 100, &sums, NULL, &total) == 0 && total == 100000);
    handled = 0;
    if (note(umbra_task_start(NULL, &started, forks_down, (void *)2)))
        umbra_task_join(&started, UMBRA_NEVER);
    MUST(handled == 4);
    return unused;
}

static int use_tasks(void)
{
    return on_two_cores(works);
}

static int processes(struct umbra_worker *worker, struct umbra_value value, void *sum)
{
    if (value.end == 0)
        return umbra_worker_range(worker, 0, 10, 1, UMBRA_ANY_WORKER);
    atomic_fetch_add((atomic_size_t *)sum, value.end - value.begin);
    return 0;
}

static void *dispatches(void *unused)
{
    atomic_size_t sum = 0;
    struct umbra_dispatch_options options = {.fn = processes, .arg = &sum, .scratch_bytes = 100};
    struct umbra_dispatch *dispatch;

    if (!note(umbra_dispatch_create(NULL, &options, &dispatch)))
        return NULL;
    for (int step = 0; step < 3; step++) {
        if (!note(umbra_dispatch_begin(dispatch)))
            break;
        note(umbra_dispatch_range(dispatch, 0, 1000, 1));
        for (int i = 0; i < 200; i++)
            note(umbra_dispatch_put(dispatch, &sum, UMBRA_ANY_NODE));
        note(umbra_dispatch_end(dispatch, UMBRA_NEVER));
    }
    MUST(sum == 3 * (1000 + 200 * 10));
    note(umbra_dispatch_destroy(dispatch));
    return unused;
}

static int use_dispatch(void)
{
    return on_two_cores(dispatches);
}

static void blocks(void *done)
{
    usleep(100);
    *(int *)done = 1;
}

static void *calls_a_helper(void *unused)
{
    int done = 0;

    if (note(umbra_blocking(blocks, &done)))
        ALWAYS(done == 1);
    else
        ALWAYS(done == 0);
    return unused;
}

static void *calls_helpers(void *unused)
{
    on_both(calls_a_helper, NULL, NULL);
    calls_a_helper(NULL);
    return unused;
}

static int use_blocking(void)
{
    in_thread(calls_a_helper, NULL);
    return on_two_cores(calls_helpers);
}

/* ---- processes ---- */

static void *forks(void *unused)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        _exit(on_two_cores(spawns) > 0);
    }
    waitpid(child, &status, 0);
    ALWAYS(status == 0);
    return unused;
}

static int use_fork(void)
{
    return on_two_cores(forks);
}

#define TRACE "UMBRA_TRACE", "umbra-faults-%p"

const struct scenario scenarios[] = {
    {"fibers", use_fibers, {{NULL}}, false},
    {"guards", use_fibers, {{"UMBRA_GUARD", "protection"}}, false},
    {"timers", use_timers, {{NULL}}, false},
    {"cancel", use_cancel, {{NULL}}, false},
    {"reports", use_reports, {{"UMBRA_STATS", "1"}}, false},
    {"runtime", use_runtime, {{NULL}}, false},
    {"sync", use_sync, {{NULL}}, false},
    {"channels", use_channels, {{NULL}}, false},
    {"ports", use_ports, {{NULL}}, false},
    {"tasks", use_tasks, {{NULL}}, false},
    {"limits", use_tasks, {{"UMBRA_TASK_LIVE", "10"}, {"UMBRA_TASK_DEPTH", "4"}}, false},
    {"dispatch", use_dispatch, {{NULL}}, false},
    {"blocking", use_blocking, {{NULL}}, false},
    {"fork", use_fork, {{NULL}}, false},
    {"trace", use_without_input, {{TRACE}, {"UMBRA_TRACE_RECORDS", "1024"}}, false},
    {"top", use_timers, {{"UMBRA_TOP", "1"}}, false},
    {"pipes-pool", use_pipes, {{"UMBRA_IO", "pool"}}, false},
    {"pipes-uring", use_pipes, {{"UMBRA_IO", "uring"}}, false},
    {"sockets-pool", use_sockets, {{"UMBRA_IO", "pool"}}, false},
    {"sockets-uring", use_sockets, {{"UMBRA_IO", "uring"}}, false},
    {"files-pool", use_files, {{"UMBRA_IO", "pool"}}, false},
    {"files-uring", use_files, {{"UMBRA_IO", "uring"}}, false},
    {"local-pool", use_local_connections, {{"UMBRA_IO", "pool"}}, false},
    {"left-pool", use_left_calls, {{"UMBRA_IO", "pool"}}, false},
    {"left-uring", use_left_calls, {{"UMBRA_IO", "uring"}}, false},
    {"connections-pool", use_connections, {{"UMBRA_IO", "pool"}}, false},
    {"connections-uring", use_connections, {{"UMBRA_IO", "uring"}}, false},
    {"io-thread", use_io_in_a_thread, {{NULL}}, false},
    {"memory", use_memory, {{NULL}}, false},
    {"bound-memory", use_bound_memory, {{NULL}}, false},
    {"machine", use_machine, {{NULL}}, true},
    {"descriptions", use_descriptions, {{NULL}}, true},
    {"shadow", use_shadow, {{NULL}}, false},
    {"shadows", use_shadows_of_cores, {{NULL}}, false},
    {"team", use_team, {{NULL}}, false},
};

const unsigned scenario_count = sizeof(scenarios) / sizeof(scenarios[0]);
