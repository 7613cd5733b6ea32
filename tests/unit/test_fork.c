/* SPDX-License-Identifier: BSL-1.0 */
/*
 * fork(2) in a program that has runtimes: what the child may do, and what it is refused.
 */
#define UMBRA_IMPLEMENTATION /* shows um_forks */
#define _GNU_SOURCE          /* for sched_getaffinity() */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fibers.h"

static void *nothing(void *arg)
{
    return arg;
}

/* Runs fn(arg) in a child process, whose exit status is 0 if that is true. */
static int status_of_child(bool (*fn)(void *arg), void *arg)
{
    int status = -1;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        alarm(20);
        _exit(!fn(arg));
    }
    cr_expect_eq(waitpid(child, &status, 0), child);
    return status;
}

/* ---- what runs once ---- */

static struct um_run_once once = {UM_RUN_NEVER};
static um_atomic_u32 times = 0; /* that its function has begun */
static um_atomic_u32 may_end = 0;

static void runs_once(void)
{
    um_atomic_fetch_add(&times, 1, seq_cst);
    while (!um_atomic_load(&may_end, seq_cst))
        sched_yield();
}

static void *calls_once(void *arg)
{
    um_once_in_process(&once, runs_once);
    return arg;
}

static bool runs_twice(void *arg)
{
    (void)arg;
    um_atomic_store(&may_end, 1, seq_cst);
    um_once_in_process(&once, runs_once);
    um_once_in_process(&once, runs_once);
    return um_atomic_load(&times, seq_cst) == 2;
}

/* The child has not the thread that was in the midst of it. */
Test(fork, what_runs_once_begins_anew_in_a_child_where_it_had_not_ended)
{
    pthread_t thread[3];

    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, calls_once, NULL), 0);
    while (um_atomic_load(&times, seq_cst) == 0)
        sched_yield();
    cr_expect_eq(status_of_child(runs_twice, NULL), 0);
    um_atomic_store(&may_end, 1, seq_cst);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    cr_expect_eq(um_atomic_load(&times, seq_cst), 1);
    cr_expect_eq(um_atomic_load(&once.state, seq_cst), UM_RUN_DONE);
}

static void is_canceled(void)
{
    pthread_cancel(pthread_self());
    pthread_testcancel();
    um_atomic_fetch_add(&times, 1, seq_cst);
}

static void *is_canceled_once(void *arg)
{
    um_once_in_process(&once, is_canceled);
    pthread_testcancel();
    return arg;
}

/* Else the next caller would wait for it for ever. */
Test(fork, what_runs_once_is_not_cut_off_by_a_cancellation)
{
    pthread_t thread;
    void *result = NULL;

    alarm(20);
    cr_assert_eq(pthread_create(&thread, NULL, is_canceled_once, NULL), 0);
    cr_assert_eq(pthread_join(thread, &result), 0);
    cr_expect_eq(result, PTHREAD_CANCELED, "afterwards");
    um_once_in_process(&once, is_canceled);
    cr_expect_eq(um_atomic_load(&times, seq_cst), 1);
}

/* ---- handlers ---- */

static bool takes_topology(void *arg)
{
    struct umbra_topology *topology;

    (void)arg;
    return umbra_topology_create(NULL, &topology) == 0 && (umbra_topology_destroy(topology), true);
}

/* If another thread registers them meanwhile, fork(2) of musl's calls those after it alone. */
Test(fork, handlers_after_it_alone_change_nothing)
{
    for (int i = 0; i < 2; i++) {
        um_forks_in_parent();
        um_forks_in_child();
    }
    cr_expect(takes_topology(NULL));
    cr_expect_eq(status_of_child(takes_topology, NULL), 0);
    um_forks_before();
    cr_expect_eq(pthread_mutex_trylock(&um_forks.lock), EBUSY, "the first");
    um_forks_before();
    um_forks_in_parent();
    cr_expect_eq(pthread_mutex_trylock(&um_forks.lock), EBUSY);
    um_forks_in_parent();
    cr_assert_eq(pthread_mutex_trylock(&um_forks.lock), 0, "the last");
    pthread_mutex_unlock(&um_forks.lock);
}

Test(fork, handlers_are_registered_before_the_program_begins)
{
    cr_expect_eq(um_atomic_load(&um_forks.once.state, relaxed), UM_RUN_DONE); /* one thread */
    cr_expect_eq(um_forks.error, 0);
}

/* Every module fails whose first call this is. */
Test(fork, where_the_handlers_could_not_be_registered_no_module_begins)
{
    struct umbra_topology_options pair = {.synthetic = "pu:2"};
    struct umbra_topology *topology, *other;
    struct umbra_team_options team_options = {.members = 1};
    struct umbra_shadow_options shadow_options = {.place_owner = true};
    struct umbra_options options = {.cores = 1};
    struct umbra_runtime *runtime;
    struct umbra_memory memory;
    struct umbra_shadow shadow;
    struct umbra_team *team;

    cr_assert_eq(umbra_topology_create(&pair, &topology), 0);
    um_forks.error = -ENOMEM;
    cr_expect_eq(umbra_topology_create(&pair, &other), -ENOMEM);
    cr_expect_eq(umbra_memory_create(NULL, 4096, &memory), -ENOMEM, "it needs a topology");
    options.topology = shadow_options.topology = team_options.topology = topology;
    cr_expect_eq(umbra_runtime_create(&options, &runtime), -ENOMEM);
    cr_expect_eq(umbra_team_create(&team_options, &team), -ENOMEM);
    cr_expect_eq(shadow_create(&shadow, &shadow_options), -ENOMEM);
    umbra_topology_destroy(topology);
}

static bool sleeps(void *arg)
{
    (void)arg;
    return umbra_sleep_ns(MS) == 0;
}

static bool forks_and_sleeps(void *arg)
{
    return status_of_child(sleeps, arg) == 0 && sleeps(arg);
}

Test(fork, handlers_that_are_registered_twice_do_no_harm)
{
    struct umbra_options options = {.cores = 1};
    struct umbra_runtime *runtime;
    struct umbra_team *team;
    struct umbra_shadow shadow;

    alarm(20);
    um_forks_init(); /* as in a child whose parent forked before what runs once had ended */
    cr_assert_eq(um_forks.error, 0);
    cr_assert(sleeps(NULL));
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    if (shadow_create(&shadow, NULL) == 0) /* not where there is one processor */
        shadow_destroy(&shadow);
    cr_assert_eq(umbra_team_create(NULL, &team), 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
    cr_assert_eq(status_of_child(forks_and_sleeps, NULL), 0);
    cr_assert(sleeps(NULL));
    cr_assert_eq(umbra_runtime_run(runtime, nothing, NULL), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

/* ---- the parent's runtime ---- */

struct parent {
    struct umbra_runtime *runtime;
    struct umbra_event event;
    struct umbra_fiber waits; /* for the event */
    struct umbra_fiber ended;
};

enum { FORKS = 100 };

static void *cancels(void *arg)
{
    while (!um_atomic_load((um_atomic_u32 *)arg, relaxed)) {
        umbra_cancel(umbra_self()); /* takes a wait's memory */
        umbra_yield();
    }
    return NULL;
}

static bool waits_a_while(void *arg)
{
    struct umbra_event event;

    (void)arg;
    event = (struct umbra_event)UMBRA_EVENT_INIT;
    return umbra_event_wait(&event, umbra_deadline(10 * MS)) == -ETIMEDOUT;
}

Test(fork, child_may_wait_though_fibers_of_its_parent_did_and_no_thread)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    struct umbra_runtime *runtime;
    um_atomic_u32 enough = 0;

#ifdef UMBRA_UNDER_ASAN
    cr_skip_test("AddressSanitizer's allocator may be locked in the child of several threads");
#endif
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (unsigned core = 0; core < options.cores; core++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = core};

        cr_assert_eq(umbra_spawn_with(runtime, &there, cancels, &enough, NULL), 0);
    }
    for (int i = 0; i < FORKS; i++)
        cr_assert_eq(status_of_child(waits_a_while, NULL), 0);
    um_atomic_store(&enough, 1, relaxed);
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

static void *waits(void *arg)
{
    umbra_event_wait(arg, UMBRA_NEVER);
    return NULL;
}

static void start_parent(struct parent *parent)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};

    parent->event = (struct umbra_event)UMBRA_EVENT_INIT;
    cr_assert_eq(umbra_runtime_create(&options, &parent->runtime), 0);
    cr_assert_eq(umbra_spawn_with(parent->runtime, NULL, waits, &parent->event, &parent->waits), 0);
    cr_assert_eq(umbra_spawn_with(parent->runtime, NULL, nothing, NULL, &parent->ended), 0);
}

static void end_parent(struct parent *parent)
{
    umbra_event_signal(&parent->event);
    cr_assert_eq(umbra_join(parent->waits, UMBRA_NEVER, NULL), 0,
                 "the parent's runtime is as before");
    cr_assert_eq(umbra_join(parent->ended, UMBRA_NEVER, NULL), 0);
    cr_assert_eq(umbra_runtime_destroy(parent->runtime), 0);
}

static void does_nothing(void *arg)
{
    (void)arg;
}

static bool is_refused(void *arg)
{
    struct parent *parent = arg;
    struct umbra_runtime *runtime = parent->runtime;
    struct umbra_task task;

    umbra_hold(runtime);
    umbra_release(runtime);
    return umbra_runtime_wait(runtime) == -EPERM &&
           umbra_runtime_run(runtime, nothing, NULL) == -EPERM &&
           umbra_spawn_with(runtime, NULL, nothing, NULL, NULL) == -EPERM &&
           umbra_join(parent->waits, UMBRA_NEVER, NULL) == -EPERM &&
           umbra_join(parent->ended, UMBRA_NEVER, NULL) == -EPERM &&
           umbra_detach(parent->waits) == -EPERM && umbra_cancel(parent->waits) == -EPERM &&
           umbra_task_start(runtime, &task, does_nothing, NULL) == -EPERM &&
           umbra_task_set_limits(runtime, NULL) == -EPERM &&
           umbra_runtime_destroy(runtime) == -EPERM;
}

Test(fork, child_is_refused_its_parents_runtime)
{
    struct parent parent;

    start_parent(&parent);
    cr_expect_eq(status_of_child(is_refused, &parent), 0);
    end_parent(&parent);
}

static bool is_refused_to_childs_child(void *arg)
{
    return status_of_child(is_refused, arg) == 0;
}

Test(fork, childs_child_is_refused_it_too)
{
    struct parent parent;

    start_parent(&parent);
    cr_expect_eq(status_of_child(is_refused_to_childs_child, &parent), 0);
    end_parent(&parent);
}

/* What the child of a handler does when fork(2), which it has not begun, returns to it. */
static bool goes_on_as_child(void *arg)
{
    um_forks_in_parent();
    return is_refused(arg);
}

/* Handlers that the program registers before the library is loaded are called amid the library's. */
Test(fork, child_that_a_handler_forks_is_one_when_fork_returns_to_it)
{
    struct parent parent;

    start_parent(&parent);
    um_forks_before();
    cr_expect_eq(status_of_child(goes_on_as_child, &parent), 0);
    um_forks_in_parent();
    end_parent(&parent);
}

static void *refused_to_a_fiber(void *arg)
{
    return is_refused(arg) ? arg : NULL;
}

static bool is_refused_to_own_fibers(void *arg)
{
    struct umbra_options options = {.cores = 1};
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;
    void *result = NULL;

    return umbra_runtime_create(&options, &runtime) == 0 &&
           umbra_spawn_with(runtime, NULL, refused_to_a_fiber, arg, &fiber) == 0 &&
           umbra_join(fiber, UMBRA_NEVER, &result) == 0 && result == arg &&
           umbra_runtime_destroy(runtime) == 0;
}

Test(fork, fibers_of_the_child_are_refused_it_too)
{
    struct parent parent;

#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer starts no threads after a fork of several");
#endif
    start_parent(&parent);
    cr_expect_eq(status_of_child(is_refused_to_own_fibers, &parent), 0);
    end_parent(&parent);
}

/* ---- descriptors ---- */

#ifdef UM_OS_HANDLES    /* else there are no files for traces */
#define DESCRIPTORS 256 /* looked at */

static bool known[DESCRIPTORS]; /* before the first runtime */

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static bool has_no_other(void *arg)
{
    int others = 0;

    (void)arg;
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        others += is_open(fd) && !known[fd];
    return others == 0;
}

/* variable: what is recorded. Each in a process of its own, which reads its environment once. */
static bool forks_beside_a_trace(void *variable)
{
    char path[] = "/tmp/umbra-test-XXXXXX";
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct umbra_runtime *runtime;
    int made = mkstemp(path);
    bool right;

    setenv(variable, strcmp(variable, "UMBRA_TRACE") == 0 ? path : "1", 1);
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        known[fd] = is_open(fd);
    right = made >= 0 && umbra_runtime_create(&options, &runtime) == 0 &&
            umbra_runtime_run(runtime, nothing, NULL) == 0 &&
            status_of_child(has_no_other, NULL) == 0 && umbra_runtime_destroy(runtime) == 0;
    unlink(path);
    return right;
}

/* Else the file would be locked as long as the child lives. */
Test(fork, child_keeps_no_descriptor_of_its_parents_traces)
{
    static char *const variables[] = {"UMBRA_TRACE", "UMBRA_TOP"};

#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer starts no threads after a fork of several");
#endif
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        cr_expect_eq(status_of_child(forks_beside_a_trace, variables[i]), 0, "%s", variables[i]);
}
#endif

/* ---- in a fiber ---- */

struct in_fiber {
    bool (*fn)(void *arg); /* what the child does */
    void *arg;
    int status;
};

static void *forks(void *arg)
{
    struct in_fiber *in = arg;

    umbra_yield();
    in->status = status_of_child(in->fn, in->arg);
    umbra_yield();
    return NULL;
}

/* The status of a child that a fiber forks, beside others. */
static int status_in_fiber(struct umbra_options options, bool (*fn)(void *arg), void *arg)
{
    struct in_fiber in = {.fn = fn, .arg = arg, .status = -1};

    options.oversubscribe = true;
    cr_expect_eq(umbra_run(&options, forks, &in), 0, "the parent's fiber goes on");
    return in.status;
}

static void signals(void *event)
{
    umbra_event_signal(event);
}

static bool is_a_plain_thread(void *arg)
{
    struct umbra_event event;
    struct umbra_task task;
    struct umbra_fiber fiber;
    unsigned key;

    event = (struct umbra_event)UMBRA_EVENT_INIT;
    umbra_yield();
    umbra_task_fork(&task, signals, &event);
    umbra_task_join(&task, UMBRA_NEVER);
    return umbra_core_index() == -1 && umbra_self().block == NULL && !umbra_runtime_self() &&
           !own_shadow() && umbra_spawn(nothing, NULL, &fiber) == -EPERM &&
           umbra_local_create(NULL, &key) == 0 && umbra_local_set(key, arg) == -EPERM &&
           umbra_event_wait(&event, UMBRA_NEVER) == 0 &&
           umbra_event_wait(&event, umbra_deadline(MS)) == -ETIMEDOUT;
}

Test(fork, child_of_a_fiber_goes_on_as_a_plain_thread)
{
    struct umbra_options options = {.cores = 2};

    cr_assert_eq(status_in_fiber(options, is_a_plain_thread, NULL), 0);
}

/* ---- tasks of a child: its thread is no core any more, and none of the core's tasks are its own */

enum { TASKS = 3 };

static void increments(void *count)
{
    um_atomic_fetch_add((um_atomic_u32 *)count, 1, relaxed);
}

/* In each order of joins. */
static bool runs_tasks(void *arg)
{
    static const unsigned orders[][TASKS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                             {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    bool right = true;

    (void)arg;
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        struct umbra_task task[TASKS];
        um_atomic_u32 count = 0;

        for (unsigned k = 0; k < TASKS; k++)
            umbra_task_fork(&task[k], increments, &count);
        for (unsigned k = 0; k < TASKS; k++)
            right = umbra_task_join(&task[orders[i][k]], umbra_deadline(SECOND)) == 0 && right;
        right = right && um_atomic_load(&count, relaxed) == TASKS;
    }
    return right;
}

struct forks_among_tasks {
    unsigned cores;
    unsigned forked; /* tasks that the parent's fiber has forked and not joined */
    int status;
};

static void *forks_among_tasks(void *arg)
{
    struct forks_among_tasks *in = arg;
    struct umbra_task task[TASKS];
    um_atomic_u32 count = 0;

    for (unsigned i = 0; i < in->forked; i++)
        umbra_task_fork(&task[i], increments, &count);
    in->status = status_of_child(runs_tasks, NULL);
    for (unsigned i = in->forked; i-- > 0;)
        cr_expect_eq(umbra_task_join(&task[i], UMBRA_NEVER), 0);
    cr_expect_eq(um_atomic_load(&count, relaxed), in->forked);
    return NULL;
}

Test(fork, child_of_a_fiber_runs_tasks_whatever_its_core_had)
{
    struct forks_among_tasks in = {.cores = 0};

    for (in.cores = 1; in.cores <= 2; in.cores++)
        for (in.forked = 0; in.forked <= TASKS; in.forked += TASKS) {
            in.status = -1;
            cr_expect_eq(run_cores(in.cores, forks_among_tasks, &in), 0);
            cr_expect_eq(in.status, 0, "%u cores, %u tasks", in.cores, in.forked);
        }
}

static void *counts(void *arg)
{
    struct umbra_fiber fiber;

    ++*(unsigned *)arg;
    return (void *)(uintptr_t)(umbra_spawn(nothing, NULL, &fiber) == 0 &&
                               umbra_join(fiber, UMBRA_NEVER, NULL) == 0);
}

static bool runs_its_own(void *arg)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    unsigned count = 0;

    (void)arg;
    return umbra_run(&options, counts, &count) == 0 && umbra_run(NULL, counts, &count) == 0 &&
           count == 2;
}

Test(fork, child_of_a_fiber_may_start_a_runtime_of_its_own)
{
    struct umbra_options options = {.cores = 2, .stack_bytes = 262144};

#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer starts no threads after a fork of several");
#endif
    cr_assert_eq(status_in_fiber(options, runs_its_own, NULL), 0);
}

static bool has_affinity(void *arg)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_EQUAL(&set, (cpu_set_t *)arg);
}

Test(fork, child_of_a_fiber_may_use_the_processors_that_the_runtime_began_with)
{
    struct umbra_options options = {.cores = 1};
    cpu_set_t set;

    cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    if (CPU_COUNT(&set) < 2)
        cr_skip_test("needs two processors");
    cr_assert_eq(status_in_fiber(options, has_affinity, &set), 0);
    options.shadows = true;
    cr_assert_eq(status_in_fiber(options, has_affinity, &set), 0, "with a shadow");
    cr_assert(has_affinity(&set), "and the creator of the runtime still may");
}

static bool makes_a_shadow(void *arg)
{
    struct umbra_shadow shadow;

    return shadow_create(&shadow, NULL) == 0 && shadow_fork(&shadow, arg, NULL) == 0 &&
           shadow_join(&shadow) == 0 && shadow_destroy(&shadow) == 0;
}

static void no_errand(void *arg)
{
    (void)arg;
}

Test(fork, child_of_a_fiber_may_create_a_shadow)
{
    struct umbra_options options = {.cores = 1, .shadows = true, .stack_bytes = 262144};
    cpu_set_t set;

#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer starts no threads after a fork of several");
#endif
    cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    if (CPU_COUNT(&set) < 2)
        cr_skip_test("needs two processors");
    cr_assert_eq(status_in_fiber(options, makes_a_shadow, (void *)no_errand), 0);
}

/* ---- the end of the child ---- */

enum { AT_EXIT = 40, AT_EXIT_AND_FREED };

static bool freed;

static void at_exit(void)
{
    _exit(freed ? AT_EXIT_AND_FREED : AT_EXIT);
}

static void frees(void *value)
{
    (void)value;
    freed = true;
}

static void *returns_in_child(void *arg)
{
    unsigned key;
    pid_t child;

    umbra_local_create(frees, &key);
    if (arg)
        umbra_local_set(key, &freed);
    child = fork();
    if (child == 0) {
        atexit(at_exit); /* called before those of the test */
        alarm(20);
    }
    return (void *)(intptr_t)child;
}

static void *joins_forking(void *arg)
{
    for (int i = 0; i < 2; i++) {
        struct umbra_fiber fiber;
        void *child = NULL;
        int status = -1;

        cr_expect_eq(umbra_spawn(returns_in_child, i > 0 ? arg : NULL, &fiber), 0);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &child), 0);
        cr_expect_neq(child, NULL, "the child has come back to the joiner");
        cr_expect_eq(waitpid((pid_t)(intptr_t)child, &status, 0), (pid_t)(intptr_t)child);
        cr_expect(WIFEXITED(status), "status %#x", (unsigned)status);
        cr_expect_eq(WEXITSTATUS(status), i > 0 ? AT_EXIT_AND_FREED : AT_EXIT);
    }
    return NULL;
}

Test(fork, child_exits_when_the_fibers_function_returns)
{
    cr_assert_eq(run_cores(1, joins_forking, &freed), 0);
}
