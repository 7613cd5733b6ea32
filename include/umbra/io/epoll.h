/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The way "pool" of umbra/io.h: for each runtime an epoll instance, and a thread that waits in it.
 * Private; included by io/ways.h.
 *
 * An operation is tried first; if it would have to wait, it goes into the list of its descriptor,
 * which is told to epoll for one report (EPOLLONESHOT) of all that the operations of the list wait
 * for. The thread takes those out that the report names, and signals them; then their fibers try
 * again. Lists and registrations change under one lock. A fiber whose wait ends by itself takes its
 * operation out; if the thread has taken it, the fiber waits for the signal, which is on its way.
 * Files go to the helpers of umbra/blocking.h, but for what um_io_cached() reads.
 */
#ifndef UMBRA_IO_EPOLL_H
#define UMBRA_IO_EPOLL_H

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
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

#define UM_POLLER_BATCH 64 /* reports taken at once */

struct um_poller {
    struct um_attached attached;
    struct umbra_runtime *runtime;
    pthread_t thread;
    int epoll;
    int ending; /* an eventfd: written when the runtime ends */
    pthread_mutex_t lock;
    struct um_io **waiting; /* by descriptor: operations that wait; under the lock, as the next */
    size_t descriptors;
};

/* ---- lists: under the lock ---- */

/* Makes room for the list of a descriptor. 0 or -ENOMEM. */
UM_LINKONCE int um_poller_reserve(struct um_poller *poller, int fd)
{
    size_t wanted = poller->descriptors ? poller->descriptors : 64;
    struct um_io **waiting;

    if ((size_t)fd < poller->descriptors)
        return 0;
    while (wanted <= (size_t)fd)
        wanted *= 2;
    waiting = realloc(poller->waiting, wanted * sizeof(struct um_io *));
    if (!waiting)
        return -ENOMEM;
    memset(waiting + poller->descriptors, 0,
           (wanted - poller->descriptors) * sizeof(struct um_io *));
    poller->waiting = waiting;
    poller->descriptors = wanted;
    return 0;
}

/* Tells epoll what the operations of a descriptor wait for. 0 or a negative errno. */
UM_LINKONCE int um_poller_register(const struct um_poller *poller, int fd)
{
    struct epoll_event event = {.events = EPOLLONESHOT, .data = {.fd = fd}};

    for (const struct um_io *io = poller->waiting[fd]; io; io = io->next)
        event.events |= (uint32_t)io->events; /* EPOLLIN and EPOLLOUT are POLLIN and POLLOUT */
    if (epoll_ctl(poller->epoll, EPOLL_CTL_MOD, fd, &event) == 0 ||
        (errno == ENOENT && epoll_ctl(poller->epoll, EPOLL_CTL_ADD, fd, &event) == 0))
        return 0;
    return -errno;
}

/* Takes an operation out of its list. False: it is not there. */
UM_LINKONCE bool um_poller_remove(struct um_poller *poller, struct um_io *io)
{
    struct um_io **link = &poller->waiting[io->fd];

    while (*link && *link != io)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = io->next;
    return true;
}

/* Takes out the operations of a descriptor that a report is for: a list of them. */
UM_LINKONCE struct um_io *um_poller_take(struct um_poller *poller, int fd, uint32_t events)
{
    struct um_io **link = &poller->waiting[fd];
    struct um_io *taken = NULL;
    struct um_io *io;

    if (events & (EPOLLERR | EPOLLHUP))
        events |= EPOLLIN | EPOLLOUT;
    while ((io = *link) != NULL) {
        if (!((uint32_t)io->events & events)) {
            link = &io->next;
            continue;
        }
        *link = io->next;
        io->next = taken;
        taken = io;
    }
    if (poller->waiting[fd])
        um_poller_register(poller, fd); /* it was registered: this cannot fail */
    return taken;
}

/* ---- the thread ---- */

UM_LINKONCE void um_poller_report(struct um_poller *poller, const struct epoll_event *event)
{
    struct um_io *io;

    pthread_mutex_lock(&poller->lock);
    io = um_poller_take(poller, event->data.fd, event->events);
    pthread_mutex_unlock(&poller->lock);
    while (io) {
        struct um_io *next = io->next;

        umbra_event_signal(&io->done); /* the operation may be gone now */
        um_runtime_leave(poller->runtime);
        io = next;
    }
}

/* Leaves the hardware threads of the runtime's schedulers and their shadows. */
UM_LINKONCE UM_COLD void um_poller_place(const struct umbra_runtime *runtime)
{
    int avoid[2 * UM_CORES_MOST];
    unsigned count = 0;

    for (unsigned i = 0; i < runtime->cores; i++) {
        avoid[count++] = runtime->core[i]->cpu;
        if (runtime->core[i]->more->has_shadow)
            avoid[count++] = runtime->core[i]->more->shadow.info.shadow_cpu;
    }
    um_topology_bind_beside(runtime->topology, avoid, count);
}

UM_LINKONCE UM_COLD void *um_poller_main(void *arg)
{
    struct um_poller *poller = arg;
    struct epoll_event event[UM_POLLER_BATCH];
    bool ends = false;

    um_poller_place(poller->runtime);
    while (!ends) {
        int count = epoll_wait(poller->epoll, event, UM_POLLER_BATCH, -1);

        for (int i = 0; i < count; i++) {
            if (event[i].data.fd == poller->ending)
                ends = true;
            else
                um_poller_report(poller, &event[i]);
        }
    }
    return NULL;
}

/* The runtime ends. Also undoes what um_poller_open() has done. */
UM_LINKONCE UM_COLD void um_poller_close(struct um_poller *poller)
{
    if (poller->epoll >= 0)
        close(poller->epoll);
    if (poller->ending >= 0)
        close(poller->ending);
    pthread_mutex_destroy(&poller->lock);
    free(poller->waiting);
    free(poller);
}

UM_LINKONCE UM_COLD void um_poller_end(struct um_attached *attached)
{
    struct um_poller *poller = (struct um_poller *)attached;
    const uint64_t one = 1;

    while (write(poller->ending, &one, sizeof(one)) < 0 && errno == EINTR)
        ; /* it cannot fail otherwise: the count is 0 */
    pthread_join(poller->thread, NULL);
    um_poller_close(poller);
}

UM_LINKONCE UM_COLD int um_poller_open(struct um_poller *poller)
{
    struct epoll_event event = {.events = EPOLLIN};
    uint64_t signals;
    int error;

    poller->epoll = epoll_create1(EPOLL_CLOEXEC);
    poller->ending = poller->epoll < 0 ? -1 : eventfd(0, EFD_CLOEXEC);
    event.data.fd = poller->ending;
    if (poller->ending < 0 || epoll_ctl(poller->epoll, EPOLL_CTL_ADD, poller->ending, &event) != 0)
        return -errno;
    signals = um_os_mask_signals();
    error = -pthread_create(&poller->thread, NULL, um_poller_main, poller);
    um_os_unmask_signals(signals);
    return error;
}

/* Makes the runtime's poller, unless another fiber has. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_poller_make(struct umbra_runtime *runtime, struct um_poller **result)
{
    struct um_poller *poller;
    int error = 0;

    pthread_mutex_lock(&runtime->lock);
    poller = (struct um_poller *)um_runtime_attached(runtime, um_poller_end);
    if (!poller && !(poller = calloc(1, sizeof(*poller)))) {
        error = -ENOMEM;
    } else if (!poller->runtime) {
        poller->attached.end = um_poller_end;
        poller->runtime = runtime;
        pthread_mutex_init(&poller->lock, NULL);
        error = um_poller_open(poller);
        if (error == 0)
            um_runtime_attach(runtime, &poller->attached);
        else
            um_poller_close(poller);
    }
    pthread_mutex_unlock(&runtime->lock);
    *result = poller;
    return error;
}

/* ---- an operation ---- */

/* Waits until the descriptor is ready. 0, -ETIMEDOUT, -ECANCELED or another negative errno. */
UM_LINKONCE int um_poller_wait(void *context, struct um_io *io)
{
    struct um_poller *poller = context;
    int error;
    bool taken;

    io->done = (struct umbra_event)UMBRA_EVENT_INIT;
    io->events = um_io_events(io->call);
    pthread_mutex_lock(&poller->lock);
    error = um_poller_reserve(poller, io->fd);
    if (error == 0) {
        io->next = poller->waiting[io->fd];
        poller->waiting[io->fd] = io;
        error = um_poller_register(poller, io->fd);
        if (error == 0)
            um_runtime_enter(poller->runtime); /* until it is taken out of its list */
        else
            um_poller_remove(poller, io);
    }
    pthread_mutex_unlock(&poller->lock);
    if (error != 0)
        return error;
    error = um_io_await(io, io->deadline);
    if (error == 0)
        return 0;
    pthread_mutex_lock(&poller->lock);
    taken = !um_poller_remove(poller, io);
    pthread_mutex_unlock(&poller->lock);
    if (taken)
        um_io_await_firm(io);
    else
        um_runtime_leave(poller->runtime);
    return error;
}

UM_LINKONCE void um_io_block_on_helper(void *arg)
{
    struct um_io *io = arg;

    io->result = um_io_block(io);
}

/* A read or write of a file, by a helper; or at once, if the fiber must not wait for one. */
UM_LINKONCE int um_pool_file(struct um_io *io)
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

UM_LINKONCE int um_pool_run(struct umbra_core *core, struct um_io *io)
{
    struct umbra_runtime *runtime = core->runtime;
    struct um_poller *poller = (struct um_poller *)um_runtime_attached(runtime, um_poller_end);
    int error, result;

    if (um_io_cached(io, &result))
        return result;
    if (um_io_on_file(io))
        return um_pool_file(io);
    error = poller ? 0 : um_poller_make(runtime, &poller);
    return error != 0 ? error : um_io_finish(io, um_io_try(io), um_poller_wait, poller);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
