/* SPDX-License-Identifier: BSL-1.0 */
/*
 * When an OpenMP task's children have ended, its taskgroup is over and its memory is free
 * (omp/count.h), with the waits of omp/wait.c, under the model checker. See checker.hpp.
 *
 * Each scenario: member 0 makes tasks, which others execute, and waits for them, again and again; a
 * task may make a task and end before it. Tasks go from member to member in boxes. Checked: a wait
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

    /* As memory_take(): a new one where none is free; of four that member 0 has, and two of 1. */
    task_type *memory(member_type *self)
    {
        typename P::umbra_task *link = self->free;
        int *count = self->number == 0 ? &made : &made_by_1;

        if (!link)
            link = P::um_omp_memory_returned(self);
        if (link) {
            self->free = link->prev;
            return (task_type *)link;
        }
        RL_ASSERT(*count < (self->number == 0 ? 4 : 2));
        return &this->task[4 * self->number + (unsigned)(*count)++];
    }

    /* Member 1's task makes one for the last member, and ends. */
    void work(member_type *self, int number)
    {
        if (plan.outlives && number == 0)
            give(Members - 1, this->make(self, 3, memory(self)));
    }

    void await_children(member_type *self)
    {
        typename P::um_omp_end end = {&self->task->count, UM_OMP_CHILDREN, 0, false};

        P::um_omp_await(self, &end, P::UM_OMP_IDLE);
    }

    void round(member_type *self, int number)
    {
        typename P::um_omp_group *group = plan.group ? new typename P::um_omp_group : NULL;

        if (plan.group) {
            um_atomic_store(&group->count, 0, relaxed);
            group->member = self;
        }
        self->task->group = group;
        for (int i = 0; i < plan.children; i++)
            give(i + 1, this->make(self, i, memory(self)));
        if (plan.group) {
            typename P::um_omp_end end = {&group->count, UINT64_MAX, 0, false};

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
        typename P::umbra_task *link = self->free;
        int count = 0;

        for (; link && count < 9; count++)
            link = link->prev;
        for (link = P::um_omp_memory_returned(self); link && count < 9; count++)
            link = link->prev;
        return count;
    }

    void after()
    {
        omp_team<P, Members>::after();
        RL_ASSERT(um_atomic_load(&this->member[0].implicit.count, relaxed) == UM_OMP_HOLD);
        RL_ASSERT(count_free(&this->member[0]) == made);
        RL_ASSERT(count_free(&this->member[1]) == made_by_1);
    }
};

template <class P, int Members, int Rounds, int Children, bool Group, bool Outlives>
static world *make_family()
{
    return new family<P, Members>(family_plan{Rounds, Children, Group, Outlives});
}

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"a child", make_family<P, 2, 1, 1, false, false>, 2, 0, false, 2, 20000},
        {"a child, again", make_family<P, 2, 3, 1, false, false>, 2, 0, false, 0, 30000},
        {"two children", make_family<P, 3, 2, 2, false, false>, 3, 0, false, 0, 25000},
        {"a group", make_family<P, 2, 1, 1, true, false>, 2, 0, false, 2, 20000},
        {"a group of two", make_family<P, 3, 2, 2, true, false>, 3, 0, false, 0, 25000},
        {"a child outlives", make_family<P, 3, 2, 1, false, true>, 3, 0, false, 0, 25000},
        {"a group's outlives", make_family<P, 3, 2, 1, true, true>, 3, 0, false, 0, 25000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
