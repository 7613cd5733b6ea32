/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The mutex's word and list (umbra/sync/mutex.h) under the model checker. See checker.hpp.
 *
 * In most scenarios each thread locks, counts itself off the users, and unlocks, and the last one
 * frees the mutex; some give up first. A waiter is firm, or patient for a random number of calls; a
 * holder finds a called one overdue at random. Checked: one holder at a time, which sees what the
 * last one wrote; no thread sleeps on; no call touches what was freed; a mutex that is for a waiter
 * lets no newcomer in.
 */
#include "checker.hpp"

#include "mutex_variants.hpp"

#include "waiting_object.hpp"

template <class P> struct locked : waiting_object<P> {
    void serve()
    {
        bool calls = um_plain_read(this->there->list.strict) == 0;

        this->signal(P::um_mutex_hand_over(&this->there->word, &this->there->list, calls));
    }

    void let_go()
    {
        if (P::um_mutex_let_go(&this->there->word, &this->there->list))
            this->serve();
    }

    void unlock()
    {
        if (P::um_mutex_give(&this->there->word, rl::rand(2) == 0))
            this->serve();
    }

    bool look(bool called)
    {
        bool firm = false;

        return P::um_mutex_look(&this->there->word, called, &firm);
    }

    /* As um_mutex_queue(). False: it gave up. */
    bool wait(int index, bool hasty)
    {
        do {
            bool called = um_plain_read(this->waiter[index].called);

            if (called && this->look(true))
                return true;
            um_plain_write(this->waiter[index].strict, rl::rand(2) == 0);
            if (!this->queue(index, called ? UM_MUTEX_CALLED | UM_MUTEX_PROMISED : 0, hasty))
                return false;
        } while (um_plain_read(this->waiter[index].called));
        return true;
    }

    bool lock(int index, bool hasty)
    {
        return P::um_mutex_try_word(&this->there->word) || this->look(false) ||
               this->wait(index, hasty);
    }

    /* A turn of a holder, which frees the mutex if no other thread will come. */
    void turn()
    {
        int left = um_plain_read(this->there->users) - 1;

        um_plain_write(this->there->users, left);
        this->unlock();
        if (left == 0)
            this->free_object();
    }

    /* A waiter that is in the list from the beginning. */
    void begin_listed(int index, bool firm)
    {
        um_plain_write(this->waiter[index].strict, firm);
        P::um_waiters_add(&this->there->list, &this->waiter[index]);
    }
};

/* Each thread locks and unlocks; the last `hasty` threads may give up once. */
template <class P, int Threads, int Hasty> struct turns : locked<P> {
    turns()
    {
        um_plain_write(this->there->users, Threads);
    }

    void thread(int index)
    {
        if (index < Threads - Hasty || !this->lock(index, true))
            this->lock(index, false);
        this->turn();
    }

    void after()
    {
        RL_ASSERT(this->freed);
    }
};

/* The same, but thread 0 holds the mutex, and thread 1 has queued and was called. */
template <class P, int Threads> struct competes : turns<P, Threads, 0> {
    competes()
    {
        um_atomic_store(&this->there->word, UM_MUTEX_HELD | UM_MUTEX_CALLED, relaxed);
        um_plain_write(this->waiter[1].called, true);
    }

    void thread(int index)
    {
        if (index == 1)
            this->wait(index, false);
        else if (index > 1)
            this->lock(index, false);
        this->turn();
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
        um_atomic_store(&this->there->word, UM_MUTEX_HELD | UM_WAITERS_SOME | UM_MUTEX_FIRM | Still,
                        relaxed);
        um_plain_write(this->there->users, 2);
    }

    void thread(int index)
    {
        if (index == 0) {
            if (P::um_mutex_give(&this->there->word, false))
                this->serve();
        } else if (index == 1) {
            this->sleep(index);
            RL_ASSERT(!um_plain_read(this->waiter[index].called));
        } else if (index == 2) {
            if (!this->leave(index)) { /* it has the mutex, in front of thread 1 */
                this->sleep(index);
                RL_ASSERT(!um_plain_read(this->waiter[index].called));
                P::um_mutex_give(&this->there->word, false) ? this->serve() : (void)0;
            }
        } else {
            RL_ASSERT(!P::um_mutex_try_word(&this->there->word) && !this->look(false));
        }
    }

    void after()
    {
        RL_ASSERT(um_atomic_load(&this->there->word, relaxed) == (UM_MUTEX_HELD | Still));
    }
};

/* The holder finds the called waiter overdue: a newcomer is kept out, and queues; that waiter is
 * not. */
template <class P> struct promised : locked<P> {
    promised()
    {
        um_atomic_store(&this->there->word, UM_MUTEX_HELD | UM_MUTEX_CALLED, relaxed);
        um_plain_write(this->there->written, 1);
    }

    void thread(int index)
    {
        if (index == 0) {
            um_plain_write(this->there->written, 2);
            RL_ASSERT(!P::um_mutex_give(&this->there->word, true));
        } else if (index == 1) {
            while (um_atomic_fetch_or(&this->there->word, 0, relaxed) & UM_MUTEX_HELD)
                rl::yield(1, $);
            RL_ASSERT(this->look(true) && um_plain_read(this->there->written) == 2);
        } else {
            RL_ASSERT(!P::um_mutex_try_word(&this->there->word) && !this->look(false));
            um_plain_write(this->waiter[index].strict, true);
            this->join(index, 0);
        }
    }

    void after()
    {
        uint64_t word = UM_MUTEX_HELD | UM_WAITERS_SOME | UM_MUTEX_FIRM;

        RL_ASSERT(um_atomic_load(&this->there->word, relaxed) == word);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"two", make_world<turns<P, 2, 0>>, 2, 0, false, 3, 50000},
        {"two, one gives up", make_world<turns<P, 2, 1>>, 2, 0, false, 3, 50000},
        {"called, and one", make_world<competes<P, 2>>, 2, 0, false, 3, 50000},
        {"called, and two", make_world<competes<P, 3>>, 3, 0, false, 0, 50000},
        {"kept for a waiter", make_world<kept<P, 0>>, 4, 0, false, 2, 30000},
        {"kept beside a called one", make_world<kept<P, UM_MUTEX_CALLED>>, 4, 0, false, 2, 30000},
        {"promised to a waiter", make_world<promised<P>>, 3, 0, false, 3, 20000},
        {"three", make_world<turns<P, 3, 0>>, 3, 0, false, 0, 60000},
        {"three, two give up", make_world<turns<P, 3, 2>>, 3, 0, false, 0, 60000},
        {"four, two give up", make_world<turns<P, 4, 2>>, 4, 0, false, 0, 60000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
