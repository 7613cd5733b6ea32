/* SPDX-License-Identifier: BSL-1.0 */
/* What the servers get from main(). */
#ifndef EXAMPLES_KV_SERVER_H
#define EXAMPLES_KV_SERVER_H

#include "load.h"

#include <stdint.h>

#define HANDLERS 64 /* fibers or threads that answer, on each core */

struct server {
    unsigned cores;
    const int *cpu;    /* a processor for each, for the ways that bind threads themselves */
    struct load *load; /* one for each core */
    uint64_t share_ns; /* of a fiber, until a safe point yields */
};

/* Each answers the whole load and returns 0, or a negative errno: it could not begin. */
int serve_fibers(const struct server *server);
int serve_held(const struct server *server); /* without safe points */
int serve_epoll(const struct server *server);
int serve_threads(const struct server *server);

/* Binds the calling thread to one processor; no error if the system refuses. */
void bind_to(int cpu);

/* For ways without safe points. */
void no_point(void);

#endif
