/* SPDX-License-Identifier: BSL-1.0 */
/* What the three servers get from main(), and how they are begun and ended. */
#ifndef EXAMPLES_HTTP_SERVER_H
#define EXAMPLES_HTTP_SERVER_H

#include <stdint.h>

/* Options, and one listening socket for each core: all on the same port (SO_REUSEPORT). */
struct server {
    unsigned cores;
    uint64_t patience_ns; /* how long a client may take for a request, and be idle between two */
    int *socket;
};

/* A way to serve. begin: 0 or a negative errno; it returns when connections are accepted. end:
 * accepts no more, closes idle connections, and returns when all others have got their answers. */
struct way {
    const char *name;
    int (*begin)(const struct server *server);
    void (*end)(void);
};

extern const struct way fibers_way, threads_way, epoll_way;

#endif
