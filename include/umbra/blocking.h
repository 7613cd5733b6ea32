/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Calls that block, without blocking a core: a function runs on a helper thread while the fiber
 * that called waits, in state "system call", and its core executes other fibers (Karasik and
 * Prihozhy, 2020: WaitingWrSystemCall and WaitingWrSystemTrap).
 *
 *     static void look_up(void *arg)                    in a fiber
 *     {                                                 struct query query = {"localhost"};
 *         struct query *query = arg;
 *         query->error = getaddrinfo(...);              umbra_blocking(look_up, &query);
 *     }                                                 ... query.error ...
 *
 * For what takes longer than a hand-over there and back (some microseconds): files, names, locks
 * and libraries that wait in the kernel. Sockets and pipes with many waiting fibers are better
 * served by umbra/io.h, which needs no thread for each wait.
 *
 * Helpers. A runtime has none until the first call. A call that finds no idle helper starts one, up
 * to a limit (umbra_options.blocking_threads); beyond the limit calls wait in the order in which
 * they came, each in its fiber's frame, so no queue overflows and nothing is allocated. They do so,
 * too, where the system refuses another helper and there are some. A helper that has had nothing to
 * do for a second ends. Helpers have the signal mask and the processors that the thread had which
 * created the runtime: so have the processes and threads that fn starts. Handlers of the program may
 * run there, and calls in fn may return EINTR.
 *
 * The function runs in another thread: thread-local variables there, errno among them, are not the
 * fiber's. So it leaves its results, errno too, where arg points. It must not make calls that only
 * a fiber may make, and none that wait for a fiber that in turn waits for a place in the pool.
 *
 * Deadlock. None is reported while a call is under way, which holds the runtime as umbra_hold does:
 * its function may yet signal an event, or spawn.
 *
 * Callers: any thread or fiber, but no signal handler; in a thread that is no core the call runs
 * the function itself. What can go wrong: the call returns an error, with the function not called.
 */
#ifndef UMBRA_BLOCKING_H
#define UMBRA_BLOCKING_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/event.h>

/* The most helper threads of a runtime, where its options do not say. */
#ifndef UMBRA_BLOCKING_THREADS
#define UMBRA_BLOCKING_THREADS 64
#endif

/*
 * Calls fn(arg) on a helper thread, and returns when fn has returned. A thread that is no core
 * calls fn itself. What the caller has written before is visible to fn, and what fn has written to
 * the caller afterwards. Any thread or fiber, but no signal handler; a fiber switches. Returns 0,
 * or with fn not called:
 *   -EAGAIN     no helper is left, and the system refuses to start one
 *   -ENOMEM     no memory for the first helper
 *   -ECANCELED  the fiber was canceled (umbra_cancel) before a helper took the call. A call that a
 *               helper has taken is not interrupted
 *   -EPERM      on an alternate signal stack
 *   -EINVAL     there is no fn
 */
UM_LINKONCE int umbra_blocking(void (*fn)(void *arg), void *arg);

#include <umbra/blocking/helpers.h>

#endif
