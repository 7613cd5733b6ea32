/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The report of a stack overflow. A fiber that overflows its stack faults in the guard below it.
 * The handler here prints which fiber it was; then the fault does what it would have done without
 * it. Private; one of the two reports that the library prints.
 *
 * The handler runs on an alternate stack, which each core's thread gets. It passes every signal on
 * to the handler below (os/handler.h), also faults elsewhere and signals that a process sent, for
 * which it prints nothing.
 */
#ifndef UMBRA_STACK_OVERFLOW_H
#define UMBRA_STACK_OVERFLOW_H

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/os/handler.h>
#include <umbra/os/os.h>
#include <umbra/stack/slabs.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UM_OS_HANDLES

#define UM_OVERFLOW_STACK_BYTES 32768

/* The handler of SIGSEGV and SIGBUS. */
UM_LINKONCE void um_overflow_on_fault(int number, void *info, void *context);

#ifdef UMBRA_IMPLEMENTATION
struct um_overflow {
    struct um_handler segv, bus; /* under um_slabs.lock */
};

UM_SHARED(struct um_overflow um_overflow,
          {.segv = {.number = SIGSEGV, .function = um_overflow_on_fault},
           .bus = {.number = UM_OS_SIGBUS, .function = um_overflow_on_fault}});

/* The thread's alternate stack, and the one it had before. */
UM_SHARED(UM_THREAD_LOCAL void *um_overflow_stack, NULL);
UM_SHARED(UM_THREAD_LOCAL struct um_os_stack um_overflow_stack_before, {.bytes = 0});

/* Prints one line on standard error. In a signal handler: no stdio. */
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

UM_LINKONCE UM_COLD void um_overflow_on_fault(int number, void *info, void *context)
{
    struct um_handler *handler = number == SIGSEGV ? &um_overflow.segv : &um_overflow.bus;
    char who[128] = "a fiber";
    size_t stack_bytes = 0;

    if (um_handler_asked(handler, info, context))
        return;
    if (!um_os_signal_sent(info) &&
        um_slab_find(um_os_signal_address(info), who, sizeof(who), &stack_bytes))
        um_overflow_print(who, stack_bytes);
    um_handler_pass_on(handler, info, context);
}

/* Called when a runtime begins and when it ends: the handler is there while there is a runtime. */
UM_LINKONCE UM_COLD void um_overflow_start(void)
{
    pthread_mutex_lock(&um_slabs.lock);
    if (um_slabs.runtimes++ == 0) {
        um_handler_put(&um_overflow.segv);
        um_handler_put(&um_overflow.bus);
    }
    pthread_mutex_unlock(&um_slabs.lock);
}

UM_LINKONCE UM_COLD void um_overflow_stop(void)
{
    pthread_mutex_lock(&um_slabs.lock);
    if (--um_slabs.runtimes == 0) {
        um_handler_take(&um_overflow.segv);
        um_handler_take(&um_overflow.bus);
    }
    pthread_mutex_unlock(&um_slabs.lock);
}

/* Called when a core's thread begins and when it ends. Returns 0 or -ENOMEM. */
UM_LINKONCE UM_COLD int um_overflow_thread_start(void)
{
    struct um_os_stack stack = {.bytes = UM_OVERFLOW_STACK_BYTES + um_os_least_stack()};

    um_overflow_stack = stack.low = malloc(stack.bytes);
    if (!stack.low)
        return -ENOMEM;
    um_os_signal_stack(&stack, &um_overflow_stack_before);
    return 0;
}

UM_LINKONCE UM_COLD void um_overflow_thread_stop(void)
{
    um_os_signal_stack(&um_overflow_stack_before, NULL);
    free(um_overflow_stack);
    um_overflow_stack = NULL;
}
#endif /* UMBRA_IMPLEMENTATION */

#else

#ifdef UMBRA_IMPLEMENTATION
UM_INLINE void um_overflow_start(void)
{
}

UM_INLINE void um_overflow_stop(void)
{
}

UM_INLINE int um_overflow_thread_start(void)
{
    return 0;
}

UM_INLINE void um_overflow_thread_stop(void)
{
}
#endif /* UMBRA_IMPLEMENTATION */

#endif

#endif
