/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A server of HTTP/1.1 in three ways, which share all but how they wait: a fiber for each connection
 * (fibers.c, umbra/io.h), a thread for each connection (threads.c), and a state machine on epoll
 * (epoll.c). Connections are kept alive, a client that is too slow is refused, and so is a bad
 * request. SIGINT and SIGTERM end the server: what has been asked is answered before.
 *
 *     http [--way fibers|threads|epoll] [--port N] [--cores N] [--patience MS]
 *
 * It listens on the loopback interface. Port 0, the default, is any free one; the server prints it.
 * `taskset` decides which processors it uses. Exit status: 0; 1 something failed; 2 bad argument.
 */
#define _GNU_SOURCE
#include "server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../program.h"

const char program_name[] = "http";

#define BACKLOG 4096

struct options {
    const struct way *way;
    size_t port, cores, patience_ms;
};

static const struct way *way_of(const char *name)
{
    const struct way *const ways[] = {&fibers_way, &threads_way, &epoll_way};

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (strcmp(name, ways[i]->name) == 0)
            return ways[i];
    refuse(name, "--way: not fibers, threads or epoll");
}

static struct options options_of(int argc, char **argv)
{
    struct options options = {.way = &fibers_way, .cores = processors_here(), .patience_ms = 10000};

    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (!value)
            refuse(argv[i], "unknown option, or no value");
        if (strcmp(argv[i], "--way") == 0)
            options.way = way_of(value);
        else if (strcmp(argv[i], "--port") == 0)
            options.port = number_of("--port", value, 0, 65535);
        else if (strcmp(argv[i], "--cores") == 0)
            options.cores = number_of("--cores", value, 1, processors_here());
        else if (strcmp(argv[i], "--patience") == 0)
            options.patience_ms = number_of("--patience", value, 1, 3600000);
        else
            refuse(argv[i], "unknown option");
    }
    return options;
}

/* A socket that listens on the port; 0: any, which *port then is. A negative errno: it cannot. */
static int listening(size_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)*port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return -errno;
    *port = ntohs(address.sin_port);
    return fd;
}

/* As many descriptors as the process may have: each connection needs one. */
static void raise_limit(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int failed(const char *what, int error)
{
    fprintf(stderr, "%s: %s: %s\n", program_name, what, error_text(error));
    return 1;
}

int main(int argc, char **argv)
{
    struct options options = options_of(argc, argv);
    struct server server = {.cores = (unsigned)options.cores,
                            .patience_ns = (uint64_t)options.patience_ms * 1000000};
    sigset_t signals;
    int number;
    int error;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before there are threads, which inherit it */
    raise_limit();
    server.socket = calloc(server.cores, sizeof(*server.socket));
    if (!server.socket)
        return failed("sockets", -ENOMEM);
    for (unsigned i = 0; i < server.cores; i++) {
        server.socket[i] = listening(&options.port);
        if (server.socket[i] < 0)
            return failed("listen", server.socket[i]);
    }
    error = options.way->begin(&server);
    if (error != 0)
        return failed(options.way->name, error);
    printf("port %zu\n", options.port);
    fflush(stdout);
    sigwait(&signals, &number);
    options.way->end();
    free(server.socket);
    return printed(0);
}
