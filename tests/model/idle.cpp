/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Idle cores and work without a place (umbra/core/idle.h), the lists of fibers without a place
 * (core/unplaced.h), and what takes and cancels such a fiber, under the model checker. See
 * checker.hpp.
 *
 * Each scenario: cores that look for fibers and sleep on their inbox, as um_core_doze() does, and
 * threads that spawn fibers, as um_spawn_one() does, or cancel them. Checked: every fiber begins
 * once, no core sleeps on while there is one that no core looks for, and a cancellation that found
 * the fiber without a place is known when the fiber begins. Fibers may wait for each other in the
 * middle, and keep their core: so if there are as many cores, each fiber must get one.
 */
#include "checker.hpp"

#define UM_LOCK_LOOKS 0 /* they change nothing but the time */
#define um_arch_pause() ((void)0)

#include "idle_variants.hpp"

#include "core_users.hpp"

enum { CORES = 2, FIBERS = 3 };

template <class P> struct workshop : world, receiver {
    typedef typename P::um_fiber fiber_type;
    typedef typename P::umbra_core place_type;

    mail_core<P> core[CORES];
    place_type place[CORES];
    typename P::um_slab slab[CORES];
    fiber_type fiber[FIBERS];
    bool begun[FIBERS], known[FIBERS], told[FIBERS]; /* canceled: when it began; by a canceller */
    um_atomic_u64 idle;
    um_atomic_u64 count;
    um_atomic_u32 finished;
    int cores;
    int fibers;
    bool together;
    int began;
    int takes[CORES]; /* each second time a core takes its oldest */

    workshop(int cores_, int fibers_, bool together_)
    {
        cores = cores_;
        fibers = fibers_;
        together = together_;
        began = 0;
        um_atomic_store(&idle, 0, relaxed);
        um_atomic_store(&count, 0, relaxed);
        um_atomic_store(&finished, 0, relaxed);
        for (int i = 0; i < CORES; i++) {
            um_atomic_store(&place[i].spawned.lock.word, 0, relaxed);
            um_atomic_store(&place[i].spawned.newest, 0, relaxed);
            um_plain_write(place[i].spawned.oldest, NULL);
            place[i].unplaced = &count;
            slab[i].owner = &place[i];
            takes[i] = 0;
        }
        for (int i = 0; i < FIBERS; i++) {
            um_atomic_store(&fiber[i].node.home, 0, relaxed);
            um_atomic_store(&fiber[i].flags, 0, relaxed);
            um_atomic_store(&fiber[i].generation, 1, relaxed);
            fiber[i].slab = &slab[0];
            begun[i] = known[i] = told[i] = false;
        }
    }

    void receive(int)
    {
        RL_ASSERT(false); /* only pokes */
    }

    void spawn(int number)
    {
        int picked;

        P::um_unplaced_push(&place[0].spawned, &fiber[number].unplaced, &count);
        picked = P::um_idle_pick(&idle, (unsigned)cores);
        RL_ASSERT(picked < cores);
        if (picked >= 0)
            core[picked].poke();
    }

    void cancel(int number)
    {
        typename P::umbra_fiber handle = {&fiber[number], 1};

        told[number] =
            !um_atomic_load(&fiber[number].node.home, acquire) && !P::um_cancel_unplaced(handle);
    }

    bool take(int self)
    {
        bool newest = ++takes[self] % 2 != 0;
        fiber_type *taken = NULL;

        for (int i = 0; i < cores && !taken; i++)
            taken = P::um_unplaced_take(&place[self], &place[(self + i) % cores], newest && i == 0);
        if (!taken)
            return false;
        RL_ASSERT(taken >= fiber && taken < fiber + fibers && !begun[taken - fiber]);
        begun[taken - fiber] = true;
        known[taken - fiber] = um_atomic_load(&taken->flags, relaxed) != 0;
        return true;
    }

    /* The last one to finish tells all cores. */
    void work()
    {
        began++;
        if (together)
            while (began < fibers)
                rl::yield(1, $);
        if (um_atomic_fetch_add(&finished, 1, acq_rel) + 1 < (uint32_t)fibers)
            return;
        for (int i = 0; i < cores; i++)
            core[i].poke();
    }

    void run_core(int self)
    {
        for (;;) {
            if (um_atomic_load(&core[self].inbox, relaxed))
                core[self].take(this);
            if (um_atomic_load(&finished, acquire) == (uint32_t)fibers)
                return;
            if (um_atomic_load(&count, relaxed) && take(self)) {
                work();
                continue;
            }
            P::um_idle_announce(&idle, (unsigned)self);
            if (P::um_idle_none(&count))
                core[self].wait();
            else
                rl::yield(1, $); /* an old count does not stay for ever */
            P::um_idle_clear(&idle, (unsigned)self);
        }
    }

    void after()
    {
        RL_ASSERT(began == fibers && count.debug_value() == 0);
        for (int i = 0; i < fibers; i++)
            RL_ASSERT(known[i] || !told[i]);
    }
};

/* Some cores, and threads that spawn the fibers in turn, or the last one all the rest. */
template <class P, int Cores, int Fibers, bool Together> struct spawning : workshop<P> {
    spawning() : workshop<P>(Cores, Fibers, Together)
    {
    }

    void thread(int index)
    {
        int spawners = um_scenario_now->threads - Cores;

        if (index < Cores) {
            this->run_core(index);
            return;
        }
        for (int i = index - Cores; i < Fibers; i += spawners)
            this->spawn(i);
    }
};

/* A thread spawns the fibers; another one cancels the first of them. */
template <class P, int Cores, int Fibers> struct canceling : workshop<P> {
    canceling() : workshop<P>(Cores, Fibers, false)
    {
    }

    void thread(int index)
    {
        if (index < Cores)
            this->run_core(index);
        else if (index > Cores)
            this->cancel(0);
        for (int i = 0; index == Cores && i < Fibers; i++)
            this->spawn(i);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one core, one fiber", make_world<spawning<P, 1, 1, false>>, 2, 0, false, 5, 50000},
        {"one core, two fibers", make_world<spawning<P, 1, 2, false>>, 2, 0, false, 4, 50000},
        {"one core, three fibers", make_world<spawning<P, 1, 3, false>>, 2, 0, false, 2, 50000},
        {"one core, two spawn", make_world<spawning<P, 1, 2, false>>, 3, 0, false, 2, 100000},
        {"two cores, one fiber", make_world<spawning<P, 2, 1, false>>, 3, 0, false, 2, 100000},
        {"two cores, two fibers", make_world<spawning<P, 2, 2, false>>, 3, 0, false, 2, 100000},
        {"two cores, three fibers", make_world<spawning<P, 2, 3, false>>, 3, 0, false, 0, 100000},
        {"two cores, fibers that meet", make_world<spawning<P, 2, 2, true>>, 3, 0, false, 0,
         200000},
        {"the same, two spawn", make_world<spawning<P, 2, 2, true>>, 4, 0, false, 0, 200000},
        {"canceled", make_world<canceling<P, 1, 1>>, 3, 0, false, 2, 100000},
        {"two cores, canceled", make_world<canceling<P, 2, 2>>, 4, 0, false, 0, 100000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
