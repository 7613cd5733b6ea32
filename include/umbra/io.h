/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Files, pipes and sockets for fibers: read, write, receive, send, accept, connect, messages of
 * several buffers with addresses, and waits until a descriptor is ready. The fiber waits in state
 * "system call" while its core executes others; any number of fibers may wait, and none of them needs
 * a thread. Optional: no other header includes this one. Linux only.
 *
 *     while (umbra_io_recv(socket, text, sizeof(text), umbra_deadline(10000000000), &got) == 0 &&
 *            got > 0)
 *         for (size_t at = 0; at < got; at += sent)
 *             if (umbra_io_send(socket, text + at, got - at, UMBRA_NEVER, &sent) != 0)
 *                 return;
 *
 * Two ways, with the same results, which are those of read(2), recv(2) and their like; a descriptor
 * that the system's call refuses, an offset that it cannot take, is refused at once:
 *
 *   uring  one io_uring for each core that uses this header: operations of all fibers that are ready
 *          go to the kernel together, but for sends, which are tried first, and the core's sleep
 *          ends by a message and by a completion alike. Linux 6.7 or later, and liburing: define
 *          UMBRA_URING where the implementation is compiled, and link with -luring
 *          (docs/blocking.md).
 *   pool   one epoll instance for each core, in which an idle core sleeps; files, which never wait
 *          for anything that epoll could see, are read and written by the helpers of
 *          umbra/blocking.h. Taken if UMBRA_URING is not defined, or if the kernel has no such
 *          io_uring or forbids it (containers, seccomp), also if it does so later. UMBRA_IO=uring
 *          or UMBRA_IO=pool in the environment forces one.
 *
 * Files in the page cache. A read at an offset first looks whether the cache has all of it, or all
 * up to the file's end: then the fiber has it at once, without a switch, in some tenths of a
 * microsecond more than pread(2) takes. Not so with O_DIRECT, with UMBRA_IO_HERE, and on file
 * systems without RWF_NOWAIT (tmpfs).
 *
 * Flags. No call leaves a descriptor's flags changed: other threads and processes may use it, too.
 * The ring, MSG_DONTWAIT and RWF_NOWAIT need no flag. Where none of them is there, the pool, and a
 * thread that is no core, set O_NONBLOCK for the system's call alone, never while they wait:
 *
 *   accept and connect, on any kernel
 *   read and write of nothing
 *   read and write of what the kernel has no such form for: pipes before Linux 6.5, FIFOs,
 *   terminals, writes to an eventfd, inotify
 *
 * A call of other code that begins in that moment may get EAGAIN. Calls of one program (or shared
 * object) exclude each other meanwhile; but where several processes, or several copies of this
 * library, accept from one socket, set O_NONBLOCK on it for good. Else one may put the flag back
 * just before the other's system call, which then blocks until a connection comes.
 *
 * Error queues. While a socket's has an entry (IP_RECVERR, MSG_ZEROCOPY), poll(2) says so at once. A
 * wait for anything else then ends at most 10 ms late, unless the ring waits in the kernel.
 *
 * Deadlines and cancellation (umbra_cancel). A call that returns -ETIMEDOUT or -ECANCELED has ended
 * the operation before: the kernel never touches the buffer afterwards, and no byte was taken or
 * sent. If the operation was done by then, the call returns what it did instead; so nothing is
 * lost. With deadline 0 a call does what can be done at once, or returns -ETIMEDOUT; so does a call
 * of a canceled fiber, with -ECANCELED. With the way "pool" an operation on a file that a helper
 * has begun is waited for.
 *
 * Callers. Any thread or fiber, but no signal handler; a fiber may switch, another thread blocks. A
 * fiber that goes on sending while the socket has room may keep its core: umbra_poll lets other
 * fibers run. A descriptor must not be closed while a call uses it. shutdown(2) of both directions
 * ends the calls on a socket: a receive gets the end (0 bytes), a send -EPIPE, and an accept
 * -EINVAL. Several fibers, and operations of one fiber, may use a descriptor at the same time, in
 * which order is up to the kernel. While a fiber waits in a call, the runtime reports no deadlock.
 *
 * Errors. Each call returns 0, or with its result untouched
 *   -ETIMEDOUT   the deadline, of umbra_now_ns() or UMBRA_NEVER, passed first
 *   -ECANCELED   the calling fiber is canceled
 *   -EPERM       on an alternate signal stack
 *   -ENOMEM      no memory to wait
 *   -EMFILE, -ENFILE  the limit of descriptors leaves none: for the ring, for epoll, or for the
 *                connection that would be accepted, which stays in the socket's queue
 *   -ENOSYS      UMBRA_IO=uring, and the program or the kernel has none
 *   -EIO         the kernel has ended the core's ring with the operation under way, and it is not
 *                known what was done: a file's, a connection, or any if the kernel has lost results
 *   -EINVAL      UMBRA_IO is something else, which umbra_last_error_text() says; or the system's
 * or the system's error for the operation: -EBADF, -ECONNRESET (the peer has reset the connection),
 * -EPIPE (it reads no more; umbra_io_write raises SIGPIPE then, as write(2) does, umbra_io_send does
 * not), -ECONNREFUSED, and so on.
 */
#ifndef UMBRA_IO_H
#define UMBRA_IO_H

#ifndef __linux__
#error "umbra/io.h is for Linux"
#endif

#include <poll.h>
#include <sys/socket.h>

#include <umbra/base/base.h>
#include <umbra/blocking.h>
#include <umbra/core.h>
#include <umbra/event.h>

/* For the offset of umbra_io_read and umbra_io_write: where the file's position is, which moves on;
 * for what has no positions, such as a pipe. */
#define UMBRA_IO_HERE UINT64_MAX

/* Reads at most `bytes` from a file, at an offset or UMBRA_IO_HERE, a pipe or a terminal. *got: how
 * many; 0: the end. Callers and errors as above. */
UM_LINKONCE int umbra_io_read(int fd, void *at, size_t bytes, uint64_t offset, uint64_t deadline,
                              size_t *got);

/* The same for writing; *put: how many, perhaps fewer than `bytes`. Callers and errors as above. */
UM_LINKONCE int umbra_io_write(int fd, const void *at, size_t bytes, uint64_t offset,
                               uint64_t deadline, size_t *put);

/* Receives at most `bytes` from a socket, as soon as there are some. *got: how many; 0: the peer
 * has sent its last. Callers and errors as above. */
UM_LINKONCE int umbra_io_recv(int socket, void *at, size_t bytes, uint64_t deadline, size_t *got);

/* Sends at most `bytes`, as soon as the socket takes some. *sent: how many. Callers and errors as
 * above. */
UM_LINKONCE int umbra_io_send(int socket, const void *at, size_t bytes, uint64_t deadline,
                              size_t *sent);

/*
 * As umbra_io_recv, into what the message names: several buffers, the sender's address, ancillary
 * data. The kernel fills it in as recvmsg(2) does; descriptors among the data are closed by exec(2).
 * *got: how many bytes; of a datagram that is longer than the buffers, MSG_TRUNC is in msg_flags.
 * Callers and errors as above.
 */
UM_LINKONCE int umbra_io_recvmsg(int socket, struct msghdr *message, uint64_t deadline,
                                 size_t *got);

/* As umbra_io_send, of what the message names, as sendmsg(2) does: several buffers, an address,
 * ancillary data. *sent: how many bytes. If the queue of a local or netlink socket that it names is
 * full, the call waits for a place as umbra_io_connect does. Callers and errors as above. */
UM_LINKONCE int umbra_io_sendmsg(int socket, const struct msghdr *message, uint64_t deadline,
                                 size_t *sent);

/* Accepts a connection of a listening socket. *connection: its descriptor, which the caller must
 * close, and which exec(2) closes. Callers and errors as above. */
UM_LINKONCE int umbra_io_accept(int socket, uint64_t deadline, int *connection);

/*
 * Connects a socket. If the queue of a listening local socket (AF_UNIX) is full, for which
 * connect(2) with O_NONBLOCK says EAGAIN, the call waits for a place, with O_NONBLOCK or without.
 * Nothing reports such a place, unless the ring waits in the kernel; else the call tries again, at
 * most 10 ms after there is one. After -ETIMEDOUT or -ECANCELED the socket can only be closed.
 * Callers and errors as above.
 */
UM_LINKONCE int umbra_io_connect(int socket, const struct sockaddr *address, socklen_t length,
                                 uint64_t deadline);

/*
 * Waits until a descriptor is ready for one of `events`, POLLIN and POLLOUT: before a call that does
 * not wait, of the system (sendfile(2), splice(2)) or of a library, with O_NONBLOCK. *ready: what
 * poll(2) says, of these events, POLLERR and POLLHUP. Callers and errors as above; -EINVAL: other
 * events, or none.
 */
UM_LINKONCE int umbra_io_ready(int fd, short events, uint64_t deadline, short *ready);

/* ---- several operations at once ---- */

/* What an operation does: as the call above of that name. */
enum umbra_io_call {
    UMBRA_IO_READ = UM_SYSTEM_READ,
    UMBRA_IO_WRITE = UM_SYSTEM_WRITE,
    UMBRA_IO_RECV = UM_SYSTEM_RECV,
    UMBRA_IO_SEND = UM_SYSTEM_SEND,
    UMBRA_IO_ACCEPT = UM_SYSTEM_ACCEPT,
    UMBRA_IO_RECVMSG = UM_SYSTEM_RECVMSG,
    UMBRA_IO_SENDMSG = UM_SYSTEM_SENDMSG
};

/* How an operation stands. */
enum um_io_state {
    UM_IO_OVER,  /* `result` is there, or it has not begun */
    UM_IO_WAITS, /* in the ring, or in a list of the poller */
    UM_IO_RESTS, /* until it is tried again: um_io_rest() */
    UM_IO_ENDED  /* the wait has ended; its owner looks what comes next */
};

/*
 * An operation. The program sets the first members, all else being zero, and keeps it and its buffer
 * (the message with all that it names) until it is over; then it may be started again.
 *
 *     struct umbra_io_op op[2] = {
 *         {.call = UMBRA_IO_RECV, .fd = client, .at = text, .bytes = sizeof(text)},
 *         {.call = UMBRA_IO_RECV, .fd = server, .at = answer, .bytes = sizeof(answer)}};
 *     struct umbra_io_op *both[2] = {&op[0], &op[1]};
 *     unsigned which;
 *
 *     umbra_io_start(both[0]);
 *     umbra_io_start(both[1]);
 *     if (umbra_io_wait_any(both, 2, deadline, &which) == 0)
 *         ... op[which].result ...
 *     umbra_io_end(both[0]);
 *     umbra_io_end(both[1]);
 */
struct umbra_io_op {
    int call; /* one of enum umbra_io_call */
    int fd;
    void *at;        /* what is written or sent is only read; of a message: its struct msghdr */
    size_t bytes;    /* at most so many */
    uint64_t offset; /* of a read or write, or UMBRA_IO_HERE */
    int result; /* over: how many bytes, the connection's descriptor, or a negative errno as above */

    /* what follows is the library's */
    enum um_io_state state;
    short events;     /* what it waits for, of poll(2) */
    bool polls;       /* its wait is for the descriptor to be ready */
    bool connecting;  /* a connection attempt goes on */
    socklen_t length; /* of the address */
    const struct sockaddr *address;
    uint64_t deadline;         /* cycles */
    uint64_t rest_ns;          /* between the last two tries: um_io_rest() */
    uint64_t again;            /* cycles: when it is tried again */
    const void *from;          /* where the program has called, for reports */
    struct um_io_bell *bell;   /* signaled when its wait ends; NULL: none waits for that */
    struct um_uring *ring;     /* that it waits in; NULL: in the poller */
    struct umbra_io_op *next;  /* in the list of its descriptor (io/epoll.h) or ring */
    struct umbra_io_op **link; /* what points to it there: io/uring.h */
};

/*
 * Begins an operation; a fiber may have many under way. When it is over, perhaps at once, its result
 * is in op->result. With the way "pool" a read or write of a file is over when the call returns. A
 * fiber; may switch. Returns 0, or with nothing begun
 *   -EPERM   the caller is no fiber, or on an alternate signal stack
 *   -EINVAL  no such call; or UMBRA_IO, as above
 *   -EBUSY   the operation is under way
 *   -EMFILE, -ENFILE, -ENOMEM, -ENOSYS  as above, for the ring
 */
UM_LINKONCE int umbra_io_start(struct umbra_io_op *op);

/*
 * Waits until one of `count` operations is over, and gives its index; of several, the first of the
 * array. NULL in the array is passed over: so a loop that sets what is over to NULL waits for all. A
 * fiber of the core on which they were started; may switch. While it waits, no other fiber may wait
 * for these operations, or end them: umbra_cancel() ends the wait. Returns 0, or with all going on
 *   -ETIMEDOUT  the deadline passed first; 0: none is over by now
 *   -ECANCELED  the calling fiber is canceled
 *   -EPERM      the caller is no fiber, or on an alternate signal stack
 *   -ENOMEM     no memory to wait until a deadline
 *   -EINVAL     all are NULL
 */
UM_LINKONCE int umbra_io_wait_any(struct umbra_io_op *const *ops, unsigned count, uint64_t deadline,
                                  unsigned *which);

/* Ends an operation that is not over: its result is -ECANCELED then, and nothing was done, or what
 * it did instead. A fiber of the core on which it was started; may switch, also if it is canceled.
 * In a child of fork(2) it does nothing: the operation is the parent's. */
UM_LINKONCE void umbra_io_end(struct umbra_io_op *op);

#include <umbra/io/ways.h>

#endif
