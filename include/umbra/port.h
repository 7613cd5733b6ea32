/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Ports, first-in-first-out queues of messages, and arbiters, which take messages out of ports and
 * call a handler with them (Holmes et al., 2010, section 4.1, after Microsoft's Concurrency and
 * Coordination Runtime, CCR).
 *
 *     struct job {
 *         struct umbra_message message;
 *         int number;
 *     };
 *     typedef UMBRA_PORT(struct job) job_port;
 *
 *     job_port jobs = {UMBRA_PORT_INIT};
 *
 *     the poster                                 the receiver
 *     UMBRA_PORT_POST(&jobs, job, UMBRA_NEVER);  struct job *job;
 *                                                UMBRA_PORT_RECEIVE(&jobs, &job, UMBRA_NEVER);
 *
 * Messages. A message is a struct of the program with a struct umbra_message in it, named
 * `message`; posting links it in and copies and allocates nothing. It belongs to the poster until
 * it is posted; from that call on to the port, since it may be received before the call returns;
 * then to the receiver, which posts it again or frees it. After a post that fails it is the
 * poster's again. A message is in one port at a time.
 *
 * Words of the paper. An arbiter is a fiber of the library that waits at ports for the program. A
 * choice is a wait for the first of several branches that can go; the other branches take nothing.
 * A join (of ports; umbra_join is another thing) takes one message of each of several ports, all or
 * none. An interleave is an arbiter that runs some of its handlers together, as readers may, and
 * others alone, as writers must.
 *
 * Arbiters are made of branches. A branch says how many messages are wanted, and from which ports:
 *
 *   UMBRA_RECEIVE(port)             the next message of a port
 *   UMBRA_ITEMS(n, sources...)      n messages of a port, or of several together: n successes and
 *                                   failures, whichever they are (MultipleItemReceive)
 *   UMBRA_JOIN(sources...)          one message of each port: all or none. While one is missing
 *                                   the others stay in front of their ports, where other receivers
 *                                   may take them
 *
 *     struct umbra_branch both[] = {
 *         {UMBRA_JOIN(UMBRA_FROM(&left), UMBRA_FROM(&right))},
 *         {UMBRA_RECEIVE(&stop)},
 *     };
 *
 * A fiber or thread waits for one of them with umbra_choose (the paper's `yield return`; a choice):
 * it gets the messages of exactly one branch. Or an arbiter does it in a fiber of its own, and
 * calls the branch's handler with the messages:
 *
 *   options.once   the handler of exactly one branch, once: a Receive, Join or MultipleItemReceive
 *                  that is not persistent; with several branches a Choice
 *   else           persistent: for each message, or all that a branch wants, its handler. A branch
 *                  with .once is not: its handler is called once, and the arbiter goes on with the
 *                  others. Handlers of different kinds (.group) make it an Interleave:
 *                  UMBRA_CONCURRENT   in a fiber each; they run together
 *                  UMBRA_EXCLUSIVE    when all concurrent ones have ended, and none starts meanwhile
 *                  UMBRA_TEARDOWN     likewise, and then the arbiter ends. Messages that were not
 *                                     taken stay in their ports
 *
 * Choice by type. Each type of message has its port; so the branch of a choice, or the handler,
 * that gets a message is that of the message's type. _Generic finds the port (CCR's PortSet):
 *
 *     #define POST(bank, m)                                                                \
 *         UMBRA_PORT_POST(_Generic((m), struct audit * : &(bank)->audits,                  \
 *                                  struct transfer * : &(bank)->transfers), m, UMBRA_NEVER)
 *
 * Order. Messages of one port are received in the order in which they were posted. Of the receivers
 * with a branch that can go, the one that has waited longest gets its messages at once, by the
 * post; no later receiver can take them first. (Two exceptions: if another port of the branch is
 * locked just then, the receiver is woken to look again, and queues anew if it comes too late. And
 * a call that receives from one port first polls it for a moment, as long as its thread or core
 * waits in place; it queues after that.) An
 * arbiter that was served queues at the end, and goes through its own branches in turn; so two
 * joins on the same ports take turns, too. A choice for once takes the first of its branches that
 * can go. But a branch that wants few messages can starve one that wants more of the same port:
 * there are no priorities and no reservations.
 *
 * A bounded port (UMBRA_PORT_INIT_BOUNDED) takes so many messages; a post to a full port waits for
 * room, in order: a fiber blocks, a thread spins and then sleeps.
 *
 * Closing a port ends it: posts get -EPIPE, also those that wait for room. Messages in it can still
 * be received; a receiver that waits for more gets -EPIPE. A choice ends with -EPIPE when none of
 * its branches can ever go, and so does an arbiter: closing its ports is the good way to end a
 * server.
 *
 * Calls that may run at once
 *
 *     call                              beside it                      wrong use
 *     UMBRA_PORT_OPEN                   none on this port              not found
 *     post, receive, choose, close,     all of them, on any ports; no  -EALREADY: closed twice;
 *     arbiter_start                     message, branch or arbiter in  UMBRA_ASSERT: a message
 *                                       two calls                      posted twice
 *     arbiter_cancel                    all, until the arbiter is      not found
 *                                       joined
 *     arbiter_join                      all but another join of it     -EINVAL
 *
 * Callers: a fiber, or any other thread, but no signal handler. A thread that is no core and posts,
 * closes, cancels, or receives from a bounded or a closed port holds the runtime meanwhile
 * (umbra_hold). An arbiter that waits is a blocked fiber: the runtime has not ended, and reports a
 * deadlock if only such fibers are left (umbra/core.h).
 *
 * How it works: port/protocol.h. A post to an open port of any number of messages takes no lock
 * once a receiver has found messages there, or polls, until one waits. Else a port has a lock for a
 * few instructions; a call that does not block may wait for that lock only (wait/lock.h). A port
 * owns nothing, and is in the caller's memory. It must outlive the calls on it. But when no more posts will come, it
 * may go as soon as the last message has been received by a waiting receiver: a port for an answer
 * can be in the frame that waits for it.
 */
#ifndef UMBRA_PORT_H
#define UMBRA_PORT_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/event.h>
#include <umbra/fiber.h>
#include <umbra/port/protocol.h>
#include <umbra/wait/protocol.h>

/* ---- ports ---- */

/* An open port without messages, as an initializer, and for memory of malloc, say, which no other
 * call may use meanwhile. capacity: how many messages it takes; 0: any number. p: a pointer to a
 * struct umbra_port, or to a UMBRA_PORT(T). Neither switches nor blocks. */
#define UMBRA_PORT_INIT UMBRA_PORT_INIT_BOUNDED(0)
#define UMBRA_PORT_INIT_BOUNDED(most) UM_PORT_INIT_BOUNDED(most)
#define UMBRA_PORT_OPEN(p, capacity) um_port_init(UM_PORT_EITHER(p), (capacity))

/*
 * Posts a message. If the port is full, waits for room (a fiber may switch, a thread blocks), until
 * a time of umbra_now_ns() at the latest; UMBRA_NEVER: for ever; 0: does not wait. Else it neither
 * switches nor blocks. A message must be received before it is posted again: UMBRA_ASSERT reports
 * one that was not, also where its port is gone; there set it to zero first. Returns 0, or with the
 * message still the caller's:
 *   -EPIPE      the port is closed, or was while the post waited
 *   -ETIMEDOUT  the deadline passed first
 *   -ECANCELED  full, and the calling fiber is canceled (umbra_cancel)
 *   -EPERM      full, and on an alternate signal stack
 *   -ENOMEM     full, and a thread's first wait, or one with a deadline
 * or another error of a thread's first wait (umbra_event_wait).
 */
UM_LINKONCE int umbra_port_post(struct umbra_port *port, struct umbra_message *message,
                                uint64_t deadline);

/*
 * Receives the next message. Waits for one until a deadline (UMBRA_NEVER: none): a fiber may
 * switch, a thread blocks. With deadline 0 it does not switch or block. Returns 0, or -EPIPE: the
 * port is closed and empty; -ETIMEDOUT and errors of a wait as for a post.
 */
UM_LINKONCE int umbra_port_receive(struct umbra_port *port, struct umbra_message **message,
                                   uint64_t deadline);

/*
 * Receives up to `most` messages at once, linked by `next`, the oldest first: all that are there,
 * or, if none is, the first that comes. Waits, and returns, as umbra_port_receive; -EINVAL: `most`
 * is 0.
 */
UM_LINKONCE int umbra_port_receive_some(struct umbra_port *port, uint64_t most, uint64_t deadline,
                                        struct umbra_message **messages);

/* Closes the port. Returns 0; -EALREADY: it is closed. Never switches or blocks. */
UM_LINKONCE int umbra_port_close(struct umbra_port *port);

/*
 * A port of T, a struct with a member `struct umbra_message message`. The calls below take a
 * pointer p to such a port and do what the calls above do; a message of another type is an error of
 * the compiler. The out of UMBRA_PORT_RECEIVE is a T **. A T may contain a pointer to such a port,
 * for an answer:
 *
 *     struct job;
 *     typedef UMBRA_PORT(struct job) job_port;
 *     struct job { struct umbra_message message; job_port *answer; };
 *
 * The port without its type is the member `port`.
 */
#define UMBRA_PORT(T)                                                                              \
    union {                                                                                        \
        struct umbra_port port;                                                                    \
        struct um_lock lock; /* the port's; for UM_PORT_EITHER */                                  \
        T *type;             /* only its type is used */                                           \
    }
#define UMBRA_PORT_CLOSE(p) umbra_port_close(&(p)->port)
#define UMBRA_PORT_POST(p, m, deadline) umbra_port_post(&(p)->port, UM_PORT_TYPED(p, m), (deadline))
#define UMBRA_PORT_RECEIVE(p, out, deadline) UM_PORT_RECEIVE(p, out, deadline)

/* The T that contains a struct umbra_message: by the type T, or by that of a port. NULL stays
 * NULL. */
#define UMBRA_MESSAGE_AS(T, m) ((T *)um_message_holder((m), offsetof(T, message)))
#define UMBRA_MESSAGE_OF(p, m) UM_MESSAGE_OF(p, m)

/* True if the received message m was in this port, typed or not: for items of several ports. */
#define UMBRA_MESSAGE_FROM(p, m) ((m)->port == UM_PORT_EITHER(p))

/* ---- branches ---- */

/*
 * Initializers of a struct umbra_branch; an arbiter's also has .handler, .arg, .group and .once.
 * The branch and its sources are the caller's memory: at file scope, or in the function that uses
 * them, where they cannot be `static`: what the macros make there is no constant, and the compiler
 * says so in many lines. A static table of branches is at file scope. In C++ an array made in an
 * initializer does not last: there the sources are an array with a name, and the branch is
 * {.source = sources, .sources = 1, .items = 1}. They are in use from the call until it returns, or
 * until the arbiter was joined, and can be used again. A branch must not name a port twice, nor want more items than a bounded port of it
 * takes. A source is a pointer to a struct umbra_port or to a UMBRA_PORT(T); another type is an
 * error of the compiler.
 *
 * Messages come linked by `next`: of a join one for each source, in the order of the sources; of
 * items first those of the first source, and so on. `port` of each is the port where it was.
 */
#define UMBRA_FROM(from)                                                                           \
    {                                                                                              \
        .port = UM_PORT_EITHER(from)                                                               \
    }
#define UMBRA_RECEIVE(from) UMBRA_ITEMS(1, UMBRA_FROM(from))
#define UMBRA_ITEMS(n, ...) .items = (n), UM_BRANCH_SOURCES(__VA_ARGS__)
#define UMBRA_JOIN(...) .join = true, UM_BRANCH_SOURCES(__VA_ARGS__)

/*
 * Waits until one of the branches can go, and gives its index and its messages; of several that can
 * go at once, the first of the array. which, messages: NULL if not wanted. A fiber (may switch) or
 * thread (blocks). deadline: UMBRA_NEVER for none; 0 only looks. Returns 0, or with no message
 * taken:
 *   -EPIPE      none can ever go, since ports are closed
 *   -ETIMEDOUT  the deadline passed first
 *   -EINVAL     no branch, or one without a source, with a port twice, without items, or with
 *               more than fit
 *   -ECANCELED  the calling fiber is canceled, and no branch can go
 *   -EPERM, -ENOMEM   as umbra_port_post, also where it would not have to wait
 * or another error of a thread's first wait (umbra_event_wait).
 */
UM_LINKONCE int umbra_choose(struct umbra_branch *branches, unsigned count, uint64_t deadline,
                             unsigned *which, struct umbra_message **messages);

/* ---- arbiters ---- */

/* Options of an arbiter. All zero, or NULL for the whole, is a good default. */
struct umbra_arbiter_options {
    struct umbra_runtime *runtime; /* NULL: the caller's */
    bool once;                     /* ends with the first handler, which runs in its own fiber */
    unsigned most; /* concurrent handlers at a time; further messages wait in their ports, and
                      posters too if those are full. 0: any number */
    /* where its own fiber is, which waits, and runs all handlers but the concurrent ones; NULL: on
     * this core (umbra_spawn_with) */
    const struct umbra_spawn_options *home;
    /* where each concurrent handler begins; NULL: on the core that is idle first, else on the core
     * that next looks for work. A fiber that has begun cannot move */
    const struct umbra_spawn_options *handlers;
};

/* An arbiter. In the caller's memory, from its start until it was joined. */
struct umbra_arbiter {
    struct umbra_event bell;  /* signaled when the choice has its messages */
    struct umbra_event idle;  /* by the handler that ends last, when the arbiter waits */
    struct umbra_event place; /* by each handler that ends, if limited */
    um_atomic_u64 running;    /* handlers, and the arbiter unless it waits for them */
    um_atomic_u64 places;     /* how many more handlers may begin, if limited */
    unsigned char apart[UM_LINE_REST(16)];
    struct um_choice choice;             /* what it waits for */
    bool once;                           /* as the options */
    bool limited;                        /* the options have a `most` */
    struct umbra_spawn_options handlers; /* where concurrent handlers begin */
    char name[UMBRA_FIBER_NAME_BYTES];   /* handlers.name, if there is one */
    struct umbra_fiber fiber;            /* the arbiter's own */
};

/*
 * Starts an arbiter. Any thread or fiber, but no signal handler; does not switch or block. Returns
 * 0, or with nothing started: -EINVAL (branches as umbra_choose; one without a handler; handlers
 * that would begin stopped), or an error of umbra_spawn_with.
 */
UM_LINKONCE int umbra_arbiter_start(struct umbra_arbiter *arbiter, struct umbra_branch *branches,
                                    unsigned count, const struct umbra_arbiter_options *options);

/*
 * Ends an arbiter as soon as the handlers that it has called have returned. Messages that it has
 * not taken stay in the ports. Any thread or fiber, also the arbiter's handlers, but no signal
 * handler; before the arbiter is joined. Never switches or blocks.
 */
UM_LINKONCE void umbra_arbiter_cancel(struct umbra_arbiter *arbiter);

/*
 * Waits until the arbiter has ended, with all its handlers, until a time of umbra_now_ns() at the
 * latest. Any caller of umbra_join but its handlers, once; a fiber may switch, a thread blocks.
 * Returns 0: a teardown handler, or the one handler, or those of all branches, each for once, have
 * run; -EPIPE: no branch can ever go; -ETIMEDOUT: the arbiter goes on, and must be joined again;
 * -ECANCELED; or another error of umbra_join.
 */
UM_LINKONCE int umbra_arbiter_join(struct umbra_arbiter *arbiter, uint64_t deadline);

/* ---- types ---- */

/* The struct umbra_port of a pointer to one or to a UMBRA_PORT(T), which both begin with the lock;
 * also in an initializer at file scope. */
#ifdef __cplusplus
#define UM_PORT_EITHER(p)                                                                          \
    reinterpret_cast<struct umbra_port *>(static_cast<struct um_lock *>(&(p)->lock))
#define UM_PORT_TYPED(p, m) um_port_message((p)->type, (m))
#define UM_PORT_RECEIVE(p, out, deadline)                                                          \
    um_port_receive_as(&(p)->port, (p)->type, (out), (deadline))
#define UM_MESSAGE_OF(p, m) um_message_of((p)->type, (m))
#else
#define UM_PORT_EITHER(p) _Generic(&(p)->lock, struct um_lock * : (struct umbra_port *)(p))
#define UM_PORT_TYPED(p, m) (UM_PORT_SAME_TYPE(p, m), &(m)->message)
#define UM_PORT_RECEIVE(p, out, deadline)                                                          \
    (UM_PORT_SAME_TYPE(p, *(out)),                                                                 \
     um_port_receive_holder(&(p)->port, (out), UM_PORT_OFFSET(p), (deadline)))
#define UM_MESSAGE_OF(p, m) ((__typeof__((p)->type))um_message_holder((m), UM_PORT_OFFSET(p)))
#endif
#define UM_PORT_OFFSET(p) offsetof(__typeof__(*(p)->type), message)
#define UM_PORT_SAME_TYPE(p, m)                                                                    \
    ((void)sizeof(struct {                                                                         \
        UM_STATIC_ASSERT(__builtin_types_compatible_p(__typeof__((p)->type), __typeof__(m)),       \
                         "a message of another type than the port's");                             \
        int member;                                                                                \
    }))

#define UM_BRANCH_SOURCES(...)                                                                     \
    .source = (struct umbra_source[]){__VA_ARGS__},                                                \
    .sources = sizeof((struct umbra_source[]){__VA_ARGS__}) / sizeof(struct umbra_source)

#include <umbra/port/arbiter.h>
#include <umbra/port/post_receive.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_PORT_INIT_BOUNDED(most)                                                                 \
    {                                                                                              \
        .capacity = (most), .fresh = UM_PORT_SLOW                                                  \
    }

UM_STATIC_ASSERT(offsetof(struct umbra_port, lock) == 0, "where a UMBRA_PORT(T) has it");
UM_STATIC_ASSERT(__alignof__(struct umbra_port) <= UM_ANY_MEMORY, "malloc's memory will do");
UM_STATIC_ASSERT(__alignof__(struct umbra_arbiter) <= UM_ANY_MEMORY, "for both");
UM_STATIC_ASSERT(offsetof(struct umbra_arbiter, choice) % UMBRA_CACHE_LINE == 0,
                 "what handlers write is apart");

/* ---- posting ---- */

UM_INLINE void um_port_init(struct umbra_port *port, uint64_t capacity)
{
    *port = (struct umbra_port)UMBRA_PORT_INIT_BOUNDED(capacity);
}

#ifdef __cplusplus
/* The macros in C++. `type` only says what T is: a message of another type is an error. */
extern "C++" {
template <class T> UM_ALWAYS_INLINE struct umbra_message *um_port_message(T *const &type, T *holder)
{
    (void)type;
    return &holder->message;
}

template <class T>
UM_ALWAYS_INLINE int um_port_receive_as(struct umbra_port *port, T *const &type, T **out,
                                        uint64_t deadline)
{
    (void)type;
    return um_port_receive_holder(port, out, offsetof(T, message), deadline);
}

template <class T> UM_ALWAYS_INLINE T *um_message_of(T *const &type, struct umbra_message *message)
{
    (void)type;
    return static_cast<T *>(um_message_holder(message, offsetof(T, message)));
}
}
#endif

#endif
