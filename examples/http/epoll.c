/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A state machine for each connection, and a thread for each core that waits for all of them in
 * epoll. All clients have the same patience, so the connections stand in the order of their
 * deadlines: one that is answered goes to the end of the list.
 */
#define _GNU_SOURCE
#include "request.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 256

struct connection {
    struct connection *next, *before; /* in the loop's list */
    int socket;
    bool sends; /* epoll waits until the socket takes more */
    bool more;  /* there may be requests that `out` had no room for */
    size_t at;  /* what was sent of `out` */
    uint64_t deadline_ns;
    struct http_exchange exchange;
};

/* One core's loop; only its thread touches it. */
struct loop {
    pthread_t thread;
    int epoll;
    int socket;
    int wakes; /* an eventfd, written when the server ends */
    bool ends;
    struct connection all; /* the list's head: the earliest deadline comes next */
};

static const struct server *served;
static struct loop *loops;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void take_out(struct connection *connection)
{
    connection->before->next = connection->next;
    connection->next->before = connection->before;
}

static void put_last(struct loop *loop, struct connection *connection)
{
    connection->deadline_ns = now_ns() + served->patience_ns;
    connection->next = &loop->all;
    connection->before = loop->all.before;
    connection->before->next = connection;
    loop->all.before = connection;
}

static void end_connection(struct connection *connection)
{
    take_out(connection);
    close(connection->socket);
    free(connection);
}

/* Sends what is in `out`, as far as the socket takes it. False: the connection is broken. */
static bool send_out(struct connection *connection)
{
    struct http_exchange *exchange = &connection->exchange;

    while (connection->at < exchange->filled) {
        ssize_t sent = send(connection->socket, exchange->out + connection->at,
                            exchange->filled - connection->at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0 && errno == EAGAIN)
            return true;
        if (sent < 0 && errno != EINTR)
            return false;
        connection->at += sent > 0 ? (size_t)sent : 0;
    }
    exchange->filled = connection->at = 0;
    return true;
}

/* Answers and sends, until more must be received or the socket takes no more. False: it is over. */
static bool go_on(struct loop *loop, struct connection *connection)
{
    struct http_exchange *exchange = &connection->exchange;
    struct epoll_event event = {.data = {.ptr = connection}};
    bool blocked;

    do {
        exchange->finishing = loop->ends;
        if (exchange->filled == 0)
            connection->more = http_answer(exchange);
        if (!send_out(connection))
            return false;
    } while (connection->more && exchange->filled == 0);
    blocked = exchange->filled > 0;
    if (!blocked && exchange->closes)
        return false;
    if (blocked != connection->sends) {
        connection->sends = blocked;
        event.events = blocked ? EPOLLOUT : EPOLLIN;
        epoll_ctl(loop->epoll, EPOLL_CTL_MOD, connection->socket, &event);
    }
    if (exchange->have == 0) {
        take_out(connection);
        put_last(loop, connection);
    }
    return true;
}

static void serve(struct loop *loop, struct connection *connection)
{
    struct http_exchange *exchange = &connection->exchange;
    ssize_t got = 1;

    if (!connection->sends) {
        got = recv(connection->socket, exchange->in + exchange->have,
                   HTTP_IN_BYTES - exchange->have, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        exchange->have += got > 0 ? (size_t)got : 0;
    }
    if (got <= 0 || !go_on(loop, connection))
        end_connection(connection);
}

static void accept_some(struct loop *loop)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct connection *connection;
    int socket;

    while ((socket = accept4(loop->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        connection = calloc(1, sizeof(*connection));
        event.data.ptr = connection;
        if (!connection || epoll_ctl(loop->epoll, EPOLL_CTL_ADD, socket, &event) != 0) {
            free(connection);
            close(socket);
            continue;
        }
        connection->socket = socket;
        put_last(loop, connection);
    }
}

/* Ends the connections of clients that were too slow. Returns how long the next one has, in ms. */
static int end_late(struct loop *loop)
{
    uint64_t now = now_ns();
    struct connection *next = loop->all.next;

    while (next != &loop->all && next->deadline_ns <= now) {
        struct connection *late = next;

        next = next->next;
        http_late(&late->exchange);
        if (!send_out(late) || late->exchange.filled == 0 || late->sends)
            end_connection(late);
    }
    return next == &loop->all ? -1 : (int)((next->deadline_ns - now) / 1000000) + 1;
}

/* The server ends: idle connections see that no request will come. */
static void begin_to_end(struct loop *loop)
{
    loop->ends = true;
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, loop->wakes, NULL);
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, loop->socket, NULL);
    for (struct connection *each = loop->all.next; each != &loop->all; each = each->next)
        shutdown(each->socket, SHUT_RD);
}

static void *run(void *arg)
{
    struct loop *loop = arg;
    struct epoll_event event[BATCH];

    while (!loop->ends || loop->all.next != &loop->all) {
        int count = epoll_wait(loop->epoll, event, BATCH, end_late(loop));

        for (int i = 0; i < count; i++) {
            if (event[i].data.ptr == &loop->socket)
                accept_some(loop);
            else if (event[i].data.ptr == &loop->wakes)
                begin_to_end(loop);
            else
                serve(loop, event[i].data.ptr);
        }
    }
    return NULL;
}

static int begin_loop(struct loop *loop, int socket)
{
    struct epoll_event accepts = {.events = EPOLLIN, .data = {.ptr = &loop->socket}};
    struct epoll_event wakes = {.events = EPOLLIN, .data = {.ptr = &loop->wakes}};

    loop->socket = socket;
    loop->all.next = loop->all.before = &loop->all;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wakes = eventfd(0, EFD_CLOEXEC);
    if (loop->epoll < 0 || loop->wakes < 0 || fcntl(socket, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(loop->epoll, EPOLL_CTL_ADD, socket, &accepts) != 0 ||
        epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wakes, &wakes) != 0)
        return -errno;
    return -pthread_create(&loop->thread, NULL, run, loop);
}

static int begin(const struct server *server)
{
    int error = 0;

    served = server;
    loops = calloc(server->cores, sizeof(*loops));
    if (!loops)
        return -ENOMEM;
    for (unsigned i = 0; i < server->cores && error == 0; i++)
        error = begin_loop(&loops[i], server->socket[i]);
    return error;
}

static void end(void)
{
    for (unsigned i = 0; i < served->cores; i++)
        eventfd_write(loops[i].wakes, 1);
    for (unsigned i = 0; i < served->cores; i++) {
        pthread_join(loops[i].thread, NULL);
        close(loops[i].epoll);
        close(loops[i].wakes);
    }
    free(loops);
}

const struct way epoll_way = {"epoll", begin, end};
