/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The way "uring" of umbra/io.h: one io_uring for a core. The only file that names liburing.
 * Private; included by io/ways.h.
 *
 * Only the core's own thread touches its ring, and the kernel puts completions into it only while
 * that thread is in a call of the ring (IORING_SETUP_DEFER_TASKRUN): so a flag of the ring
 * (IORING_SQ_TASKRUN) is all that a busy core looks at (fiber/completions.h).
 *
 * Operations are queued in the ring, and go to the kernel together. The first that is queued spawns
 * a fiber that submits: it runs after all fibers that are ready by then, which may queue theirs.
 * Sends are tried first, by a system call: they rarely wait, and a second way through the ring, and
 * switch of fibers, costs more.
 *
 * An operation lives in its caller's frame. If the caller's wait ends early, the caller cancels the
 * operation until it completes: only then has the kernel done with the buffer, and the frame.
 *
 * A ring may stop to serve, for good: a filter (seccomp(2)) that was set since forbids to enter it,
 * say. Then it ends, and with it all of its operations: um_uring_break(). The core's operations go
 * by the pool from there on.
 */
#ifndef UMBRA_IO_URING_H
#define UMBRA_IO_URING_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/event.h>
#include <umbra/io/call.h>
#include <umbra/io/epoll.h>
#include <umbra/io/protocol.h>

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
UM_LINKONCE UM_COLD int um_uring_make(struct umbra_core *core, bool forced)
{
    (void)core;
    (void)forced;
    return -ENOSYS;
}

UM_LINKONCE void um_uring_start(struct umbra_core *core, struct umbra_io_op *io)
{
    um_pool_start(core, io);
}

UM_LINKONCE void um_uring_step(struct umbra_core *core, struct umbra_io_op *io, int error)
{
    um_pool_step(core, io, error);
}

#else

#define UM_URING_QUEUED 256     /* operations that are queued before they must be submitted */
#define UM_URING_COMPLETED 4096 /* places for completions; the kernel keeps what is more */

/* Not in every liburing that will do: Linux 6.7, and the flags of futex2. */
#define UM_URING_FUTEX_WAIT 51
#define UM_URING_FUTEX_WORD (2 | 128) /* 32 bits, private to the process */
#define UM_URING_FUTEX_ANY UINT32_MAX

/* A ring; its core attends to it. */
struct um_uring {
    struct um_completions completions;
    struct um_io_bed bed;
    struct umbra_core *core;
    struct io_uring ring;      /* unless it has broken */
    struct umbra_io_op *first; /* operations that are queued or under way */
    int freed;                 /* a pipe, which ends when the kernel has freed the ring */
    bool flushes;              /* a fiber has been spawned that will submit */
    bool broken;               /* the kernel does not serve it any more */
    bool forced;               /* by UMBRA_IO: the pool does not take its place */
};

UM_INLINE struct um_uring *um_uring_of_bed(struct um_io_bed *bed)
{
    return (struct um_uring *)((char *)bed - offsetof(struct um_uring, bed));
}

/* ---- completions ---- */

/* The operation is over. */
UM_LINKONCE void um_uring_finish(struct um_uring *uring, struct umbra_io_op *io, int result)
{
    *io->link = io->next;
    if (io->next)
        io->next->link = io->link;
    uring->completions.under_way--;
    um_io_ended(uring->core, io, result);
}

/* data: the operation, the bed (its watch), or NULL (a cancellation). */
UM_LINKONCE void um_uring_complete(struct um_uring *uring, void *data, int result)
{
    if (data == &uring->bed)
        uring->bed.watched = false;
    else if (data)
        um_uring_finish(uring, data, result);
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

/* ---- a ring that breaks ---- */

/* What the kernel has not taken can be done another way. */
UM_LINKONCE UM_COLD void um_uring_drop_queue(struct um_uring *uring)
{
    struct io_uring_sq *queue = &uring->ring.sq;

    for (unsigned left = io_uring_sq_ready(&uring->ring); left > 0; left--) {
        const struct io_uring_sqe *sqe = &queue->sqes[(queue->sqe_tail - left) & queue->ring_mask];

        um_uring_complete(uring, (void *)(uintptr_t)sqe->user_data, -ENOSYS);
    }
}

#define UM_URING_FREED_MS 1000

/*
 * Ends the ring. What waits in the kernel for a descriptor is dropped there, with nothing done:
 * only a core that enters its ring executes it. Reads and writes of files, which threads of the
 * kernel execute, and connections may be done: that is not known; nor is any result, if the kernel
 * has lost some (EBADR). The kernel has done with all buffers when it has freed the ring. A child
 * of fork(2) that has the ring's descriptor delays that; by the limit even a disk is done.
 */
UM_LINKONCE UM_COLD void um_uring_break(struct um_uring *uring, int error)
{
    struct pollfd freed = {.fd = uring->freed, .events = POLLIN};
    struct umbra_io_op *io;

    uring->broken = true;
    uring->core->asks = &uring->core->no_completions;
    if (uring->bed.watched) /* so that the kernel's watch takes no wake of a later sleep */
        um_os_futex_wake(&uring->core->waiter.park.parked);
    um_uring_drop_queue(uring);
    uring->bed.watched = false;
    io_uring_queue_exit(&uring->ring);
    while (poll(&freed, 1, UM_URING_FREED_MS) < 0 && errno == EINTR)
        ;
    close(uring->freed);
    while ((io = uring->first) != NULL) {
        bool unknown = error == -EBADR || io->call == UM_SYSTEM_CONNECT || um_io_on_file(io);

        um_uring_finish(uring, io, unknown ? -EIO : -ENOSYS);
    }
}

/* Takes the completions, after a call of the ring with this result. */
UM_LINKONCE void um_uring_entered(struct um_uring *uring, int result)
{
    um_uring_take(uring);
    if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY &&
        result != -ENOMEM && result != -ETIME)
        um_uring_break(uring, result);
}

/* Submits what is queued, as far as the kernel takes it, and takes all completions. The core. */
UM_LINKONCE void um_uring_submit(struct um_uring *uring)
{
    if (!uring->broken) /* what it has not taken stays queued */
        um_uring_entered(uring, io_uring_submit_and_get_events(&uring->ring));
}

/*
 * The kernel queues work for the ring, then sets its flag. If the queuing thread loses its processor in
 * between, and the core runs the work meanwhile, the flag stays though there is nothing to run, and
 * the core would never sleep again. So the flag is cleared before the ring is entered: what was
 * queued by then is run there, and what is queued later sets the flag again.
 */
UM_LINKONCE void um_uring_attend(struct um_completions *completions, bool idle)
{
    struct um_uring *uring = (struct um_uring *)completions;

    if (!idle && uring->core->more->io_woken > 0) /* those first: see io/epoll.h */
        return;
    /* seq_cst: before the kernel looks for work */
    um_atomic_fetch_and((um_atomic_u32 *)uring->ring.sq.kflags, ~IORING_SQ_TASKRUN, seq_cst);
    um_uring_submit(uring);
}

/* ---- operations ---- */

/* A place in the queue, or NULL: the ring has broken. The fiber that calls may switch. */
UM_LINKONCE struct io_uring_sqe *um_uring_place(struct um_uring *uring)
{
    while (!uring->broken) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

        if (sqe)
            return sqe;
        um_uring_submit(uring);
        if (!uring->broken && io_uring_sq_space_left(&uring->ring) == 0)
            umbra_yield(); /* the kernel has no memory for more operations at the moment */
    }
    return NULL;
}

/* Submits what all fibers have queued that were ready when it was spawned. */
UM_LINKONCE void *um_uring_flush(void *arg)
{
    struct um_uring *uring = arg;

    uring->flushes = false;
    for (;;) {
        um_uring_submit(uring);
        if (uring->broken || io_uring_sq_ready(&uring->ring) == 0)
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

UM_LINKONCE void um_uring_prepare(struct io_uring_sqe *sqe, const struct umbra_io_op *io)
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
    case UM_SYSTEM_RECVMSG:
        io_uring_prep_recvmsg(sqe, io->fd, io->at, MSG_CMSG_CLOEXEC);
        break;
    case UM_SYSTEM_ACCEPT:
        io_uring_prep_accept(sqe, io->fd, NULL, NULL, SOCK_CLOEXEC);
        break;
    default:
        io_uring_prep_connect(sqe, io->fd, io->address, io->length);
    }
}

UM_LINKONCE void um_uring_cancel(struct um_uring *uring, struct umbra_io_op *io)
{
    struct io_uring_sqe *sqe = um_uring_place(uring);

    if (!sqe)
        return;
    io_uring_prep_cancel(sqe, io, 0);
    io_uring_sqe_set_data(sqe, NULL);
    um_uring_flush_soon(uring);
}

/* Queues the operation or, if `poll`, a wait until its descriptor is ready. False: the ring has
 * broken. */
UM_LINKONCE bool um_uring_queue(struct um_uring *uring, struct umbra_io_op *io, bool poll)
{
    struct io_uring_sqe *sqe = um_uring_place(uring);

    if (!sqe)
        return false;
    io->state = UM_IO_WAITS;
    io->polls = poll;
    if (poll)
        io_uring_prep_poll_add(sqe, io->fd, (unsigned)um_io_events(io));
    else
        um_uring_prepare(sqe, io);
    io_uring_sqe_set_data(sqe, io);
    io->next = uring->first;
    io->link = &uring->first;
    if (io->next)
        io->next->link = &io->next;
    uring->first = io;
    uring->completions.under_way++;
    um_uring_flush_soon(uring);
    return true;
}

#define UM_URING_CANCEL_NS 1000000 /* between two cancellations */

/* Waits for the end of an operation that is canceled, in spite of a cancellation of the fiber. The
 * kernel misses what a thread of its own is just about to begin, as a connection that waits for a
 * place in a local socket's queue: so it is asked again. */
UM_LINKONCE void um_uring_end_once(struct um_uring *uring, struct umbra_io_op *io)
{
    umbra_shield(true);
    do {
        um_uring_cancel(uring, io);
        if (um_io_await(&io, 1, um_cycles_after(UM_URING_CANCEL_NS), io->from) == -ENOMEM)
            umbra_yield(); /* none for a wait with a deadline */
    } while (io->state == UM_IO_WAITS);
    umbra_shield(false);
}

/* The operation waits until its descriptor is ready. 0, or -ENOSYS: the ring has broken. */
UM_LINKONCE int um_uring_await(void *context, struct umbra_io_op *io)
{
    return um_uring_queue(context, io, true) ? 0 : -ENOSYS;
}

#define UM_LINUX_UIO_MAXIOV 1024 /* buffers of a message; strict C11 hides it */

/* A message as the kernel reads it. musl's has an int in place of each size, beside which there may
 * be anything, in ancillary data, too: musl's calls clear that. */
struct um_linux_message {
    void *name;
    int name_bytes;
    struct iovec *buffer;
    size_t buffers;
    void *more;
    size_t more_bytes;
};

/* True if the ring reads the message as the system's call does. */
UM_LINKONCE bool um_uring_reads(const struct msghdr *message)
{
    struct um_linux_message seen;

    if (message == NULL)
        return false;
    memcpy(&seen, message, sizeof(seen));
    return seen.buffers <= UM_LINUX_UIO_MAXIOV && seen.more_bytes == message->msg_controllen &&
           (seen.more_bytes == 0 || sizeof(message->msg_controllen) == sizeof(size_t));
}

/*
 * True if the ring answers as the system's call does. It takes an address, and a message's buffers,
 * before it looks at the descriptor, ignores an offset where there are no positions, and waits for
 * reads of nothing, and for what has no read, such as an epoll instance. The trial ends before it
 * does anything, with EFAULT if all but the memory is right.
 */
UM_LINKONCE bool um_uring_suits(const struct umbra_io_op *io)
{
    struct umbra_io_op trial = {.call = io->call, .fd = io->fd, .bytes = 1, .offset = io->offset};

    if (io->call == UM_SYSTEM_CONNECT)
        return io->length <= sizeof(struct sockaddr_storage);
    if (io->call == UM_SYSTEM_RECVMSG)
        return um_uring_reads(io->at);
    if (io->call == UM_SYSTEM_POLL || io->call == UM_SYSTEM_SEND || io->call == UM_SYSTEM_SENDMSG)
        return false; /* asked first, and what waits is polled */
    if (io->call != UM_SYSTEM_READ && io->call != UM_SYSTEM_WRITE)
        return true;
    trial.at = (void *)UINTPTR_MAX; /* no process has this */
    return io->bytes > 0 && um_io_plain(&trial) < 0 && errno == EFAULT;
}

/* Has the ring carry out the operation. */
UM_LINKONCE void um_uring_order(struct um_uring *uring, struct umbra_io_op *io)
{
    if (!um_uring_queue(uring, io, false))
        io->result = -ENOSYS;
}

/* Begins the operation, by a ring that serves. A descriptor with O_NONBLOCK gets EAGAIN from the
 * ring, too. A connection that finds a local socket's queue full waits in the kernel otherwise, on a
 * thread of the ring. */
UM_LINKONCE void um_uring_begin(struct um_uring *uring, struct umbra_io_op *io)
{
    bool suits;

    if (um_io_cached(io, &io->result))
        return;
    suits = um_uring_suits(io);
    if (!suits && um_io_on_file(io))
        io->result = um_pool_file(io);
    else if (!suits)
        um_io_go_on(io, um_io_try(io), um_uring_await, uring);
    else
        um_uring_order(uring, io);
}

/* What a ring that has broken has not done goes by the pool. */
UM_LINKONCE void um_uring_or_pool(struct umbra_core *core, struct um_uring *uring,
                                  struct umbra_io_op *io)
{
    if (io->state == UM_IO_OVER && io->result == -ENOSYS && uring->broken && !uring->forced)
        um_pool_start(core, io);
}

UM_LINKONCE void um_uring_start(struct umbra_core *core, struct umbra_io_op *io)
{
    struct um_uring *uring = (struct um_uring *)core->more->completions;

    if (!uring || uring->completions.attend != um_uring_attend) {
        um_pool_start(core, io);
        return;
    }
    io->ring = uring;
    io->result = -ENOSYS;
    if (!uring->broken)
        um_uring_begin(uring, io);
    um_uring_or_pool(core, uring, io);
}

/* The ring has ended the operation with this result; error: the wait for that has ended before. */
UM_LINKONCE void um_uring_done(struct um_uring *uring, struct umbra_io_op *io, int error)
{
    int result = io->result;
    bool undone = result == -EINTR || result == -EAGAIN || result == -ENOSYS;

    io->state = UM_IO_OVER;
    if (error != 0)
        io->result = undone || result == -ECANCELED ? error : result;
    else if (result == -EINTR)
        um_uring_order(uring, io);
    else if (result == -EAGAIN && um_io_on_file(io)) /* poll(2) is of no use */
        io->result = um_pool_file(io);
    else
        um_io_go_on(io, result, um_uring_await, uring);
}

/* True if a send's report of room is of nothing. One that a local socket's full queue refuses makes the
 * kernel report room to the others that wait, and the ring passes that on, where epoll asks again. */
UM_LINKONCE bool um_uring_reports_nothing(const struct umbra_io_op *io)
{
    struct pollfd ready = {.fd = io->fd, .events = POLLOUT};

    return (io->call == UM_SYSTEM_SEND || io->call == UM_SYSTEM_SENDMSG) && io->result == POLLOUT &&
           poll(&ready, 1, 0) == 0;
}

/* The operation's wait has ended, or shall end with this error. */
UM_LINKONCE void um_uring_step(struct umbra_core *core, struct umbra_io_op *io, int error)
{
    struct um_uring *uring = io->ring;

    if (!uring) {
        um_pool_step(core, io, error);
        return;
    }
    if (io->state == UM_IO_WAITS)
        um_uring_end_once(uring, io);
    if (io->polls) {
        io->state = UM_IO_OVER;
        if (error == 0 && io->result < 0 && io->result != -EINTR)
            error = io->result;
        if (error == 0 && um_uring_reports_nothing(io))
            um_io_go_on(io, -EAGAIN, um_uring_await, uring);
        else
            um_io_go_on(io, um_io_again(io, error), um_uring_await, uring);
    } else {
        um_uring_done(uring, io, error);
    }
    um_uring_or_pool(core, uring, io);
}

/* ---- sleeping: io/protocol.h ---- */

UM_LINKONCE bool um_uring_watch(struct um_io_bed *bed, um_atomic_u32 *parked)
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

UM_LINKONCE void um_uring_sleep(struct um_io_bed *bed, uint64_t deadline_ns)
{
    struct um_uring *uring = um_uring_of_bed(bed);
    uint64_t now = deadline_ns == UMBRA_NEVER ? 0 : um_os_now_ns();
    uint64_t left = now < deadline_ns ? deadline_ns - now : 0;
    struct __kernel_timespec time = {.tv_sec = (int64_t)(left / 1000000000),
                                     .tv_nsec = (long long)(left % 1000000000)};
    struct io_uring_cqe *cqe;
    int result;

    /* waits only if the kernel has taken all that was queued, the watch among it */
    result = io_uring_submit_and_wait_timeout(&uring->ring, &cqe, 1,
                                              deadline_ns == UMBRA_NEVER ? NULL : &time, NULL);
    um_uring_entered(uring, result);
}

UM_LINKONCE void um_uring_park_core(struct um_completions *completions, uint64_t deadline_ns)
{
    struct um_uring *uring = (struct um_uring *)completions;
    struct um_park *park = &uring->core->waiter.park;

    if (uring->broken)
        um_park_until(park, um_completions_ready, uring->core, deadline_ns);
    else
        um_io_park(park, &uring->bed, um_completions_ready, uring->core, deadline_ns);
}

/* ---- begin and end ---- */

/* The core ends, and its fibers are freed: no operation may be under way in their frames. */
UM_LINKONCE UM_COLD void um_uring_end(struct um_completions *completions)
{
    struct um_uring *uring = (struct um_uring *)completions;

    while (completions->under_way > 0) { /* of a ring that has broken none is */
        struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

        if (sqe) {
            io_uring_prep_cancel(sqe, NULL, IORING_ASYNC_CANCEL_ANY);
            io_uring_sqe_set_data(sqe, NULL);
        }
        um_uring_entered(uring, io_uring_submit_and_wait(&uring->ring, 1));
    }
    if (!uring->broken) {
        io_uring_queue_exit(&uring->ring);
        close(uring->freed);
    }
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

/* The error of a call that begins a ring, or -ENOSYS if that says that there is none. */
UM_LINKONCE UM_COLD int um_uring_refusal(int error)
{
    return error == -EPERM || error == -EACCES || error == -EINVAL ? -ENOSYS : error;
}

/* Gives the ring the end of a pipe to keep. *freed: the other end. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_uring_watch_end(struct io_uring *ring, int *freed)
{
    int ends[2];
    int error;

    if (um_linux_syscall(SYS_pipe2, ends, UM_LINUX_O_CLOEXEC) != 0)
        return -errno;
    error = um_uring_refusal(io_uring_register_files(ring, &ends[1], 1));
    close(ends[1]);
    if (error == 0)
        *freed = ends[0];
    else
        close(ends[0]);
    return error;
}

/* 0, or -ENOSYS: it cannot wait on futexes; or -ENOMEM. */
UM_LINKONCE UM_COLD int um_uring_check(struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    bool will_do = probe && io_uring_opcode_supported(probe, UM_URING_FUTEX_WAIT);
    int error = will_do ? 0 : probe ? -ENOSYS : -ENOMEM;

    io_uring_free_probe(probe);
    return error;
}

/* Opens the ring. 0; -ENOSYS: the kernel has none that will do, or forbids it; or its error. */
UM_LINKONCE UM_COLD int um_uring_open(struct io_uring *ring, int *freed)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
        .cq_entries = UM_URING_COMPLETED};
    int error;

    if (um_uring_blocks_all())
        return -ENOSYS;
    error = um_uring_refusal(io_uring_queue_init_params(UM_URING_QUEUED, ring, &params));
    if (error != 0)
        return error;
    error = um_uring_watch_end(ring, freed);
    if (error == 0) {
        error = um_uring_check(ring);
        if (error == 0)
            return 0;
        close(*freed);
    }
    io_uring_queue_exit(ring);
    return error;
}

/* Makes the core's ring. 0 or an error as above. The core. */
UM_LINKONCE UM_COLD int um_uring_make(struct umbra_core *core, bool forced)
{
    struct um_uring *uring = calloc(1, sizeof(*uring));
    int error = uring ? um_uring_open(&uring->ring, &uring->freed) : -ENOMEM;

    if (error != 0) {
        free(uring);
        return error;
    }
    uring->completions = (struct um_completions){
        .attend = um_uring_attend, .sleep = um_uring_park_core, .end = um_uring_end};
    uring->bed = (struct um_io_bed){
        .parked = UM_OS_AT_FUTEX, .watch = um_uring_watch, .sleep = um_uring_sleep};
    uring->core = core;
    uring->forced = forced;
    /* the kernel's word: it has completions that the core must enter the ring for */
    um_completions_add(core, &uring->completions, (const um_atomic_u32 *)uring->ring.sq.kflags);
    return 0;
}

#endif /* UM_HAS_URING */

#endif /* UMBRA_IMPLEMENTATION */

#endif
