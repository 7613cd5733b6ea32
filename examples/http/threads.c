/* SPDX-License-Identifier: BSL-1.0 */
/* A thread for each connection: blocking calls, as in a textbook. Each core's socket has a thread
 * that accepts. */
#define _GNU_SOURCE
#include "request.h"
#include "server.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES 65536

struct connection {
    struct connection *next, **link; /* in the list; under the lock */
    int socket;
    struct http_exchange exchange;
};

static const struct server *served;
static pthread_t *acceptor;
static pthread_attr_t small;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct connection *first; /* under the lock */
static _Atomic bool ends;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool send_out(struct connection *connection)
{
    struct http_exchange *exchange = &connection->exchange;
    size_t at = 0;

    while (at < exchange->filled) {
        ssize_t sent =
            send(connection->socket, exchange->out + at, exchange->filled - at, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR)
            return false;
        at += sent > 0 ? (size_t)sent : 0;
    }
    exchange->filled = 0;
    return true;
}

/* As in fibers.c. since: when the client had its last answer. */
static bool serve_some(struct connection *connection, uint64_t since)
{
    struct http_exchange *exchange = &connection->exchange;
    ssize_t got =
        recv(connection->socket, exchange->in + exchange->have, HTTP_IN_BYTES - exchange->have, 0);
    bool more;

    if (got < 0 && errno == EINTR)
        return true;
    if ((got < 0 && errno == EAGAIN) ||
        (got > 0 && exchange->have > 0 && now_ns() - since > served->patience_ns))
        http_late(exchange);
    else if (got <= 0)
        return false;
    exchange->have += got > 0 ? (size_t)got : 0;
    do {
        exchange->finishing = ends;
        more = http_answer(exchange);
        if (!send_out(connection))
            return false;
    } while (more);
    return !exchange->closes;
}

static void *serve(void *arg)
{
    struct connection *connection = arg;
    uint64_t since = now_ns();

    while (serve_some(connection, since))
        if (connection->exchange.have == 0)
            since = now_ns();
    pthread_mutex_lock(&lock);
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    close(connection->socket);
    free(connection);
    return NULL;
}

static bool begin_connection(int socket)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    struct timeval patience = {.tv_sec = (time_t)(served->patience_ns / 1000000000u),
                               .tv_usec = (suseconds_t)(served->patience_ns % 1000000000u / 1000)};
    pthread_t thread;
    bool begun;

    if (!connection)
        return false;
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    connection->socket = socket;
    pthread_mutex_lock(&lock);
    begun = pthread_create(&thread, &small, serve, connection) == 0;
    if (begun) {
        connection->next = first;
        connection->link = &first;
        if (first)
            first->link = &connection->next;
        first = connection;
    } else {
        free(connection);
    }
    pthread_mutex_unlock(&lock);
    return begun;
}

static void *accept_all(void *socket)
{
    while (!ends) {
        int connection = accept4(*(int *)socket, NULL, NULL, SOCK_CLOEXEC);

        if (connection >= 0 && !begin_connection(connection))
            close(connection);
        else if (connection < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
            usleep(10000); /* until connections have ended */
    }
    return NULL;
}

static int begin(const struct server *server)
{
    int error = 0;

    served = server;
    acceptor = calloc(server->cores, sizeof(*acceptor));
    if (!acceptor)
        return -ENOMEM;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (unsigned i = 0; i < server->cores && error == 0; i++)
        error = -pthread_create(&acceptor[i], NULL, accept_all, &server->socket[i]);
    return error;
}

static void end(void)
{
    ends = true;
    for (unsigned i = 0; i < served->cores; i++)
        shutdown(served->socket[i], SHUT_RD);
    for (unsigned i = 0; i < served->cores; i++)
        pthread_join(acceptor[i], NULL);
    pthread_mutex_lock(&lock);
    for (struct connection *each = first; each; each = each->next)
        shutdown(each->socket, SHUT_RD);
    while (first)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    free(acceptor);
}

const struct way threads_way = {"threads", begin, end};
