/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The semaphore (umbra/sync/semaphore.h, and the calls of umbra/sync.h) under the model checker.
 * See checker.hpp.
 *
 * Each scenario: posters that add, and waiters that take; some waiters may give up, and come again.
 * What is posted is what is taken, and the waiter that takes last frees the semaphore. Checked: a
 * waiter sees what its poster wrote; none sleeps on; no call touches what was freed.
 */
#define UM_VARIANTS_OF "semaphore_variants.hpp"
#include "waiting_object.hpp"

/* Each poster adds More at once; each waiter takes Takes times; the last Hasty waiters may give up.
 * */
template <class P, int Posters, int More, int Waiters, int Takes, int Hasty>
struct exchange : waiting_object<P, typename P::umbra_semaphore> {
    rl::var<int> wrote[Posters]; /* by each poster, before its post */
    um_atomic_u32 taken;

    exchange()
    {
        static_assert(Posters * More == Waiters * Takes, "the last unit is taken last");
        um_atomic_store(&taken, 0, relaxed);
        for (int i = 0; i < Posters; i++)
            um_plain_write(wrote[i], 0);
    }

    void post(int index)
    {
        um_plain_write(wrote[index], 1);
        P::umbra_semaphore_post(&this->there->sync, More);
    }

    /* False: it gave up. */
    bool wait(bool hasty)
    {
        uint64_t deadline = hasty ? +PERHAPS : UMBRA_NEVER;

        return this->succeeded(P::umbra_semaphore_wait(&this->there->sync, deadline), hasty);
    }

    void thread(int index)
    {
        bool hasty = index >= Posters + Waiters - Hasty;

        if (index < Posters) {
            this->post(index);
            return;
        }
        for (int i = 0; i < Takes; i++) {
            if (!hasty || !this->wait(true))
                this->wait(false);
            if (Posters == 1) /* of several, any may be the one */
                RL_ASSERT(um_plain_read(wrote[0]) == 1);
            if (um_atomic_fetch_add(&taken, 1, acq_rel) + 1 == Posters * More)
                this->free_object();
        }
    }

    void after()
    {
        RL_ASSERT(this->freed);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one", make_world<exchange<P, 1, 1, 1, 1, 0>>, 2, 0, false, 4, 20000},
        {"one, gives up", make_world<exchange<P, 1, 1, 1, 1, 1>>, 2, 0, false, 4, 20000},
        {"two at once", make_world<exchange<P, 1, 2, 2, 1, 0>>, 3, 0, false, 0, 50000},
        {"two at once, one gives up", make_world<exchange<P, 1, 2, 2, 1, 1>>, 3, 0, false, 0,
         50000},
        {"two, again", make_world<exchange<P, 2, 2, 2, 2, 0>>, 4, 0, false, 0, 50000},
        {"two, one gives up", make_world<exchange<P, 2, 1, 2, 1, 1>>, 4, 0, false, 0, 50000},
        {"three, two give up", make_world<exchange<P, 1, 3, 3, 1, 2>>, 4, 0, false, 0, 50000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
