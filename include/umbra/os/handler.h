/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Signal handlers that are put over the action that a process had for the signal, and are taken
 * away again. A handler passes the signals that are not for it on to the action below, as if the
 * handler were not there. Private.
 *
 *     the kernel -> newest -> ... -> oldest -> the program's own action
 *
 * A handler is installed with the mask of the action below, and with those of its flags that tell
 * the kernel how to call a handler: the action below is called as the kernel would call it, but on
 * the thread's alternate stack, if it has one.
 *
 * The program and each shared object have their own copy of the library, with its own handlers and
 * records of the actions below. If a handler that leaves is the
 * newest, it gives the action below back to the kernel. Else, if the newest is another copy's
 * handler, that handler is asked to put the leaving handler's action below in its place; if the
 * leaving handler is not just below it, it asks the next. The request is a call of the handler's
 * function without a context, which a signal always has. The library's handlers are recognised by
 * two flags that have a meaning for SIGCHLD only. A foreign handler above it cannot be asked:
 * then the leaving handler stays below that.
 *
 * Callers. One thread at a time puts or takes a given handler; not from a signal handler.
 */
#ifndef UMBRA_OS_HANDLER_H
#define UMBRA_OS_HANDLER_H

#include <signal.h>

#include <umbra/base/atomic.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UM_OS_HANDLES

/* SA_NOCLDSTOP and SA_NOCLDWAIT mark the library's handlers. */
#define UM_HANDLER_FLAGS                                                                           \
    (UM_LINUX_SA_SIGINFO | UM_LINUX_SA_ONSTACK | UM_LINUX_SA_NOCLDSTOP | UM_LINUX_SA_NOCLDWAIT)
#define UM_HANDLER_MAGIC UINT64_C(0x756d6272612d3031) /* changes with struct um_handler_request */

/* info: the system's siginfo_t; context: the system's. For a request: the request, and NULL. */
typedef void um_handler_fn(int number, void *info, void *context);

struct um_handler {
    int number;              /* the signal; fixed, as the next two */
    unsigned flags;          /* besides those that every handler has */
    um_handler_fn *function; /* calls um_handler_asked() first, and um_handler_pass_on() for signals
                                that are not for it */
    /* the action below; changed under um_os_exclusively, read by handlers. A handler that reads
     * while they change may combine old and new values: both are valid */
    um_atomic_uptr below;
    um_atomic_u32 below_flags;
    uint64_t below_mask; /* handlers do not read it */
};

/* The request of a leaving handler to the handlers above it. */
struct um_handler_request {
    uint64_t magic;
    uintptr_t from;         /* the leaving handler's function */
    struct um_os_action to; /* the action below it */
    bool done;              /* set by the handler that was just above */
};

/* The argument of functions called under um_os_exclusively. */
struct um_handler_change {
    struct um_handler *handler;
    int error;
};

UM_INLINE bool um_handler_is_ours(unsigned flags)
{
    return (flags & UM_HANDLER_FLAGS) == UM_HANDLER_FLAGS;
}

UM_INLINE struct um_os_action um_handler_below(const struct um_handler *handler)
{
    /* relaxed, both: see struct um_handler */
    return (struct um_os_action){um_atomic_load(&handler->below, relaxed),
                                 um_atomic_load(&handler->below_flags, relaxed),
                                 handler->below_mask};
}

UM_INLINE void um_handler_set_below(struct um_handler *handler, const struct um_os_action *below)
{
    /* relaxed, both: see struct um_handler */
    um_atomic_store(&handler->below, below->handler, relaxed);
    um_atomic_store(&handler->below_flags, below->flags, relaxed);
    handler->below_mask = below->mask;
}

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD void um_handler_put_now(void *arg)
{
    struct um_handler_change *change = (struct um_handler_change *)arg;
    struct um_handler *handler = change->handler;
    struct um_os_action below, action = {.handler = (uintptr_t)handler->function};

    change->error = um_os_action(handler->number, NULL, &below);
    if (change->error != 0 || below.handler == action.handler) /* inherited by fork(2) */
        return;
    um_handler_set_below(handler, &below);
    action.mask = below.mask;
    action.flags = UM_HANDLER_FLAGS | handler->flags |
                   (below.flags & (UM_LINUX_SA_NODEFER | UM_LINUX_SA_RESTART));
    if (below.handler == (uintptr_t)SIG_IGN) /* which interrupts no system call */
        action.flags |= UM_LINUX_SA_RESTART;
    change->error = um_os_action(handler->number, &action, NULL);
}

/* Installs the handler over the present action. One thread at a time. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_handler_put(struct um_handler *handler)
{
    struct um_handler_change change = {.handler = handler};

    um_os_exclusively(um_handler_put_now, &change);
    return change.error;
}

UM_LINKONCE UM_COLD void um_handler_take_now(void *arg)
{
    struct um_handler_change *change = (struct um_handler_change *)arg;
    struct um_handler *handler = change->handler;
    struct um_handler_request request = {.magic = UM_HANDLER_MAGIC,
                                         .from = (uintptr_t)handler->function,
                                         .to = um_handler_below(handler)};
    struct um_os_action now;

    change->error = um_os_action(handler->number, NULL, &now);
    if (change->error == 0 && now.handler == request.from)
        request.done = um_os_action(handler->number, &request.to, NULL) == 0;
    else if (change->error == 0 && um_handler_is_ours(now.flags))
        ((um_handler_fn *)now.handler)(handler->number, &request, NULL);
}

/* Takes the handler away. One thread at a time. */
UM_LINKONCE UM_COLD void um_handler_take(struct um_handler *handler)
{
    struct um_handler_change change = {.handler = handler};

    um_os_exclusively(um_handler_take_now, &change);
}

/* In the handler's function: true if the call was no signal but a request, which is now done. */
UM_LINKONCE UM_COLD bool um_handler_asked(struct um_handler *handler, void *info, void *context)
{
    struct um_handler_request *request = (struct um_handler_request *)info;
    struct um_os_action below;

    if (context || request->magic != UM_HANDLER_MAGIC)
        return false;
    below = um_handler_below(handler);
    if (below.handler == request->from) {
        um_handler_set_below(handler, &request->to);
        request->done = true;
    } else if (um_handler_is_ours(below.flags)) {
        ((um_handler_fn *)below.handler)(handler->number, request, NULL);
    }
    return true;
}
#endif /* UMBRA_IMPLEMENTATION */

/* The action below, for one signal: with SA_RESETHAND it is good for one only. */
UM_INLINE uintptr_t um_handler_use_below(struct um_handler *handler, unsigned flags)
{
    /* relaxed, both: as in um_handler_below() */
    if (flags & UM_LINUX_SA_RESETHAND)
        return um_atomic_exchange(&handler->below, (uintptr_t)SIG_DFL, relaxed);
    return um_atomic_load(&handler->below, relaxed);
}

#ifdef UMBRA_IMPLEMENTATION
/* In the handler's function: does what would happen if the handler were not there. */
UM_LINKONCE UM_COLD void um_handler_pass_on(struct um_handler *handler, void *info, void *context)
{
    static const struct um_os_action by_default = {.handler = (uintptr_t)SIG_DFL};
    unsigned flags = um_atomic_load(&handler->below_flags, relaxed); /* as in um_handler_below() */
    uintptr_t below = um_handler_use_below(handler, flags);

    if (below == (uintptr_t)SIG_IGN && um_os_signal_sent(info))
        return;
    if (below == (uintptr_t)SIG_DFL || below == (uintptr_t)SIG_IGN) { /* no fault is ignored */
        um_os_action(handler->number, &by_default, NULL);
        um_os_raise_again(handler->number, info); /* delivered when this handler returns */
    } else if (flags & UM_LINUX_SA_SIGINFO) {
        ((um_handler_fn *)below)(handler->number, info, context);
    } else {
        ((void (*)(int))below)(handler->number);
    }
}
#endif /* UMBRA_IMPLEMENTATION */

#endif

#endif
