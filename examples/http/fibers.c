/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A fiber for each connection. On each core a fiber accepts connections of the core's own socket,
 * and spawns their fibers there: a connection never leaves its core, so its list needs no lock.
 */
#include "request.h"
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <umbra/io.h>

struct connection {
    struct connection *next, **link; /* in its core's list */
    int socket;
    struct http_exchange exchange;
};

/* One core's part of the server. Only fibers of the core touch it. */
struct share {
    int socket;
    bool ends;
    struct connection *first;
};

static const struct server *served;
static struct umbra_runtime *runtime;
static struct share *shares;
static struct umbra_event ends = UMBRA_EVENT_INIT_MANUAL;

static struct share *own_share(void)
{
    return &shares[umbra_core_index()];
}

/* Sends what is in `out`. False: the connection is broken, or the client takes nothing. */
static bool send_out(struct connection *connection)
{
    struct http_exchange *exchange = &connection->exchange;
    uint64_t deadline = umbra_deadline(served->patience_ns);
    size_t at = 0;
    size_t sent;

    for (; at < exchange->filled; at += sent)
        if (umbra_io_send(connection->socket, exchange->out + at, exchange->filled - at, deadline,
                          &sent) != 0)
            return false;
    exchange->filled = 0;
    return true;
}

/* Receives one request or more, or a part, and answers. False: the connection is over. */
static bool serve_some(struct connection *connection, uint64_t deadline)
{
    struct http_exchange *exchange = &connection->exchange;
    size_t got = 0;
    int error = umbra_io_recv(connection->socket, exchange->in + exchange->have,
                              HTTP_IN_BYTES - exchange->have, deadline, &got);
    bool more;

    if (error == -ETIMEDOUT)
        http_late(exchange);
    else if (error != 0 || got == 0)
        return false;
    exchange->have += got;
    do {
        exchange->finishing = own_share()->ends;
        more = http_answer(exchange);
        if (!send_out(connection))
            return false;
    } while (more);
    return !exchange->closes;
}

static void *serve(void *arg)
{
    struct connection *connection = arg;
    uint64_t deadline = umbra_deadline(served->patience_ns);

    while (serve_some(connection, deadline))
        if (connection->exchange.have == 0) /* else the client is slow: the time goes on */
            deadline = umbra_deadline(served->patience_ns);
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    close(connection->socket);
    free(connection);
    return NULL;
}

/* False: no memory; the client will see that the connection ends. */
static bool begin_connection(struct share *share, int socket)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (!connection)
        return false;
    connection->socket = socket;
    connection->next = share->first;
    connection->link = &share->first;
    if (share->first)
        share->first->link = &connection->next;
    share->first = connection;
    if (umbra_spawn(serve, connection, NULL) == 0)
        return true;
    share->first = connection->next;
    if (share->first)
        share->first->link = &share->first;
    free(connection);
    return false;
}

static void *accept_all(void *arg)
{
    struct share *share = arg;

    while (!share->ends) {
        int socket;
        int error = umbra_io_accept(share->socket, UMBRA_NEVER, &socket);

        if (error == 0 && !begin_connection(share, socket))
            close(socket);
        else if (error == -EMFILE || error == -ENFILE || error == -ENOMEM)
            umbra_sleep_ns(10000000); /* until connections have ended */
    }
    return NULL;
}

/* Waits for the end, then wakes the fibers of this core that wait for clients. */
static void *end_share(void *arg)
{
    struct share *share = arg;

    umbra_event_wait(&ends, UMBRA_NEVER);
    share->ends = true;
    shutdown(share->socket, SHUT_RD);
    for (struct connection *each = share->first; each; each = each->next)
        shutdown(each->socket, SHUT_RD); /* what has come before is still answered */
    return NULL;
}

static int begin(const struct server *server)
{
    struct umbra_options options = {.cores = server->cores, .stack_bytes = 65536};
    int error = umbra_runtime_create(&options, &runtime);

    served = server;
    shares = calloc(server->cores, sizeof(*shares));
    if (error == 0 && !shares)
        error = -ENOMEM;
    for (unsigned i = 0; i < server->cores && error == 0; i++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = i};

        shares[i].socket = server->socket[i];
        error = umbra_spawn_with(runtime, &there, end_share, &shares[i], NULL);
        if (error == 0)
            error = umbra_spawn_with(runtime, &there, accept_all, &shares[i], NULL);
    }
    return error;
}

static void end(void)
{
    umbra_event_signal(&ends);
    umbra_runtime_wait(runtime);
    umbra_runtime_destroy(runtime);
    free(shares);
}

const struct way fibers_way = {"fibers", begin, end};
