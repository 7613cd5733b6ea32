/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A signal's handler that is put over what a process does about the signal, and taken away again.
 * What it is not meant for it passes on to what is below, as if it were not there. Private.
 *
 *     the kernel -> newest -> ... -> oldest -> what the program had
 *
 * It is put there with the mask of what is below, and with those of its flags that tell the kernel how
 * to call a handler, so that what is below is called as the kernel would call it; but on the thread's
 * alternate stack, if it has one.
 *
 * The program and each shared object have a copy of the library, of handlers and of what is below them,
 * and an object may be unloaded. A handler that goes while it is the newest gives the kernel what is
 * below. Else, if the newest is one of another copy, that one is asked to put what is below in the
 * place of the one that goes, and asks the next: the question is a call of its function, with a
 * context that no signal has. Handlers of the library are known by two flags that mean something for
 * SIGCHLD only. What has been put over them by others cannot be asked: then the object stays loaded.
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

/* SA_NOCLDSTOP and SA_NOCLDWAIT mark the library's */
#define UM_HANDLER_FLAGS                                                                           \
    (UM_LINUX_SA_SIGINFO | UM_LINUX_SA_ONSTACK | UM_LINUX_SA_NOCLDSTOP | UM_LINUX_SA_NOCLDWAIT)
#define UM_HANDLER_MAGIC UINT64_C(0x756d6272612d3031) /* changes with struct um_handler_request */

/* info: the system's siginfo_t; context: the system's. Or a request, and NULL. */
typedef void um_handler_fn(int number, void *info, void *context);

struct um_handler {
    int number;              /* fixed, as the next two */
    unsigned flags;          /* besides those that every handler has */
    um_handler_fn *function; /* asks um_handler_asked() first, and calls um_handler_pass_on() for
                                what it is not meant for */
    /* what is below; changed exclusively (um_os_exclusively), and read by handlers. One that reads them
       while they change may mix an old one and a new one: each is as good */
    um_atomic_uptr below;
    um_atomic_u32 below_flags;
    uint64_t below_mask; /* not for handlers */
};

/* What a handler that goes asks of those above it. */
struct um_handler_request {
    uint64_t magic;
    uintptr_t from;         /* the function that goes */
    struct um_os_action to; /* what is below it */
    bool done;
};

/* Exclusively. */
struct um_handler_change {
    struct um_handler *handler;
    int error;
    bool kept; /* others may still call it */
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

#ifndef UMBRA_DECLARE
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

/* Puts it over what there is. One thread at a time. 0 or a negative errno. */
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
    change->kept = !request.done;
}

/* Takes it away. One thread at a time. True if others may still call it: then it passes all on, and
 * um_os_keep_loaded() is to be called with its function, and without a lock. */
UM_LINKONCE UM_COLD bool um_handler_take(struct um_handler *handler)
{
    struct um_handler_change change = {.handler = handler};

    um_os_exclusively(um_handler_take_now, &change);
    return change.kept;
}

/* From the handler's function: true if this is no signal but a request, which is done. */
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
#endif /* UMBRA_DECLARE */

/* What is below, for one signal: a handler may be good for one only. */
UM_INLINE uintptr_t um_handler_use_below(struct um_handler *handler, unsigned flags)
{
    /* relaxed, both: as in um_handler_below() */
    if (flags & UM_LINUX_SA_RESETHAND)
        return um_atomic_exchange(&handler->below, (uintptr_t)SIG_DFL, relaxed);
    return um_atomic_load(&handler->below, relaxed);
}

#ifndef UMBRA_DECLARE
/* From the handler's function: does what would be done if it were not there. */
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
#endif /* UMBRA_DECLARE */

#endif

#endif
