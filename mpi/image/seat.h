/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Which child runs on a thread: what a library on this loader uses beside image.h. Private.
 *
 * The thread knows which child runs on it (um_seat). That is right while a child's code runs: each
 * binding that may switch fibers sets it again afterwards (um_child_resumed). At other times it may
 * name a child that has left its core.
 */
#ifndef UMBRA_MPI_SEAT_H
#define UMBRA_MPI_SEAT_H

#include <sys/types.h>

#include "image.h"

#define UM_HIDE __attribute__((__visibility__("hidden")))

/* What a thread knows of children. Only the thread. */
struct um_seat {
    struct umbra_child *running;    /* see above */
    struct umbra_child *in_room;    /* has its thread-locals in the room; NULL: none */
    struct um_child_thread *thread; /* created by a child, not a core; else NULL */
    char *host_tls;                 /* room for the executable's own; NULL: it has none here */
    bool host_away;                 /* they are there, not in their place */
};

extern _Thread_local struct um_seat um_seat UM_HIDE;

/* The child's options.arg. */
UM_INLINE void *um_child_arg(const struct umbra_child *child)
{
    return ((const struct umbra_child_options *)(const void *)child)->arg; /* its first member */
}

/* The calling child's code is about to go on on this thread: after each call that may switch. */
UM_HIDE void um_child_resumed(struct umbra_child *child);
/* The calling thread is the core on which the executable of this process runs, in one fiber. */
UM_HIDE void um_host_begin(void);
/* That fiber is about to go on: after each call that may switch. */
UM_HIDE void um_host_resumed(void);
/* Ends the child's code, on its fiber or on a thread it has created. */
UM_HIDE _Noreturn void um_child_leave(struct umbra_child *child, int status);

/* The functions that a thread, or a child, calls when it ends; on a thread that a child created. */
struct um_child_thread {
    struct umbra_child *child;
    void *(*fn)(void *);
    void *arg;
    struct um_ending *endings;
    pid_t process; /* in which it was created */
};

/* The calling thread, which has executed nothing of a child, becomes one of the child's; and ends to
 * be one: the last that it executes of the child. */
UM_HIDE void um_child_thread_begin(struct um_child_thread *thread);
UM_HIDE void um_child_thread_end(struct um_child_thread *thread);

#endif
