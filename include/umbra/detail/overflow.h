/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A fiber that overflows its stack faults in the guard below it. This says which fiber it was, and
 * then lets the program die as it would have. Private; one of the two reports that the library
 * prints.
 *
 * The handler runs on an alternate stack, which every core's thread gets. What it is not meant for
 * goes to the handler that was there before. Where the includer's feature macros hide siginfo_t
 * (strict C11), which has no fixed ABI, guards work and nothing is printed.
 */
#ifndef UMBRA_DETAIL_OVERFLOW_H
#define UMBRA_DETAIL_OVERFLOW_H

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/detail/os.h>
#include <umbra/stack.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#if defined(SA_SIGINFO) && defined(SA_ONSTACK) && !defined(UMBRA_POSIX_ONLY)

#define UM_OVERFLOW_STACK_BYTES 32768

struct um_overflow {
    pthread_mutex_t lock;
    unsigned threads; /* that want it; under lock */
    struct sigaction before_segv, before_bus;
};

UM_LINKONCE struct um_overflow um_overflow = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The thread's alternate stack, and the one it had before. */
UM_LINKONCE _Thread_local void *um_overflow_stack = NULL;
UM_LINKONCE _Thread_local stack_t um_overflow_stack_before;

/* One line on standard error: pieces that are already text. */
UM_LINKONCE UM_COLD void um_overflow_print(const char *who, size_t stack_bytes)
{
    char line[400] = "umbra: stack overflow: ";
    char digits[24];
    size_t at = sizeof(digits) - 1;

    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + stack_bytes % 10);
        stack_bytes /= 10;
    } while (stack_bytes > 0);
    strcat(line, who);
    strcat(line, " has used up its stack of ");
    strcat(line, digits + at);
    strcat(line, " bytes\n");
    um_os_write(2, line, strlen(line));
}

UM_LINKONCE UM_COLD void um_overflow_pass_on(const struct sigaction *before, int number,
                                             siginfo_t *info, void *context)
{
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(number, info, context);
    } else if (before->sa_handler == SIG_DFL) {
        signal(number, SIG_DFL); /* on return the instruction faults again */
    } else if (before->sa_handler != SIG_IGN) {
        before->sa_handler(number);
    } else {
        signal(number, SIG_DFL); /* the kernel does not let a fault be ignored */
    }
}

UM_LINKONCE UM_COLD void um_overflow_on_fault(int number, siginfo_t *info, void *context)
{
    char who[128] = "a fiber";
    size_t stack_bytes = 0;

    if (um_slab_find(info->si_addr, who, sizeof(who), &stack_bytes)) {
        um_overflow_print(who, stack_bytes);
        sigaction(number, number == SIGSEGV ? &um_overflow.before_segv : &um_overflow.before_bus,
                  NULL);
        return; /* the instruction faults again, and who was there before is called */
    }
    um_overflow_pass_on(number == SIGSEGV ? &um_overflow.before_segv : &um_overflow.before_bus,
                        number, info, context);
}

UM_LINKONCE UM_COLD void um_overflow_install(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = um_overflow_on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &um_overflow.before_segv);
    sigaction(SIGBUS, &action, &um_overflow.before_bus);
}

/* Gives the handler of one signal back, unless somebody has put another over it. */
UM_LINKONCE UM_COLD void um_overflow_restore(int number, const struct sigaction *before)
{
    struct sigaction now;

    if (sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == um_overflow_on_fault)
        sigaction(number, before, NULL);
}

/* A core's thread begins, and ends. 0 or -ENOMEM. */
UM_LINKONCE UM_COLD int um_overflow_thread_start(void)
{
    stack_t stack = {.ss_size = UM_OVERFLOW_STACK_BYTES + um_os_least_stack()};

    um_overflow_stack = stack.ss_sp = malloc(stack.ss_size);
    if (!stack.ss_sp)
        return -ENOMEM;
    sigaltstack(&stack, &um_overflow_stack_before);
    pthread_mutex_lock(&um_overflow.lock);
    if (um_overflow.threads++ == 0)
        um_overflow_install();
    pthread_mutex_unlock(&um_overflow.lock);
    return 0;
}

UM_LINKONCE UM_COLD void um_overflow_thread_stop(void)
{
    pthread_mutex_lock(&um_overflow.lock);
    if (--um_overflow.threads == 0) {
        um_overflow_restore(SIGSEGV, &um_overflow.before_segv);
        um_overflow_restore(SIGBUS, &um_overflow.before_bus);
    }
    pthread_mutex_unlock(&um_overflow.lock);
    sigaltstack(&um_overflow_stack_before, NULL);
    free(um_overflow_stack);
    um_overflow_stack = NULL;
}

#else

UM_INLINE int um_overflow_thread_start(void)
{
    return 0;
}

UM_INLINE void um_overflow_thread_stop(void)
{
}

#endif

#endif
