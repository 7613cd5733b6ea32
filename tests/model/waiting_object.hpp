/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for the calls of sync/slow_paths.h that wait in an object's list (sync/waiters.h). The
 * object is in a place of its own: its last user frees it.
 */
#ifndef UM_MODEL_WAITING_OBJECT_HPP
#define UM_MODEL_WAITING_OBJECT_HPP

#include "checker.hpp"

template <class P> struct waiting_object : world {
    struct object {
        um_atomic_u64 word;
        typename P::um_waiters list;
        rl::var<int> written; /* by the holders: turns */
        rl::var<int> users;
    };
    object *there = um_place<object>(0);
    bool freed = false;
    typename P::um_waiter waiter[UM_THREADS_MOST]; /* of each thread */
    um_atomic_u32 bell[UM_THREADS_MOST];           /* 1: the waiter was signaled */

    waiting_object()
    {
        um_atomic_store(&there->word, 0, relaxed);
        um_plain_write(there->list.first, (typename P::um_waiter *)0);
        um_plain_write(there->list.last, (typename P::um_waiter *)0);
        um_plain_write(there->list.strict, 0);
        um_plain_write(there->written, 0);
        for (int i = 0; i < UM_THREADS_MOST; i++) {
            um_plain_write(waiter[i].listed, false);
            um_plain_write(waiter[i].strict, false);
            um_plain_write(waiter[i].called, false);
            um_plain_write(waiter[i].since, 0);
            um_atomic_store(&bell[i], 0, relaxed);
        }
    }

    ~waiting_object()
    {
        if (!freed)
            there->~object();
    }

    void free_object()
    {
        RL_ASSERT(um_atomic_load(&there->word, relaxed) == 0);
        freed = true;
        there->~object();
    }

    /* As um_sync_take_list(). */
    void take_list(uint64_t clear, uint64_t set)
    {
        while (!P::um_waiters_try(&there->word, clear, set))
            rl::yield(1, $);
    }

    /* As um_sync_signal(). */
    void signal(typename P::um_waiter *first)
    {
        while (first) {
            typename P::um_waiter *next = um_plain_read(first->next);
            um_atomic_u32 *signaled = &bell[first - waiter];

            um_atomic_store(signaled, 1, release);
            um_os_futex_wake(signaled);
            first = next;
        }
    }

    void sleep(int index)
    {
        /* looks by a read-modify-write: a search of all old values would have no end */
        while (um_atomic_fetch_or(&bell[index], 0, acquire) == 0)
            um_os_futex_wait(&bell[index], 0, UMBRA_NEVER);
        um_atomic_store(&bell[index], 0, relaxed); /* out of the list, so its own */
    }

    /* Lets go of the list; in the model of each kind. */
    virtual void let_go() = 0;

    void join(int index, uint64_t clear)
    {
        take_list(clear, UM_WAITERS_SOME);
        um_plain_write(waiter[index].called, false);
        P::um_waiters_add(&there->list, &waiter[index]);
        let_go();
    }

    /* False: the waiter was not in the list any more. */
    bool leave(int index)
    {
        bool listed;

        take_list(0, 0);
        listed = um_plain_read(waiter[index].listed);
        if (listed)
            P::um_waiters_remove(&there->list, &waiter[index]);
        let_go();
        return listed;
    }

    /* As um_sync_queue(), without the look. False: it gave up, as a hasty one may. */
    bool queue(int index, uint64_t clear, bool hasty)
    {
        join(index, clear);
        if (hasty && rl::rand(2) == 0 && leave(index))
            return false;
        sleep(index);
        return true;
    }
};

#endif
