/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Waits that two sides may end (umbra/wait/claim.h) under the model checker. See checker.hpp.
 *
 * Each scenario: waits with a deadline, or for any of two events, against signals and each other;
 * the waiter does what umbra/event.h does. A deadline passes at once, or by chance not at all.
 * Checked: one event ends a wait, or the waiter gives up, never both; no signal is lost or taken
 * twice; accept is not called for a waiter that gave up, and what accept wrote is ordered before
 * what the waiter writes then; each node is freed once, and no thread touches it afterwards, but for
 * the claim of a group, which stays a claim (see fiber/sleeper.h).
 */
#include "checker.hpp"
#include "claim_variants.hpp"

enum { EVENTS = 2, NODES = 6 };

/* What a waiter's condition says. */
enum um_condition { NONE, ALWAYS, NEVER, FLAG };

template <class P> struct waits : world {
    typedef typename P::um_event event_type;
    typedef typename P::um_claimed claimed_type;
    typedef typename P::um_node node_type;
    typedef typename P::um_released released_type;

    /* A node with a claim, or (plain) without, and its waiter. */
    struct place {
        waits *here;
        int index;
        claimed_type *claimed;
        int lives;     /* how often it was taken into use */
        int freed;     /* how often it was freed */
        int freed_by;  /* the last time: thread */
        int woken;     /* how often, in this life */
        bool gave_up;  /* in this life */
        int condition; /* um_condition */
        int waiter;    /* index of the place whose `bell` is rung */
        um_atomic_u32 bell;
        um_plain(int) asked; /* plain data of the waiter's: how often accept was called */
    };

    event_type *event[EVENTS];
    um_atomic_u32 flag;
    place places[NODES];

    waits()
    {
        for (int i = 0; i < EVENTS; i++) {
            event[i] = um_place<event_type>(i);
            event[i]->manual = false;
            um_atomic_store(&event[i]->word, 0, relaxed);
            um_atomic_store(&event[i]->hint, 0, relaxed);
        }
        um_atomic_store(&flag, 0, relaxed);
        um_kernel_now.spurious_left = 0;
        for (int i = 0; i < NODES; i++) {
            place *p = &places[i];

            p->here = this;
            p->index = i;
            p->lives = p->freed = p->woken = 0;
            p->gave_up = false;
            p->condition = NONE;
            p->waiter = i;
            p->claimed = um_place<claimed_type>(i);
            um_atomic_store(&p->bell, 0, relaxed);
            um_atomic_store(&p->claimed->claim, 0, relaxed);
            um_atomic_store(&p->claimed->node.home, 0, relaxed);
        }
    }

    ~waits()
    {
        for (int i = 0; i < EVENTS; i++)
            event[i]->~event_type();
        for (int i = 0; i < NODES; i++)
            places[i].claimed->~claimed_type();
    }

    static bool accept(void *arg)
    {
        place *p = (place *)arg;

        RL_ASSERT(!p->gave_up && p->woken == 0);
        um_plain_write(p->asked, um_plain_read(p->asked) + 1);
        if (p->condition == FLAG)
            return um_atomic_load(&p->here->flag, relaxed) != 0;
        return p->condition == ALWAYS;
    }

    /* As um_wait_prepare(). */
    void prepare(int index, int group, int number, um_condition condition)
    {
        place *p = &places[index];
        um_atomic_u64 *claim = &places[group].claimed->claim;
        uint64_t base = um_atomic_load(claim, relaxed) >> UM_CLAIM_SHIFT;

        if (index == group) {
            um_atomic_store(claim, ++base << UM_CLAIM_SHIFT, relaxed);
            um_atomic_store(&p->bell, 0, relaxed);
        }
        p->lives++;
        p->woken = 0;
        p->gave_up = false;
        p->condition = condition;
        p->waiter = group;
        p->claimed->group = places[group].claimed;
        p->claimed->ticket = base << UM_CLAIM_SHIFT | (uint64_t)number << UM_CLAIM_INDEX_SHIFT;
        p->claimed->node.accept = condition == NONE ? NULL : accept;
        p->claimed->node.arg = p;
        um_plain_write(p->asked, 0);
        um_plain_write(p->claimed->node.flags, UM_NODE_CLAIMED);
        um_atomic_store(&p->claimed->refs, 2, relaxed);
    }

    /* The next owner of the memory may write to it at once. */
    void recycle(place *p)
    {
        RL_ASSERT(++p->freed == p->lives);
        p->freed_by = (int)rl::thread_index();
        um_plain_write(p->claimed->node.next, &p->claimed->node);
        um_plain_write(p->claimed->node.before, 1);
        um_plain_write(p->claimed->node.flags, 0xdead);
    }

    static void free_claimed(claimed_type *claimed)
    {
        place *p = (place *)claimed->node.arg;

        p->here->recycle(p);
    }

    void wake(released_type *out)
    {
        node_type *node = out->first;

        while (node) {
            node_type *next = node == out->last ? NULL : um_plain_read(node->next);
            place *p = (place *)node->arg;

            RL_ASSERT(p->woken++ == 0 && !p->gave_up);
            um_atomic_store(&places[p->waiter].bell, 1, seq_cst);
            um_os_futex_wake(&places[p->waiter].bell);
            node = next;
        }
    }

    void join(int i, int index)
    {
        released_type out = {NULL, NULL};

        RL_ASSERT(!P::um_event_join(event[i], &places[index].claimed->node, &out));
        wake(&out);
    }

    void signal(int i)
    {
        released_type out = {NULL, NULL};

        P::um_event_signal(event[i], &out);
        wake(&out);
    }

    /* Looks by a read-modify-write: a search of all old values would have no end. */
    void sleep(int index)
    {
        while (um_atomic_fetch_or(&places[index].bell, 0, acquire) == 0)
            um_os_futex_wait(&places[index].bell, 0, UMBRA_NEVER);
    }

    /* Waits with nodes first..first+count-1 for the events 0.. or, alone, for `i`; the deadline
     * passes if so said. The number of the node that was taken, or -1. */
    int wait(int first, int count, int i, um_condition condition, bool deadline)
    {
        claimed_type *group = places[first].claimed;
        enum P::um_give_up end = P::UM_GIVE_UP_LATER;
        uint64_t ticket;
        uint64_t claim;
        int winner;

        for (int n = 0; n < count; n++) {
            prepare(first + n, first, n, condition);
            join(count == 1 ? i : n, first + n);
        }
        ticket = group->ticket;
        while (deadline && (end = P::um_claim_give_up(group, ticket)) == P::UM_GIVE_UP_LATER)
            rl::yield(1, $);
        if (end == P::UM_GAVE_UP)
            um_plain_write(places[first].asked, -1); /* its frame is used for something else */
        else
            sleep(first);
        claim = um_atomic_load(&group->claim, acquire);
        RL_ASSERT(((claim & UM_CLAIM_STATE) == UM_CLAIM_TAKEN) == (end != P::UM_GAVE_UP));
        winner = end == P::UM_GAVE_UP ? -1 : (int)(claim >> UM_CLAIM_INDEX_SHIFT & UM_CLAIM_INDEX);
        for (int n = 0; n < count; n++) {
            places[first + n].gave_up = n != winner;
            leave(count == 1 ? i : n, first + n, n == winner);
        }
        return winner;
    }

    /* As um_group_withdraw(). */
    void leave(int i, int index, bool taken)
    {
        claimed_type *claimed = places[index].claimed;
        released_type out = {NULL, NULL};

        RL_ASSERT(places[index].woken == taken);
        if (taken) {
            free_claimed(claimed);
            return;
        }
        P::um_event_withdraw(event[i], claimed, &out);
        wake(&out);
        P::um_claimed_drop(claimed);
    }

    /* A wait without claim or deadline. */
    void wait_plainly(int i, int index)
    {
        released_type out = {NULL, NULL};
        node_type *node = &places[index].claimed->node;

        places[index].lives++;
        node->accept = NULL;
        node->arg = &places[index];
        um_plain_write(node->flags, 0);
        if (!P::um_event_join(event[i], node, &out)) {
            wake(&out);
            sleep(index);
        }
        recycle(&places[index]);
    }

    /* The same, interrupted, as um_withdraw_event() does it: whether it was too late for that. */
    bool wait_interrupted(int i, int index)
    {
        released_type out = {NULL, NULL};
        node_type *node = &places[index].claimed->node;
        enum P::um_give_up end = P::UM_GIVE_UP_LATER;

        places[index].lives++;
        node->accept = NULL;
        node->arg = &places[index];
        um_plain_write(node->flags, 0);
        if (!P::um_event_join(event[i], node, &out)) {
            wake(&out);
            while (end == P::UM_GIVE_UP_LATER) {
                out = released_type{NULL, NULL};
                end = P::um_event_withdraw_plain(event[i], node, &out);
                wake(&out);
                if (end == P::UM_GIVE_UP_LATER)
                    rl::yield(1, $);
            }
            if (end == P::UM_GAVE_UP)
                RL_ASSERT(places[index].woken == 0);
            else
                sleep(index);
        }
        recycle(&places[index]);
        return end != P::UM_GAVE_UP;
    }

    /* True if the event is signaled at the end, with no waiter left in its queue. */
    bool signaled(int i)
    {
        uint64_t word = event[i]->word.debug_value();

        RL_ASSERT(word <= P::UMBRA_EVENT_SIGNALED);
        return word == P::UMBRA_EVENT_SIGNALED;
    }

    void after()
    {
        for (int i = 0; i < NODES; i++)
            RL_ASSERT(places[i].freed == places[i].lives);
        check();
    }

    virtual void check() = 0;
};

/* A deadline against one signal: which of them is taken, and the other stays. */
template <class P, um_condition Condition> struct cancel : waits<P> {
    int winner;

    void thread(int index)
    {
        if (index == 0) {
            winner = this->wait(0, 1, 0, Condition, Condition == NEVER || rl::rand(2) == 0);
        } else {
            um_atomic_store(&this->flag, 1, relaxed);
            this->signal(0);
        }
    }

    void check()
    {
        /* a waiter with a condition that is true when it joins takes no signal */
        if (Condition == NONE || winner < 0)
            RL_ASSERT(this->signaled(0) == (winner < 0));
    }
};

/* One token, which each waiter passes on: some give up, others wait, the last one signals. */
template <class P, int Cancels, bool Claims> struct relay : waits<P> {
    void thread(int index)
    {
        if (index < Cancels) {
            if (this->wait(index, 1, 0, NONE, true) < 0)
                return;
        } else if (index < um_scenario_now->threads - 1) {
            if (Claims)
                this->wait(index, 1, 0, NONE, false);
            else
                this->wait_plainly(0, index);
        }
        this->signal(0);
    }

    void check()
    {
        RL_ASSERT(this->signaled(0));
    }
};

/* The same; those that give up have no claim, and are interrupted. */
template <class P, int Interrupted, bool Claims> struct relay_interrupted : waits<P> {
    void thread(int index)
    {
        if (index < Interrupted) {
            if (!this->wait_interrupted(0, index))
                return;
        } else if (index < um_scenario_now->threads - 1) {
            if (!Claims)
                this->wait_plainly(0, index);
            else if (this->wait(index, 1, 0, NONE, true) < 0)
                return;
        }
        this->signal(0);
    }

    void check()
    {
        RL_ASSERT(this->signaled(0));
    }
};

/* No signal: all waiters give up. */
template <class P> struct all_cancel : waits<P> {
    void thread(int index)
    {
        RL_ASSERT(this->wait(index, 1, 0, NONE, true) < 0);
    }

    void check()
    {
        RL_ASSERT(!this->signaled(0));
    }
};

/* ---- waiters that give up and come again ---- */

/* What the holder of the word at `watched` has been told since it took hold, over one execution. */
static struct {
    const void *word;
    bool told;                  /* it has taken a log with a waiter that gave up */
    int joins[UM_THREADS_MOST]; /* left with it since, by thread */
} hold_now;

static void note_change(const void *word, uint64_t before, uint64_t after)
{
    const uint64_t joins = UINT64_C(0x0000ffffffffffc0);
    const uint64_t sweep = 1 << 4;
    const uint64_t closed = 1 << 3;

    if (word != hold_now.word)
        return;
    if ((after & 7) < 2) {
        hold_now.told = false;
        memset(hold_now.joins, 0, sizeof(hold_now.joins));
    } else if ((before & 7) >= 2) {
        if (before & sweep && !(after & sweep))
            hold_now.told = true;
        else if (hold_now.told && (after & joins) != (before & joins) && (after & joins))
            RL_ASSERT(++hold_now.joins[rl::thread_index()] <= 1); /* it had looked before */
        if (hold_now.told)
            RL_ASSERT(after & (sweep | closed));
    }
}

/* One gives up and comes again, as um_group_enter() lets it, while another waits; a third, if there
 * is one, resets and signals. */
template <class P> struct come_again : waits<P> {
    int won;

    come_again()
    {
        won = 0;
        memset(&hold_now, 0, sizeof(hold_now));
        hold_now.word = &this->event[0]->word;
        um_model_changed = note_change;
    }

    void thread(int index)
    {
        if (index == 0) {
            for (int i = 0; i < NODES - 1; i++)
                if (!P::um_event_is_closed(this->event[0]))
                    won += this->wait(i, 1, 0, NONE, true) == 0;
        } else if (index == 1) {
            won += this->wait(NODES - 1, 1, 0, NONE, true) == 0;
        } else {
            for (int i = 0; i < 3; i++)
                P::um_event_reset(this->event[0]);
            this->signal(0);
        }
    }

    void check()
    {
        int signals = um_scenario_now->threads - 2;

        RL_ASSERT(won + this->signaled(0) == signals);
    }
};

/* A wait for any of two events, each signaled once; the deadline may pass. */
template <class P, bool Deadline> struct any : waits<P> {
    int winner;

    void thread(int index)
    {
        if (index == 0)
            winner = this->wait(0, 2, 0, NONE, Deadline);
        else
            this->signal(index - 1);
    }

    void check()
    {
        RL_ASSERT(this->signaled(0) == (winner != 0) && this->signaled(1) == (winner != 1));
    }
};

/* After that a wait for the other event, in the group's memory if it is free. */
template <class P> struct any_then_other : waits<P> {
    void thread(int index)
    {
        if (index == 0) {
            int winner = this->wait(0, 2, 0, NONE, false);
            bool again = this->places[0].freed == 1 && this->places[0].freed_by == 0;

            this->wait(again ? 0 : 2, 1, 1 - winner, NONE, false);
        } else {
            this->signal(index - 1);
        }
    }

    void check()
    {
        RL_ASSERT(!this->signaled(0) && !this->signaled(1));
    }
};

/* After that a wait for the first again; the node in the other's queue belongs to the past. */
template <class P> struct any_then_again : waits<P> {
    void thread(int index)
    {
        if (index == 0) {
            RL_ASSERT(this->wait(0, 2, 0, NONE, false) == 0);
            RL_ASSERT(this->wait(0, 1, 0, NONE, true) < 0);
        } else if (index == 1) {
            this->signal(0);
        } else {
            RL_ASSERT(this->wait(2, 1, 1, NONE, true) < 0);
        }
    }

    void check()
    {
        RL_ASSERT(!this->signaled(0) && !this->signaled(1));
    }
};

/* A wait for any of two events; another waiter waits for one of them, and gives up. */
template <class P> struct any_against_cancel : waits<P> {
    int winner[2];

    void thread(int index)
    {
        if (index == 0)
            winner[0] = this->wait(0, 2, 0, NONE, rl::rand(2) == 0);
        else if (index == 1)
            winner[1] = this->wait(2, 1, 1, NONE, true);
        else
            this->signal(index - 2);
    }

    void check()
    {
        RL_ASSERT(winner[0] != 1 || winner[1] != 0);
        RL_ASSERT(this->signaled(0) == (winner[0] != 0));
        RL_ASSERT(this->signaled(1) == (winner[0] != 1 && winner[1] != 0));
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"cancel, signal", make_world<cancel<P, NONE>>, 2, 0, false, 6, 20000},
        {"cancel, condition holds", make_world<cancel<P, ALWAYS>>, 2, 0, true, 0, 20000},
        {"cancel, condition does not", make_world<cancel<P, NEVER>>, 2, 0, false, 5, 50000},
        {"cancel, condition comes", make_world<cancel<P, FLAG>>, 2, 0, false, 5, 50000},
        {"all cancel", make_world<all_cancel<P>>, 2, 0, false, 3, 20000},
        {"all three cancel", make_world<all_cancel<P>>, 3, 0, false, 2, 50000},
        {"cancel, and again", make_world<come_again<P>>, 2, 0, false, 0, 100000},
        {"cancel, and again, signal", make_world<come_again<P>>, 3, 0, false, 0, 100000},
        {"any of two, then again", make_world<any_then_again<P>>, 3, 0, false, 2, 50000},
        {"cancel, claimed wait, signal", make_world<relay<P, 1, true>>, 3, 0, false, 3, 50000},
        {"cancel, wait, signal", make_world<relay<P, 1, false>>, 3, 0, false, 3, 50000},
        {"two cancel, signal", make_world<relay<P, 2, false>>, 3, 0, false, 3, 50000},
        {"interrupted, signal", make_world<relay_interrupted<P, 1, false>>, 2, 0, false, 5, 20000},
        {"interrupted, wait, signal", make_world<relay_interrupted<P, 1, false>>, 3, 0, false, 3,
         50000},
        {"interrupted, cancel, signal", make_world<relay_interrupted<P, 1, true>>, 3, 0, false, 3,
         50000},
        {"two interrupted, signal", make_world<relay_interrupted<P, 2, false>>, 3, 0, false, 3,
         50000},
        {"any of two", make_world<any<P, false>>, 3, 0, false, 3, 50000},
        {"any of two, cancel", make_world<any<P, true>>, 3, 0, false, 3, 50000},
        {"any of two, then the other", make_world<any_then_other<P>>, 3, 0, false, 3, 100000},
        {"any of two, another cancels", make_world<any_against_cancel<P>>, 4, 0, false, 0, 200000},
        {"cancel, two wait, signal", make_world<relay<P, 1, false>>, 4, 0, false, 0, 200000},
        {"cancel, two claim, signal", make_world<relay<P, 1, true>>, 4, 0, false, 0, 200000},
        {"two cancel, one waits, signal", make_world<relay<P, 2, false>>, 4, 0, false, 0, 200000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_FREE_CLAIMED(name, what, expected)                                                      \
    void name::um_claimed_free(um_claimed *claimed)                                                \
    {                                                                                              \
        waits<name>::free_claimed(claimed);                                                        \
    }
UM_VARIANTS(UM_FREE_CLAIMED)

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
