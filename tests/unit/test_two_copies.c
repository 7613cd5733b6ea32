/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The handlers of two copies of the library in one process, the program's and that of an object which
 * it opens and closes: each gives back what was there, in whichever order they come and go.
 */
#define _GNU_SOURCE
#include "child.h"
#include "two_copies.h"
#include "two_copies_part.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef UM_OS_HANDLES

/* ---- the object ---- */

static void *object;

static void *function(const char *name)
{
    void *found = dlsym(object, name);

    if (!found)
        _exit(98);
    return found;
}

static void object_start(void)
{
    object = dlopen(TWO_COPIES_OBJECT, RTLD_NOW | RTLD_LOCAL);
    if (!object || ((two_copies_start_fn *)function("two_copies_start"))(SIGUSR2) != 0)
        _exit(97);
}

/* Its runtime ends, and it is closed. */
static void object_stop(void)
{
    if (((two_copies_stop_fn *)function("two_copies_stop"))() != 0)
        _exit(96);
    dlclose(object);
}

static void program_start(void)
{
    if (part_start(SIGUSR2, "of the program") != 0)
        _exit(95);
}

static void program_stop(void)
{
    if (part_stop() != 0)
        _exit(94);
}

/* ---- what the program had ---- */

static volatile sig_atomic_t faults, dumps;

static void on_fault(int number)
{
    faults = faults + (number != 0);
}

static void on_dump(int number)
{
    dumps = dumps + (number != 0);
}

static void begin(void)
{
    alarm(20);
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    signal(SIGUSR2, on_dump);
}

static bool has(int number, void (*handler)(int))
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 && now.sa_handler == handler;
}

/* A sent SIGSEGV has come to the program's handler, once. */
static bool faults_arrive(void)
{
    int before = faults;

    raise(SIGSEGV);
    return faults == before + 1;
}

/* All is as the program had it. */
static int end(void)
{
    if (!has(SIGSEGV, on_fault) || !has(SIGBUS, on_fault))
        return 1;
    if (!has(SIGUSR2, on_dump))
        return 2;
    return faults_arrive() ? 42 : 3;
}

static bool exited(const struct child *child)
{
    if (WIFEXITED(child->status) && WEXITSTATUS(child->status) == 42)
        return true;
    fprintf(stderr, "status %#x, said: %s\n", (unsigned)child->status, child->said);
    return false;
}

static int times(const struct child *child, const char *what)
{
    const char *at = child->said;
    int count = 0;

    for (; (at = strstr(at, what)) != NULL; at++)
        count++;
    return count;
}

/* ---- orders ---- */

/* With both there, then with one: a dump each, and a sent fault. */
static int come_and_go(bool object_comes_first, bool object_goes_first)
{
    begin();
    if (object_comes_first)
        object_start();
    program_start();
    if (!object_comes_first)
        object_start();
    raise(SIGUSR2);
    if (!faults_arrive())
        return 4;
    if (object_goes_first)
        object_stop();
    else
        program_stop();
    raise(SIGUSR2);
    if (!faults_arrive())
        return 6;
    if (object_goes_first)
        program_stop();
    else
        object_stop();
    return end();
}

static int object_comes_and_goes_first(void)
{
    return come_and_go(true, true);
}

static int object_comes_first_and_goes_last(void)
{
    return come_and_go(true, false);
}

static int object_comes_last_and_goes_first(void)
{
    return come_and_go(false, true);
}

static int object_comes_and_goes_last(void)
{
    return come_and_go(false, false);
}

static void check(int (*order)(void), int program_dumps, int object_dumps)
{
    struct child child = in_child(order);

    cr_assert(exited(&child));
    cr_assert_eq(times(&child, "of the program"), program_dumps);
    cr_assert_eq(times(&child, "of the object"), object_dumps);
}

Test(two_copies, the_first_that_came_may_go_first)
{
    check(object_comes_and_goes_first, 2, 1);
    check(object_comes_and_goes_last, 1, 2);
}

Test(two_copies, the_last_that_came_may_go_first)
{
    check(object_comes_last_and_goes_first, 2, 1);
    check(object_comes_first_and_goes_last, 1, 2);
}

/* ---- overflows ---- */

static int overflow_below(void)
{
    begin();
    signal(SIGSEGV, SIG_DFL);
    object_start();
    program_start();
    return ((two_copies_overflow_fn *)function("two_copies_overflow"))();
}

static int overflow_of_who_stays(void)
{
    begin();
    signal(SIGSEGV, SIG_DFL);
    object_start();
    program_start();
    object_stop();
    return part_overflow();
}

static bool reported(const struct child *child)
{
    return WIFSIGNALED(child->status) && WTERMSIG(child->status) == SIGSEGV &&
           times(child, "umbra: stack overflow: fiber \"too deep\"") == 1;
}

Test(two_copies, overflows_are_reported_by_each)
{
    struct child child;

#if defined(UM_CONTEXT_ASAN) || defined(UM_CONTEXT_TSAN)
    cr_skip_test("the sanitizer reports faults itself");
#endif
    if (um_guard_kind() == UM_GUARD_NONE)
        cr_skip_test("no guards");
    child = in_child(overflow_below);
    cr_assert(reported(&child));
    child = in_child(overflow_of_who_stays);
    cr_assert(reported(&child));
}

/* ---- a handler of others above ---- */

static struct sigaction below_others;

static void others(int number, siginfo_t *info, void *context)
{
    if (below_others.sa_flags & SA_SIGINFO)
        below_others.sa_sigaction(number, info, context);
    else
        below_others.sa_handler(number);
}

static int others_keep_the_objects_handler(void)
{
    struct sigaction above = {.sa_sigaction = others, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    begin();
    object_start();
    if (sigaction(SIGSEGV, &above, &below_others) != 0)
        return 7;
    object_stop();
    return faults_arrive() ? 42 : 8;
}

Test(two_copies, a_handler_that_others_have_passes_signals_on)
{
    struct child child = in_child(others_keep_the_objects_handler);

    cr_assert(exited(&child));
}

/* ---- threads ---- */

static struct umbra_mutex mutex = UMBRA_MUTEX_INIT;

static void *other_locks(void *lock)
{
    return (void *)(intptr_t)((two_copies_lock_fn *)lock)(&mutex);
}

/* Locked in the program, and unlocked in the object, by the same thread; another thread is another
 * one in both. */
static int holds_in_both(void)
{
    two_copies_lock_fn *lock;
    two_copies_unlock_fn *unlock;
    pthread_t other;
    void *found;

    begin();
    object_start();
    lock = (two_copies_lock_fn *)function("two_copies_lock");
    unlock = (two_copies_unlock_fn *)function("two_copies_unlock");
    if (umbra_mutex_lock_deadline(&mutex, UMBRA_NEVER) != 0 || lock(&mutex) != -EDEADLK)
        return 10;
    if (pthread_create(&other, NULL, other_locks, (void *)lock) != 0 ||
        pthread_join(other, &found) != 0 || (intptr_t)found != -ETIMEDOUT)
        return 11;
    if (unlock(&mutex) != 0 || lock(&mutex) != 0 || umbra_mutex_unlock(&mutex) != 0)
        return 12;
    object_stop();
    return end();
}

Test(two_copies, a_thread_is_the_same_in_both)
{
    struct child child = in_child(holds_in_both);

    cr_assert(exited(&child));
}

#else

Test(two_copies, have_no_handlers)
{
    cr_skip_test("no handlers in the POSIX form");
}

#endif
