/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/io.h: which way an operation goes. Private; included by that header, after
 * its declarations.
 */
#ifndef UMBRA_IO_WAYS_H
#define UMBRA_IO_WAYS_H

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core.h>
#include <umbra/io/call.h>
#include <umbra/io/epoll.h>
#include <umbra/io/uring.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* ---- which way ---- */

enum um_io_way { UM_IO_EITHER, UM_IO_URING, UM_IO_POOL };

/* The way that UMBRA_IO forces, or -EINVAL: none is called so. */
UM_LINKONCE UM_COLD int um_io_forced(void)
{
    const char *name = getenv("UMBRA_IO");

    if (!name || !*name)
        return UM_IO_EITHER;
    if (strcmp(name, "uring") == 0)
        return UM_IO_URING;
    if (strcmp(name, "pool") == 0)
        return UM_IO_POOL;
    return um_why(-EINVAL, "UMBRA_IO=%.60s: unknown; there are uring, pool", name);
}

/* The core's first operation: makes its ring, unless there is none to be had and `pool` is allowed.
 * 0, or a negative errno: then the next operation tries again. */
UM_LINKONCE UM_COLD int um_io_begin(struct umbra_core *core)
{
    int way = um_io_forced();
    int error = 0;

    if (way < 0)
        return way;
    if (way != UM_IO_POOL)
        error = um_uring_make(core, way == UM_IO_URING);
    if (error == -ENOSYS && way == UM_IO_EITHER)
        error = 0;
    core->more->io_begun = error == 0;
    return um_why_none(error);
}

/* The core of the calling fiber, with its way made; else NULL with *error. */
UM_LINKONCE struct umbra_core *um_io_core(int *error)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self = core ? um_core_current(core) : NULL;

    if (!self)
        *error = um_why(-EPERM, "the caller is no fiber");
    else if (!um_fiber_on_stack(self))
        *error = um_why_off_stack();
    else
        *error = core->more->io_begun ? 0 : um_io_begin(core);
    return *error == 0 ? core : NULL;
}

/* True if the operation's wait has ended. */
UM_INLINE bool um_io_has_ended(const struct umbra_io_op *io)
{
    return io->state == UM_IO_ENDED || (io->state == UM_IO_RESTS && um_cycles() >= io->again);
}

/* Waits for the first of some operations: its index, or a negative errno. deadline: cycles. */
UM_LINKONCE int um_io_first(struct umbra_core *core, struct umbra_io_op *const *ops, unsigned count,
                            uint64_t deadline, const void *from)
{
    bool some = false;
    int error = 0;

    for (;;) {
        uint64_t until = deadline;

        for (unsigned i = 0; i < count; i++) {
            if (!ops[i])
                continue;
            while (um_io_has_ended(ops[i]))
                um_uring_step(core, ops[i], 0);
            if (ops[i]->state == UM_IO_OVER)
                return (int)i;
            if (ops[i]->state == UM_IO_RESTS)
                until = um_min_u64(until, ops[i]->again);
            some = true;
        }
        if (!some)
            return um_why(-EINVAL, "there is no operation to wait for");
        if (error != 0)
            return error;
        error = um_io_await(ops, count, until, from);
        if (error == -ETIMEDOUT && until < deadline)
            error = 0;
    }
}

/* The result of an operation, or a negative errno. */
UM_LINKONCE int um_io_run(struct umbra_io_op *io)
{
    struct umbra_core *core = um_core_self;
    int error;

    if (!core || !um_core_current(core)) {
        error = um_io_forced();
        return error < 0 ? error : um_why_none(um_io_of_thread(io));
    }
    if (!um_io_core(&error))
        return error;
    um_uring_start(core, io);
    if (io->state != UM_IO_OVER) {
        error = um_io_first(core, &io, 1, io->deadline, io->from);
        if (error < 0)
            um_uring_step(core, io, error);
    }
    return um_why_none(io->result);
}

/* ---- operations ---- */

/* An operation that returns a count: *count is it then. from: for reports */
UM_INLINE int um_io_counted(int call, int fd, const void *at, size_t bytes, uint64_t offset,
                            uint64_t deadline, size_t *count, const void *from)
{
    struct umbra_io_op io = {.call = call,
                             .fd = fd,
                             .at = (void *)(uintptr_t)at,
                             .bytes = um_io_most(bytes),
                             .offset = offset,
                             .deadline = um_deadline_cycles(deadline),
                             .from = from};
    int result = um_io_run(&io);

    if (result < 0)
        return result;
    *count = (size_t)result;
    return 0;
}

UM_LINKONCE UM_NOINLINE int umbra_io_read(int fd, void *at, size_t bytes, uint64_t offset,
                                          uint64_t deadline, size_t *got)
{
    return um_io_counted(UM_SYSTEM_READ, fd, at, bytes, offset, deadline, got,
                         __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_io_write(int fd, const void *at, size_t bytes, uint64_t offset,
                                           uint64_t deadline, size_t *put)
{
    return um_io_counted(UM_SYSTEM_WRITE, fd, at, bytes, offset, deadline, put,
                         __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_io_recv(int socket, void *at, size_t bytes, uint64_t deadline,
                                          size_t *got)
{
    return um_io_counted(UM_SYSTEM_RECV, socket, at, bytes, 0, deadline, got,
                         __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_io_send(int socket, const void *at, size_t bytes,
                                          uint64_t deadline, size_t *sent)
{
    return um_io_counted(UM_SYSTEM_SEND, socket, at, bytes, 0, deadline, sent,
                         __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_io_recvmsg(int socket, struct msghdr *message, uint64_t deadline,
                                             size_t *got)
{
    return um_io_counted(UM_SYSTEM_RECVMSG, socket, message, 0, 0, deadline, got,
                         __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_io_sendmsg(int socket, const struct msghdr *message,
                                             uint64_t deadline, size_t *sent)
{
    return um_io_counted(UM_SYSTEM_SENDMSG, socket, message, 0, 0, deadline, sent,
                         __builtin_return_address(0));
}

UM_LINKONCE UM_NOINLINE int umbra_io_accept(int socket, uint64_t deadline, int *connection)
{
    struct umbra_io_op io = {.call = UM_SYSTEM_ACCEPT,
                             .fd = socket,
                             .deadline = um_deadline_cycles(deadline),
                             .from = __builtin_return_address(0)};
    int result = um_io_run(&io);

    if (result < 0)
        return result;
    *connection = result;
    return 0;
}

UM_LINKONCE UM_NOINLINE int umbra_io_connect(int socket, const struct sockaddr *address,
                                             socklen_t length, uint64_t deadline)
{
    struct umbra_io_op io = {.call = UM_SYSTEM_CONNECT,
                             .fd = socket,
                             .address = address,
                             .length = length,
                             .deadline = um_deadline_cycles(deadline),
                             .from = __builtin_return_address(0)};
    int result = um_io_run(&io);

    return result < 0 ? result : 0;
}

UM_LINKONCE UM_NOINLINE int umbra_io_ready(int fd, short events, uint64_t deadline, short *ready)
{
    struct umbra_io_op io = {.call = UM_SYSTEM_POLL,
                             .fd = fd,
                             .events = events,
                             .deadline = um_deadline_cycles(deadline),
                             .from = __builtin_return_address(0)};
    int result;

    if (events == 0 || (events & ~(POLLIN | POLLOUT)))
        return um_why(-EINVAL, "events = %#x: not of POLLIN and POLLOUT", (unsigned)events);
    result = um_io_run(&io);
    if (result < 0)
        return result;
    *ready = (short)result;
    return 0;
}

/* ---- several operations at once ---- */

UM_LINKONCE UM_NOINLINE int umbra_io_start(struct umbra_io_op *op)
{
    int error;
    struct umbra_core *core = um_io_core(&error);

    if (!core)
        return error;
    if (op->call < UMBRA_IO_READ || op->call > UMBRA_IO_SENDMSG)
        return um_why(-EINVAL, "call = %d: not one of enum umbra_io_call", op->call);
    if (op->state != UM_IO_OVER)
        return um_why(-EBUSY, "the operation is under way");
    *op = (struct umbra_io_op){.call = op->call,
                               .fd = op->fd,
                               .at = op->at,
                               .bytes = um_io_most(op->bytes),
                               .offset = op->offset,
                               .deadline = UMBRA_NEVER,
                               .from = __builtin_return_address(0)};
    um_uring_start(core, op);
    return 0;
}

UM_LINKONCE UM_NOINLINE int umbra_io_wait_any(struct umbra_io_op *const *ops, unsigned count,
                                              uint64_t deadline, unsigned *which)
{
    int first;
    struct umbra_core *core = um_io_core(&first);

    if (!core)
        return first;
    /* a fiber that only asks would keep them out */
    if (deadline == 0 && core->asks != &core->no_completions)
        core->more->completions->attend(core->more->completions, true);
    first =
        um_io_first(core, ops, count, um_deadline_cycles(deadline), __builtin_return_address(0));
    if (first < 0)
        return first;
    *which = (unsigned)first;
    return 0;
}

UM_LINKONCE void umbra_io_end(struct umbra_io_op *op)
{
    struct umbra_core *core = um_core_self; /* NULL in a child of fork(2) */

    if (core && op->state != UM_IO_OVER)
        um_uring_step(core, op, -ECANCELED);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
