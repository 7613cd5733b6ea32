/* SPDX-License-Identifier: BSL-1.0 */
/*
 * umbra/io.h against the system's own calls: each kind of descriptor, blocking and not, with each
 * call, by the ring, by the pool and by a thread that is no core. What read(2), recv(2) and their
 * like return on a descriptor with O_NONBLOCK is what umbra_io_... must return; where they say
 * EAGAIN, it waits. And no call changes the descriptor's flags.
 */
#define _GNU_SOURCE
#include "fibers.h"
#include "io_way.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- descriptors ---- */

/* A descriptor to be used, and what stands behind it; -1: unused. */
struct subject {
    int fd;
    int behind[2];
};

static struct subject alone(int fd)
{
    return (struct subject){fd, {-1, -1}};
}

static void dispose(const struct subject *subject)
{
    close(subject->fd);
    close(subject->behind[0]);
    close(subject->behind[1]);
}

static int file_with(int flags)
{
    char path[] = "/tmp/umbra-test-XXXXXX";
    int made = mkstemp(path);
    int fd;

    cr_expect_eq(write(made, "0123456789", 10), 10);
    fd = open(path, flags);
    close(made);
    unlink(path);
    return fd;
}

static struct subject file(void)
{
    return alone(file_with(O_RDWR));
}

static struct subject file_to_read(void)
{
    return alone(file_with(O_RDONLY));
}

static struct subject file_to_write(void)
{
    return alone(file_with(O_WRONLY));
}

static struct subject file_to_append(void)
{
    return alone(file_with(O_RDWR | O_APPEND));
}

static struct subject file_past_cache(void)
{
    return alone(file_with(O_RDWR | O_DIRECT));
}

static struct subject file_in_memory(void)
{
    int fd = memfd_create("umbra-test", 0);

    cr_expect_eq(pwrite(fd, "0123456789", 10, 0), 10);
    return alone(fd);
}

static struct subject file_of_kernel(void)
{
    return alone(open("/proc/self/limits", O_RDONLY));
}

static struct subject directory(void)
{
    return alone(open("/", O_RDONLY | O_DIRECTORY));
}

static struct subject path_only(void)
{
    return alone(open("/", O_PATH));
}

static struct subject dev_null(void)
{
    return alone(open("/dev/null", O_RDWR));
}

static struct subject dev_zero(void)
{
    return alone(open("/dev/zero", O_RDWR));
}

static struct subject pipe_end(int end, const char *text)
{
    int ends[2];

    cr_expect_eq(pipe(ends), 0);
    cr_expect_eq(write(ends[1], text, strlen(text)), (ssize_t)strlen(text));
    return (struct subject){ends[end], {ends[!end], -1}};
}

static struct subject pipe_empty(void)
{
    return pipe_end(0, "");
}

static struct subject pipe_filled(void)
{
    return pipe_end(0, "abc");
}

static struct subject pipe_ended(void)
{
    struct subject subject = pipe_empty();

    close(subject.behind[0]);
    subject.behind[0] = -1;
    return subject;
}

static struct subject pipe_to_write(void)
{
    return pipe_end(1, "");
}

/* Writes until no more goes in. */
static struct subject stuffed(struct subject subject)
{
    static const char zeros[4096];
    int flags = fcntl(subject.fd, F_GETFL);

    fcntl(subject.fd, F_SETFL, flags | O_NONBLOCK);
    while (write(subject.fd, zeros, sizeof(zeros)) > 0)
        ;
    fcntl(subject.fd, F_SETFL, flags);
    return subject;
}

static struct subject pipe_full(void)
{
    return stuffed(pipe_to_write());
}

static struct subject pipe_broken(void)
{
    struct subject subject = pipe_to_write();

    close(subject.behind[0]);
    subject.behind[0] = -1;
    return subject;
}

static struct subject fifo_with(const char *text)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/tmp/umbra-test-fifo-%ld", (long)getpid());
    unlink(path);
    cr_expect_eq(mkfifo(path, 0600), 0);
    fd = open(path, O_RDWR);
    unlink(path);
    cr_expect_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return alone(fd);
}

static struct subject fifo_empty(void)
{
    return fifo_with("");
}

static struct subject fifo_filled(void)
{
    return fifo_with("abc");
}

/* Both sides of a terminal, with a line that was typed. */
static struct subject terminal_with(const char *typed)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    int slave;

    cr_expect_eq(grantpt(master), 0);
    cr_expect_eq(unlockpt(master), 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (*typed) {
        struct pollfd ready = {.fd = slave, .events = POLLIN};

        cr_expect_eq(write(master, typed, strlen(typed)), (ssize_t)strlen(typed));
        cr_expect_eq(poll(&ready, 1, 5000), 1);
    }
    return (struct subject){slave, {master, -1}};
}

static struct subject terminal_silent(void)
{
    return terminal_with("");
}

static struct subject terminal_typed(void)
{
    return terminal_with("abc\n");
}

static struct subject terminal_master(void)
{
    struct subject subject = terminal_with("");

    return (struct subject){subject.behind[0], {subject.fd, -1}};
}

static struct subject pair_of(int type, const char *text)
{
    int pair[2];

    cr_expect_eq(socketpair(AF_UNIX, type, 0, pair), 0);
    if (*text)
        cr_expect_eq(send(pair[1], text, strlen(text), 0), (ssize_t)strlen(text));
    return (struct subject){pair[0], {pair[1], -1}};
}

static struct subject stream_silent(void)
{
    return pair_of(SOCK_STREAM, "");
}

static struct subject stream_filled(void)
{
    return pair_of(SOCK_STREAM, "abc");
}

static struct subject stream_full(void)
{
    return stuffed(stream_silent());
}

static struct subject stream_broken(void)
{
    struct subject subject = stream_silent();

    close(subject.behind[0]);
    subject.behind[0] = -1;
    return subject;
}

static struct subject stream_shut(void)
{
    struct subject subject = stream_silent();

    cr_expect_eq(shutdown(subject.fd, SHUT_RDWR), 0);
    return subject;
}

static struct subject stream_unconnected(void)
{
    return alone(socket(AF_UNIX, SOCK_STREAM, 0));
}

static struct subject packets_filled(void)
{
    return pair_of(SOCK_SEQPACKET, "abc");
}

static struct subject datagrams_silent(void)
{
    return pair_of(SOCK_DGRAM, "");
}

static struct subject datagrams_filled(void)
{
    return pair_of(SOCK_DGRAM, "abc");
}

static struct subject datagrams_unconnected(void)
{
    return alone(socket(AF_INET, SOCK_DGRAM, 0));
}

static struct sockaddr_in inet_name;  /* where compares_all() listens */
static struct sockaddr_un local_name; /* likewise */

static int server_local(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    local_name = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(local_name.sun_path + 1, sizeof(local_name.sun_path) - 1, "umbra-test-%ld",
             (long)getpid());
    cr_expect_eq(bind(fd, (const struct sockaddr *)&local_name, sizeof(local_name)), 0);
    cr_expect_eq(listen(fd, 1000), 0);
    return fd;
}

static struct subject tcp_unconnected(void)
{
    return (struct subject){socket(AF_INET, SOCK_STREAM, 0), {-1, -1}};
}

static struct subject tcp_listening(void)
{
    struct sockaddr_in name;

    return alone(listening(1000, &name));
}

static struct subject tcp_connected(void)
{
    struct sockaddr_in name;
    int listens = listening(1000, &name);
    int client = socket(AF_INET, SOCK_STREAM, 0);

    cr_expect_eq(connect(client, (const struct sockaddr *)&name, sizeof(name)), 0);
    return (struct subject){client, {listens, accept(listens, NULL, NULL)}};
}

static struct subject tcp_with_connection(void)
{
    struct sockaddr_in name;
    int listens = listening(1000, &name);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    struct pollfd ready = {.fd = listens, .events = POLLIN};

    cr_expect_eq(connect(client, (const struct sockaddr *)&name, sizeof(name)), 0);
    cr_expect_eq(poll(&ready, 1, 5000), 1);
    return (struct subject){listens, {client, -1}};
}

static struct subject tcp_reset(void)
{
    struct subject subject = tcp_connected();
    struct linger at_once = {1, 0};
    struct pollfd ready = {.fd = subject.fd, .events = POLLIN};

    setsockopt(subject.behind[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(subject.behind[1]);
    cr_expect_eq(poll(&ready, 1, 5000), 1);
    subject.behind[1] = -1;
    return subject;
}

static struct subject closed(void)
{
    int fd = dup(2);

    close(fd);
    return alone(fd);
}

static struct subject none(void)
{
    return alone(-1);
}

static struct subject epoll_fd(void)
{
    return alone(epoll_create1(0));
}

static struct subject event_zero(void)
{
    return alone(eventfd(0, 0));
}

static struct subject event_one(void)
{
    return alone(eventfd(1, 0));
}

static struct subject timer_armed(void)
{
    const struct itimerspec day = {.it_value = {.tv_sec = 86400}};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);

    cr_expect_eq(timerfd_settime(fd, 0, &day, NULL), 0);
    return alone(fd);
}

static struct subject timer_expired(void)
{
    const struct itimerspec at_once = {.it_value = {.tv_nsec = 1}};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    cr_expect_eq(timerfd_settime(fd, 0, &at_once, NULL), 0);
    cr_expect_eq(poll(&ready, 1, 5000), 1);
    return alone(fd);
}

static struct subject watch_silent(void)
{
    return alone(inotify_init1(0));
}

static struct subject watch_reports(void)
{
    struct subject subject = watch_silent();
    int fd;

    cr_expect(inotify_add_watch(subject.fd, "/dev/null", IN_OPEN | IN_ONESHOT) >= 0);
    fd = open("/dev/null", O_RDONLY);
    close(fd);
    return subject;
}

#define KIND(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct {
    const char *name;
    struct subject (*make)(void);
} kinds[] = {
    KIND(file),
    KIND(file_to_read),
    KIND(file_to_write),
    KIND(file_to_append),
    KIND(file_past_cache),
    KIND(file_in_memory),
    KIND(file_of_kernel),
    KIND(directory),
    KIND(path_only),
    KIND(dev_null),
    KIND(dev_zero),
    KIND(pipe_empty),
    KIND(pipe_filled),
    KIND(pipe_ended),
    KIND(pipe_to_write),
    KIND(pipe_full),
    KIND(pipe_broken),
    KIND(fifo_empty),
    KIND(fifo_filled),
    KIND(terminal_silent),
    KIND(terminal_typed),
    KIND(terminal_master),
    KIND(stream_silent),
    KIND(stream_filled),
    KIND(stream_full),
    KIND(stream_broken),
    KIND(stream_shut),
    KIND(stream_unconnected),
    KIND(packets_filled),
    KIND(datagrams_silent),
    KIND(datagrams_filled),
    KIND(datagrams_unconnected),
    KIND(tcp_unconnected),
    KIND(tcp_listening),
    KIND(tcp_connected),
    KIND(tcp_with_connection),
    KIND(tcp_reset),
    KIND(closed),
    KIND(none),
    KIND(epoll_fd),
    KIND(event_zero),
    KIND(event_one),
    KIND(timer_armed),
    KIND(timer_expired),
    KIND(watch_silent),
    KIND(watch_reports),
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- calls ---- */

#define NO_MESSAGE UINT64_MAX

/* What a call does: the same for the system and for umbra/io.h. */
struct call {
    const char *name;
    enum { READ, WRITE, RECV, SEND, RECVMSG, SENDMSG, ACCEPT, CONNECT, READY } what;
    size_t bytes;
    uint64_t offset; /* of a message: how many buffers, or NO_MESSAGE; READY: events */
    const void *address;
    socklen_t length;
};

static const struct call calls[] = {
    {"read", READ, 8, UMBRA_IO_HERE, NULL, 0},
    {"read of nothing", READ, 0, UMBRA_IO_HERE, NULL, 0},
    {"read at 2", READ, 8, 2, NULL, 0},
    {"read of nothing at 2", READ, 0, 2, NULL, 0},
    {"read at the end", READ, 8, 10, NULL, 0},
    {"read at -2", READ, 8, UINT64_MAX - 1, NULL, 0},
    {"write", WRITE, 8, UMBRA_IO_HERE, NULL, 0},
    {"write of nothing", WRITE, 0, UMBRA_IO_HERE, NULL, 0},
    {"write at 2", WRITE, 8, 2, NULL, 0},
    {"write of nothing at 2", WRITE, 0, 2, NULL, 0},
    {"write at -2", WRITE, 8, UINT64_MAX - 1, NULL, 0},
    {"write at the most", WRITE, 8, INT64_MAX, NULL, 0},
    {"recv", RECV, 8, 0, NULL, 0},
    {"recv of nothing", RECV, 0, 0, NULL, 0},
    {"send", SEND, 8, 0, NULL, 0},
    {"send of nothing", SEND, 0, 0, NULL, 0},
    {"recvmsg", RECVMSG, 8, 2, NULL, 0},
    {"recvmsg of nothing", RECVMSG, 0, 0, NULL, 0},
    {"recvmsg into too many", RECVMSG, 8, 1025, NULL, 0},
    {"recvmsg into no message", RECVMSG, 8, NO_MESSAGE, NULL, 0},
    {"sendmsg", SENDMSG, 8, 2, NULL, 0},
    {"sendmsg of nothing", SENDMSG, 0, 0, NULL, 0},
    {"sendmsg of too many", SENDMSG, 8, 1025, NULL, 0},
    {"sendmsg of no message", SENDMSG, 8, NO_MESSAGE, NULL, 0},
    {"sendmsg to an address", SENDMSG, 8, 2, &inet_name, sizeof(inet_name)},
    {"sendmsg to half an address", SENDMSG, 8, 2, &inet_name, 1},
    {"accept", ACCEPT, 0, 0, NULL, 0},
    {"connect", CONNECT, 0, 0, &inet_name, sizeof(inet_name)},
    {"connect locally", CONNECT, 0, 0, &local_name, sizeof(local_name)},
    {"connect to half an address", CONNECT, 0, 0, &inet_name, 1},
    {"connect to too much", CONNECT, 0, 0, &inet_name, 100000},
    {"ready to read", READY, 0, POLLIN, NULL, 0},
    {"ready to write", READY, 0, POLLOUT, NULL, 0},
    {"ready for either", READY, 0, POLLIN | POLLOUT, NULL, 0},
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static atomic_int broken_pipes;

static void on_broken_pipe(int number)
{
    (void)number;
    broken_pipes++;
}

/* What came of a call. */
struct outcome {
    long result; /* a count, 0, or a negative errno; -ETIMEDOUT: it waits */
    int signals; /* SIGPIPE */
    int flags;   /* of the descriptor, afterwards */
    char text[8];
};

static long connects(int fd, const struct call *call)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    socklen_t length = sizeof(int);
    int error = 0;

    if (connect(fd, call->address, call->length) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -1;
    cr_expect_eq(poll(&ready, 1, 5000), 1);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    errno = error;
    return error ? -1 : 0;
}

static long accepts(int fd)
{
    int connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    if (connection < 0)
        return -1;
    close(connection);
    return 0;
}

static long ready_now(int fd, short events)
{
    struct pollfd ready = {.fd = fd, .events = events};
    int count = poll(&ready, 1, 0);

    if (count > 0 && !(ready.revents & POLLNVAL))
        return ready.revents;
    errno = fd >= 0 && count == 0 ? EAGAIN : EBADF;
    return -1;
}

/* In a buffer of three bytes and one of the rest; further ones would be the same memory. */
static struct msghdr *message_of(const struct call *call, char *text, struct iovec *buffers,
                                 struct msghdr *message)
{
    if (call->offset == NO_MESSAGE)
        return NULL;
    *message = (struct msghdr){.msg_name = (void *)(uintptr_t)call->address,
                               .msg_namelen = call->length,
                               .msg_iov = buffers,
                               .msg_iovlen = call->offset};

    for (size_t i = 0; i < call->offset; i++)
        buffers[i] = i == 0 ? (struct iovec){text, 3} : (struct iovec){text + 3, call->bytes - 3};
    return message;
}

enum { MOST_BUFFERS = 1025 }; /* one more than the system takes */

static long call_system(int fd, const struct call *call, char *text)
{
    bool here = call->offset == UMBRA_IO_HERE;
    struct iovec buffers[MOST_BUFFERS];
    struct msghdr message;

    switch (call->what) {
    case READ:
        return here ? read(fd, text, call->bytes)
                    : pread(fd, text, call->bytes, (off_t)call->offset);
    case WRITE:
        return here ? write(fd, text, call->bytes)
                    : pwrite(fd, text, call->bytes, (off_t)call->offset);
    case RECV:
        return recv(fd, text, call->bytes, 0);
    case SEND:
        return send(fd, text, call->bytes, MSG_NOSIGNAL);
    case RECVMSG:
        if (call->offset == NO_MESSAGE) /* a fault of the program in musl's function */
            return syscall(SYS_recvmsg, fd, NULL, 0);
        return recvmsg(fd, message_of(call, text, buffers, &message), 0);
    case SENDMSG:
        return sendmsg(fd, message_of(call, text, buffers, &message), MSG_NOSIGNAL);
    case ACCEPT:
        return accepts(fd);
    case READY:
        return ready_now(fd, (short)call->offset);
    default:
        return connects(fd, call);
    }
}

static long call_umbra(int fd, const struct call *call, char *text, uint64_t deadline)
{
    struct iovec buffers[MOST_BUFFERS];
    struct msghdr message;
    size_t count = 0;
    int connection = -1;
    int error = 0;
    short ready = 0;

    switch (call->what) {
    case READ:
        error = umbra_io_read(fd, text, call->bytes, call->offset, deadline, &count);
        break;
    case WRITE:
        error = umbra_io_write(fd, text, call->bytes, call->offset, deadline, &count);
        break;
    case RECV:
        error = umbra_io_recv(fd, text, call->bytes, deadline, &count);
        break;
    case SEND:
        error = umbra_io_send(fd, text, call->bytes, deadline, &count);
        break;
    case RECVMSG:
        error = umbra_io_recvmsg(fd, message_of(call, text, buffers, &message), deadline, &count);
        break;
    case SENDMSG:
        error = umbra_io_sendmsg(fd, message_of(call, text, buffers, &message), deadline, &count);
        break;
    case ACCEPT:
        error = umbra_io_accept(fd, deadline, &connection);
        close(connection);
        break;
    case READY:
        error = umbra_io_ready(fd, (short)call->offset, deadline, &ready);
        count = (size_t)ready;
        break;
    default:
        error = umbra_io_connect(fd, call->address, call->length, deadline);
    }
    return error != 0 ? error : (long)count;
}

/* A subject with these flags more, and without text yet. */
static struct subject begin(int kind, int flags, struct outcome *outcome)
{
    struct subject subject = kinds[kind].make();

    if (flags)
        fcntl(subject.fd, F_SETFL, fcntl(subject.fd, F_GETFL) | flags);
    *outcome = (struct outcome){.text = "nothing"};
    broken_pipes = 0;
    return subject;
}

static void end(const struct subject *subject, struct outcome *outcome)
{
    outcome->signals = broken_pipes;
    outcome->flags = fcntl(subject->fd, F_GETFL);
    dispose(subject);
}

static struct outcome by_system(int kind, const struct call *call)
{
    struct outcome outcome;
    struct subject subject = begin(kind, O_NONBLOCK, &outcome);

    outcome.result = call_system(subject.fd, call, outcome.text);
    if (outcome.result < 0)
        outcome.result = errno == EAGAIN ? -ETIMEDOUT : -errno;
    end(&subject, &outcome);
    return outcome;
}

/* Under which circumstances a call is made. */
enum manner { MAY_WAIT, FLAGGED, AT_ONCE, CANCELED, MANNERS };
static const char *const manners[] = {"", " with O_NONBLOCK", " with deadline 0", ", canceled"};

static uint64_t deadline_in(enum manner manner, bool waits)
{
    if (manner == AT_ONCE)
        return 0;
    return umbra_deadline(waits && manner != CANCELED ? 2 * MS : 20 * SECOND);
}

static struct outcome by_umbra(int kind, const struct call *call, enum manner manner, bool waits)
{
    struct outcome outcome;
    struct subject subject = begin(kind, manner == FLAGGED ? O_NONBLOCK : 0, &outcome);
    int before = fcntl(subject.fd, F_GETFL);

    outcome.result = call_umbra(subject.fd, call, outcome.text, deadline_in(manner, waits));
    end(&subject, &outcome);
    if (outcome.flags != before)
        cr_expect_fail("%s of %s%s: the flags were %#x and are %#x", call->name, kinds[kind].name,
                       manners[manner], (unsigned)before, (unsigned)outcome.flags);
    return outcome;
}

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8 /* musl before 1.2.5 has neither this nor the functions */
#endif

/* preadv2(2) or pwritev2(2) with RWF_NOWAIT. */
static long call_at_once(bool reads, int fd, const struct iovec *part, long offset)
{
    return syscall(reads ? SYS_preadv2 : SYS_pwritev2, fd, part, 1L, offset, 0L, (long)RWF_NOWAIT);
}

/* True if a call that must not wait may refuse what the system does: a connection that takes a
 * moment, and a file, unless the kernel reads or writes it at once. */
static bool may_refuse(int kind, const struct call *call)
{
    struct outcome outcome;
    struct subject subject = begin(kind, 0, &outcome);
    struct iovec part = {outcome.text, call->bytes};
    struct stat status;
    bool refuses = call->what == CONNECT && kinds[kind].make == tcp_unconnected;

    if (call->what <= WRITE && fstat(subject.fd, &status) == 0 &&
        (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)))
        refuses = call->bytes == 0 ||
                  call_at_once(call->what == READ, subject.fd, &part, (long)call->offset) < 0;
    end(&subject, &outcome);
    return refuses;
}

static void compare(int kind, const struct call *call, enum manner manner)
{
    struct outcome wanted = by_system(kind, call);
    struct outcome found = by_umbra(kind, call, manner, wanted.result == -ETIMEDOUT);
    int refusal = manner == CANCELED ? -ECANCELED : -ETIMEDOUT;

    if (wanted.result == -ETIMEDOUT)
        wanted.result = refusal;
    if (manner >= AT_ONCE && found.result == refusal && may_refuse(kind, call))
        return;
    if (found.result != wanted.result || found.signals != wanted.signals ||
        memcmp(found.text, wanted.text, sizeof(found.text)) != 0)
        cr_expect_fail("%s of %s%s: %ld (%d signals) and not %ld (%d)", call->name,
                       kinds[kind].name, manners[manner], found.result, found.signals,
                       wanted.result, wanted.signals);
}

static void *compares(void *manner)
{
    int inet = listening(1000, &inet_name);
    int local = server_local();

    signal(SIGPIPE, on_broken_pipe);
    if (*(enum manner *)manner == CANCELED)
        umbra_cancel(umbra_self());
    for (int kind = 0; kind < KINDS; kind++)
        for (int call = 0; call < CALLS; call++)
            compare(kind, &calls[call], *(enum manner *)manner);
    close(inet);
    close(local);
    return NULL;
}

IO_TEST(each_call_answers_as_the_system_does)
{
    for (enum manner manner = 0; manner < MANNERS; manner++)
        cr_assert_eq(run_cores(1, compares, &manner), 0);
}

Test(io_thread, each_call_answers_as_the_system_does)
{
    for (enum manner manner = 0; manner < CANCELED; manner++)
        compares(&manner);
}

/* ---- kernels that have no form of read and write that never waits ---- */

static void forbid_forms(unsigned error)
{
    if (!forbid(SYS_preadv2, SYS_pwritev2, error))
        cr_skip_test("no filters of system calls here");
}

Test(io_thread, each_call_answers_so_on_older_kernels)
{
    enum manner manner = MAY_WAIT;

    forbid_forms(EOPNOTSUPP);
    compares(&manner);
}

Test(io_pool, each_call_answers_so_where_forms_are_forbidden)
{
    enum manner manner = MAY_WAIT;

    choose_way("pool");
    forbid_forms(EPERM);
    cr_assert_eq(run_cores(1, compares, &manner), 0);
}

/* ---- what other code finds ---- */

struct waiting {
    int fd;
    const struct call *call;
    long result;
};

static void *waits(void *arg)
{
    struct waiting *waiting = arg;
    char text[8] = "";

    waiting->result = call_umbra(waiting->fd, waiting->call, text, UMBRA_NEVER);
    return NULL;
}

/* The flags of a descriptor, while a call waits with it. */
static void check_flags_meanwhile(int kind, const struct call *call)
{
    struct outcome outcome;
    struct subject subject = begin(kind, 0, &outcome);
    struct waiting waiting = {.fd = subject.fd, .call = call};
    int before = fcntl(subject.fd, F_GETFL);
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_spawn(waits, &waiting, &fiber), 0);
    while (umbra_fiber_info(fiber, NULL) != UMBRA_FIBER_SYSTEM_CALL)
        umbra_yield();
    umbra_sleep_ns(MS / 2);
    if (fcntl(subject.fd, F_GETFL) != before)
        cr_expect_fail("%s of %s: the flags have changed", call->name, kinds[kind].name);
    umbra_cancel(fiber);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(waiting.result, -ECANCELED);
    dispose(&subject);
}

static void *checks_flags_meanwhile(void *unused)
{
    int inet = listening(1000, &inet_name);
    int local = server_local();

    (void)unused;
    signal(SIGPIPE, on_broken_pipe);
    for (int kind = 0; kind < KINDS; kind++)
        for (int call = 0; call < CALLS; call++)
            if (by_system(kind, &calls[call]).result == -ETIMEDOUT)
                check_flags_meanwhile(kind, &calls[call]);
    close(inet);
    close(local);
    return NULL;
}

IO_TEST(a_descriptor_keeps_its_flags_while_a_call_waits)
{
    cr_assert_eq(run_cores(1, checks_flags_meanwhile, NULL), 0);
}

/* A thread looks at flags all the time. */
struct watched {
    int fd[2];
    atomic_int over, looks, seen; /* O_NONBLOCK */
};

static void *watches_flags(void *arg)
{
    struct watched *watched = arg;

    for (; !watched->over; watched->looks++)
        for (int i = 0; i < 2; i++)
            watched->seen += (fcntl(watched->fd[i], F_GETFL) & O_NONBLOCK) != 0;
    return NULL;
}

/* Until the thread has looked often enough: each call of a table row that needs no flag. */
static void *calls_watched(void *arg)
{
    struct watched *watched = arg;
    bool on_socket = send(watched->fd[1], "x", 1, 0) == 1;
    char byte = 'x';
    size_t count;

    while (watched->looks < 2000) {
        if (!on_socket)
            cr_expect_eq(
                umbra_io_write(watched->fd[1], &byte, 1, UMBRA_IO_HERE, UMBRA_NEVER, &count), 0);
        else
            cr_expect_eq(umbra_io_send(watched->fd[1], &byte, 1, UMBRA_NEVER, &count), 0);
        cr_expect_eq(umbra_io_read(watched->fd[0], &byte, 1, UMBRA_IO_HERE, UMBRA_NEVER, &count),
                     0);
        if (on_socket)
            cr_expect_eq(umbra_io_recv(watched->fd[0], &byte, 1, UMBRA_NEVER, &count), 0);
        if (on_socket)
            cr_expect_eq(
                umbra_io_write(watched->fd[1], &byte, 1, UMBRA_IO_HERE, UMBRA_NEVER, &count), 0);
    }
    watched->over = 1;
    return NULL;
}

static void watch_calls(struct watched *watched)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, watches_flags, watched), 0);
    cr_expect_eq(run_cores(1, calls_watched, watched), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(watched->seen, 0);
    close(watched->fd[0]);
    close(watched->fd[1]);
}

/* True if the kernel has a form for pipes (Linux 6.5). */
static bool pipes_have_a_form(void)
{
    struct subject subject = pipe_filled();
    char byte;
    struct iovec part = {&byte, 1};
    bool has = call_at_once(true, subject.fd, &part, -1) == 1;

    dispose(&subject);
    return has;
}

IO_TEST(no_flag_is_seen_where_the_kernel_has_a_form_without)
{
    struct watched pipe_ends = {.over = 0};
    struct watched pair = {.over = 0};

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.fd), 0);
    watch_calls(&pair);
    if (!pipes_have_a_form())
        cr_skip_test("pipes: since Linux 6.5");
    cr_assert_eq(pipe(pipe_ends.fd), 0);
    watch_calls(&pipe_ends);
}

/* Another process reads from the same pipe, and must wait for each byte. */
enum { SHARED_BYTES = 500 };

static int reads_in_child(int fd)
{
    char byte;
    ssize_t got;

    do
        got = read(fd, &byte, 1);
    while (got == 1);
    return got == 0 ? 0 : errno;
}

static void *reads_beside_child(void *arg)
{
    int *ends = arg;
    char byte;
    size_t got;

    for (int i = 0; i < SHARED_BYTES; i++) {
        int error = umbra_io_read(ends[0], &byte, 1, UMBRA_IO_HERE, umbra_deadline(50000), &got);

        cr_expect(error == 0 || error == -ETIMEDOUT);
        cr_expect_eq(write(ends[1], "x", 1), 1);
    }
    return NULL;
}

IO_TEST(a_read_of_another_process_still_waits)
{
    int status = -1;
    int ends[2];
    pid_t child;

    cr_assert_eq(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit(reads_in_child(ends[0]));
    }
    cr_expect_eq(run_cores(1, reads_beside_child, ends), 0);
    close(ends[1]);
    cr_expect_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    close(ends[0]);
}

/* Fibers and threads accept from one socket, which waits: none of them takes another's flag for the
 * socket's own, and then waits in the kernel, for ever since no connection comes. */
enum { ACCEPTORS = 4, ACCEPTS = 5000, LATE_SECONDS = 60 };

static int shared_socket;

static void *accepts_shared(void *unused)
{
    int fd;

    (void)unused;
    for (int i = 0; i < ACCEPTS; i++)
        cr_expect_eq(umbra_io_accept(shared_socket, 0, &fd), -ETIMEDOUT);
    return NULL;
}

static void *spawns_acceptors(void *unused)
{
    struct umbra_fiber fiber[ACCEPTORS];

    (void)unused;
    for (unsigned i = 0; i < ACCEPTORS; i++) {
        struct umbra_spawn_options where = on_core(i % 2);

        cr_expect_eq(umbra_spawn_with(NULL, &where, accepts_shared, NULL, &fiber[i]), 0);
    }
    for (unsigned i = 0; i < ACCEPTORS; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    return NULL;
}

IO_TEST(acceptors_of_one_socket_never_block_a_core)
{
    pthread_t thread[2];

    shared_socket = listening(1000, &inet_name);
    alarm(LATE_SECONDS); /* which ends a test that hangs */
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, accepts_shared, NULL), 0);
    cr_expect_eq(run_cores(2, spawns_acceptors, NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    cr_expect_eq(fcntl(shared_socket, F_GETFL) & O_NONBLOCK, 0);
    close(shared_socket);
}

static atomic_int children_done;

static void *accepts_meanwhile(void *socket)
{
    int fd;

    while (!children_done)
        umbra_io_accept(*(int *)socket, 0, &fd);
    return NULL;
}

Test(io_thread, a_child_accepts_though_a_thread_did_when_it_was_made)
{
    struct sockaddr_in name;
    int socket = listening(1000, &name);
    int status = 0;
    pthread_t thread;

    alarm(LATE_SECONDS);
    cr_assert_eq(pthread_create(&thread, NULL, accepts_meanwhile, &socket), 0);
    for (int i = 0; i < 200 && status == 0; i++) {
        pid_t child = fork();
        int fd;

        if (child == 0) {
            alarm(LATE_SECONDS / 10); /* it would hang */
            _exit(umbra_io_accept(listening(1000, &name), 0, &fd) == -ETIMEDOUT ? 0 : 1);
        }
        cr_expect_eq(waitpid(child, &status, 0), child);
    }
    cr_expect_eq(status, 0, "%#x", (unsigned)status);
    children_done = 1;
    pthread_join(thread, NULL);
    close(socket);
}
