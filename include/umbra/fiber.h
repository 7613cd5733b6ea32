/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Fibers: cooperative user threads, each with its own stack, that hand their core directly to each
 * other (Karasik and Prihozhy, 2020: cooperative user threads, CUT, and direct control transfer,
 * Figure 3). umbra/core.h starts fibers; this header has the calls that a running fiber makes.
 *
 * Words of the paper. A fiber that transfers gives its core to one fiber that it names, and is
 * stopped. To continue a stopped fiber is to make it ready: it runs when its core comes to it.
 *
 * States. What the paper names and what is stored, or derived, here:
 *
 *   here         the paper's                     the fiber
 *   created      Created, Initializing,          has been spawned; it has not reached its core's
 *                Initialized                     ready queue (on its way, delayed, without a place)
 *   ready        Ready                           is in the ready queue of its core
 *   executing    Executing                       runs on its core
 *   stopped      WaitingWrStopped                transferred away; runs again when another fiber
 *                                                transfers to it, or any caller continues it
 *   blocked      WaitingWrBlocked                waits: for an event, a fiber's end, a time
 *   system call  WaitingWrSystemCall,            is blocked in umbra_blocking (umbra/blocking.h) or
 *                WaitingWrSystemTrap             in a call of umbra/io.h: its core executes others
 *   terminated   Terminated                      has returned, and was not joined yet
 *
 * StandBy and WaitingWrYielded last for the few instructions of a switch and are not stored. A
 * fiber that makes a system call by itself keeps its core, and is executing.
 *
 *                      spawn                  chosen
 *          created ------------> ready <-------------------- executing -----> terminated
 *                                 | ^      yield                |  |  returns
 *                                 | '-- continue, woken         |  '--> stopped  (transfer)
 *                                 '-- transferred to ---------->'-----> blocked  (wait, join, sleep)
 *
 * The ready queue belongs to one core and has no atomics. Two kinds of fibers are in it, each kind
 * first in, first out:
 *
 *   woken      its wait is over (an event, a lock, a message, a time, umbra_continue), or it was
 *              sent here from another core or thread
 *   not woken  it has yielded; it was spawned by its own core; or it has joined a fiber of its own
 *              core, which ended. (Fibers that are spawned in a row and joined in that order then
 *              run one after the other, and the later joins need not wait.)
 *
 * Woken fibers go before the others. So a signal waits for the running fiber's slice only. But one
 * that yields, and each before it that was not woken, lets at most 16 fibers go before it that are
 * woken later. So in a storm of wake-ups, and beside fibers that wake each other all the time, it
 * runs again after those that were ready when it yielded, once each, and after 16 more for each of
 * its own kind. It never waits behind its own kind for more than a turn of each.
 *
 * A transfer bypasses the queue: the fiber that gets the core loses its place there if it was
 * ready, and two fibers that only transfer to each other keep the core to themselves.
 *
 * Callers: each comment names them. "A fiber" means that the call must be made in a
 * fiber; "any thread or fiber" includes threads that are no core. A handle may be used from any
 * core.
 *
 * A started fiber never leaves its core, so the address of a thread-local variable, errno among
 * them, stays valid in it. But the variable belongs to the core's thread, not to the fiber: any
 * call that may switch may change errno, so use errno before the next such call. For values of its
 * own a fiber has fiber-local values (umbra_local_set).
 *
 * C++ functions that run in a fiber may switch inside a catch clause, or in a destructor during an
 * exception: the C++ runtime's record of exceptions stays with the fiber. An exception must not
 * leave the fiber's function.
 *
 * pthread_exit() in a fiber, or a cancellation of the core's thread, ends the program with one
 * sentence on standard error, and abort(): the fiber's function returns instead. Between
 * pthread_cleanup_push() and _pop() a fiber must not switch: the list of handlers is the thread's.
 *
 * Handles are a pointer and a generation. A handle of a fiber that was joined, or ended detached,
 * is told from that of the next fiber in the same memory; it stays a valid argument until the
 * runtime is destroyed.
 *
 * Signal handlers: a handler that runs on the fiber's stack may do what a handler may do, and call
 * umbra_event_signal_async. On an alternate signal stack no fiber switches: calls that could switch
 * return -EPERM there; umbra_yield does nothing.
 */
#ifndef UMBRA_FIBER_H
#define UMBRA_FIBER_H

#include <umbra/base/base.h>
#include <umbra/context.h>
#include <umbra/cpu.h>
#include <umbra/wait.h>

struct umbra_core;
struct umbra_runtime;

/* The function of a fiber. Its result goes to the joiner. */
typedef void *umbra_fiber_fn(void *arg);

/* A handle of a fiber. All zero names none. */
struct umbra_fiber {
    struct um_fiber *block;
    uint64_t generation;
};

enum umbra_fiber_state {
    UMBRA_FIBER_CREATED,
    UMBRA_FIBER_READY,
    UMBRA_FIBER_EXECUTING,
    UMBRA_FIBER_STOPPED,
    UMBRA_FIBER_BLOCKED,
    UMBRA_FIBER_TERMINATED,
    UMBRA_FIBER_SYSTEM_CALL
};

/* Bytes of a fiber's name, with its final 0; a longer one is cut off between two characters
 * (UTF-8). */
#define UMBRA_FIBER_NAME_BYTES 24

/*
 * Lets the other ready fibers of this core run first; returns at once if there are none, or on an
 * alternate signal stack. A fiber; switches. From a thread that is no core: gives up its processor
 * to other threads of the system.
 */
UM_ALWAYS_INLINE void umbra_yield(void);

/*
 * A safe point, for loops that compute for long. Yields as umbra_yield if something has waited for
 * the core for the runtime's share (umbra_options.share_ns): a ready fiber, a message of another
 * core, the end of a sleep or of a wait, work without a place, a core that wants a task. The share
 * is counted from the first safe point that finds this, and anew when the fiber has given up its
 * core. So what comes has its turn after the share and two distances between safe points, at the
 * latest. Costs some loads and a branch while no other fiber of the core is ready, sleeps, or waits
 * with a deadline; else a reading of the time stamp, too. Without a share: does nothing, for two
 * loads. Any thread or fiber; a fiber may switch.
 */
UM_ALWAYS_INLINE void umbra_poll(void);

/*
 * Gives the core to `to`, a fiber of this core that is stopped or ready, and stops the caller until
 * another fiber transfers to it, or any caller continues it. One jump, no scheduler in between. A
 * fiber; switches. If umbra_continue for the caller came before, the caller stays ready instead.
 * Returns 0 when the caller runs again, or at once and with nothing changed:
 *   -EINVAL  to itself
 *   -EPERM   not called by a fiber, or on an alternate signal stack
 *   -ESRCH   `to` has ended
 *   -EXDEV   `to` is on another core, or on none yet
 *   -EBUSY   `to` is blocked, or delayed, or its spawn from another core has not arrived yet
 */
UM_ALWAYS_INLINE int umbra_transfer(struct umbra_fiber to);

/*
 * Fetches what a transfer to the fiber touches, its control block and the frames on top of its
 * stack, into this processor's cache. For a core with more fibers than its cache holds, while the
 * caller still has something to compute. A hint: seven lines of 64 bytes; any handle is allowed.
 * Any thread or fiber; never switches or blocks.
 */
UM_INLINE void umbra_fetch_ahead(struct umbra_fiber fiber);

/*
 * Makes a stopped fiber ready. A fiber that is not stopped gets a permit instead (one, however
 * often this is called): its next transfer away leaves it ready. Any thread or fiber, but no signal
 * handler; never switches or blocks. Returns 0; -ESRCH: it has ended; -EBUSY: it was spawned
 * without a place and no core has taken it yet.
 */
UM_LINKONCE int umbra_continue(struct umbra_fiber fiber);

/*
 * Waits at least for a length of time. If other fibers of the core are ready then, the wait is
 * longer: by the rest of the running fiber's slice, or, if slices are short, by up to 1 us or 16
 * slices, since a busy core does not read the clock after each of them. (umbra_event_wait
 * waits until a given time, for an event that stays reset, too.) If the core is idle, a wait of 50 us
 * or more may end as late as a sleep in the kernel, on Linux by 50 us and the time of a wake-up. A
 * fiber blocks, and its core runs other fibers; any other thread sleeps. Returns 0; -ECANCELED: the calling fiber is canceled;
 * -EPERM: on an alternate signal stack; or an error of a thread's first wait (umbra_event_wait).
 */
UM_LINKONCE int umbra_sleep_ns(uint64_t ns);

/*
 * Cancels the fiber: from now on until it ends, each of its calls that would have to wait returns
 * -ECANCELED at once, and so does a call that is waiting now. Nothing else happens to the fiber: it
 * must return from its function itself. Calls that need not wait succeed as before (a signaled
 * event, a free mutex, a fiber that has ended). A fiber that computes, is stopped by a transfer, or
 * is delayed stays so (umbra_canceled, umbra_continue). These calls wait in spite of a cancel: the
 * joins of tasks without a deadline, umbra_parallel_for, umbra_dispatch_end, calls that free
 * something (umbra_detach, umbra_dispatch_destroy), and without a deadline the locks of mutexes and
 * read-write locks, and barriers. umbra_condition_wait returns with its mutex locked, as always.
 *
 * The event that the fiber waits for, or the object that contains it, must stay until the waiting
 * call has returned, even if the event was signaled before.
 *
 * Any thread or fiber, but no signal handler; neither switches nor blocks. Returns 0; -ESRCH: it
 * has ended; -EPERM: it is the parent process's (fork(2)); -ENOMEM.
 */
UM_LINKONCE int umbra_cancel(struct umbra_fiber fiber);

/* True if the calling fiber has been canceled, and has no shield. Any caller; never switches or
 * blocks. */
UM_INLINE bool umbra_canceled(void);

/*
 * Begins or ends a shield: between the two calls the calling fiber waits as if it had not been
 * canceled, for the joins, locks and messages of an orderly end. Shields nest. Neither call
 * switches or blocks. Without effect: in a caller that is no fiber, and an end without a begin.
 */
UM_LINKONCE void umbra_shield(bool begin);

/* The handle of the calling fiber; all zero if the caller is none. Any thread or fiber; never
 * switches or blocks. */
UM_INLINE struct umbra_fiber umbra_self(void);

/* What else is known of a fiber. */
struct umbra_fiber_info {
    char name[UMBRA_FIBER_NAME_BYTES]; /* "" if it has none */
    size_t stack_used;                 /* the most of its stack, in bytes, that this fiber or
                                          earlier fibers on it have used since its pages were
                                          given back last, without swapped pages */
};

/*
 * Returns the state of a fiber (enum umbra_fiber_state), which may be out of date on return; a
 * fiber that has ended and is being joined from another core may be shown as created. -ESRCH: it
 * was joined, or has ended detached. Any thread or fiber; never switches or blocks. info gets what
 * else is known, for one system call a page of the stack: only for a caller that may still join the
 * fiber; else NULL.
 */
UM_LINKONCE int umbra_fiber_info(struct umbra_fiber fiber, struct umbra_fiber_info *info);

/* The index of the calling core, from 0, or -1 if the calling thread is no core. Any thread or
 * fiber; never switches or blocks. */
UM_INLINE int umbra_core_index(void);

/*
 * Fiber-local values: one pointer for each key and fiber, NULL at first. A key is valid in all
 * fibers; there are UMBRA_LOCAL_KEYS in each executable or shared object, and none is given back.
 * When a fiber returns, `destroy`, if not NULL, is called in that fiber for each value that is not
 * NULL, and again while destructors set new values, four times at most. None of the calls switches
 * or blocks.
 *   create  any thread or fiber; -ENOSPC: no key is left
 *   set     a fiber; its first call allocates; -EPERM: the caller is no fiber; -EINVAL: no such
 *           key; -ENOMEM
 *   get     a fiber; any other caller gets NULL
 */
#define UMBRA_LOCAL_KEYS 32
UM_LINKONCE int umbra_local_create(void (*destroy)(void *value), unsigned *key);
UM_LINKONCE int umbra_local_set(unsigned key, void *value);
UM_INLINE void *umbra_local_get(unsigned key);

#include <umbra/base/atomic.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/exceptions.h>
#include <umbra/fiber/look.h>
#include <umbra/fiber/sleep.h>
#include <umbra/fiber/switch.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_ALWAYS_INLINE void umbra_yield(void)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *from, *to;
    struct um_link *first;

    if (UM_LIKELY(core && !um_core_leave_slowly(core))) {
        from = um_core_current(core);
        first = um_link_next(&core->ready);
        if (first == &core->ready || UM_UNLIKELY(!from || !um_fiber_on_stack(from)))
            return;
        to = um_ready_turn(core, from, first);
    } else {
        to = um_yield_slow(core);
        if (!to)
            return;
        from = um_core_current(core);
    }
    um_fiber_switch(core, from, to);
}

UM_ALWAYS_INLINE void umbra_poll(void)
{
    struct umbra_core *core = um_core_self;

    if (core && core->share_cycles != 0 && UM_UNLIKELY(um_core_waited_for(core)))
        um_slice_look(core);
}

UM_ALWAYS_INLINE int umbra_transfer(struct umbra_fiber to)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *from = core ? um_core_current(core) : NULL;

    if (UM_UNLIKELY(
            !from || !to.block || !um_fiber_is(to, UMBRA_FIBER_STOPPED, core) ||
            !um_fiber_on_stack(from) ||
            ((um_fiber_flags(from) & UM_FIBER_PERMIT) | um_exceptions_some(core->exceptions)) != 0))
        return um_transfer_slow(core, to);
    um_fiber_set_state(from, UMBRA_FIBER_STOPPED);
    um_fiber_set_state(to.block, UMBRA_FIBER_READY);
    um_fiber_switch(core, from, to.block);
    return 0;
}

UM_INLINE void umbra_fetch_ahead(struct umbra_fiber fiber)
{
    um_fiber_fetch(fiber.block, -UM_FRAMES_FETCHED, UM_BLOCK_FETCHED - 1);
}

UM_INLINE struct umbra_fiber umbra_self(void)
{
    struct um_fiber *fiber = um_core_self ? um_core_current(um_core_self) : NULL;

    return fiber ? (struct umbra_fiber){fiber, um_fiber_generation(fiber)}
                 : (struct umbra_fiber){NULL, 0};
}

UM_INLINE bool umbra_canceled(void)
{
    struct um_fiber *fiber = um_core_self ? um_core_current(um_core_self) : NULL;

    return fiber && um_fiber_barred(fiber);
}

UM_INLINE int umbra_core_index(void)
{
    return um_core_self ? (int)um_core_self->index : -1;
}

UM_INLINE void *umbra_local_get(unsigned key)
{
    struct um_fiber *fiber = um_core_self ? um_core_current(um_core_self) : NULL;

    return fiber && fiber->local && key < UMBRA_LOCAL_KEYS ? fiber->local[key] : NULL;
}

#endif
