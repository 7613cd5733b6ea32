/* SPDX-License-Identifier: BSL-1.0 */
/*
 * When an OpenMP task's children have ended, its taskgroup is over and its memory is free
 * (omp/count.h), with the waits of omp/wait.c, under the model checker. See checker.hpp.
 *
 * Each scenario: member 0 makes tasks, which others execute, and waits for them, again and again; a
 * task may make a task and end before it; so may one that is executed at once. Tasks go from member to member in boxes. Checked: a wait
 * ends, when all that it waits for have ended, and sees what they wrote; a task's memory is free
 * once, and then no member reads it; nor a group when its wait is over.
 */
#define OMP_VARIANTS "omp_count_variants.hpp"
#include "omp.hpp"

/* What member 0 does: so often, with so many children, in a taskgroup or not; the first of which
 * makes one that outlives it, or not. */
struct family_plan {
    int rounds, children;
    bool group, outlives;
    bool at_once; /* the children are those of one that is */
    bool waits;   /* the first child waits for the one that it makes */
};

template <class P, int Members> struct family : omp_team<P, Members> {
    typedef typename P::um_omp_member member_type;
    typedef typename P::um_omp_task task_type;

    const family_plan plan;
    um_atomic_uptr box[Members]; /* a task for the member */
    int made;                    /* so often has memory been taken anew: member 0's, 1's */
    int made_by_1;

    family(family_plan plan) : plan(plan), made(0), made_by_1(0)
    {
        for (auto &b : box)
            um_atomic_store(&b, 0, relaxed);
    }

    void give(int to, task_type *task)
    {
        while (um_atomic_load(&box[to], acquire))
            rl::yield(1, $);
        um_atomic_store(&box[to], (uintptr_t)task, release);
    }

    void execute_one(member_type *self)
    {
        um_atomic_uptr *mine = &box[self->number];
        task_type *task;

        while (!(task = (task_type *)um_atomic_load(mine, acquire)))
            rl::yield(1, $);
        um_atomic_store(mine, 0, release);
        P::execute(self, task);
        P::task_end(self, task);
    }

    /* As memory_take(): a new one where none is free; of four that members 0 and 1 have. */
    task_type *memory(member_type *self)
    {
        typename P::umbra_task *link = self->free;
        int *count = self->number == 0 ? &made : &made_by_1;

        if (!link) {
            P::um_omp_memory_collect(self);
            link = self->free;
        }
        if (link) {
            self->free = link->prev;
            return (task_type *)link;
        }
        RL_ASSERT(*count < 4);
        return &this->task[4 * self->number + (unsigned)(*count)++];
    }

    /* Member 1's task makes one for the last member, and ends. */
    void work(member_type *self, int number)
    {
        if (plan.outlives && number == 0)
            give(Members - 1, this->make(self, 3, memory(self)));
        if (plan.waits && number == 0)
            await_children(self);
    }

    void await_children(member_type *self)
    {
        typename P::um_omp_end end = {&self->task->count, UM_OMP_CHILDREN, 0, false};

        P::um_omp_children_count(self->task);
        P::um_omp_await(self, &end, P::UM_OMP_IDLE);
    }

    void make_children(member_type *self)
    {
        for (int i = 0; i < plan.children; i++)
            give(i + 1, this->make(self, i, memory(self)));
    }

    /* As um_omp_task_make() and um_omp_task_execute() */
    void make_at_once(member_type *self)
    {
        task_type *outer = self->task, *task = memory(self);

        task->home = self;
        task->group = outer->group;
        um_atomic_store(&task->parent, outer, relaxed);
        P::um_omp_count_hold(task);
        task->member = self;
        self->task = task;
        make_children(self);
        self->task = outer;
        P::um_omp_task_release(self, task);
    }

    void round(member_type *self, int number)
    {
        typename P::um_omp_group *group = plan.group ? new typename P::um_omp_group : NULL;

        if (plan.group) {
            um_atomic_store(&group->count, 0, relaxed);
            group->uncounted = 0;
            group->task = self->task;
            group->member = self;
        }
        self->task->group = group;
        if (plan.at_once)
            make_at_once(self);
        else
            make_children(self);
        if (plan.group) {
            typename P::um_omp_end end = {&group->count, UINT64_MAX, 0, false};

            P::um_omp_group_count(group);
            P::um_omp_await(self, &end, P::UM_OMP_IDLE);
            group->member = NULL; /* the next user of its memory writes it */
            delete group;
            self->task->group = NULL;
        } else {
            await_children(self);
        }
        for (int i = 0; i < plan.children; i++)
            RL_ASSERT(um_plain_read(this->done[i]) == number);
        if (plan.group && plan.outlives)
            RL_ASSERT(um_plain_read(this->done[3]) == number);
    }

    void part(member_type *self)
    {
        for (int i = 1; i <= plan.rounds; i++)
            if (self->number == 0)
                round(self, i);
            else
                for (int j = 0; j < 1 + (plan.outlives && Members == 2); j++)
                    execute_one(self);
    }

    /* What is free: each task that was made, once. */
    int count_free(member_type *self)
    {
        typename P::umbra_task *link;
        int count = 0;

        P::um_omp_memory_collect(self);
        for (link = self->free; link && count < 9; count++)
            link = link->prev;
        return count;
    }

    void after()
    {
        omp_team<P, Members>::after();
        for (auto &m : this->member)
            if (m.bundle)
                P::um_omp_bundle_return(m.bundle);
        P::um_omp_children_count(&this->member[0].implicit);
        RL_ASSERT(um_atomic_load(&this->member[0].implicit.count, relaxed) == UM_OMP_HOLD);
        RL_ASSERT(count_free(&this->member[0]) == made);
        RL_ASSERT(count_free(&this->member[1]) == made_by_1);
    }
};

template <class P, int Members, int Rounds, int Children, bool Group, bool Outlives,
          bool AtOnce = false, bool Waits = false>
static world *make_family()
{
    return new family<P, Members>(family_plan{Rounds, Children, Group, Outlives, AtOnce, Waits});
}

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"a child", make_family<P, 2, 1, 1, false, false>, 2, 0, false, 2, 20000},
        {"a child, again", make_family<P, 2, 4, 1, false, false>, 2, 0, false, 0, 30000},
        {"two children", make_family<P, 3, 2, 2, false, false>, 3, 0, false, 0, 25000},
        {"a group", make_family<P, 2, 1, 1, true, false>, 2, 0, false, 2, 20000},
        {"a group of two", make_family<P, 3, 2, 2, true, false>, 3, 0, false, 0, 25000},
        {"a child outlives", make_family<P, 3, 4, 1, false, true>, 3, 0, false, 0, 25000},
        {"a group's outlives", make_family<P, 3, 4, 1, true, true>, 3, 0, false, 0, 25000},
        {"a child waits", make_family<P, 3, 4, 1, false, true, false, true>, 3, 0, false, 0, 25000},
        {"one at once", make_family<P, 2, 2, 1, true, false, true>, 2, 0, false, 0, 25000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
