/* SPDX-License-Identifier: BSL-1.0 */
/*
 * fork(2) in a program that has runtimes: what the child may do, and what it is refused.
 */
#include <stdio.h>
#include <stdlib.h>
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

/* ---- the parent's runtime ---- */

struct parent {
    struct umbra_runtime *runtime;
    struct umbra_event event;
    struct umbra_fiber waits; /* for the event */
    struct umbra_fiber ended;
};

static void *waits(void *arg)
{
    umbra_event_wait(arg);
    return NULL;
}

static void start_parent(struct parent *parent)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};

    umbra_event_init(&parent->event, false);
    cr_assert_eq(umbra_runtime_create(&options, &parent->runtime), 0);
    cr_assert_eq(umbra_spawn_with(parent->runtime, NULL, waits, &parent->event, &parent->waits), 0);
    cr_assert_eq(umbra_spawn_with(parent->runtime, NULL, nothing, NULL, &parent->ended), 0);
}

static void end_parent(struct parent *parent)
{
    umbra_event_signal(&parent->event);
    cr_assert_eq(umbra_join(parent->waits, NULL), 0, "the parent's runtime is as before");
    cr_assert_eq(umbra_join(parent->ended, NULL), 0);
    cr_assert_eq(umbra_runtime_destroy(parent->runtime), 0);
}

static bool is_refused(void *arg)
{
    struct parent *parent = arg;
    struct umbra_runtime *runtime = parent->runtime;
    size_t started = 1;

    umbra_hold(runtime);
    umbra_release(runtime);
    return umbra_runtime_wait(runtime) == -EPERM &&
           umbra_runtime_run(runtime, nothing, NULL) == -EPERM &&
           umbra_spawn_with(runtime, NULL, nothing, NULL, NULL) == -EPERM &&
           umbra_spawn_many(runtime, NULL, nothing, NULL, 0, 2, NULL, &started) == -EPERM &&
           started == 0 && umbra_join(parent->waits, NULL) == -EPERM &&
           umbra_join(parent->ended, NULL) == -EPERM && umbra_detach(parent->waits) == -EPERM &&
           umbra_cancel(parent->waits) == -EPERM && umbra_runtime_destroy(runtime) == -EPERM;
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
           umbra_join(fiber, &result) == 0 && result == arg && umbra_runtime_destroy(runtime) == 0;
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
