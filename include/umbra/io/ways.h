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

/* The result of an operation, or a negative errno. */
UM_LINKONCE int um_io_run(struct um_io *io)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self = core ? um_core_current(core) : NULL;
    int error = 0;

    if (!self) {
        error = um_io_forced();
        return error < 0 ? error : um_why_none(um_io_of_thread(io));
    }
    if (!um_fiber_on_stack(self))
        return um_why_off_stack();
    if (!core->more->io_begun)
        error = um_io_begin(core);
    if (error != 0)
        return error;
    return um_why_none(um_uring_run(core, io));
}

/* ---- operations ---- */

/* Gives the count that an operation returned to its caller. */
UM_INLINE int um_io_count(int result, size_t *count)
{
    if (result < 0)
        return result;
    *count = (size_t)result;
    return 0;
}

UM_LINKONCE UM_NOINLINE int umbra_io_read(int fd, void *at, size_t bytes, uint64_t offset,
                                          uint64_t deadline, size_t *got)
{
    struct um_io io = {.call = UM_SYSTEM_READ,
                       .fd = fd,
                       .at = at,
                       .bytes = um_io_most(bytes),
                       .offset = offset,
                       .deadline = um_deadline_cycles(deadline),
                       .from = __builtin_return_address(0)};

    return um_io_count(um_io_run(&io), got);
}

UM_LINKONCE UM_NOINLINE int umbra_io_write(int fd, const void *at, size_t bytes, uint64_t offset,
                                           uint64_t deadline, size_t *put)
{
    struct um_io io = {.call = UM_SYSTEM_WRITE,
                       .fd = fd,
                       .at = (void *)(uintptr_t)at,
                       .bytes = um_io_most(bytes),
                       .offset = offset,
                       .deadline = um_deadline_cycles(deadline),
                       .from = __builtin_return_address(0)};

    return um_io_count(um_io_run(&io), put);
}

UM_LINKONCE UM_NOINLINE int umbra_io_recv(int socket, void *at, size_t bytes, uint64_t deadline,
                                          size_t *got)
{
    struct um_io io = {.call = UM_SYSTEM_RECV,
                       .fd = socket,
                       .at = at,
                       .bytes = um_io_most(bytes),
                       .deadline = um_deadline_cycles(deadline),
                       .from = __builtin_return_address(0)};

    return um_io_count(um_io_run(&io), got);
}

UM_LINKONCE UM_NOINLINE int umbra_io_send(int socket, const void *at, size_t bytes,
                                          uint64_t deadline, size_t *sent)
{
    struct um_io io = {.call = UM_SYSTEM_SEND,
                       .fd = socket,
                       .at = (void *)(uintptr_t)at,
                       .bytes = um_io_most(bytes),
                       .deadline = um_deadline_cycles(deadline),
                       .from = __builtin_return_address(0)};

    return um_io_count(um_io_run(&io), sent);
}

UM_LINKONCE UM_NOINLINE int umbra_io_accept(int socket, uint64_t deadline, int *connection)
{
    struct um_io io = {.call = UM_SYSTEM_ACCEPT,
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
    struct um_io io = {.call = UM_SYSTEM_CONNECT,
                       .fd = socket,
                       .address = address,
                       .length = length,
                       .deadline = um_deadline_cycles(deadline),
                       .from = __builtin_return_address(0)};
    int result = um_io_run(&io);

    return result < 0 ? result : 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
