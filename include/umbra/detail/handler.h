/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A signal's handler that is put over what a process does about the signal, and taken away again.
 * What it is not meant for it passes on to what is below, as if it were not there. Private.
 *
 * It is put there with the mask of what is below, and with those of its flags that tell the kernel how
 * to call a handler, so that what is below is called as the kernel would call it; but on the thread's
 * alternate stack, if it has one.
 */
#ifndef UMBRA_DETAIL_HANDLER_H
#define UMBRA_DETAIL_HANDLER_H

#include <signal.h>

#include <umbra/detail/atomic.h>
#include <umbra/detail/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UM_OS_HANDLES

/* info: the system's siginfo_t; context: the system's. */
typedef void um_handler_fn(int number, void *info, void *context);

struct um_handler {
    int number;              /* fixed, as the next */
    um_handler_fn *function; /* calls um_handler_pass_on() for what it is not meant for */
    /* what is below; um_handler_put() writes, handlers read. A handler that reads them while they change
       may mix an old one and a new one: each is as good */
    um_atomic_uptr below;
    um_atomic_u32 below_flags;
    uint64_t below_mask; /* for um_handler_take() only */
};

UM_INLINE struct um_os_action um_handler_below(const struct um_handler *handler)
{
    /* relaxed, both: see struct um_handler */
    return (struct um_os_action){um_atomic_load(&handler->below, relaxed),
                                 um_atomic_load(&handler->below_flags, relaxed),
                                 handler->below_mask};
}

/* Puts it over what there is. One thread at a time. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_handler_put(struct um_handler *handler)
{
    struct um_os_action below, action = {.handler = (uintptr_t)handler->function};
    int error = um_os_action(handler->number, NULL, &below);

    if (error != 0 || below.handler == (uintptr_t)handler->function) /* inherited by fork(2) */
        return error;
    /* relaxed, both: as in um_handler_below() */
    um_atomic_store(&handler->below, below.handler, relaxed);
    um_atomic_store(&handler->below_flags, below.flags, relaxed);
    handler->below_mask = below.mask;
    action.mask = below.mask;
    action.flags = UM_LINUX_SA_SIGINFO | UM_LINUX_SA_ONSTACK |
                   (below.flags & (UM_LINUX_SA_NODEFER | UM_LINUX_SA_RESTART));
    if (below.handler == (uintptr_t)SIG_IGN) /* which interrupts no system call */
        action.flags |= UM_LINUX_SA_RESTART;
    return um_os_action(handler->number, &action, NULL);
}

/* Gives the signal back to what is below, unless another handler has been put over this one. One
 * thread at a time. */
UM_LINKONCE UM_COLD void um_handler_take(struct um_handler *handler)
{
    struct um_os_action now, below = um_handler_below(handler);

    if (um_os_action(handler->number, NULL, &now) == 0 &&
        now.handler == (uintptr_t)handler->function)
        um_os_action(handler->number, &below, NULL);
}

/* What is below, for one signal: a handler may be good for one only. */
UM_INLINE uintptr_t um_handler_use_below(struct um_handler *handler, unsigned flags)
{
    /* relaxed, both: as in um_handler_below() */
    if (flags & UM_LINUX_SA_RESETHAND)
        return um_atomic_exchange(&handler->below, (uintptr_t)SIG_DFL, relaxed);
    return um_atomic_load(&handler->below, relaxed);
}

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

#endif

#endif
