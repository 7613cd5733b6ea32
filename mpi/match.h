/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Which receive gets which message, in MPI's order. Private; read by the model checker as it
 * stands (tests/model/match.cpp).
 *
 * Each task has one box. A message and a receive match if context, source and tag are equal; a
 * wanted source or tag below 0 is any. The box has two lists, under its lock, oldest first:
 *
 *   messages   that have arrived, and that no receive wanted
 *   receives   that were posted, and that no message has matched
 *
 *   (I) no message in the first list matches a receive in the second.
 *
 * A sender looks for the oldest receive that matches, and lists its message, under one hold of the
 * lock; a receiver looks for the oldest message, and lists its receive, under one. So (I) holds,
 * and two messages of one sender, of which a receive could get both, are received in their order
 * (MPI's non-overtaking rule), with wildcards too. There is no other place that they pass through.
 *
 * The thread that takes a message or a receive out of its list owns it: no other thread finds it.
 * The owner copies the data without the lock, from the sender's memory to the receiver's, and then
 * ends the side that waits: `done`. As soon as that is stored, the other side may free what it
 * belongs to.
 *
 *   message   data  -> the sender's memory, and the sender waits for done   large, or synchronous
 *             data  -> a copy behind the message; the receiver frees it     small
 *   receive   the receiver waits for done
 *
 * A task that has ended has a closed box. A receive from it that matched nothing must not wait for
 * ever. The receiver posts the receive, and then looks if the source has ended; the source sets
 * that it has ended, and then looks for receives in the boxes of its peers. Both looks are under
 * the lock of the receiver's box, or after it: one of the two finds the receive, and the one that
 * takes it from the list ends it with an error.
 */
#ifndef UMBRA_MPI_MATCH_H
#define UMBRA_MPI_MATCH_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/wait/protocol.h>
#endif

#define UM_ANY (-1)

/* What is compared. */
struct um_envelope {
    uint32_t context; /* of the communicator, and what it is used for */
    int source;       /* a rank; of a receive also below 0: any */
    int tag;          /* the same */
};

struct um_message {
    um_plain(struct um_message *) next; /* later in the box */
    struct um_envelope is;
    const void *data;
    size_t bytes;
    void *sender;       /* the task that waits for done; NULL: the data is a copy */
    um_atomic_u32 done; /* 1: the data was taken; 2: it never will be */
};

struct um_receive {
    um_plain(struct um_receive *) next; /* later in the box */
    struct um_envelope wants;
    struct um_envelope got; /* valid when done */
    void *buffer;
    size_t room;
    um_plain(size_t) bytes; /* of the message, which may be more than room; valid when done */
    um_atomic_u32 done;     /* 1: received; 2: never will be */
};

#define UM_PENDING 0u
#define UM_DONE 1u
#define UM_FAILED 2u

struct um_box {
    struct um_lock lock; /* of all that follows */
    um_plain(struct um_message *) message;
    um_plain(struct um_message *) last_message;
    um_plain(struct um_receive *) receive;
    um_plain(struct um_receive *) last_receive;
    um_plain(bool) closed;
    um_plain(uint32_t) probers; /* that wait for an arrival */
    um_atomic_u32 arrivals;     /* messages listed so far */
};

/* What became of a message. */
enum um_sent {
    UM_SENT_MATCHED, /* the caller has taken the receive */
    UM_SENT_LISTED,
    UM_SENT_PROBED, /* the same, and a prober must be roused */
    UM_SENT_CLOSED, /* the receiver has ended */
    UM_SENT_NOT     /* no receive, and no message to list was given */
};

UM_INLINE bool um_envelope_matches(const struct um_envelope *wants, const struct um_envelope *is)
{
    return wants->context == is->context && (wants->source < 0 || wants->source == is->source) &&
           (wants->tag < 0 || wants->tag == is->tag);
}

/* ---- under the lock ---- */

UM_INLINE void um_box_unlink_receive(struct um_box *box, struct um_receive *receive,
                                     struct um_receive *before)
{
    struct um_receive *next = um_plain_read(receive->next);

    if (before)
        um_plain_write(before->next, next);
    else
        um_plain_write(box->receive, next);
    if (!next)
        um_plain_write(box->last_receive, before);
}

/* Takes the oldest receive that wants the message, or NULL. */
UM_INLINE struct um_receive *um_box_find_receive(struct um_box *box, const struct um_envelope *is)
{
    struct um_receive *before = NULL, *receive = um_plain_read(box->receive);

    while (receive && !um_envelope_matches(&receive->wants, is)) {
        before = receive;
        receive = um_plain_read(receive->next);
    }
    if (receive)
        um_box_unlink_receive(box, receive, before);
    return receive;
}

/* The oldest message that is wanted, and the one before it; NULL: none. */
UM_INLINE struct um_message *
um_box_find_message(struct um_box *box, const struct um_envelope *wants, struct um_message **before)
{
    struct um_message *message = um_plain_read(box->message);

    *before = NULL;
    while (message && !um_envelope_matches(wants, &message->is)) {
        *before = message;
        message = um_plain_read(message->next);
    }
    return message;
}

UM_INLINE void um_box_unlink_message(struct um_box *box, struct um_message *message,
                                     struct um_message *before)
{
    struct um_message *next = um_plain_read(message->next);

    if (before)
        um_plain_write(before->next, next);
    else
        um_plain_write(box->message, next);
    if (!next)
        um_plain_write(box->last_message, before);
}

UM_INLINE void um_box_list_message(struct um_box *box, struct um_message *message)
{
    struct um_message *last = um_plain_read(box->last_message);

    um_plain_write(message->next, (struct um_message *)NULL);
    if (last)
        um_plain_write(last->next, message);
    else
        um_plain_write(box->message, message);
    um_plain_write(box->last_message, message);
    /* release: a prober that sees the number finds the message; pairs with um_box_arrivals() */
    um_atomic_fetch_add(&box->arrivals, 1, release);
}

UM_INLINE void um_box_list_receive(struct um_box *box, struct um_receive *receive)
{
    struct um_receive *last = um_plain_read(box->last_receive);

    um_plain_write(receive->next, (struct um_receive *)NULL);
    if (last)
        um_plain_write(last->next, receive);
    else
        um_plain_write(box->receive, receive);
    um_plain_write(box->last_receive, receive);
}

/* ---- the calls ---- */

/*
 * Sender: takes the receive that the message goes to, into *receive, or lists the message. message
 * NULL: only looks; a message that is listed afterwards needs a second call, since a receive may
 * have been posted meanwhile.
 */
UM_INLINE enum um_sent um_box_send(struct um_box *box, const struct um_envelope *is,
                                   struct um_message *message, struct um_receive **receive)
{
    enum um_sent sent = UM_SENT_NOT;

    um_lock_take(&box->lock);
    *receive = um_box_find_receive(box, is);
    if (*receive) {
        sent = UM_SENT_MATCHED;
    } else if (um_plain_read(box->closed)) {
        sent = UM_SENT_CLOSED;
    } else if (message) {
        um_box_list_message(box, message);
        sent = um_plain_read(box->probers) > 0 ? UM_SENT_PROBED : UM_SENT_LISTED;
    }
    um_lock_release(&box->lock);
    return sent;
}

/* Receiver: takes the oldest message that the receive wants; NULL: none, and the receive is
 * posted. */
UM_INLINE struct um_message *um_box_receive(struct um_box *box, struct um_receive *receive)
{
    struct um_message *before, *message;

    um_lock_take(&box->lock);
    message = um_box_find_message(box, &receive->wants, &before);
    if (message)
        um_box_unlink_message(box, message, before);
    else
        um_box_list_receive(box, receive);
    um_lock_release(&box->lock);
    return message;
}

/* Receiver: takes the oldest message that is wanted; NULL: none. */
UM_INLINE struct um_message *um_box_take(struct um_box *box, const struct um_envelope *wants)
{
    struct um_message *before, *message;

    um_lock_take(&box->lock);
    message = um_box_find_message(box, wants, &before);
    if (message)
        um_box_unlink_message(box, message, before);
    um_lock_release(&box->lock);
    return message;
}

/* Takes back a receive. False: a sender has taken it, and ends it. */
UM_INLINE bool um_box_cancel(struct um_box *box, struct um_receive *receive)
{
    struct um_receive *before = NULL, *at;

    um_lock_take(&box->lock);
    for (at = um_plain_read(box->receive); at && at != receive; at = um_plain_read(at->next))
        before = at;
    if (at)
        um_box_unlink_receive(box, receive, before);
    um_lock_release(&box->lock);
    return at != NULL;
}

/* Sender: takes back a listed message. False: the receiver has taken it, and ends it. */
UM_INLINE bool um_box_withdraw(struct um_box *box, struct um_message *message)
{
    struct um_message *before = NULL, *at;

    um_lock_take(&box->lock);
    for (at = um_plain_read(box->message); at && at != message; at = um_plain_read(at->next))
        before = at;
    if (at)
        um_box_unlink_message(box, message, before);
    um_lock_release(&box->lock);
    return at != NULL;
}

/* A task that has ended: takes a receive that only it could have sent to, from any tag and so many
 * contexts; NULL: none is left. all: there is no other source in them. probed: a prober waits. */
UM_INLINE struct um_receive *um_box_orphan(struct um_box *box, uint32_t context, uint32_t contexts,
                                           int source, bool all, bool *probed)
{
    struct um_receive *before = NULL, *at;

    um_lock_take(&box->lock);
    for (at = um_plain_read(box->receive); at; at = um_plain_read(at->next)) {
        if (at->wants.context - context < contexts &&
            (at->wants.source == source || (all && at->wants.source < 0)))
            break;
        before = at;
    }
    if (at)
        um_box_unlink_receive(box, at, before);
    *probed = um_plain_read(box->probers) > 0;
    um_lock_release(&box->lock);
    return at;
}

/* Receiver: looks for a message without taking it. bytes: of it. False: none; then arrivals is what
 * um_box_arrivals() gives until the next one is listed, if `waits` announces a prober. */
UM_INLINE bool um_box_probe(struct um_box *box, const struct um_envelope *wants, bool waits,
                            struct um_envelope *is, size_t *bytes, uint32_t *arrivals)
{
    struct um_message *before, *message;

    um_lock_take(&box->lock);
    message = um_box_find_message(box, wants, &before);
    if (message) {
        *is = message->is;
        *bytes = message->bytes;
    } else if (waits) {
        um_plain_write(box->probers, um_plain_read(box->probers) + 1);
    }
    /* relaxed: under the lock */
    *arrivals = um_atomic_load(&box->arrivals, relaxed);
    um_lock_release(&box->lock);
    return message != NULL;
}

UM_INLINE uint32_t um_box_arrivals(struct um_box *box)
{
    return um_atomic_load(&box->arrivals, acquire); /* pairs with um_box_list_message() */
}

/* The prober that um_box_probe() announced waits no longer. */
UM_INLINE void um_box_probed(struct um_box *box)
{
    um_lock_take(&box->lock);
    um_plain_write(box->probers, um_plain_read(box->probers) - 1);
    um_lock_release(&box->lock);
}

/* The task has ended, and has canceled its receives: takes all messages, in a list. No more are
 * listed. */
UM_INLINE struct um_message *um_box_close(struct um_box *box)
{
    struct um_message *messages;

    um_lock_take(&box->lock);
    um_plain_write(box->closed, true);
    messages = um_plain_read(box->message);
    um_plain_write(box->message, (struct um_message *)NULL);
    um_plain_write(box->last_message, (struct um_message *)NULL);
    um_lock_release(&box->lock);
    return messages;
}

/* ---- the end of a side, by its owner ---- */

/* The last that the caller does to the message, or receive. */
UM_INLINE void um_side_end(um_atomic_u32 *done, uint32_t how)
{
    um_atomic_store(done, how, release); /* what was copied; pairs with um_side_ended() */
}

/* UM_PENDING, UM_DONE or UM_FAILED. */
UM_INLINE uint32_t um_side_ended(um_atomic_u32 *done)
{
    return um_atomic_load(done, acquire); /* pairs with um_side_end() */
}

#endif
