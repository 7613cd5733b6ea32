/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An operation of umbra/io.h: what each of its ways knows of it, the system calls, and how a thread
 * that is no core executes it. Private; included by impl/io.h.
 */
#ifndef UMBRA_IMPL_IO_CALL_H
#define UMBRA_IMPL_IO_CALL_H

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/event.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* Strict C11 hides these: see os/linux.h. */
extern int um_linux_accept4(int socket, struct sockaddr *address, socklen_t *length,
                            int flags) __asm__("accept4");
extern ssize_t um_linux_pread(int fd, void *at, size_t bytes, int64_t offset) __asm__("pread64");
extern ssize_t um_linux_pwrite(int fd, const void *at, size_t bytes,
                               int64_t offset) __asm__("pwrite64");

/* An operation, in the frame of its caller. */
struct um_io {
    enum um_system_call call;
    int fd;
    void *at;
    size_t bytes;
    uint64_t offset; /* read and write */
    const struct sockaddr *address;
    socklen_t length;
    uint64_t deadline;
    const void *from; /* where the program has called, for reports */

    short events;            /* what it waits for, of poll(2) */
    int result;              /* written before `done` is signaled */
    uint64_t pause_ns;       /* before it is tried again: um_io_pause() */
    struct um_io *next;      /* in the list of its descriptor: impl/io_pool.h */
    struct umbra_event done; /* signaled by the side that ends the operation, and uses it no more */
};

/* The fiber waits until its operation is done, or until the deadline. */
UM_LINKONCE int um_io_await(struct um_io *io, uint64_t deadline)
{
    struct um_await await = {.event = &io->done.event,
                             .deadline = deadline,
                             .kind = &um_kind_system[io->call],
                             .at = io->from};

    return um_await_run(&await);
}

/* The same, in spite of a cancellation. */
UM_LINKONCE void um_io_await_firm(struct um_io *io)
{
    um_event_wait_firm(&io->done, NULL, NULL, &um_kind_system[io->call], NULL, io->from);
}

/* ---- an operation that does not wait ---- */

/* What poll(2) waits for, for the operation. */
UM_INLINE short um_io_events(enum um_system_call call)
{
    return call == UM_SYSTEM_READ || call == UM_SYSTEM_RECV || call == UM_SYSTEM_ACCEPT ? POLLIN
                                                                                        : POLLOUT;
}

/* True if the descriptor is of a file, for which poll(2) never waits. */
UM_LINKONCE bool um_io_on_file(const struct um_io *io)
{
    struct stat status;

    return (io->call == UM_SYSTEM_READ || io->call == UM_SYSTEM_WRITE) &&
           fstat(io->fd, &status) == 0 &&
           (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) || S_ISDIR(status.st_mode));
}

/* Makes the descriptor one whose operations do not wait. 0 or a negative errno. */
UM_LINKONCE int um_io_unblock(const struct um_io *io)
{
    int flags;

    if (io->call == UM_SYSTEM_RECV || io->call == UM_SYSTEM_SEND)
        return 0; /* MSG_DONTWAIT */
    flags = fcntl(io->fd, F_GETFL);
    if (flags >= 0 && ((flags & O_NONBLOCK) || fcntl(io->fd, F_SETFL, flags | O_NONBLOCK) == 0))
        return 0;
    return -errno;
}

/* The error that a connection attempt has ended with; -EINPROGRESS: it goes on. */
UM_LINKONCE int um_io_connected(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    socklen_t length = sizeof(int);
    int error = 0;

    if (poll(&ready, 1, 0) == 0)
        return -EINPROGRESS;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? -error : -errno;
}

UM_LINKONCE ssize_t um_io_call(const struct um_io *io)
{
    switch (io->call) {
    case UM_SYSTEM_READ:
        return io->offset == UMBRA_IO_HERE
                   ? read(io->fd, io->at, io->bytes)
                   : um_linux_pread(io->fd, io->at, io->bytes, (int64_t)io->offset);
    case UM_SYSTEM_WRITE:
        return io->offset == UMBRA_IO_HERE
                   ? write(io->fd, io->at, io->bytes)
                   : um_linux_pwrite(io->fd, io->at, io->bytes, (int64_t)io->offset);
    case UM_SYSTEM_RECV:
        return recv(io->fd, io->at, io->bytes, MSG_DONTWAIT);
    case UM_SYSTEM_SEND:
        return send(io->fd, io->at, io->bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    case UM_SYSTEM_ACCEPT:
        return um_linux_accept4(io->fd, NULL, NULL, SOCK_CLOEXEC);
    default:
        return connect(io->fd, io->address, io->length);
    }
}

/* Carries the operation out by a system call. Returns its result, or a negative errno. */
UM_LINKONCE int um_io_try(const struct um_io *io)
{
    ssize_t result;

    do
        result = um_io_call(io);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : (int)result;
}

/* True if a result says that the connection of a local socket has found the other side's queue
 * full. Nothing reports that there is room again: poll(2) says that the socket can be written. */
UM_INLINE bool um_io_finds_full(const struct um_io *io, int result)
{
    return result == -EAGAIN && io->call == UM_SYSTEM_CONNECT && io->address->sa_family == AF_UNIX;
}

/* True if a result says that the operation has to wait. */
UM_INLINE bool um_io_must_wait(const struct um_io *io, int result)
{
    if (io->call == UM_SYSTEM_CONNECT)
        return result == -EINPROGRESS || um_io_finds_full(io, result);
    return result == -EAGAIN;
}

#define UM_IO_PAUSE_LEAST_NS 50000
#define UM_IO_PAUSE_MOST_NS 10000000

/* Sleeps before an operation that nothing reports is tried again, each time twice as long. 0,
 * -ETIMEDOUT, -ECANCELED or another error of a sleep. */
UM_LINKONCE int um_io_pause(struct um_io *io)
{
    uint64_t until;

    if (umbra_cycles() >= io->deadline)
        return -ETIMEDOUT;
    io->pause_ns = io->pause_ns == 0 ? UM_IO_PAUSE_LEAST_NS
                                     : um_min_u64(2 * io->pause_ns, UM_IO_PAUSE_MOST_NS);
    until = um_min_u64(um_cycles_after(io->pause_ns), io->deadline);
    return um_sleep_at(until, &um_kind_system[io->call], NULL, io->from);
}

/* The most that one call of the system reads or writes. */
#define UM_IO_MOST_BYTES ((size_t)0x7ffff000)

UM_INLINE size_t um_io_most(size_t bytes)
{
    return bytes < UM_IO_MOST_BYTES ? bytes : UM_IO_MOST_BYTES;
}

/* ---- threads that are no core ---- */

/* Waits until the descriptor is ready. 0, -ETIMEDOUT or another negative errno. */
UM_LINKONCE int um_io_poll(const struct um_io *io)
{
    struct pollfd ready = {.fd = io->fd, .events = um_io_events(io->call)};
    int count;

    do {
        uint64_t now = umbra_cycles();
        uint64_t ms = now < io->deadline ? umbra_cycles_to_ns(io->deadline - now) / 1000000 + 1 : 0;

        count = poll(&ready, 1, io->deadline == UMBRA_NEVER ? -1 : (int)um_min_u64(ms, INT32_MAX));
    } while ((count < 0 && errno == EINTR) || (count == 0 && umbra_cycles() < io->deadline));
    return count > 0 ? 0 : count < 0 ? -errno : -ETIMEDOUT;
}

UM_LINKONCE int um_io_of_thread(struct um_io *io)
{
    int error = um_io_on_file(io) ? 0 : um_io_unblock(io);
    int result;

    if (error != 0)
        return error;
    while (um_io_must_wait(io, result = um_io_try(io))) {
        /* poll may say for ever that it is ready, as POLLERR of an error queue */
        if (um_io_finds_full(io, result))
            error = um_io_pause(io);
        else
            error = umbra_cycles() < io->deadline ? um_io_poll(io) : -ETIMEDOUT;
        if (error != 0)
            return error;
        if (result == -EINPROGRESS)
            return um_io_connected(io->fd);
    }
    return result;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
