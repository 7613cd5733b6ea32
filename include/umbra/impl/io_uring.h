/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The way "uring" of umbra/io.h: one io_uring for a core. The only file that names liburing.
 * Private; included by impl/io.h.
 *
 * Only the core's own thread touches its ring, and the kernel puts completions into it only while
 * that thread is in a call of the ring (IORING_SETUP_DEFER_TASKRUN): so a flag of the ring
 * (IORING_SQ_TASKRUN) is all that a busy core looks at (core/source.h).
 *
 * Operations are queued in the ring, and go to the kernel together. The first that is queued spawns
 * a fiber that submits: it runs after all fibers that are ready by then, which may queue theirs.
 *
 * An operation lives in its caller's frame. A caller whose wait ends early queues a cancellation,
 * and waits on, whatever comes, for the operation's own completion: only after that has the kernel
 * done with the buffer, and the frame.
 */
#ifndef UMBRA_IMPL_IO_URING_H
#define UMBRA_IMPL_IO_URING_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/event.h>
#include <umbra/impl/io_call.h>
#include <umbra/impl/io_pool.h>
#include <umbra/protocol/uring.h>

#if defined(UMBRA_IMPLEMENTATION) && defined(UMBRA_URING) && !defined(UMBRA_POSIX_ONLY)
#include <fcntl.h>
#ifndef _GNU_SOURCE
#define UM_NOT_GNU_SOURCE /* liburing.h defines it; that is for the user to decide */
#endif
#ifndef AT_FDCWD
#define AT_FDCWD -100 /* liburing.h needs it, strict C11 hides it: by its fixed ABI */
#define UM_NO_AT_FDCWD
#endif
#include <liburing.h>
#ifdef UM_NO_AT_FDCWD
#undef AT_FDCWD
#undef UM_NO_AT_FDCWD
#endif
#ifdef UM_NOT_GNU_SOURCE
#undef _GNU_SOURCE
#undef UM_NOT_GNU_SOURCE
#endif
#define UM_HAS_URING
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

#ifndef UM_HAS_URING

/* The program has none: umbra/io.h says when. */
UM_LINKONCE UM_COLD int um_uring_make(struct umbra_core *core)
{
    (void)core;
    return -ENOSYS;
}

UM_LINKONCE UM_COLD int um_uring_run(struct umbra_core *core, struct um_io *io)
{
    (void)core;
    (void)io;
    return -ENOSYS;
}

#else

#define UM_URING_QUEUED 256     /* operations that are queued before they must be submitted */
#define UM_URING_COMPLETED 4096 /* places for completions; the kernel keeps what is more */

/* Not in every liburing that will do: Linux 6.7, and the flags of futex2. */
#define UM_URING_FUTEX_WAIT 51
#define UM_URING_FUTEX_WORD (2 | 128) /* 32 bits, private to the process */
#define UM_URING_FUTEX_ANY UINT32_MAX

/* A ring, its core's source. */
struct um_uring {
    struct um_source source;
    struct um_uring_bed bed;
    struct umbra_core *core;
    struct io_uring ring;
    bool flushes; /* a fiber has been spawned that will submit */
};

UM_INLINE struct um_uring *um_uring_of_bed(struct um_uring_bed *bed)
{
    return (struct um_uring *)((char *)bed - offsetof(struct um_uring, bed));
}

/* ---- completions ---- */

/* data: the operation, the bed (its watch), or NULL (a cancellation). */
UM_LINKONCE void um_uring_complete(struct um_uring *uring, void *data, int result)
{
    struct um_io *io = data;

    if (data == &uring->bed) {
        uring->bed.watched = false;
    } else if (data) {
        io->result = result;
        uring->source.under_way--;
        umbra_event_signal(&io->done);
    }
}

UM_LINKONCE void um_uring_take(struct um_uring *uring)
{
    struct io_uring_cqe *cqe;
    unsigned head;
    unsigned count = 0;

    io_uring_for_each_cqe(&uring->ring, head, cqe)
    {
        um_uring_complete(uring, io_uring_cqe_get_data(cqe), cqe->res);
        count++;
    }
    io_uring_cq_advance(&uring->ring, count);
}

/* Submits what is queued, as far as the kernel takes it, and takes all completions. The core. */
UM_LINKONCE void um_uring_submit(struct um_uring *uring)
{
    io_uring_submit_and_get_events(&uring->ring); /* what it has not taken stays queued */
    um_uring_take(uring);
}

UM_LINKONCE void um_uring_attend(struct um_source *source)
{
    um_uring_submit((struct um_uring *)source);
}

/* ---- operations ---- */

/* A place in the queue; the fiber that calls may switch. */
UM_LINKONCE struct io_uring_sqe *um_uring_place(struct um_uring *uring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

    while (!sqe) {
        um_uring_submit(uring);
        sqe = io_uring_get_sqe(&uring->ring);
        if (!sqe) /* the kernel has no memory for more operations at the moment */
            umbra_yield();
    }
    return sqe;
}

/* Submits what all fibers have queued that were ready when it was spawned. */
UM_LINKONCE void *um_uring_flush(void *arg)
{
    struct um_uring *uring = arg;

    uring->flushes = false;
    for (;;) {
        um_uring_submit(uring);
        if (io_uring_sq_ready(&uring->ring) == 0)
            return NULL;
        umbra_yield();
    }
}

UM_LINKONCE void um_uring_flush_soon(struct um_uring *uring)
{
    if (uring->flushes)
        return;
    uring->flushes = umbra_spawn(um_uring_flush, uring, NULL) == 0;
    if (!uring->flushes)
        um_uring_submit(uring);
}

UM_LINKONCE void um_uring_prepare(struct io_uring_sqe *sqe, const struct um_io *io)
{
    switch (io->call) {
    case UM_SYSTEM_READ:
        io_uring_prep_read(sqe, io->fd, io->at, (unsigned)io->bytes, io->offset);
        break;
    case UM_SYSTEM_WRITE:
        io_uring_prep_write(sqe, io->fd, io->at, (unsigned)io->bytes, io->offset);
        break;
    case UM_SYSTEM_RECV:
        io_uring_prep_recv(sqe, io->fd, io->at, io->bytes, 0);
        break;
    case UM_SYSTEM_SEND:
        io_uring_prep_send(sqe, io->fd, io->at, io->bytes, MSG_NOSIGNAL);
        break;
    case UM_SYSTEM_ACCEPT:
        io_uring_prep_accept(sqe, io->fd, NULL, NULL, SOCK_CLOEXEC);
        break;
    default:
        io_uring_prep_connect(sqe, io->fd, io->address, io->length);
    }
}

UM_LINKONCE void um_uring_cancel(struct um_uring *uring, struct um_io *io)
{
    struct io_uring_sqe *sqe = um_uring_place(uring);

    io_uring_prep_cancel(sqe, io, 0);
    io_uring_sqe_set_data(sqe, NULL);
    um_uring_flush_soon(uring);
}

/* Carries out the operation or, if `poll`, waits until its descriptor is ready. Returns the result,
 * or a negative errno. */
UM_LINKONCE int um_uring_once(struct um_uring *uring, struct um_io *io, bool poll)
{
    struct io_uring_sqe *sqe = um_uring_place(uring);
    int error;

    umbra_event_init(&io->done, false);
    if (poll)
        io_uring_prep_poll_add(sqe, io->fd, (unsigned)um_io_events(io->call));
    else
        um_uring_prepare(sqe, io);
    io_uring_sqe_set_data(sqe, io);
    uring->source.under_way++;
    um_uring_flush_soon(uring);
    error = um_io_await(io, io->deadline);
    if (error == 0)
        return io->result;
    um_uring_cancel(uring, io);
    um_io_await_firm(io);
    /* else it was done: a poll, which has done nothing, may be so again and again, as with POLLERR of
     * an error queue */
    return poll || io->result == -ECANCELED || io->result == -EINTR || io->result == -EAGAIN
               ? error
               : io->result;
}

UM_LINKONCE int um_uring_ready(void *context, struct um_io *io)
{
    int result = um_uring_once(context, io, true);

    return result < 0 && result != -EINTR ? result : 0;
}

/*
 * True if the ring answers as the system's call does. It takes an address before it looks at the
 * descriptor, ignores an offset where there are no positions, and waits for reads of nothing, and
 * for what has no read, such as an epoll instance. The trial ends before it does anything, with
 * EFAULT if all but the memory is right.
 */
UM_LINKONCE bool um_uring_suits(const struct um_io *io)
{
    struct um_io trial = {.call = io->call, .fd = io->fd, .bytes = 1, .offset = io->offset};

    if (io->call == UM_SYSTEM_CONNECT)
        return io->length <= sizeof(struct sockaddr_storage);
    if (io->call != UM_SYSTEM_READ && io->call != UM_SYSTEM_WRITE)
        return true;
    trial.at = (void *)UINTPTR_MAX; /* no process has this */
    return io->bytes > 0 && um_io_plain(&trial) < 0 && errno == EFAULT;
}

/* A descriptor with O_NONBLOCK gets EAGAIN from the ring, too. A connection that finds a local
 * socket's queue full waits in the kernel otherwise, on a thread of the ring. */
UM_LINKONCE int um_uring_run(struct umbra_core *core, struct um_io *io)
{
    struct um_uring *uring = (struct um_uring *)core->more->source;
    bool suits = um_uring_suits(io);
    int result;

    do
        result = suits ? um_uring_once(uring, io, false) : -EAGAIN;
    while (result == -EINTR);
    if (result == -EAGAIN && um_io_on_file(io)) /* poll(2) is of no use */
        return um_pool_file(io);
    return um_io_finish(io, suits ? result : um_io_try(io), um_uring_ready, uring);
}

/* ---- sleeping: protocol/uring.h ---- */

UM_LINKONCE bool um_uring_watch(struct um_uring_bed *bed, um_atomic_u32 *parked)
{
    struct um_uring *uring = um_uring_of_bed(bed);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

    if (!sqe) {
        um_uring_submit(uring); /* which may make fibers ready: the core must not sleep now */
        return false;
    }
    io_uring_prep_rw(UM_URING_FUTEX_WAIT, sqe, UM_URING_FUTEX_WORD, (void *)parked, 0, 1);
    sqe->addr3 = UM_URING_FUTEX_ANY;
    io_uring_sqe_set_data(sqe, bed);
    return true;
}

UM_LINKONCE void um_uring_sleep(struct um_uring_bed *bed, uint64_t deadline_ns)
{
    struct um_uring *uring = um_uring_of_bed(bed);
    uint64_t now = deadline_ns == UMBRA_NEVER ? 0 : um_os_now_ns();
    uint64_t left = now < deadline_ns ? deadline_ns - now : 0;
    struct __kernel_timespec time = {.tv_sec = (int64_t)(left / 1000000000),
                                     .tv_nsec = (long long)(left % 1000000000)};
    struct io_uring_cqe *cqe;

    /* waits only if the kernel has taken all that was queued, the watch among it */
    io_uring_submit_and_wait_timeout(&uring->ring, &cqe, 1,
                                     deadline_ns == UMBRA_NEVER ? NULL : &time, NULL);
    um_uring_take(uring);
}

UM_LINKONCE void um_uring_park_core(struct um_source *source, uint64_t deadline_ns)
{
    struct um_uring *uring = (struct um_uring *)source;

    um_uring_park(&uring->core->waiter.park, &uring->bed, um_source_ready, uring->core,
                  deadline_ns);
}

/* ---- begin and end ---- */

/* The core ends, and its fibers are freed: no operation may be under way in their frames. */
UM_LINKONCE UM_COLD void um_uring_end(struct um_source *source)
{
    struct um_uring *uring = (struct um_uring *)source;

    while (source->under_way > 0) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

        if (sqe) {
            io_uring_prep_cancel(sqe, NULL, IORING_ASYNC_CANCEL_ANY);
            io_uring_sqe_set_data(sqe, NULL);
        }
        io_uring_submit_and_wait(&uring->ring, 1);
        um_uring_take(uring);
    }
    io_uring_queue_exit(&uring->ring);
    free(uring);
}

/*
 * True under Valgrind, which takes a wait in io_uring_enter for a call that returns at once, and
 * lets no other thread run meanwhile (its bug 463859).
 */
UM_LINKONCE UM_COLD bool um_uring_blocks_all(void)
{
#ifdef UM_CONTEXT_VALGRIND
    return RUNNING_ON_VALGRIND != 0;
#else
    return false;
#endif
}

/* Opens the ring. 0; -ENOSYS: the kernel has none that will do, or forbids it; or its error. */
UM_LINKONCE UM_COLD int um_uring_open(struct io_uring *ring)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
        .cq_entries = UM_URING_COMPLETED};
    struct io_uring_probe *probe;
    bool will_do;
    int error;

    if (um_uring_blocks_all())
        return -ENOSYS;
    error = io_uring_queue_init_params(UM_URING_QUEUED, ring, &params);
    if (error != 0)
        return error == -EPERM || error == -EACCES || error == -EINVAL ? -ENOSYS : error;
    probe = io_uring_get_probe_ring(ring);
    will_do = probe && io_uring_opcode_supported(probe, UM_URING_FUTEX_WAIT);
    error = probe ? -ENOSYS : -ENOMEM;
    io_uring_free_probe(probe);
    if (will_do)
        return 0;
    io_uring_queue_exit(ring);
    return error;
}

/* Makes the core's ring. 0 or an error as above. The core. */
UM_LINKONCE UM_COLD int um_uring_make(struct umbra_core *core)
{
    struct um_uring *uring = calloc(1, sizeof(*uring));
    int error = uring ? um_uring_open(&uring->ring) : -ENOMEM;

    if (error != 0) {
        free(uring);
        return error;
    }
    uring->source = (struct um_source){
        .attend = um_uring_attend, .sleep = um_uring_park_core, .end = um_uring_end};
    uring->bed = (struct um_uring_bed){.watch = um_uring_watch, .sleep = um_uring_sleep};
    uring->core = core;
    /* the kernel's word: it has completions that the core must enter the ring for */
    um_source_add(core, &uring->source, (const um_atomic_u32 *)uring->ring.sq.kflags);
    return 0;
}

#endif /* UM_HAS_URING */

#endif /* UMBRA_IMPLEMENTATION */

#endif
