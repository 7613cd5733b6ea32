/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEAD_MOST 256 /* of an answer, bytes */

/* A request's first line and the fields that matter here. All text stands in `in`, and stack is
 * used sparingly: of ten thousand fibers each has a stack of its own, which the cache must hold. */
struct request {
    const char *method, *target;
    size_t method_length, target_length;
    int minor; /* of HTTP/1.x */
    bool host;
    bool closes;
    bool sized;      /* it says how long its body is */
    uint64_t length; /* of its body */
};

static const struct {
    int status;
    const char *reason;
} reasons[] = {{200, "OK"},
               {400, "Bad Request"},
               {404, "Not Found"},
               {405, "Method Not Allowed"},
               {408, "Request Timeout"},
               {431, "Request Header Fields Too Large"},
               {501, "Not Implemented"},
               {505, "HTTP Version Not Supported"}};

static const char *reason_of(int status)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "";
}

static char *add_text(char *at, const char *text)
{
    size_t length = strlen(text);

    memcpy(at, text, length);
    return at + length;
}

static char *add_number(char *at, size_t value)
{
    char digits[24];
    size_t first = sizeof(digits);

    do
        digits[--first] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    memcpy(at, digits + first, sizeof(digits) - first);
    return at + sizeof(digits) - first;
}

/* Adds an answer with a body of so many bytes: text, repeated. HEAD: without the body. */
static void add_answer(struct http_exchange *exchange, int status, const char *text, size_t bytes,
                       bool with_body)
{
    char *at = exchange->out + exchange->filled;
    size_t length = strlen(text);

    at = add_text(at, "HTTP/1.1 ");
    at = add_number(at, (size_t)status);
    at = add_text(at, " ");
    at = add_text(at, reason_of(status));
    at = add_text(at, "\r\nContent-Type: text/plain\r\nContent-Length: ");
    at = add_number(at, bytes);
    at = add_text(at, exchange->closes ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n");
    for (size_t i = 0; i < bytes && with_body; i++)
        *at++ = text[i % length];
    exchange->filled = (size_t)(at - exchange->out);
}

/* A request that cannot be answered: the connection ends, since what follows may be no request. */
static void refuse(struct http_exchange *exchange, int status)
{
    const char *reason = reason_of(status);

    exchange->closes = true;
    add_answer(exchange, status, reason, strlen(reason), true);
}

/* True if a list "a, b" has this word. */
static bool has_word(const char *list, const char *word)
{
    size_t length;

    for (; *list != '\r'; list += length) {
        list += strspn(list, ", \t");
        length = strcspn(list, ", \t\r");
        if (length == strlen(word) && strncasecmp(list, word, length) == 0)
            return true;
    }
    return false;
}

/* False: it is no number, or too large. */
static bool read_length(const char *value, uint64_t *length)
{
    *length = 0;
    if (*value < '0' || *value > '9')
        return false;
    for (; *value >= '0' && *value <= '9'; value++) {
        if (*length > (UINT64_MAX - 9) / 10)
            return false;
        *length = *length * 10 + (uint64_t)(*value - '0');
    }
    return value[strspn(value, " \t")] == '\r';
}

/* One line "Name: value" of the head, which ends with CR. What could be read in two ways is
 * refused: a proxy before this server may read it the other way. 0 or the status of a refusal. */
static int read_field(struct request *request, const char *line)
{
    size_t name = strspn(line, "!#$%&'*+-.^_`|~0123456789"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
    const char *value = line + name + 1;

    if (name == 0 || line[name] != ':')
        return 400;
    value += strspn(value, " \t");
    if (strncasecmp(line, "Transfer-Encoding:", 18) == 0)
        return 501;
    if (strncasecmp(line, "Content-Length:", 15) == 0) {
        if (request->sized || !read_length(value, &request->length))
            return 400;
        request->sized = true;
    } else if (strncasecmp(line, "Host:", 5) == 0) {
        if (request->host)
            return 400;
        request->host = true;
    } else if (strncasecmp(line, "Connection:", 11) == 0) {
        request->closes =
            has_word(value, "close") || (request->closes && !has_word(value, "keep-alive"));
    }
    return 0;
}

/* Reads the first line, which ends at `end`. 0 or the status of a refusal. */
static int read_first_line(struct request *request, const char *line, const char *end)
{
    request->method = line;
    request->method_length = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    request->target = line + request->method_length + 1;
    if (request->method_length == 0 || request->target >= end || request->target[-1] != ' ')
        return 400;
    request->target_length = strcspn(request->target, " \t\r");
    line = request->target + request->target_length;
    if (request->target_length == 0 || strncmp(line, " HTTP/", 6) != 0 || end - line != 9)
        return 400;
    if (strncmp(line, " HTTP/1.", 8) != 0)
        return 505;
    request->minor = line[8] - '0';
    return request->minor >= 0 && request->minor <= 9 ? 0 : 400;
}

/* True if all lines end with CR and LF, and have no other control characters but tabs. */
static bool is_text(const char *head)
{
    for (; *head; head++) {
        if (head[0] == '\r' && head[1] == '\n')
            head++;
        else if (((unsigned char)*head < ' ' && *head != '\t') || *head == 0x7f)
            return false;
    }
    return true;
}

/* Reads a head, which ends with an empty line and a 0. 0 or the status of a refusal. */
static int read_head(struct request *request, const char *head)
{
    const char *end = strstr(head, "\r\n");
    int status = is_text(head) ? read_first_line(request, head, end) : 400;

    request->closes = request->minor == 0;
    while (status == 0 && strncmp(end, "\r\n\r\n", 4) != 0) {
        status = read_field(request, end + 2);
        end = strstr(end + 2, "\r\n");
    }
    if (status == 0 && request->minor >= 1 && !request->host)
        status = 400;
    return status;
}

/* True if a word of the request is this one. */
static bool is(const char *word, size_t length, const char *text)
{
    return strlen(text) == length && memcmp(word, text, length) == 0;
}

/* The number of bytes that the target "/bytes/N" asks for, or -1: it asks for something else. */
static long bytes_asked(const struct request *request)
{
    static const char begin[] = "/bytes/";
    const char *number = request->target + sizeof(begin) - 1;
    char *end;
    unsigned long bytes;

    if (strncmp(request->target, begin, sizeof(begin) - 1) != 0 || *number < '0' || *number > '9')
        return -1;
    bytes = strtoul(number, &end, 10);
    return end == request->target + request->target_length && bytes <= HTTP_BYTES_MOST ? (long)bytes
                                                                                       : -1;
}

/* Answers a request after its head was read. */
static void answer(struct http_exchange *exchange, const struct request *request)
{
    bool with_body = !is(request->method, request->method_length, "HEAD");
    long bytes = bytes_asked(request);

    exchange->closes = request->closes || exchange->finishing;
    exchange->skip = request->length;
    if (with_body && !is(request->method, request->method_length, "GET"))
        add_answer(exchange, 405, "405\n", 4, true);
    else if (is(request->target, request->target_length, "/"))
        add_answer(exchange, 200, "Hello, world\n", 13, with_body);
    else if (bytes >= 0)
        add_answer(exchange, 200, "0123456789abcdef", (size_t)bytes, with_body);
    else
        add_answer(exchange, 404, "404\n", 4, with_body);
}

/* Drops bytes at the front of `in`. */
static void drop(struct http_exchange *exchange, size_t bytes)
{
    exchange->have -= bytes;
    memmove(exchange->in, exchange->in + bytes, exchange->have);
}

/* Answers the first request, if all of its head is there. */
static bool answer_first(struct http_exchange *exchange)
{
    char *end = memmem(exchange->in, exchange->have, "\r\n\r\n", 4);
    struct request request = {.minor = 0};
    size_t length = end ? (size_t)(end - exchange->in) + 4 : 0;
    char after;
    int status;

    if (!end) {
        if (exchange->have == HTTP_IN_BYTES)
            refuse(exchange, 431);
        return false;
    }
    after = end[4];
    end[4] = 0;
    status = strlen(exchange->in) == length ? read_head(&request, exchange->in) : 400;
    if (status != 0)
        refuse(exchange, status);
    else
        answer(exchange, &request);
    end[4] = after;
    drop(exchange, length);
    return true;
}

bool http_answer(struct http_exchange *exchange)
{
    do {
        size_t skipped = exchange->skip < exchange->have ? (size_t)exchange->skip : exchange->have;

        exchange->skip -= skipped;
        drop(exchange, skipped);
        if (exchange->closes)
            return false;
        if (exchange->filled + HEAD_MOST + HTTP_BYTES_MOST > HTTP_OUT_BYTES)
            return true;
    } while (exchange->skip == 0 && exchange->have > 0 && answer_first(exchange));
    return false;
}

void http_late(struct http_exchange *exchange)
{
    if (exchange->have > 0 || exchange->skip > 0)
        refuse(exchange, 408);
    exchange->closes = true;
}
