/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How the members of an OpenMP team sleep (omp/wait.c), and how one that shares a task wakes one of
 * them (omp/deque.c), under the model checker. See checker.hpp.
 *
 * Each scenario: members wait for a word that another thread changes, some for two words in turn,
 * or execute tasks meanwhile. Checked: none sleeps on, each sees what was written before the
 * change, and a member that goes on making tasks has one of them taken.
 */
#define OMP_VARIANTS "omp_wait_variants.hpp"
#include "omp.hpp"

/* The last member changes a word for the others, one after the other, or for all at once. */
template <class P, int Members, bool All> struct changing : omp_team<P, Members> {
    typedef typename P::um_omp_member member_type;

    um_atomic_u64 word;
    rl::var<int> given;

    changing()
    {
        um_atomic_store(&word, 0, relaxed);
    }

    void part(member_type *self)
    {
        typename P::um_omp_end end = {&word, 0, 1, true};

        if (self->number < Members - 1) {
            P::um_omp_await(self, &end, P::UM_OMP_IDLE);
            RL_ASSERT(um_plain_read(given) == 7);
            return;
        }
        um_plain_write(given, 7);
        um_atomic_store(&word, 1, seq_cst); /* W1 */
        for (int i = 0; !All && i < Members - 1; i++)
            P::um_omp_wake(&this->member[i]);
        if (All)
            P::um_omp_wake_all(&this->team);
    }
};

/* Member 0 waits for a word of each other member, in turn. */
template <class P, int Members> struct in_turn : omp_team<P, Members> {
    typedef typename P::um_omp_member member_type;

    um_atomic_u64 word[Members];
    rl::var<int> given[Members];

    in_turn()
    {
        for (auto &w : word)
            um_atomic_store(&w, 0, relaxed);
    }

    void part(member_type *self)
    {
        unsigned number = self->number;

        if (number > 0) {
            um_plain_write(given[number], 7);
            um_atomic_fetch_add(&word[number], 1, seq_cst); /* W1 */
            P::um_omp_wake(&this->member[0]);
            return;
        }
        for (int i = 1; i < Members; i++) {
            typename P::um_omp_end end = {&word[i], UINT64_MAX, 1, false};

            P::um_omp_await(self, &end, P::UM_OMP_IDLE);
            RL_ASSERT(um_plain_read(given[i]) == 7);
        }
    }
};

/* The last member waits for a word, and executes tasks; a third waits and executes none. Member 0
 * makes tasks until another has had some. */
template <class P, int Members, int Wanted> struct sharing : omp_team<P, Members> {
    typedef typename P::um_omp_member member_type;

    um_atomic_u64 over;
    um_atomic_u32 away; /* tasks that another member has begun */

    sharing()
    {
        um_atomic_store(&over, 0, relaxed);
        um_atomic_store(&away, 0, relaxed);
    }

    void work(member_type *self, int)
    {
        if (self->number > 0)
            um_atomic_fetch_add(&away, 1, relaxed);
    }

    void await_begun(uint32_t tasks)
    {
        while (um_atomic_load(&away, relaxed) < tasks)
            rl::yield(1, $);
    }

    virtual void share(member_type *self)
    {
        for (int gone = 0; gone < Wanted;) {
            this->defer(self, gone);
            for (int i = 0; i < 6; i++) /* a chance for the other: else it may never be first */
                rl::yield(1, $);
            if (typename P::um_omp_task *task = P::um_omp_next_task(self, P::UM_OMP_OWN))
                P::um_omp_task_take(self, task);
            else
                await_begun((uint32_t)++gone);
        }
    }

    void part(member_type *self)
    {
        typename P::um_omp_end end = {&over, 0, 1, true};

        if (self->number == 0) {
            share(self);
            um_atomic_store(&over, 1, seq_cst); /* W1 */
            P::um_omp_wake_all(&this->team);
            return;
        }
        P::um_omp_await(self, &end, self->number == Members - 1 ? P::UM_OMP_ANY : P::UM_OMP_IDLE);
    }
};

/* Member 0 was asked before, makes one task, and then does other things. */
template <class P> struct shared_once : sharing<P, 2, 1> {
    shared_once()
    {
        P::um_tasks_init(&this->member[0].tasks, true);
    }

    void share(typename P::um_omp_member *self)
    {
        this->defer(self, 0);
        this->await_begun(1);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"a word", make_world<changing<P, 2, false>>, 2, 0, false, 4, 20000},
        {"a word, for all", make_world<changing<P, 2, true>>, 2, 0, false, 4, 20000},
        {"a word, for two", make_world<changing<P, 3, true>>, 3, 0, false, 2, 20000},
        {"two words in turn", make_world<in_turn<P, 3>>, 3, 0, false, 2, 20000},
        {"a task for one that sleeps", make_world<sharing<P, 2, 1>>, 2, 0, false, 0, 20000},
        {"two tasks for it", make_world<sharing<P, 2, 2>>, 2, 0, false, 0, 20000},
        {"a task, two sleep", make_world<sharing<P, 3, 1>>, 3, 0, false, 0, 20000},
        {"one task, shared once", make_world<shared_once<P>>, 2, 0, false, 2, 20000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
