/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for an event: a queue of threads under a lock, which asks conditions as protocol/event.h
 * does: at a join that of the new waiter, at a signal those of all, oldest first, until one takes.
 */
#ifndef UM_MODEL_EVENT_QUEUE_HPP
#define UM_MODEL_EVENT_QUEUE_HPP

#include "checker.hpp"

struct event_queue {
    rl::mutex lock;
    int waiter[UM_THREADS_MOST]; /* under the lock, as the next */
    int queued = 0;
    um_atomic_u32 bell[UM_THREADS_MOST]; /* 1: the thread's condition took */

    event_queue()
    {
        for (int i = 0; i < UM_THREADS_MOST; i++)
            um_atomic_store(&bell[i], 0, relaxed);
    }

    /* Under the lock. */
    void unlink(int place)
    {
        queued--;
        for (int i = place; i < queued; i++)
            waiter[i] = waiter[i + 1];
    }

    /* Offers the signal to the queued threads. takes(thread): asks its condition. */
    template <class Takes> void signal(Takes takes)
    {
        lock.lock($);
        for (int i = 0; i < queued; i++) {
            int thread = waiter[i];

            if (!takes(thread))
                continue;
            unlink(i);
            um_atomic_store(&bell[thread], 1, release);
            um_os_futex_wake(&bell[thread]);
            break;
        }
        lock.unlock($);
    }

    /* True if the condition took at once. */
    template <class Takes> bool join(int thread, Takes takes)
    {
        bool taken;

        lock.lock($);
        taken = takes(thread);
        if (!taken)
            waiter[queued++] = thread;
        lock.unlock($);
        return taken;
    }

    /* True if the thread was in the queue, and is not now. */
    bool withdraw(int thread)
    {
        bool found = false;

        lock.lock($);
        for (int i = 0; i < queued && !found; i++) {
            found = waiter[i] == thread;
            if (found)
                unlink(i);
        }
        lock.unlock($);
        return found;
    }

    /* Until the thread's condition took. */
    void sleep(int thread)
    {
        /* looks by a read-modify-write: a search of all old values would have no end */
        while (um_atomic_fetch_or(&bell[thread], 0, acquire) == 0)
            um_os_futex_wait(&bell[thread], 0, UMBRA_NEVER);
        um_atomic_store(&bell[thread], 0, relaxed); /* out of the queue, so its own */
    }
};

#endif
