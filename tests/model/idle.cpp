/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Idle cores and work without a place (umbra/core/idle.h) under the model checker. See
 * checker.hpp.
 *
 * Each scenario: cores that look for work and sleep on their inbox, as um_core_doze() does, and
 * threads that add work, as um_unplaced_add() does. Checked: every piece is done once, and no core
 * sleeps on while there is work that no core looks for. Pieces may wait for each other in the
 * middle, and keep their core: so if there are as many cores, each piece must get one.
 */
#include "checker.hpp"
#include "idle_variants.hpp"

#include "core_users.hpp"

enum { CORES = 2 };

template <class P> struct workshop : world, receiver {
    mail_core<P> core[CORES];
    um_atomic_u64 idle;
    um_atomic_u64 count;
    rl::mutex lock;
    rl::var<int> listed; /* pieces in the list; under the lock */
    um_atomic_u32 finished;
    int cores;
    int pieces; /* in all */
    bool together;
    int began;

    workshop(int cores_, int pieces_, bool together_)
    {
        cores = cores_;
        pieces = pieces_;
        together = together_;
        began = 0;
        um_atomic_store(&idle, 0, relaxed);
        um_atomic_store(&count, 0, relaxed);
        um_atomic_store(&finished, 0, relaxed);
        um_plain_write(listed, 0);
    }

    void receive(int)
    {
        RL_ASSERT(false); /* only pokes */
    }

    void add()
    {
        int picked;

        lock.lock($);
        um_plain_write(listed, um_plain_read(listed) + 1);
        P::um_idle_added(&count);
        lock.unlock($);
        picked = P::um_idle_pick(&idle, (unsigned)cores);
        RL_ASSERT(picked < cores);
        if (picked >= 0)
            core[picked].poke();
    }

    bool take()
    {
        int there;

        lock.lock($);
        there = um_plain_read(listed);
        if (there > 0) {
            um_plain_write(listed, there - 1);
            um_atomic_fetch_add(&count, UINT64_MAX, relaxed);
        }
        lock.unlock($);
        return there > 0;
    }

    /* The last one to finish tells all cores. */
    void work()
    {
        began++;
        if (together)
            while (began < pieces)
                rl::yield(1, $);
        if (um_atomic_fetch_add(&finished, 1, acq_rel) + 1 < (uint32_t)pieces)
            return;
        for (int i = 0; i < cores; i++)
            core[i].poke();
    }

    void run_core(int self)
    {
        for (;;) {
            if (um_atomic_load(&core[self].inbox, relaxed))
                core[self].take(this);
            if (um_atomic_load(&finished, acquire) == (uint32_t)pieces)
                return;
            if (um_atomic_load(&count, relaxed) && take()) {
                work();
                continue;
            }
            P::um_idle_announce(&idle, (unsigned)self);
            if (P::um_idle_none(&count))
                core[self].wait();
            P::um_idle_clear(&idle, (unsigned)self);
        }
    }

    void after()
    {
        RL_ASSERT(began == pieces && count.debug_value() == 0);
    }
};

/* Some cores, some that add one piece each, or the last one all the rest. */
template <class P, int Cores, int Pieces, bool Together> struct adding : workshop<P> {
    adding() : workshop<P>(Cores, Pieces, Together)
    {
    }

    void thread(int index)
    {
        int adders = um_scenario_now->threads - Cores;

        if (index < Cores) {
            this->run_core(index);
            return;
        }
        for (int i = index - Cores; i < Pieces; i += adders)
            this->add();
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one core, one piece", make_world<adding<P, 1, 1, false>>, 2, 0, false, 5, 50000},
        {"one core, two pieces", make_world<adding<P, 1, 2, false>>, 2, 0, false, 4, 50000},
        {"one core, two add", make_world<adding<P, 1, 2, false>>, 3, 0, false, 2, 100000},
        {"two cores, one piece", make_world<adding<P, 2, 1, false>>, 3, 0, false, 2, 100000},
        {"two cores, two pieces", make_world<adding<P, 2, 2, false>>, 3, 0, false, 2, 100000},
        {"two cores, pieces that meet", make_world<adding<P, 2, 2, true>>, 3, 0, false, 0, 200000},
        {"the same, two add", make_world<adding<P, 2, 2, true>>, 4, 0, false, 0, 200000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
