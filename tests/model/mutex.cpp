/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The mutex's words (umbra/protocol/mutex.h) under the model checker. See checker.hpp.
 *
 * Each scenario: threads that lock and unlock, some after a look in place, some without; some give
 * up. Checked: one holder at a time, which sees what the last one wrote; no thread sleeps on; a
 * mutex that is kept for a waiter lets no newcomer in, and one that all waiters left, the next.
 */
#include "checker.hpp"
#include "event_queue.hpp"
#include "mutex_variants.hpp"

template <class P> struct locked : world {
    um_atomic_uptr owner;
    um_atomic_u32 waiters;
    rl::var<int> written; /* by the holders: turns */
    event_queue event;

    locked()
    {
        um_atomic_store(&owner, UM_MUTEX_FREE, relaxed);
        um_atomic_store(&waiters, 0, relaxed);
        um_plain_write(written, 0);
    }

    static uintptr_t self(int index)
    {
        return (uintptr_t)(64 * (index + 1));
    }

    /* A waiter's condition. */
    bool takes(int index)
    {
        return P::um_mutex_take_announced(&owner, self(index));
    }

    /* True if the waiter has the mutex at once. */
    bool join(int index)
    {
        return event.join(index, [this](int waiter) { return takes(waiter); });
    }

    /* As umbra_mutex_lock_deadline(); patient: without a deadline. */
    bool take(int index, bool patient)
    {
        bool taken = true;

        if (P::um_mutex_take_from(&owner, UM_MUTEX_FREE, self(index)) ||
            P::um_mutex_look(&owner, &waiters, self(index)))
            return true;
        P::um_mutex_announce_change(&waiters, 1);
        if (!join(index)) {
            if (!patient && rl::rand(2) == 0)
                taken = !event.withdraw(index);
            if (taken)
                event.sleep(index);
        }
        P::um_mutex_announce_change(&waiters, UINT32_MAX);
        return taken;
    }

    void turn()
    {
        um_plain_write(written, um_plain_read(written) + 1);
    }

    void give()
    {
        if (P::um_mutex_give(&owner, &waiters))
            event.signal([this](int waiter) { return takes(waiter); });
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
        um_atomic_store(&this->waiters, 1, relaxed);
    }

    void thread(int index)
    {
        if (index == 0) {
            this->turn();
            this->give();
            return;
        }
        RL_ASSERT(!P::um_mutex_take_from(&this->owner, UM_MUTEX_FREE, this->self(2)) &&
                  !P::um_mutex_look(&this->owner, &this->waiters, this->self(2)));
        if (!this->join(index))
            this->event.sleep(index);
        P::um_mutex_announce_change(&this->waiters, UINT32_MAX);
        this->turn();
        this->give();
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
            RL_ASSERT(P::um_mutex_look(&this->owner, &this->waiters, this->self(0)));
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
            P::um_mutex_announce_change(&this->waiters, 1);
            this->join(index);
        } else {
            RL_ASSERT(!P::um_mutex_look(&this->owner, &this->waiters, this->self(2)));
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
