/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Messages of 64 bytes that a server on one processor sends back, over so many connections of the
 * loopback interface. A thread on another processor is the client: on each connection one message
 * is under way. The server is
 *
 *   epoll        a loop by hand on epoll, level-triggered: epoll_wait, recv, send
 *   umbra-pool   a fiber a connection (umbra/io.h), the core waits in epoll
 *   umbra-uring  the same, in the core's io_uring
 *   ...-pairs    of either way: a fiber for two connections, with two receives at once
 *   asio         Boost.Asio: async_read_some and async_write_some with callbacks, on one io_context
 *   photon       PhotonLibOS: a fiber a connection, in its io_uring
 */
#define _GNU_SOURCE
#include "in_fiber.h"
#include "peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <umbra/io.h>

#define MESSAGE sizeof(struct echo_message)
#define CONNECTIONS_MOST 1000
#define EVENTS 256
#define BATCH 10000
#define BATCH_TINY 100

struct contender {
    const char *name;
    const char *way;              /* of umbra/io.h, or NULL */
    const struct echo_way *other; /* without umbra/io.h */
    bool pairs;
    unsigned limit; /* its place in the table; 0: epoll */
};

struct echo {
    const struct contender *by;
    unsigned connections;
    struct umbra_runtime *runtime;
    struct bench_row *row;
    struct bench_batch *batch;
};

/* The ends of all connections; rows, which have their turns one after the other, share them. */
static int near[CONNECTIONS_MOST], far[CONNECTIONS_MOST];
static int error_of_connections = 1; /* 1: they are not there yet */

static bool passed(ssize_t count)
{
    return count == (ssize_t)MESSAGE;
}

/* ---- the client ---- */

static void ask(unsigned connection, enum echo_kind kind, uint64_t number)
{
    struct echo_message message = {.kind = kind, .number = number};

    if (!passed(send(near[connection], &message, MESSAGE, MSG_NOSIGNAL)))
        abort();
}

/* Sends so many messages, at first one on each connection, then one for each answer. Returns how
 * many of the answers are right. */
static uint64_t exchange(int epoll, const struct echo *echo, uint64_t count)
{
    static uint64_t expected[CONNECTIONS_MOST];
    struct epoll_event event[EVENTS];
    struct echo_message answer;
    uint64_t sent = 0, right = 0;

    for (unsigned i = 0; i < echo->connections && sent < count; i++)
        ask(i, ECHO_ASKED, expected[i] = sent++);
    for (uint64_t answers = 0; answers < count;) {
        int ready = epoll_wait(epoll, event, EVENTS, -1);

        for (int i = 0; i < ready; i++) {
            unsigned from = event[i].data.u32;

            if (!passed(recv(near[from], &answer, MESSAGE, 0)))
                abort();
            answers++;
            right += answer.kind == ECHO_ASKED && answer.number == expected[from];
            if (sent < count)
                ask(from, ECHO_ASKED, expected[from] = sent++);
        }
    }
    return right;
}

static void *client(void *arg)
{
    struct echo *echo = arg;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    cpu_set_t cpus;
    uint64_t begin;

    CPU_ZERO(&cpus);
    CPU_SET((unsigned)bench_cpu(echo->row->bench, 1), &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    for (unsigned i = 0; i < echo->connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = i}};

        if (epoll_ctl(epoll, EPOLL_CTL_ADD, near[i], &event) != 0)
            abort();
    }
    exchange(epoll, echo, echo->connections); /* the server has begun */
    begin = bench_now_ns();
    echo->batch->verified = exchange(epoll, echo, echo->batch->iterations);
    echo->batch->ns = bench_now_ns() - begin;
    for (unsigned i = 0; i < echo->connections; i++)
        ask(i, ECHO_ENDS, 0);
    close(epoll);
    return NULL;
}

/* ---- the server ---- */

static void *serve_one(void *connection)
{
    struct echo_message message;
    size_t got, sent;

    while (umbra_io_recv(*(int *)connection, &message, MESSAGE, UMBRA_NEVER, &got) == 0 &&
           passed((ssize_t)got) && message.kind == ECHO_ASKED)
        umbra_io_send(*(int *)connection, &message, MESSAGE, UMBRA_NEVER, &sent);
    return NULL;
}

static void *serve_two(void *connections)
{
    struct echo_message message[2];
    struct umbra_io_op op[2], *ops[2];
    unsigned which;
    size_t sent;

    for (unsigned i = 0; i < 2; i++) {
        op[i] = (struct umbra_io_op){.call = UMBRA_IO_RECV,
                                     .fd = ((int *)connections)[i],
                                     .at = &message[i],
                                     .bytes = MESSAGE};
        ops[i] = umbra_io_start(&op[i]) == 0 ? &op[i] : NULL;
    }
    while (umbra_io_wait_any(ops, 2, UMBRA_NEVER, &which) == 0) {
        bool goes_on =
            passed(op[which].result) && message[which].kind == ECHO_ASKED &&
            umbra_io_send(op[which].fd, &message[which], MESSAGE, UMBRA_NEVER, &sent) == 0;

        if (!goes_on || umbra_io_start(ops[which]) != 0)
            ops[which] = NULL;
    }
    return NULL;
}

static void *serve_in_fibers(void *arg)
{
    struct echo *echo = arg;
    struct umbra_fiber fiber[CONNECTIONS_MOST];
    unsigned each = echo->by->pairs ? 2 : 1;

    for (unsigned i = 0; i < echo->connections; i += each)
        if (umbra_spawn(echo->by->pairs ? serve_two : serve_one, &far[i], &fiber[i]) != 0)
            abort();
    for (unsigned i = 0; i < echo->connections; i += each)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    return NULL;
}

static void serve_by_hand(const int *connections, unsigned count)
{
    struct epoll_event event[EVENTS];
    struct echo_message message;
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    for (unsigned i = 0; i < count; i++) {
        event[0] = (struct epoll_event){.events = EPOLLIN, .data = {.fd = connections[i]}};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, connections[i], &event[0]) != 0)
            abort();
    }
    for (unsigned left = count; left > 0;) {
        int ready = epoll_wait(epoll, event, EVENTS, -1);

        for (int i = 0; i < ready; i++) {
            if (!passed(recv(event[i].data.fd, &message, MESSAGE, MSG_DONTWAIT)))
                abort();
            if (message.kind == ECHO_ENDS)
                left--;
            else if (!passed(send(event[i].data.fd, &message, MESSAGE, MSG_NOSIGNAL)))
                abort();
        }
    }
    close(epoll);
}

static const struct echo_way by_hand = {.serve = serve_by_hand};

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct echo *echo = row->state;
    pthread_t thread;
    int error;

    echo->batch = batch;
    error = -pthread_create(&thread, NULL, client, echo);
    if (error != 0)
        return error;
    if (echo->by->way)
        error = in_fiber(echo->runtime, serve_in_fibers, echo);
    else
        echo->by->other->serve(far, echo->connections);
    pthread_join(thread, NULL);
    return error;
}

/* ---- rows ---- */

/* 0 or a negative errno. */
static int connect_all(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct rlimit limit;
    socklen_t length = sizeof address;
    int listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (bind(listens, (struct sockaddr *)&address, length) != 0 || listen(listens, 16) != 0 ||
        getsockname(listens, (struct sockaddr *)&address, &length) != 0)
        return -errno;
    for (int i = 0; i < CONNECTIONS_MOST; i++) {
        near[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(near[i], (struct sockaddr *)&address, length) != 0 ||
            (far[i] = accept4(listens, NULL, NULL, SOCK_CLOEXEC)) < 0)
            return -errno;
        setsockopt(near[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(far[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    close(listens);
    return 0;
}

static int open_row(struct bench_row *row)
{
    struct echo *echo = row->state;
    const struct echo_way *other = echo->by->other;

#ifndef UMBRA_URING
    if (echo->by->way && strcmp(echo->by->way, "uring") == 0)
        return bench_refuse(row, -ENOSYS, "built without liburing");
#endif
    echo->row = row;
    if (error_of_connections > 0)
        error_of_connections = connect_all();
    if (error_of_connections != 0)
        return error_of_connections;
    return other && other->open ? other->open() : 0;
}

static int start(struct bench_row *row)
{
    struct echo *echo = row->state;

    setenv("UMBRA_IO", echo->by->way ? echo->by->way : "", 1);
    return echo->by->way ? in_fiber_cores(row->bench, 1, &echo->runtime) : 0;
}

static void stop(struct bench_row *row)
{
    struct echo *echo = row->state;

    if (echo->by->way)
        umbra_runtime_destroy(echo->runtime);
}

static void close_row(struct bench_row *row)
{
    struct echo *echo = row->state;

    if (echo->by->other && echo->by->other->close)
        echo->by->other->close();
}

static const struct bench_ops ops = {
    .open = open_row, .start = start, .run = run, .stop = stop, .close = close_row};

enum { EPOLL, POOL, URING }; /* places in the table */

static const struct contender contenders[] = {
    {"epoll", .other = &by_hand},
    {"umbra-pool", .way = "pool"},
    {"umbra-uring", .way = "uring"},
    {"umbra-pool-pairs", .way = "pool", .pairs = true, .limit = POOL},
    {"umbra-uring-pairs", .way = "uring", .pairs = true, .limit = URING},
    {"asio", .other = &asio_echo},
    {"photon", .other = &photon_echo},
};

#define CONTENDERS (sizeof contenders / sizeof contenders[0])

static int declare(struct bench *bench)
{
    static const unsigned connections[] = {64, CONNECTIONS_MOST};
    static struct echo cases[2][CONTENDERS];

    for (size_t c = 0; c < 2; c++) {
        struct bench_row *rows[CONTENDERS];

        for (size_t i = 0; i < CONTENDERS; i++) {
            const struct contender *by = &contenders[i];

            rows[i] = by->way ? bench_add(bench, by->name, &ops, NULL)
                              : bench_add_peer(bench, by->name, &ops, by->other);
            cases[c][i] = (struct echo){.by = by, .connections = connections[c]};
            rows[i]->state = &cases[c][i];
            rows[i]->batch = bench_tiny(bench) ? BATCH_TINY : BATCH;
            rows[i]->limit = i == EPOLL ? NULL : rows[by->limit];
            json_object_set_new(rows[i]->params, "connections", json_integer(connections[c]));
        }
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "echo",
    .about =
        "messages over many connections: umbra/io.h beside a loop on epoll and other libraries",
    .cpus = 2,
    .rounds = 51,
    .rounds_quick = 5,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
