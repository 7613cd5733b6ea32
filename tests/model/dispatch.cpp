/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A dispatcher's step (umbra/dispatch/protocol.h) under the model checker. See checker.hpp.
 *
 * Each scenario: workers that take values from each other's queues and wait when there are none, as
 * um_worker_main() does, and a source that queues some, and is complete. A value may be worth more
 * values, which its worker queues. The first worker may yield after each value. A thread outside
 * may stop the step. Checked: the step ends, once, when everything is done and not before; no
 * worker waits while something is queued; a step that was stopped ends, begins nothing afterwards,
 * and loses no value.
 */
#include "checker.hpp"

#define UM_STEP_WORKERS 64

#include "dispatch_variants.hpp"

#include "core_users.hpp"

enum { WORKERS = 2 };

template <class P> struct house : world, receiver {
    struct queue {
        rl::mutex lock;
        rl::var<int> values[4]; /* what they are worth; under the lock, as is count */
        rl::var<int> count;
        um_atomic_u32 some;
    };

    typename P::um_step step;
    queue queues[WORKERS];
    mail_core<P> core[WORKERS];
    rl::mutex lock;
    rl::var<int> overs; /* under the lock */
    rl::var<int> over;  /* read as a value begins: ordered before or after by the step */
    um_atomic_u32 end;  /* told to all when the step is over */
    int worth;          /* values that are to be done, in all */
    int done;
    bool stops;         /* a thread outside stops the step */
    bool rests;         /* the first worker does, after each value */
    rl::var<int> steps; /* begun after the end of one, each with a value worth one */

    house(int worth_, bool stops_)
    {
        worth = worth_;
        stops = stops_;
        rests = false;
        um_plain_write(steps, 0);
        done = 0;
        um_atomic_store(&step.activity, WORKERS + 1, relaxed);
        um_atomic_store(&step.asking[0], 0, relaxed);
        um_atomic_store(&step.stopped, 0, relaxed);
        um_atomic_store(&step.nobody.calls, 0, relaxed);
        um_atomic_store(&step.nobody.judging, 0, relaxed);
        um_atomic_store(&end, 0, relaxed);
        um_plain_write(overs, 0);
        um_plain_write(over, 0);
        for (int i = 0; i < WORKERS; i++) {
            um_plain_write(queues[i].count, 0);
            um_atomic_store(&queues[i].some, 0, relaxed);
        }
    }

    void receive(int)
    {
        RL_ASSERT(false); /* only pokes */
    }

    static bool empty(void *context)
    {
        house *here = (house *)context;

        for (int i = 0; i < WORKERS; i++)
            if (um_atomic_load(&here->queues[i].some, seq_cst))
                return false;
        return true;
    }

    /* As um_worker_add(). */
    void put(int worker, int value)
    {
        queue &q = queues[worker];
        int count;

        q.lock.lock($);
        count = um_plain_read(q.count);
        um_plain_write(q.values[count], value);
        um_plain_write(q.count, count + 1);
        if (um_atomic_load(&q.some, relaxed) == 0)
            um_atomic_store(&q.some, 1, seq_cst);
        q.lock.unlock($);
        answer();
    }

    /* As um_dispatch_answer(). */
    void answer()
    {
        int picked = P::um_step_answer(&step, WORKERS);

        if (picked >= 0)
            core[picked].poke();
    }

    /* What the value is worth, or -1. */
    int take(int worker)
    {
        queue &q = queues[worker];
        int value = -1;
        int count;

        if (!um_atomic_load(&q.some, relaxed))
            return -1;
        q.lock.lock($);
        count = um_plain_read(q.count);
        if (count > 0) {
            value = um_plain_read(q.values[count - 1]);
            um_plain_write(q.count, count - 1);
        }
        if (count <= 1)
            um_atomic_store(&q.some, 0, relaxed);
        q.lock.unlock($);
        return value;
    }

    bool work(int self)
    {
        int value;

        if (P::um_step_stopped(&step))
            return false;
        value = take(self);
        if (value < 0)
            value = take(1 - self);
        if (value < 0)
            return false;
        RL_ASSERT(um_plain_read(over) == 0);
        if (value > 1)
            put(self, value - 1);
        done++;
        return true;
    }

    /* As um_dispatch_next_step(). */
    void next_step()
    {
        P::um_step_enter(&step);
        lock.lock($);
        um_plain_write(overs, 0);
        lock.unlock($);
        um_plain_write(steps, um_plain_read(steps) - 1);
        worth++;
        put(0, 1);
    }

    /* As um_dispatch_leave_last(): true with the lock held. */
    bool leave_last()
    {
        if (P::um_quiet_leave_others(&step.activity))
            return false;
        lock.lock($);
        if (P::um_step_leave(&step))
            return true;
        lock.unlock($);
        return false;
    }

    /* As um_dispatch_judge_locked(). */
    bool judge_locked(int worker)
    {
        bool begun = false;

        while (um_plain_read(overs) == 0 && P::um_step_over(&step, empty, this)) {
            RL_ASSERT(stops || done == worth);
            um_plain_write(overs, 1);
            if (um_plain_read(steps) == 0 || P::um_step_stopped(&step)) {
                um_plain_write(over, 1);
                um_atomic_store(&end, 1, relaxed);
                for (int i = 0; i < WORKERS; i++)
                    core[i].poke();
                break;
            }
            lock.unlock($);
            if (worker >= 0)
                P::um_step_unask(&step, (unsigned)worker);
            begun = true;
            next_step();
            if (!leave_last())
                return true;
        }
        lock.unlock($);
        return begun;
    }

    /* As um_dispatch_judge(); worker: the one that has asked and judges, or -1. */
    bool judge(int worker)
    {
        lock.lock($);
        return judge_locked(worker);
    }

    void run_worker(int self)
    {
        while (!um_atomic_load(&end, relaxed)) {
            if (work(self)) {
                if (rests && self == 0)
                    rest();
                continue;
            }
            if (!P::um_step_ask(&step, (unsigned)self, empty, this)) {
                if (!P::um_step_unask(&step, (unsigned)self))
                    answer();
                continue;
            }
            if (!P::um_step_leave(&step) || !judge(self))
                wait(self);
            enter(self);
        }
    }

    /* As um_worker_yield(). */
    void rest()
    {
        if (P::um_step_leave(&step))
            judge(-1);
        P::um_step_enter(&step);
    }

    /* Until its request is answered. */
    void wait(int self)
    {
        core[self].wait();
        core[self].take(this);
    }

    void enter(int self)
    {
        P::um_step_enter(&step);
        P::um_step_unask(&step, (unsigned)self);
    }

    /* What the values left in a queue are worth. */
    int left(int worker)
    {
        int sum = 0;

        for (int i = 0; i < um_plain_read(queues[worker].count); i++)
            sum += um_plain_read(queues[worker].values[i]);
        return sum;
    }

    void after()
    {
        RL_ASSERT(done + left(0) + left(1) == worth && um_plain_read(overs) == 1);
        RL_ASSERT(stops || done == worth);
    }
};

/* Two workers and a source of so many values, each worth so much; queued near one, or both. */
template <class P, int Values, int Worth, bool Stops = false> struct stepping : house<P> {
    stepping() : house<P>(Values * Worth, Stops)
    {
    }

    void thread(int index)
    {
        if (index < WORKERS) {
            this->run_worker(index);
            return;
        }
        if (index > WORKERS) {
            P::um_step_stop(&this->step, 1);
            return;
        }
        for (int i = 0; i < Values; i++)
            this->put(i % WORKERS, Worth);
        if (this->leave_last())
            this->judge_locked(-1);
    }
};

/* The same, and the first worker rests. */
template <class P, int Values, int Worth, bool Stops = false>
struct resting : stepping<P, Values, Worth, Stops> {
    resting()
    {
        this->rests = true;
    }
};

/* One value, and two steps after that; perhaps with rests. */
template <class P, bool Rests, bool Stops = false> struct following : stepping<P, 1, 1, Stops> {
    following()
    {
        um_plain_write(this->steps, 2);
        this->rests = Rests;
    }
};

/* A value for a worker that has asked, and a thread that stops the step; no other is active. */
template <class P> struct stopping : house<P> {
    stopping() : house<P>(1, true)
    {
        um_atomic_store(&this->step.activity, 1, relaxed);
        um_atomic_store(&this->step.asking[0], 1, relaxed);
    }

    void thread(int index)
    {
        if (index == 0) {
            this->wait(0);
            this->enter(0);
            this->run_worker(0);
        } else if (index == 1) {
            this->put(0, 1);
            if (this->leave_last())
                this->judge_locked(-1);
        } else {
            P::um_step_stop(&this->step, 1);
        }
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"nothing to do", make_world<stepping<P, 0, 0>>, 3, 0, false, 2, 50000},
        {"one value", make_world<stepping<P, 1, 1>>, 3, 0, false, 1, 100000},
        {"one that adds another", make_world<stepping<P, 1, 2>>, 3, 0, false, 1, 100000},
        {"two values", make_world<stepping<P, 2, 1>>, 3, 0, false, 0, 100000},
        {"two that add others", make_world<stepping<P, 2, 2>>, 3, 0, false, 0, 100000},
        {"two that add others, with rests", make_world<resting<P, 2, 2>>, 3, 0, false, 0, 100000},
        {"a rest, and stopped", make_world<resting<P, 2, 1, true>>, 4, 0, false, 0, 100000},
        {"steps", make_world<following<P, false>>, 3, 0, false, 0, 100000},
        {"steps, with rests", make_world<following<P, true>>, 3, 0, false, 0, 100000},
        {"steps, and stopped", make_world<following<P, true, true>>, 4, 0, false, 0, 100000},
        {"an answer, and stopped", make_world<stopping<P>>, 3, 0, false, 3, 100000},
        {"one, and stopped", make_world<stepping<P, 1, 1, true>>, 4, 0, false, 0, 100000},
        {"two that add others, and stopped", make_world<stepping<P, 2, 2, true>>, 4, 0, false, 0,
         100000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
