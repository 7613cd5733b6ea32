/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Events: what fibers and threads on any core wait for (Karasik and Prihozhy, 2020: cooperative
 * synchronization primitive, CSP, Figure 4).
 *
 *     struct umbra_event ready = UMBRA_EVENT_INIT;
 *
 *     one side                                  the other
 *     umbra_event_wait(&ready);                 data = ...;
 *     ... data ...                              umbra_event_signal(&ready);
 *
 * An event is reset or signaled. Auto-reset (UMBRA_EVENT_INIT): a signal releases the one who has
 * waited longest, or, if nobody waits, stays until somebody comes; signals that nobody waits for
 * are one signal. Manual-reset (UMBRA_EVENT_INIT_MANUAL): a signal releases all, and the event
 * stays signaled until it is reset.
 *
 *   call                       on a reset event               on a signaled one
 *   signal, auto-reset         releases one, else: signaled   stays signaled
 *   signal, manual-reset       releases all; signaled         stays signaled
 *   reset                      stays reset                    reset
 *   wait                       waits                          returns; auto-reset: now reset
 *
 * Calls from several threads at once never wait for each other: who finds the event in the middle
 * of another's call leaves its request there and goes on, and the other carries it out, in the
 * order in which they were left (protocol/event.h has the eight states and the argument).
 * Only a wait with a deadline, or for one of several events, may itself be kept from beginning, up
 * to its deadline, while another's call cannot come to an end for those that give up and come again.
 * Until then it looks now and then for a signal, or whether its condition holds, and takes what it
 * finds; but it is in no queue, so later ones may overtake it, and of a manual-reset event that is
 * signaled and then reset it may see nothing.
 * What was written before a signal is visible to the one it releases.
 *
 * A fiber that waits lets its core run others; if there are none, it waits in place first: it looks at
 * the event for a moment before it leaves its core (two-phase, as umbra/wait.h). A thread that is no
 * core spins, then sleeps. Who waits may destroy the event as soon as it is released, if nobody else
 * uses it: but umbra_event_wait_until also returns when its condition holds before the signal that
 * was to tell so, which then comes to an event that must still be there.
 *
 * An event may be in any memory, malloc's too. Where several cores use it, it is faster if it begins a
 * cache line, of which it then has all: in static storage, in a frame and in a struct with
 * _Alignas(UMBRA_CACHE_LINE), allocated (it, or a struct that has it so) with
 * aligned_alloc(UMBRA_CACHE_LINE, bytes). One that lies across two lines costs a transfer of both, and
 * shares them with what is beside it.
 */
#ifndef UMBRA_EVENT_H
#define UMBRA_EVENT_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/protocol/event.h>

/* An event. As long as a line; all zero but for `manual` is a reset one. */
struct umbra_event {
    UM_ALIGNED(UM_ANY_MEMORY) struct um_event event;
    unsigned char apart[UM_LINE_REST(sizeof(struct um_event))];
};

#define UMBRA_EVENT_INIT                                                                           \
    {                                                                                              \
        .event = {.manual = false }                                                                \
    }
#define UMBRA_EVENT_INIT_MANUAL                                                                    \
    {                                                                                              \
        .event = {.manual = true }                                                                 \
    }

/* Makes a reset event. Anybody. */
UM_INLINE void umbra_event_init(struct umbra_event *event, bool manual);

/*
 * Signals. Anybody, but in signal handlers the second. The first may make fibers of its own core
 * ready by itself; the second touches neither thread-local variables nor a ready queue, and is
 * async-signal-safe (with UMBRA_POSIX_ONLY it is not: waking a sleeper locks a mutex there, so the
 * handler must not interrupt a call that waits or wakes). Neither switches or blocks; but where
 * 65,535 signals already wait for one call on the event that is under way, the next waits for that
 * call to end: for ever, if it comes from a handler that interrupts that very call.
 */
UM_INLINE void umbra_event_signal(struct umbra_event *event);
UM_INLINE void umbra_event_signal_async(struct umbra_event *event);

/* Resets. Anybody, signal handlers too; never blocks. */
UM_INLINE void umbra_event_reset(struct umbra_event *event);

/*
 * Takes a signal if there is one: whether there was. May say no while another thread's call on the
 * event is under way. Anybody; never switches or blocks.
 */
UM_INLINE bool umbra_event_try(struct umbra_event *event);

/*
 * Waits for a signal; the second until a time stamp made by umbra_deadline(ns) at the latest. A
 * fiber (may switch) or any other thread (blocks). Returns 0, or
 *   -ETIMEDOUT            the deadline passed first
 *   -EPERM                on an alternate signal stack
 *   -ENOMEM               a thread's first wait, or one with a deadline
 *   -EAGAIN               a thread's first wait: no thread-specific key is left (pthread_key_create)
 *   -EINVAL, -EOPNOTSUPP  a thread's first wait: UMBRA_WAIT names no back end, or one that cannot
 *                         execute here (umbra/wait.h)
 */
UM_ALWAYS_INLINE int umbra_event_wait(struct umbra_event *event);
UM_ALWAYS_INLINE int umbra_event_wait_deadline(struct umbra_event *event, uint64_t deadline);

/*
 * Waits until holds(arg), which is asked at once, and then for each signal: it takes the signal if
 * it says yes; else the signal goes on to the next waiter, each being asked once, and stays if
 * nobody takes it. It is asked by whoever signals, also by the signaller of another wait's event;
 * so it must only look at what is written before a signal, not block, and be quick. When the wait
 * returns 0, it held when it was asked last. deadline: UMBRA_NEVER for none. Otherwise as above.
 */
UM_LINKONCE int umbra_event_wait_until(struct umbra_event *event, bool (*holds)(void *arg),
                                       void *arg, uint64_t deadline);

/*
 * Waits for the first of `count` events, 1 to 1000, to be signaled, and says which; of several that
 * are, the first of the array. Only that one's signal is taken. As umbra_event_wait_deadline, with
 * -ENOMEM for any deadline; -EINVAL: no event, or too many.
 */
UM_LINKONCE int umbra_event_wait_any(struct umbra_event *const *events, unsigned count,
                                     uint64_t deadline, unsigned *which);

/* What the event is doing: enum umbra_event_state. Anybody; may be out of date on return. */
UM_INLINE enum umbra_event_state umbra_event_state(const struct umbra_event *event);
UM_LINKONCE const char *umbra_event_state_name(enum umbra_event_state state);

#include <umbra/base/atomic.h>
#include <umbra/impl/event.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

_Static_assert(_Alignof(struct umbra_event) <= UM_ANY_MEMORY, "malloc's memory will do");
_Static_assert(sizeof(struct umbra_event) == UMBRA_CACHE_LINE, "and in an array each has a line");

/* ---- signalling ---- */

UM_INLINE void umbra_event_init(struct umbra_event *event, bool manual)
{
    *event = (struct umbra_event){.event = {.manual = manual}};
}

UM_INLINE void umbra_event_signal(struct umbra_event *event)
{
    struct um_released out = {NULL, NULL};

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

UM_INLINE bool umbra_event_try(struct umbra_event *event)
{
    return um_event_try(&event->event);
}

UM_INLINE enum umbra_event_state umbra_event_state(const struct umbra_event *event)
{
    /* relaxed: only looked at */
    return (enum umbra_event_state)um_event_state_of(um_atomic_load(&event->event.word, relaxed));
}

UM_ALWAYS_INLINE int umbra_event_wait(struct umbra_event *event)
{
    return um_await_end(um_event_wait_outline(event, UMBRA_NEVER));
}

UM_ALWAYS_INLINE int umbra_event_wait_deadline(struct umbra_event *event, uint64_t deadline)
{
    return um_await_end(um_event_wait_outline(event, deadline));
}

#endif
