/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The semaphore's slow path and its posts (umbra/sync.h) under the model checker. See checker.hpp.
 *
 * Each scenario: posters that add, and waiters that take; some waiters give up. The posters add
 * enough for all. Checked: what is taken and what is left are what was posted; a waiter sees what
 * its poster wrote; none stays announced, and none sleeps on.
 */
#include "checker.hpp"
#include "event_queue.hpp"
#include "semaphore_variants.hpp"

/* Each poster adds More at once; each waiter takes Takes times; the last Hasty waiters may give up. */
template <class P, int Posters, int More, int Waiters, int Takes, int Hasty>
struct exchange : world {
    typename P::umbra_semaphore semaphore;
    rl::var<int> written[Posters]; /* by each poster, before its post */
    int taken = 0;

    exchange()
    {
        static_assert(Posters * More >= Waiters * Takes, "or a waiter rightly sleeps on");
        um_atomic_store(&semaphore.count, 0, relaxed);
        um_atomic_store(&semaphore.waiters, 0, relaxed);
        for (int i = 0; i < Posters; i++)
            um_plain_write(written[i], 0);
    }

    void post(int index)
    {
        um_plain_write(written[index], 1);
        P::umbra_semaphore_post(&semaphore, More);
    }

    /* As umbra_semaphore_wait(). */
    int wait(bool hasty)
    {
        if (P::um_semaphore_take(&semaphore))
            return 0;
        return P::um_semaphore_wait(&semaphore, hasty ? 1 : UMBRA_NEVER);
    }

    void thread(int index)
    {
        bool hasty = index >= Posters + Waiters - Hasty;

        if (index < Posters) {
            this->post(index);
            return;
        }
        for (int i = 0; i < Takes; i++) {
            int error = this->wait(hasty);

            RL_ASSERT(error == 0 || (hasty && (error == -ETIMEDOUT || error == -ECANCELED)));
            if (error != 0)
                continue;
            taken++;
            if (Posters == 1) /* of several, any may be the one */
                RL_ASSERT(um_plain_read(written[0]) == 1);
        }
    }

    void after()
    {
        RL_ASSERT(um_atomic_load(&semaphore.count, relaxed) == (uint64_t)(Posters * More - taken));
        RL_ASSERT(um_atomic_load(&semaphore.waiters, relaxed) == 0);
        RL_ASSERT(semaphore.event.event.queue.queued == 0 && taken >= (Waiters - Hasty) * Takes);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one", make_world<exchange<P, 1, 1, 1, 1, 0>>, 2, 0, false, 4, 20000},
        {"two at once", make_world<exchange<P, 1, 2, 2, 1, 0>>, 3, 0, false, 0, 50000},
        {"two, again", make_world<exchange<P, 2, 2, 2, 2, 0>>, 4, 0, false, 0, 50000},
        {"three, two give up", make_world<exchange<P, 2, 2, 3, 1, 2>>, 5, 0, false, 0, 50000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
