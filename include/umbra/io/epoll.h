/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The way "pool" of umbra/io.h: an epoll instance for each core that waits for descriptors.
 * Private; included by io/ways.h.
 *
 * An operation is tried first, unless receives have found nothing there again and again
 * (um_poller_try()); if it would have to wait, it goes into the list of its descriptor,
 * which is told to epoll for one report (EPOLLONESHOT) of all that the operations of the list wait
 * for. The core takes out those that a report names, and signals them; then their fibers try again.
 * Only the core's own thread touches its lists and registrations.
 *
 * A registration is never taken to stand still: the number may be another socket's by now. So each
 * wait renews it, by EPOLL_CTL_MOD, which fails if it is of another socket, and then by
 * EPOLL_CTL_ADD. What an earlier socket of the number, which lives on under another number, reports
 * once only makes the fiber try again.
 *
 * An idle core looks into epoll instead of polling a word, and sleeps there (io/protocol.h). With
 * fibers ready it looks every UM_POLLER_LOOK_NS, when it switches fibers, or one waits in place; but
 * first all those run that the last look has woken. So with many connections a fiber runs while what
 * its wake-up touched is in the cache, and one call brings many reports.
 *
 * Files go to the helpers of umbra/blocking.h, but for what um_io_cached() reads.
 */
#ifndef UMBRA_IO_EPOLL_H
#define UMBRA_IO_EPOLL_H

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <umbra/base/base.h>
#include <umbra/blocking.h>
#include <umbra/core.h>
#include <umbra/event.h>
#include <umbra/io/call.h>
#include <umbra/io/protocol.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

#define UM_POLLER_BATCH 64            /* reports taken at once */
#define UM_POLLER_DUPFD_CLOEXEC 1030L /* strict C11 hides it */

/* Between two looks of a core that has fibers to run: a look costs a hundredth. */
#define UM_POLLER_LOOK_NS 20000

/* A descriptor, as its core has seen it; the number may be another's by now. */
struct um_polled {
    struct umbra_io_op *first; /* operations that wait */
    uint8_t vain;              /* receives in a row that had to wait, or would have: a guess */
};

/* A core's epoll instance; all of it is the core's own, but that other threads write to `bell`. */
struct um_poller {
    struct um_completions completions;
    struct um_attached attached;
    struct umbra_core *core;
    struct um_io_bed bed;
    um_atomic_u32 asks; /* UM_ASKS_AT_TIMES, while operations wait */
    uint64_t looked;    /* when, a time stamp */
    int epoll;
    int bell;                 /* an eventfd, written by a thread that wakes the core */
    struct um_polled *polled; /* by descriptor */
    size_t descriptors;
};

/* ---- lists ---- */

/* Makes room for a descriptor. 0 or -ENOMEM. */
UM_LINKONCE int um_poller_reserve(struct um_poller *poller, int fd)
{
    size_t wanted = poller->descriptors ? poller->descriptors : 64;
    struct um_polled *polled;

    if ((size_t)fd < poller->descriptors)
        return 0;
    while (wanted <= (size_t)fd)
        wanted *= 2;
    polled = realloc(poller->polled, wanted * sizeof(*polled));
    if (!polled)
        return -ENOMEM;
    memset(polled + poller->descriptors, 0, (wanted - poller->descriptors) * sizeof(*polled));
    poller->polled = polled;
    poller->descriptors = wanted;
    return 0;
}

/* Tells epoll what the operations of a descriptor wait for. 0 or a negative errno. */
UM_LINKONCE int um_poller_register(const struct um_poller *poller, int fd)
{
    struct epoll_event event = {.events = EPOLLONESHOT, .data = {.fd = fd}};

    for (const struct umbra_io_op *io = poller->polled[fd].first; io; io = io->next)
        event.events |= (uint32_t)io->events; /* EPOLLIN and EPOLLOUT are POLLIN and POLLOUT */
    if (epoll_ctl(poller->epoll, EPOLL_CTL_MOD, fd, &event) == 0)
        return 0;
    poller->polled[fd].vain = 0; /* it was another descriptor's */
    if (errno == ENOENT && epoll_ctl(poller->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    return -errno;
}

UM_LINKONCE void um_poller_enter(struct um_poller *poller, struct umbra_io_op *io)
{
    io->next = poller->polled[io->fd].first;
    poller->polled[io->fd].first = io;
    poller->completions.under_way++;
    um_atomic_store(&poller->asks, UM_ASKS_AT_TIMES, relaxed); /* the core's own, as below */
}

/* Takes the operation that *link leads to out of its list. */
UM_LINKONCE struct umbra_io_op *um_poller_leave(struct um_poller *poller, struct umbra_io_op **link)
{
    struct umbra_io_op *io = *link;

    *link = io->next;
    if (--poller->completions.under_way == 0)
        um_atomic_store(&poller->asks, 0, relaxed);
    return io;
}

/* Takes an operation out of its list, if it is there. */
UM_LINKONCE void um_poller_remove(struct um_poller *poller, struct umbra_io_op *io)
{
    struct umbra_io_op **link = &poller->polled[io->fd].first;

    while (*link && *link != io)
        link = &(*link)->next;
    if (*link)
        um_poller_leave(poller, link);
}

/* ---- reports ---- */

/* Ends the waits of a descriptor that a report is for. */
UM_LINKONCE void um_poller_report(struct um_poller *poller, int fd, uint32_t events)
{
    struct umbra_io_op **link = &poller->polled[fd].first;

    if (events & (EPOLLERR | EPOLLHUP))
        events |= EPOLLIN | EPOLLOUT;
    while (*link) {
        if ((uint32_t)(*link)->events & events) /* EPOLLERR, too, is POLLERR */
            um_io_ended(poller->core, um_poller_leave(poller, link), (int)events);
        else
            link = &(*link)->next;
    }
    if (poller->polled[fd].first)
        um_poller_register(poller, fd); /* it was registered: this cannot fail */
}

UM_LINKONCE void um_poller_look(struct um_poller *poller)
{
    struct epoll_event event[UM_POLLER_BATCH];
    int count = epoll_wait(poller->epoll, event, UM_POLLER_BATCH, 0);

    for (int i = 0; i < count; i++)
        if (event[i].data.fd != poller->bell)
            um_poller_report(poller, event[i].data.fd, event[i].events);
}

UM_LINKONCE void um_poller_attend(struct um_completions *completions, bool idle)
{
    struct um_poller *poller = (struct um_poller *)completions;
    uint64_t now = um_cycles();

    if (!idle && (poller->core->more->io_woken > 0 ||
                  now - poller->looked < um_ns_to_cycles(UM_POLLER_LOOK_NS)))
        return;
    poller->looked = now;
    um_poller_look(poller);
}

/* ---- sleeping: io/protocol.h ---- */

UM_LINKONCE void um_poller_sleep(struct um_io_bed *bed, uint64_t deadline_ns)
{
    struct um_poller *poller = (struct um_poller *)((char *)bed - offsetof(struct um_poller, bed));
    struct pollfd ready = {.fd = poller->epoll, .events = POLLIN};
    uint64_t now = deadline_ns == UMBRA_NEVER ? 0 : um_os_now_ns();
    uint64_t left = now < deadline_ns ? deadline_ns - now : 0;

    /* epoll_wait() would round to milliseconds */
    um_io_poll_for(&ready, deadline_ns == UMBRA_NEVER ? UMBRA_NEVER : left);
    um_poller_look(poller);
}

UM_LINKONCE void um_poller_park(struct um_completions *completions, uint64_t deadline_ns)
{
    struct um_poller *poller = (struct um_poller *)completions;

    um_io_park(&poller->core->waiter.park, &poller->bed, um_completions_ready, poller->core,
               deadline_ns);
}

/* ---- begin and end ---- */

/* The runtime ends. Also undoes what um_poller_open() has done. */
UM_LINKONCE UM_COLD void um_poller_end(struct um_attached *attached)
{
    struct um_poller *poller =
        (struct um_poller *)((char *)attached - offsetof(struct um_poller, attached));

    if (poller->epoll >= 0)
        close(poller->epoll);
    if (poller->bell >= 0)
        close(poller->bell);
    free(poller->polled);
    free(poller);
}

/* The descriptor, or another in its place if its number is a standard stream's. -1: failed. */
UM_LINKONCE UM_COLD int um_poller_above(int fd)
{
    int low = fd;

    if (fd >= 0 && fd <= 2) {
        fd = (int)um_linux_syscall(SYS_fcntl, (long)low, UM_POLLER_DUPFD_CLOEXEC, 3L);
        close(low); /* leaves errno, since it does not fail */
    }
    return fd;
}

UM_LINKONCE UM_COLD int um_poller_open(struct um_poller *poller)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}; /* so it need not be read */

    poller->epoll = um_poller_above(epoll_create1(EPOLL_CLOEXEC));
    poller->bell = poller->epoll < 0 ? -1 : um_poller_above(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    event.data.fd = poller->bell;
    if (poller->bell < 0 || epoll_ctl(poller->epoll, EPOLL_CTL_ADD, poller->bell, &event) != 0)
        return -errno;
    poller->bed = (struct um_io_bed){.parked = UM_OS_AT_BELL + (uint32_t)poller->bell,
                                     .watched = true,
                                     .sleep = um_poller_sleep};
    return 0;
}

/* Makes the core's poller. 0 or a negative errno. The core. */
UM_LINKONCE UM_COLD int um_poller_make(struct umbra_core *core, struct um_poller **result)
{
    struct um_poller *poller = calloc(1, sizeof(*poller));
    int error;

    if (!poller)
        return -ENOMEM;
    error = um_poller_open(poller);
    if (error != 0) {
        um_poller_end(&poller->attached);
        return error;
    }
    poller->core = core;
    poller->completions =
        (struct um_completions){.attend = um_poller_attend, .sleep = um_poller_park};
    poller->attached.end = um_poller_end; /* last: other threads write to the bell, also helpers */
    pthread_mutex_lock(&core->runtime->lock);
    poller->attached.next = core->runtime->ends_last;
    core->runtime->ends_last = &poller->attached;
    pthread_mutex_unlock(&core->runtime->lock);
    um_completions_add(core, &poller->completions, &poller->asks);
    *result = poller;
    return 0;
}

/* ---- an operation ---- */

#define UM_POLLER_VAIN 4 /* receives in a row that are in vain; then waits come first, */
#define UM_POLLER_ANEW 8 /* but one of so many */

/* The operation waits until its descriptor is ready; or not, if the guess not to try it before was
 * about another descriptor of the number. 0 or a negative errno. */
UM_LINKONCE int um_poller_await(void *context, struct umbra_io_op *io)
{
    struct um_poller *poller = context;
    int error = um_poller_reserve(poller, io->fd);
    bool guess, waits;

    if (error != 0)
        return error;
    io->events = um_io_events(io);
    um_poller_enter(poller, io);
    guess = poller->polled[io->fd].vain >= UM_POLLER_VAIN;
    error = um_poller_register(poller, io->fd);
    waits = error == 0 && !(guess && poller->polled[io->fd].vain == 0);
    if (!waits)
        um_poller_remove(poller, io);
    io->state = waits ? UM_IO_WAITS : UM_IO_OVER;
    return error;
}

/* The first attempt; or -EAGAIN without one, if the last attempts to receive from the descriptor
 * were in vain: a fiber that answers each message asks in vain before each. A wrong guess costs a
 * look into epoll, which reports at once what is there. Receives only: where one had to wait, a
 * later one is not refused without a report, but a read at an offset or an accept may be. */
UM_LINKONCE int um_poller_try(struct um_poller *poller, const struct umbra_io_op *io)
{
    bool receives = (io->call == UM_SYSTEM_RECV || io->call == UM_SYSTEM_RECVMSG) &&
                    (size_t)io->fd < poller->descriptors;
    uint8_t *vain = receives ? &poller->polled[io->fd].vain : NULL;
    int result;

    if (vain && io->deadline != 0 && *vain >= UM_POLLER_VAIN && ++*vain % UM_POLLER_ANEW != 0)
        return -EAGAIN;
    result = um_io_try(io);
    if (vain)
        *vain = result == -EAGAIN ? (uint8_t)(*vain + 1) : 0;
    return result;
}

UM_LINKONCE void um_io_block_on_helper(void *arg)
{
    struct umbra_io_op *io = arg;

    io->result = um_io_block(io);
}

/* A read or write of a file, by a helper; or at once, if the fiber must not wait for one. */
UM_LINKONCE int um_pool_file(struct umbra_io_op *io)
{
    int error = um_blocking_run(um_io_block_on_helper, io, io->deadline, io->from);
    ssize_t result;

    if (error == 0)
        return io->result;
    result = um_io_now(io);
    if (result >= 0)
        return (int)result;
    return um_io_no_form(result) || errno == EAGAIN || errno == EINTR ? error : -errno;
}

/* Begins the operation: it waits, or is over. */
UM_LINKONCE void um_pool_start(struct umbra_core *core, struct umbra_io_op *io)
{
    struct um_poller *poller = (struct um_poller *)core->more->completions;

    io->ring = NULL;
    if (um_io_cached(io, &io->result))
        return;
    io->result = 0;
    if (um_io_on_file(io)) {
        io->result = um_pool_file(io);
        return;
    }
    if (!poller || poller->completions.attend != um_poller_attend)
        io->result = um_poller_make(core, &poller);
    if (io->result == 0)
        um_io_go_on(io, um_poller_try(poller, io), um_poller_await, poller);
}

/* The operation's wait has ended, or shall end with this error. */
UM_LINKONCE void um_pool_step(struct umbra_core *core, struct umbra_io_op *io, int error)
{
    struct um_poller *poller = (struct um_poller *)core->more->completions;

    if (io->state == UM_IO_WAITS)
        um_poller_remove(poller, io);
    io->state = UM_IO_OVER;
    um_io_go_on(io, um_io_again(io, error), um_poller_await, poller);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
