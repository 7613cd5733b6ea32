/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A helper that runs ahead of a leader (umbra/prefetch/protocol.h) under the model checker. See
 * checker.hpp.
 *
 * Each scenario: a leader goes through some items, publishes where it is, and ends; a helper goes
 * through the same items, as umbra/prefetch.h does. Checked: the helper is never further ahead than
 * the window; after it was late it goes on from the leader's item, or lead items after it, with the
 * place of exactly that item, and sees what the leader wrote there before; it ends when this leader
 * ends, and not because an earlier leader ended.
 */
#include "checker.hpp"

#include "prefetch_variants.hpp"

enum { ITEMS = 5 };

template <class P> struct track : world {
    typename P::um_prefetch_pair_leader leader;
    typename P::um_prefetch_pair_helper helper;
    rl::var<int> content[ITEMS + 2]; /* written by the leader before it comes to the item */
    um_atomic_u32 runs;              /* begun */
    um_atomic_u32 ended;             /* runs that the helper has ended */
    um_atomic_u64 fetched;           /* the helper's last item, and one */
    uint64_t reached;                /* the leader's item, newer than any that it has published */

    track(uint64_t window, uint64_t step, uint64_t lead)
    {
        helper.window = window;
        helper.step = step;
        helper.lead = lead;
        helper.limit = 0;
        um_atomic_store(&leader.at, UM_PREFETCH_PAIR_END, relaxed);
        um_atomic_store(&leader.place, 0, relaxed);
        um_atomic_store(&leader.placing, 0, relaxed);
        um_atomic_store(&runs, 0, relaxed);
        um_atomic_store(&ended, 0, relaxed);
        reached = 0;
    }

    /* ---- leader ---- */

    uintptr_t place_of(uint64_t item)
    {
        return (uintptr_t)&content[item];
    }

    /* As a fork does: what was before is seen by the helper. */
    void begin()
    {
        um_atomic_store(&fetched, 0, relaxed);
        reached = 0;
        P::um_prefetch_pair_begin(&leader, &helper);
        um_atomic_store(&runs, um_atomic_load(&runs, relaxed) + 1, release);
    }

    void come_to(uint64_t item, bool chain)
    {
        um_plain_write(content[item], (int)item);
        reached = item;
        if (chain)
            P::um_prefetch_pair_publish_place(&leader, item, place_of(item));
        else
            P::um_prefetch_pair_publish(&leader, item);
    }

    /* As a join does. */
    void end()
    {
        P::um_prefetch_pair_end(&leader);
        while (um_atomic_load(&ended, acquire) != um_atomic_load(&runs, relaxed))
            rl::yield(1, $);
    }

    void wait_for_fetch(uint64_t item)
    {
        while (um_atomic_load(&fetched, relaxed) <= item)
            rl::yield(1, $);
    }

    /* ---- helper ---- */

    /* As umbra_prefetch_next and .._place. */
    bool next(uint64_t *item, uintptr_t *place)
    {
        if (*item < helper.limit)
            return true;
        for (;;) {
            enum P::um_prefetch_pair found =
                P::um_prefetch_pair_look(&leader, &helper, item, place);

            if (found != P::UM_PREFETCH_PAIR_WAIT)
                return found == P::UM_PREFETCH_PAIR_GO;
            rl::yield(1, $);
        }
    }

    /* One run; those items that it was moved on to were written by the leader. */
    void run_ahead(uint32_t run, bool chain)
    {
        uint64_t item = 0, before = 0;
        uintptr_t place = place_of(0);

        while (um_atomic_load(&runs, acquire) != run)
            rl::yield(1, $);
        while (next(&item, chain ? &place : NULL)) {
            RL_ASSERT(item >= before);
            RL_ASSERT(item < reached + helper.window);
            RL_ASSERT(!chain || place == place_of(item));
            if (item > before)
                check_moved(item, chain);
            um_atomic_store(&fetched, item + 1, relaxed);
            before = ++item;
            place = place_of(item);
        }
        um_atomic_store(&ended, run, release);
    }

    void check_moved(uint64_t item, bool chain)
    {
        uint64_t at = chain ? item : item - helper.lead;

        RL_ASSERT(at <= reached);
        RL_ASSERT(um_plain_read(content[at]) == (int)at);
    }
};

/* The leader hurries through all items. */
template <class P, bool Chain, int Window, int Step, int Lead> struct hurry : track<P> {
    hurry() : track<P>(Window, Step, Lead)
    {
    }

    void thread(int index)
    {
        if (index == 1) {
            this->run_ahead(1, Chain);
            return;
        }
        this->begin();
        for (uint64_t item = 1; item < ITEMS; item++)
            this->come_to(item, Chain);
        this->end();
    }
};

/* The helper must be there before the leader goes on: it is late, and must notice. */
template <class P, bool Chain> struct together : track<P> {
    together() : track<P>(2, 1, 1)
    {
    }

    void thread(int index)
    {
        if (index == 1) {
            this->run_ahead(1, Chain);
            return;
        }
        this->begin();
        this->come_to(2, Chain);
        this->come_to(3, Chain);
        this->wait_for_fetch(3);
        this->end();
    }
};

/* Two runs one after the other. In the second the helper must come along, and not further. */
template <class P, bool Chain> struct again : track<P> {
    again() : track<P>(2, 2, 1)
    {
    }

    void thread(int index)
    {
        if (index == 1) {
            this->run_ahead(1, Chain);
            this->run_ahead(2, Chain);
            return;
        }
        this->begin();
        this->come_to(2, Chain);
        this->end();
        this->begin();
        this->wait_for_fetch(0);
        this->end();
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"by numbers", make_world<hurry<P, false, 2, 1, 0>>, 2, 0, false, 3, 50000},
        {"by numbers, in front", make_world<hurry<P, false, 3, 2, 1>>, 2, 0, false, 3, 50000},
        {"chain", make_world<hurry<P, true, 2, 1, 1>>, 2, 0, false, 3, 100000},
        {"chain, long steps", make_world<hurry<P, true, 3, 2, 1>>, 2, 0, false, 3, 50000},
        {"two runs, by numbers", make_world<again<P, false>>, 2, 0, false, 2, 50000},
        {"two runs, chain", make_world<again<P, true>>, 2, 0, false, 2, 50000},
        {"together, by numbers", make_world<together<P, false>>, 2, 0, false, 3, 50000},
        {"together, chain", make_world<together<P, true>>, 2, 0, false, 2, 50000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
