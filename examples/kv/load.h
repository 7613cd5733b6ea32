/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The load of one core: requests. Their times of arrival (a Poisson process) are drawn before the run,
 * so that a server that is late gets no fewer of them. How long an answer has taken counts from that
 * time, and not from when the server has looked at the request.
 *
 * On each core a client, a fiber, a thread or a part of the loop, gives out each request when its time
 * has come. One call at a time; load_serve may be called meanwhile, for requests that were given out.
 */
#ifndef EXAMPLES_KV_LOAD_H
#define EXAMPLES_KV_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_LONG_PERCENT 1 /* of the requests are long ones */
#define LOAD_OVER UINT64_MAX

struct request {
    uint64_t at_ns;   /* when it arrives, from the begin of the load */
    uint64_t took_ns; /* from its arrival to its answer; load_serve */
    unsigned key;
    bool scan;  /* a long one */
    bool wrong; /* so was the answer; load_serve */
};

struct load {
    struct request *request;
    size_t count;
    size_t given;      /* out, until now */
    uint64_t begin_ns; /* a time of umbra_now_ns() */
};

/* Draws so many requests, mean_ns apart in the mean. 0 or -ENOMEM. */
int load_make(struct load *load, size_t count, double mean_ns, uint64_t seed);
void load_free(struct load *load);

/* The load begins now. */
void load_begin(struct load *load);

/* How long until the next request arrives, ns; 0: it is there; LOAD_OVER: it was the last. */
uint64_t load_wait_ns(const struct load *load);

/* Gives out the next request. */
struct request *load_take(struct load *load);

/* Answers a request. point: called between the parts of a long one. */
void load_serve(const struct load *load, struct request *request, void (*point)(void));

#endif
