/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The queues of a dispatcher's workers (umbra/dispatch/queue.h, and the functions of
 * dispatch/workers.h that queue, steal and answer) under the model checker. See checker.hpp.
 *
 * Each scenario: a source that queues pointers or a range, and workers that take, steal, queue
 * more, and wait, as um_worker_main() does; some wait from the start. Values that are `together` do
 * not return before all of them have begun: if one is queued and no worker takes it, all workers
 * sleep in the end, hungry or in the middle of a value. Checked: every value is begun, once, and
 * sees what was written before it was queued; the step ends then and not before, and what the
 * values wrote is seen after it; where there is no memory, nothing is lost.
 */
#include "checker.hpp"

#define UM_STEP_WORKERS 64
#define UM_MODEL_WORKERS 4
#define UM_ITEM_QUEUE_FIRST 1
#define UM_ITEM_QUEUE_PATIENCE 1
#define UM_STEAL_MOST 2
#define UMBRA_ANY_WORKER (-1)
#define um_arch_pause() rl::yield(1, $)

/* Items are copied as a whole. */
template <class T> struct copied : rl::var<T> {
    copied() : rl::var<T>(T())
    {
    }

    copied(T value) : rl::var<T>(value)
    {
    }

    copied(const copied &from) : rl::var<T>(um_plain_read(from))
    {
    }

    copied &operator=(const copied &from)
    {
        um_plain_write(*this, um_plain_read(from));
        return *this;
    }

    operator T() const
    {
        return um_plain_read(*this);
    }
};

#undef um_plain
#define um_plain(type) copied<type>

static int um_model_memory; /* how many more rings can be had */

#include "queue_variants.hpp"

enum { INDICES = 6, POINTERS = 4 };

template <class P, unsigned Workers, unsigned Hungry> struct house : world {
    typedef typename P::umbra_worker umbra_worker;

    /* A value that is a pointer, or a part of a range. */
    struct task {
        bool together;
        rl::var<int> given; /* before it is queued */
        rl::var<int> done;
        int runs;
        task *adds[POINTERS]; /* what it queues; NULL after the last */
        size_t indices;       /* of the range that it queues */
        unsigned on;          /* queued for: the worker so many further */
    };

    typename P::umbra_dispatch dispatch;
    task pointer[POINTERS];
    task part[INDICES];
    size_t indices; /* of the range */
    size_t grain;
    int queued; /* values, in all */
    int begun;
    int together; /* of those that wait for each other, how many have not begun */
    bool over;
    um_atomic_u32 all; /* have begun */
    um_atomic_u32 ending;

    house()
    {
        um_model_memory = 100;
        indices = 0;
        grain = 1;
        queued = begun = together = 0;
        over = false;
        um_atomic_store(&all, 0, relaxed);
        um_atomic_store(&ending, 0, relaxed);
        for (int i = 0; i < POINTERS; i++)
            clear(&pointer[i]);
        for (int i = 0; i < INDICES; i++)
            clear(&part[i]);
        clear_step();
        for (unsigned i = 0; i < Workers; i++)
            clear_worker(i);
    }

    ~house()
    {
        for (unsigned i = 0; i < Workers; i++)
            P::um_item_queue_free_items(&dispatch.worker[i].queue);
        pthread_mutex_destroy(&dispatch.lock);
    }

    void clear(task *which)
    {
        which->together = false;
        which->runs = 0;
        memset(which->adds, 0, sizeof(which->adds));
        which->indices = 0;
        which->on = 0;
        um_plain_write(which->given, 0);
        um_plain_write(which->done, 0);
    }

    /* A step is under way, with one source, and the hungry workers have asked. */
    void clear_step()
    {
        dispatch.workers = Workers;
        dispatch.running = true;
        dispatch.begin_step = NULL;
        pthread_mutex_init(&dispatch.lock, NULL);
        um_atomic_store(&dispatch.over.set, 0, relaxed);
        um_atomic_store(&dispatch.phase, UM_STEP_OPEN, relaxed);
        um_atomic_store(&dispatch.step.activity, 1 + Workers - __builtin_popcount(Hungry), relaxed);
        um_atomic_store(&dispatch.step.asking[0], Hungry, relaxed);
        um_atomic_store(&dispatch.step.stopped, 0, relaxed);
        um_atomic_store(&dispatch.step.nobody.calls, 0, relaxed);
        um_atomic_store(&dispatch.step.nobody.judging, 0, relaxed);
    }

    void clear_worker(unsigned index)
    {
        umbra_worker *worker = &dispatch.worker[index];

        um_atomic_store(&worker->queue.lock, 0, relaxed);
        um_atomic_store(&worker->queue.some, 0, relaxed);
        um_atomic_store(&worker->woken.set, 0, relaxed);
        worker->dispatch = &dispatch;
        worker->index = index;
        worker->part = 1;
        worker->left_count = 0;
        for (unsigned i = 1; i < Workers; i++)
            worker->others[i - 1] = &dispatch.worker[(index + i) % Workers];
    }

    /* ---- what is done ---- */

    void give(task *which, bool is_together)
    {
        which->together = is_together;
        together += is_together;
        queued++;
    }

    void write_parts(size_t count)
    {
        indices = count;
        for (size_t i = 0; i < count; i++)
            um_plain_write(part[i].given, 1);
    }

    /* As umbra_dispatch_put(). */
    void put(task *which, unsigned worker)
    {
        typename P::um_item item = {which};

        um_plain_write(which->given, 1);
        RL_ASSERT(P::um_worker_add(&dispatch.worker[worker], &item) == 0);
    }

    void put_range(size_t count)
    {
        write_parts(count);
        RL_ASSERT(P::umbra_dispatch_range(&dispatch, 0, count, grain) == 0);
    }

    /* 0 or an error: then there are so many fewer. */
    int put_more(umbra_worker *worker, task *which)
    {
        unsigned other = (worker->index + which->on) % Workers;
        int error = 0;

        if (which->indices > 0) {
            write_parts(which->indices);
            error = which->on == 0
                        ? P::umbra_worker_range(worker, 0, which->indices, grain, UMBRA_ANY_WORKER)
                        : P::umbra_worker_range(worker, 0, which->indices, grain, (int)other);
        }
        for (task *more : which->adds) {
            if (!more)
                break;
            um_plain_write(more->given, 1);
            if (error == 0)
                error = P::umbra_worker_put(worker, more, (int)other);
            queued -= error != 0;
        }
        return error;
    }

    /* Until all have begun. Orders nothing. */
    void wait_for_all()
    {
        if (--together == 0) {
            um_atomic_store(&all, 1, relaxed);
            for (unsigned i = 0; i < Workers; i++)
                um_os_futex_wake(&all);
        }
        while (um_atomic_fetch_add(&all, 0, relaxed) == 0)
            um_os_futex_wait(&all, 0, UMBRA_NEVER);
    }

    int run(umbra_worker *worker, task *which)
    {
        int error;

        RL_ASSERT(!over && which->runs == 0 && um_plain_read(which->given) == 1);
        which->runs++;
        begun++;
        um_plain_write(which->done, 1);
        error = put_more(worker, which);
        if (which->together)
            wait_for_all();
        return error;
    }

    int process(umbra_worker *worker, const struct P::umbra_value &value)
    {
        RL_ASSERT(value.end > 0 || value.pointer);
        if (value.end == 0)
            return run(worker, (task *)value.pointer);
        RL_ASSERT(value.begin < value.end && value.end <= indices);
        RL_ASSERT(grain == 0 || value.begin % grain == 0);
        RL_ASSERT(grain == 0 || value.end == indices || value.end == value.begin + grain);
        for (size_t i = value.begin; i < value.end; i++)
            run(worker, &part[i]);
        return 0;
    }

    /* As um_worker_main(). */
    void work(umbra_worker *worker)
    {
        typename P::um_taken taken;

        if (Hungry & 1 << worker->index)
            wait_hungry(worker);
        while (!um_atomic_load(&ending, acquire)) {
            while (P::um_worker_next(worker, &taken)) {
                int error = process(worker, taken.value);

                if (error != 0)
                    P::um_step_stop(&dispatch.step, error);
            }
            P::um_worker_ask(worker);
        }
    }

    /* The second half of um_worker_ask(). */
    void wait_hungry(umbra_worker *worker)
    {
        P::um_worker_wait(worker);
        P::um_step_enter(&dispatch.step);
        P::um_step_unask(&dispatch.step, worker->index);
    }

    /* ---- the source ---- */

    virtual void source() = 0;

    void check_done(const task *which)
    {
        RL_ASSERT(which->runs <= 1 && um_plain_read(which->done) == which->runs);
    }

    /* A step that was stopped: no worker has begun what is left. */
    void take_rest()
    {
        struct P::umbra_value value;

        while (P::umbra_dispatch_left(&dispatch, &value)) {
            RL_ASSERT(value.end > 0 || value.pointer);
            begun += value.end == 0 ? 1 : (int)(value.end - value.begin);
            if (value.end == 0)
                RL_ASSERT(((task *)value.pointer)->runs++ == 0);
            for (size_t i = value.begin; i < value.end; i++)
                RL_ASSERT(part[i].runs++ == 0);
        }
    }

    void end_workers()
    {
        um_atomic_store(&ending, 1, release);
        for (unsigned i = 0; i < Workers; i++)
            P::umbra_event_signal(&dispatch.worker[i].woken);
    }

    void thread(int index)
    {
        int error;

        if (index < (int)Workers) {
            work(&dispatch.worker[index]);
            return;
        }
        source();
        error = P::um_dispatch_end_step(&dispatch, UMBRA_NEVER, NULL);
        over = true;
        for (int i = 0; i < POINTERS; i++)
            check_done(&pointer[i]);
        for (int i = 0; i < INDICES; i++)
            check_done(&part[i]);
        if (error != 0)
            take_rest();
        RL_ASSERT(error == 0 || um_model_memory < 0);
        RL_ASSERT(begun == queued);
        end_workers();
    }
};

/* A value that queues a range of so many parts, which wait for each other, and perhaps for it; for
 * the worker so many further. */
template <class P, unsigned Workers, unsigned Hungry, int Parts, bool Waits = true, unsigned On = 0>
struct range_of_one : house<P, Workers, Hungry> {
    void source()
    {
        this->pointer[0].on = On;
        this->give(&this->pointer[0], Waits);
        this->pointer[0].indices = Parts;
        for (int i = 0; i < Parts; i++)
            this->give(&this->part[i], true);
        this->put(&this->pointer[0], 0);
    }
};

/* The same, of so many indices, which do not wait for each other. */
template <class P, unsigned Workers, unsigned Hungry, int Indices, int Grain>
struct range_of_some : house<P, Workers, Hungry> {
    void source()
    {
        this->give(&this->pointer[0], false);
        this->pointer[0].indices = Indices;
        this->grain = Grain;
        for (int i = 0; i < Indices; i++)
            this->give(&this->part[i], false);
        this->put(&this->pointer[0], 0);
    }
};

/* A value that queues others, pointers, as many as there are workers, which wait for each other, or
 * not; for the worker so many further. */
template <class P, unsigned Workers, unsigned Hungry, bool Waits = true, unsigned On = 0>
struct pointers_of_one : house<P, Workers, Hungry> {
    void source()
    {
        this->pointer[0].on = On;
        this->give(&this->pointer[0], false);
        for (int i = 1; i < POINTERS; i++) {
            this->give(&this->pointer[i], Waits);
            this->pointer[0].adds[i - 1] = &this->pointer[i];
        }
        this->put(&this->pointer[0], 0);
    }
};

/* The same; none waits, and a thief has no memory for more than one. */
template <class P, unsigned Workers, unsigned Hungry>
struct without_memory : pointers_of_one<P, Workers, Hungry, false> {
    void source()
    {
        um_model_memory = 3; /* rings of one, two and four: for the first worker */
        pointers_of_one<P, Workers, Hungry, false>::source();
    }
};

/* So many pointers, one after the other. */
template <class P, unsigned Workers, unsigned Hungry, int Pointers>
struct pointers_of_source : house<P, Workers, Hungry> {
    void source()
    {
        for (int i = 0; i < Pointers; i++) {
            this->give(&this->pointer[i], false);
            this->put(&this->pointer[i], 0);
        }
    }
};

/* As many as there are workers, which wait for each other, for the second and the first in turn. */
template <class P, unsigned Workers, unsigned Hungry>
struct pointers_in_turn : house<P, Workers, Hungry> {
    void source()
    {
        for (unsigned i = 0; i < Workers; i++)
            this->give(&this->pointer[i], true);
        for (unsigned i = 0; i < Workers; i++)
            this->put(&this->pointer[i], (i + 1) % 2);
    }
};

/* A pointer, and a range of the source: a part for each other worker. */
template <class P, unsigned Workers, unsigned Hungry>
struct range_of_source : house<P, Workers, Hungry> {
    void source()
    {
        this->give(&this->pointer[0], true);
        this->put(&this->pointer[0], Workers - 1);
        for (unsigned i = 0; i + 1 < Workers; i++)
            this->give(&this->part[i], true);
        this->put_range(Workers - 1);
    }
};

/*
 * Pointers, which the source queues for any worker or the first of them adds, and a range, of the
 * source or of the first. As many of all these as there are workers wait for each other.
 */
template <class P, unsigned Workers, unsigned Hungry> struct anything : house<P, Workers, Hungry> {
    void choose_together(int parts)
    {
        int wait = Workers;

        for (int left = parts + POINTERS; left > 0; left--) {
            bool is_together = (int)rl::rand(left) < wait;

            this->give(left > POINTERS ? &this->part[parts + POINTERS - left]
                                       : &this->pointer[POINTERS - left],
                       is_together);
            wait -= is_together;
        }
    }

    void source()
    {
        int parts = (int)rl::rand(INDICES + 1);
        int owner =
            (int)rl::rand(3); /* of the range: the source, first or last; the first pointer */
        int others = 1 + (int)rl::rand(POINTERS);

        choose_together(parts);
        if (owner == 2)
            this->pointer[0].indices = parts;
        this->pointer[0].on = rl::rand(Workers);
        for (int i = others; i < POINTERS; i++)
            this->pointer[0].adds[i - others] = &this->pointer[i];
        if (owner == 0)
            this->put_range(parts);
        for (int i = 0; i < others; i++)
            this->put(&this->pointer[i], rl::rand(Workers));
        if (owner == 1)
            this->put_range(parts);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one pointer", make_world<pointers_of_source<P, 2, 3, 1>>, 3, 0, false, 1, 100000},
        {"two pointers", make_world<pointers_of_source<P, 2, 3, 2>>, 3, 0, false, 1, 100000},
        {"two parts", make_world<range_of_one<P, 3, 7, 2>>, 4, 0, false, 0, 50000},
        {"two parts, two are late", make_world<range_of_one<P, 3, 1, 2>>, 4, 0, false, 0, 50000},
        {"three parts", make_world<range_of_one<P, 3, 7, 3, false>>, 4, 0, false, 0, 50000},
        {"three parts, four workers", make_world<range_of_one<P, 4, 15, 3>>, 5, 0, false, 0, 50000},
        {"parts for another", make_world<range_of_one<P, 3, 7, 2, true, 1>>, 4, 0, false, 0, 50000},
        {"parts of two", make_world<range_of_some<P, 3, 7, 5, 2>>, 4, 0, false, 0, 50000},
        {"parts as liked", make_world<range_of_some<P, 3, 7, 6, 0>>, 4, 0, false, 0, 50000},
        {"three pointers", make_world<pointers_of_one<P, 3, 7>>, 4, 0, false, 0, 50000},
        {"three for another", make_world<pointers_of_one<P, 3, 7, true, 1>>, 4, 0, false, 0, 50000},
        {"a source's range", make_world<range_of_source<P, 3, 7>>, 4, 0, false, 0, 50000},
        {"a source's range, all late", make_world<range_of_source<P, 3, 0>>, 4, 0, false, 0, 50000},
        {"pointers in turn, one is late", make_world<pointers_in_turn<P, 3, 5>>, 4, 0, false, 0,
         200000},
        {"anything", make_world<anything<P, 3, 7>>, 4, 0, false, 0, 50000},
        {"anything, all late", make_world<anything<P, 3, 0>>, 4, 0, false, 0, 50000},
        {"anything, four workers", make_world<anything<P, 4, 15>>, 5, 0, false, 0, 50000},
        {"no memory", make_world<without_memory<P, 3, 7>>, 4, 0, false, 0, 50000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
