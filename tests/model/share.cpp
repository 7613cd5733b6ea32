/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Blocks that two threads divide (umbra/memcpy/protocol.h) under the model checker. See checker.hpp.
 *
 * Each scenario: two threads take blocks from their ends, as umbra/memcpy.h does, until none are
 * left. Checked: one thread takes each block, once, and no thread writes a block of the other.
 */
#include "checker.hpp"
#include "share_variants.hpp"

template <class P, int Blocks> struct copy : world {
    typename P::um_copy_blocks share;
    rl::var<int> block[Blocks];

    copy()
    {
        um_atomic_store(&share.taken, 0, relaxed);
        share.blocks = Blocks;
        for (int i = 0; i < Blocks; i++)
            um_plain_write(block[i], 0);
    }

    void thread(int index)
    {
        for (int mine = 0; P::um_copy_blocks_take(&share); mine++) {
            RL_ASSERT(mine < Blocks);
            take(index == 0 ? mine : Blocks - 1 - mine);
        }
    }

    void take(int i)
    {
        um_plain_write(block[i], um_plain_read(block[i]) + 1);
    }

    void after()
    {
        for (int i = 0; i < Blocks; i++)
            RL_ASSERT(um_plain_read(block[i]) == 1);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"two blocks", make_world<copy<P, 2>>, 2, 0, true, 0, 20000},
        {"three blocks", make_world<copy<P, 3>>, 2, 0, true, 0, 20000},
        {"five blocks", make_world<copy<P, 5>>, 2, 0, true, 0, 20000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
