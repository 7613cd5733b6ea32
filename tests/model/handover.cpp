/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The handover of a core (umbra/core/handover.h) under the model checker. See checker.hpp.
 *
 * Each scenario: an owner that opens its handover, runs what it is given and closes it, again and
 * again, and givers that give, take back or wait, as task/ranges.h and task/hand_over_range.h do; a
 * giver's core may itself take what is in the handover. Checked: every piece runs once; what runs
 * it sees what the giver wrote, and the giver sees what it did; every wait of a giver ends, by its
 * own node.
 */
#include "checker.hpp"

#include "handover_variants.hpp"

#include "core_users.hpp"

enum { GIVERS = 2 };

template <class P, int Rounds, int Turns> struct giving : world, receiver {
    typename P::um_handover handover;
    typename P::um_node *node[GIVERS];
    mail_core<P> core[GIVERS];
    rl::var<int> wanted[GIVERS]; /* what a giver's piece is to make of its result */
    rl::var<int> result[GIVERS];
    int runs[GIVERS];

    giving()
    {
        um_atomic_store(&handover.word, UM_HANDOVER_CLOSED, relaxed);
        for (int i = 0; i < GIVERS; i++) {
            node[i] = make_message<P>(i);
            runs[i] = 0;
        }
    }

    ~giving()
    {
        for (int i = 0; i < GIVERS; i++)
            node[i]->~um_node();
    }

    void receive(int)
    {
    }

    void run(int giver)
    {
        um_plain_write(result[giver], um_plain_read(wanted[giver]));
        runs[giver]++;
    }

    /* As um_handover_run(). */
    void run_given(bool open)
    {
        typename P::um_node *waiting;

        run((int)um_plain_read(handover.given.begin));
        waiting = P::um_handover_end(&handover, open);
        if (waiting)
            core[um_plain_read(waiting->kind)].post(waiting);
    }

    /* As um_work_next(), um_handover_run() and the close after them. */
    void own()
    {
        for (int turn = 0; turn < Turns; turn++) {
            P::um_handover_open(&handover);
            if (P::um_handover_take(&handover))
                run_given(rl::rand(2) == 0);
            else
                rl::yield(1, $);
            if (rl::rand(2) == 0)
                P::um_handover_close(&handover);
        }
        P::um_handover_close(&handover);
    }

    /* As um_piece_wait(). */
    void wait(int giver, uint64_t number)
    {
        if (P::um_handover_ended(&handover, number))
            return;
        um_plain_write(node[giver]->kind, (uint32_t)giver);
        if (P::um_handover_await(&handover, number)) {
            do
                core[giver].wait();
            while (core[giver].take(this) == 0);
            RL_ASSERT(P::um_handover_ended(&handover, number));
        }
    }

    /* As um_range_halve(). */
    void give(int giver, int value)
    {
        uint64_t number = P::um_handover_claim(&handover);

        um_plain_write(wanted[giver], value);
        if (number != 0) {
            um_plain_write(handover.waiter, node[giver]);
            um_plain_write(handover.given.begin, (size_t)giver);
            P::um_handover_give(&handover, number);
            rl::yield(1, $); /* the left half; if it blocks, the giver's core looks for work */
            if (rl::rand(2) == 0 && P::um_handover_take(&handover))
                run_given(false);
        }
        if (number == 0 || P::um_handover_take_back(&handover, number))
            run(giver);
        else
            wait(giver, number);
        RL_ASSERT(um_plain_read(result[giver]) == value);
    }

    void thread(int index)
    {
        if (index == 0) {
            own();
            return;
        }
        for (int round = 1; round <= Rounds; round++)
            give(index - 1, round);
    }

    void after()
    {
        for (int i = 0; i < GIVERS; i++)
            RL_ASSERT(runs[i] == 0 || runs[i] == Rounds); /* 0: the scenario has no such giver */
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one piece", make_world<giving<P, 1, 1>>, 2, 0, false, 4, 20000},
        {"one giver, again", make_world<giving<P, 2, 3>>, 2, 0, false, 2, 20000},
        {"two givers", make_world<giving<P, 1, 2>>, 3, 0, false, 2, 20000},
        {"two givers, again", make_world<giving<P, 3, 4>>, 3, 0, false, 0, 100000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
