/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Channels (umbra/protocol/channel.h, protocol/lock.h) under the model checker. See checker.hpp.
 *
 * Each scenario: pushers and poppers that wait as um_channel_await() does, on an event that asks its
 * waiters in their order, perhaps until a deadline; perhaps a thread that closes. The copies are plain variables. Checked:
 * every item is popped once, in order, or still there; no more are there than fit; and no caller
 * sleeps on while it could go on (DEADLOCK).
 */
#include "checker.hpp"

#define UM_LOCK_LOOKS 0 /* they change nothing but the time */
#define UM_CHANNEL_CALM 2
#define UM_CHANNEL_RESTS 1
#define um_arch_pause() ((void)0)
#define um_channel_keep_order() ((void)0)

/* Makes all threads execute a fence, as the system call does. */
static void um_os_fence_threads()
{
    rl::ctx().sched();
    rl::ctx().rl_global_fence();
}

#include "channel_variants.hpp"

enum { PLACES = 2, ITEMS = 6, WAITERS = 3 };

/* When a deadline passes. */
enum { LATE, PERHAPS };

template <class P> struct channels : world {
    /* A waiter in its event's queue. */
    struct waiter {
        um_atomic_u32 bell;
        int which;
        bool announced;
    };

    /* An event: whichever call has the lock is its holder. */
    struct event {
        rl::mutex lock;
        waiter *queue[WAITERS];
        int count;
    };

    typename P::um_channel both;
    typename P::um_channel_side side[2];
    event events[2];
    rl::var<int> place[PLACES];
    waiter who[WAITERS];
    int popped[WAITERS][ITEMS];
    int got[WAITERS]; /* items that a thread has popped */
    int pushed;

    channels(bool one, int capacity)
    {
        um_kernel_now.spurious_left = 0;
        both.one = one;
        both.may_be_quick = true;
        um_atomic_store(&both.closed, 0, relaxed);
        for (int i = 0; i < 2; i++) {
            um_atomic_store(&both.waiting[i], 0, relaxed);
            um_atomic_store(&side[i].at, 0, relaxed);
            um_atomic_store(&side[i].quick, 0, relaxed);
            um_atomic_store(&side[i].lock.word, 0, relaxed);
            um_plain_write(side[i].calm, 0);
            um_plain_write(side[i].rest, 0);
            side[i].few = 0;
            side[i].ahead = i == P::UM_CHANNEL_PUSH ? (uint64_t)capacity : 0;
            um_plain_write(side[i].limit, side[i].ahead);
            events[i].count = 0;
        }
        for (int i = 0; i < PLACES; i++)
            um_plain_write(place[i], -1);
        for (int i = 0; i < WAITERS; i++) {
            um_atomic_store(&who[i].bell, 0, relaxed);
            got[i] = 0;
        }
        pushed = 0;
    }

    /* ---- the event ---- */

    bool over(waiter *w)
    {
        if (!P::um_channel_ready(&both, &side[w->which], &side[1 - w->which]))
            return false;
        if (w->announced)
            P::um_channel_retract(&both, (typename P::um_channel_which)w->which);
        w->announced = false;
        return true;
    }

    /* True if the waiter was still in the queue. */
    bool withdraw(event *e, waiter *w)
    {
        int at = 0;
        bool found;

        e->lock.lock($);
        while (at < e->count && e->queue[at] != w)
            at++;
        found = at < e->count;
        if (found)
            e->count--;
        for (; at < e->count; at++)
            e->queue[at] = e->queue[at + 1];
        e->lock.unlock($);
        return found;
    }

    /* False: the waiter has given up. */
    bool wait(int self, int which, int deadline)
    {
        waiter *w = &who[self];
        event *e = &events[which];
        bool ready;

        w->which = which;
        w->announced = true;
        P::um_channel_announce(&both, (typename P::um_channel_which)which, &side[1 - which]);
        e->lock.lock($);
        ready = over(w);
        if (!ready)
            e->queue[e->count++] = w;
        e->lock.unlock($);
        if (!ready && deadline == PERHAPS && rl::rand(2) && withdraw(e, w)) {
            P::um_channel_retract(&both, (typename P::um_channel_which)which);
            return false;
        }
        while (!ready && um_atomic_exchange(&w->bell, 0, acquire) == 0)
            um_os_futex_wait(&w->bell, 0, UMBRA_NEVER);
        return true;
    }

    void signal(int which)
    {
        event *e = &events[which];
        waiter *woken = NULL;

        e->lock.lock($);
        for (int i = 0; i < e->count && !woken; i++) {
            if (!over(e->queue[i]))
                continue;
            woken = e->queue[i];
            e->count--;
            for (int j = i; j < e->count; j++)
                e->queue[j] = e->queue[j + 1];
        }
        e->lock.unlock($);
        if (!woken)
            return;
        um_atomic_store(&woken->bell, 1, release);
        um_os_futex_wake(&woken->bell);
    }

    /* ---- the calls ---- */

    /* True if a turn of a side was taken; `item` is read or written. */
    bool turn(int which, int *item)
    {
        typename P::um_channel_side *mine = &side[which];
        uint64_t at = P::um_channel_enter(&both, mine);
        bool may, due = false;

        may = (which == P::UM_CHANNEL_POP || !P::um_channel_closed(&both)) &&
              P::um_channel_may(mine, &side[1 - which], at);
        if (may) {
            rl::var<int> &here = place[at % PLACES];

            if (which == P::UM_CHANNEL_PUSH)
                um_plain_write(here, *item);
            else
                *item = um_plain_read(here);
            due = P::um_channel_done(&both, (typename P::um_channel_which)which, mine, at);
        }
        P::um_channel_leave(&both, mine);
        if (due)
            signal(1 - which);
        return may;
    }

    /* True: pushed; false: closed, or given up. */
    bool push(int self, int item, int deadline = LATE)
    {
        while (!turn(P::UM_CHANNEL_PUSH, &item)) {
            if (P::um_channel_closed(&both))
                return false;
            if (!wait(self, P::UM_CHANNEL_PUSH, deadline))
                return false;
        }
        return true;
    }

    /* True: popped; false: closed and empty, or given up. */
    bool pop(int self, int deadline = LATE)
    {
        for (;;) {
            bool closed = P::um_channel_closed(&both);
            int item;

            if (turn(P::UM_CHANNEL_POP, &item)) {
                popped[self][got[self]++] = item;
                return true;
            }
            if (closed)
                return false;
            if (!wait(self, P::UM_CHANNEL_POP, deadline))
                return false;
        }
    }

    void close()
    {
        RL_ASSERT(P::um_channel_shut(&both, &side[P::UM_CHANNEL_PUSH]));
        for (int which = 0; which < 2; which++)
            for (uint32_t due = um_atomic_load(&both.waiting[which], seq_cst); due > 0; due--)
                signal(which);
    }

    /* How often an item was popped; each thread has popped in order. */
    int count_of(int item)
    {
        int count = 0;

        for (int i = 0; i < WAITERS; i++)
            for (int j = 0; j < got[i]; j++)
                count += popped[i][j] == item;
        return count;
    }

    void after()
    {
        RL_ASSERT(um_atomic_load(&both.waiting[0], relaxed) == 0);
        RL_ASSERT(um_atomic_load(&both.waiting[1], relaxed) == 0);
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
                RL_ASSERT(this->push(0, i));
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
                RL_ASSERT(this->push(0, i));
            this->close();
            RL_ASSERT(!this->push(0, 3));
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
                RL_ASSERT(this->push(index, 2 * index + i));
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
                RL_ASSERT(this->push(2, i));
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
            while (this->pushed < 2 && this->push(0, this->pushed))
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
                RL_ASSERT(this->push(2, i));
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
                RL_ASSERT(this->push(1, 2 + i));
        } else if (!this->push(0, 0, PERHAPS)) {
            this->push(0, 1, PERHAPS);
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
                if (!this->push(0, i, PERHAPS))
                    RL_ASSERT(this->push(0, i));
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
