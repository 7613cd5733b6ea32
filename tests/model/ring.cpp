/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The sleep of a core with an io_uring or an epoll instance (umbra/io/protocol.h, with the wake of park.h) under the
 * model checker. See checker.hpp.
 *
 * Each scenario: a core that takes messages and completions, and sleeps in its ring when there are
 * none; other threads send messages, and the kernel completes operations. Checked: the core is never
 * left asleep while it has something, it sees what a sender wrote before, and afterwards it does not
 * count as parked.
 *
 * The inbox is a count here; that its messages stay whole is for inbox.cpp.
 */
#include "checker.hpp"
#include "ring_variants.hpp"

template <class P> struct ring_core : world {
    um_atomic_u64 inbox; /* how many messages */
    rl::var<int> data[2];
    typename P::umbra_waiter waiter;
    struct its_bed : P::um_io_bed {
        ring_core *core;
    } bed;
    uint64_t messages; /* taken */
    int completions;   /* taken, of operations */
    int refusals;      /* so often has the ring no place for the watch */

    ring_core()
    {
        um_atomic_store(&inbox, 0, relaxed);
        P::um_waiter_init(&waiter, UM_MODEL_PARK);
        bed.core = this;
        bed.parked = UM_OS_AT_FUTEX;
        bed.watched = false;
        bed.watch = watch;
        bed.sleep = sleep;
        messages = 0;
        completions = 0;
        refusals = 0;
    }

    /* The kernel compares, and begins to watch or completes the watch at once, in one step. Or there
     * is no place: then the core has taken completions. */
    static bool watch(typename P::um_io_bed *bed, um_atomic_u32 *parked)
    {
        um_kernel_ring &ring = um_kernel_now.ring;
        ring_core *core = static_cast<its_bed *>(bed)->core;

        rl::ctx().sched();
        if (core->refusals > 0) {
            core->refusals--;
            core->take_completions();
            return false;
        }
        RL_ASSERT(!ring.watches);
        if (parked->debug_value() == 1)
            ring.watches = parked;
        else
            ring.watch_done = true;
        return true;
    }

    /* Sleeps unless there is a completion. Orders nothing: see um_os_futex_wait(). */
    static void sleep(typename P::um_io_bed *bed, uint64_t)
    {
        um_kernel_ring &ring = um_kernel_now.ring;
        rl::context &context = rl::ctx();
        rl::timestamp_t last_yield = context.threadx_->last_yield_;

        context.sched();
        if (!ring.watch_done && ring.others_done == 0) {
            ring.sleeper = context.threadx_->index_ + 1;
            context.park_current_thread(false, false, false, $);
            context.threadx_->last_yield_ = last_yield;
        }
        if (ring.watch_done && bed->parked == UM_OS_AT_FUTEX)
            bed->watched = false;
        ring.watch_done = false;
    }

    static bool ready(void *context)
    {
        return um_atomic_load(&((ring_core *)context)->inbox, seq_cst) != 0;
    }

    /* The core takes all messages, and all completions. */
    void take()
    {
        uint64_t taken = um_atomic_exchange(&inbox, 0, acq_rel);

        for (uint64_t i = 0; i < taken; i++)
            RL_ASSERT(um_plain_read(data[messages++]) == 7);
        take_completions();
    }

    void take_completions()
    {
        completions += um_kernel_now.ring.others_done;
        um_kernel_now.ring.others_done = 0;
    }

    /* A core that looks into epoll takes the reports of its bell as well. */
    void take_bell()
    {
        if (bed.parked != UM_OS_AT_FUTEX) {
            rl::ctx().sched();
            um_kernel_now.ring.watch_done = false;
        }
    }

    void run_core(uint64_t wanted_messages, int wanted_completions)
    {
        for (;;) {
            take();
            take_bell();
            if (messages == wanted_messages && completions == wanted_completions)
                return;
            P::um_io_park(&waiter.park, &bed, ready, this, UMBRA_NEVER);
        }
    }

    void send(int message)
    {
        um_plain_write(data[message], 7);
        if (um_atomic_fetch_add(&inbox, 1, seq_cst) == 0)
            P::umbra_wake(&waiter);
    }

    /* The kernel completes an operation. */
    void complete()
    {
        rl::ctx().sched();
        um_kernel_now.ring.others_done++;
        um_kernel_ring_wake();
    }

    void after()
    {
        RL_ASSERT(waiter.park.parked.debug_value() == 0);
    }
};

/* The least: one message. */
template <class P> struct one_message : ring_core<P> {
    void thread(int index)
    {
        if (index == 0)
            this->run_core(1, 0);
        else
            this->send(0);
    }
};

/* The second finds the watch of the first sleep, or a late wake of it. */
template <class P> struct two_messages : ring_core<P> {
    void thread(int index)
    {
        if (index == 0) {
            this->run_core(2, 0);
        } else {
            this->send(0);
            this->send(1);
        }
    }
};

/* A message and a completion, in any order. */
template <class P> struct either : ring_core<P> {
    void thread(int index)
    {
        if (index == 0)
            this->run_core(1, 1);
        else if (index == 1)
            this->send(0);
        else
            this->complete();
    }
};

/* A completion ends a sleep whose watch stands on: a later message must still wake the core. */
template <class P> struct completions_then_message : ring_core<P> {
    void thread(int index)
    {
        if (index == 0) {
            this->run_core(1, 2);
        } else {
            this->complete();
            this->complete();
            this->send(0);
        }
    }
};

/* A message and a completion, while the ring has no place for the watch at first. */
template <class P> struct no_place : either<P> {
    no_place()
    {
        this->refusals = 1;
    }
};

/* In epoll: the bell is watched for good, and may be written late. */
template <class P, class scenario> struct in_epoll : scenario {
    in_epoll()
    {
        this->bed.parked = UM_OS_AT_BELL + 3;
        this->bed.watched = true;
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one message", make_world<one_message<P>>, 2, 0, true, 0, 20000},
        {"two messages", make_world<two_messages<P>>, 2, 0, false, 5, 50000},
        {"message and completion", make_world<either<P>>, 3, 0, false, 4, 50000},
        {"completions, then a message", make_world<completions_then_message<P>>, 2, 0, false, 5,
         50000},
        {"no place for the watch", make_world<no_place<P>>, 3, 0, false, 4, 20000},
        {"epoll, one message", make_world<in_epoll<P, one_message<P>>>, 2, 0, true, 0, 20000},
        {"epoll, two messages", make_world<in_epoll<P, two_messages<P>>>, 2, 0, false, 5, 50000},
        {"epoll, message and report", make_world<in_epoll<P, either<P>>>, 3, 0, false, 4, 50000},
        {"epoll, reports, then a message", make_world<in_epoll<P, completions_then_message<P>>>, 2,
         0, false, 5, 50000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
