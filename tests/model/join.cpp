/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The end of a fiber and its join (umbra/core/join_word.h) under the model checker. See
 * checker.hpp.
 *
 * Thread 0 is the home core, where the fiber ends. Thread 1 is the owner, which serves askers in
 * the order of their numbers, or has a joiner of its own. The other threads are askers, some of
 * which give up. They do what umbra/core/join.h does. Checked: the result is taken at most once,
 * and only after it was written; an asker that still waits is answered; a node is freed once, and
 * no thread touches it afterwards, but for its claim; if no join took the result, the fiber can
 * still be joined at the end.
 */
#include "checker.hpp"
#include "join_variants.hpp"

enum { ASKERS = 3 };

static const uint64_t OWNER = 0x1000; /* as an address */

template <class P> struct stage : world {
    typedef typename P::um_claimed claimed_type;
    typedef typename P::um_node node_type;

    struct asker {
        claimed_type *claimed;
        um_atomic_u32 sent, bell;
        rl::var<int> result; /* of the answer */
        bool taken;          /* by its wait's end */
        int status;          /* of the answer: 0, or 1: another joins it, or has joined it */
        int freed;
    };

    um_atomic_u64 done, generation;
    um_atomic_u32 bell; /* of the owner's own joiner */
    rl::var<int> result;
    node_type *mine; /* the owner's own joiner's */
    asker askers[ASKERS];
    int collected;

    stage()
    {
        um_kernel_now.spurious_left = 0;
        um_atomic_store(&done, OWNER | UM_DONE_RUNNING, relaxed);
        um_atomic_store(&generation, 1, relaxed);
        um_atomic_store(&bell, 0, relaxed);
        mine = &um_place<claimed_type>(ASKERS)->node;
        collected = 0;
        for (int i = 0; i < ASKERS; i++) {
            asker *a = &askers[i];

            a->claimed = um_place<claimed_type>(i);
            a->claimed->group = a->claimed;
            a->claimed->ticket = UINT64_C(1) << UM_CLAIM_SHIFT;
            a->claimed->node.accept = NULL;
            a->claimed->node.arg = this;
            um_atomic_store(&a->claimed->claim, a->claimed->ticket, relaxed);
            um_atomic_store(&a->claimed->refs, 2, relaxed);
            um_atomic_store(&a->sent, 0, relaxed);
            um_atomic_store(&a->bell, 0, relaxed);
            a->taken = false;
            a->status = a->freed = 0;
        }
    }

    ~stage()
    {
        for (int i = 0; i < ASKERS; i++)
            askers[i].claimed->~claimed_type();
        ((claimed_type *)mine)->~claimed_type();
    }

    asker *asker_of(const node_type *node)
    {
        int i = 0;

        while (&askers[i].claimed->node != node)
            i++;
        return &askers[i];
    }

    static void free_claimed(claimed_type *claimed)
    {
        stage *self = (stage *)claimed->node.arg;

        RL_ASSERT(++self->asker_of(&claimed->node)->freed == 1);
        um_plain_write(claimed->node.flags, 0xdead); /* its next user may write to it */
    }

    static void ring(um_atomic_u32 *bell)
    {
        RL_ASSERT(um_atomic_exchange(bell, 1, seq_cst) == 0);
        um_os_futex_wake(bell);
    }

    /* Looks by a read-modify-write: a search of all old values would have no end. */
    static void sleep(um_atomic_u32 *bell)
    {
        while (um_atomic_fetch_or(bell, 0, acquire) == 0)
            um_os_futex_wait(bell, 0, UMBRA_NEVER);
    }

    /* As um_join_collect(). */
    int collect()
    {
        int value = um_plain_read(result);

        RL_ASSERT(++collected == 1);
        um_atomic_store(&generation, 2, relaxed);
        return value;
    }

    /* As um_join_claim(). */
    bool claim(claimed_type *claimed)
    {
        um_plain_read(claimed->node.flags); /* it is the caller's */
        if (P::um_claimed_offer(claimed) == P::UM_OFFER_TAKEN)
            return true;
        P::um_claimed_drop(claimed);
        return false;
    }

    void reply(asker *a, int status)
    {
        a->status = status;
        if (status == 0)
            um_plain_write(a->result, collect());
        ring(&a->bell);
    }

    /* As um_fiber_retire() and um_join_answer(). */
    void run_home()
    {
        uint64_t value;

        um_plain_write(result, 7);
        value = P::um_done_tell(&done);
        if ((value & UM_DONE_TAG) == UM_DONE_JOINED) {
            ring(&bell);
        } else if ((value & UM_DONE_TAG) == UM_DONE_ASKED) {
            asker *a = asker_of(P::um_done_node(value));

            if (claim(a->claimed))
                reply(a, 0);
            else
                P::um_done_unanswered(&done, OWNER);
        } else {
            RL_ASSERT((value & UM_DONE_TAG) == UM_DONE_RUNNING);
        }
    }

    /* As um_join_begin(). */
    bool begin(uint64_t from, uint64_t to)
    {
        if (!P::um_done_change(&done, P::UM_DONE_OTHER, from, to))
            return false;
        if ((from & UM_DONE_TAG) == UM_DONE_ASKED)
            P::um_claimed_drop(asker_of(P::um_done_node(from))->claimed);
        return true;
    }

    static bool is_free(uint64_t value)
    {
        return (value & UM_DONE_TAG) == UM_DONE_RUNNING || P::um_done_given_up(value);
    }

    void refuse(asker *a)
    {
        if (claim(a->claimed))
            reply(a, 1);
    }

    /* As um_join_receive() and um_join_serve(): whether it is served. */
    bool serve(asker *a)
    {
        uint64_t value = um_atomic_load(&done, acquire);

        if (um_atomic_load(&generation, relaxed) != 1) {
            refuse(a);
            return true;
        }
        if (is_free(value))
            return begin(value, (uintptr_t)&a->claimed->node | UM_DONE_ASKED);
        if ((value & UM_DONE_TAG) == UM_DONE_ANSWERING)
            return false;
        if ((value & UM_DONE_TAG) == UM_DONE_FINISHED) {
            if (claim(a->claimed))
                reply(a, 0);
            return true;
        }
        if (um_atomic_load(&done, acquire) != value)
            return false;
        refuse(a);
        return true;
    }

    void run_owner(int count)
    {
        for (int i = 0; i < count; i++) {
            sleep(&askers[i].sent);
            while (!serve(&askers[i]))
                rl::yield(1, $);
        }
    }

    /* As um_join_ask_thread(). */
    void ask(int i, bool patient)
    {
        asker *a = &askers[i];
        enum P::um_give_up end = P::UM_GIVE_UP_TOO_LATE;

        um_plain_write(a->claimed->node.flags, UM_NODE_CLAIMED);
        ring(&a->sent);
        if (!patient)
            end = P::um_claim_give_up(a->claimed, a->claimed->ticket);
        if (end == P::UM_GAVE_UP) {
            P::um_claimed_drop(a->claimed);
            return;
        }
        sleep(&a->bell);
        a->taken = a->status == 0;
        if (a->taken)
            RL_ASSERT(um_plain_read(a->result) == 7);
        free_claimed(a->claimed);
    }

    void after()
    {
        int took = 0;

        for (int i = 0; i < ASKERS; i++)
            took += askers[i].taken;
        RL_ASSERT(took <= collected);
        check(took);
    }

    virtual void check(int took) = 0;

    bool finished()
    {
        return done.debug_value() == (OWNER | UM_DONE_FINISHED);
    }
};

/* Askers: the last ones are patient; the others give up, if it is not too late. */
template <class P, int Count, int Patient> struct asked : stage<P> {
    void thread(int index)
    {
        if (index == 0)
            this->run_home();
        else if (index == 1)
            this->run_owner(Count);
        else
            this->ask(index - 2, index - 2 >= Count - Patient);
    }

    void check(int took)
    {
        for (int i = 0; i < Count; i++)
            RL_ASSERT(this->askers[i].freed == 1);
        RL_ASSERT(took == this->collected);
        if (took == 0)
            RL_ASSERT(this->finished());
    }
};

/* One after the other, of one thread: the second is patient, and none but the first is before
 * it. */
template <class P> struct in_turn : stage<P> {
    void thread(int index)
    {
        if (index == 0) {
            this->run_home();
        } else if (index == 1) {
            this->run_owner(2);
        } else {
            this->ask(0, false);
            this->ask(1, true);
        }
    }

    void check(int took)
    {
        RL_ASSERT(took == 1 && this->collected == 1);
    }
};

/* A joiner of the owner is interrupted, if it is not too late, and joins again. */
template <class P> struct interrupted : stage<P> {
    /* As um_join_wait(), of a fiber that um_withdraw_join() may interrupt: -1 then. */
    int join(bool interrupt)
    {
        uint64_t node = (uintptr_t)this->mine;
        uint64_t value;

        do {
            value = um_atomic_load(&this->done, acquire);
            if ((value & UM_DONE_TAG) == UM_DONE_FINISHED)
                return this->collect();
        } while (!this->begin(value, node | UM_DONE_JOINED));
        if (interrupt && P::um_done_change(&this->done, P::UM_DONE_OTHER, node | UM_DONE_JOINED,
                                           OWNER | UM_DONE_RUNNING))
            return -1;
        this->sleep(&this->bell);
        RL_ASSERT(um_atomic_load(&this->done, relaxed) == (node | UM_DONE_TOLD));
        return this->collect();
    }

    void thread(int index)
    {
        int got;

        if (index == 0) {
            this->run_home();
            return;
        }
        got = join(true);
        if (got < 0)
            got = join(false);
        RL_ASSERT(got == 7);
    }

    void check(int)
    {
        RL_ASSERT(this->collected == 1);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one asks", make_world<asked<P, 1, 1>>, 3, 0, false, 4, 50000},
        {"one gives up", make_world<asked<P, 1, 0>>, 3, 0, false, 4, 50000},
        {"one gives up, asks again", make_world<in_turn<P>>, 3, 0, false, 3, 50000},
        {"two ask", make_world<asked<P, 2, 2>>, 4, 0, false, 2, 50000},
        {"one gives up, one waits", make_world<asked<P, 2, 1>>, 4, 0, false, 2, 200000},
        {"two give up", make_world<asked<P, 2, 0>>, 4, 0, false, 2, 200000},
        {"two give up, one waits", make_world<asked<P, 3, 1>>, 5, 0, false, 0, 200000},
        {"interrupted", make_world<interrupted<P>>, 2, 0, true, 0, 50000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_FREE_CLAIMED(name, what, expected)                                                      \
    void name::um_claimed_free(um_claimed *claimed)                                                \
    {                                                                                              \
        stage<name>::free_claimed(claimed);                                                        \
    }
UM_VARIANTS(UM_FREE_CLAIMED)

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
