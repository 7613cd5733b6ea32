/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The loop of a NUMA node (umbra/memory/protocol.h) under the model checker. See checker.hpp.
 *
 * Each scenario: threads take parts until none is left. The loop was set before; or one of the
 * threads sets it, tells the others and takes with them, and when all have ended does so again.
 * Checked: each iteration is taken once, no part leaves the range or is longer than the grain, and
 * no thread writes what another one took.
 */
#include "checker.hpp"
#include "node_loop_variants.hpp"

enum { FIRST = 10, ROUNDS = 2 };

/* A loop that is set already. */
template <class P, int Iterations, int Grain> struct range : world {
    typename P::um_node_loop loop;
    rl::var<int> done[Iterations];

    range()
    {
        P::um_node_loop_set(&loop, FIRST, FIRST + Iterations, Grain);
        for (int i = 0; i < Iterations; i++)
            um_plain_write(done[i], 0);
    }

    void thread(int index)
    {
        (void)index;
        take_all();
    }

    void take_all()
    {
        size_t begin, end;

        while (P::um_node_loop_take(&loop, &begin, &end)) {
            RL_ASSERT(begin >= FIRST && begin < end && end <= FIRST + Iterations);
            RL_ASSERT(end - begin <= (Grain ? Grain : 1));
            for (size_t i = begin; i < end; i++)
                um_plain_write(done[i - FIRST], um_plain_read(done[i - FIRST]) + 1);
        }
    }

    void after()
    {
        for (int i = 0; i < Iterations; i++)
            RL_ASSERT(um_plain_read(done[i]) == 1);
    }
};

/* A loop that is set again and again. */
template <class P, int Threads, int Iterations, int Grain>
struct rounds : range<P, Iterations, Grain> {
    um_atomic_u32 told;  /* rounds that have begun */
    um_atomic_u32 ended; /* threads that have ended a round, in all */

    rounds()
    {
        um_atomic_store(&told, 0, relaxed);
        um_atomic_store(&ended, 0, relaxed);
    }

    static void wait_for(um_atomic_u32 *word, uint32_t least)
    {
        while (um_atomic_load(word, acquire) < least)
            rl::yield(1, $);
    }

    void thread(int index)
    {
        for (uint32_t round = 0; round < ROUNDS; round++) {
            if (index == 0) {
                wait_for(&ended, round * Threads);
                P::um_node_loop_set(&this->loop, FIRST, FIRST + Iterations, Grain);
                um_atomic_store(&told, round + 1, release);
            } else {
                wait_for(&told, round + 1);
            }
            this->take_all();
            um_atomic_fetch_add(&ended, 1, acq_rel);
        }
    }

    void after()
    {
        for (int i = 0; i < Iterations; i++)
            RL_ASSERT(um_plain_read(this->done[i]) == ROUNDS);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"three iterations", make_world<range<P, 3, 0>>, 2, 0, true, 0, 5000},
        {"a part that is cut", make_world<range<P, 3, 2>>, 2, 0, true, 0, 5000},
        {"set twice", make_world<rounds<P, 2, 3, 2>>, 2, 0, false, 0, 20000},
        {"three takers", make_world<rounds<P, 3, 2, 1>>, 3, 0, false, 0, 20000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
