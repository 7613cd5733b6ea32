/* SPDX-License-Identifier: BSL-1.0 */
/*
 * When a task with dependences has its turn (omp/turn.h) under the model checker. See checker.hpp.
 *
 * Each scenario: two tasks are there, and one thread makes two more, each after those that it
 * depends on, and then clears its table. One or two other threads execute the first tasks. The thread
 * that finds a task's turn executes it. Checked: each task is executed once, after all its
 * predecessors, and sees what they did; none is freed while a thread may read it, and each is freed.
 */
#include "checker.hpp"

#include "turn_variants.hpp"

enum { TASKS = 4, FIRST = 2 };

/* Predecessors of tasks 2 and 3: a bit for each. */
template <class P, int Others, int Of2, int Of3> struct tasks : world {
    typedef typename P::um_turn turn_type;
    typedef typename P::um_turn_edge edge_type;

    turn_type *turn[TASKS];
    edge_type *edge[TASKS][TASKS]; /* from, to */
    rl::var<int> done[TASKS];      /* what the task did */
    rl::var<int> memory[TASKS];    /* the turn's: read by its users, written when it is freed */
    int executed[TASKS], freed;

    tasks()
    {
        freed = 0;
        for (int i = 0; i < TASKS; i++) {
            turn[i] = new turn_type;
            executed[i] = 0;
            um_plain_write(done[i], 0);
            um_plain_write(memory[i], 0);
            for (int k = 0; k < TASKS; k++)
                edge[i][k] = new edge_type;
        }
        for (int i = 0; i < FIRST; i++)
            RL_ASSERT(make(i));
    }

    ~tasks()
    {
        for (int i = 0; i < TASKS; i++)
            for (int k = 0; k < TASKS; k++)
                delete edge[i][k];
    }

    static bool follows(int task, int earlier)
    {
        return task >= FIRST && ((task == 2 ? Of2 : Of3) >> earlier & 1) != 0;
    }

    int number_of(turn_type *is)
    {
        int i = 0;

        while (turn[i] != is)
            i++;
        return i;
    }

    void drop(int i)
    {
        um_plain_read(memory[i]);
        if (!P::um_turn_drop(turn[i]))
            return;
        um_plain_write(memory[i], 0);
        freed++;
        delete turn[i];
    }

    /* True: its turn has come. */
    bool make(int i)
    {
        uint64_t edges = 0;

        P::um_turn_init(turn[i]);
        P::um_turn_keep(turn[i]);
        for (int k = 0; k < i; k++)
            if (follows(i, k) && !P::um_turn_ended(turn[k]))
                edges += P::um_turn_follow(turn[k], turn[i], edge[k][i]);
        return P::um_turn_made(turn[i], edges);
    }

    /* And then each task that this gives its turn. */
    void execute(int i)
    {
        edge_type *at;

        for (int k = 0; k < i; k++)
            if (follows(i, k))
                RL_ASSERT(um_plain_read(done[k]) == 1);
        executed[i]++;
        um_plain_write(done[i], um_plain_read(done[i]) + 1);
        at = P::um_turn_end(turn[i]);
        while (at) {
            turn_type *to = um_plain_read(at->to);

            at = um_plain_read(at->next);
            if (P::um_turn_step(to))
                execute(number_of(to));
        }
        drop(i);
    }

    void thread(int index)
    {
        if (index == 0) {
            for (int i = FIRST; i < TASKS; i++)
                if (make(i))
                    execute(i);
            for (int i = 0; i < TASKS; i++)
                drop(i);
            return;
        }
        for (int i = index - 1; i < FIRST; i += Others)
            execute(i);
    }

    void after()
    {
        for (int i = 0; i < TASKS; i++)
            RL_ASSERT(executed[i] == 1);
        RL_ASSERT(freed == TASKS);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"two, one thread", make_world<tasks<P, 1, 3, 0>>, 2, 0, false, 0, 30000},
        {"a chain, one thread", make_world<tasks<P, 1, 1, 4>>, 2, 0, false, 0, 30000},
        {"two", make_world<tasks<P, 2, 3, 0>>, 3, 0, false, 0, 30000},
        {"two, and one", make_world<tasks<P, 2, 3, 4>>, 3, 0, false, 0, 30000},
        {"two of one", make_world<tasks<P, 2, 1, 1>>, 3, 0, false, 0, 30000},
        {"all", make_world<tasks<P, 2, 3, 7>>, 3, 0, false, 0, 100000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
