/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A thread for each request that is under way: on each core a client's thread that sleeps until a
 * request arrives, and writes it to a pipe, and handlers' threads that read from there. The system
 * decides which of them runs, and for how long.
 */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct part {
    struct load *load;
    int cpu;
    int ends[2];
    unsigned threads; /* begun */
    pthread_t thread[HANDLERS + 1];
};

static void *handle(void *arg)
{
    struct part *part = arg;
    struct request *request;

    bind_to(part->cpu);
    while (read(part->ends[0], &request, sizeof(request)) == sizeof(request))
        load_serve(part->load, request, no_point);
    return NULL;
}

static void *send_requests(void *arg)
{
    struct part *part = arg;
    uint64_t wait_ns;

    bind_to(part->cpu);
    prctl(PR_SET_TIMERSLACK, 1ul); /* else a sleep may be 50 us longer */
    load_begin(part->load);
    while ((wait_ns = load_wait_ns(part->load)) != LOAD_OVER) {
        if (wait_ns == 0) {
            struct request *request = load_take(part->load);

            if (write(part->ends[1], &request, sizeof(request)) < 0)
                abort();
        } else {
            nanosleep(
                &(struct timespec){(time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000)},
                NULL);
        }
    }
    return NULL;
}

/* The client comes last. */
static int begin(struct part *part)
{
    int error = pipe2(part->ends, O_CLOEXEC) == 0 ? 0 : -errno;

    if (error != 0) {
        part->ends[0] = part->ends[1] = -1;
        return error;
    }
    while (part->threads <= HANDLERS && error == 0) {
        error = -pthread_create(&part->thread[part->threads], NULL,
                                part->threads < HANDLERS ? handle : send_requests, part);
        part->threads += error == 0;
    }
    return error;
}

static void end(struct part *part)
{
    if (part->threads > HANDLERS)
        pthread_join(part->thread[--part->threads], NULL);
    close(part->ends[1]); /* the handlers read what is left, and end */
    while (part->threads > 0)
        pthread_join(part->thread[--part->threads], NULL);
    close(part->ends[0]);
}

int serve_threads(const struct server *server)
{
    struct part *parts = calloc(server->cores, sizeof(*parts));
    unsigned begun = 0;
    int error = parts ? 0 : -ENOMEM;

    while (begun < server->cores && error == 0) {
        parts[begun].load = &server->load[begun];
        parts[begun].cpu = server->cpu[begun];
        error = begin(&parts[begun++]);
    }
    for (unsigned i = 0; i < begun; i++)
        end(&parts[i]);
    free(parts);
    return error;
}
