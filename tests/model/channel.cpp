/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Channels (umbra/channel/protocol.h, wait/lock.h, and the calls of umbra/channel.h) under the
 * model checker. See checker.hpp.
 *
 * Each scenario: pushers and poppers, which wait, perhaps until a deadline; perhaps a thread that
 * closes. The copies are plain variables. Checked: every item is popped once, in order, or still
 * there; no more are there than fit; and no caller sleeps on while it could go on (DEADLOCK).
 */
#include "checker.hpp"

#define UM_ALWAYS_INLINE static inline
#define UM_CHANNEL_CALM 2
#define UM_CHANNEL_FEW 0
#define UM_CHANNEL_RESTS 1
#define UM_CHANNEL_LINES_POP 2
#define UM_LOCK_LOOKS 0 /* they change nothing but the time */
#define UM_MODEL_PLACES 2
#define UMBRA_CACHE_LINE 64
#define um_arch_pause() ((void)0)
#define um_arch_prefetch_read(at) ((void)0)
#define um_arch_prefetch_write(at) ((void)0)
#define um_channel_keep_order() ((void)0)

/* Makes all threads execute a fence, as the system call does. */
static void um_os_fence_threads()
{
    rl::ctx().sched();
    rl::ctx().rl_global_fence();
}

#include "channel_variants.hpp"

enum { ITEMS = 6, CALLERS = 3 };

/* A deadline that may pass at any moment. */
enum : uint64_t { PERHAPS = 1 };

template <class P> struct channels : world {
    typename P::umbra_channel channel;
    int popped[CALLERS][ITEMS];
    int got[CALLERS]; /* items that a thread has popped */
    int pushed;

    channels(bool one, int capacity)
    {
        um_kernel_now.spurious_left = 0;
        channel.both.one = one;
        channel.both.may_be_quick = true;
        channel.item_bytes = sizeof(int);
        um_atomic_store(&channel.both.closed, 0, relaxed);
        for (int i = 0; i < 2; i++)
            clear(i, i == P::UM_CHANNEL_PUSH ? (uint64_t)capacity : 0);
        for (int i = 0; i < UM_MODEL_PLACES; i++)
            um_plain_write(channel.ring[i], -1);
        for (int i = 0; i < CALLERS; i++)
            got[i] = 0;
        pushed = 0;
    }

    void clear(int which, uint64_t ahead)
    {
        typename P::um_channel_side *side = &channel.half[which].side;
        typename P::um_event *event = &channel.half[which].event.event;

        um_atomic_store(&channel.both.waiting[which], 0, relaxed);
        um_atomic_store(&side->at, 0, relaxed);
        um_atomic_store(&side->quick, 0, relaxed);
        um_atomic_store(&side->lock.word, 0, relaxed);
        um_plain_write(side->calm, 0);
        um_plain_write(side->rest, 0);
        um_plain_write(side->limit, ahead);
        side->few = 0;
        side->ahead = ahead;
        event->count = 0;
        for (int i = 0; i < UM_THREADS_MOST; i++)
            um_atomic_store(&event->waiter[i].bell, 0, relaxed);
    }

    /* True: pushed; false: closed, or given up. */
    bool push(int item, uint64_t deadline = UMBRA_NEVER)
    {
        int error = P::um_channel_push_at(&channel, &item, deadline, NULL);

        RL_ASSERT(error == 0 || error == -EPIPE || (error == -ETIMEDOUT && deadline == PERHAPS));
        return error == 0;
    }

    /* True: popped; false: closed and empty, or given up. */
    bool pop(int self, uint64_t deadline = UMBRA_NEVER)
    {
        int item = -1;
        int error = P::um_channel_pop_at(&channel, &item, deadline, NULL);

        RL_ASSERT(error == 0 || error == -EPIPE || (error == -ETIMEDOUT && deadline == PERHAPS));
        if (error == 0)
            popped[self][got[self]++] = item;
        return error == 0;
    }

    void close()
    {
        RL_ASSERT(P::umbra_channel_close(&channel) == 0);
    }

    /* How often an item was popped; each thread has popped in order. */
    int count_of(int item)
    {
        int count = 0;

        for (int i = 0; i < CALLERS; i++)
            for (int j = 0; j < got[i]; j++)
                count += popped[i][j] == item;
        return count;
    }

    void after()
    {
        RL_ASSERT(um_atomic_load(&channel.both.waiting[0], relaxed) == 0);
        RL_ASSERT(um_atomic_load(&channel.both.waiting[1], relaxed) == 0);
    }
};

/* One on each side, which both wait, and become quick and careful. */
template <class P, int Places, int Items> struct one_to_one : channels<P> {
    one_to_one() : channels<P>(true, Places)
    {
    }

    void thread(int index)
    {
        for (int i = 0; i < Items; i++) {
            if (index == 0) {
                RL_ASSERT(this->push(i));
            } else {
                RL_ASSERT(this->pop(1));
                RL_ASSERT(this->popped[1][i] == i);
            }
        }
    }
};

/* The pusher closes at the end; the popper sees all before that. */
template <class P, bool One> struct closed : channels<P> {
    closed() : channels<P>(One, 2)
    {
    }

    void thread(int index)
    {
        if (index == 0) {
            for (int i = 0; i < 3; i++)
                RL_ASSERT(this->push(i));
            this->close();
            RL_ASSERT(!this->push(3));
        } else {
            while (this->pop(1))
                ;
            RL_ASSERT(this->got[1] == 3);
        }
    }
};

/* Two push, one pops. */
template <class P> struct two_push : channels<P> {
    two_push() : channels<P>(false, 1)
    {
    }

    void thread(int index)
    {
        if (index < 2) {
            for (int i = 0; i < 2; i++)
                RL_ASSERT(this->push(2 * index + i));
        } else {
            for (int i = 0; i < 4; i++)
                RL_ASSERT(this->pop(2));
        }
    }

    void after()
    {
        channels<P>::after();
        for (int i = 0; i < 4; i++)
            RL_ASSERT(this->count_of(i) == 1);
    }
};

/* Two pop, one pushes. */
template <class P> struct two_pop : channels<P> {
    two_pop() : channels<P>(false, 2)
    {
    }

    void thread(int index)
    {
        if (index == 2) {
            for (int i = 0; i < 4; i++)
                RL_ASSERT(this->push(i));
        } else {
            for (int i = 0; i < 2; i++)
                RL_ASSERT(this->pop(index));
        }
    }

    void after()
    {
        channels<P>::after();
        for (int i = 0; i < 4; i++)
            RL_ASSERT(this->count_of(i) == 1);
        for (int i = 0; i < 2; i++)
            RL_ASSERT(this->popped[i][0] < this->popped[i][1]);
    }
};

/* A third thread closes while one pushes and one pops; both may wait. */
template <class P> struct closed_meanwhile : channels<P> {
    closed_meanwhile() : channels<P>(false, 1)
    {
    }

    void thread(int index)
    {
        if (index == 0) {
            while (this->pushed < 2 && this->push(this->pushed))
                this->pushed++;
        } else if (index == 1) {
            while (this->pop(1))
                ;
        } else {
            this->close();
        }
    }

    void after()
    {
        channels<P>::after();
        RL_ASSERT(this->got[1] == this->pushed);
    }
};

/* Two that wait to pop when the channel is closed. */
template <class P> struct both_end : channels<P> {
    both_end() : channels<P>(false, 1)
    {
    }

    void thread(int index)
    {
        if (index == 2)
            this->close();
        else
            RL_ASSERT(!this->pop(index));
    }
};

/* An empty channel: one of two that wait to pop may give up, and comes again. */
template <class P> struct empty_given_up : channels<P> {
    empty_given_up() : channels<P>(false, 2)
    {
    }

    void thread(int index)
    {
        if (index == 2) {
            for (int i = 0; i < 3; i++)
                RL_ASSERT(this->push(i));
        } else if (index == 1) {
            RL_ASSERT(this->pop(1));
        } else {
            for (int i = 0; i < 2; i++)
                this->pop(0, PERHAPS);
        }
    }

    void after()
    {
        channels<P>::after();
        for (int i = 0; i < 3; i++)
            RL_ASSERT(this->count_of(i) == (i < this->got[0] + this->got[1]));
    }
};

/* A full channel: one of two that wait to push may give up, and comes again. */
template <class P> struct full_given_up : channels<P> {
    full_given_up() : channels<P>(false, 1)
    {
    }

    void thread(int index)
    {
        if (index == 2) {
            for (int i = 0; i < 2; i++)
                RL_ASSERT(this->pop(2));
        } else if (index == 1) {
            for (int i = 0; i < 2; i++)
                RL_ASSERT(this->push(2 + i));
        } else if (!this->push(0, PERHAPS)) {
            this->push(1, PERHAPS);
        }
    }

    void after()
    {
        channels<P>::after();
        for (int i = 0; i < 4; i++)
            RL_ASSERT(this->count_of(i) <= 1);
        RL_ASSERT(this->got[2] == 2);
    }
};

/* One on each side, with both paces; both may give up each time, and come again. */
template <class P> struct both_give_up : channels<P> {
    both_give_up() : channels<P>(true, 1)
    {
    }

    void thread(int index)
    {
        for (int i = 0; i < 4; i++) {
            if (index == 0) {
                if (!this->push(i, PERHAPS))
                    RL_ASSERT(this->push(i));
            } else {
                if (!this->pop(1, PERHAPS))
                    RL_ASSERT(this->pop(1));
                RL_ASSERT(this->popped[1][i] == i);
            }
        }
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"one to one", make_world<one_to_one<P, 2, 5>>, 2, 0, false, 0, 60000},
        {"one place", make_world<one_to_one<P, 1, 5>>, 2, 0, false, 0, 40000},
        {"one place, few items", make_world<one_to_one<P, 1, 2>>, 2, 0, false, 2, 2000},
        {"closed", make_world<closed<P, true>>, 2, 0, false, 0, 30000},
        {"closed, many", make_world<closed<P, false>>, 2, 0, false, 0, 20000},
        {"two push", make_world<two_push<P>>, 3, 0, false, 0, 30000},
        {"two pop", make_world<two_pop<P>>, 3, 0, false, 0, 30000},
        {"closed meanwhile", make_world<closed_meanwhile<P>>, 3, 0, false, 0, 30000},
        {"both end", make_world<both_end<P>>, 3, 0, false, 0, 20000},
        {"empty, given up", make_world<empty_given_up<P>>, 3, 0, false, 0, 30000},
        {"full, given up", make_world<full_given_up<P>>, 3, 0, false, 0, 30000},
        {"both give up", make_world<both_give_up<P>>, 2, 0, false, 0, 30000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
