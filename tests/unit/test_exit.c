/* SPDX-License-Identifier: BSL-1.0 */
/* A fiber that ends by pthread_exit(): the fiber ends, and its core goes on. */
#define _GNU_SOURCE
#include "child.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <umbra.h>

#ifndef UMBRA_UNDER_TSAN

enum { SECONDS = 60 };

#ifdef UMBRA_UNDER_ASAN
enum {
    TIMES = 2
}; /* the sanitizer lets each thread call destructors four times, and then forgets it */
#else
enum { TIMES = 5000 };
#endif

static void *exits(void *arg)
{
    pthread_exit(arg);
}

static void *returns(void *arg)
{
    return arg;
}

static void run(umbra_fiber_fn *fn, void *arg)
{
    struct umbra_options options = {.cores = 1};

    alarm(SECONDS); /* else a core that is gone is waited for */
    cr_assert_eq(umbra_run(&options, fn, arg), 0);
}

/* ---- joins ---- */

static void *joins(void *arg)
{
    struct umbra_fiber fiber;
    void *result = &fiber;

    umbra_spawn(exits, &fiber, &fiber);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
    cr_expect_null(result);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &result), -ESRCH);
    return arg;
}

Test(pthread_exit, ends_the_fiber_and_is_joined_as_one_that_returns_null)
{
    run(joins, NULL);
}

Test(pthread_exit, ends_the_only_fiber)
{
    run(exits, NULL);
}

static void *ended_detached;

static void *exits_detached(void *arg)
{
    umbra_detach(umbra_self());
    ended_detached = arg;
    pthread_exit(NULL);
}

static void *spawns_detached(void *arg)
{
    umbra_spawn(exits_detached, &ended_detached, NULL);
    umbra_yield();
    return arg;
}

Test(pthread_exit, ends_a_detached_fiber)
{
    run(spawns_detached, NULL);
    cr_assert_eq(ended_detached, &ended_detached);
}

Test(pthread_exit, is_joined_by_a_thread)
{
    struct umbra_options options = {.cores = 1};
    struct umbra_spawn_options on_core = {.where = UMBRA_ON_CORE};
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;
    void *result = &fiber;

    alarm(SECONDS);
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, &on_core, exits, &fiber, &fiber), 0);
    cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
    cr_assert_null(result);
    cr_assert_eq(umbra_runtime_run(runtime, joins, NULL), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

static void *joins_elsewhere(void *arg)
{
    struct umbra_spawn_options other = {.where = UMBRA_ON_CORE, .core = 1};
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_spawn_with(NULL, &other, exits, NULL, &fiber), 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_spawn_with(NULL, &other, returns, &fiber, &fiber), 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(pthread_exit, is_joined_from_another_core)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};

    alarm(SECONDS);
    cr_assert_eq(umbra_run(&options, joins_elsewhere, NULL), 0);
}

/* musl calls the destructors of a thread on the stack where pthread_exit() is called. */
static void *exits_in_place(void *arg)
{
    um_core_thread_exits(um_core_self);
    return arg;
}

static void *joins_in_place(void *arg)
{
    for (int i = 0; i < 3; i++) {
        struct umbra_fiber fiber;
        void *result = &fiber;

        umbra_spawn(exits_in_place, &fiber, &fiber);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
        cr_expect_null(result);
    }
    return arg;
}

Test(pthread_exit, ends_the_fiber_if_destructors_are_called_on_its_stack)
{
    run(joins_in_place, NULL);
}

/* ---- again and again ---- */

static unsigned exited;

static void *exits_later(void *arg)
{
    char room[4096];

    memset(room, 1, sizeof(room));
    umbra_yield();
    exited += (unsigned)room[exited % sizeof(room)];
    return exits(arg);
}

static void *exits_and_others(void *arg)
{
    for (int i = 0; i < TIMES; i++) {
        struct umbra_fiber first, second;
        void *result = NULL;

        umbra_spawn(exits_later, arg, &first);
        umbra_spawn(returns, &exited, &second);
        cr_assert_eq(umbra_join(first, UMBRA_NEVER, NULL), 0);
        cr_assert_eq(umbra_join(second, UMBRA_NEVER, &result), 0);
        cr_assert_eq(result, &exited);
    }
    return arg;
}

Test(pthread_exit, may_end_any_number_of_fibers)
{
    run(exits_and_others, NULL);
    cr_assert_eq(exited, TIMES);
}

/* ---- what else ends ---- */

static unsigned local_key, cleaned, destroyed;

static void count(void *counter)
{
    umbra_yield(); /* a destructor may switch */
    ++*(unsigned *)counter;
}

static void clean(void *counter)
{
    ++*(unsigned *)counter;
}

static void *exits_cleaning(void *arg)
{
    umbra_local_set(local_key, &destroyed);
    pthread_cleanup_push(clean, &cleaned);
    pthread_exit(arg);
    pthread_cleanup_pop(0);
}

Test(pthread_exit, calls_cleanup_handlers_and_destructors_of_local_values)
{
    cr_assert_eq(umbra_local_create(count, &local_key), 0);
    run(exits_cleaning, NULL);
    cr_assert_eq(cleaned, 1);
    cr_assert_eq(destroyed, 1);
}

static void *is_canceled(void *arg)
{
    pthread_cancel(pthread_self());
    pthread_testcancel();
    return arg;
}

static void *joins_canceled(void *arg)
{
    struct umbra_fiber fiber;
    void *result = arg;

    umbra_spawn(is_canceled, &fiber, &fiber);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &result), 0);
    cr_expect_null(result);
    return joins(arg);
}

Test(pthread_exit, is_what_cancellation_of_the_thread_does)
{
    run(joins_canceled, NULL);
}

/* ---- a core without its binding ---- */

static int usable_cpus(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    return CPU_COUNT(&set);
}

static void exits_unbound(void *arg)
{
    (void)arg;
    pthread_exit(NULL);
}

static void nests_unbound(void *arg)
{
    umbra_yield();
    umbra_core_unbound(exits_unbound, arg);
}

static void yields_unbound(void *arg)
{
    umbra_yield();
    umbra_yield();
    *(int *)arg = usable_cpus();
}

static void *calls_unbound(void *fn)
{
    static int unbound;

    umbra_core_unbound((void (*)(void *))fn, &unbound);
    return &unbound;
}

static void *joins_unbound(void *arg)
{
    struct umbra_fiber first, second;
    int bound = usable_cpus();
    void *unbound;

    umbra_spawn(calls_unbound, (void *)nests_unbound, &first);
    umbra_spawn(calls_unbound, (void *)yields_unbound, &second);
    cr_expect_eq(umbra_join(first, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_join(second, UMBRA_NEVER, &unbound), 0);
    cr_expect_eq(*(int *)unbound, *(int *)arg, "as long as the other is");
    cr_expect_eq(usable_cpus(), bound);
    return arg;
}

Test(pthread_exit, inside_umbra_core_unbound_lets_the_core_be_bound_again)
{
    int all = usable_cpus();

    run(joins_unbound, &all);
}

/* ---- a child process of a fiber ---- */

static void *forks_and_exits(void *arg)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0)
        pthread_exit(NULL); /* of the only thread: status 0 */
    cr_expect_eq(waitpid(pid, &status, 0), pid);
    cr_expect_eq(status, 0);
    return arg;
}

Test(pthread_exit, in_a_fibers_child_process_ends_that)
{
#ifdef UMBRA_UNDER_ASAN
    cr_skip_test("the sanitizer unmaps the alternate signal stack of each thread that ends");
#endif
    run(forks_and_exits, NULL);
}

#else

Test(pthread_exit, ends_no_fiber_here)
{
    cr_skip_test("ThreadSanitizer ends the program when a fiber calls pthread_exit()");
}

#endif
