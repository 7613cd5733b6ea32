/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a start asks of the system: the calls of a process and its threads, counted by ptrace(2)
 * between two marks. Where threads wait for each other depends on the moment: futex and sched_yield
 * do not count.
 */
#define _GNU_SOURCE
#include <umbra/core.h>
#include <umbra/team.h>

#include <runner.h>

#include <errno.h>
#include <linux/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct calls {
    unsigned files; /* opened */
    unsigned all;
};

static long trace(unsigned long request, pid_t thread, unsigned long address, void *data)
{
    return syscall(SYS_ptrace, request, (long)thread, address, data);
}

static void count(struct calls *calls, unsigned *marks, uint64_t number)
{
    if (number == SYS_getppid)
        ++*marks;
    if (*marks != 1 || number == SYS_getppid || number == SYS_futex || number == SYS_sched_yield)
        return;
    calls->files += number == SYS_openat;
    calls->all++;
}

/* Goes on with a thread that has stopped; a call that begins is counted. */
static void pass(struct calls *calls, unsigned *marks, pid_t thread, int signal)
{
    struct ptrace_syscall_info info = {.op = PTRACE_SYSCALL_INFO_NONE};

    if (signal == (SIGTRAP | 0x80)) {
        trace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
            count(calls, marks, info.entry.nr);
        signal = 0;
    } else if (signal == SIGTRAP || signal == SIGSTOP) {
        signal = 0; /* a thread begins */
    }
    trace(PTRACE_SYSCALL, thread, 0, (void *)(intptr_t)signal);
}

/* Calls fn twice in a process of its own, and counts the second time. */
static struct calls calls_of(int (*fn)(void))
{
    struct calls calls = {0, 0};
    unsigned marks = 0;
    int status = -1;
    pid_t child = fork(), thread;

    if (child == 0) {
        if (trace(PTRACE_TRACEME, 0, 0, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        status = fn();
        syscall(SYS_getppid);
        status |= fn();
        syscall(SYS_getppid);
        _exit(status != 0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status) ||
        trace(PTRACE_SETOPTIONS, child, 0,
              (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL)) != 0) {
        kill(child, SIGKILL);
        cr_skip_test("this process may not trace another");
    }
    for (thread = child; thread != child || WIFSTOPPED(status);
         thread = waitpid(-1, &status, __WALL)) {
        cr_assert_gt(thread, 0);
        if (WIFSTOPPED(status))
            pass(&calls, &marks, thread, WSTOPSIG(status));
    }
    cr_assert_eq(status, 0);
    cr_assert_eq(marks, 2);
    return calls;
}

static void *nothing(void *arg)
{
    return arg;
}

static int runs(void)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};

    return umbra_run(&options, nothing, NULL);
}

static int makes_a_team(void)
{
    struct umbra_team_options options = {.members = 2};
    struct umbra_team *team;
    int error = umbra_team_create(&options, &team);

    return error == 0 ? umbra_team_destroy(team) : error;
}

/* A start that cannot measure gaps, since the machine is busy, leaves that to the next start. */
static void no_gaps(void)
{
    setenv("UMBRA_WAIT", "gap=fence", 1);
}

static void expect_few(int (*fn)(void), unsigned files, unsigned all)
{
#if defined(UMBRA_UNDER_TSAN) || defined(UMBRA_UNDER_ASAN)
    cr_skip_test("the sanitizer makes calls of its own");
#endif
    struct calls calls = calls_of(fn);

    cr_log_info("%u calls, %u files", calls.all, calls.files);
    cr_expect_leq(calls.files, files);
    cr_expect_leq(calls.all, all);
}

/* Linux with glibc: 61 calls. A machine that is read takes hundreds. */
Test(start, the_next_runtime_asks_little_of_the_system, .init = no_gaps)
{
    expect_few(runs, 1, 100);
}

/* 36 calls. */
Test(start, the_next_team_asks_little_of_the_system, .init = no_gaps)
{
    expect_few(makes_a_team, 1, 60);
}
