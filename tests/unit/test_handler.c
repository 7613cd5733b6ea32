/* SPDX-License-Identifier: BSL-1.0 */
/* Signals of faults while a runtime is there: what a process sends goes where it would have gone. */
#define _GNU_SOURCE
#include "child.h"
#include "fibers.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef UM_OS_HANDLES

/* ---- what is declared under names of our own ---- */

#ifndef UMBRA_ARCH_GENERIC
#define SAME(ours, our_field, system, field)                                                       \
    cr_assert_eq(offsetof(ours, our_field), offsetof(system, field));                              \
    cr_assert_eq(sizeof(((ours *)0)->our_field), sizeof(((system *)0)->field))

Test(handler, what_strict_C11_hides_is_as_the_system_has_it)
{
    SAME(struct um_linux_sigaction, um_sa_handler, struct sigaction, sa_handler);
    SAME(struct um_linux_sigaction, um_sa_handler, struct sigaction, sa_sigaction);
    SAME(struct um_linux_sigaction, um_sa_mask, struct sigaction, sa_mask);
    SAME(struct um_linux_sigaction, um_sa_flags, struct sigaction, sa_flags);
    cr_assert_eq(sizeof(struct um_linux_sigaction), sizeof(struct sigaction));
    SAME(struct um_linux_stack, um_ss_sp, stack_t, ss_sp);
    SAME(struct um_linux_stack, um_ss_flags, stack_t, ss_flags);
    SAME(struct um_linux_stack, um_ss_size, stack_t, ss_size);
    cr_assert_eq(sizeof(struct um_linux_stack), sizeof(stack_t));
    SAME(struct um_linux_siginfo, um_si_signo, siginfo_t, si_signo);
    SAME(struct um_linux_siginfo, um_si_errno, siginfo_t, si_errno);
    SAME(struct um_linux_siginfo, um_si_code, siginfo_t, si_code);
    SAME(struct um_linux_siginfo, um_si_addr, siginfo_t, si_addr);
    cr_assert_eq(UM_OS_SIGBUS, SIGBUS);
    cr_assert_eq(UM_LINUX_SA_NOCLDSTOP, (unsigned)SA_NOCLDSTOP);
    cr_assert_eq(UM_LINUX_SA_NOCLDWAIT, (unsigned)SA_NOCLDWAIT);
    cr_assert_eq(UM_LINUX_SA_SIGINFO, (unsigned)SA_SIGINFO);
    cr_assert_eq(UM_LINUX_SA_ONSTACK, (unsigned)SA_ONSTACK);
    cr_assert_eq(UM_LINUX_SA_RESTART, (unsigned)SA_RESTART);
    cr_assert_eq(UM_LINUX_SA_NODEFER, (unsigned)SA_NODEFER);
    cr_assert_eq(UM_LINUX_SA_RESETHAND, (unsigned)SA_RESETHAND);
}
#endif

/* ---- a child with a runtime ---- */

static struct umbra_runtime *runtime; /* the child's, as the next two */
static const struct sigaction *on_faults;
static int (*then)(void);

static int begin(void)
{
    struct umbra_options options = {.cores = 1, .quiet = true};

    alarm(20);
    if (sigaction(SIGSEGV, on_faults, NULL) || sigaction(SIGBUS, on_faults, NULL) ||
        umbra_runtime_create(&options, &runtime))
        return 99;
    return then();
}

/* Sets what is done about SIGSEGV and SIGBUS, then starts a runtime, and calls fn. */
static struct child with_runtime(const struct sigaction *action, int (*fn)(void))
{
    on_faults = action;
    then = fn;
    return in_child(begin);
}

static bool died_of(const struct child *child, int number)
{
    return WIFSIGNALED(child->status) && WTERMSIG(child->status) == number;
}

static bool exited(const struct child *child, int with)
{
    if (WIFEXITED(child->status) && WEXITSTATUS(child->status) == with)
        return true;
    fprintf(stderr, "status %#x, said: %s\n", (unsigned)child->status, child->said);
    return false;
}

/* How often it reports an overflow. */
static int reports(const struct child *child)
{
    const char *at = child->said;
    int count = 0;

    for (; (at = strstr(at, "umbra: stack overflow: fiber ")) != NULL; at++)
        count++;
    return count;
}

/* ---- overflows ---- */

static int deeper(int depth)
{
    volatile char room[512];

    room[0] = (char)depth;
    return depth > 0 ? deeper(depth - 1) + room[0] : 0;
}

static void *overflows(void *arg)
{
    return (void *)(intptr_t)deeper(arg ? 1000000 : 1000001);
}

static void overflow(void)
{
    umbra_runtime_run(runtime, overflows, NULL);
}

static bool can_overflow(void)
{
#if defined(UM_CONTEXT_ASAN) || defined(UM_CONTEXT_TSAN)
    return false; /* they have their own words for it */
#else
    return um_guard_kind() != UM_GUARD_NONE;
#endif
}

/* ---- sent ---- */

static int send_by_kill(void)
{
    kill(getpid(), SIGSEGV);
    sleep(20); /* until another thread has it */
    return 0;
}

static int send_bus(void)
{
    raise(SIGBUS);
    return 0;
}

Test(handler, a_sent_signal_ends_the_program_by_default)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    struct child child = with_runtime(&action, send_by_kill);

    cr_assert(died_of(&child, SIGSEGV));
    cr_assert_str_eq(child.said, "");
    child = with_runtime(&action, send_bus);
    cr_assert(died_of(&child, SIGBUS));
}

static int send_several(void)
{
    for (int i = 0; i < 3; i++) {
        kill(getpid(), SIGSEGV);
        raise(SIGSEGV);
        raise(SIGBUS);
    }
    if (can_overflow())
        overflow();
    return 42;
}

Test(handler, an_ignored_signal_stays_so_and_overflows_are_reported)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    struct child child = with_runtime(&action, send_several);

    if (can_overflow()) {
        cr_assert(died_of(&child, SIGSEGV), "no fault is ignored");
        cr_assert_eq(reports(&child), 1);
    } else {
        cr_assert(exited(&child, 42));
    }
}

/* ---- the program's handler ---- */

/* What it was called with, and what was blocked. */
static struct {
    volatile sig_atomic_t calls;
    siginfo_t info;
    sigset_t blocked;
} seen;

static void looks(int number, siginfo_t *info, void *context)
{
    (void)context;
    seen.info = *info;
    pthread_sigmask(SIG_BLOCK, NULL, &seen.blocked);
    seen.calls = seen.calls + (number == info->si_signo);
}

/* ThreadSanitizer calls handlers itself, with a mask of its own. */
static bool is_blocked(int number, bool expected)
{
#ifdef UM_CONTEXT_TSAN
    (void)number;
    return expected;
#else
    (void)expected;
    return sigismember(&seen.blocked, number) == 1;
#endif
}

static bool blocked(int number)
{
    return is_blocked(number, true);
}

static bool open_to(int number)
{
    return !is_blocked(number, false);
}

static int queue_two(void)
{
    for (int i = 1; i <= 2; i++) {
        union sigval value = {.sival_int = i};

        if (sigqueue(getpid(), SIGSEGV, value) != 0)
            return 1;
        while (seen.calls < i)
            umbra_yield();
        if (seen.info.si_signo != SIGSEGV || seen.info.si_code != SI_QUEUE ||
            seen.info.si_pid != getpid() || seen.info.si_value.sival_int != i)
            return 2;
    }
    if (!blocked(SIGSEGV) || !blocked(SIGUSR1) || !open_to(SIGUSR2))
        return 3;
    pthread_sigmask(SIG_BLOCK, NULL, &seen.blocked);
    return open_to(SIGSEGV) && open_to(SIGUSR1) ? 42 : 4;
}

Test(handler, the_programs_handler_gets_what_was_sent_and_its_mask)
{
    struct sigaction action = {.sa_sigaction = looks, .sa_flags = SA_SIGINFO};
    struct child child;

    sigaddset(&action.sa_mask, SIGUSR1);
    child = with_runtime(&action, queue_two);
    cr_assert(exited(&child, 42));
}

static int raise_one(void)
{
    raise(SIGSEGV);
    return seen.calls == 1 && open_to(SIGSEGV) ? 42 : 1;
}

Test(handler, the_programs_handler_may_be_interrupted_by_its_own_signal)
{
    struct sigaction action = {.sa_sigaction = looks, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct child child = with_runtime(&action, raise_one);

    cr_assert(exited(&child, 42));
}

static int raise_two(void)
{
    raise(SIGSEGV);
    if (seen.calls != 1)
        return 1;
    raise(SIGSEGV);
    return 42;
}

Test(handler, the_programs_handler_may_be_for_one_signal_only)
{
    struct sigaction action = {.sa_sigaction = looks, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
    struct child child = with_runtime(&action, raise_two);

    cr_assert(died_of(&child, SIGSEGV));
}

static void counts(int number)
{
    seen.calls = seen.calls + (number == SIGSEGV);
    if (seen.calls == 3) /* the fault */
        _exit(42);
}

static int raise_two_and_overflow(void)
{
    raise(SIGSEGV);
    raise(SIGSEGV);
    if (can_overflow())
        overflow();
    else
        raise(SIGSEGV);
    return 1;
}

Test(handler, an_overflow_is_reported_after_sent_signals_and_given_to_the_programs_handler)
{
    struct sigaction action = {.sa_handler = counts};
    struct child child = with_runtime(&action, raise_two_and_overflow);

    cr_assert(exited(&child, 42));
    cr_assert_eq(reports(&child), can_overflow() ? 1 : 0);
}

/* ---- fork(2) ---- */

static int run_in_a_child_of_this(void)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct umbra_runtime *own;
    struct sigaction now;
    int status = 1;
    pid_t pid = fork();

    if (pid == 0) {
        if (umbra_runtime_create(&options, &own) != 0 || umbra_runtime_destroy(own) != 0)
            _exit(1);
        _exit(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == counts ? 42 : 2);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 3;
}

Test(handler, a_forked_process_gives_back_what_it_inherited)
{
    struct sigaction action = {.sa_handler = counts};
    struct child child;

#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer starts no threads after a fork of several");
#endif
    child = with_runtime(&action, run_in_a_child_of_this);
    cr_assert(exited(&child, 42));
}

/* ---- a program that goes on after an overflow ---- */

static sigjmp_buf before_overflow;

static void jumps_back(int number)
{
    (void)number;
    siglongjmp(before_overflow, 1);
}

static void *recovers(void *arg)
{
    if (sigsetjmp(before_overflow, 1) == 0)
        deeper(1000000);
    return arg;
}

static int recover_twice(void)
{
    for (int i = 0; i < 2; i++)
        if (umbra_runtime_run(runtime, recovers, NULL) != 0)
            return 1;
    return umbra_runtime_destroy(runtime) == 0 ? 42 : 2;
}

Test(handler, every_overflow_is_reported_if_the_program_goes_on)
{
    struct sigaction action = {.sa_handler = jumps_back};
    struct child child;

    if (!can_overflow())
        cr_skip_test("no guards in the POSIX form; a sanitizer reports faults itself");
    child = with_runtime(&action, recover_twice);
    cr_assert(exited(&child, 42));
    cr_assert_eq(reports(&child), 2);
}

#else

Test(handler, there_is_none)
{
    cr_skip_test("no handlers in the POSIX form");
}

#endif
