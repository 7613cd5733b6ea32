/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The fiber that an idle core watches (umbra/core/watch.h), beside its inbox, under the model
 * checker. See checker.hpp.
 *
 * Each scenario: a core on which a fiber ends, watches it for a time of its choice, and then goes
 * to its inbox; and other threads, one of which gives the fiber its next life, as um_spawn_one()
 * does, perhaps with messages of its own before and after. Checked: each life begins once, with
 * what was prepared for it, between the messages; nothing is lost; a node is pushed only with its
 * link cleared.
 */
#include "checker.hpp"
#include "watch_variants.hpp"

#include "core_users.hpp"

enum { FIBER, BEFORE, AFTER, OTHER, NODES };

template <class P> struct stage : world, receiver {
    mail_core<P> core;
    typename P::um_node *node[NODES];
    rl::var<int> content[NODES]; /* what was prepared */
    um_atomic_u32 ended;         /* lives */
    int times[NODES];            /* begun, or received */
    bool ordered;                /* BEFORE, FIBER, AFTER */

    stage()
    {
        ordered = false;
        um_atomic_store(&ended, 0, relaxed);
        for (int i = 0; i < NODES; i++) {
            times[i] = 0;
            node[i] = make_message<P>(i);
        }
    }

    ~stage()
    {
        for (int i = 0; i < NODES; i++)
            node[i]->~um_node();
    }

    void post(int which)
    {
        RL_ASSERT(node[which]->link.debug_value() == 0);
        core.post(node[which]);
    }

    void send(int which)
    {
        um_plain_write(content[which], 1);
        post(which);
    }

    /* The next life: launched if it may be, and the core watches. */
    void spawn(int life, bool may)
    {
        while (um_atomic_load(&ended, acquire) < (uint32_t)life)
            rl::yield(1, $);
        um_plain_write(content[FIBER], life);
        if (may && P::um_watch_launch(&node[FIBER]->link, &core.inbox))
            return;
        P::um_watch_cancel(&node[FIBER]->link);
        post(FIBER);
    }

    void receive(int which)
    {
        RL_ASSERT(um_plain_read(content[which]) == ++times[which]);
        RL_ASSERT(node[which]->link.debug_value() == 0);
        if (ordered && which != OTHER)
            for (int i = 0; i < 3; i++) /* those before FIBER, BEFORE, AFTER in this order */
                RL_ASSERT(times[i] == (rank(i) <= rank(which)));
    }

    static int rank(int which)
    {
        return which == FIBER ? 1 : which == BEFORE ? 0 : 2;
    }

    bool missing(int lives, int messages)
    {
        int received = 0;

        for (int i = BEFORE; i < NODES; i++)
            received += times[i];
        return times[FIBER] < lives || received < messages;
    }

    void run_core(int lives, int messages)
    {
        for (int life = 1; missing(lives, messages); life++) {
            P::um_watch_begin(&node[FIBER]->link);
            um_atomic_store(&ended, (uint32_t)life, release);
            while (rl::rand(2) && P::um_watch_quiet(&node[FIBER]->link) &&
                   um_atomic_load(&core.inbox, relaxed) == 0)
                rl::yield(1, $);
            if (P::um_watch_end(&node[FIBER]->link))
                receive(FIBER);
            while (times[FIBER] < life || (life == lives && missing(lives, messages))) {
                core.wait();
                core.take(this);
            }
        }
    }
};

/* Lives one after the other, of a spawner that may launch or that may not. */
template <class P, int Lives, bool May> struct lives : stage<P> {
    void thread(int index)
    {
        if (index == 0)
            this->run_core(Lives, 0);
        else
            for (int life = 1; life <= Lives; life++)
                this->spawn(life, May);
    }
};

/* The spawner's own messages before and after keep their places. */
template <class P, bool Before, bool After> struct in_order : stage<P> {
    in_order()
    {
        this->ordered = Before && After;
    }

    void thread(int index)
    {
        if (index == 0) {
            this->run_core(1, Before + After);
            return;
        }
        if (Before)
            this->send(BEFORE);
        this->spawn(1, true);
        if (After)
            this->send(AFTER);
    }
};

/* Another's message meanwhile. */
template <class P, int Lives> struct among_others : stage<P> {
    void thread(int index)
    {
        if (index == 0)
            this->run_core(Lives, 1);
        else if (index == 1)
            for (int life = 1; life <= Lives; life++)
                this->spawn(life, true);
        else
            this->send(OTHER);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one life", make_world<lives<P, 1, true>>, 2, 0, false, 5, 50000},
        {"one life, pushed", make_world<lives<P, 1, false>>, 2, 0, false, 5, 50000},
        {"two lives", make_world<lives<P, 2, true>>, 2, 0, false, 3, 100000},
        {"two lives, pushed", make_world<lives<P, 2, false>>, 2, 0, false, 3, 100000},
        {"between messages", make_world<in_order<P, true, true>>, 2, 0, false, 3, 100000},
        {"one life, another's message", make_world<among_others<P, 1>>, 3, 0, false, 2, 100000},
        {"two lives, another's message", make_world<among_others<P, 2>>, 3, 0, false, 0, 200000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
