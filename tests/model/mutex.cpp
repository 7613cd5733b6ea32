/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The mutex's words (umbra/protocol/mutex.h) under the model checker. See checker.hpp.
 *
 * Each scenario: threads that lock and unlock, some after a look in place, some without; some give
 * up. A waiter is firm, or patient for a random number of calls and offers; a holder finds a called
 * one overdue at random. Checked: one holder at a time, which sees what the last one wrote; no
 * thread sleeps on; a mutex that is kept for a waiter, or promised to one, lets no newcomer in, and
 * one that all waiters left, the next.
 */
#include "checker.hpp"
#include "event_queue.hpp"
#include "mutex_variants.hpp"

template <class P> struct locked : world {
    um_atomic_uptr owner;
    um_atomic_u64 waiters;
    rl::var<int> written; /* by the holders: turns */
    event_queue event;
    uint64_t announced[UM_THREADS_MOST];                           /* a waiter, before it joins */
    rl::var<bool> called[UM_THREADS_MOST], taken[UM_THREADS_MOST]; /* the event's holders */

    locked()
    {
        um_atomic_store(&owner, UM_MUTEX_FREE, relaxed);
        um_atomic_store(&waiters, 0, relaxed);
        um_plain_write(written, 0);
        for (int i = 0; i < UM_THREADS_MOST; i++) {
            announced[i] = 0;
            um_plain_write(called[i], false);
            um_plain_write(taken[i], false);
        }
    }

    /* A scenario's begin: thread 0 holds the mutex, thread 1 has queued and was called. */
    void begin_called()
    {
        um_atomic_store(&owner, self(0), relaxed);
        um_atomic_store(&waiters, UM_MUTEX_PATIENT + UM_MUTEX_CALLED, relaxed);
        announced[1] = UM_MUTEX_PATIENT;
        um_plain_write(called[1], true);
    }

    static uintptr_t self(int index)
    {
        return (uintptr_t)(64 * (index + 1));
    }

    /* A waiter's condition. */
    bool takes(int index)
    {
        enum P::um_mutex_offer offer;

        if (announced[index] == UM_MUTEX_FIRM) {
            um_plain_write(taken[index], P::um_mutex_take_announced(&owner, self(index)));
            return um_plain_read(taken[index]);
        }
        offer = P::um_mutex_offer_patient(&owner, &waiters, self(index));
        um_plain_write(taken[index], offer == P::UM_MUTEX_TAKEN);
        um_plain_write(called[index], offer == P::UM_MUTEX_CALLS);
        if (offer == P::UM_MUTEX_REFUSED && rl::rand(2) == 0) {
            announced[index] = UM_MUTEX_FIRM;
            um_plain_write(taken[index], P::um_mutex_take_as_firm(&owner, &waiters, self(index)));
            return um_plain_read(taken[index]);
        }
        return offer != P::UM_MUTEX_REFUSED;
    }

    /* True if the waiter has the mutex, or is called, at once. */
    bool join(int index)
    {
        return event.join(index, [this](int waiter) { return takes(waiter); });
    }

    /* As um_mutex_announce_as(). */
    void announce(int index, uint64_t as)
    {
        bool was_called = um_plain_read(called[index]);

        P::um_mutex_announce_change(&waiters,
                                    as - announced[index] - (was_called ? UM_MUTEX_CALLED : 0));
        if (was_called && !um_plain_read(taken[index]))
            P::um_mutex_release_promise(&owner);
        announced[index] = as;
        um_plain_write(called[index], false);
    }

    /* True if the waiter has the mutex, or is called; false if it gave up. */
    bool queue(int index, bool stays)
    {
        if (join(index))
            return true;
        if (!stays && rl::rand(2) == 0 && event.withdraw(index))
            return false;
        event.sleep(index);
        return true;
    }

    /* A called waiter competes. True if it has the mutex. */
    bool compete(int index)
    {
        um_plain_write(taken[index], P::um_mutex_look(&owner, &waiters, self(index), true));
        return um_plain_read(taken[index]);
    }

    /* Competes if it is called, and queues, until it has the mutex; false if it gave up. */
    bool wait_once(int index, bool stays)
    {
        bool firm = announced[index] == UM_MUTEX_FIRM || rl::rand(2) == 0;

        if (um_plain_read(called[index]) && !compete(index) && !stays && rl::rand(2) == 0)
            return false;
        if (um_plain_read(taken[index]))
            return true;
        announce(index, firm ? UM_MUTEX_FIRM : UM_MUTEX_PATIENT);
        return queue(index, stays);
    }

    /* As um_mutex_queue(). */
    bool wait(int index, bool stays)
    {
        bool waits = true;

        while (waits && !um_plain_read(taken[index]))
            waits = wait_once(index, stays);
        announce(index, 0);
        if (!waits && um_atomic_load(&waiters, seq_cst) > 0)
            signal();
        return waits;
    }

    /* As umbra_mutex_lock_deadline(); stays: without a deadline. */
    bool take(int index, bool stays)
    {
        return P::um_mutex_take_from(&owner, UM_MUTEX_FREE, self(index)) ||
               P::um_mutex_look(&owner, &waiters, self(index), false) || wait(index, stays);
    }

    void turn()
    {
        um_plain_write(written, um_plain_read(written) + 1);
    }

    void signal()
    {
        event.signal([this](int waiter) { return takes(waiter); });
    }

    void give()
    {
        if (P::um_mutex_give(&owner, &waiters, rl::rand(2) == 0))
            signal();
    }

    void after()
    {
        uintptr_t now = um_atomic_load(&owner, relaxed);

        RL_ASSERT(now == UM_MUTEX_FREE || now == UM_MUTEX_KEPT);
        RL_ASSERT(um_atomic_load(&waiters, relaxed) == 0 && event.queued == 0);
    }
};

/* Each thread locks and unlocks; the last `hasty` threads may give up. */
template <class P, int Threads, int Hasty> struct turns : locked<P> {
    int taken = 0;

    void thread(int index)
    {
        if (!this->take(index, index < Threads - Hasty))
            return;
        this->turn();
        taken++;
        this->give();
    }

    void after()
    {
        locked<P>::after();
        RL_ASSERT(um_plain_read(this->written) == taken && taken >= Threads - Hasty);
    }
};

/* The holder has seen a waiter that has not joined yet: a newcomer is kept out, the waiter is not. */
template <class P> struct kept : locked<P> {
    kept()
    {
        um_atomic_store(&this->owner, this->self(0), relaxed);
        um_atomic_store(&this->waiters, UM_MUTEX_FIRM, relaxed);
        this->announced[1] = UM_MUTEX_FIRM;
    }

    void thread(int index)
    {
        if (index == 0) {
            this->turn();
            if (P::um_mutex_give(&this->owner, &this->waiters, false))
                this->signal();
            return;
        }
        RL_ASSERT(!P::um_mutex_take_from(&this->owner, UM_MUTEX_FREE, this->self(2)) &&
                  !P::um_mutex_look(&this->owner, &this->waiters, this->self(2), false));
        this->queue(index, true);
        this->announce(index, 0);
        this->turn();
        this->give();
    }
};

/* The same, while a called waiter stands still. */
template <class P> struct kept_beside : kept<P> {
    static constexpr uint64_t still = UM_MUTEX_PATIENT + UM_MUTEX_CALLED;

    kept_beside()
    {
        um_atomic_store(&this->waiters, UM_MUTEX_FIRM + still, relaxed);
    }

    void after()
    {
        RL_ASSERT(um_atomic_load(&this->waiters, relaxed) == still && this->event.queued == 0);
    }
};

/* The holder finds the called waiter overdue: a newcomer is kept out, that waiter is not. */
template <class P> struct promised : locked<P> {
    promised()
    {
        this->begin_called();
    }

    void thread(int index)
    {
        if (index == 0) {
            this->turn();
            RL_ASSERT(!P::um_mutex_give(&this->owner, &this->waiters, true));
            return;
        }
        RL_ASSERT(!P::um_mutex_take_from(&this->owner, UM_MUTEX_FREE, this->self(2)) &&
                  !P::um_mutex_look(&this->owner, &this->waiters, this->self(2), false));
        while (um_atomic_fetch_or(&this->owner, 0, relaxed) == this->self(0))
            rl::yield(1, $);
        RL_ASSERT(this->compete(index));
        this->announce(index, 0);
        this->turn();
        this->give();
    }
};

/* A waiter is called while the mutex is held; it takes it, queues again or gives up. Others come. */
template <class P> struct competes : locked<P> {
    competes()
    {
        this->begin_called();
    }

    void thread(int index)
    {
        if (index == 1 && !this->wait(index, false))
            return;
        if (index > 1 && !this->take(index, true))
            return;
        this->turn();
        this->give();
    }
};

/* All waiters have given up; some threads come. */
template <class P> struct left_and_back : turns<P, 2, 0> {
    left_and_back()
    {
        um_atomic_store(&this->owner, UM_MUTEX_KEPT, relaxed);
    }
};

/* All waiters have given up: the next caller takes it without waiting. */
template <class P> struct left : locked<P> {
    left()
    {
        um_atomic_store(&this->owner, UM_MUTEX_KEPT, relaxed);
    }

    void thread(int index)
    {
        if (index == 0)
            RL_ASSERT(P::um_mutex_look(&this->owner, &this->waiters, this->self(0), false));
        else
            RL_ASSERT(!P::um_mutex_take_from(&this->owner, UM_MUTEX_FREE, this->self(1)));
    }

    void after()
    {
        RL_ASSERT(um_atomic_load(&this->owner, relaxed) == this->self(0));
    }
};

/*
 * The holder unlocks if it sees the waiter, which announces itself and queues; a newcomer looks. It
 * must not take what is kept: if it sees KEPT, it sees the waiter, too.
 */
template <class P> struct overtaken : locked<P> {
    overtaken()
    {
        um_atomic_store(&this->owner, this->self(0), relaxed);
    }

    void thread(int index)
    {
        if (index == 0) {
            if (um_atomic_load(&this->waiters, relaxed) > 0)
                this->give();
        } else if (index == 1) {
            this->announce(index, UM_MUTEX_FIRM);
            this->join(index);
        } else {
            RL_ASSERT(!P::um_mutex_look(&this->owner, &this->waiters, this->self(2), false));
        }
    }

    void after() /* the waiter has it, or is in the queue of a holder that did not see it */
    {
        uintptr_t now = um_atomic_load(&this->owner, relaxed);

        RL_ASSERT(now == this->self(this->event.queued == 0 ? 1 : 0));
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"two", make_world<turns<P, 2, 0>>, 2, 0, false, 4, 50000},
        {"two, one gives up", make_world<turns<P, 2, 1>>, 2, 0, false, 3, 50000},
        {"kept for a waiter", make_world<kept<P>>, 2, 0, false, 4, 20000},
        {"kept beside a called one", make_world<kept_beside<P>>, 2, 0, false, 4, 20000},
        {"called, and one", make_world<competes<P>>, 3, 0, false, 2, 50000},
        {"left by all, two", make_world<left_and_back<P>>, 2, 0, false, 4, 20000},
        {"promised to a waiter", make_world<promised<P>>, 2, 0, false, 4, 20000},
        {"not overtaken", make_world<overtaken<P>>, 3, 0, false, 3, 20000},
        {"left by all", make_world<left<P>>, 2, 0, true, 0, 1000},
        {"three", make_world<turns<P, 3, 0>>, 3, 0, false, 0, 60000},
        {"three, two give up", make_world<turns<P, 3, 2>>, 3, 0, false, 0, 60000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
