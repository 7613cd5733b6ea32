/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A loop for each core, as with epoll(7): what has arrived is read, and answered one after the other,
 * each to its end. The client is a part of the loop that writes the requests which have arrived to a
 * pipe; so the loop sees them as it would see those of another process, several with one call.
 */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define AT_ONCE 64 /* requests that are written, or read, with one call */

struct loop {
    pthread_t thread;
    struct load *load;
    int cpu;
    int epoll, ends[2];
    size_t answered;
};

/* Writes the requests that have arrived. */
static void send_requests(struct loop *loop)
{
    struct request *requests[AT_ONCE];
    size_t count = 0;

    while (count < AT_ONCE && load_wait_ns(loop->load) == 0)
        requests[count++] = load_take(loop->load);
    /* the pipe holds them: each turn of the loop reads as many */
    if (count > 0 && write(loop->ends[1], requests, count * sizeof(*requests)) < 0)
        abort();
}

static void *run(void *arg)
{
    struct loop *loop = arg;
    struct request *requests[AT_ONCE];
    struct epoll_event event;

    bind_to(loop->cpu);
    load_begin(loop->load);
    while (loop->answered < loop->load->count) {
        ssize_t got;

        send_requests(loop);
        if (epoll_wait(loop->epoll, &event, 1, 0) != 1)
            continue;
        got = read(loop->ends[0], requests, sizeof(requests));
        for (ssize_t i = 0; i < got / (ssize_t)sizeof(requests[0]); i++) {
            load_serve(loop->load, requests[i], no_point);
            loop->answered++;
        }
    }
    return NULL;
}

static int begin(struct loop *loop)
{
    struct epoll_event readable = {.events = EPOLLIN};

    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0)
        return -errno;
    if (pipe2(loop->ends, O_CLOEXEC) != 0)
        return -errno;
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->ends[0], &readable) != 0)
        return -errno;
    return -pthread_create(&loop->thread, NULL, run, loop);
}

int serve_epoll(const struct server *server)
{
    struct loop *loops = calloc(server->cores, sizeof(*loops));
    unsigned begun = 0;
    int error = loops ? 0 : -ENOMEM;

    while (begun < server->cores && error == 0) {
        loops[begun].load = &server->load[begun];
        loops[begun].cpu = server->cpu[begun];
        error = begin(&loops[begun]);
        begun += error == 0;
    }
    for (unsigned i = 0; i < begun; i++) {
        pthread_join(loops[i].thread, NULL);
        close(loops[i].epoll);
        close(loops[i].ends[0]);
        close(loops[i].ends[1]);
    }
    free(loops);
    return error;
}
