/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The slot (umbra/shadow/protocol.h) with the calls of umbra/shadow.h around it, under the model
 * checker. See checker.hpp.
 *
 * Each scenario: an owner creates the helper thread, forks to it, joins and destroys; each side
 * spins or parks. Checked: every wait ends; fn, arg and what the function reads and writes pass
 * between the two without a race; the function has run exactly as often as it was forked; neither
 * thread touches the struct after shadow_destroy; when the owner has ended (shadow/owner_word.h), one
 * of the other threads destroys the shadow.
 */
#include "checker.hpp"

typedef void umbra_shadow_fn(void *arg);

/* What the text under check uses of struct umbra_shadow; see umbra/shadow.h. */
#define UM_MODEL_SHADOW                                                                            \
    struct um_owned {                                                                              \
        um_atomic_uptr owner;                                                                      \
    };                                                                                             \
    struct umbra_shadow {                                                                          \
        struct um_slot slot;                                                                       \
        struct um_owned owned;                                                                     \
        bool forked;                                                                               \
        pthread_t thread;                                                                          \
        struct umbra_waiter owner_waiter;                                                          \
        struct umbra_waiter helper_waiter;                                                         \
    };

#include "slot_variants.hpp"

#define UM_SOON 1 /* a deadline: the checker may let it pass at any moment, or never */

/* What a forked function reads and writes. */
struct errand {
    rl::var<int> given; /* written by the owner before the fork */
    rl::var<int> sum;   /* written by the function, read by the owner after the join */
};

static void run_errand(void *arg)
{
    errand *e = (errand *)arg;

    um_plain_write(e->sum, um_plain_read(e->sum) + um_plain_read(e->given));
}

/* Another function, so that a fork that runs the one before is noticed. */
static void run_back(void *arg)
{
    errand *e = (errand *)arg;

    um_plain_write(e->sum, um_plain_read(e->sum) - um_plain_read(e->given));
}

/* An owner with a shadow of its own. */
template <class P, um_model_wait Owner, um_model_wait Helper> struct household : world {
    typedef typename P::umbra_shadow shadow_type;

    shadow_type *shadow;
    errand first;
    errand second;

    household()
    {
        shadow = new shadow_type;
        um_atomic_store(&shadow->slot.state, UM_SLOT_IDLE, relaxed);
        P::um_waiter_init(&shadow->owner_waiter, Owner);
        P::um_waiter_init(&shadow->helper_waiter, Helper);
        shadow->forked = false;
        um_plain_write(first.sum, 0);
        um_plain_write(second.sum, 0);
    }

    void thread(int)
    {
        um_atomic_store(&shadow->owned.owner, um_arch_thread_id(), relaxed);
        pthread_create(&shadow->thread, NULL, P::um_shadow_main, shadow);
        live();
        RL_ASSERT(P::shadow_destroy(shadow) == 0);
        delete shadow;
        check_errands();
    }

    virtual void live() = 0;
    virtual void check_errands() = 0;

    void fork(void (*fn)(void *), errand *e, int given)
    {
        um_plain_write(e->given, given);
        RL_ASSERT(P::shadow_fork(shadow, fn, e) == 0);
    }
};

/* Fork, join, destroy. */
template <class P, um_model_wait Owner, um_model_wait Helper>
struct one_fork : household<P, Owner, Helper> {
    void live()
    {
        this->fork(run_errand, &this->first, 7);
        RL_ASSERT(P::shadow_join(this->shadow) == 0);
        RL_ASSERT(um_plain_read(this->first.sum) == 7);
    }

    void check_errands()
    {
        RL_ASSERT(um_plain_read(this->first.sum) == 7);
    }
};

/* Two forks in a row with other functions and arguments. */
template <class P, um_model_wait Owner, um_model_wait Helper>
struct two_forks : household<P, Owner, Helper> {
    void live()
    {
        this->fork(run_errand, &this->first, 7);
        RL_ASSERT(P::shadow_fork(this->shadow, run_errand, &this->second) == -EBUSY);
        P::shadow_join(this->shadow);
        this->fork(run_back, &this->second, um_plain_read(this->first.sum));
        P::shadow_join(this->shadow);
        RL_ASSERT(P::shadow_join(this->shadow) == -EINVAL);
    }

    void check_errands()
    {
        RL_ASSERT(um_plain_read(this->first.sum) == 7);
        RL_ASSERT(um_plain_read(this->second.sum) == -7);
    }
};

/* The join's deadline passes or not; then it is joined for good, and forked again. */
template <class P, um_model_wait Owner, um_model_wait Helper>
struct join_by_deadline : household<P, Owner, Helper> {
    void live()
    {
        this->fork(run_errand, &this->first, 7);
        if (P::umbra_shadow_join_deadline(this->shadow, UM_SOON) == -ETIMEDOUT)
            RL_ASSERT(P::shadow_join(this->shadow) == 0);
        this->fork(run_back, &this->first, 3);
        RL_ASSERT(P::shadow_join(this->shadow) == 0);
    }

    void check_errands()
    {
        RL_ASSERT(um_plain_read(this->first.sum) == 4);
    }
};

/* Destroyed while the function may still run: destroy waits for it. */
template <class P, um_model_wait Owner, um_model_wait Helper>
struct destroy_running : household<P, Owner, Helper> {
    void live()
    {
        this->fork(run_errand, &this->first, 7);
    }

    void check_errands()
    {
        RL_ASSERT(um_plain_read(this->first.sum) == 7);
    }
};

/* Destroyed at once: the helper meets QUIT before, in or after its first wait. */
template <class P, um_model_wait Owner, um_model_wait Helper>
struct never_forked : household<P, Owner, Helper> {
    void live()
    {
    }

    void check_errands()
    {
        RL_ASSERT(um_plain_read(this->first.sum) == 0);
    }
};

/* um_shadow_done said yes: the effects are there before the join, which does not wait. */
template <class P, um_model_wait Owner, um_model_wait Helper>
struct done_then_join : household<P, Owner, Helper> {
    void live()
    {
        this->fork(run_errand, &this->first, 7);
        while (!P::um_shadow_done(this->shadow))
            rl::yield(1, $);
        RL_ASSERT(um_plain_read(this->first.sum) == 7);
        P::shadow_join(this->shadow);
    }

    void check_errands()
    {
        RL_ASSERT(um_plain_read(this->first.sum) == 7);
    }
};

/* The owner ends while the function may still run. Of two threads that destroy the shadow one does,
 * after the owner's end, and waits for the function. */
template <class P, um_model_wait Owner, um_model_wait Helper>
struct left_behind : household<P, Owner, Helper> {
    rl::var<int> left; /* written by the owner at its end */
    rl::var<int> destroyed;

    left_behind()
    {
        um_plain_write(destroyed, 0);
        um_atomic_store(&this->shadow->owned.owner, (uintptr_t)100, relaxed);
    }

    void live()
    {
        this->fork(run_errand, &this->first, 7);
        um_plain_write(left, 1);
        P::um_owner_ends(&this->shadow->owned.owner);
    }

    void check_errands()
    {
        RL_ASSERT(um_plain_read(this->first.sum) == 7);
    }

    void thread(int index)
    {
        int error;

        if (index == 0) {
            um_atomic_store(&this->shadow->owned.owner, um_arch_thread_id(), relaxed);
            pthread_create(&this->shadow->thread, NULL, P::um_shadow_main, this->shadow);
            live();
            return;
        }
        while ((error = P::shadow_destroy(this->shadow)) == -EPERM)
            rl::yield(1, $);
        if (error != 0)
            return;
        RL_ASSERT(um_plain_read(left) == 1);
        um_plain_write(destroyed, um_plain_read(destroyed) + 1);
        check_errands();
    }

    void after()
    {
        RL_ASSERT(um_plain_read(destroyed) == 1);
        delete this->shadow;
    }
};

#define UM_MAKE(scenario, owner, helper)                                                           \
    make_world<scenario<P, UM_MODEL_##owner, UM_MODEL_##helper>>

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"never forked, helper parks", UM_MAKE(never_forked, PARK, PARK), 1, 1, true, 0, 20000},
        {"one fork, both park", UM_MAKE(one_fork, PARK, PARK), 1, 1, false, 4, 100000},
        {"one fork, owner spins", UM_MAKE(one_fork, SPIN, PARK), 1, 1, false, 3, 50000},
        {"one fork, helper spins", UM_MAKE(one_fork, PARK, SPIN), 1, 1, false, 3, 50000},
        {"one fork, both spin", UM_MAKE(one_fork, SPIN, SPIN), 1, 1, false, 3, 50000},
        {"destroy while running", UM_MAKE(destroy_running, PARK, PARK), 1, 1, false, 3, 50000},
        {"done, then join", UM_MAKE(done_then_join, PARK, PARK), 1, 1, false, 3, 50000},
        {"two forks, both park", UM_MAKE(two_forks, PARK, PARK), 1, 1, false, 3, 200000},
        {"two forks, owner spins", UM_MAKE(two_forks, SPIN, PARK), 1, 1, false, 2, 50000},
        {"two forks, helper spins", UM_MAKE(two_forks, PARK, SPIN), 1, 1, false, 2, 50000},
        {"join by deadline, both park", UM_MAKE(join_by_deadline, PARK, PARK), 1, 1, false, 2,
         200000},
        {"join by deadline, owner spins", UM_MAKE(join_by_deadline, SPIN, PARK), 1, 1, false, 2,
         50000},
        {"the owner ends", UM_MAKE(left_behind, PARK, PARK), 3, 1, false, 1, 100000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
