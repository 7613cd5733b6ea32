/* SPDX-License-Identifier: BSL-1.0 */
/* Files, pipes and sockets while calls fail. The table is in scenarios.c. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <umbra/io.h>

#include "scenario.h"

#define ROUNDS 10

static struct umbra_event begun = UMBRA_EVENT_INIT;
static int ends[2][2]; /* of two pipes, or of one pair of sockets */

static void close_ends(void)
{
    for (int i = 0; i < 4; i++)
        __real_close(ends[i / 2][i % 2]);
}

/* The call for a byte to or from a socket: of one as a message, of the next without. What receives a
 * message waits before until there is one. */
static int send_byte(int fd, unsigned char *what, uint64_t until, size_t *put)
{
    struct iovec buffer = {what, 1};
    struct msghdr message = {.msg_iov = &buffer, .msg_iovlen = 1};

    return *what % 2 ? umbra_io_sendmsg(fd, &message, until, put)
                     : umbra_io_send(fd, what, 1, until, put);
}

static int recv_byte(int fd, bool as_message, unsigned char *heard, uint64_t until, size_t *got)
{
    struct iovec buffer = {heard, 1};
    struct msghdr message = {.msg_iov = &buffer, .msg_iovlen = 1};
    short ready;
    int error = as_message ? umbra_io_ready(fd, POLLIN, until, &ready) : 0;

    if (error != 0)
        return error;
    return as_message ? umbra_io_recvmsg(fd, &message, until, got)
                      : umbra_io_recv(fd, heard, 1, until, got);
}

/* One way of a conversation by bytes: each answers the other's with the next. */
static bool says(int fd, unsigned char what, bool on_socket)
{
    size_t put = 0;
    uint64_t until = umbra_deadline(LONG);

    return note(on_socket ? send_byte(fd, &what, until, &put)
                          : umbra_io_write(fd, &what, 1, UMBRA_IO_HERE, until, &put)) &&
           ALWAYS(put == 1);
}

static bool hears(int fd, unsigned char what, bool on_socket)
{
    unsigned char heard = 0;
    size_t got = 0;
    uint64_t until = umbra_deadline(LONG);

    if (!note(on_socket ? recv_byte(fd, what % 2, &heard, until, &got)
                        : umbra_io_read(fd, &heard, 1, UMBRA_IO_HERE, until, &got)))
        return false;
    MUST(got == 1);
    return got == 1 && ALWAYS(heard == what);
}

static void converses(int in, int *out, bool first, bool on_socket)
{
    for (unsigned char i = 0; i < ROUNDS; i++) {
        if (first && !says(*out, i, on_socket))
            break;
        if (!hears(in, i, on_socket))
            break;
        if (!first && !says(*out, i, on_socket))
            break;
    }
    if (first_error != 0 && on_socket) { /* the other must not wait */
        shutdown(*out, SHUT_RDWR);
    } else if (first_error != 0) {
        __real_close(*out);
        *out = -1;
    }
}

static void *on_pipes(void *first)
{
    if (first)
        converses(ends[1][0], &ends[0][1], true, false);
    else
        converses(ends[0][0], &ends[1][1], false, false);
    return NULL;
}

static void *on_sockets(void *first)
{
    converses(ends[0][first == NULL], &ends[0][first == NULL], first != NULL, true);
    return NULL;
}

static void *pipes_on_both(void *unused)
{
    on_both(on_pipes, ends, NULL);
    return unused;
}

static void *sockets_on_both(void *unused)
{
    on_both(on_sockets, ends, NULL);
    return unused;
}

int use_pipes(void)
{
    if (pipe(ends[0]) != 0 || pipe(ends[1]) != 0)
        return __LINE__;
    on_two_cores(pipes_on_both);
    close_ends();
    return result();
}

static void open_pair(void)
{
    ends[1][0] = ends[1][1] = -1;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends[0]);
}

int use_sockets(void)
{
    open_pair();
    on_two_cores(sockets_on_both);
    close_ends();
    return result();
}

/* ---- files ---- */

static void *writes_and_reads(void *fd)
{
    static const char text[] = "what is written is read";
    char read[sizeof(text) + 1] = ""; /* more than there is: the end is looked for */
    size_t done = 0;

    if (note(umbra_io_write(*(int *)fd, text, sizeof(text), 0, UMBRA_NEVER, &done)))
        ALWAYS(done == sizeof(text));
    done = 0;
    if (first_error == 0 &&
        note(umbra_io_read(*(int *)fd, read, sizeof(read), 0, UMBRA_NEVER, &done)))
        ALWAYS(done == sizeof(text) && memcmp(text, read, sizeof(text)) == 0);
    return NULL;
}

static int file;

/* The cache of its file system reads without waiting, which that of memfd_create(2) does not. */
static int file_on_disk(void)
{
    char path[] = "/tmp/umbra-faults-XXXXXX";
    int fd = mkstemp(path);

    unlink(path);
    return fd;
}

static void *files_on_both(void *unused)
{
    int other = file_on_disk();

    on_both(writes_and_reads, &file, &other);
    __real_close(other);
    return unused;
}

int use_files(void)
{
    file = memfd_create("file", 0);
    on_two_cores(files_on_both);
    __real_close(file);
    return result();
}

/* ---- connections ---- */

static int listening;
static union {
    struct sockaddr any;
    struct sockaddr_un local;
    struct sockaddr_in internet;
} place;
static socklen_t place_bytes;

/* On a name or number of the kernel's choice. */
static void open_listening(int family)
{
    memset(&place, 0, sizeof(place));
    place.any.sa_family = (sa_family_t)family;
    place.internet.sin_addr.s_addr = family == AF_INET ? htonl(INADDR_LOOPBACK) : 0;
    place_bytes = family == AF_INET ? sizeof(place.internet) : sizeof(place.any.sa_family);
    listening = socket(family, SOCK_STREAM, 0);
    bind(listening, &place.any, place_bytes);
    listen(listening, 1);
    place_bytes = sizeof(place);
    getsockname(listening, &place.any, &place_bytes);
}

static void *accepts(void *unused)
{
    unsigned char byte = 0;
    size_t done = 0;
    int connection;

    if (!note(umbra_io_accept(listening, umbra_deadline(LONG), &connection))) {
        shutdown(listening, SHUT_RDWR);
        return NULL;
    }
    if (note(umbra_io_recv(connection, &byte, 1, umbra_deadline(LONG), &done)))
        MUST(done == 1 && byte == 7);
    __real_close(connection);
    return unused;
}

static void *connects(void *unused)
{
    int fd = socket(place.any.sa_family, SOCK_STREAM, 0);
    unsigned char byte = 7;
    size_t done;

    if (note(umbra_io_connect(fd, &place.any, place_bytes, umbra_deadline(LONG))))
        note(umbra_io_send(fd, &byte, 1, umbra_deadline(LONG), &done));
    else
        shutdown(listening, SHUT_RDWR);
    __real_close(fd);
    return unused;
}

static void *accepts_or_connects(void *connecting)
{
    return connecting ? connects(NULL) : accepts(NULL);
}

static void *connections_on_both(void *unused)
{
    on_both(accepts_or_connects, NULL, &place);
    return unused;
}

static int use_connections_of(int family)
{
    open_listening(family);
    on_two_cores(connections_on_both);
    __real_close(listening);
    return result();
}

int use_connections(void)
{
    return use_connections_of(AF_INET);
}

int use_local_connections(void)
{
    return use_connections_of(AF_UNIX);
}

/* ---- calls that are under way when their runtime is destroyed ---- */

static void *waits_for_ever(void *unused)
{
    char byte;
    size_t got;
    int error;

    umbra_event_signal(&begun);
    error = umbra_io_read(ends[0][0], &byte, 1, UMBRA_IO_HERE, UMBRA_NEVER, &got);
    ALWAYS(error < 0);
    note(error);
    return unused;
}

int use_left_calls(void)
{
    struct umbra_options options = {.cores = 1, .quiet = true, .topology = topology};
    struct umbra_runtime *runtime;

    if (pipe(ends[0]) != 0)
        return __LINE__;
    ends[1][0] = ends[1][1] = -1;
    if (note(umbra_runtime_create(&options, &runtime))) {
        if (note(umbra_spawn_with(runtime, NULL, waits_for_ever, NULL, NULL)))
            note(umbra_event_wait(&begun, UMBRA_NEVER));
        usleep(1000);
        note(umbra_runtime_destroy(runtime));
    }
    close_ends();
    return result();
}

/* ---- threads that are no core ---- */

/* Runs one here and the other in a thread. */
static void with_a_thread(void *(*here)(void *), void *one, void *(*there)(void *), void *other)
{
    pthread_t thread;

    if (__real_pthread_create(&thread, NULL, there, other) != 0)
        return;
    here(one);
    __real_pthread_join(thread, NULL);
}

int use_io_in_a_thread(void)
{
    file = memfd_create("file", 0);
    writes_and_reads(&file);
    __real_close(file);
    open_listening(AF_INET);
    with_a_thread(accepts, NULL, connects, NULL);
    __real_close(listening);
    if (pipe(ends[0]) != 0 || pipe(ends[1]) != 0)
        return __LINE__;
    with_a_thread(on_pipes, NULL, on_pipes, ends);
    close_ends();
    return result();
}
