/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The ports' protocol: which receiver gets which messages. Any thread or fiber may post, receive,
 * close and cancel; a call may wait for a port's lock, and the caller rings the woken waiters after
 * it. Private; read by the model checker as it stands.
 *
 * Each port has a lock, held for a few instructions. Under it are the messages, the receivers'
 * sources (each a part of a branch of some choice), and the posters that wait for room, in lists of
 * waiters (wait/waiters.h).
 *
 * A choice is one wait for the first of several branches; a branch wants messages from one port or
 * more. Choice, branches and sources are in the memory of the receiver that waits. A thread that
 * holds the locks of all ports of a branch, and finds that the branch can go, takes the choice's
 * claim, and with it the messages:
 *
 *   claim   SHUT -> OPEN        the receiver, before its first look at a port  um_choice_open()
 *           OPEN -> SHUT        the thread that ends the wait: a poster with messages for it; a
 *                               thread that makes it look again; the receiver itself, when it finds
 *                               messages or gives up                          um_choice_claim()
 *           OPEN, SHUT -> the same and CANCELLED: it ends, and never opens    um_choice_cancel()
 *
 * So a choice gets the messages of one branch, and no message leaves a port before it is known that
 * all messages of the branch can be taken: a join never has to "put back" a message. No message is
 * overlooked, since whenever no lock is held
 *
 *   (I) no branch of an open choice that is listed at its ports could go.
 *
 * Two steps could break (I). The first lists a branch: its receiver has the locks of all its ports,
 * and looks first. The second posts: the poster has the port's lock, and looks at each branch
 * listed there; if the branch has more ports, the poster tries their locks. It must not wait for
 * them, since ports are locked in the order of their addresses. If one of them is taken, the poster
 * takes the claim and rouses the choice. Then the choice is not open, and its receiver looks again,
 * and waits for the locks in their order. Two other steps append messages and look at no branch. A
 * poster that is admitted takes room that was just made, so that no port has more messages than
 * before. Fresh messages are gathered only where no source is listed.
 *
 * A poster that waits for room has a choice without a branch, which is open from its beginning. The
 * thread that makes room, or closes the port, takes its claim; or the poster does, and gives up.
 *
 * Why a poster may touch a choice: while the poster has the lock of a port where a source is
 * listed, the receiver cannot have left. A listed source leaves the list under its port's lock; the
 * receiver takes it out, or the thread that took the claim. That thread rings the bell afterwards,
 * once, and a receiver that has lost its claim waits for the bell before it leaves. All that the
 * poster does to the port comes before the bell: so a port may be in the frame of its only
 * receiver, and end with it.
 *
 * Posts without a lock. A port has a second list, `fresh`, which posters push to by a
 * compare-and-swap, the latest first:
 *
 *   fresh   message or 0   any number of messages; no source is listed at the port, which is open
 *                          and takes any number
 *           UM_PORT_SLOW   none; posts take the lock
 *
 * A thread that has the lock takes all fresh messages in one go and appends them to the others
 * (um_port_gather()). So the messages of one poster stay in order: it finds the port slow only when
 * all that it has posted before is appended. A receiver makes the ports of a branch slow before it
 * looks at the branch, and so before it lists it. So (I) holds: while a source is listed, no
 * message comes without a look at it. The port becomes fast when a receiver has found messages, or
 * is about to poll for some, while no source is listed (um_port_fast()). A poster without a lock
 * touches nothing of the port after its compare-and-swap.
 *
 * A branch for once is over when it has had its messages. Only its receiver reads and writes that,
 * while the branch is listed nowhere; from then on the receiver touches no port of the branch.
 *
 * A closed port takes no more messages; those in it can still be received. A call that closes a
 * port, or takes the last message out of a closed one, rouses every choice listed there: those that
 * can never go any more end when they look again.
 */
#ifndef UMBRA_PORT_PROTOCOL_H
#define UMBRA_PORT_PROTOCOL_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/wait/protocol.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct umbra_arbiter;
struct umbra_branch;
struct umbra_port;
struct um_choice;

/* A message: a member of the user's own struct. See umbra/port.h. */
struct umbra_message {
    um_plain(struct umbra_message *) next; /* later in the port, or among what was received */
    um_plain(struct umbra_port *) port;    /* where it was posted last */
    struct umbra_branch *branch;           /* on its way to a handler: its branch; the arbiter */
};

/* A handler. It owns the messages now, which are linked by next. */
typedef void umbra_handler_fn(struct umbra_message *messages, void *arg);

/* Which handlers of an arbiter may run together. */
enum umbra_group {
    UMBRA_CONCURRENT, /* together with other concurrent ones */
    UMBRA_EXCLUSIVE,  /* alone */
    UMBRA_TEARDOWN    /* alone, and as the last */
};

/* One port of a branch. In the receiver's memory. */
struct umbra_source {
    struct um_waiter link; /* in the port's `receives` */
    struct umbra_port *port;
    struct umbra_branch *branch; /* that it is part of */
};

/* A branch: waits for one message from each source, or for some from all sources together. */
struct umbra_branch {
    struct umbra_source *source;
    unsigned sources;
    bool join;                 /* one message from each source */
    bool once;                 /* the arbiter calls the handler once, then leaves the branch */
    bool over;                 /* it has: the receiver passes it by; the receiver */
    uint64_t items;            /* if not: how many messages in total */
    umbra_handler_fn *handler; /* the arbiter calls it */
    void *arg;                 /* of handler */
    enum umbra_group group;
    struct um_choice *choice;      /* that it is a branch of, while a receiver waits */
    struct umbra_arbiter *arbiter; /* that it belongs to, or NULL; the arbiter */
};

/* A wait for the first of some branches; or, without a branch, a poster's for room. */
struct um_choice {
    struct um_waiter waiter; /* a poster's is in the port's `posts`. The call that ends the wait
                                chains it to others that it wakes, and rings without the lock */
    um_atomic_u32 claim;
    struct umbra_branch *branch;
    unsigned count;
    um_plain(int) result; /* how it ended; the thread that took the claim. 0: a poster has posted */
    um_plain(struct umbra_message *) messages; /* that it got, the thread that took the claim; that
                                                  it posts, the poster */
};

#define UM_CHOICE_SHUT 0u
#define UM_CHOICE_OPEN 1u
#define UM_CHOICE_CANCELLED 2u

#define UM_PORT_SLOW ((uintptr_t)1) /* no message: posts take the lock */

/* Results of a choice, besides the index of the branch that could go and -ECANCELED. */
#define UM_CHOICE_WAITS (-1000001) /* it is listed, or another thread has taken its claim */
#define UM_CHOICE_AGAIN (-1000002) /* it was roused */

struct umbra_port {
    struct um_lock lock;
    um_plain(bool) closed;                  /* this and what follows under the lock */
    um_plain(uint64_t) count;               /* messages */
    um_plain(struct umbra_message *) first; /* the oldest */
    um_plain(struct umbra_message *) last;  /* valid if there is a first */
    struct um_waiters receives;             /* sources of receivers that wait */
    struct um_waiters posts;                /* posters that wait for room */
    uint64_t capacity;                      /* in messages; 0: any number; fixed */
    unsigned char apart[UMBRA_CACHE_LINE];
    um_atomic_uptr fresh; /* messages posted without the lock, the latest first; or UM_PORT_SLOW */
};

/* ---- the locks ---- */

/* The branch's port with the lowest address above `below`, or NULL. */
UM_INLINE struct umbra_port *um_branch_port_above(const struct umbra_branch *branch,
                                                  const struct umbra_port *below)
{
    struct umbra_port *port = NULL;

    for (unsigned i = 0; i < branch->sources; i++) {
        struct umbra_port *other = branch->source[i].port;

        if ((uintptr_t)other > (uintptr_t)below && (!port || (uintptr_t)other < (uintptr_t)port))
            port = other;
    }
    return port;
}

/* Takes the locks of all ports of the branch. May block for a few instructions of their holders. */
UM_INLINE void um_branch_lock(const struct umbra_branch *branch)
{
    struct umbra_port *port = NULL;

    while ((port = um_branch_port_above(branch, port)))
        um_lock_take(&port->lock);
}

/* Releases the locks of the ports of the first `sources` sources, but for one port. */
UM_INLINE void um_branch_unlock_but(const struct umbra_branch *branch, unsigned sources,
                                    const struct umbra_port *kept)
{
    for (unsigned i = 0; i < sources; i++)
        if (branch->source[i].port != kept)
            um_lock_release(&branch->source[i].port->lock);
}

/* Takes the locks of all ports of the branch but one, which the caller has: all or none. Never
 * blocks. True if it took all. */
UM_INLINE bool um_branch_try_lock_but(const struct umbra_branch *branch,
                                      const struct umbra_port *held)
{
    for (unsigned i = 0; i < branch->sources; i++) {
        if (branch->source[i].port == held || um_lock_try(&branch->source[i].port->lock))
            continue;
        um_branch_unlock_but(branch, i, held);
        return false;
    }
    return true;
}

/* ---- the lists: under the port's lock ---- */

UM_INLINE void um_port_append(struct umbra_port *port, struct umbra_message *message)
{
    um_plain_write(message->next, (struct umbra_message *)NULL);
    um_plain_write(message->port, port);
    if (um_plain_read(port->first))
        um_plain_write(um_plain_read(port->last)->next, message);
    else
        um_plain_write(port->first, message);
    um_plain_write(port->last, message);
    um_plain_write(port->count, um_plain_read(port->count) + 1);
}

/* Appends the fresh messages. after: UM_PORT_SLOW: from now on posts take the lock; 0: one that is
 * posted meanwhile may stay there. */
UM_INLINE void um_port_gather(struct umbra_port *port, uintptr_t after)
{
    /* relaxed: only compared; only a thread that has the lock makes the port slow, and fast */
    uintptr_t fresh = um_atomic_load(&port->fresh, relaxed);
    struct umbra_message *message, *oldest = NULL;

    if (fresh == UM_PORT_SLOW || fresh == after)
        return;
    /* acquire: the messages; pairs with um_port_post_fast() */
    message = (struct umbra_message *)um_atomic_exchange(&port->fresh, after, acquire);
    while (message) {
        struct umbra_message *earlier = um_plain_read(message->next);

        um_plain_write(message->next, oldest);
        oldest = message;
        message = earlier;
    }
    while (oldest) {
        struct umbra_message *later = um_plain_read(oldest->next);

        um_port_append(port, oldest);
        oldest = later;
    }
}

/* From now on posts take no lock, if that is possible. */
UM_INLINE void um_port_fast(struct umbra_port *port)
{
    /* relaxed: as in um_port_gather(); and a poster needs nothing of what was before */
    if (um_atomic_load(&port->fresh, relaxed) == UM_PORT_SLOW && port->capacity == 0 &&
        !um_plain_read(port->closed) && !um_plain_read(port->receives.first))
        um_atomic_store(&port->fresh, 0, relaxed);
}

/* Takes the oldest message out; there must be one. */
UM_INLINE struct umbra_message *um_port_pop(struct umbra_port *port)
{
    struct umbra_message *message = um_plain_read(port->first);

    um_plain_write(port->first, um_plain_read(message->next));
    um_plain_write(port->count, um_plain_read(port->count) - 1);
    return message;
}

UM_INLINE void um_source_unlist(struct umbra_source *source)
{
    um_waiters_remove(&source->port->receives, &source->link);
}

/* The source that the link is in. */
UM_INLINE struct umbra_source *um_source_of(struct um_waiter *link)
{
    return (struct umbra_source *)link; /* its first member */
}

/* ---- the claim ---- */

/* relaxed, where nothing else is said: only this word decides which thread ends the wait. All else
 * is ordered by the ports' locks until then, and by the bell afterwards. */

/* The receiver. False: it was cancelled. */
UM_INLINE bool um_choice_open(struct um_choice *choice)
{
    uint32_t claim = UM_CHOICE_SHUT;

    /* release: the last wait is over; pairs with um_choice_cancel(), which holds no lock */
    return um_atomic_cas(&choice->claim, &claim, UM_CHOICE_OPEN, release, relaxed);
}

/* The waiter, or a thread that has the lock of a port where the choice is listed. True if the
 * caller ends the wait. */
UM_INLINE bool um_choice_claim(struct um_choice *choice)
{
    uint32_t claim = UM_CHOICE_OPEN;

    return um_atomic_cas(&choice->claim, &claim, UM_CHOICE_SHUT, relaxed, relaxed);
}

UM_INLINE bool um_choice_is_open(const struct um_choice *choice)
{
    return um_atomic_load(&choice->claim, relaxed) == UM_CHOICE_OPEN;
}

/* A thread that took the claim of another thread's choice. Its waiter is in no list. */
UM_INLINE void um_choice_end(struct um_choice *choice, int result, struct um_waiters *out)
{
    um_plain_write(choice->result, result);
    um_waiters_end(out, &choice->waiter);
}

/* Any thread or fiber, as long as the choice exists: it ends, and never opens again. */
UM_INLINE void um_choice_cancel(struct um_choice *choice, struct um_waiters *out)
{
    /* acquire: pairs with um_choice_open() */
    if (um_atomic_fetch_or(&choice->claim, UM_CHOICE_CANCELLED, acquire) == UM_CHOICE_OPEN)
        um_choice_end(choice, -ECANCELED, out);
}

/* Makes the choice of a listed source look again, if it is still open. */
UM_INLINE void um_source_rouse(struct umbra_source *source, struct um_waiters *out)
{
    struct um_choice *choice = source->branch->choice;

    if (!um_choice_claim(choice))
        return;
    um_source_unlist(source);
    um_choice_end(choice, UM_CHOICE_AGAIN, out);
}

/* Makes all choices listed at the port look again. */
UM_INLINE void um_port_rouse(struct umbra_port *port, struct um_waiters *out)
{
    struct um_waiter *link = um_plain_read(port->receives.first);

    while (link) {
        struct um_waiter *next = um_plain_read(link->next);

        um_source_rouse(um_source_of(link), out);
        link = next;
    }
}

/* ---- a branch: under the locks of all its ports ---- */

/* True if the messages that the branch wants are there. */
UM_INLINE bool um_branch_can_go(const struct umbra_branch *branch)
{
    uint64_t there = 0;

    for (unsigned i = 0; i < branch->sources; i++) {
        uint64_t count = um_plain_read(branch->source[i].port->count);

        if (branch->join && count == 0)
            return false;
        there += count;
    }
    return branch->join || there >= branch->items;
}

/* The branch cannot go now. True if it never can. */
UM_INLINE bool um_branch_is_dead(const struct umbra_branch *branch)
{
    unsigned over = 0;

    for (unsigned i = 0; i < branch->sources; i++) {
        struct umbra_port *port = branch->source[i].port;

        if (um_plain_read(port->closed) && (!branch->join || um_plain_read(port->count) == 0))
            over++;
    }
    return branch->join ? over > 0 : over == branch->sources;
}

/* Ends posts that wait for room, in their order: as many as there is room for, or all of a closed
 * port. A poster that has given up leaves by itself. */
UM_INLINE void um_port_admit(struct umbra_port *port, struct um_waiters *out)
{
    struct um_waiter *next, *waiter = um_plain_read(port->posts.first);
    bool closed = um_plain_read(port->closed);

    for (; waiter && (closed || um_plain_read(port->count) < port->capacity); waiter = next) {
        struct um_choice *poster = (struct um_choice *)waiter; /* its first member */

        next = um_plain_read(waiter->next);
        if (!um_choice_claim(poster))
            continue;
        um_waiters_remove(&port->posts, waiter);
        if (!closed)
            um_port_append(port, um_plain_read(poster->messages));
        um_choice_end(poster, closed ? -EPIPE : 0, out);
    }
}

/* A message was taken out of the port. */
UM_INLINE void um_port_taken(struct umbra_port *port, struct um_waiters *out)
{
    um_port_admit(port, out);
    if (um_plain_read(port->closed) && um_plain_read(port->count) == 0)
        um_port_rouse(port, out);
}

/* Takes the messages of a branch that can go: source by source, the oldest of each first. */
UM_INLINE struct umbra_message *um_branch_take(const struct umbra_branch *branch,
                                               struct um_waiters *out)
{
    struct umbra_message *first = NULL, *last = NULL;
    uint64_t wanted = branch->items;

    for (unsigned i = 0; i < branch->sources; i++) {
        struct umbra_port *port = branch->source[i].port;
        uint64_t most = branch->join ? 1 : wanted;
        uint64_t taken = 0;

        while (taken < most && um_plain_read(port->count) > 0) {
            struct umbra_message *message = um_port_pop(port);

            um_plain_write(message->next, (struct umbra_message *)NULL);
            if (last)
                um_plain_write(last->next, message);
            else
                first = message;
            last = message;
            taken++;
        }
        wanted -= taken;
        if (taken > 0)
            um_port_taken(port, out);
    }
    return first;
}

/* Gives another thread's branch its messages, if it can go. True if it got them. */
UM_INLINE bool um_branch_fire(struct umbra_branch *branch, struct um_waiters *out)
{
    struct um_choice *choice = branch->choice;

    if (!um_branch_can_go(branch) || !um_choice_claim(choice))
        return false;
    for (unsigned i = 0; i < branch->sources; i++)
        um_source_unlist(&branch->source[i]);
    um_plain_write(choice->messages, um_branch_take(branch, out));
    um_choice_end(choice, (int)(branch - choice->branch), out);
    return true;
}

/* ---- posting ---- */

/*
 * A message has come: offers it to the branches listed, in their order. At most one branch can go:
 * none could before, and the one that can takes at least as many messages from this port as have
 * come.
 */
UM_INLINE void um_port_offer(struct umbra_port *port, struct um_waiters *out)
{
    struct um_waiter *link = um_plain_read(port->receives.first);
    bool gone = false;

    while (link && !gone) {
        struct um_waiter *next = um_plain_read(link->next);
        struct umbra_branch *branch = um_source_of(link)->branch;

        if (!um_choice_is_open(branch->choice)) {
            /* its wait has ended */
        } else if (um_branch_try_lock_but(branch, port)) {
            gone = um_branch_fire(branch, out);
            um_branch_unlock_but(branch, branch->sources, port);
        } else {
            um_source_rouse(um_source_of(link), out);
        }
        link = next;
    }
}

/* Posts without the lock. False: that is not possible now. Any thread; never waits. */
UM_INLINE bool um_port_post_fast(struct umbra_port *port, struct umbra_message *message)
{
    uintptr_t fresh = um_atomic_load(&port->fresh, relaxed); /* only compared */

    if (fresh == UM_PORT_SLOW)
        return false;
    do {
        um_plain_write(message->next, (struct umbra_message *)fresh);
        /* release: the message; pairs with um_port_gather() */
        if (um_atomic_cas(&port->fresh, &fresh, (uintptr_t)message, release, relaxed))
            return true;
    } while (fresh != UM_PORT_SLOW);
    return false;
}

/*
 * Posts. 0; -EPIPE: closed; full: -EAGAIN, or with a poster UM_CHOICE_WAITS: it is listed, and its
 * bell will ring. Posters that wait for room go first.
 */
UM_INLINE int um_port_post(struct umbra_port *port, struct umbra_message *message,
                           struct um_choice *poster, struct um_waiters *out)
{
    int result = 0;

    if (um_port_post_fast(port, message))
        return 0;
    um_lock_take(&port->lock);
    if (um_plain_read(port->closed)) {
        result = -EPIPE;
    } else if (port->capacity == 0 || um_plain_read(port->count) < port->capacity) {
        um_port_append(port, message);
        um_port_offer(port, out);
    } else if (poster) {
        um_plain_write(poster->messages, message);
        um_waiters_add(&port->posts, &poster->waiter);
        result = UM_CHOICE_WAITS;
    } else {
        result = -EAGAIN;
    }
    um_lock_release(&port->lock);
    return result;
}

/* A waiter, once the claim is taken, and after the bell if another thread took it. Takes the link
 * out of the list if it is still there: no other thread can change that any more, and if it is not,
 * the port may be gone. */
UM_INLINE void um_port_leave(struct umbra_port *port, struct um_waiters *list,
                             struct um_waiter *link)
{
    if (!um_plain_read(link->listed))
        return;
    um_lock_take(&port->lock);
    um_waiters_remove(list, link);
    um_lock_release(&port->lock);
}

/* Closes the port. True if it was open. */
UM_INLINE bool um_port_close(struct umbra_port *port, struct um_waiters *out)
{
    bool open;

    um_lock_take(&port->lock);
    um_port_gather(port, UM_PORT_SLOW);
    open = !um_plain_read(port->closed);
    um_plain_write(port->closed, true);
    um_port_admit(port, out);
    um_port_rouse(port, out);
    um_lock_release(&port->lock);
    return open;
}

/* ---- receiving ---- */

/*
 * Takes the oldest messages, up to `most`, linked by next. 0; -EAGAIN: there is none; -EPIPE: and
 * none will come. polls: the caller polls `fresh` if there is none.
 */
UM_INLINE int um_port_try_take(struct umbra_port *port, uint64_t most, bool polls,
                               struct umbra_message **messages, struct um_waiters *out)
{
    struct umbra_message *last = NULL;
    int result = 0;

    um_lock_take(&port->lock);
    if (um_plain_read(port->count) < most)
        um_port_gather(port, 0);
    while (um_plain_read(port->count) > 0 && most-- > 0) {
        struct umbra_message *message = um_port_pop(port);

        um_plain_write(message->next, (struct umbra_message *)NULL);
        if (last)
            um_plain_write(last->next, message);
        else
            *messages = message;
        last = message;
    }
    if (last)
        um_port_taken(port, out);
    else
        result = um_plain_read(port->closed) ? -EPIPE : -EAGAIN;
    if (last || polls)
        um_port_fast(port);
    um_lock_release(&port->lock);
    return result;
}

/* Looks at one branch of the choice: its index if it could go; UM_CHOICE_WAITS: listed, or another
 * thread has the claim; -EPIPE: it never can, or is over. */
UM_INLINE int um_choice_look(struct um_choice *choice, unsigned index, struct um_waiters *out)
{
    struct umbra_branch *branch = &choice->branch[index];
    int result = UM_CHOICE_WAITS;

    if (branch->over)
        return -EPIPE;
    um_branch_lock(branch);
    for (unsigned i = 0; i < branch->sources; i++)
        um_port_gather(branch->source[i].port, UM_PORT_SLOW);
    if (um_branch_can_go(branch)) {
        if (um_choice_claim(choice)) {
            um_plain_write(choice->messages, um_branch_take(branch, out));
            result = (int)index;
            for (unsigned i = 0; i < branch->sources; i++)
                um_port_fast(branch->source[i].port);
        }
    } else if (um_branch_is_dead(branch)) {
        result = -EPIPE;
    } else {
        for (unsigned i = 0; i < branch->sources; i++)
            um_waiters_add(&branch->source[i].port->receives, &branch->source[i].link);
    }
    um_branch_unlock_but(branch, branch->sources, NULL);
    return result;
}

/*
 * The receiver looks at all branches from `first` on, and lists them, until one can go. Returns its
 * index; UM_CHOICE_WAITS: the bell will ring; -EPIPE: none can ever go; -ECANCELED.
 * um_choice_leave() must follow in all cases, after the bell if it is to ring.
 */
UM_INLINE int um_choice_enter(struct um_choice *choice, unsigned first, struct um_waiters *out)
{
    unsigned dead = 0;

    if (!um_choice_open(choice))
        return -ECANCELED;
    for (unsigned i = 0; i < choice->count; i++) {
        int result = um_choice_look(choice, (first + i) % choice->count, out);

        if (result >= 0)
            return result;
        if (result == -EPIPE)
            dead++;
        else if (!um_choice_is_open(choice))
            break;
    }
    return dead == choice->count && um_choice_claim(choice) ? -EPIPE : UM_CHOICE_WAITS;
}

/* The receiver. The claim is taken, and the bell has rung if another thread took it: the sources
 * that are still listed leave their lists. */
UM_INLINE void um_choice_leave(struct um_choice *choice)
{
    for (unsigned i = 0; i < choice->count; i++) {
        struct umbra_branch *branch = &choice->branch[i];

        for (unsigned j = 0; j < branch->sources; j++)
            um_port_leave(branch->source[j].port, &branch->source[j].port->receives,
                          &branch->source[j].link);
    }
}

#endif
