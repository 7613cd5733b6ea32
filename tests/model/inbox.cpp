/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The inbox (umbra/core/inbox.h) with the wait of the core that owns it, under the model
 * checker. See checker.hpp.
 *
 * Each scenario: a core that takes its messages and parks when there are none; other threads push
 * and poke. Checked: the core gets every message once, those of one sender in their order, and sees
 * what the sender wrote before without a race; it is never left asleep; a poke alone shows what was
 * written before it; a node can be pushed again as soon as it has been taken, with its link
 * cleared.
 */
#include "checker.hpp"
#include "inbox_variants.hpp"

#include "core_users.hpp"

enum { MESSAGES = 4 };

/* Core 0 receives; the other threads send. */
template <class P> struct post : world, receiver {
    mail_core<P> core;
    typename P::um_node *node[MESSAGES];
    rl::var<int> content[MESSAGES];
    um_atomic_u32 poked;
    int times[MESSAGES]; /* received */
    int received;

    post()
    {
        received = 0;
        um_atomic_store(&poked, 0, relaxed);
        for (int i = 0; i < MESSAGES; i++) {
            times[i] = 0;
            node[i] = make_message<P>(i);
        }
    }

    ~post()
    {
        for (int i = 0; i < MESSAGES; i++)
            node[i]->~um_node();
    }

    void send(int message)
    {
        um_plain_write(content[message], 7);
        core.post(node[message]);
    }

    void poke()
    {
        um_atomic_store(&poked, 1, relaxed);
        core.poke();
    }

    void receive(int message)
    {
        RL_ASSERT(times[message]++ == 0);
        RL_ASSERT(um_plain_read(content[message]) == 7);
        um_plain_write(content[message], 0);
        RL_ASSERT(node[message]->link.debug_value() == 0);
        for (int i = 0; i < message; i++) /* 0 and 1 are of one sender, 2 and 3 of another */
            RL_ASSERT(i / 2 != message / 2 || times[i] == 1);
        received++;
    }

    void run_core(int messages, bool pokes)
    {
        while (received < messages || (pokes && um_atomic_load(&poked, relaxed) == 0)) {
            core.wait();
            if (core.take(this) == 0)
                RL_ASSERT(um_atomic_load(&poked, relaxed) == 1);
        }
    }
};

/* One sender, some messages in a row. */
template <class P, int Messages> struct one_sender : post<P> {
    void thread(int index)
    {
        if (index == 0)
            this->run_core(Messages, false);
        else
            for (int i = 0; i < Messages; i++)
                this->send(i);
    }
};

template <class P> struct poke_only : post<P> {
    void thread(int index)
    {
        if (index == 0)
            this->run_core(0, true);
        else
            this->poke();
    }
};

/* Two senders, the first with two messages. */
template <class P> struct two_senders : post<P> {
    void thread(int index)
    {
        if (index == 0) {
            this->run_core(3, false);
        } else if (index == 1) {
            this->send(0);
            this->send(1);
        } else {
            this->send(2);
        }
    }
};

/* A poke against messages, before, between and after. */
template <class P> struct poke_and_send : post<P> {
    void thread(int index)
    {
        if (index == 0) {
            this->run_core(2, true);
        } else if (index == 1) {
            this->send(0);
            this->send(1);
        } else {
            this->poke();
        }
    }
};

/* One message goes to and fro between two cores; a third thread sends another in the midst. */
template <class P> struct to_and_fro : post<P> {
    mail_core<P> other;
    int here[2][MESSAGES]; /* received by each core */

    to_and_fro()
    {
        memset(here, 0, sizeof(here));
    }

    void receive(int message)
    {
        RL_ASSERT(um_plain_read(this->content[message]) == 7);
        RL_ASSERT(this->node[message]->link.debug_value() == 0);
        um_plain_write(this->content[message], 7);
        here[rl::thread_index()][message]++;
    }

    /* One turn of a core: message 0 goes on to the other, but for the last time. */
    void turn(mail_core<P> *mine, mail_core<P> *next, int self, bool last)
    {
        int before = here[self][0];

        mine->wait();
        mine->take(this);
        if (here[self][0] > before && !(last && here[self][0] == 2))
            next->post(this->node[0]);
    }

    void thread(int index)
    {
        if (index == 0) {
            this->send(0);
            while (here[0][0] < 2)
                turn(&other, &this->core, 0, true);
        } else if (index == 1) {
            while (here[1][0] < 2 || here[1][2] < 1)
                turn(&this->core, &other, 1, false);
        } else {
            this->send(2);
        }
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one message", make_world<one_sender<P, 1>>, 2, 0, true, 0, 20000},
        {"a poke", make_world<poke_only<P>>, 2, 0, true, 0, 20000},
        {"two messages", make_world<one_sender<P, 2>>, 2, 0, false, 5, 50000},
        {"two senders", make_world<two_senders<P>>, 3, 0, false, 3, 200000},
        {"a poke and messages", make_world<poke_and_send<P>>, 3, 0, false, 3, 200000},
        {"to and fro", make_world<to_and_fro<P>>, 3, 0, false, 2, 100000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
