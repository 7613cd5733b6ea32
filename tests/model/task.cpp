/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The tasks of a core (umbra/task/protocol.h) under the model checker. See checker.hpp.
 *
 * Each scenario: an owner that forks tasks, again and again in the same memory, and joins them, and
 * thieves that take some; or a core that sleeps when there is nothing to take, as um_core_doze()
 * does, while the owner forks on and needs it; or an owner that gives up joins and joins again; or
 * a core that returns a task to its joiner; or limits that a thread sets.
 * Checked: every task runs once a round, sees what was written before its fork, and its join sees
 * that it has run; no core sleeps on; a node is freed once, when neither side has it.
 */
#include "checker.hpp"

#define UM_TASKS_SHARED 2

#include "task_variants.hpp"

#define UM_MODEL_CLAIMS
#include "core_users.hpp"

enum { TASKS = 3, TRIES = 3 };

template <class P> struct workshop : world, receiver {
    typename P::um_tasks tasks;
    typename P::umbra_task task[TASKS];
    typename P::um_node *node; /* of the owner, when it waits */
    mail_core<P> core[2];      /* the owner's, and one that sleeps */
    um_atomic_u64 idle;
    um_atomic_u32 over;
    um_atomic_u32 away; /* tasks that others have begun */
    rl::var<int> given[TASKS];
    rl::var<int> result[TASKS];
    int runs[TASKS];

    workshop(bool asked)
    {
        P::um_tasks_init(&tasks, asked);
        node = make_message<P>(0);
        um_atomic_store(&idle, 0, relaxed);
        um_atomic_store(&over, 0, relaxed);
        um_atomic_store(&away, 0, relaxed);
        memset(runs, 0, sizeof(runs));
        for (int i = 0; i < TASKS; i++)
            um_atomic_store(&task[i].state, 0, relaxed);
    }

    ~workshop()
    {
        node->~um_node();
    }

    void receive(int)
    {
    }

    void run(typename P::umbra_task *which)
    {
        int i = (int)(which - task);

        RL_ASSERT(i >= 0 && i < TASKS);
        um_plain_write(result[i], um_plain_read(given[i]));
        runs[i]++;
    }

    /* As um_core_share(). */
    void share()
    {
        int picked;

        if (P::um_tasks_shared(&tasks))
            return;
        P::um_tasks_answer(&tasks);
        P::um_tasks_publish(&tasks);
        picked = P::um_idle_pick(&idle, 2);
        if (picked >= 0)
            core[picked].poke();
    }

    /* As umbra_task_fork(). */
    void fork(int i, int value)
    {
        bool asked = P::um_tasks_asked(&tasks);

        um_plain_write(given[i], value);
        P::um_tasks_push(&tasks, &task[i]);
        if (asked)
            share();
    }

    /* As um_task_wait(). */
    void join_ended(int i)
    {
        if (!P::um_task_has_ended(&task[i].state) &&
            P::um_task_await(&task[i].state, (uintptr_t)node))
            do
                core[0].wait();
            while (core[0].take(this) == 0); /* a poke */
    }

    /* As umbra_task_join(). */
    void join(int i, int value)
    {
        if (P::um_tasks_pop(&tasks, &task[i]) || P::um_tasks_take_back(&tasks, &task[i]))
            run(&task[i]);
        else
            join_ended(i);
        RL_ASSERT(um_plain_read(result[i]) == value);
    }

    /* As um_task_wait_claimed(): true if the task has ended. */
    bool join_claimed(int i, typename P::um_claimed *claimed)
    {
        uintptr_t place = (uintptr_t)&claimed->node;

        if (!P::um_task_await(&task[i].state, place)) {
            P::um_claimed_free(claimed);
            return true;
        }
        if (rl::rand(2) == 0 && P::um_claim_give_up(claimed, claimed->ticket) == P::UM_GAVE_UP) {
            if (!P::um_task_leave(&task[i].state, place)) {
                P::um_claimed_drop(claimed);
                return true;
            }
            P::um_claimed_free(claimed);
            return false;
        }
        do
            core[0].wait();
        while (core[0].take(this) == 0); /* a poke */
        P::um_claimed_free(claimed);
        return true;
    }

    /* True if there was one to take. As um_core_take_from() and um_task_run(). */
    bool take()
    {
        typename P::umbra_task *taken = P::um_tasks_steal(&tasks);
        typename P::um_node *waiting;

        if (!taken)
            return false;
        if (!P::um_tasks_shared(&tasks))
            P::um_tasks_ask_early(&tasks);
        um_atomic_fetch_add(&away, 1, relaxed);
        run(taken);
        waiting = P::um_task_end(&taken->state);
        if (waiting)
            core[0].post(waiting);
        return true;
    }

    void end()
    {
        um_atomic_store(&over, 1, relaxed);
        core[1].poke();
    }
};

/* An owner that joins in one order or the other, and thieves that take one now and then. */
template <class P, int Tasks, int Rounds, bool OldestFirst> struct taking : workshop<P> {
    taking() : workshop<P>(true)
    {
    }

    void thread(int index)
    {
        if (index > 0) {
            for (int i = 0; i < 2; i++)
                if (!this->take())
                    P::um_tasks_ask(&this->tasks);
            return;
        }
        for (int round = 1; round <= Rounds; round++) {
            for (int i = 0; i < Tasks; i++)
                this->fork(i, round);
            for (int i = 0; i < Tasks; i++)
                this->join(OldestFirst ? i : Tasks - 1 - i, round);
        }
    }

    void after()
    {
        for (int i = 0; i < Tasks; i++)
            RL_ASSERT(this->runs[i] == Rounds);
    }
};

/* An owner that gives up some joins of a task that another core runs, each with a node of its
 * own. */
template <class P, int Rounds> struct giving_up : workshop<P> {
    typedef typename P::um_claimed claimed_type;

    claimed_type *claimed[TRIES];
    int freed[TRIES];
    int tried = 0;

    giving_up() : workshop<P>(true)
    {
        for (int i = 0; i < TRIES; i++) {
            claimed[i] = um_place<claimed_type>(i);
            um_atomic_store(&claimed[i]->node.link, 0, relaxed);
            um_plain_write(claimed[i]->node.kind, (uint32_t)0);
            um_plain_write(claimed[i]->node.flags, (uint32_t)UM_NODE_CLAIMED);
            claimed[i]->node.accept = 0;
            claimed[i]->node.arg = this;
            claimed[i]->group = claimed[i];
            claimed[i]->ticket = UINT64_C(1) << UM_CLAIM_SHIFT;
            um_atomic_store(&claimed[i]->claim, claimed[i]->ticket, relaxed);
            um_atomic_store(&claimed[i]->refs, 2, relaxed);
            freed[i] = 0;
        }
    }

    ~giving_up()
    {
        for (int i = 0; i < TRIES; i++)
            claimed[i]->~claimed_type();
    }

    static void free_claimed(claimed_type *which)
    {
        giving_up *self = (giving_up *)which->node.arg;

        for (int i = 0; i < TRIES; i++)
            if (self->claimed[i] == which)
                RL_ASSERT(++self->freed[i] == 1);
        um_plain_write(which->node.flags, 0xdead); /* its next user may write to it */
    }

    void thread(int index)
    {
        if (index > 0) {
            for (int i = 0; i < 2; i++)
                if (!this->take())
                    P::um_tasks_ask(&this->tasks);
            return;
        }
        for (int round = 0; round < Rounds; round++) {
            bool over;

            this->fork(0, round);
            over = P::um_tasks_pop(&this->tasks, &this->task[0]) ||
                   P::um_tasks_take_back(&this->tasks, &this->task[0]);
            if (over)
                this->run(&this->task[0]);
            while (!over && tried < TRIES)
                over = P::um_task_has_ended(&this->task[0].state) ||
                       this->join_claimed(0, claimed[tried++]);
            if (!over)
                this->join_ended(0);
            RL_ASSERT(um_plain_read(this->result[0]) == round);
        }
    }

    void after()
    {
        RL_ASSERT(this->runs[0] == Rounds);
        for (int i = 0; i < tried; i++)
            RL_ASSERT(freed[i] == 1);
    }
};

/* A core that has taken a task that was started from outside, and may have no memory for it: it runs
 * the task, or returns it to the joiner, which gives up some joins, or polls. */
template <class P, bool Polls> struct returning : giving_up<P, 1> {
    typedef typename P::um_claimed claimed_type;

    um_atomic_u32 started;

    returning()
    {
        um_atomic_store(&started, 0, relaxed);
    }

    /* As um_core_take_outside() and um_outside_return(), under whose lock the core got the task. */
    void run_core()
    {
        typename P::um_node *waiting = nullptr;
        bool returned = false;

        while (!um_atomic_load(&started, acquire))
            rl::yield(1, $);
        RL_ASSERT(um_plain_read(this->given[0]) == 1); /* as it reads the task's link */
        for (int i = 0; i < 2 && !returned; i++)
            returned = P::um_task_return(&this->task[0].state, &waiting);
        if (!returned) {
            this->run(&this->task[0]);
            waiting = P::um_task_end(&this->task[0].state);
        }
        if (waiting)
            this->core[0].post(waiting);
    }

    void poll()
    {
        if (P::um_task_await(&this->task[0].state, UM_TASK_POLLED))
            while (!P::um_task_has_ended(&this->task[0].state) &&
                   !P::um_task_was_returned(&this->task[0].state))
                rl::yield(1, $);
    }

    void thread(int index)
    {
        bool over = Polls;

        if (index > 0) {
            run_core();
            return;
        }
        um_plain_write(this->given[0], 1);
        P::um_task_begin(&this->task[0], UM_TASK_WAITED);
        um_atomic_store(&started, 1, release);
        if (Polls)
            poll();
        while (!over && this->tried < TRIES) {
            claimed_type *mine = this->claimed[this->tried++];

            um_plain_write(mine->node.flags, (uint32_t)UM_NODE_CLAIMED); /* as um_wait_prepare() */
            over = this->join_claimed(0, mine);
        }
        if (!over)
            this->join_ended(0);
        if (P::um_task_was_returned(&this->task[0].state))
            this->run(&this->task[0]);
        RL_ASSERT(um_plain_read(this->result[0]) == 1);
        um_plain_write(this->given[0], 2); /* the memory is used again */
    }
};

/* A core that sleeps when nothing is shared; an owner that forks until its first task is taken. */
template <class P, bool Asked> struct sleeping : workshop<P> {
    sleeping() : workshop<P>(Asked)
    {
    }

    void run_core()
    {
        while (!um_atomic_load(&this->over, relaxed)) {
            if (um_atomic_load(&this->core[1].inbox, relaxed))
                this->core[1].take(this);
            if (this->take())
                continue;
            P::um_idle_announce(&this->idle, 1);
            P::um_tasks_ask(&this->tasks);
            if (!P::um_tasks_shared(&this->tasks) && !um_atomic_load(&this->over, relaxed))
                this->core[1].wait();
            P::um_idle_clear(&this->idle, 1);
        }
    }

    void thread(int index)
    {
        int round = 0;

        if (index > 0) {
            run_core();
            return;
        }
        this->fork(0, 1);
        while (!um_atomic_load(&this->away, relaxed)) {
            this->fork(1, ++round);
            rl::yield(1, $);
            this->join(1, round);
        }
        this->join(0, 1);
        this->end();
    }
};

/* Limits that a thread sets while the owner answers a request and forks: the owner obeys, or has a
 * request left, by which its next fork will. */
template <class P> struct limiting : world {
    typename P::um_tasks tasks;
    um_atomic_uptr limits;
    rl::var<int> content;
    bool obeyed;

    limiting()
    {
        P::um_tasks_init(&tasks, true);
        um_atomic_store(&limits, 0, relaxed);
        obeyed = false;
    }

    void thread(int index)
    {
        if (index == 0) {
            um_plain_write(content, 1);
            P::um_limits_publish(&limits, 1);
            P::um_tasks_ask(&tasks);
            return;
        }
        for (int fork = 0; fork < 2; fork++) {
            if (!P::um_tasks_asked(&tasks))
                continue;
            P::um_tasks_answer(&tasks);
            if (P::um_limits_look(&limits)) {
                RL_ASSERT(um_plain_read(content) == 1);
                obeyed = true;
            }
        }
    }

    void after()
    {
        RL_ASSERT(obeyed || P::um_tasks_asked(&tasks));
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one task", make_world<taking<P, 1, 1, false>>, 2, 0, false, 4, 50000},
        {"one task, again", make_world<taking<P, 1, 2, false>>, 2, 0, false, 3, 100000},
        {"two tasks, two take", make_world<taking<P, 2, 1, false>>, 3, 0, false, 2, 100000},
        {"two tasks, again", make_world<taking<P, 2, 3, false>>, 3, 0, false, 0, 200000},
        {"three tasks", make_world<taking<P, 3, 2, false>>, 3, 0, false, 0, 200000},
        {"three, the oldest first", make_world<taking<P, 3, 2, true>>, 3, 0, false, 0, 200000},
        {"a join that gives up", make_world<giving_up<P, 1>>, 2, 0, false, 3, 100000},
        {"joins that give up", make_world<giving_up<P, 3>>, 2, 0, false, 0, 100000},
        {"a task that is returned", make_world<returning<P, false>>, 2, 0, false, 3, 100000},
        {"a task that is returned to a poll", make_world<returning<P, true>>, 2, 0, false, 3,
         50000},
        {"a core that sleeps", make_world<sleeping<P, false>>, 2, 0, false, 0, 100000},
        {"a core that falls asleep", make_world<sleeping<P, true>>, 2, 0, false, 0, 100000},
        {"limits that are set", make_world<limiting<P>>, 2, 0, true, 0, 20000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_FREE_CLAIMED(name, what, expected)                                                      \
    void name::um_claimed_free(um_claimed *claimed)                                                \
    {                                                                                              \
        giving_up<name, 1>::free_claimed(claimed);                                                 \
    }
UM_VARIANTS(UM_FREE_CLAIMED)

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
