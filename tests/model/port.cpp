/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Ports, and which receiver gets their messages (umbra/port/protocol.h, wait/lock.h) under the
 * model checker. See checker.hpp.
 *
 * Each scenario: posters; receivers that wait for branches of one port or more, as um_choose()
 * does, perhaps with a deadline; and threads that close or cancel. Checked: every message is
 * received once or is still in its port, in the order in which it was posted there; a choice gets
 * the messages of one branch, all of them; a receiver that can go is woken (else it sleeps for
 * ever: DEADLOCK), once; and no thread touches a choice after its end, or a port after its last
 * use.
 */
#include "checker.hpp"

#define UM_LOCK_LOOKS 0 /* they change nothing but the time */
#define um_arch_pause() ((void)0)
#define UMBRA_CACHE_LINE 1
#include "port_variants.hpp"

enum { PORTS = 3, MESSAGES = 6, SOURCES = 4, BRANCHES = 2, WAITERS = 3 };

/* When a deadline passes. */
enum { LATE, PERHAPS, AT_ONCE };

template <class P> struct ports : world {
    typedef typename P::umbra_port port_type;
    typedef typename P::umbra_message message_type;
    typedef typename P::umbra_branch branch_type;
    typedef typename P::um_waiter waiter_type;

    /* The waiters that a call wakes. */
    struct woken_type : P::um_waiters {
        woken_type()
        {
            empty(this);
        }
    };

    /* A waiter: its bell and its frame. */
    struct waiter {
        um_atomic_u32 bell;
        rl::var<int> rung; /* how often, since it waits; also finds a ring that is too late */
        typename P::um_choice choice;
        branch_type branch[BRANCHES];
        typename P::umbra_source source[SOURCES];
        typename P::um_choice poster;
        int got[MESSAGES];
        int count;
    };

    port_type *port[PORTS];
    message_type *message[MESSAGES];
    waiter *who[WAITERS];
    int received[MESSAGES];
    bool gone[PORTS];

    ports()
    {
        um_kernel_now.spurious_left = 0;
        for (int i = 0; i < PORTS; i++) {
            port[i] = um_place<port_type>(i);
            gone[i] = false;
            um_atomic_store(&port[i]->lock.word, 0, relaxed);
            um_plain_write(port[i]->closed, false);
            um_plain_write(port[i]->count, 0);
            um_plain_write(port[i]->first, (message_type *)NULL);
            empty(&port[i]->receives);
            empty(&port[i]->posts);
            port[i]->capacity = 0;
            um_atomic_store(&port[i]->fresh, 0, relaxed);
        }
        for (int i = 0; i < MESSAGES; i++) {
            message[i] = new message_type;
            received[i] = 0;
        }
        for (int i = 0; i < WAITERS; i++) {
            who[i] = new waiter;
            um_atomic_store(&who[i]->bell, 0, relaxed);
            um_plain_write(who[i]->rung, 0);
            um_atomic_store(&who[i]->choice.claim, 0, relaxed);
            who[i]->choice.waiter.bell = (typename P::umbra_event *)who[i];
            who[i]->choice.branch = who[i]->branch;
            who[i]->choice.count = 0;
            who[i]->poster.waiter.bell = (typename P::umbra_event *)who[i];
            um_plain_write(who[i]->poster.waiter.strict, false);
            um_plain_write(who[i]->poster.waiter.listed, false);
            who[i]->count = 0;
        }
    }

    ~ports()
    {
        for (int i = 0; i < PORTS; i++)
            if (!gone[i])
                port[i]->~port_type();
        for (int i = 0; i < MESSAGES; i++)
            delete message[i];
        for (int i = 0; i < WAITERS; i++)
            delete who[i];
    }

    static void empty(typename P::um_waiters *list)
    {
        um_plain_write(list->first, (waiter_type *)NULL);
        um_plain_write(list->last, (waiter_type *)NULL);
        um_plain_write(list->strict, 0);
    }

    /* ---- branches: before the threads start ---- */

    /* Adds one over the ports of the mask, the highest first, or (forward) the lowest. */
    void add_branch(int waits, unsigned mask, uint64_t items, bool forward = false)
    {
        waiter *w = who[waits];
        branch_type *branch = &w->branch[w->choice.count];
        int used = w->choice.count == 0 ? 0 : (int)w->branch[0].sources;

        branch->source = &w->source[used];
        branch->sources = 0;
        branch->items = items;
        branch->join = items == 0;
        branch->over = false;
        branch->choice = &w->choice;
        for (int i = 0; i < PORTS; i++) {
            int which = forward ? i : PORTS - 1 - i;
            typename P::umbra_source *source = &branch->source[branch->sources];

            if (!(mask >> which & 1))
                continue;
            source->port = port[which];
            source->branch = branch;
            um_plain_write(source->link.listed, false);
            um_plain_write(source->link.strict, false);
            branch->sources++;
        }
        w->choice.count++;
    }

    /* The port takes one message. */
    void bound(int which)
    {
        port[which]->capacity = 1;
        um_atomic_store(&port[which]->fresh, UM_PORT_SLOW, relaxed);
    }

    /* ---- what the threads do ---- */

    void ring(woken_type *out)
    {
        waiter_type *next;

        for (waiter_type *w = um_plain_read(out->first); w; w = next) {
            waiter *bell = (waiter *)w->bell;

            next = um_plain_read(w->next);
            um_plain_write(bell->rung, um_plain_read(bell->rung) + 1);
            um_atomic_store(&bell->bell, 1, release);
            um_os_futex_wake(&bell->bell);
        }
    }

    static bool passes(int deadline)
    {
        return deadline == AT_ONCE || (deadline == PERHAPS && rl::rand(2));
    }

    void await(waiter *w)
    {
        while (um_atomic_exchange(&w->bell, 0, acquire) == 0)
            um_os_futex_wait(&w->bell, 0, UMBRA_NEVER);
        RL_ASSERT(um_plain_read(w->rung) == 1);
        um_plain_write(w->rung, 0);
    }

    /* As um_choice_wait(). */
    int ended(waiter *w, typename P::um_choice *choice, int deadline)
    {
        if (passes(deadline) && P::um_choice_claim(choice))
            return -ETIMEDOUT;
        await(w);
        return um_plain_read(choice->result);
    }

    /* As um_choose(): the branch, or a negative errno. */
    int choose(int waits, int deadline = LATE)
    {
        waiter *w = who[waits];
        int result;

        do {
            woken_type out;

            result = P::um_choice_enter(&w->choice, 0, &out);
            ring(&out);
            if (result == UM_CHOICE_WAITS)
                result = ended(w, &w->choice, deadline);
            P::um_choice_leave(&w->choice);
        } while (result == UM_CHOICE_AGAIN);
        if (result >= 0)
            take(w, result);
        for (int i = 0; i < SOURCES; i++) /* only its waiter has it now */
            um_plain_write(w->source[i].link.listed, false);
        um_plain_write(w->choice.result, 0);
        return result;
    }

    void take(waiter *w, int result)
    {
        branch_type *branch = &w->branch[result];
        message_type *m = um_plain_read(w->choice.messages);
        uint64_t count = 0;

        for (; m; m = um_plain_read(m->next), count++) {
            int number = 0;

            RL_ASSERT(count < MESSAGES); /* no circle */
            if (branch->join)
                RL_ASSERT(um_plain_read(m->port) == branch->source[count].port);
            while (message[number] != m)
                number++;
            received[number]++;
            w->got[w->count++] = number;
        }
        RL_ASSERT(count == (branch->join ? branch->sources : branch->items));
    }

    /* As um_port_receive(), of one branch of one port: one message or more, or a negative errno. */
    int receive(int waits, uint64_t most)
    {
        int result = try_take(waits, most);

        return result == -EAGAIN ? choose(waits) : result;
    }

    /* The same, but it does not wait: -EAGAIN. */
    int try_take(int waits, uint64_t most)
    {
        waiter *w = who[waits];
        message_type *m = NULL;
        woken_type out;
        int result =
            P::um_port_try_take(w->branch[0].source->port, most, rl::rand(2) == 0, &m, &out);

        ring(&out);
        for (; m; m = um_plain_read(m->next)) {
            int number = 0;

            while (message[number] != m)
                number++;
            received[number]++;
            w->got[w->count++] = number;
        }
        return result;
    }

    int post(int number, int to, int poster = -1, int deadline = LATE)
    {
        woken_type out;
        waiter *w = poster < 0 ? NULL : who[poster];
        int result;

        if (w)
            um_atomic_store(&w->poster.claim, UM_CHOICE_OPEN, relaxed); /* anew by each post */
        result = P::um_port_post(port[to], message[number], poster < 0 ? NULL : &w->poster, &out);

        ring(&out);
        if (result != UM_CHOICE_WAITS)
            return result;
        result = ended(w, &w->poster, deadline);
        P::um_port_leave(port[to], &port[to]->posts, &w->poster.waiter);
        return result;
    }

    void close(int which)
    {
        woken_type out;

        RL_ASSERT(P::um_port_close(port[which], &out));
        ring(&out);
    }

    void cancel(int waits)
    {
        woken_type out;

        P::um_choice_cancel(&who[waits]->choice, &out);
        ring(&out);
    }

    /* No thread uses it any more. */
    void destroy(int which)
    {
        gone[which] = true;
        port[which]->~port_type();
    }

    /* ---- what must be so in the end ---- */

    /* Messages from..to-1 went to one port in this order: each received at most once and otherwise
     * still there, in this order. How many were received. */
    int account(int which, int from, int to)
    {
        int taken = 0;
        message_type *m = NULL;

        if (!gone[which]) {
            P::um_port_gather(port[which], 0);
            m = um_plain_read(port[which]->first);
        }

        for (int i = from; i < to; i++) {
            RL_ASSERT(received[i] <= 1);
            if (received[i]) {
                RL_ASSERT(taken == i - from); /* the oldest first */
                taken++;
                continue;
            }
            RL_ASSERT(m == message[i]);
            m = um_plain_read(m->next);
        }
        RL_ASSERT(!m);
        for (int i = 0; i < WAITERS; i++) {
            int last = -1;

            for (int j = 0; j < who[i]->count; j++) {
                int number = who[i]->got[j];

                if (number < from || number >= to)
                    continue;
                RL_ASSERT(number > last);
                last = number;
            }
        }
        return taken;
    }
};

/* ---- one port ---- */

/* Two post one each, two receive one each. */
template <class P> struct two_and_two : ports<P> {
    two_and_two()
    {
        this->add_branch(0, 1, 1);
        this->add_branch(1, 1, 1);
    }

    void thread(int index)
    {
        if (index < 2)
            RL_ASSERT(this->post(index, 0) == 0);
        else
            RL_ASSERT(this->choose(index - 2) == 0);
    }

    void after()
    {
        RL_ASSERT(this->received[0] == 1 && this->received[1] == 1);
    }
};

/* Some messages, one by one or together; the port goes with the receiver. */
template <class P, int Items> struct goes_with_receiver : ports<P> {
    goes_with_receiver()
    {
        this->add_branch(0, 1, Items);
    }

    void thread(int index)
    {
        if (index == 0) {
            for (int i = 0; i < 2; i++)
                RL_ASSERT(this->post(i, 0) == 0);
            return;
        }
        for (int i = 0; i < 2; i += Items)
            RL_ASSERT(this->choose(0) == 0);
        this->destroy(0);
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 2) == 2);
    }
};

/* A waiter that gives up, and one that comes after it. */
template <class P> struct gives_up : ports<P> {
    int result[2];

    gives_up()
    {
        this->add_branch(0, 1, 1);
        this->add_branch(1, 1, 1);
    }

    void thread(int index)
    {
        if (index == 0)
            RL_ASSERT(this->post(0, 0) == 0);
        else
            result[index - 1] = this->choose(index - 1, AT_ONCE);
    }

    void after()
    {
        int taken = this->account(0, 0, 1);

        RL_ASSERT((result[0] == 0) + (result[1] == 0) == taken);
    }
};

/* Room for one: a poster waits, or gives up; all arrive that are not given up. */
template <class P, bool Deadline> struct bounded : ports<P> {
    int posted;

    bounded()
    {
        this->bound(0);
        this->add_branch(0, 1, 1);
    }

    void thread(int index)
    {
        if (index == 0) {
            posted = 0;
            while (posted < 3 && this->post(posted, 0, 1, Deadline ? PERHAPS : LATE) == 0)
                posted++;
            this->close(0);
            return;
        }
        while (this->choose(0) == 0)
            ;
    }

    void after()
    {
        RL_ASSERT(posted == 3 || Deadline);
        RL_ASSERT(this->account(0, 0, posted) == posted);
        for (int i = posted; i < 3; i++)
            RL_ASSERT(this->received[i] == 0); /* given up */
    }
};

/* A poster waits for room, and may give up; the port goes with the receiver when it has all. */
template <class P> struct room_and_gone : ports<P> {
    int result;

    room_and_gone()
    {
        this->bound(0);
        this->add_branch(0, 1, 1);
        RL_ASSERT(this->post(0, 0) == 0);
    }

    void thread(int index)
    {
        if (index == 0) {
            result = this->post(1, 0, 1, PERHAPS);
            return;
        }
        for (int i = 0; i < 2; i++)
            if (this->choose(0, i == 0 ? LATE : AT_ONCE) != 0)
                return;
        this->destroy(0);
    }

    void after()
    {
        RL_ASSERT(this->received[0] == 1 && this->received[1] <= (result == 0));
    }
};

/* Two posters wait for room, of which the first may give up: the other is admitted all the same. */
template <class P> struct passed_by : ports<P> {
    int result;

    passed_by()
    {
        this->bound(0);
        this->add_branch(0, 1, 1);
        RL_ASSERT(this->post(0, 0) == 0);
    }

    void thread(int index)
    {
        if (index == 0)
            result = this->post(1, 0, 1, PERHAPS);
        else if (index == 1)
            RL_ASSERT(this->post(2, 0, 2) == 0);
        else
            for (int i = 0; i < 2; i++)
                RL_ASSERT(this->choose(0) == 0);
    }

    void after()
    {
        RL_ASSERT(this->received[0] == 1 && this->received[1] + this->received[2] == 1);
        RL_ASSERT(result == 0 || this->received[1] == 0);
    }
};

/* Two posters that wait for the same room. */
template <class P> struct crowded : ports<P> {
    crowded()
    {
        this->bound(0);
        this->add_branch(0, 1, 1);
    }

    void thread(int index)
    {
        if (index < 2) {
            for (int i = 0; i < 2; i++)
                RL_ASSERT(this->post(2 * index + i, 0, 1 + index) == 0);
            return;
        }
        for (int i = 0; i < 4; i++) {
            RL_ASSERT(this->choose(0) == 0);
            P::um_lock_take(&this->port[0]->lock);
            RL_ASSERT(um_plain_read(this->port[0]->count) <= 1);
            P::um_lock_release(&this->port[0]->lock);
        }
    }

    void after()
    {
        for (int i = 0; i < 4; i++)
            RL_ASSERT(this->received[i] == 1);
    }
};

/* Closed while a poster waits for room that no receiver makes. */
template <class P> struct closed_full : ports<P> {
    closed_full()
    {
        this->bound(0);
    }

    void thread(int index)
    {
        if (index == 1) {
            this->close(0);
            return;
        }
        this->post(0, 0, 1);
        RL_ASSERT(this->post(1, 0, 1) == -EPIPE);
    }
};

/* Closed while one waits to receive and one, perhaps, for room. */
template <class P> struct closed : ports<P> {
    int posted, result;

    closed()
    {
        this->bound(0);
        this->add_branch(0, 1, 1);
    }

    void thread(int index)
    {
        if (index == 0) {
            posted = 0;
            for (int i = 0; i < 2; i++)
                posted += this->post(posted, 0, 1) == 0;
        } else if (index == 1) {
            this->close(0);
        } else {
            result = this->choose(0);
        }
    }

    void after()
    {
        RL_ASSERT(result == 0 || result == -EPIPE);
        RL_ASSERT(result == 0 || posted == 0);
        RL_ASSERT(this->account(0, 0, posted) == (result == 0));
    }
};

/* Two post some each, without a lock while the receiver does not wait; it takes what is there. */
template <class P, int Most> struct stream : ports<P> {
    stream()
    {
        this->add_branch(0, 1, 1);
    }

    void thread(int index)
    {
        if (index < 2) {
            for (int i = 0; i < 2; i++)
                RL_ASSERT(this->post(2 * index + i, 0) == 0);
            return;
        }
        while (this->who[0]->count < 4)
            RL_ASSERT(this->receive(0, Most) == 0);
    }

    void after()
    {
        int at[4];

        for (int i = 0; i < 4; i++)
            at[this->who[0]->got[i]] = i;
        for (int i = 0; i < 4; i++)
            RL_ASSERT(this->received[i] == 1);
        RL_ASSERT(at[0] < at[1] && at[2] < at[3]);
    }
};

/* Two receive, of which one may wait when the other makes the port fast. */
template <class P> struct two_receive : ports<P> {
    two_receive()
    {
        this->add_branch(0, 1, 1);
        this->add_branch(1, 1, 1);
    }

    void thread(int index)
    {
        if (index == 2) {
            for (int i = 0; i < 4; i++)
                RL_ASSERT(this->post(i, 0) == 0);
            return;
        }
        for (int i = 0; i < 2; i++)
            RL_ASSERT(this->receive(index, 1) == 0);
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 4) == 4);
    }
};

/* Closed while one posts without a lock, and one receives all. */
template <class P> struct closed_stream : ports<P> {
    int posted, result;

    closed_stream()
    {
        this->add_branch(0, 1, 1);
    }

    void thread(int index)
    {
        if (index == 0) {
            posted = 0;
            while (posted < 3 && this->post(posted, 0) == 0)
                posted++;
        } else if (index == 1) {
            this->close(0);
        } else {
            while ((result = this->receive(0, 2)) == 0)
                ;
        }
    }

    void after()
    {
        RL_ASSERT(result == -EPIPE && this->account(0, 0, posted) == posted);
    }
};

/* ---- several ports ---- */

/* A join of three, posted to by three. */
template <class P, int Joined> struct join : ports<P> {
    join()
    {
        this->add_branch(0, (1u << Joined) - 1, 0);
    }

    void thread(int index)
    {
        if (index == Joined)
            RL_ASSERT(this->choose(0) == 0);
        else
            RL_ASSERT(this->post(index, index) == 0);
    }

    void after()
    {
        for (int i = 0; i < Joined; i++)
            RL_ASSERT(this->account(i, i, i + 1) == 1);
    }
};

/* A join of two ports, one of which has more than it needs: it gets the oldest. */
template <class P> struct oldest_joined : ports<P> {
    oldest_joined()
    {
        this->add_branch(0, 3, 0, true);
    }

    void thread(int index)
    {
        if (index == 2) {
            RL_ASSERT(this->choose(0) == 0);
        } else if (index == 1) {
            RL_ASSERT(this->post(2, 1) == 0);
        } else {
            for (int i = 0; i < 2; i++)
                RL_ASSERT(this->post(i, 0) == 0);
        }
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 2) == 1 && this->account(1, 2, 3) == 1);
    }
};

/* Two joins of the same ports, named in opposite orders; messages for both, from two. */
template <class P> struct two_joins : ports<P> {
    two_joins()
    {
        this->add_branch(0, 3, 0);
        this->add_branch(1, 3, 0, true);
    }

    void thread(int index)
    {
        if (index >= 2) {
            RL_ASSERT(this->choose(index - 2) == 0);
            return;
        }
        for (int i = 0; i < 2; i++)
            RL_ASSERT(this->post(2 * index + i, index) == 0);
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 2) == 2 && this->account(1, 2, 4) == 2);
    }
};

/* Two joins that share only the middle port; messages for one of them, and in time for both. */
template <class P> struct chained_joins : ports<P> {
    chained_joins()
    {
        this->add_branch(0, 3, 0);
        this->add_branch(1, 6, 0, true);
    }

    void thread(int index)
    {
        if (index >= 1) {
            RL_ASSERT(this->choose(index - 1) == 0);
            return;
        }
        this->post(0, 0);
        this->post(1, 1);
        this->post(2, 2);
        this->post(3, 1);
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 1) == 1 && this->account(2, 2, 3) == 1);
        RL_ASSERT(this->received[1] == 1 && this->received[3] == 1);
    }
};

/* A join, and a receiver that lives on one of its ports. */
template <class P> struct join_and_receive : ports<P> {
    join_and_receive()
    {
        this->add_branch(0, 3, 0);
        this->add_branch(1, 1, 1);
    }

    void thread(int index)
    {
        if (index >= 2) {
            RL_ASSERT(this->choose(index - 2) == 0);
        } else if (index == 0) {
            this->post(0, 0);
            this->post(1, 0);
        } else {
            this->post(2, 1);
        }
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 2) == 2 && this->account(1, 2, 3) == 1);
    }
};

/*
 * A join, and a thread that takes from one of its ports what is there, and does not wait. Bounded:
 * that port takes one message, so a post to it may wait until one is taken.
 */
template <class P, bool Bounded> struct try_beside_join : ports<P> {
    int tried;

    try_beside_join()
    {
        if (Bounded)
            this->bound(0);
        this->add_branch(0, 3, 0);
        this->add_branch(1, 1, 1);
    }

    void thread(int index)
    {
        if (index == 0) {
            RL_ASSERT(this->post(0, 0, 2) == 0);
            RL_ASSERT(this->post(1, 0, 2) == 0);
        } else if (index == 1) {
            RL_ASSERT(this->post(2, 1) == 0);
        } else if (index == 2) {
            RL_ASSERT(this->choose(0) == 0);
        } else {
            tried = this->try_take(1, 1);
        }
    }

    void after()
    {
        RL_ASSERT(tried == 0 || tried == -EAGAIN);
        RL_ASSERT(this->account(0, 0, 2) == 1 + (tried == 0));
        RL_ASSERT(this->account(1, 2, 3) == 1);
    }
};

/* Two joins that wait for the same port, and a thread that tries to take all of it, again and
 * again; then a message comes for each that has missed its own. */
template <class P> struct try_beside_joins : ports<P> {
    int tried;

    try_beside_joins()
    {
        this->add_branch(0, 3, 0);
        this->add_branch(1, 3, 0, true);
        this->add_branch(2, 1, 1);
    }

    void thread(int index)
    {
        if (index == 0) {
            tried = 0;
            for (int i = 0; i < 2; i++) {
                RL_ASSERT(this->post(i, 0) == 0);
                tried += this->try_take(2, 2) == 0 ? this->who[2]->count - tried : 0;
            }
            for (int i = 0; i < tried; i++)
                RL_ASSERT(this->post(2 + i, 0) == 0);
        } else if (index == 1) {
            for (int i = 4; i < 6; i++)
                RL_ASSERT(this->post(i, 1) == 0);
        } else {
            RL_ASSERT(this->choose(index - 2) == 0);
        }
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 2 + tried) == 2 + tried);
        RL_ASSERT(this->account(1, 4, 6) == 2);
    }
};

/* A choice of two ports that are both posted to, perhaps given up: one branch, the other waits. */
template <class P, bool Deadline> struct choice : ports<P> {
    int result;

    choice()
    {
        this->add_branch(0, 1, 1);
        this->add_branch(0, 2, 1);
    }

    void thread(int index)
    {
        if (index < 2)
            RL_ASSERT(this->post(index, index) == 0);
        else
            result = this->choose(0, Deadline ? PERHAPS : LATE);
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 1) == (result == 0));
        RL_ASSERT(this->account(1, 1, 2) == (result == 1));
        RL_ASSERT(result >= 0 || Deadline);
    }
};

/* A branch for once and another; the port of the first goes when that has had its message. */
template <class P> struct once : ports<P> {
    once()
    {
        this->add_branch(0, 1, 1);
        this->add_branch(0, 2, 1);
    }

    void thread(int index)
    {
        if (index == 0) {
            RL_ASSERT(this->post(0, 0) == 0);
            return;
        }
        if (index == 1) {
            for (int i = 1; i < 3; i++)
                RL_ASSERT(this->post(i, 1) == 0);
            return;
        }
        for (int i = 0; i < 3; i++) {
            if (this->choose(0) == 1)
                continue;
            this->who[0]->branch[0].over = true;
            this->destroy(0);
        }
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 1) == 1 && this->account(1, 1, 3) == 2);
    }
};

/* A choice of a join and a port of its own. */
template <class P> struct choice_of_join : ports<P> {
    int result;

    choice_of_join()
    {
        this->add_branch(0, 3, 0);
        this->add_branch(0, 4, 1);
    }

    void thread(int index)
    {
        if (index == 0) {
            this->post(0, 0);
            this->post(1, 1);
        } else if (index == 1) {
            this->post(2, 2);
        } else {
            result = this->choose(0);
        }
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 1) == (result == 0));
        RL_ASSERT(this->account(1, 1, 2) == (result == 0));
        RL_ASSERT(this->account(2, 2, 3) == (result == 1));
    }
};

/* Three messages of two ports together. */
template <class P> struct together : ports<P> {
    together()
    {
        this->add_branch(0, 3, 3);
    }

    void thread(int index)
    {
        if (index == 2) {
            RL_ASSERT(this->choose(0) == 0);
        } else if (index == 0) {
            this->post(0, 0);
            this->post(1, 0);
        } else {
            this->post(2, 1);
            this->post(3, 1);
        }
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 2) + this->account(1, 2, 4) == 3);
    }
};

/* A join with a port that is closed with a message in it, which another receiver may take. */
template <class P> struct join_closed : ports<P> {
    int joined, taken;

    join_closed()
    {
        this->add_branch(0, 3, 0);
        this->add_branch(1, 1, 1);
    }

    void thread(int index)
    {
        if (index == 0) {
            this->post(0, 0);
            this->close(0);
            this->post(1, 1);
        } else if (index == 1) {
            joined = this->choose(0);
        } else {
            taken = this->choose(1);
        }
    }

    void after()
    {
        RL_ASSERT((joined == 0) != (taken == 0));
        RL_ASSERT((joined == -EPIPE) != (taken == -EPIPE));
        RL_ASSERT(this->account(0, 0, 1) == 1);
        RL_ASSERT(this->account(1, 1, 2) == (joined == 0));
    }
};

/* A receiver that waits again and again is cancelled meanwhile. */
template <class P> struct cancelled : ports<P> {
    int taken;

    cancelled()
    {
        this->add_branch(0, 1, 1);
    }

    void thread(int index)
    {
        int result;

        if (index == 0) {
            this->post(0, 0);
            this->post(1, 0);
        } else if (index == 1) {
            this->cancel(0);
        } else {
            for (taken = 0; (result = this->choose(0)) == 0; taken++)
                ;
            RL_ASSERT(result == -ECANCELED);
        }
    }

    void after()
    {
        RL_ASSERT(this->account(0, 0, 2) == taken);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"two and two", make_world<two_and_two<P>>, 4, 0, false, 0, 60000},
        {"receiver and port", make_world<goes_with_receiver<P, 1>>, 2, 0, false, 2, 10000},
        {"two together", make_world<goes_with_receiver<P, 2>>, 2, 0, false, 2, 10000},
        {"giving up", make_world<gives_up<P>>, 3, 0, false, 0, 30000},
        {"bounded", make_world<bounded<P, false>>, 2, 0, false, 0, 30000},
        {"bounded, with deadlines", make_world<bounded<P, true>>, 2, 0, false, 0, 30000},
        {"room, and gone", make_world<room_and_gone<P>>, 2, 0, false, 2, 10000},
        {"crowded", make_world<crowded<P>>, 3, 0, false, 0, 30000},
        {"closed", make_world<closed<P>>, 3, 0, false, 0, 30000},
        {"closed when full", make_world<closed_full<P>>, 2, 0, false, 2, 10000},
        {"stream", make_world<stream<P, 1>>, 3, 0, false, 0, 30000},
        {"stream, some at once", make_world<stream<P, 3>>, 3, 0, false, 0, 30000},
        {"two receive", make_world<two_receive<P>>, 3, 0, false, 0, 30000},
        {"closed stream", make_world<closed_stream<P>>, 3, 0, false, 0, 30000},
        {"join", make_world<join<P, 2>>, 3, 0, false, 0, 60000},
        {"oldest joined", make_world<oldest_joined<P>>, 3, 0, false, 0, 60000},
        {"join of three", make_world<join<P, 3>>, 4, 0, false, 0, 30000},
        {"two joins", make_world<two_joins<P>>, 4, 0, false, 0, 60000},
        {"chained joins", make_world<chained_joins<P>>, 3, 0, false, 0, 30000},
        {"join and receive", make_world<join_and_receive<P>>, 4, 0, false, 0, 30000},
        {"try beside a join", make_world<try_beside_join<P, false>>, 4, 0, false, 0, 30000},
        {"try beside a join, bounded", make_world<try_beside_join<P, true>>, 4, 0, false, 0, 30000},
        {"try beside two joins", make_world<try_beside_joins<P>>, 4, 0, false, 0, 30000},
        {"passed by", make_world<passed_by<P>>, 3, 0, false, 0, 30000},
        {"choice", make_world<choice<P, false>>, 3, 0, false, 0, 60000},
        {"choice given up", make_world<choice<P, true>>, 3, 0, false, 0, 30000},
        {"once", make_world<once<P>>, 3, 0, false, 0, 30000},
        {"choice of a join", make_world<choice_of_join<P>>, 3, 0, false, 0, 30000},
        {"items together", make_world<together<P>>, 3, 0, false, 0, 30000},
        {"join closed", make_world<join_closed<P>>, 3, 0, false, 0, 60000},
        {"cancelled", make_world<cancelled<P>>, 3, 0, false, 0, 60000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
