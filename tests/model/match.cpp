/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Which receive gets which message (mpi/match.h) under the model checker. See checker.hpp.
 *
 * Senders send numbered messages, each waiting until its data was taken, or leaving a copy; one
 * receiver receives. Checked: each receive gets a message of its own, those of a sender in their
 * order; no side touches a message or receive that has ended; a receive from a task that ends, and
 * one that is taken back, ends too (else: DEADLOCK); a message that is taken back is not received.
 */
#include "checker.hpp"

#define UM_LOCK_LOOKS 0 /* they change nothing but the time */
#define um_arch_pause() ((void)0)
#include "match_variants.hpp"

enum { SENDERS = 2, MESSAGES = 2 };

template <class P> struct boxes : world {
    typedef typename P::um_box box_type;
    typedef typename P::um_message message_type;
    typedef typename P::um_receive receive_type;
    typedef typename P::um_envelope envelope_type;

    box_type *box;                             /* the receiver's */
    message_type *message[SENDERS][MESSAGES];  /* in the sender's memory, or copies */
    rl::var<int> data[SENDERS][MESSAGES];      /* of the sender, which uses it again */
    receive_type *receive[SENDERS * MESSAGES]; /* in the receiver's memory */
    um_atomic_u32 bell[SENDERS + 1];           /* of senders, and the receiver */
    um_atomic_u32 ended;                       /* a sender has */

    boxes()
    {
        um_kernel_now.spurious_left = 0;
        box = um_place<box_type>(0);
        um_atomic_store(&box->lock.word, 0, relaxed);
        um_plain_write(box->message, (message_type *)NULL);
        um_plain_write(box->last_message, (message_type *)NULL);
        um_plain_write(box->receive, (receive_type *)NULL);
        um_plain_write(box->last_receive, (receive_type *)NULL);
        um_plain_write(box->closed, false);
        um_plain_write(box->probers, 0);
        um_atomic_store(&box->arrivals, 0, relaxed);
        um_atomic_store(&ended, 0, relaxed);
        for (int i = 0; i <= SENDERS; i++)
            um_atomic_store(&bell[i], 0, relaxed);
        for (int i = 0; i < SENDERS; i++)
            for (int k = 0; k < MESSAGES; k++)
                message[i][k] = new message_type;
        for (int i = 0; i < SENDERS * MESSAGES; i++)
            receive[i] = new receive_type;
    }

    ~boxes()
    {
        box->~box_type();
        for (int i = 0; i < SENDERS; i++)
            for (int k = 0; k < MESSAGES; k++)
                delete message[i][k];
        for (int i = 0; i < SENDERS * MESSAGES; i++)
            delete receive[i];
    }

    void ring(int whose)
    {
        um_atomic_exchange(&bell[whose], 1, acq_rel); /* as an event: a signal that merges, too */
        um_os_futex_wake(&bell[whose]);
    }

    uint32_t await(int own, um_atomic_u32 *done)
    {
        while (P::um_side_ended(done) == UM_PENDING)
            if (um_atomic_exchange(&bell[own], 0, acquire) == 0)
                um_os_futex_wait(&bell[own], 0, UMBRA_NEVER);
        return P::um_side_ended(done);
    }

    /* As deliver(): a receive gets the number of the message. */
    void deliver(receive_type *to, message_type *m, int from)
    {
        to->got = m->is;
        um_plain_write(to->bytes, (size_t)um_plain_read(data[from][m->is.tag]));
        P::um_side_end(&to->done, UM_DONE);
        ring(SENDERS);
    }

    /* True if the message is listed; else a receive has it. */
    bool list(int from, int number, bool waits)
    {
        message_type *m = message[from][number];
        receive_type *to;

        m->is.context = 1;
        m->is.source = from;
        m->is.tag = number;
        m->sender = waits ? m : NULL;
        um_atomic_store(&m->done, UM_PENDING, relaxed);
        um_plain_write(data[from][number], 100 * from + number);
        if (P::um_box_send(box, &m->is, m, &to) != P::UM_SENT_MATCHED)
            return true;
        deliver(to, m, from);
        um_plain_write(data[from][number], -1); /* the sender's again, here and below */
        return false;
    }

    void finish(int from, int number)
    {
        RL_ASSERT(await(from, &message[from][number]->done) == UM_DONE);
        um_plain_write(data[from][number], -1);
    }

    void send(int from, int number, bool waits)
    {
        if (list(from, number, waits) && waits)
            finish(from, number);
    }

    void begin(int which, int source, int tag)
    {
        receive_type *r = receive[which];
        message_type *m;

        r->wants.context = 1;
        r->wants.source = source;
        r->wants.tag = tag;
        um_atomic_store(&r->done, UM_PENDING, relaxed);
        m = P::um_box_receive(box, r);
        if (!m)
            return;
        r->got = m->is;
        um_plain_write(r->bytes, (size_t)um_plain_read(data[m->is.source][m->is.tag]));
        um_atomic_store(&r->done, UM_DONE, relaxed);
        if (m->sender) {
            int source_of = m->is.source;

            P::um_side_end(&m->done, UM_DONE);
            ring(source_of);
        }
    }

    uint32_t end(int which)
    {
        receive_type *r = receive[which];
        uint32_t how = await(SENDERS, &r->done);

        if (how == UM_DONE)
            RL_ASSERT(um_plain_read(r->bytes) == (size_t)(100 * r->got.source + r->got.tag));
        um_plain_write(r->bytes, 0); /* the receiver's again */
        return how;
    }
};

/* One sends two, one with any tag receives two: in their order. Both receives are posted first, or
 * one after the other. */
template <class P, bool Waits, bool Together> struct in_order : boxes<P> {
    void thread(int index)
    {
        if (index == 0) {
            this->send(0, 0, Waits);
            this->send(0, 1, Waits);
            return;
        }
        this->begin(0, UM_ANY, UM_ANY);
        if (Together)
            this->begin(1, 0, UM_ANY);
        this->end(0);
        if (!Together)
            this->begin(1, 0, UM_ANY);
        this->end(1);
        RL_ASSERT(this->receive[0]->got.tag == 0 && this->receive[1]->got.tag == 1);
    }
};

/* Two send one each; the receiver takes one of the second, then any. */
template <class P, bool Waits> struct two_senders : boxes<P> {
    void thread(int index)
    {
        if (index < 2) {
            this->send(index, 0, Waits);
            return;
        }
        this->begin(0, 1, 0);
        this->begin(1, UM_ANY, UM_ANY);
        this->end(0);
        this->end(1);
        RL_ASSERT(this->receive[0]->got.source == 1 && this->receive[1]->got.source == 0);
    }
};

/* The source ends, having sent nothing, or one of two. */
template <class P, int Sent> struct source_ends : boxes<P> {
    void thread(int index)
    {
        typename P::um_receive *orphan;
        bool probed;

        if (index == 0) {
            if (Sent)
                this->send(0, 0, false);
            um_atomic_store(&this->ended, 1, release);
            while ((orphan = P::um_box_orphan(this->box, 1, 1, 0, false, &probed))) {
                P::um_side_end(&orphan->done, UM_FAILED);
                this->ring(SENDERS);
            }
            return;
        }
        for (int i = 0; i <= Sent; i++) {
            this->begin(i, 0, UM_ANY);
            if (P::um_side_ended(&this->receive[i]->done) == UM_PENDING &&
                um_atomic_load(&this->ended, acquire) == 1 &&
                P::um_box_cancel(this->box, this->receive[i]))
                um_atomic_store(&this->receive[i]->done, UM_FAILED, relaxed);
            RL_ASSERT(this->end(i) == (i < Sent ? UM_DONE : UM_FAILED));
        }
    }
};

/* A receive that is taken back while a message comes for it. */
template <class P> struct taken_back : boxes<P> {
    void thread(int index)
    {
        if (index == 0) {
            this->send(0, 0, false);
            return;
        }
        this->begin(0, 0, 0);
        if (P::um_box_cancel(this->box, this->receive[0]))
            um_plain_write(this->receive[0]->bytes, 7);
        else
            RL_ASSERT(this->end(0) == UM_DONE);
    }
};

/* A message that is taken back while a receive comes for it; then another is sent. */
template <class P> struct withdrawn : boxes<P> {
    void thread(int index)
    {
        if (index == 0) {
            if (this->list(0, 0, true)) {
                if (P::um_box_withdraw(this->box, this->message[0][0]))
                    um_plain_write(this->data[0][0], -1);
                else
                    this->finish(0, 0);
            }
            this->send(0, 1, false);
            return;
        }
        this->begin(0, UM_ANY, UM_ANY);
        this->end(0);
        if (this->receive[0]->got.tag == 1)
            return;
        this->begin(1, UM_ANY, UM_ANY);
        this->end(1);
        RL_ASSERT(this->receive[1]->got.tag == 1);
    }
};

/* The first of two is taken if it is there, else received; then the second. */
template <class P, bool Waits> struct taken_first : boxes<P> {
    void thread(int index)
    {
        typename P::um_envelope wants = {1, UM_ANY, UM_ANY};
        typename P::um_message *m;

        if (index == 0) {
            this->send(0, 0, Waits);
            this->send(0, 1, Waits);
            return;
        }
        m = P::um_box_take(this->box, &wants);
        if (!m) {
            this->begin(0, UM_ANY, UM_ANY);
            this->end(0);
            RL_ASSERT(this->receive[0]->got.tag == 0);
        } else {
            RL_ASSERT(m->is.tag == 0 && um_plain_read(this->data[0][0]) == 0);
            if (Waits) {
                P::um_side_end(&m->done, UM_DONE);
                this->ring(0);
            }
        }
        this->begin(1, UM_ANY, UM_ANY);
        this->end(1);
        RL_ASSERT(this->receive[1]->got.tag == 1);
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"two waiting, received together", make_world<in_order<P, true, true>>, 2, 0, false, 0,
         20000},
        {"two waiting, in turn", make_world<in_order<P, true, false>>, 2, 0, false, 0, 20000},
        {"two copies, received together", make_world<in_order<P, false, true>>, 2, 0, false, 0,
         20000},
        {"two copies, in turn", make_world<in_order<P, false, false>>, 2, 0, false, 0, 20000},
        {"two senders wait", make_world<two_senders<P, true>>, 3, 0, false, 0, 20000},
        {"two senders leave copies", make_world<two_senders<P, false>>, 3, 0, false, 0, 20000},
        {"the source ends", make_world<source_ends<P, 0>>, 2, 0, false, 0, 20000},
        {"the source ends after one", make_world<source_ends<P, 1>>, 2, 0, false, 0, 20000},
        {"taken, waiting", make_world<taken_first<P, true>>, 2, 0, false, 0, 20000},
        {"taken, a copy", make_world<taken_first<P, false>>, 2, 0, false, 0, 20000},
        {"taken back", make_world<taken_back<P>>, 2, 0, false, 0, 20000},
        {"a message taken back", make_world<withdrawn<P>>, 2, 0, false, 0, 20000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
