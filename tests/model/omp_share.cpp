/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Work shares of an OpenMP team (omp/share.c) under the model checker: a ring of two, with the
 * waits of omp/wait.c. See checker.hpp.
 *
 * Each scenario: members go through loops without a barrier between them, which the first one of
 * each sets up, and take iterations by each schedule; or singles; or iterations in order. Checked:
 * one member sets up a loop, all see what it wrote, each iteration is executed once, in order where
 * that is asked, memory of a loop is freed when all have left it, and no member sleeps on.
 */
#define OMP_VARIANTS "omp_share_variants.hpp"
#include "omp.hpp"

template <class P, int Members, int Loops, int Schedule> struct looping : omp_team<P, Members> {
    typedef typename P::um_omp_member member_type;

    enum { ITERATIONS = 3 };
    int set_up[Loops];
    int hits[Loops][ITERATIONS];

    looping()
    {
        memset(set_up, 0, sizeof(set_up));
        memset(hits, 0, sizeof(hits));
    }

    /* As um_omp_loop_enter(), and loop_set() of the first. */
    void enter(member_type *self, int loop)
    {
        typename P::um_omp_share *share;
        loop_memory *memory;

        if (P::share_enter(self)) {
            RL_ASSERT(set_up[loop]++ == 0);
            memory = new loop_memory;
            um_plain_write(memory->given, loop);
            self->share->count = (uint64_t)(ITERATIONS - loop % 2);
            self->share->memory = memory;
            um_atomic_store(&self->share->next, 0, relaxed);
            um_atomic_store(&self->share->ordered, 0, relaxed);
            P::share_ready(self);
        }
        share = self->share;
        self->count = share->count;
        self->chunk = 1;
        self->start = 0;
        self->step = 1;
        self->schedule = (typename P::um_omp_schedule)Schedule;
        RL_ASSERT(self->count == (uint64_t)(ITERATIONS - loop % 2));
        RL_ASSERT(um_plain_read(((loop_memory *)(void *)share->memory)->given) == loop);
    }

    virtual void go_through(member_type *self, int loop)
    {
        uint64_t from, to;

        while (P::take(self, &from, &to))
            for (; from < to; from++)
                hits[loop][from]++;
    }

    void part(member_type *self)
    {
        for (int loop = 0; loop < Loops; loop++) {
            enter(self, loop);
            go_through(self, loop);
            P::um_omp_share_leave(self);
        }
    }

    void after()
    {
        omp_team<P, Members>::after();
        for (int loop = 0; loop < Loops; loop++)
            for (int i = 0; i < ITERATIONS; i++)
                RL_ASSERT(hits[loop][i] == (i < ITERATIONS - loop % 2));
        for (auto &share : this->team.share)
            RL_ASSERT(share.memory == (void *)NULL);
    }
};

/* Member 1 goes on from its first loop when member 0 is in the last one: what that one waits for
 * must not wait for member 1. */
template <class P> struct far_ahead : looping<P, 2, 3, P::UM_OMP_DYNAMIC> {
    um_atomic_u32 ahead;

    far_ahead()
    {
        um_atomic_store(&ahead, 0, relaxed);
    }

    void go_through(typename P::um_omp_member *self, int loop)
    {
        looping<P, 2, 3, P::UM_OMP_DYNAMIC>::go_through(self, loop);
        if (self->number == 0 && loop == 2)
            um_atomic_store(&ahead, 1, relaxed);
        while (self->number == 1 && loop == 1 && um_atomic_load(&ahead, relaxed) == 0)
            rl::yield(1, $);
    }
};

/* Member 1 cancels the region and leaves it: member 0 goes through more loops than the ring has. */
template <class P> struct left_alone : omp_team<P, 2> {
    void part(typename P::um_omp_member *self)
    {
        if (self->number == 1) {
            P::region_cancel(self);
            return;
        }
        for (int loop = 0; loop < UM_OMP_SHARES + 2; loop++) {
            RL_ASSERT(P::share_enter(self) == (loop < UM_OMP_SHARES ? P::FIRST : P::ALONE));
            self->share->memory = new loop_memory;
            P::share_ready(self);
            P::um_omp_share_leave(self);
        }
    }

    void after()
    {
        omp_team<P, 2>::after();
        for (auto &share : this->team.share)
            P::um_omp_share_free(&share);
        P::um_omp_share_free(this->member[0].alone);
        delete this->member[0].alone;
    }
};

/* Iterations have a part that is executed in order, but for the second one. */
template <class P, int Members, int Loops>
struct in_order : looping<P, Members, Loops, P::UM_OMP_DYNAMIC> {
    typedef typename P::um_omp_member member_type;

    rl::var<uint64_t> last[Loops];

    in_order()
    {
        for (auto &number : last)
            um_plain_write(number, (uint64_t)0);
    }

    void go_through(member_type *self, int loop)
    {
        uint64_t from, to;

        while (P::um_omp_loop_next_ordered(self, &from, &to)) {
            RL_ASSERT(to == from + 1);
            this->hits[loop][from]++;
            if (from == 1)
                continue;
            P::await_turn(self);
            RL_ASSERT(um_plain_read(last[loop]) <= from);
            um_plain_write(last[loop], to);
        }
    }
};

/* Singles without a barrier between them. */
template <class P, int Members, int Singles> struct singles : omp_team<P, Members> {
    int runs[Singles];

    singles()
    {
        memset(runs, 0, sizeof(runs));
    }

    void part(typename P::um_omp_member *)
    {
        for (int &run : runs)
            run += P::GOMP_single_start();
    }

    void after()
    {
        for (int run : runs)
            RL_ASSERT(run == 1);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one loop", make_world<looping<P, 2, 1, P::UM_OMP_DYNAMIC>>, 2, 0, false, 3, 20000},
        {"four loops", make_world<looping<P, 2, 4, P::UM_OMP_DYNAMIC>>, 2, 0, false, 0, 40000},
        {"four loops of three", make_world<looping<P, 3, 4, P::UM_OMP_DYNAMIC>>, 3, 0, false, 0,
         20000},
        {"far ahead", make_world<far_ahead<P>>, 2, 0, false, 0, 20000},
        {"guided", make_world<looping<P, 2, 2, P::UM_OMP_GUIDED>>, 2, 0, false, 0, 20000},
        {"in order", make_world<in_order<P, 2, 2>>, 2, 0, false, 0, 30000},
        {"left alone", make_world<left_alone<P>>, 2, 0, false, 0, 20000},
        {"singles", make_world<singles<P, 2, 3>>, 2, 0, true, 0, 20000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
