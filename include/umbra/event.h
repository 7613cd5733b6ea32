/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Events: what fibers and threads on any core wait for (Karasik and Prihozhy, 2020: cooperative
 * synchronization primitive, CSP, Figure 4).
 *
 *     struct umbra_event ready = UMBRA_EVENT_INIT;
 *
 *     the waiter                                        the signaller
 *     error = umbra_event_wait(&ready, UMBRA_NEVER);    data = ...;
 *     if (error == 0)                                   umbra_event_signal(&ready);
 *         ... data ...
 *
 * An event is reset or signaled. Auto-reset (UMBRA_EVENT_INIT): a signal releases the waiter that
 * has waited longest; without a waiter the event stays signaled until one comes, and further
 * signals merge with that one. Manual-reset (UMBRA_EVENT_INIT_MANUAL): a signal releases all
 * waiters, and the event stays signaled until it is reset.
 *
 *   call                       on a reset event               on a signaled one
 *   signal, auto-reset         releases one, else: signaled   stays signaled
 *   signal, manual-reset       releases all; signaled         stays signaled
 *   reset                      stays reset                    reset
 *   wait                       waits                          returns; auto-reset: now reset
 *
 * Calls from several threads at once do not wait for each other: a call that finds the event held
 * records its request and returns; the holder executes the requests in the order in which they were
 * recorded (event/protocol.h has the eight states and the argument). What was written before a
 * signal is visible to the waiter that the signal releases.
 *
 * A wait with a deadline, or for one of several events, may have to wait for admission while such
 * waits give up and come again so fast that the holder cannot finish. Until its deadline it looks
 * now and then for a signal, or asks its condition, and takes what it finds. But it is in no queue:
 * later waiters may overtake it, and it may miss that a manual-reset event was signaled and reset.
 *
 * A fiber that waits lets its core run other fibers. If none is ready, it first waits in place: it
 * looks at the event for a moment before it leaves its core (two-phase, as umbra/wait.h). A thread
 * that is no core spins, then sleeps.
 *
 * A released waiter may destroy the event at once, even if the signal that released it has not
 * returned yet; but no third call may use the event. Exception: umbra_event_wait_until may return
 * because its condition is true before the signaller has signaled; the event must stay until that
 * call of the signaller's has returned.
 *
 * An event may be in any memory, malloc's too. Where several cores use it, it is faster if it
 * begins a cache line, of which it then has all: in static storage, in a frame and in a struct with
 * _Alignas(UMBRA_CACHE_LINE), allocated (it, or a struct that has it so) with
 * aligned_alloc(UMBRA_CACHE_LINE, bytes). An event that lies across two lines costs a transfer of
 * both, and shares them with its neighbours.
 *
 * Callers: any thread or fiber; a signal handler may only use umbra_event_signal_async and
 * umbra_event_reset. What can go wrong: a wait that ends with an error, without a signal (below).
 */
#ifndef UMBRA_EVENT_H
#define UMBRA_EVENT_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/event/protocol.h>

/* An event: one cache line. All zero but for `manual` is a reset event. */
struct umbra_event {
    UM_ALIGNED(UM_ANY_MEMORY) struct um_event event;
    unsigned char apart[UM_LINE_REST(sizeof(struct um_event))];
};

/* Initial values. The first is that of zeroed memory. Elsewhere than in a declaration, while no
 * call uses the event: event = (struct umbra_event)UMBRA_EVENT_INIT. */
#define UMBRA_EVENT_INIT UM_EVENT_INIT
#define UMBRA_EVENT_INIT_MANUAL UM_EVENT_INIT_MANUAL

/*
 * Signals. Any thread or fiber; a signal handler may only use the second. The first may make fibers
 * of the caller's core ready itself. The second touches neither thread-local variables nor a ready
 * queue, and is async-signal-safe. (Not with UMBRA_POSIX_ONLY: there waking a sleeper locks a
 * mutex, so the handler must not interrupt a call that waits or wakes.) Neither switches or blocks,
 * with one exception: when 65,535 signals are recorded for the holder, the next signal waits for
 * the holder; for ever, if a handler makes it that interrupts the holder itself.
 */
UM_INLINE void umbra_event_signal(struct umbra_event *event);
UM_INLINE void umbra_event_signal_async(struct umbra_event *event);

/* Resets. Any thread or fiber, and signal handlers; never switches or blocks. */
UM_INLINE void umbra_event_reset(struct umbra_event *event);

/*
 * Waits for a signal, until a time of umbra_now_ns() at the latest; UMBRA_NEVER: for as long as it
 * takes. With deadline 0 it only takes a signal that is there: then it neither switches nor blocks,
 * and returns 0 or -ETIMEDOUT, the latter perhaps while another thread's call holds the event. A
 * fiber (may switch) or any other thread (blocks); no signal handler. Returns 0, or
 *   -ETIMEDOUT            the deadline passed first
 *   -ECANCELED            the calling fiber is canceled (umbra_cancel)
 *   -EPERM                on an alternate signal stack
 *   -ENOMEM               a thread's first wait, or one with a deadline
 *   -EAGAIN               a thread's first wait: no key is left (pthread_key_create)
 *   -EINVAL, -EOPNOTSUPP  a thread's first wait: UMBRA_WAIT names no back end, or one that cannot
 *                         execute here (umbra/wait.h)
 */
UM_ALWAYS_INLINE int umbra_event_wait(struct umbra_event *event, uint64_t deadline);

/*
 * Waits until the condition holds(arg) returns true. The caller asks it at once. Then it is asked
 * at each signal: if true, the wait takes the signal and ends; else the signal is offered to the
 * next waiter, to each once, and stays if no waiter takes it. The condition runs in the calling
 * thread, in the signalling thread, and in any other thread that holds the event. So it must only
 * read what was written before a signal, must not block, and must be quick. When the wait returns
 * 0, the last answer was true. deadline: UMBRA_NEVER for none. Callers and errors as
 * umbra_event_wait.
 */
UM_LINKONCE int umbra_event_wait_until(struct umbra_event *event, bool (*holds)(void *arg),
                                       void *arg, uint64_t deadline);

/*
 * Waits until the first of `count` events, 1 to 1000, is signaled, and gives its index; of several
 * signaled events, the first of the array. Takes the signal of that event only. which: NULL if not
 * wanted. Callers and errors as umbra_event_wait, with -ENOMEM for any deadline; -EINVAL:
 * no event, or too many.
 */
UM_LINKONCE int umbra_event_wait_any(struct umbra_event *const *events, unsigned count,
                                     uint64_t deadline, unsigned *which);

#include <umbra/base/atomic.h>
#include <umbra/base/trace_kinds.h>
#include <umbra/event/await.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_EVENT_INIT                                                                              \
    {                                                                                              \
        .event = {.manual = false }                                                                \
    }

#define UM_EVENT_INIT_MANUAL                                                                       \
    {                                                                                              \
        .event = {.manual = true }                                                                 \
    }

UM_STATIC_ASSERT(__alignof__(struct umbra_event) <= UM_ANY_MEMORY, "malloc's memory will do");
UM_STATIC_ASSERT(sizeof(struct umbra_event) == UMBRA_CACHE_LINE, "and in an array each has a line");

/* ---- signalling ---- */

UM_INLINE void umbra_event_signal(struct umbra_event *event)
{
    struct um_released out = {NULL, NULL};

    um_trace_say(UM_TRACE_SIGNAL, (uintptr_t)event, 0);
    um_event_signal(&event->event, &out);
    if (out.first)
        um_event_wake(&out, um_core_self);
}

UM_INLINE void umbra_event_signal_async(struct umbra_event *event)
{
    struct um_released out = {NULL, NULL};

    um_event_signal(&event->event, &out);
    um_event_wake(&out, NULL);
}

UM_INLINE void umbra_event_reset(struct umbra_event *event)
{
    um_event_reset(&event->event);
}

UM_ALWAYS_INLINE int umbra_event_wait(struct umbra_event *event, uint64_t deadline)
{
    if (deadline == 0)
        return um_event_try(&event->event) ? 0 : -ETIMEDOUT;
    return um_await_end(um_event_wait_outline(event, deadline));
}

#endif
