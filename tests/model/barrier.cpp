/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A barrier with parties that may give up (umbra/sync/barrier.h, and the wait of umbra/sync.h)
 * under the model checker. See checker.hpp.
 *
 * Most scenarios: as many threads as parties, which meet again and again; some give up now and then,
 * and come again. Checked: no thread goes on before all have come, each sees what the others wrote
 * before, one is told that it was the last, and none sleeps on.
 */
#include "checker.hpp"

#include "barrier_variants.hpp"

/* Comes until the barrier opens for the caller, which may give up `tries` times. The wait's result. */
template <class P> static int meet(typename P::umbra_barrier *barrier, int *tries)
{
    int result;

    do
        result = P::umbra_barrier_wait(barrier, *tries > 0 ? 0 : UMBRA_NEVER);
    while ((result == -ETIMEDOUT || result == -ECANCELED) && (*tries)-- > 0);
    RL_ASSERT(result == 0 || result == 1);
    return result;
}

template <class P, int Parties, int Rounds, int GiveUp> struct meeting : world {
    typename P::umbra_barrier barrier;
    rl::var<int> came[Parties];
    int opened[Rounds];

    meeting()
    {
        um_atomic_store(&barrier.event.event.signals, 0, relaxed);
        um_atomic_store(&barrier.state, 0, relaxed);
        barrier.parties = Parties;
        memset(opened, 0, sizeof(opened));
        for (int i = 0; i < Parties; i++)
            um_plain_write(came[i], 0);
    }

    void thread(int index)
    {
        int tries = GiveUp;

        for (int round = 0; round < Rounds; round++) {
            um_plain_write(came[index], round + 1);
            opened[round] += meet<P>(&barrier, &tries);
            for (int i = 0; i < Parties; i++)
                RL_ASSERT(um_plain_read(came[i]) == round + 1);
            /* once more, so that all have read before any writes again */
            P::umbra_barrier_wait(&barrier, UMBRA_NEVER);
        }
    }

    void after()
    {
        for (int round = 0; round < Rounds; round++)
            RL_ASSERT(opened[round] == 1);
        /* the arrivals of all meetings; no bit, since each that was set had its signal */
        RL_ASSERT(um_atomic_load(&barrier.state, relaxed) == 2 * Rounds * Parties * UM_BARRIER_ONE);
    }
};

/*
 * One thread, the owner, meets one new thread after the other at a barrier of two. A thread that was
 * the last may do its last steps during later meetings. Checked: one of the two is told that it was
 * the last, and none sleeps on.
 */
template <class P, int Meetings> struct handshake : world {
    typename P::umbra_barrier barrier;
    um_atomic_u32 begun[Meetings];
    int opened[Meetings];

    handshake()
    {
        um_atomic_store(&barrier.event.event.signals, 0, relaxed);
        um_atomic_store(&barrier.state, 0, relaxed);
        barrier.parties = 2;
        for (int i = 0; i < Meetings; i++) {
            um_atomic_store(&begun[i], 0, relaxed);
            opened[i] = 0;
        }
    }

    void owner()
    {
        for (int i = 0; i < Meetings; i++) {
            um_atomic_store(&begun[i], 1, release);
            um_os_futex_wake(&begun[i]);
            opened[i] += P::umbra_barrier_wait(&barrier, UMBRA_NEVER);
        }
    }

    void thread(int index)
    {
        if (index == Meetings) {
            this->owner();
            return;
        }
        while (um_atomic_load(&begun[index], acquire) == 0)
            um_os_futex_wait(&begun[index], 0, UMBRA_NEVER);
        opened[index] += P::umbra_barrier_wait(&barrier, UMBRA_NEVER);
    }

    void after()
    {
        for (int i = 0; i < Meetings; i++)
            RL_ASSERT(opened[i] == 1);
    }
};

/*
 * Three parties: threads 0 and 1 come to the first meeting, 2 to all, 3 and 4 begin when 2 has left
 * the first and come to the others. So the last party of the first meeting may be late by several
 * meetings, with waiters of a later one in the queue. Checked: as in `meeting`; a bit may stay, which
 * a late party left.
 */
template <class P, int Meetings, int GiveUp> struct pool : world {
    typename P::umbra_barrier barrier;
    um_atomic_u32 begun[5];
    rl::var<int> came[5];
    int opened[Meetings];

    pool()
    {
        um_atomic_store(&barrier.event.event.signals, 0, relaxed);
        um_atomic_store(&barrier.state, 0, relaxed);
        barrier.parties = 3;
        memset(opened, 0, sizeof(opened));
        for (int i = 0; i < 5; i++) {
            um_atomic_store(&begun[i], i < 3, relaxed);
            um_plain_write(came[i], 0);
        }
    }

    void begin_others()
    {
        for (int i = 3; i < 5; i++) {
            um_atomic_store(&begun[i], 1, release);
            um_os_futex_wake(&begun[i]);
        }
    }

    void thread(int index)
    {
        int first = index < 3 ? 0 : 1;
        int end = index < 2 ? 1 : Meetings;
        int tries = GiveUp;

        while (um_atomic_load(&begun[index], acquire) == 0)
            um_os_futex_wait(&begun[index], 0, UMBRA_NEVER);
        um_plain_write(came[index], 1);
        for (int number = first; number < end; number++) {
            opened[number] += meet<P>(&barrier, &tries);
            for (int i = 0; i < 3; i++)
                RL_ASSERT(um_plain_read(came[number == 0 ? i : i + 2]) == 1);
            if (index == 2 && number == 0)
                this->begin_others();
        }
    }

    void after()
    {
        for (int i = 0; i < Meetings; i++)
            RL_ASSERT(opened[i] == 1);
        RL_ASSERT(um_atomic_load(&barrier.state, relaxed) / UM_BARRIER_ONE == 3 * Meetings);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"two, once", make_world<meeting<P, 2, 1, 1>>, 2, 0, false, 3, 50000},
        {"two, again", make_world<meeting<P, 2, 2, 2>>, 2, 0, false, 0, 100000},
        {"three, again", make_world<meeting<P, 3, 2, 2>>, 3, 0, false, 0, 100000},
        {"new ones in turn", make_world<handshake<P, 3>>, 4, 0, false, 0, 100000},
        {"others come later", make_world<pool<P, 2, 0>>, 5, 0, false, 0, 100000},
        {"others, may give up", make_world<pool<P, 3, 1>>, 5, 0, false, 0, 50000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
