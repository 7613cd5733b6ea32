/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the models of omp/ share: a team, whose members are the threads of a scenario, and its
 * tasks. A task writes what its maker and its waiters read. It includes the variants, OMP_VARIANTS.
 */
#ifndef UMBRA_TESTS_MODEL_OMP_HPP
#define UMBRA_TESTS_MODEL_OMP_HPP

#include "checker.hpp"

#define UM_OMP_ABI static
#define UM_OMP_SHARES 2
#define UM_OMP_BUNDLE 1
#define UM_OMP_UNCOUNTED_MOST 2
#define UM_TASKS_SHARED 2
#define UMBRA_CACHE_LINE sizeof(um_atomic_u64) /* a flag beside the other */

/* An ordinary variable of omp/, where no um_plain_read() stands: the checker reports races. */
template <class T> struct plain {
    rl::var<T> variable;

    operator T() const
    {
        return const_cast<rl::var<T> &>(variable)($).load();
    }

    T operator->() const
    {
        return *this;
    }

    void operator=(T value)
    {
        variable($).store(value);
    }

    void operator=(const plain &other)
    {
        *this = (T)other;
    }
};

#undef free /* Relacy's */

/* The memory of a loop. */
struct loop_memory {
    rl::var<int> given;
};

#include OMP_VARIANTS

enum { OMP_TASKS = 8 };

/* A team of as many members as threads. */
template <class P, int Members> struct omp_team : world {
    typedef typename P::um_omp_member member_type;
    typedef typename P::um_omp_task task_type;

    /* What a task does. */
    struct errand {
        omp_team *team;
        int number;
    };

    typename P::um_omp_team team;
    member_type member[Members];
    um_atomic_u64 flag[2 * Members];
    task_type task[OMP_TASKS]; /* memory of them; each is its member's that has made it */
    errand errands[OMP_TASKS];
    rl::var<int> done[OMP_TASKS];
    int runs[OMP_TASKS];

    omp_team()
    {
        team.members = Members;
        team.member = member;
        team.flag = flag;
        um_atomic_store(&team.tasked, 0, relaxed);
        um_atomic_store(&team.sleepers, 0, relaxed);
        um_atomic_store(&team.cancelled, 0, relaxed);
        um_atomic_store(&team.quiet, 0, relaxed);
        um_atomic_store(&team.looks, 0, relaxed);
        um_atomic_store(&team.single, 0, relaxed);
        um_atomic_store(&team.urgent, 0, relaxed);
        team.copy = 0;
        for (auto &word : flag)
            um_atomic_store(&word, 0, relaxed);
        for (int i = 0; i < UM_OMP_SHARES; i++) {
            um_atomic_store(&team.share[i].state, 3 * (uint64_t)i, relaxed);
            um_atomic_store(&team.share[i].left, 0, relaxed);
            team.share[i].memory = NULL;
            team.share[i].doacross = NULL;
        }
        for (int i = 0; i < Members; i++)
            make_member(i);
        for (int i = 0; i < OMP_TASKS; i++) {
            task[i].uncounted = 0;
            errands[i] = errand{this, i};
            um_plain_write(done[i], 0);
            runs[i] = 0;
        }
    }

    void make_member(int i)
    {
        member_type *m = &member[i];

        P::um_waiter_init(&m->waiter, UM_MODEL_PARK);
        um_atomic_store(&m->asleep, 0, relaxed);
        um_atomic_store(&m->hungry, 0, relaxed);
        um_atomic_store(&m->bell, 0, relaxed);
        m->team = &team;
        m->number = (unsigned)i;
        m->task = &m->implicit;
        m->began = m->barriers = m->singles = m->shares = 0;
        m->free = NULL;
        m->bundle = NULL;
        m->waiting = 0;
        m->alone = NULL;
        m->implicit.member = m;
        m->implicit.group = NULL;
        m->implicit.depends = NULL;
        m->implicit.uncounted = 0;
        um_atomic_store(&m->implicit.parent, (task_type *)NULL, relaxed);
        um_atomic_store(&m->implicit.count, UM_OMP_HOLD, relaxed);
        um_atomic_store(&m->created, 0, relaxed);
        um_atomic_store(&m->executed, 0, relaxed);
        um_atomic_store(&m->returned, 0, relaxed);
        P::um_tasks_init(&m->tasks, false);
    }

    void thread(int index)
    {
        P::heres[index] = &member[index];
        part(&member[index]);
    }

    virtual void part(member_type *self) = 0;

    /* What task `number` does beside writing. */
    virtual void work(member_type *, int)
    {
    }

    static void run(void *arg)
    {
        errand *e = (errand *)arg;

        e->team->runs[e->number]++;
        e->team->work(P::um_omp_self(), e->number);
        um_plain_write(e->team->done[e->number], um_plain_read(e->team->done[e->number]) + 1);
    }

    /* A task of the member's present one, as um_omp_task_make(). */
    task_type *make(member_type *self, int number, task_type *memory)
    {
        memory->home = self;
        um_atomic_store(&memory->parent, self->task, relaxed);
        um_atomic_store(&memory->event, 0, relaxed);
        memory->depends = NULL;
        memory->group = self->task->group;
        memory->link.fn = run;
        memory->link.arg = &errands[number];
        P::um_omp_count_begin(memory, self->task);
        return memory;
    }

    void defer(member_type *self, int number)
    {
        P::um_omp_task_defer(self, make(self, number, &task[number]));
    }

    void after()
    {
        RL_ASSERT(um_atomic_load(&team.sleepers, relaxed) == 0);
        for (auto &m : member)
            RL_ASSERT(um_atomic_load(&m.asleep, relaxed) == 0);
    }
};

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

#endif
