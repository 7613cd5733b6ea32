/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The verdict that nothing can happen any more (umbra/core/quiet.h) under the model checker.
 * See checker.hpp.
 *
 * Each scenario: two cores that send a message to and fro some times and sleep when they have none,
 * as um_core_doze() does; perhaps a thread outside that holds the runtime, sends another message
 * and releases it, or a thread that only waits, and sends what a core has recorded with it
 * meanwhile. Checked: the verdict is given (else all would sleep: DEADLOCK), once, and with no
 * message under way; a thread that releases touches nothing of this after a verdict, and a release
 * without a hold does nothing.
 */
#include "checker.hpp"
#include "quiet_variants.hpp"

#include "core_users.hpp"

enum { CORES = 2, MESSAGES = 2 };

template <class P> struct house : world, receiver {
    mail_core<P> core[CORES];
    um_atomic_u64 activity;
    um_atomic_u64 holds;
    typename P::um_quiet_outside outside;
    rl::mutex lock;
    rl::var<int> verdicts; /* under the lock */
    um_atomic_u32 stop;    /* told to all after the verdict */
    typename P::um_node *node[MESSAGES];
    rl::var<int> hops[MESSAGES]; /* left; its receiver's */
    int under_way;

    house(int holders, int first_hops)
    {
        under_way = 0;
        um_atomic_store(&activity, CORES + (uint64_t)holders, relaxed);
        um_atomic_store(&holds, (uint64_t)holders, relaxed);
        um_atomic_store(&outside.calls, 0, relaxed);
        um_atomic_store(&outside.judging, 0, relaxed);
        um_atomic_store(&stop, 0, relaxed);
        um_plain_write(verdicts, 0);
        for (int i = 0; i < MESSAGES; i++)
            node[i] = make_message<P>(i);
        if (first_hops > 0)
            send(0, 0, first_hops);
    }

    ~house()
    {
        for (int i = 0; i < MESSAGES; i++)
            node[i]->~um_node();
    }

    void send(int message, int to, int left)
    {
        under_way++;
        um_plain_write(hops[message], left);
        core[to].post(node[message]);
    }

    virtual void receive(int message)
    {
        int left = um_plain_read(hops[message]) - 1;

        if (left > 0)
            send(message, 1 - (int)rl::thread_index(), left);
        under_way--;
    }

    static bool empty(void *context)
    {
        house *here = (house *)context;

        for (int i = 0; i < CORES; i++)
            if (um_atomic_load(&here->core[i].inbox, seq_cst))
                return false;
        return true;
    }

    /* As um_runtime_judge_locked(): one verdict. True if this was it. */
    bool judge_locked()
    {
        if (um_plain_read(verdicts) != 0 || !P::um_quiet_judge(&activity, 0, &outside, empty, this))
            return false;
        RL_ASSERT(under_way == 0);
        um_plain_write(verdicts, 1);
        return true;
    }

    void tell(bool quiet)
    {
        if (!quiet)
            return;
        um_atomic_store(&stop, 1, relaxed);
        for (int i = 0; i < CORES; i++)
            core[i].poke();
    }

    void judge()
    {
        bool quiet;

        lock.lock($);
        quiet = judge_locked();
        lock.unlock($);
        tell(quiet);
    }

    void leave()
    {
        if (P::um_quiet_leave(&activity))
            judge();
    }

    /* As umbra_release(). */
    void release()
    {
        bool quiet;

        if (!P::um_quiet_let_go(&holds) || P::um_quiet_leave_others(&activity))
            return;
        lock.lock($);
        RL_ASSERT(um_plain_read(verdicts) == 0);
        quiet = P::um_quiet_leave(&activity) && judge_locked();
        lock.unlock($);
        tell(quiet);
    }

    void run_core(int self)
    {
        for (;;) {
            if (um_atomic_load(&core[self].inbox, relaxed)) {
                core[self].take(this);
                if (um_atomic_load(&stop, relaxed))
                    return;
                continue;
            }
            leave();
            core[self].wait();
            P::um_quiet_enter(&activity);
        }
    }

    void after()
    {
        RL_ASSERT(um_plain_read(verdicts) == 1);
    }
};

/* Two cores and a message that is received some times. */
template <class P, int Hops> struct cores_only : house<P> {
    cores_only() : house<P>(0, Hops)
    {
    }

    void thread(int index)
    {
        this->run_core(index);
    }
};

/* Besides, a thread that holds the runtime, sends a message, or none, and releases it. */
template <class P, int Hops, int Sent> struct with_holder : house<P> {
    with_holder() : house<P>(1, Hops)
    {
    }

    void thread(int index)
    {
        if (index < CORES) {
            this->run_core(index);
            return;
        }
        if (Sent > 0)
            this->send(1, 1, Sent);
        this->release();
    }
};

/* Besides, a thread that holds the runtime once more, and releases it once too often. */
template <class P, int Hops> struct with_releaser : house<P> {
    with_releaser() : house<P>(1, Hops)
    {
    }

    void thread(int index)
    {
        if (index < CORES) {
            this->run_core(index);
            return;
        }
        P::um_quiet_hold(&this->activity, &this->holds);
        for (int i = 0; i < 3; i++)
            this->release();
    }
};

/* Besides, a thread that only waits: core 0's message is a signal to what both use. */
template <class P, int Hops> struct with_helper : house<P> {
    enum { FREE, HELD, LEFT };
    um_atomic_u32 held;

    with_helper() : house<P>(0, 1)
    {
        um_atomic_store(&held, FREE, relaxed);
    }

    void receive(int message)
    {
        uint32_t seen = HELD;

        if (message == 1) {
            house<P>::receive(message);
            return;
        }
        if (um_atomic_cas(&held, &seen, (uint32_t)LEFT, acq_rel, acquire))
            return; /* still under way, in the helper's hands */
        this->send(1, 1, Hops);
        this->under_way--;
    }

    void thread(int index)
    {
        if (index < CORES) {
            this->run_core(index);
            return;
        }
        P::um_quiet_call(&this->outside);
        um_atomic_store(&held, HELD, relaxed);
        if (um_atomic_exchange(&held, FREE, acq_rel) == LEFT) {
            this->send(1, 1, Hops);
            this->under_way--;
        }
        if (P::um_quiet_call_ends(&this->outside))
            this->judge();
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"nothing to do", make_world<cores_only<P, 0>>, 2, 0, false, 4, 50000},
        {"one message", make_world<cores_only<P, 1>>, 2, 0, false, 4, 100000},
        {"to and fro", make_world<cores_only<P, 2>>, 2, 0, false, 3, 100000},
        {"to and fro and to", make_world<cores_only<P, 3>>, 2, 0, false, 3, 100000},
        {"a holder", make_world<with_holder<P, 0, 0>>, 3, 0, false, 2, 100000},
        {"a holder sends", make_world<with_holder<P, 0, 1>>, 3, 0, false, 2, 200000},
        {"a release too many", make_world<with_releaser<P, 1>>, 3, 0, false, 2, 200000},
        {"who waits sends", make_world<with_helper<P, 1>>, 3, 0, false, 2, 200000},
        {"who waits sends, and back", make_world<with_helper<P, 2>>, 3, 0, false, 0, 200000},
        {"both", make_world<with_holder<P, 2, 1>>, 3, 0, false, 2, 300000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
