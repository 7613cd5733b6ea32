/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A fiber for each request that is under way. On each core the client's fiber sleeps until a request
 * arrives, and pushes it to the core's channel; the handlers pop from there. A fiber that was woken
 * goes before one that has yielded, so at a safe point a long request lets all short ones pass that
 * have arrived. Without safe points the client, too, sleeps until a long request is over.
 */
#include "server.h"

#include <errno.h>
#include <stdlib.h>

#include <umbra/channel.h>
#include <umbra/core.h>

#define QUEUED 4096 /* requests for which no handler is free; more wait in the client */

/* One core's part. */
struct part {
    UMBRA_CHANNEL(struct request *) requests;
    struct load *load;
    void (*point)(void);
};

static void safe_point(void)
{
    umbra_poll();
}

static void *handle(void *arg)
{
    struct part *part = arg;
    struct request *request;

    while (UMBRA_CHANNEL_POP(&part->requests, &request, UMBRA_NEVER) == 0)
        load_serve(part->load, request, part->point);
    return NULL;
}

static void *send_requests(void *arg)
{
    struct part *part = arg;
    uint64_t wait_ns;

    load_begin(part->load);
    while ((wait_ns = load_wait_ns(part->load)) != LOAD_OVER) {
        if (wait_ns == 0) {
            struct request *request = load_take(part->load);

            UMBRA_CHANNEL_PUSH(&part->requests, &request, UMBRA_NEVER);
        } else {
            umbra_sleep_ns(wait_ns);
        }
    }
    UMBRA_CHANNEL_CLOSE(&part->requests);
    return NULL;
}

/* The fibers of a core: 0, or an error, with those that could be begun left. */
static int begin_part(struct umbra_runtime *runtime, unsigned core, struct part *part)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = core};
    int error = 0;

    for (int i = 0; i < HANDLERS && error == 0; i++)
        error = umbra_spawn_with(runtime, &there, handle, part, NULL);
    if (error == 0)
        error = umbra_spawn_with(runtime, &there, send_requests, part, NULL);
    return error;
}

static int serve(const struct server *server, struct part *part, struct umbra_runtime *runtime)
{
    unsigned open = 0;
    int error = 0;

    while (open < server->cores && error == 0) {
        error = UMBRA_CHANNEL_OPEN(&part[open].requests, QUEUED, UMBRA_CHANNEL_MANY);
        open += error == 0;
    }
    for (unsigned i = 0; i < server->cores && error == 0; i++)
        error = begin_part(runtime, i, &part[i]);
    if (error == 0)
        error = umbra_runtime_wait(runtime);
    umbra_runtime_destroy(runtime);
    while (open > 0)
        UMBRA_CHANNEL_FINI(&part[--open].requests);
    return error;
}

static int serve_with(const struct server *server, uint64_t share_ns, void (*point)(void))
{
    struct umbra_options options = {
        .cores = server->cores, .hardware_threads = true, .share_ns = share_ns};
    struct part *part = calloc(server->cores, sizeof(*part));
    struct umbra_runtime *runtime;
    int error = part ? umbra_runtime_create(&options, &runtime) : -ENOMEM;

    for (unsigned i = 0; i < server->cores && error == 0; i++) {
        part[i].load = &server->load[i];
        part[i].point = point;
    }
    if (error == 0)
        error = serve(server, part, runtime);
    free(part);
    return error;
}

int serve_fibers(const struct server *server)
{
    return serve_with(server, server->share_ns, safe_point);
}

int serve_held(const struct server *server)
{
    return serve_with(server, 0, no_point);
}
