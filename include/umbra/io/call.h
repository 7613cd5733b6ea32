/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An operation of umbra/io.h: what each of its ways knows of it, the system calls, and how a thread
 * that is no core executes it. Private; included by io/ways.h.
 */
#ifndef UMBRA_IO_CALL_H
#define UMBRA_IO_CALL_H

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
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
extern long um_linux_syscall(long number, ...) __asm__("syscall");
extern int um_linux_accept4(int socket, struct sockaddr *address, socklen_t *length,
                            int flags) __asm__("accept4");
extern int um_linux_ppoll(struct pollfd *ready, nfds_t count, const struct timespec *time,
                          const void *signals) __asm__("ppoll");
extern ssize_t um_linux_pread(int fd, void *at, size_t bytes, int64_t offset) __asm__("pread64");
extern ssize_t um_linux_pwrite(int fd, const void *at, size_t bytes,
                               int64_t offset) __asm__("pwrite64");

/* What a fiber waits for that has operations under way. */
struct um_io_bell {
    struct umbra_event event;
    bool rung; /* counted in io_woken of the core, until the fiber runs */
};

/* The wait of an operation has ended. result: of the ring, or what poll(2) says of its descriptor. Its
 * core. */
UM_LINKONCE void um_io_ended(struct umbra_core *core, struct umbra_io_op *io, int result)
{
    io->result = result;
    io->state = UM_IO_ENDED;
    if (io->bell && !io->bell->rung) {
        io->bell->rung = true;
        core->more->io_woken++;
        umbra_event_signal(&io->bell->event);
    }
}

/* The fiber waits for one of these operations, or until the deadline. 0 or an error. Not in place:
 * only its own core ends it. */
UM_LINKONCE int um_io_await(struct umbra_io_op *const *ops, unsigned count, uint64_t deadline,
                            const void *from)
{
    const bool in_vain = true;
    struct um_io_bell bell = {.event = UMBRA_EVENT_INIT};
    struct um_await await = {
        .event = &bell.event.event, .crowded = &in_vain, .deadline = deadline, .at = from};
    bool waits = true;
    int error = 0;

    for (unsigned i = 0; i < count; i++)
        if (ops[i]) {
            ops[i]->bell = &bell;
            waits = waits && ops[i]->state != UM_IO_ENDED;
            await.kind = &um_kind_system[ops[i]->call];
        }
    if (waits)
        error = um_await_run(&await);
    for (unsigned i = 0; i < count; i++)
        if (ops[i])
            ops[i]->bell = NULL;
    if (bell.rung)
        um_core_self->more->io_woken--;
    return error;
}

/* ---- an operation that does not wait ---- */

/* What poll(2) waits for, for the operation. */
UM_INLINE short um_io_events(const struct umbra_io_op *io)
{
    switch (io->call) {
    case UM_SYSTEM_READ:
    case UM_SYSTEM_RECV:
    case UM_SYSTEM_RECVMSG:
    case UM_SYSTEM_ACCEPT:
        return POLLIN;
    case UM_SYSTEM_POLL:
        return io->events;
    default:
        return POLLOUT;
    }
}

/* True if the descriptor is of a file, for which poll(2) never waits. */
UM_LINKONCE bool um_io_on_file(const struct umbra_io_op *io)
{
    struct stat status;

    return (io->call == UM_SYSTEM_READ || io->call == UM_SYSTEM_WRITE) &&
           fstat(io->fd, &status) == 0 &&
           (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) || S_ISDIR(status.st_mode));
}

/* The error that a connection attempt has ended with; -EINPROGRESS: it goes on. */
UM_LINKONCE int um_io_connected(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    socklen_t length = sizeof(int);
    int error = 0;

    if (poll(&ready, 1, 0) != 1) /* a signal may end it, too, though it does not wait */
        return -EINPROGRESS;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? -error : -errno;
}

/* The system's call as it is: it waits, unless the descriptor has O_NONBLOCK. */
UM_LINKONCE ssize_t um_io_plain(const struct umbra_io_op *io)
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
    case UM_SYSTEM_ACCEPT:
        return um_linux_accept4(io->fd, NULL, NULL, SOCK_CLOEXEC);
    default:
        return connect(io->fd, io->address, io->length);
    }
}

#define UM_LINUX_RWF_NOWAIT 8L /* strict C11 hides it; the same on all processors here */
#ifdef __O_DIRECT
#define UM_LINUX_O_DIRECT __O_DIRECT /* likewise, and each processor has its own */
#else
#define UM_LINUX_O_DIRECT O_DIRECT
#endif

/* After a read of nothing by RWF_NOWAIT: true if that is the end. Linux 5.9 and 5.10 say 0 also where
 * the page cache has nothing (readv(2), bugs). */
UM_LINKONCE bool um_io_at_end(const struct umbra_io_op *io)
{
    struct stat status;
    uint64_t at = io->offset;

    if (fstat(io->fd, &status) != 0 || S_ISBLK(status.st_mode))
        return false; /* not known: a call that waits says it */
    if (S_ISREG(status.st_mode) && at == UMBRA_IO_HERE)
        at = (uint64_t)lseek(io->fd, 0, SEEK_CUR);
    return !S_ISREG(status.st_mode) || at >= (uint64_t)status.st_size;
}

/* What the descriptor is ready for; -1 with EAGAIN: for nothing. */
UM_LINKONCE int um_io_poll_now(const struct umbra_io_op *io)
{
    struct pollfd ready = {.fd = io->fd, .events = io->events};
    int count = poll(&ready, 1, 0);

    if (count > 0 && !(ready.revents & POLLNVAL))
        return ready.revents;
    if (count >= 0)
        errno = count > 0 || io->fd < 0 ? EBADF : EAGAIN;
    return -1;
}

/* The call in a form that does not wait, and touches nothing else. um_io_no_form() of the result:
 * nothing was done. */
UM_LINKONCE ssize_t um_io_now(const struct umbra_io_op *io)
{
    const struct iovec part = {io->at, io->bytes};
    bool reads = io->call == UM_SYSTEM_READ;
    ssize_t result;

    switch (io->call) {
    case UM_SYSTEM_READ:
    case UM_SYSTEM_WRITE:
        if (io->bytes == 0) /* it would not look at the descriptor */
            break;
        result = um_linux_syscall(reads ? SYS_preadv2 : SYS_pwritev2, (long)io->fd, &part, 1L,
                                  io->offset, 0L, UM_LINUX_RWF_NOWAIT);
        if (result != 0 || !reads || um_io_at_end(io))
            return result;
        errno = EAGAIN;
        return -1;
    case UM_SYSTEM_RECV:
        return recv(io->fd, io->at, io->bytes, MSG_DONTWAIT);
    case UM_SYSTEM_SEND:
        return send(io->fd, io->at, io->bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    case UM_SYSTEM_RECVMSG:
        /* musl's writes to a message that is not there; sendmsg says EFAULT as well. */
        return io->at ? recvmsg(io->fd, io->at, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)
                      : sendmsg(io->fd, NULL, MSG_DONTWAIT | MSG_NOSIGNAL);
    case UM_SYSTEM_SENDMSG:
        return sendmsg(io->fd, io->at, MSG_DONTWAIT | MSG_NOSIGNAL);
    case UM_SYSTEM_POLL:
        return um_io_poll_now(io);
    default:
        break;
    }
    errno = EOPNOTSUPP;
    return -1;
}

/* As um_io_now(), for sockets before Linux 6.5: EOPNOTSUPP for all else. */
UM_LINKONCE ssize_t um_io_on_socket(const struct umbra_io_op *io)
{
    bool reads = io->call == UM_SYSTEM_READ;
    ssize_t result = -1;

    errno = ENOTSOCK;
    if ((reads || io->call == UM_SYSTEM_WRITE) && io->bytes > 0 && io->offset == UMBRA_IO_HERE)
        result = reads ? recv(io->fd, io->at, io->bytes, MSG_DONTWAIT)
                       : send(io->fd, io->at, io->bytes, MSG_DONTWAIT);
    if (result < 0 && errno == ENOTSOCK)
        errno = EOPNOTSUPP;
    return result;
}

/*
 * A read of a file at an offset, if the page cache has all of it, or all up to the file's end. False:
 * a later attempt reads all of it again. Left out are
 *   - the file's own position: the kernel lets one read after the other move it, and another read
 *     could come in between two calls for one
 *   - O_DIRECT, with which this form waits for the disk
 *   - writes: few file systems have this form
 */
UM_LINKONCE bool um_io_cached(const struct umbra_io_op *io, int *result)
{
    struct umbra_io_op rest = *io;
    ssize_t some;
    int flags;

    if (io->call != UM_SYSTEM_READ || io->offset == UMBRA_IO_HERE)
        return false;
    flags = fcntl(io->fd, F_GETFL);
    if (flags < 0 || (flags & UM_LINUX_O_DIRECT))
        return false;
    some = um_io_now(io);
    if (some < 0)
        return false;
    if (some > 0 && (size_t)some < io->bytes && um_io_on_file(io)) {
        rest.at = (char *)io->at + some;
        rest.bytes -= (size_t)some;
        rest.offset += (uint64_t)some;
        if (um_io_now(&rest) != 0) /* not the end */
            return false;
    }
    *result = (int)some;
    return true;
}

/* The process of the call that has set O_NONBLOCK, until it has put the flag back, or 0: another call
 * of the process would take the flag for the owner's, and find itself waiting. */
UM_SHARED(um_atomic_u32 um_io_flag_holder, 0);

/* A child of fork(2) may find here the process that it was forked from: the call went on there. */
UM_LINKONCE void um_io_flag_take(void)
{
    uint32_t own = um_os_process(), seen = 0;
    unsigned looks = 0;

    /* acquire: pairs with um_io_flag_give() */
    while (!um_atomic_cas(&um_io_flag_holder, &seen, own, acquire, relaxed))
        if (seen == own) {
            um_thread_look_again(looks++, UMBRA_NEVER);
            seen = 0;
        }
}

UM_LINKONCE void um_io_flag_give(void)
{
    um_atomic_store(&um_io_flag_holder, 0, release); /* pairs with um_io_flag_take() */
}

/* The plain call, with O_NONBLOCK meanwhile. */
UM_LINKONCE ssize_t um_io_with_flag(const struct umbra_io_op *io)
{
    ssize_t result = -1;
    int cancels, flags, saved;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
    um_io_flag_take();
    flags = fcntl(io->fd, F_GETFL); /* -1: no descriptor, as the call shall say */
    if ((flags & O_NONBLOCK) || fcntl(io->fd, F_SETFL, flags | O_NONBLOCK) == 0)
        result = um_io_plain(io);
    saved = errno;
    if (!(flags & O_NONBLOCK) && (flags = fcntl(io->fd, F_GETFL)) >= 0)
        fcntl(io->fd, F_SETFL, flags & ~O_NONBLOCK); /* others may have changed the others */
    um_io_flag_give();
    pthread_setcancelstate(cancels, &cancels);
    errno = saved;
    return result;
}

/* True if errno says that a form of the call is not there, or forbidden. */
UM_INLINE bool um_io_no_form(ssize_t result)
{
    return result < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM);
}

/* Carries out the operation unless it must wait. Returns its result, or a negative errno. */
UM_LINKONCE int um_io_try(const struct umbra_io_op *io)
{
    bool has_more_forms = io->call == UM_SYSTEM_READ || io->call == UM_SYSTEM_WRITE ||
                          io->call == UM_SYSTEM_ACCEPT || io->call == UM_SYSTEM_CONNECT;
    ssize_t result;

    do {
        result = um_io_now(io);
        if (has_more_forms && um_io_no_form(result))
            result = um_io_on_socket(io);
        if (has_more_forms && um_io_no_form(result))
            result = um_io_with_flag(io);
    } while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : (int)result;
}

/* Carries out a read or write of a file, for as long as it takes. */
UM_LINKONCE int um_io_block(const struct umbra_io_op *io)
{
    ssize_t result;

    do
        result = um_io_plain(io);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : (int)result;
}

/* The address that the operation names, or NULL. */
UM_INLINE const struct sockaddr *um_io_address(const struct umbra_io_op *io)
{
    const struct msghdr *message = io->at;

    if (io->call == UM_SYSTEM_CONNECT)
        return io->address;
    return io->call == UM_SYSTEM_SENDMSG && message->msg_namelen >= sizeof(sa_family_t)
               ? message->msg_name
               : NULL;
}

/* True if a result says that a connection or a message has found the queue of a local socket, or of a
 * netlink socket, full. Nothing reports that there is room again: poll(2) says that the own socket can
 * be written. */
UM_INLINE bool um_io_finds_full(const struct umbra_io_op *io, int result)
{
    const struct sockaddr *to = result == -EAGAIN ? um_io_address(io) : NULL;

    return to && (to->sa_family == AF_UNIX || to->sa_family == AF_NETLINK);
}

/* True if nothing reports when it is worth another try: it has found a full queue; or the descriptor's
 * last report was of an error that does not concern it, an entry of the error queue, which poll(2)
 * says as long as it is there. */
UM_INLINE bool um_io_unreported(const struct umbra_io_op *io, int result)
{
    return um_io_finds_full(io, result) || (io->result > 0 && (io->result & POLLERR));
}

/* True if a result says that the operation has to wait. */
UM_INLINE bool um_io_must_wait(const struct umbra_io_op *io, int result)
{
    if (io->call == UM_SYSTEM_CONNECT)
        return result == -EINPROGRESS || um_io_finds_full(io, result);
    return result == -EAGAIN;
}

/* The first wait before a full local socket is tried again, a sleep and a wake-up, and the longest:
 * a hundred tries a second. */
#define UM_IO_REST_LEAST_NS 50000
#define UM_IO_REST_MOST_NS 10000000

/* Begins the wait before an operation that nothing reports is tried again, each time twice as long. 0
 * or -ETIMEDOUT. */
UM_LINKONCE int um_io_rest(struct umbra_io_op *io)
{
    if (um_cycles() >= io->deadline)
        return -ETIMEDOUT;
    io->rest_ns =
        io->rest_ns == 0 ? UM_IO_REST_LEAST_NS : um_min_u64(2 * io->rest_ns, UM_IO_REST_MOST_NS);
    io->again = um_min_u64(um_cycles_after(io->rest_ns), io->deadline);
    io->state = UM_IO_RESTS;
    io->polls = true;
    io->result = 0;
    return 0;
}

/* The most that one call of the system reads or writes. */
#define UM_IO_MOST_BYTES ((size_t)0x7ffff000)

UM_INLINE size_t um_io_most(size_t bytes)
{
    return bytes < UM_IO_MOST_BYTES ? bytes : UM_IO_MOST_BYTES;
}

/* Begins a wait until the descriptor is ready for the operation, or waits: 0 or a negative errno. */
typedef int um_io_ready_fn(void *context, struct umbra_io_op *io);

/* One attempt more, after a wait with this error, or 0. */
UM_LINKONCE int um_io_again(const struct umbra_io_op *io, int error)
{
    /* the report may be of an earlier socket of this number; and it may have come before the
     * deadline, and the core not looked; or there was no attempt yet */
    int result = io->connecting ? um_io_connected(io->fd) : um_io_try(io);

    return error != 0 && um_io_must_wait(io, result) ? error : result;
}

/* After an attempt with this result: the operation waits for its descriptor, or is over. */
UM_LINKONCE void um_io_go_on(struct umbra_io_op *io, int result, um_io_ready_fn *ready,
                             void *context)
{
    while (um_io_must_wait(io, result)) {
        int error;

        io->connecting = result == -EINPROGRESS;
        error = um_io_unreported(io, result) ? um_io_rest(io) : ready(context, io);
        if (error == 0 && io->state != UM_IO_OVER)
            return;
        result = um_io_again(io, error);
    }
    io->state = UM_IO_OVER;
    io->result = result;
}

/* ---- threads that are no core ---- */

/* As poll(2) of one descriptor, which rounds to milliseconds, for so many ns, or UMBRA_NEVER. */
UM_LINKONCE int um_io_poll_for(struct pollfd *ready, uint64_t ns)
{
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
                            .tv_nsec = (long)(ns % 1000000000)};

    return um_linux_ppoll(ready, 1, ns == UMBRA_NEVER ? NULL : &time, NULL);
}

/* Waits until the descriptor is ready. 0, -ETIMEDOUT or another negative errno. */
UM_LINKONCE int um_io_poll(void *nothing, struct umbra_io_op *io)
{
    struct pollfd ready = {.fd = io->fd, .events = um_io_events(io)};
    int count;

    (void)nothing;
    /* poll may say for ever that it is ready, as POLLERR of an error queue */
    if (um_cycles() >= io->deadline)
        return -ETIMEDOUT;
    do {
        uint64_t now = um_cycles();
        uint64_t left = now < io->deadline ? um_cycles_to_ns(io->deadline - now) : 0;

        count = um_io_poll_for(&ready, io->deadline == UMBRA_NEVER ? UMBRA_NEVER : left);
    } while ((count < 0 && errno == EINTR) || (count == 0 && um_cycles() < io->deadline));
    io->result = ready.revents;
    return count > 0 ? 0 : count < 0 ? -errno : -ETIMEDOUT;
}

UM_LINKONCE int um_io_of_thread(struct umbra_io_op *io)
{
    if (um_io_on_file(io))
        return um_io_block(io);
    um_io_go_on(io, um_io_try(io), um_io_poll, NULL);
    while (io->state == UM_IO_RESTS) {
        int error = um_thread_sleep(io->again);

        io->state = UM_IO_OVER;
        um_io_go_on(io, um_io_again(io, error), um_io_poll, NULL);
    }
    return io->result;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
