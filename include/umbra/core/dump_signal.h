/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The signals on which runtimes are dumped (umbra_options.dump_signal): their handlers, and the list
 * of runtimes that want them. Private; included by core.h. The handlers use write(2), and nothing
 * that locks or allocates.
 */
#ifndef UMBRA_CORE_DUMP_SIGNAL_H
#define UMBRA_CORE_DUMP_SIGNAL_H

#include <signal.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core/report.h>
#include <umbra/fiber.h>
#include <umbra/os/handler.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* A signal's handler, and what it was put over; under um_runtimes.lock. */
struct um_report_signal {
#ifdef UM_OS_HANDLES
    struct um_handler handler;
#else
    void (*before)(int); /* the program's own */
#endif
    unsigned users; /* runtimes that want it */
};

struct um_report_signals {
    struct um_report_signal of[UM_SIGNALS_MOST];
};

UM_SHARED(struct um_report_signals um_report_signals, {.of = {{.users = 0}}});

UM_LINKONCE void um_report_for_signal(int number)
{
    struct umbra_runtime *runtime;

    um_report_begin(); /* against um_runtime_unwatch(), which takes the runtime out and then waits */
    /* acquire: pairs with um_runtime_watch() */
    for (runtime = um_atomic_load(&um_runtimes.first, acquire); runtime;
         runtime = um_atomic_load(&runtime->next, acquire))
        if (runtime->dump_signal == number)
            umbra_dump(runtime, 2);
    um_report_end();
}

#ifdef UM_OS_HANDLES

/* Below may be the handler of another copy of the library, with runtimes of its own: it is called,
 * too. A handler of the program is not called. */
UM_LINKONCE void um_report_on_signal(int number, void *info, void *context)
{
    struct um_handler *handler = &um_report_signals.of[number].handler;

    if (um_handler_asked(handler, info, context))
        return;
    um_report_for_signal(number);
    if (um_handler_is_ours(um_handler_below(handler).flags))
        um_handler_pass_on(handler, info, context);
}

UM_LINKONCE UM_COLD int um_report_handle(int number)
{
    struct um_handler *handler = &um_report_signals.of[number].handler;

    handler->number = number;
    handler->flags = UM_LINUX_SA_RESTART;
    handler->function = um_report_on_signal;
    return um_handler_put(handler);
}

UM_LINKONCE UM_COLD void um_report_unhandle(int number)
{
    um_handler_take(&um_report_signals.of[number].handler);
}

#else

UM_LINKONCE void um_report_on_signal(int number)
{
    signal(number, um_report_on_signal); /* a System V signal() has reset it */
    um_report_for_signal(number);
}

UM_LINKONCE UM_COLD int um_report_handle(int number)
{
    void (*before)(int) = signal(number, um_report_on_signal);

    if (before == SIG_ERR)
        return -EINVAL;
    um_report_signals.of[number].before = before;
    return 0;
}

UM_LINKONCE UM_COLD void um_report_unhandle(int number)
{
    signal(number, um_report_signals.of[number].before);
}

#endif

/* Enters the runtime in the list, and dumps it on a signal from now on (0: none). -EINVAL: the
 * signal does not exist, ends the program, or cannot be handled. */
UM_LINKONCE UM_COLD int um_runtime_watch(struct umbra_runtime *runtime, int number)
{
    int error = 0;

    if (number < 0 || number >= UM_SIGNALS_MOST)
        return um_why(-EINVAL, "dump_signal = %d: there is no such signal", number);
    if (number != 0 && um_os_signal_fatal(number))
        return um_why(-EINVAL, "dump_signal = %d: a signal that ends the program", number);
    pthread_mutex_lock(&um_runtimes.lock);
    if (number != 0 && um_report_signals.of[number].users == 0)
        error = um_report_handle(number);
    if (error != 0) {
        pthread_mutex_unlock(&um_runtimes.lock);
        return um_why(-EINVAL, "dump_signal = %d: cannot be handled", number);
    }
    um_report_signals.of[number].users++; /* the count of 0 is not used */
    runtime->dump_signal = number;
    /* relaxed: under the lock */
    um_atomic_store(&runtime->next, um_atomic_load(&um_runtimes.first, relaxed), relaxed);
    /* release: the runtime is complete; pairs with um_report_for_signal() */
    um_atomic_store(&um_runtimes.first, runtime, release);
    pthread_mutex_unlock(&um_runtimes.lock);
    return 0;
}

UM_LINKONCE UM_COLD void um_runtime_unwatch(struct umbra_runtime *runtime)
{
    um_atomic_ptr(struct umbra_runtime) *link = &um_runtimes.first;
    int number = runtime->dump_signal;

    pthread_mutex_lock(&um_runtimes.lock);
    while (um_atomic_load(link, relaxed) != runtime) /* relaxed: under the lock */
        link = &um_atomic_load(link, relaxed)->next;
    /* release: as in um_runtime_watch() */
    um_atomic_store(link, um_atomic_load(&runtime->next, relaxed), release);
    if (--um_report_signals.of[number].users == 0 && number != 0)
        um_report_unhandle(number);
    pthread_mutex_unlock(&um_runtimes.lock);
    um_reports_wait();
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
