/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The mutex (umbra/sync/mutex.h, and the calls of umbra/sync.h) under the model checker. See
 * checker.hpp.
 *
 * In most scenarios each thread locks, counts itself off the users, and unlocks, and the last one
 * frees the mutex; some give up first. A waiter is a fiber, so firm, or patient for a random number
 * of calls; a holder finds a called one overdue at random. Checked: one holder at a time, which
 * sees what the last one wrote; no thread sleeps on; no call touches what was freed; a mutex that
 * is for a waiter lets no newcomer in. Waiters of a condition are moved to its list.
 */
#define UM_VARIANTS_OF "mutex_variants.hpp"
#include "waiting_object.hpp"

template <class P> struct locked : waiting_object<P, typename P::umbra_mutex> {
    typename P::umbra_mutex *mutex = &this->there->sync;
    typename P::um_mutex_request request[UM_THREADS_MOST]; /* of calls that have begun before */

    locked()
    {
        um_atomic_store(&mutex->owner, 0, relaxed);
        um_atomic_store(&mutex->due, 0, relaxed);
        for (int i = 0; i < UM_THREADS_MOST; i++) {
            request[i].sync.on = mutex;
            request[i].sync.look = P::um_mutex_spin;
            request[i].sync.word = &mutex->word;
            request[i].sync.list = &mutex->waiters;
            request[i].sync.prepare = P::um_mutex_prepare;
            request[i].sync.try_list = P::um_waiters_try;
            request[i].sync.let_go = P::um_mutex_let_list_go;
            request[i].sync.firm = true;
            request[i].sync.deadline = UMBRA_NEVER;
            request[i].self = um_model_self(i);
            request[i].since = 0;
            waiter(i)->bell = &request[i].sync.waiter.given;
        }
    }

    /* Thread 0 holds the mutex. */
    void begin_held(uint64_t others)
    {
        um_atomic_store(&mutex->word, UM_MUTEX_HELD | others, relaxed);
        um_atomic_store(&mutex->owner, um_model_self(0), relaxed);
    }

    typename P::um_waiter *waiter(int index)
    {
        return &request[index].sync.waiter.waiter;
    }

    /* A waiter that is in the list from the beginning. */
    void begin_listed(int index, bool firm)
    {
        um_plain_write(waiter(index)->strict, firm);
        P::um_waiters_add(&mutex->waiters, waiter(index));
    }

    /* It was taken out of the list, with the mutex. */
    void is_given(int index)
    {
        P::um_event_wait_firm(&request[index].sync.waiter.given, NULL, NULL, NULL, NULL, NULL);
        RL_ASSERT(!um_plain_read(waiter(index)->called));
    }

    bool look(bool called)
    {
        bool firm = false;

        return P::um_mutex_look(&mutex->word, called, &firm);
    }

    /* False: it gave up. */
    bool lock(bool hasty)
    {
        int error = P::um_mutex_try(mutex)
                        ? 0
                        : P::um_mutex_wait_deadline(mutex, hasty ? +PERHAPS : UMBRA_NEVER);

        return this->succeeded(error, hasty);
    }

    /* The rest of um_mutex_queue() for a waiter that was called. False: it gave up. */
    bool go_on(int index, bool hasty)
    {
        int error;

        request[index].sync.deadline = hasty ? +PERHAPS : UMBRA_NEVER;
        do {
            request[index].gap = 1;
            request[index].left = 0;
            error = P::um_sync_queue(&request[index].sync);
        } while (error == 0 && um_plain_read(waiter(index)->called));
        if (!this->succeeded(error < 0 ? error : 0, hasty))
            return false;
        P::um_mutex_own(mutex, request[index].self);
        return true;
    }

    /* A turn of a holder, which frees the mutex if no other thread will come. */
    void turn()
    {
        int left = um_plain_read(this->there->users) - 1;

        um_plain_write(this->there->users, left);
        RL_ASSERT(P::umbra_mutex_unlock(mutex) == 0);
        if (left == 0)
            this->free_object();
    }
};

/* Each thread locks and unlocks; the last `Hasty` threads may give up once. Fibers: a bit for each
 * thread that is one. */
template <class P, int Threads, int Hasty, unsigned Fibers = 0> struct turns : locked<P> {
    turns()
    {
        um_model_fibers = Fibers;
        um_plain_write(this->there->users, Threads);
    }

    void thread(int index)
    {
        if (index < Threads - Hasty || !this->lock(true))
            this->lock(false);
        this->turn();
    }

    void after()
    {
        RL_ASSERT(this->freed);
    }
};

/* The same, but thread 0 holds the mutex, and thread 1 has queued and was called; Hasty: it may
 * give up once. */
template <class P, int Threads, bool Hasty> struct competes : turns<P, Threads, 0> {
    competes()
    {
        this->begin_held(UM_MUTEX_CALLED);
        um_plain_write(this->waiter(1)->called, true);
    }

    void thread(int index)
    {
        if (index == 1 ? !this->go_on(index, Hasty) : index > 1)
            this->lock(false);
        this->turn();
    }
};

/*
 * Each thread but thread 0 waits for a condition until `written` is not 0; the last `Hasty` threads
 * may give up now and then. Thread 0 writes it, and notifies when it has unlocked: all together, or
 * Alone, so many one by one. The last thread frees the mutex, while the notifier may be in its call.
 */
template <class P, int Threads, int Hasty, bool Alone, unsigned Fibers = 0>
struct notified : turns<P, Threads, 0, Fibers> {
    typename P::umbra_condition condition;

    notified()
    {
        um_atomic_store(&condition.list.word, 0, relaxed);
    }

    void thread(int index)
    {
        bool hasty = index >= Threads - Hasty;

        this->lock(false);
        if (index == 0)
            um_plain_write(this->there->written, 1);
        while (um_plain_read(this->there->written) == 0)
            this->succeeded(
                P::umbra_condition_wait(&condition, this->mutex, hasty ? +PERHAPS : UMBRA_NEVER),
                hasty);
        this->turn();
        for (int i = 1; index == 0 && i < (Alone ? Threads : 2); i++)
            P::umbra_condition_notify(&condition, !Alone);
    }
};

/*
 * Thread 0 holds the mutex; thread 1, which is firm, and thread 2 are in the list. Thread 2 gives
 * up while thread 0 unlocks: a newcomer is kept out, thread 1 is not. Still: bits of a called
 * waiter that stands still.
 */
template <class P, uint64_t Still> struct kept : locked<P> {
    kept()
    {
        this->begin_listed(2, false);
        this->begin_listed(1, true);
        this->begin_held(UM_WAITERS_SOME | UM_MUTEX_FIRM | Still);
    }

    /* As an unlock for which the called waiter is not overdue. */
    void unlock()
    {
        if (P::um_mutex_give(&this->mutex->word, false))
            P::um_waiters_signal(P::um_mutex_serve(this->mutex), false);
    }

    void thread(int index)
    {
        if (index == 0) {
            unlock();
        } else if (index == 1) {
            this->is_given(index);
        } else if (index == 2) {
            if (!P::um_sync_change(&this->request[index].sync, NULL, NULL)) {
                /* it has the mutex, in front of thread 1 */
                this->is_given(index);
                unlock();
            }
        } else {
            RL_ASSERT(!P::um_mutex_try_word(&this->mutex->word) && !this->look(false));
        }
    }

    void after()
    {
        RL_ASSERT(um_atomic_load(&this->mutex->word, relaxed) == (UM_MUTEX_HELD | Still));
    }
};

/* The holder finds the called waiter overdue: a newcomer is kept out, and queues; that waiter is
 * not. */
template <class P> struct promised : locked<P> {
    typename P::um_waiters joins;

    promised()
    {
        this->begin_held(UM_MUTEX_CALLED);
        this->request[2].self = um_model_self(2) & ~(uintptr_t)UM_SELF_THREAD; /* so it is firm */
        um_plain_write(this->there->written, 1);
    }

    void thread(int index)
    {
        if (index == 0) {
            um_plain_write(this->there->written, 2);
            RL_ASSERT(!P::um_mutex_give(&this->mutex->word, true));
        } else if (index == 1) {
            while (um_atomic_fetch_or(&this->mutex->word, 0, relaxed) & UM_MUTEX_HELD)
                rl::yield(1, $);
            RL_ASSERT(this->look(true) && um_plain_read(this->there->written) == 2);
        } else {
            RL_ASSERT(!P::um_mutex_try_word(&this->mutex->word) && !this->look(false));
            P::um_mutex_prepare(&this->request[2]);
            P::um_waiters_add(&joins, this->waiter(2));
            P::um_sync_change(&this->request[2].sync, NULL, &joins);
        }
    }

    void after()
    {
        uint64_t word = UM_MUTEX_HELD | UM_WAITERS_SOME | UM_MUTEX_FIRM;

        RL_ASSERT(um_atomic_load(&this->mutex->word, relaxed) == word);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"two", make_world<turns<P, 2, 0>>, 2, 0, false, 3, 50000},
        {"two, one gives up", make_world<turns<P, 2, 1>>, 2, 0, false, 3, 50000},
        {"called, and one", make_world<competes<P, 2, false>>, 2, 0, false, 3, 50000},
        {"called, and two", make_world<competes<P, 3, false>>, 3, 0, false, 0, 50000},
        {"called, gives up", make_world<competes<P, 3, true>>, 3, 0, false, 0, 50000},
        {"kept for a waiter", make_world<kept<P, 0>>, 4, 0, false, 2, 30000},
        {"kept beside a called one", make_world<kept<P, UM_MUTEX_CALLED>>, 4, 0, false, 2, 30000},
        {"promised to a waiter", make_world<promised<P>>, 3, 0, false, 3, 20000},
        {"three", make_world<turns<P, 3, 0, 4>>, 3, 0, false, 0, 60000},
        {"three, two give up", make_world<turns<P, 3, 2, 4>>, 3, 0, false, 0, 60000},
        {"notified together", make_world<notified<P, 3, 0, false, 6>>, 3, 0, false, 0, 50000},
        {"patient, together", make_world<notified<P, 3, 0, false>>, 3, 0, false, 0, 50000},
        {"three together", make_world<notified<P, 4, 1, false, 4>>, 4, 0, false, 0, 50000},
        {"together, may give up", make_world<notified<P, 3, 2, false, 2>>, 3, 0, false, 0, 50000},
        {"one by one", make_world<notified<P, 3, 1, true, 2>>, 3, 0, false, 0, 50000},
        {"four, two give up", make_world<turns<P, 4, 2, 6>>, 4, 0, false, 0, 60000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
