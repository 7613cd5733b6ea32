/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The read-write lock (umbra/sync/rwlock.h, and the calls of umbra/sync.h) under the model checker.
 * See checker.hpp.
 *
 * Each scenario: readers and writers, of which some may give up, and come again. A writer is the
 * last user: it begins when all others hold the lock, or have held it, and frees it. Checked: what
 * a writer wrote is seen, and no thread reads or writes beside a writer; none sleeps on; no call
 * touches what was freed.
 */
#define UM_VARIANTS_OF "rwlock_variants.hpp"
#include "waiting_object.hpp"

/* Threads from 0: the last writer, then Writers, then Readers; the last Hasty of all may give up.
 * Many: so many readers have come before that their number is set back. */
template <class P, int Writers, int Readers, int Hasty, bool Many = false>
struct turns : waiting_object<P, typename P::umbra_rwlock> {
    static constexpr int threads = 1 + Writers + Readers;
    um_atomic_u32 came; /* others that hold the lock, or have held it */

    turns()
    {
        uint64_t before = UM_RWLOCK_NUMBER / 2; /* with the first that comes, so many have come */

        um_atomic_store(&came, 0, relaxed);
        if (Many)
            um_atomic_store(&this->there->sync.word, before * (UM_RWLOCK_CAME + UM_RWLOCK_LEFT),
                            relaxed);
    }

    /* False: it gave up. */
    bool lock(bool writer, bool hasty)
    {
        uint64_t deadline = hasty ? +PERHAPS : UMBRA_NEVER;
        int error = writer ? P::umbra_rwlock_write_deadline(&this->there->sync, deadline)
                           : P::umbra_rwlock_read_deadline(&this->there->sync, deadline);

        return this->succeeded(error, hasty);
    }

    void thread(int index)
    {
        bool writer = index <= Writers;
        bool hasty = index >= threads - Hasty;

        while (index == 0 && um_atomic_fetch_or(&came, 0, acquire) < threads - 1)
            rl::yield(1, $);
        if (!hasty || !this->lock(writer, true))
            this->lock(writer, false);
        if (writer)
            um_plain_write(this->there->written, um_plain_read(this->there->written) + 1);
        else
            um_plain_read(this->there->written);
        um_atomic_fetch_add(&came, 1, release);
        if (index == 0)
            RL_ASSERT(um_plain_read(this->there->written) == 1 + Writers);
        RL_ASSERT(P::umbra_rwlock_unlock(&this->there->sync) == 0);
        if (index == 0)
            this->free_object();
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
        {"a writer", make_world<turns<P, 1, 0, 0>>, 2, 0, false, 4, 20000},
        {"a reader", make_world<turns<P, 0, 1, 0>>, 2, 0, false, 4, 20000},
        {"two readers", make_world<turns<P, 0, 2, 0>>, 3, 0, false, 0, 50000},
        {"both", make_world<turns<P, 1, 1, 0>>, 3, 0, false, 0, 50000},
        {"both, may give up", make_world<turns<P, 1, 1, 2>>, 3, 0, false, 0, 50000},
        {"a writer and two readers", make_world<turns<P, 1, 2, 0>>, 4, 0, false, 0, 50000},
        {"two readers after many", make_world<turns<P, 0, 2, 0, true>>, 3, 0, false, 0, 50000},
        {"both after many", make_world<turns<P, 1, 2, 1, true>>, 4, 0, false, 0, 50000},
        {"two and two, may give up", make_world<turns<P, 2, 2, 3>>, 5, 0, false, 0, 50000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
