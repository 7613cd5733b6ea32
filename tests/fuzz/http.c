/* SPDX-License-Identifier: BSL-1.0 */
/* Requests of HTTP, as examples/http answers them. They arrive in pieces of so many bytes as the
 * first one says. */
#define _GNU_SOURCE
#include "fuzz.h"

#include "../../examples/http/request.h"

/* What a server sends: whole answers, and the status of each is a number. */
static void answers_check(const struct http_exchange *exchange)
{
    HOLDS(exchange->filled <= HTTP_OUT_BYTES);
    HOLDS(exchange->filled == 0 || memcmp(exchange->out, "HTTP/1.1 ", 9) == 0);
}

/* All that has come is answered, as far as it can be. True: the connection goes on. */
static bool answered(struct http_exchange *exchange)
{
    bool more;

    do {
        more = http_answer(exchange);
        HOLDS(exchange->have <= HTTP_IN_BYTES);
        HOLDS(!more || exchange->filled > 0);
        answers_check(exchange);
        exchange->filled = 0;
    } while (more);
    HOLDS(exchange->closes || exchange->have < HTTP_IN_BYTES);
    return !exchange->closes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_exchange *exchange = calloc(1, sizeof(*exchange));
    size_t at = 1, piece = size > 0 && data[0] > 0 ? data[0] : HTTP_IN_BYTES;
    bool open = true;

    HOLDS(exchange);
    while (at < size && open) {
        size_t room = HTTP_IN_BYTES - exchange->have;
        size_t some = piece < size - at ? piece : size - at;

        some = some < room ? some : room;
        memcpy(exchange->in + exchange->have, data + at, some);
        exchange->have += some;
        at += some;
        open = answered(exchange);
    }
    if (open)
        http_late(exchange);
    HOLDS(exchange->closes);
    answers_check(exchange);
    free(exchange);
    return 0;
}
