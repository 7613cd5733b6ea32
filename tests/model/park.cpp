/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The wait with a park (umbra/wait/park.h, and its users in umbra/wait.h) under the model
 * checker. See checker.hpp.
 *
 * Each scenario: a waiter on one or two words, one or two signallers. Checked: the wait ends (no
 * lost wake-up), it ends with the word as awaited, what the signaller wrote before is visible
 * without a race, and afterwards no waiter counts as parked, so that the next signal needs no
 * system call.
 */
#include "checker.hpp"
#include "park_variants.hpp"

#define UM_SOON 1 /* a deadline: the checker may let it pass at any moment, or never */

/* A waiter and two words of each width, each with the data that its signaller hands over. */
template <class P> struct meeting : world {
    um_atomic_u32 word[2];
    um_atomic_u64 wide;
    rl::var<int> data[2];
    typename P::umbra_waiter waiter;

    meeting()
    {
        for (int i = 0; i < 2; i++)
            um_atomic_store(&word[i], 0, relaxed);
        um_atomic_store(&wide, 0, relaxed);
        P::um_waiter_init(&waiter, UM_MODEL_PARK);
    }

    void signal(int i)
    {
        um_plain_write(data[i], 7);
        P::um_signal32(&word[i], 1, &waiter);
    }

    int wait(int i, uint64_t deadline)
    {
        typename P::um_wait_cond cond = {&word[i], 0, UINT32_MAX, false, false};
        int result = P::um_wait_run(&waiter, cond, deadline);

        if (result == 0)
            RL_ASSERT(um_plain_read(data[i]) == 7);
        return result;
    }

    void after()
    {
        RL_ASSERT(waiter.park.parked.debug_value() == 0);
    }
};

/* The least: one wait, one signal. */
template <class P> struct one_signal : meeting<P> {
    void thread(int index)
    {
        if (index == 0)
            this->wait(0, UMBRA_NEVER);
        else
            this->signal(0);
    }
};

/* A change in the upper half of a word of 64 bits, which a futex on the word would not see. */
template <class P> struct wide_signal : meeting<P> {
    void thread(int index)
    {
        typename P::um_wait_cond cond = {&this->wide, UINT64_C(5) << 40, UINT64_C(15) << 40, true,
                                         true};

        if (index == 1) {
            um_plain_write(this->data[0], 7);
            P::um_signal64(&this->wide, UINT64_C(5) << 40, &this->waiter);
        } else {
            P::um_wait_run(&this->waiter, cond, UMBRA_NEVER);
            RL_ASSERT(um_plain_read(this->data[0]) == 7);
        }
    }
};

/* The deadline may pass before, during or after the signal; then the same wait without one. */
template <class P> struct deadline_then_again : meeting<P> {
    void thread(int index)
    {
        if (index == 1)
            this->signal(0);
        else if (this->wait(0, UM_SOON) != 0)
            this->wait(0, UMBRA_NEVER);
    }
};

/* One signaller, two rounds: it is late for the first when the waiter saw the word by itself. */
template <class P> struct two_rounds : meeting<P> {
    void thread(int index)
    {
        for (int i = 0; i < 2; i++) {
            if (index == 0)
                this->wait(i, UMBRA_NEVER);
            else
                this->signal(i);
        }
    }
};

/* Two signallers: the late one of the first word clears `parked` of the second wait. */
template <class P> struct late_signaller : meeting<P> {
    void thread(int index)
    {
        if (index == 0) {
            this->wait(0, UMBRA_NEVER);
            this->wait(1, UMBRA_NEVER);
        } else {
            this->signal(index - 1);
        }
    }
};

/* The first wait may end by its deadline; its signaller comes into the second wait. */
template <class P> struct deadline_then_other_word : meeting<P> {
    void thread(int index)
    {
        if (index == 0) {
            this->wait(0, UM_SOON);
            this->wait(1, UMBRA_NEVER);
        } else {
            this->signal(index - 1);
        }
    }
};

/* Both signallers end the same wait; the one that finds the waiter parked wakes it. */
template <class P> struct two_signallers_one_word : meeting<P> {
    void thread(int index)
    {
        if (index == 0) {
            typename P::um_wait_cond cond = {&this->word[0], 0, UINT32_MAX, false, false};

            P::um_wait_run(&this->waiter, cond, UMBRA_NEVER);
            RL_ASSERT(um_atomic_load(&this->word[0], relaxed) != 0);
        } else {
            P::um_signal32(&this->word[0], index, &this->waiter);
        }
    }
};

/* A waiter that looks for other work, too. The thread that gives it waits for its end, then signals:
 * neither work nor signal is missed. */
template <class P> struct other_work : meeting<P> {
    typename P::umbra_waiter giver;
    bool taken = false;

    other_work()
    {
        P::um_waiter_init(&giver, UM_MODEL_PARK);
        this->waiter.idle_arg = this;
        this->waiter.idle = [](void *arg) { return ((other_work *)arg)->take(); };
    }

    bool take()
    {
        if (taken || um_atomic_load(&this->word[1], seq_cst) == 0)
            return false;
        taken = true;
        RL_ASSERT(um_plain_read(this->data[1]) == 7);
        P::um_signal64(&this->wide, 1, &giver);
        return true;
    }

    void thread(int index)
    {
        typename P::um_wait_cond done = {&this->wide, 1, UINT64_MAX, true, true};
        typename P::um_wait_cond cond = {&this->word[0], 0, UINT32_MAX, false, false};
        typename P::um_idle_wait wait = {&cond, &this->waiter, NULL};

        if (index == 1) {
            this->signal(1);
            P::um_wait_run(&giver, done, UMBRA_NEVER);
            this->signal(0);
            return;
        }
        while (!P::um_wait_look(&cond))
            P::um_park_until(&this->waiter.park, P::um_wait_look_idle, &wait, UMBRA_NEVER);
        RL_ASSERT(um_plain_read(this->data[0]) == 7);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one signal", make_world<one_signal<P>>, 2, 0, true, 0, 50000},
        {"64-bit word", make_world<wide_signal<P>>, 2, 0, true, 0, 50000},
        {"deadline, then again", make_world<deadline_then_again<P>>, 2, 0, true, 0, 100000},
        {"two rounds", make_world<two_rounds<P>>, 2, 0, true, 0, 100000},
        {"late signaller", make_world<late_signaller<P>>, 3, 0, false, 4, 200000},
        {"deadline, other word", make_world<deadline_then_other_word<P>>, 3, 0, false, 3, 200000},
        {"other work", make_world<other_work<P>>, 2, 0, false, 3, 50000},
        {"two signallers", make_world<two_signallers_one_word<P>>, 3, 0, false, 4, 200000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
