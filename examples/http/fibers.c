/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A fiber for each connection. On each core a fiber accepts connections of the core's own socket,
 * and spawns their fibers there: a connection never leaves its core, so its list needs no lock, and
 * its memory is a buffer of its core's. At the end all these fibers are canceled: a call that would
 * wait for a client fails then, and an answer that is due is sent in a shield.
 */
#include "request.h"
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <umbra/io.h>
#include <umbra/memory.h>

struct connection {
    struct connection *next, **link; /* in its core's list */
    struct umbra_fiber fiber;
    int socket;
    struct http_exchange exchange;
};

/* One core's part of the server. Only fibers of the core touch it. */
struct share {
    int socket;
    struct umbra_fiber accepts;
    struct connection *first;
};

static const struct server *served;
static struct umbra_runtime *runtime;
static struct umbra_buffers *connections;
static struct share *shares;
static struct umbra_event ends = UMBRA_EVENT_INIT_MANUAL;

/* Sends what is in `out`, also in a canceled fiber. False: the connection is broken, or the client
 * takes nothing. */
static bool send_out(struct connection *connection)
{
    struct http_exchange *exchange = &connection->exchange;
    uint64_t deadline = umbra_deadline(served->patience_ns);
    size_t at = 0, sent = 0;
    int error = 0;

    umbra_shield(true);
    for (; at < exchange->filled && error == 0; at += sent)
        error = umbra_io_send(connection->socket, exchange->out + at, exchange->filled - at,
                              deadline, &sent);
    umbra_shield(false);
    exchange->filled = 0;
    return error == 0;
}

/* Receives what comes first. A call that is canceled takes nothing: in the canceled fiber a second
 * one takes what is there, or fails at once. */
static int receive(struct connection *connection, uint64_t deadline, size_t *got)
{
    struct http_exchange *exchange = &connection->exchange;
    char *at = exchange->in + exchange->have;
    size_t room = HTTP_IN_BYTES - exchange->have;
    int error = umbra_io_recv(connection->socket, at, room, deadline, got);

    return error == -ECANCELED ? umbra_io_recv(connection->socket, at, room, deadline, got) : error;
}

/* Receives one request or more, or a part, and answers. False: the connection is over. */
static bool serve_some(struct connection *connection, uint64_t deadline)
{
    struct http_exchange *exchange = &connection->exchange;
    size_t got = 0;
    int error = receive(connection, deadline, &got);
    bool more;

    if (error == -ETIMEDOUT)
        http_late(exchange);
    else if (error != 0 || got == 0)
        return false;
    exchange->have += got;
    do {
        exchange->finishing = umbra_canceled();
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
    umbra_buffer_give(connection);
    return NULL;
}

/* False: no memory; the client will see that the connection ends. */
static bool begin_connection(struct share *share, int socket)
{
    struct connection *connection = umbra_buffer_take(connections);

    if (!connection)
        return false;
    memset(connection, 0, offsetof(struct connection, exchange.in));
    connection->socket = socket;
    if (umbra_spawn(serve, connection, &connection->fiber) != 0) {
        umbra_buffer_give(connection);
        return false;
    }
    umbra_detach(connection->fiber); /* it has not begun */
    connection->next = share->first;
    connection->link = &share->first;
    if (share->first)
        share->first->link = &connection->next;
    share->first = connection;
    return true;
}

static void *accept_all(void *arg)
{
    struct share *share = arg;

    while (!umbra_canceled()) {
        int socket;
        int error = umbra_io_accept(share->socket, UMBRA_NEVER, &socket);

        if (error == 0 && !begin_connection(share, socket))
            close(socket);
        else if (error == -EMFILE || error == -ENFILE || error == -ENOMEM)
            umbra_sleep_ns(10000000); /* until connections have ended */
    }
    return NULL;
}

/* Waits for the end, and cancels the fibers of this core that wait for clients. */
static void *end_share(void *arg)
{
    struct share *share = arg;

    umbra_event_wait(&ends, UMBRA_NEVER);
    umbra_cancel(share->accepts);
    umbra_join(share->accepts, UMBRA_NEVER, NULL);
    for (struct connection *each = share->first; each; each = each->next)
        umbra_cancel(each->fiber); /* what has come before is still answered */
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
    if (error == 0)
        error = umbra_buffers_create(runtime, sizeof(struct connection), &connections);
    for (unsigned i = 0; i < server->cores && error == 0; i++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = i};

        shares[i].socket = server->socket[i];
        error = umbra_spawn_with(runtime, &there, accept_all, &shares[i], &shares[i].accepts);
        if (error == 0)
            error = umbra_spawn_with(runtime, &there, end_share, &shares[i], NULL);
    }
    return error;
}

static void end(void)
{
    umbra_event_signal(&ends);
    umbra_runtime_wait(runtime);
    umbra_buffers_destroy(connections);
    umbra_runtime_destroy(runtime);
    free(shares);
}

const struct way fibers_way = {"fibers", begin, end};
