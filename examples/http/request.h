/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the servers have in common: requests of HTTP/1.1 in, answers out. No input or output here:
 * a server puts what it has received into `in`, calls http_answer, and sends what stands in `out`.
 *
 * Answered are GET and HEAD of "/" (a greeting) and "/bytes/N" (N bytes, at most HTTP_BYTES_MOST).
 * Several requests may come at once, and in any pieces. Bodies of requests are skipped.
 */
#ifndef EXAMPLES_HTTP_REQUEST_H
#define EXAMPLES_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_IN_BYTES 4096  /* a longer head is refused */
#define HTTP_OUT_BYTES 8192 /* holds the answers to several requests */
#define HTTP_BYTES_MOST 4096

/* One side of a connection. What stands before `in` is zero at first. */
struct http_exchange {
    size_t have;    /* bytes in `in` that were not used yet */
    size_t filled;  /* bytes in `out` */
    uint64_t skip;  /* bytes of a body that are still to be skipped */
    bool closes;    /* no further request is answered; the connection ends after `out` was sent */
    bool finishing; /* the server ends: the next answer is the last */
    char in[HTTP_IN_BYTES + 1]; /* one more than is received */
    char out[HTTP_OUT_BYTES];
};

/* Answers the complete requests in `in`, as far as `out` has room. True: there may be more, once
 * `out` was sent. */
bool http_answer(struct http_exchange *exchange);

/* The client was too slow: answers with 408 if a request has begun, and closes. */
void http_late(struct http_exchange *exchange);

#endif
