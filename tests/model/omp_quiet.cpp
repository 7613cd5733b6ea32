/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Barriers of an OpenMP team in which members execute tasks (omp/barrier.c, omp/count.h), with the
 * waits of omp/wait.c and the deques of omp/deque.c, under the model checker. See checker.hpp.
 *
 * Each scenario: members come to barriers, the last of which ends the region; some make tasks
 * before one of them, and tasks make tasks. Checked: when a member has left a barrier, all members
 * have come and all tasks that were made before it have ended, and the member sees what they wrote;
 * each task is executed once; no member sleeps on. And regions that are cancelled: members leave the
 * barrier that the one that cancels does not come to, and no member is past a region's end before all
 * have come to it.
 */
#define OMP_VARIANTS "omp_quiet_variants.hpp"
#include "omp.hpp"

/* So many barriers; before the one of that number, from 0, member 0 makes a task, or all do; task 0
 * makes some. */
struct meeting_plan {
    int barriers, before, made;
    bool all;
};

template <class P, int Members> struct meeting : omp_team<P, Members> {
    typedef typename P::um_omp_member member_type;

    const meeting_plan plan;
    rl::var<int> came[Members];

    meeting(meeting_plan plan) : plan(plan)
    {
        for (auto &c : came)
            um_plain_write(c, 0);
    }

    void work(member_type *self, int number)
    {
        if (number == 0)
            for (int i = Members; i < Members + plan.made; i++)
                this->defer(self, i);
    }

    /* True if the task has been made before the barrier. */
    bool made(int number, int barrier)
    {
        return barrier >= plan.before && (number < (plan.all ? Members : 1) ||
                                          (number >= Members && number < Members + plan.made));
    }

    void part(member_type *self)
    {
        int number = (int)self->number;

        for (int barrier = 0; barrier < plan.barriers; barrier++) {
            if (barrier == plan.before && (plan.all || number == 0))
                this->defer(self, number);
            um_plain_write(came[number], barrier + 1);
            P::um_omp_barrier(self);
            for (int i = 0; i < OMP_TASKS; i++)
                if (made(i, barrier))
                    RL_ASSERT(um_plain_read(this->done[i]) == 1);
            for (auto &c : came)
                RL_ASSERT(um_plain_read(c) == barrier + 1);
            if (barrier + 1 < plan.barriers) /* so that all have read before any writes */
                P::um_omp_barrier(self);
        }
    }

    void after()
    {
        omp_team<P, Members>::after();
        for (int i = 0; i < OMP_TASKS; i++)
            RL_ASSERT(this->runs[i] == made(i, plan.barriers));
    }
};

/*
 * After a barrier member 0 makes a task in a taskgroup, and waits for it. Another member may take
 * it while that one is still in the barrier; the task makes a second one. The others wait, in their
 * program, until member 0 has gone on.
 */
template <class P, int Members> struct next_phase : omp_team<P, Members> {
    typedef typename P::um_omp_member member_type;

    typename P::um_omp_group group;
    um_atomic_u32 over;

    next_phase()
    {
        um_atomic_store(&group.count, 0, relaxed);
        group.member = &this->member[0];
        um_atomic_store(&over, 0, relaxed);
        P::um_tasks_init(&this->member[0].tasks, true); /* another has asked */
    }

    void work(member_type *self, int number)
    {
        if (number == 0)
            this->defer(self, 1);
    }

    void part(member_type *self)
    {
        typename P::um_omp_end end = {&group.count, UINT64_MAX, 0, false};

        P::um_omp_barrier(self);
        if (self->number == 0) {
            self->task->group = &group;
            this->defer(self, 0);
            P::um_omp_await(self, &end, P::UM_OMP_DESCEND);
            self->task->group = NULL;
            for (int i = 0; i < 2; i++)
                RL_ASSERT(um_plain_read(this->done[i]) == 1);
            um_atomic_store(&over, 1, relaxed);
        }
        while (!um_atomic_load(&over, relaxed))
            rl::yield(1, $);
        P::um_omp_barrier(self);
        for (int i = 0; i < 2; i++)
            RL_ASSERT(um_plain_read(this->done[i]) == 1);
    }
};

/* Two regions, of which member 0 cancels the first, after so many barriers of all: then the others come to
 * one more, that can be left. Before that all make a task, or none. PLAIN: the last member comes to a
 * barrier that cannot be left; TWO: to two. SEES: member 0 goes on when the others have left. */
enum others { LEAVE, PLAIN, TWO, SEES };

template <class P, int Members, int Barriers, bool Tasks, others Others>
struct cancelled : omp_team<P, Members> {
    typedef typename P::um_omp_member member_type;

    rl::var<int> came[Members];
    um_atomic_u32 ended, begun, left;

    cancelled()
    {
        for (auto &c : came)
            um_plain_write(c, 0);
        um_atomic_store(&ended, 0, relaxed);
        um_atomic_store(&begun, 0, relaxed);
        um_atomic_store(&left, 0, relaxed);
    }

    /* Its end, as part() of region.c. */
    void end(member_type *self, int region)
    {
        um_plain_write(came[self->number], region);
        if (P::um_omp_barrier(self) != 0)
            P::um_omp_barrier_settle(self);
        for (auto &c : came)
            RL_ASSERT(um_plain_read(c) == region);
        for (int i = 0; Tasks && i < Members; i++)
            RL_ASSERT(um_plain_read(this->done[i]) == 1);
    }

    void first(member_type *self)
    {
        for (int i = 0; i < Barriers; i++)
            if (P::um_omp_barrier_cancel(self))
                return;
        if (Tasks)
            this->defer(self, (int)self->number);
        if (self->number == 0)
            P::region_cancel(self);
        else if ((Others == PLAIN || Others == TWO) && self->number == Members - 1)
            for (int i = 0; i < (Others == TWO ? 2 : 1); i++)
                P::um_omp_barrier_plain(self);
        else
            RL_ASSERT(P::um_omp_barrier_cancel(self));
        if (self->number > 0)
            um_atomic_fetch_add(&left, 1, relaxed);
        while (Others == SEES && self->number == 0 && um_atomic_load(&left, relaxed) < Members - 1)
            rl::yield(1, $);
    }

    /* The runs of umbra_team, with um_omp_region_prepare() between. */
    void next(member_type *self)
    {
        um_atomic_fetch_add(&ended, 1, acq_rel);
        if (self->number == 0) {
            while (um_atomic_load(&ended, acquire) < Members)
                rl::yield(1, $);
            um_atomic_store(&this->team.tasked, 0, relaxed);
            um_atomic_store(&this->team.cancelled, 0, relaxed);
            um_atomic_store(&begun, 1, release);
        }
        while (um_atomic_load(&begun, acquire) == 0)
            rl::yield(1, $);
    }

    void part(member_type *self)
    {
        first(self);
        end(self, 1);
        next(self);
        RL_ASSERT(!P::um_omp_barrier_cancel(self));
        end(self, 2);
    }
};

template <class P, int Members, int Barriers, int Before, int Made, bool All>
static world *make_meeting()
{
    return new meeting<P, Members>(meeting_plan{Barriers, Before, Made, All});
}

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"no tasks", make_meeting<P, 2, 2, 9, 0, false>, 2, 0, false, 1, 20000},
        {"no tasks of three", make_meeting<P, 3, 1, 9, 0, false>, 3, 0, false, 0, 20000},
        {"a task", make_meeting<P, 2, 1, 0, 0, false>, 2, 0, false, 0, 15000},
        {"a task that makes two", make_meeting<P, 2, 1, 0, 2, false>, 2, 0, false, 0, 25000},
        {"tasks of all", make_meeting<P, 2, 2, 1, 1, true>, 2, 0, false, 0, 25000},
        {"three and a task", make_meeting<P, 3, 1, 0, 1, false>, 3, 0, false, 0, 25000},
        {"the next phase", make_world<next_phase<P, 2>>, 2, 0, false, 0, 25000},
        {"the next phase of three", make_world<next_phase<P, 3>>, 3, 0, false, 0, 25000},
        {"cancelled", make_world<cancelled<P, 2, 0, false, LEAVE>>, 2, 0, false, 0, 20000},
        {"cancelled, three", make_world<cancelled<P, 3, 0, false, LEAVE>>, 3, 0, false, 0, 20000},
        {"cancelled, and seen", make_world<cancelled<P, 3, 0, false, SEES>>, 3, 0, false, 0, 20000},
        {"cancelled after a barrier", make_world<cancelled<P, 3, 1, false, LEAVE>>, 3, 0, false, 0,
         20000},
        {"cancelled with tasks", make_world<cancelled<P, 2, 0, true, LEAVE>>, 2, 0, false, 0,
         20000},
        {"cancelled with tasks of three", make_world<cancelled<P, 3, 0, true, LEAVE>>, 3, 0, false,
         0, 20000},
        {"cancelled, and a plain barrier", make_world<cancelled<P, 3, 0, false, PLAIN>>, 3, 0,
         false, 0, 20000},
        {"cancelled, and two plain barriers", make_world<cancelled<P, 3, 0, false, TWO>>, 3, 0,
         false, 0, 20000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
