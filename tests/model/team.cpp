/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A team's runs and barriers (umbra/team/protocol.h) with the calls of umbra/team.h around them,
 * under the model checker. See checker.hpp.
 *
 * Each scenario: an owner starts the members, has them execute one or two runs, and ends them; each
 * side spins or parks, and looks only once before it takes parts that have not begun. Checked: every
 * wait ends; each part of each run is executed exactly once, with that run's function and argument;
 * what parts and owner write passes between them without a race; at a barrier all parts see what
 * all wrote before it; no thread touches the team after its end.
 */
#include "checker.hpp"

#define UM_MODEL_MEMBERS 3
#define UMBRA_TEAM_SELF (~0u)
#define um_team_here heres[rl::thread_index()]

typedef void umbra_team_fn(unsigned member, unsigned members, void *arg);

#include "team_variants.hpp"

/* What the parts of a run read and write. */
struct errand {
    rl::var<int> given;                 /* written by the owner before the run */
    rl::var<int> sum[UM_MODEL_MEMBERS]; /* of each part */
};

static void add_given(unsigned member, unsigned, void *arg)
{
    errand *e = (errand *)arg;

    um_plain_write(e->sum[member], um_plain_read(e->sum[member]) + um_plain_read(e->given));
}

/* Another function, so that a part that executes the run before is noticed. */
static void take_given(unsigned member, unsigned, void *arg)
{
    errand *e = (errand *)arg;

    um_plain_write(e->sum[member], um_plain_read(e->sum[member]) - um_plain_read(e->given));
}

/* An owner with a team of its own. */
template <class P, unsigned Members, um_model_wait Owner, um_model_wait Member>
struct household : world {
    typedef typename P::umbra_team team_type;

    team_type *team;
    errand first;
    errand second;

    static void clear(errand *e)
    {
        for (unsigned i = 0; i < Members; i++)
            um_plain_write(e->sum[i], 0);
    }

    household()
    {
        for (auto &here : P::heres)
            here = NULL;
        team = new team_type;
        team->members = team->started = Members;
        um_atomic_store(&team->run, 0, relaxed);
        team->running = team->any_thread = team->parts_stay = team->roams = false;
        um_atomic_store(&team->owned.owner, 1, relaxed); /* no thread's */
        team->flag_stride = 1;
        um_atomic_store(&team->call.word, P::um_team_word(0, Members, false), relaxed);
        um_atomic_store(&team->call.rest, 0, relaxed);
        team->last = Members;
        um_atomic_store(&team->call.end, 0, relaxed);
        P::um_waiter_init(&team->waiter, Owner);
        for (unsigned i = 0; i < 2 * UM_MODEL_MEMBERS; i++)
            um_atomic_store(&team->flag[i], 0, relaxed);
        for (unsigned i = 0; i < Members; i++)
            make_member(i);
        clear(&first);
        clear(&second);
    }

    void make_member(unsigned i)
    {
        typename P::um_member *member = &team->member[i];

        um_atomic_store(&member->part.begun, 0, relaxed);
        um_atomic_store(&member->part.own_end, 0, relaxed);
        P::um_waiter_init(&member->waiter, Member);
        P::um_waiter_init(&member->at_barrier, i == 0 ? Owner : Member);
        member->barriers = 0;
        member->number = i;
        member->team = team;
    }

    void start()
    {
        um_atomic_store(&team->owned.owner, um_arch_thread_id(), relaxed);
        for (unsigned i = 1; i < Members; i++)
            pthread_create(&team->member[i].thread, NULL, P::um_member_main, &team->member[i]);
    }

    void thread(int)
    {
        start();
        live();
        P::um_team_end_threads(team);
        delete team;
    }

    virtual void live() = 0;

    void run(void (*fn)(unsigned, unsigned, void *), errand *e, int given, unsigned members = 0)
    {
        um_plain_write(e->given, given);
        RL_ASSERT(P::umbra_team_run(team, members, fn, e) == 0);
    }

    static void expect(errand *e, int sum)
    {
        for (unsigned i = 0; i < Members; i++)
            RL_ASSERT(um_plain_read(e->sum[i]) == sum);
    }
};

template <class P, unsigned Members, um_model_wait Owner, um_model_wait Member>
struct one_run : household<P, Members, Owner, Member> {
    void live()
    {
        this->run(add_given, &this->first, 7);
        this->expect(&this->first, 7);
    }
};

/* Two runs in a row with other functions and arguments. */
template <class P, unsigned Members, um_model_wait Owner, um_model_wait Member>
struct two_runs : household<P, Members, Owner, Member> {
    void live()
    {
        this->run(add_given, &this->first, 7);
        this->run(take_given, &this->second, um_plain_read(this->first.sum[Members - 1]));
        this->expect(&this->first, 7);
        this->expect(&this->second, -7);
    }
};

/* Two runs that add to the same sums: a part sees what another thread did as the same part. */
template <class P, unsigned Members, um_model_wait Owner, um_model_wait Member>
struct same_sums : household<P, Members, Owner, Member> {
    void live()
    {
        this->run(add_given, &this->first, 7);
        this->run(take_given, &this->first, 2);
        this->expect(&this->first, 5);
    }
};

/* Two barriers: each part writes its place, and after the first barrier reads that of all others;
 * after the second it writes again. */
template <class P, unsigned Members, um_model_wait Owner, um_model_wait Member>
struct barriers : household<P, Members, Owner, Member> {
    static void meet(unsigned member, unsigned members, void *arg)
    {
        barriers *self = (barriers *)arg;

        RL_ASSERT(P::um_team_self(self->team)->number == member);
        um_plain_write(self->first.sum[member], 1);
        P::umbra_team_barrier(self->team, UMBRA_TEAM_SELF);
        for (unsigned i = 0; i < members; i++)
            RL_ASSERT(um_plain_read(self->first.sum[i]) == 1);
        P::umbra_team_barrier(self->team, member);
        um_plain_write(self->first.sum[member], 2);
    }

    void live()
    {
        RL_ASSERT(P::umbra_team_run(this->team, 0, meet, this) == 0);
        this->expect(&this->first, 2);
    }
};

/* Runs of other sizes one after another: without the last member, with it, without it. */
template <class P, unsigned Members, um_model_wait Owner, um_model_wait Member>
struct small_run : household<P, Members, Owner, Member> {
    void live()
    {
        this->run(add_given, &this->first, 7, Members - 1);
        RL_ASSERT(um_plain_read(this->first.sum[Members - 1]) == 0);
        this->run(take_given, &this->second, 7);
        this->expect(&this->second, -7);
        this->run(take_given, &this->first, 2, Members - 1);
        RL_ASSERT(um_plain_read(this->first.sum[Members - 2]) == 5);
        RL_ASSERT(um_plain_read(this->first.sum[Members - 1]) == 0);
    }
};

/* Parts that stay: no thread executes two of them. */
template <class P, unsigned Members, um_model_wait Owner, um_model_wait Member>
struct kept_parts : household<P, Members, Owner, Member> {
    static void note_thread(unsigned member, unsigned, void *arg)
    {
        um_plain_write(((errand *)arg)->sum[member], (int)rl::thread_index());
    }

    void live()
    {
        this->team->parts_stay = true;
        this->run(note_thread, &this->first, 0);
        for (unsigned i = 0; i < Members; i++)
            for (unsigned j = 0; j < i; j++)
                RL_ASSERT(um_plain_read(this->first.sum[i]) != um_plain_read(this->first.sum[j]));
    }
};

/* A barrier of some members, then of all, in the next run. */
template <class P, unsigned Members, um_model_wait Owner, um_model_wait Member>
struct sizes_of_barriers : household<P, Members, Owner, Member> {
    static void meet(unsigned member, unsigned members, void *arg)
    {
        sizes_of_barriers *self = (sizes_of_barriers *)arg;

        um_plain_write(self->first.sum[member], (int)members);
        P::umbra_team_barrier(self->team, member);
        for (unsigned i = 0; i < members; i++)
            RL_ASSERT(um_plain_read(self->first.sum[i]) == (int)members);
    }

    void live()
    {
        RL_ASSERT(P::umbra_team_run(this->team, Members - 1, meet, this) == 0);
        RL_ASSERT(P::umbra_team_run(this->team, Members, meet, this) == 0);
        this->expect(&this->first, (int)Members);
    }
};

/* Some threads with a run each of a team that any thread may run. The one that makes it ends it. */
template <class P, unsigned Members, unsigned Threads>
struct any_thread : household<P, Members, UM_MODEL_PARK, UM_MODEL_PARK> {
    um_atomic_u32 done; /* runs of the other threads; orders nothing */

    any_thread()
    {
        this->team->any_thread = true;
        um_atomic_store(&done, 0, relaxed);
    }

    void live()
    {
    }

    static void add_seven(unsigned member, unsigned, void *arg)
    {
        errand *e = (errand *)arg;

        um_plain_write(e->sum[member], um_plain_read(e->sum[member]) + 7);
    }

    void run_once()
    {
        int error;

        while ((error = P::umbra_team_run(this->team, 0, add_seven, &this->first)) == -EBUSY)
            rl::yield(1, $);
        RL_ASSERT(error == 0);
    }

    void thread(int index)
    {
        if (index > 0) {
            run_once();
            um_atomic_fetch_add(&done, 1, relaxed);
            return;
        }
        this->start();
        P::um_owner_leave(&this->team->owned.owner);
        run_once();
        while (um_atomic_load(&done, relaxed) < Threads - 1 || !P::um_team_enter(this->team))
            rl::yield(1, $);
        this->expect(&this->first, 7 * (int)Threads);
        P::um_team_end_threads(this->team);
        delete this->team;
    }
};

#define UM_MAKE(scenario, members, owner, member)                                                  \
    make_world<scenario<P, members, UM_MODEL_##owner, UM_MODEL_##member>>

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one run, both park", UM_MAKE(one_run, 2, PARK, PARK), 1, 1, false, 3, 20000},
        {"one run, owner spins", UM_MAKE(one_run, 2, SPIN, PARK), 1, 1, false, 2, 10000},
        {"two runs, both park", UM_MAKE(two_runs, 2, PARK, PARK), 1, 1, false, 2, 40000},
        {"two runs, member spins", UM_MAKE(two_runs, 2, PARK, SPIN), 1, 1, false, 2, 10000},
        {"same sums, both park", UM_MAKE(same_sums, 2, PARK, PARK), 1, 1, false, 2, 20000},
        {"three, one run", UM_MAKE(one_run, 3, PARK, PARK), 1, 2, false, 0, 20000},
        {"three, two runs", UM_MAKE(two_runs, 3, PARK, PARK), 1, 2, false, 0, 40000},
        {"two, a run of one first", UM_MAKE(small_run, 2, PARK, PARK), 1, 1, false, 2, 40000},
        {"two, a run of one, member spins", UM_MAKE(small_run, 2, PARK, SPIN), 1, 1, false, 2,
         10000},
        {"two, parts stay", UM_MAKE(kept_parts, 2, PARK, PARK), 1, 1, false, 2, 20000},
        {"three, parts stay", UM_MAKE(kept_parts, 3, PARK, PARK), 1, 2, false, 0, 20000},
        {"three, a run of two first", UM_MAKE(small_run, 3, PARK, PARK), 1, 2, false, 0, 40000},
        {"barriers of two, then three", UM_MAKE(sizes_of_barriers, 3, PARK, PARK), 1, 2, false, 0,
         40000},
        {"three threads in turn", make_world<any_thread<P, 2, 3>>, 3, 1, false, 0, 20000},
        {"two threads in turn, alone", make_world<any_thread<P, 1, 2>>, 2, 0, false, 2, 10000},
        {"barriers of two, both park", UM_MAKE(barriers, 2, PARK, PARK), 1, 1, false, 2, 40000},
        {"barriers of two, one spins", UM_MAKE(barriers, 2, SPIN, PARK), 1, 1, false, 2, 10000},
        {"barriers of three", UM_MAKE(barriers, 3, PARK, PARK), 1, 2, false, 0, 40000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
