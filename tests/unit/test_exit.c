/* SPDX-License-Identifier: BSL-1.0 */
/* A fiber that ends its core's thread ends the program, which says so. A fiber's child process may. */
#include "child.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include <umbra.h>

#ifndef UMBRA_UNDER_TSAN

enum { SECONDS = 60 };

static void *exits(void *arg)
{
    pthread_exit(arg);
}

static void *exits_detached(void *arg)
{
    umbra_detach(umbra_self());
    umbra_yield();
    pthread_exit(arg);
}

static void *is_canceled(void *arg)
{
    pthread_cancel(pthread_self());
    pthread_testcancel();
    return arg;
}

static void calls_exit(void *arg)
{
    pthread_exit(arg);
}

static void *exits_unbound(void *arg)
{
    umbra_core_unbound(calls_exit, arg);
    return arg;
}

static void *exits_in_a_task(void *arg)
{
    struct umbra_task task;

    umbra_task_fork(&task, calls_exit, arg);
    umbra_task_join(&task, UMBRA_NEVER);
    return arg;
}

static umbra_fiber_fn *way;

static void *spawns(void *arg)
{
    struct umbra_fiber fiber;

    umbra_spawn(way, arg, &fiber);
    umbra_yield();
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

static int run(umbra_fiber_fn *fn)
{
    struct umbra_options options = {.cores = 1};

    alarm(SECONDS); /* else a core that is gone is waited for */
    return umbra_run(&options, fn, NULL);
}

static int runs_alone(void)
{
    return run(way);
}

static int runs_beside_others(void)
{
    return run(spawns);
}

static void expect_the_end(int (*how)(void))
{
    struct child child = in_child(how);
    const char *said = strstr(child.said, "umbra: a fiber has ended the thread of its core");

#ifdef UMBRA_UNDER_ASAN /* which takes abort() for an overflow, on the stack of a thread that ends */
    cr_expect_neq(child.status, 0);
#else
    cr_expect(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT, "%#x",
              (unsigned)child.status);
#endif
    cr_expect(said && !strstr(said + 1, "umbra:"), "%s", child.said);
}

Test(pthread_exit, in_a_fiber_ends_the_program_with_one_sentence)
{
    umbra_fiber_fn *const ways[] = {exits, exits_detached, is_canceled, exits_unbound,
                                    exits_in_a_task};

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        way = ways[i];
        expect_the_end(runs_alone);
        expect_the_end(runs_beside_others);
    }
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
    cr_assert_eq(run(forks_and_exits), 0);
}

#else

Test(pthread_exit, ends_the_program_here)
{
    cr_skip_test("ThreadSanitizer ends the program when a fiber calls pthread_exit()");
}

#endif
