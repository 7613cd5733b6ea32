/* SPDX-License-Identifier: BSL-1.0 */
/* umbra/io.h: each test under both ways, the ring and the pool, with the same results. */
#define _GNU_SOURCE
#include "fibers.h"
#include "io_way.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- what the tests share ---- */

static void socket_pair(int pair[2])
{
    cr_expect_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
}

static void close_pair(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

static int connected(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_expect_eq(
        umbra_io_connect(fd, (const struct sockaddr *)address, sizeof(*address), UMBRA_NEVER), 0);
    return fd;
}

/* One recv in a fiber of its own. */
struct receiving {
    int socket;
    char *at;
    size_t bytes;
    uint64_t deadline;
    size_t got;
    _Atomic int error;
    struct umbra_fiber fiber;
    int partner; /* the other end, where it is needed */
};

static void *receives(void *arg)
{
    struct receiving *receiving = arg;

    receiving->error = umbra_io_recv(receiving->socket, receiving->at, receiving->bytes,
                                     receiving->deadline, &receiving->got);
    return NULL;
}

static void spawn_receiving(struct receiving *receiving)
{
    receiving->got = 0;
    receiving->error = 1;
    cr_expect_eq(umbra_spawn(receives, receiving, &receiving->fiber), 0);
}

/* False: the fiber has ended before. */
static bool until_in_system_call(struct umbra_fiber fiber)
{
    int state;

    while ((state = umbra_fiber_info(fiber, NULL)) != UMBRA_FIBER_SYSTEM_CALL &&
           state != UMBRA_FIBER_TERMINATED)
        umbra_yield();
    return state == UMBRA_FIBER_SYSTEM_CALL;
}

static int receive(int socket, char *at, size_t bytes)
{
    size_t got = 0;
    int error = umbra_io_recv(socket, at, bytes, UMBRA_NEVER, &got);

    return error != 0 ? error : (int)got;
}

static int send_text(int socket, const char *text)
{
    size_t sent = 0;
    int error = umbra_io_send(socket, text, strlen(text), UMBRA_NEVER, &sent);

    return error != 0 ? error : (int)sent;
}

/* ---- operations ---- */

static void *uses_pipe(void *unused)
{
    char text[8] = "";
    size_t count = 0;
    int ends[2];

    (void)unused;
    cr_expect_eq(pipe(ends), 0);
    cr_expect_eq(umbra_io_write(ends[1], "abc", 3, UMBRA_IO_HERE, UMBRA_NEVER, &count), 0);
    cr_expect_eq(count, 3);
    cr_expect_eq(umbra_io_read(ends[0], text, sizeof(text), UMBRA_IO_HERE, UMBRA_NEVER, &count), 0);
    cr_expect_eq(count, 3);
    cr_expect_str_eq(text, "abc");
    close(ends[1]);
    cr_expect_eq(umbra_io_read(ends[0], text, sizeof(text), UMBRA_IO_HERE, UMBRA_NEVER, &count), 0);
    cr_expect_eq(count, 0);
    close(ends[0]);
    cr_expect_eq(umbra_io_read(ends[0], text, sizeof(text), UMBRA_IO_HERE, UMBRA_NEVER, &count),
                 -EBADF);
    return NULL;
}

IO_TEST(pipes_are_read_and_written)
{
    cr_assert_eq(run_cores(1, uses_pipe, NULL), 0);
}

static void *uses_file(void *unused)
{
    FILE *file = tmpfile();
    int fd = fileno(file);
    char text[16] = "";
    size_t count = 0;

    (void)unused;
    cr_expect_eq(umbra_io_write(fd, "0123456789", 10, 0, UMBRA_NEVER, &count), 0);
    cr_expect_eq(count, 10);
    cr_expect_eq(umbra_io_read(fd, text, 3, 4, UMBRA_NEVER, &count), 0);
    cr_expect_str_eq(text, "456");
    cr_expect_eq(umbra_io_read(fd, text, 2, UMBRA_IO_HERE, UMBRA_NEVER, &count), 0);
    cr_expect_eq(umbra_io_read(fd, text, 3, UMBRA_IO_HERE, UMBRA_NEVER, &count), 0);
    cr_expect_str_eq(text, "234");
    cr_expect_eq(umbra_io_read(fd, text, 3, 10, UMBRA_NEVER, &count), 0);
    cr_expect_eq(count, 0);
    if (!under_valgrind) /* which reports it */
        cr_expect_eq(umbra_io_write(fd, (void *)1, 4096, 0, UMBRA_NEVER, &count), -EFAULT);
    fclose(file);
    return NULL;
}

IO_TEST(files_are_read_and_written)
{
    cr_assert_eq(run_cores(1, uses_file, NULL), 0);
}

/* ---- files: which reads wait ---- */

enum { FILE_BYTES = 10000 };

/* A read of a file, of which the page cache may have lost what follows `lost`. */
struct file_read {
    const char *name;
    int flags;
    size_t bytes;
    uint64_t offset;
    off_t lost;
    size_t got;
    enum { AT_ONCE, WAITS, PERHAPS } how; /* perhaps: as the kernel likes */
};

static const struct file_read file_reads[] = {
    {"of what is cached", 0, 4096, 0, FILE_BYTES, 4096, AT_ONCE},
    {"of some bytes", 0, 3, 4095, FILE_BYTES, 3, AT_ONCE},
    {"up to the end", 0, 8192, 4096, FILE_BYTES, FILE_BYTES - 4096, AT_ONCE},
    {"at the end", 0, 8, FILE_BYTES, FILE_BYTES, 0, AT_ONCE},
    {"behind the end", 0, 8, 2 * FILE_BYTES, FILE_BYTES, 0, AT_ONCE},
    {"of nothing", 0, 0, 0, FILE_BYTES, 0, WAITS},
    {"where the position is", 0, 4096, UMBRA_IO_HERE, FILE_BYTES, 4096, WAITS},
    {"past the cache", O_DIRECT, 4096, 0, FILE_BYTES, 4096, WAITS},
    {"of what is not cached", 0, 4096, 0, 0, 4096, PERHAPS},
    {"of what is cached in part", 0, 8192, 0, 4096, 8192, PERHAPS},
};

static void *sets(void *flag)
{
    *(bool *)flag = true;
    return NULL;
}

/* How many calls the runtime's helpers were given until now: one may be done before the fiber waits
 * for it. */
static uint32_t helper_calls(void)
{
    struct um_blocking_pool *pool = um_blocking_pool_of(um_runtime_self());

    return pool ? um_atomic_load(&pool->added, relaxed) : 0;
}

static char byte_at(size_t offset)
{
    return (char)(offset ^ offset >> 8);
}

/* A file that the page cache has, opened with flags; -1: the file system does not know them. */
static int file_in_cache(int flags)
{
    static char bytes[FILE_BYTES];
    char path[] = "/tmp/umbra-test-XXXXXX";
    int made = mkstemp(path);
    int fd;

    for (size_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = byte_at(i);
    cr_expect_eq(write(made, bytes, FILE_BYTES), FILE_BYTES);
    cr_expect_eq(fsync(made), 0);
    fd = open(path, O_RDWR | O_CLOEXEC | flags);
    unlink(path);
    close(made);
    return fd;
}

/* True if the file system reads without waiting; those that live in memory do not. */
static bool reads_at_once(int fd, char *at)
{
    struct iovec part = {at, 4096};

    return syscall(SYS_preadv2, fd, &part, 1L, 0L, 0L, 8L /* RWF_NOWAIT */) == 4096;
}

static bool is_part(const char *at, size_t bytes, size_t offset)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != byte_at(offset + i))
            return false;
    return true;
}

static void check_file_read(const struct file_read *what, char *at)
{
    int fd = file_in_cache(what->flags);
    size_t begin = what->offset == UMBRA_IO_HERE ? 0 : (size_t)what->offset;
    bool exact = fd >= 0 && what->how != PERHAPS && reads_at_once(fd, at);
    bool switched = false;
    uint32_t calls = helper_calls();
    struct umbra_fiber other;
    size_t got = 1;

    if (fd < 0)
        return;
    posix_fadvise(fd, what->lost, 0, POSIX_FADV_DONTNEED);
    cr_expect_eq(umbra_spawn(sets, &switched, &other), 0);
    if (umbra_io_read(fd, at, what->bytes, what->offset, UMBRA_NEVER, &got) != 0 ||
        got != what->got || !is_part(at, got, begin))
        cr_expect_fail("read %s: %zu bytes and not %zu, or others", what->name, got, what->got);
    if (exact && (switched || helper_calls() != calls) != (what->how == WAITS))
        cr_expect_fail("read %s: %sat once", what->name, what->how == WAITS ? "" : "not ");
    umbra_join(other, UMBRA_NEVER, NULL);
    close(fd);
}

static void *reads_file(void *unused)
{
    char *at = aligned_alloc(4096, 8192);

    (void)unused;
    for (size_t i = 0; i < sizeof(file_reads) / sizeof(file_reads[0]); i++)
        check_file_read(&file_reads[i], at);
    free(at);
    return NULL;
}

IO_TEST(what_the_page_cache_has_is_read_at_once)
{
    cr_assert_eq(run_cores(1, reads_file, NULL), 0);
}

/* As of Linux 5.9 and 5.10, where the page cache has nothing. */
static void *reads_behind_a_false_end(void *arg)
{
    FILE *file = tmpfile();
    char text[8] = "";
    size_t got = 0;

    cr_assert_not_null(file);
    cr_expect_eq(pwrite(fileno(file), "abcdefg", 7, 0), 7);
    if (forbid(SYS_preadv2, SYS_preadv2, 0)) {
        cr_expect_eq(umbra_io_read(fileno(file), text, 7, 0, UMBRA_NEVER, &got), 0);
        cr_expect_eq(got, 7);
        cr_expect_str_eq(text, "abcdefg");
        cr_expect_eq(umbra_io_read(fileno(file), text, 7, 7, UMBRA_NEVER, &got), 0);
        cr_expect_eq(got, 0);
    }
    fclose(file);
    return arg;
}

IO_TEST(a_file_ends_where_it_ends)
{
    cr_assert_eq(run_cores(1, reads_behind_a_false_end, NULL), 0);
}

/* ---- a number of a descriptor that is used again ---- */

/* The fiber waits on a descriptor until its partner sends a byte. */
static void check_wait(int fd, int partner)
{
    char byte = 0;
    struct receiving receiving = {
        .socket = fd, .at = &byte, .bytes = 1, .deadline = umbra_deadline(20 * SECOND)};

    spawn_receiving(&receiving);
    until_in_system_call(receiving.fiber);
    cr_expect_eq(send_text(partner, "x"), 1);
    umbra_join(receiving.fiber, UMBRA_NEVER, NULL);
    cr_expect(receiving.error == 0 && byte == 'x');
}

/* The number goes to another socket, while the first one may live on under another number, and has
 * something to read. */
static void check_reused(bool lives_on)
{
    int first[2], second[2], other = -1;
    char byte;
    size_t got;

    socket_pair(first);
    socket_pair(second);
    check_wait(first[0], first[1]);
    if (lives_on)
        other = dup(first[0]);
    cr_expect_eq(dup2(second[0], first[0]), first[0]); /* which closes it */
    if (lives_on)
        cr_expect_eq(send_text(first[1], "y"), 1);
    cr_expect_eq(umbra_io_recv(first[0], &byte, 1, umbra_deadline(2 * MS), &got), -ETIMEDOUT);
    check_wait(first[0], second[1]);
    check_wait(second[0], second[1]); /* the same socket by its own number */
    close(other);
    close_pair(first);
    close_pair(second);
}

static void *reuses_numbers(void *unused)
{
    (void)unused;
    check_reused(false);
    check_reused(true);
    return NULL;
}

IO_TEST(a_number_that_is_used_again_is_waited_for)
{
    cr_assert_eq(run_cores(1, reuses_numbers, NULL), 0);
}

struct echo {
    int listens;
    struct sockaddr_in address;
};

static void *echoes(void *arg)
{
    struct echo *echo = arg;
    char text[16] = "";
    int fd = -1;
    int got;

    cr_expect_eq(umbra_io_accept(echo->listens, UMBRA_NEVER, &fd), 0);
    while ((got = receive(fd, text, sizeof(text) - 1)) > 0) {
        text[got] = 0;
        cr_expect_eq(send_text(fd, text), got);
    }
    cr_expect_eq(got, 0);
    close(fd);
    return NULL;
}

static void *asks_echo(void *unused)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber server;
    struct echo echo;
    char text[16] = "";
    int fd;

    (void)unused;
    echo.listens = listening(5, &echo.address);
    cr_expect_eq(umbra_spawn_with(NULL, &there, echoes, &echo, &server), 0);
    fd = connected(&echo.address);
    for (int i = 0; i < 100; i++) {
        cr_expect_eq(send_text(fd, "hello"), 5);
        cr_expect_eq(receive(fd, text, sizeof(text)), 5);
        cr_expect_str_eq(text, "hello");
    }
    shutdown(fd, SHUT_WR);
    umbra_join(server, UMBRA_NEVER, NULL);
    cr_expect_eq(receive(fd, text, sizeof(text)), 0);
    close(fd);
    close(echo.listens);
    return NULL;
}

IO_TEST(sockets_connect_accept_send_and_receive)
{
    cr_assert_eq(run_cores(2, asks_echo, NULL), 0);
}

static void *asks_nonblocking(void *unused)
{
    struct receiving receiving;
    char text[8] = "";
    size_t count = 0;
    int pair[2], ends[2];

    (void)unused;
    cr_expect_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    cr_expect_eq(pipe2(ends, O_NONBLOCK), 0);
    receiving = (struct receiving){
        .socket = pair[0], .at = text, .bytes = sizeof(text), .deadline = UMBRA_NEVER};
    spawn_receiving(&receiving);
    until_in_system_call(receiving.fiber);
    cr_expect_eq(send_text(pair[1], "x"), 1);
    umbra_join(receiving.fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(receiving.error, 0);
    cr_expect_eq(umbra_io_read(ends[0], text, 1, UMBRA_IO_HERE, umbra_deadline(MS), &count),
                 -ETIMEDOUT);
    close_pair(pair);
    close_pair(ends);
    return NULL;
}

IO_TEST(a_descriptor_that_never_blocks_is_waited_for)
{
    cr_assert_eq(run_cores(1, asks_nonblocking, NULL), 0);
}

static void *asks_from_thread(void *unused)
{
    char text[8] = "";
    size_t count = 0;
    int pair[2];

    (void)unused;
    socket_pair(pair);
    cr_expect_eq(umbra_io_recv(pair[0], text, sizeof(text), umbra_deadline(MS), &count),
                 -ETIMEDOUT);
    cr_expect_eq(send_text(pair[1], "abc"), 3);
    cr_expect_eq(receive(pair[0], text, sizeof(text)), 3);
    cr_expect_str_eq(text, "abc");
    uses_pipe(NULL);
    uses_file(NULL);
    close_pair(pair);
    return NULL;
}

IO_TEST(a_thread_that_is_no_core_blocks)
{
    asks_from_thread(NULL);
}

/* ---- deadlines and cancellation ---- */

/* A page that a receive waits with, and that is gone when the receive has ended. */
static char *page(void)
{
    char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(at, 'p', 4096);
    return at;
}

/* Bytes that come after a receive has given up go to the next one, and not into the old buffer. */
static void check_untouched(int pair[2], char *at)
{
    char text[8] = "";

    for (int i = 0; i < 4096; i++)
        if (at[i] != 'p')
            cr_expect_fail("byte %d of the buffer has changed", i);
    mprotect(at, 4096, PROT_NONE); /* now even the kernel cannot write there */
    cr_expect_eq(send_text(pair[1], "later"), 5);
    cr_expect_eq(receive(pair[0], text, sizeof(text)), 5);
    cr_expect_str_eq(text, "later");
    munmap(at, 4096);
}

static void *times_out(void *unused)
{
    int pair[2];

    (void)unused;
    socket_pair(pair);
    for (int i = 0; i < 20; i++) {
        char *at = page();
        size_t got = 7;
        uint64_t deadline = i == 0 ? 0 : umbra_deadline((uint64_t)i * 50000);

        cr_expect_eq(umbra_io_recv(pair[0], at, 4096, deadline, &got), -ETIMEDOUT);
        cr_expect(umbra_now_ns() + MS >= deadline);
        cr_expect_eq(got, 7);
        check_untouched(pair, at);
    }
    cr_expect_eq(send_text(pair[1], "now"), 3);
    cr_expect_eq(umbra_io_recv(pair[0], (char[8]){0}, 8, 0, &(size_t){0}), 0);
    close_pair(pair);
    return NULL;
}

IO_TEST(a_receive_that_timed_out_takes_nothing)
{
    cr_assert_eq(run_cores(1, times_out, NULL), 0);
}

/* The core runs another fiber from before the byte comes until the deadline is over. */
static void *looks_late(void *unused)
{
    struct receiving receiving = {.at = (char[1]){0}, .bytes = 1};
    uint64_t ns = 50 * MS;
    int pair[2];

    socket_pair(pair);
    receiving.socket = pair[0];
    for (;; ns *= 2) { /* on a crowded machine it may be over before the fiber waits */
        receiving.deadline = umbra_deadline(ns);
        spawn_receiving(&receiving);
        if (until_in_system_call(receiving.fiber))
            break;
        umbra_join(receiving.fiber, UMBRA_NEVER, NULL);
    }
    cr_expect_eq(write(pair[1], "x", 1), 1);
    while (umbra_now_ns() < receiving.deadline + MS)
        ;
    umbra_join(receiving.fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(receiving.error, 0);
    close_pair(pair);
    return unused;
}

IO_TEST(what_came_before_the_deadline_is_taken_after_it)
{
    cr_assert_eq(run_cores(1, looks_late, NULL), 0);
}

static void *cancels(void *unused)
{
    int pair[2];

    (void)unused;
    socket_pair(pair);
    for (int i = 0; i < 20; i++) {
        struct receiving receiving = {
            .socket = pair[0], .at = page(), .bytes = 4096, .deadline = UMBRA_NEVER};

        if (i % 2)
            receiving.deadline = umbra_deadline(10 * SECOND);
        spawn_receiving(&receiving);
        until_in_system_call(receiving.fiber);
        if (i % 4 >= 2)
            umbra_sleep_ns(MS); /* the kernel has it by then */
        cr_expect_eq(umbra_cancel(receiving.fiber), 0);
        umbra_join(receiving.fiber, UMBRA_NEVER, NULL);
        cr_expect_eq(receiving.error, -ECANCELED);
        check_untouched(pair, receiving.at);
    }
    close_pair(pair);
    return NULL;
}

IO_TEST(a_receive_that_was_canceled_takes_nothing)
{
    cr_assert_eq(run_cores(1, cancels, NULL), 0);
}

struct other_wait {
    int fd;
    const struct sockaddr_in *address;
    int error;
};

static void *accepts(void *arg)
{
    struct other_wait *wait = arg;
    int fd;

    wait->error = umbra_io_accept(wait->fd, UMBRA_NEVER, &fd);
    return NULL;
}

static void *connects(void *arg)
{
    struct other_wait *wait = arg;

    wait->error = umbra_io_connect(wait->fd, (const struct sockaddr *)wait->address,
                                   sizeof(*wait->address), UMBRA_NEVER);
    return NULL;
}

static void *reads(void *arg)
{
    struct other_wait *wait = arg;
    size_t got;
    char byte;

    wait->error = umbra_io_read(wait->fd, &byte, 1, UMBRA_IO_HERE, UMBRA_NEVER, &got);
    return NULL;
}

static void check_canceled(umbra_fiber_fn *fn, struct other_wait *wait)
{
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_spawn(fn, wait, &fiber), 0);
    until_in_system_call(fiber);
    umbra_sleep_ns(MS);
    cr_expect_eq(umbra_fiber_info(fiber, NULL), UMBRA_FIBER_SYSTEM_CALL);
    cr_expect_eq(umbra_cancel(fiber), 0);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(wait->error, -ECANCELED);
}

static void *cancels_others(void *unused)
{
    struct sockaddr_in address;
    struct other_wait wait = {.address = &address};
    int ends[2];
    int fd[16];

    (void)unused;
    wait.fd = listening(0, &address);
    check_canceled(accepts, &wait);
    close(wait.fd);
    cr_expect_eq(pipe(ends), 0);
    wait.fd = ends[0];
    check_canceled(reads, &wait);
    close_pair(ends);
    fd[0] = listening(0, &address);
    fd[1] = connected(&address); /* fills the queue, so that the next one waits */
    wait.fd = socket(AF_INET, SOCK_STREAM, 0);
    check_canceled(connects, &wait);
    close(wait.fd);
    close_pair(fd);
    return NULL;
}

IO_TEST(accept_connect_and_read_can_be_canceled)
{
    cr_assert_eq(run_cores(1, cancels_others, NULL), 0);
}

/* A socket with an entry in its error queue: poll(2) says for ever that the socket is ready. */
static int with_error_queued(int flags)
{
    struct sockaddr_in nowhere;
    const int yes = 1;
    char byte = 0;
    int closed = listening(1, &nowhere); /* no datagram is taken at its port */
    int fd = socket(AF_INET, SOCK_DGRAM | flags, 0);

    cr_assert_eq(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &yes, sizeof(yes)), 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&nowhere, sizeof(nowhere)), 0);
    cr_assert_eq(send(fd, &byte, 1, 0), 1);
    cr_expect_eq(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    cr_expect_eq(errno, ECONNREFUSED);
    close(closed);
    return fd;
}

static void *reads_byte(void *arg)
{
    struct receiving *receiving = arg;

    receiving->error = umbra_io_read(receiving->socket, receiving->at, 1, UMBRA_IO_HERE,
                                     receiving->deadline, &receiving->got);
    return NULL;
}

static void *waits_with_error_queued(void *flags)
{
    char byte;
    struct receiving wait = {.socket = with_error_queued((int)(intptr_t)flags), .at = &byte};

    wait.deadline = umbra_deadline(20 * MS);
    cr_expect_eq(umbra_spawn(reads_byte, &wait, &wait.fiber), 0);
    umbra_join(wait.fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(wait.error, -ETIMEDOUT);
    wait.deadline = UMBRA_NEVER;
    cr_expect_eq(umbra_spawn(reads_byte, &wait, &wait.fiber), 0);
    until_in_system_call(wait.fiber);
    umbra_sleep_ns(5 * MS);
    cr_expect_eq(umbra_cancel(wait.fiber), 0);
    umbra_join(wait.fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(wait.error, -ECANCELED);
    close(wait.socket);
    return NULL;
}

IO_TEST(a_wait_ends_though_poll_says_ready_for_ever)
{
    cr_assert_eq(run_cores(1, waits_with_error_queued, (void *)(intptr_t)0), 0);
    cr_assert_eq(run_cores(1, waits_with_error_queued, (void *)(intptr_t)SOCK_NONBLOCK), 0);
}

#ifdef UM_HAS_URING
static void *receives_unflushed(void *arg)
{
    struct um_uring *uring = (struct um_uring *)um_core_self->more->completions;

    uring->flushes = true; /* as if there were no memory for a fiber that submits */
    return receives(arg);
}

/* Its core has a ring without a place, and goes to sleep. */
static void *sleeps_with_full_ring(void *unused)
{
    struct um_uring *uring;
    int pair[2];
    char text[4];
    struct receiving receiving = {
        .socket = 0, .at = text, .bytes = sizeof(text), .deadline = UMBRA_NEVER};
    struct io_uring_sqe *sqe;

    (void)unused;
    socket_pair(pair);
    cr_expect_eq(send_text(pair[0], "abcd"), 4);
    cr_expect_eq(receive(pair[1], text, sizeof(text)), 4);
    cr_expect_eq(send_text(pair[0], "efgh"), 4);
    uring = (struct um_uring *)um_core_self->more->completions;
    receiving.socket = pair[1];
    receiving.error = 1;
    cr_expect_eq(umbra_spawn(receives_unflushed, &receiving, &receiving.fiber), 0);
    until_in_system_call(receiving.fiber);
    while ((sqe = io_uring_get_sqe(&uring->ring)) != NULL) {
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data(sqe, NULL);
    }
    umbra_join(receiving.fiber, UMBRA_NEVER, NULL);
    uring->flushes = false;
    cr_expect_eq(receiving.error, 0);
    cr_expect_eq(receiving.got, 4);
    close_pair(pair);
    return NULL;
}

Test(io_uring, a_core_that_sleeps_with_a_full_ring_loses_no_completion)
{
    choose_way("uring");
    cr_assert_eq(run_cores(1, sleeps_with_full_ring, NULL), 0);
}
#endif

/* ---- local sockets ---- */

/* A local socket that listens, with a queue for one connection, which is in it. */
struct full {
    struct sockaddr_un address; /* abstract: its name begins with a zero byte */
    int listens, queued;
};

/* One connect in a fiber or a thread of its own. */
struct local_connect {
    const struct full *full;
    int flags; /* of its socket */
    uint64_t deadline;
    int fd, error;
};

static void *connects_locally(void *arg)
{
    struct local_connect *call = arg;

    call->fd = socket(AF_UNIX, SOCK_STREAM | call->flags, 0);
    call->error = umbra_io_connect(call->fd, (const struct sockaddr *)&call->full->address,
                                   sizeof(call->full->address), call->deadline);
    return NULL;
}

static void fill(struct full *full, int flags)
{
    struct local_connect first = {.full = full, .flags = flags, .deadline = UMBRA_NEVER};

    full->address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(full->address.sun_path + 1, sizeof(full->address.sun_path) - 1, "umbra-test-%ld-%d",
             (long)getpid(), flags);
    full->listens = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(
        bind(full->listens, (const struct sockaddr *)&full->address, sizeof(full->address)), 0);
    cr_assert_eq(listen(full->listens, 0), 0);
    connects_locally(&first);
    cr_expect_eq(first.error, 0);
    full->queued = first.fd;
}

static void empty(const struct full *full)
{
    close(full->queued);
    close(full->listens);
}

static void *waits_for_place(void *flags)
{
    struct full full;
    struct local_connect call = {.full = &full, .flags = (int)(intptr_t)flags};
    struct umbra_fiber fiber;
    int accepted;

    fill(&full, call.flags);
    call.deadline = umbra_deadline(20 * MS);
    connects_locally(&call);
    cr_expect_eq(call.error, -ETIMEDOUT);
    cr_expect(umbra_now_ns() >= call.deadline);
    close(call.fd);

    call.deadline = UMBRA_NEVER;
    cr_expect_eq(umbra_spawn(connects_locally, &call, &fiber), 0);
    until_in_system_call(fiber);
    umbra_sleep_ns(5 * MS);
    until_in_system_call(fiber); /* it is, but while it tries again */
    cr_expect_eq(umbra_cancel(fiber), 0);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(call.error, -ECANCELED);
    close(call.fd);

    cr_expect_eq(umbra_spawn(connects_locally, &call, &fiber), 0);
    until_in_system_call(fiber);
    cr_expect_eq(umbra_io_accept(full.listens, UMBRA_NEVER, &accepted), 0);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(call.error, 0);
    close(call.fd);
    close(accepted);
    empty(&full);
    return NULL;
}

IO_TEST(a_connection_waits_for_a_place_in_a_local_queue)
{
    cr_assert_eq(run_cores(1, waits_for_place, (void *)(intptr_t)0), 0);
    cr_assert_eq(run_cores(1, waits_for_place, (void *)(intptr_t)SOCK_NONBLOCK), 0);
}

/* The kernel may miss the first cancellation of what one of its threads is about to begin. */
static void *gives_up_places(void *unused)
{
    struct full full;
    struct local_connect call = {.full = &full};

    fill(&full, 0);
    for (uint64_t i = 0; i < 500; i++) {
        call.deadline = umbra_deadline(i % 100 * 2000);
        connects_locally(&call);
        cr_expect_eq(call.error, -ETIMEDOUT);
        close(call.fd);
    }
    empty(&full);
    return unused;
}

IO_TEST(a_connection_gives_up_whenever_its_deadline_passes)
{
    alarm(60);
    cr_assert_eq(run_cores(1, gives_up_places, NULL), 0);
}

Test(io, a_thread_waits_for_a_place_in_a_local_queue)
{
    struct full full;
    struct local_connect call = {.full = &full, .deadline = umbra_deadline(20 * MS)};
    pthread_t thread;
    int accepted;

    fill(&full, 0);
    connects_locally(&call);
    cr_expect_eq(call.error, -ETIMEDOUT);
    close(call.fd);
    call.deadline = UMBRA_NEVER;
    cr_assert_eq(pthread_create(&thread, NULL, connects_locally, &call), 0);
    cr_expect_eq(umbra_io_accept(full.listens, UMBRA_NEVER, &accepted), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(call.error, 0);
    close(call.fd);
    close(accepted);
    empty(&full);
}

static void *reads_one_byte(void *arg)
{
    char byte = 0;
    size_t got = 0;

    cr_expect_eq(umbra_io_read(*(int *)arg, &byte, 1, UMBRA_IO_HERE, UMBRA_NEVER, &got), 0);
    cr_expect_eq(byte, 'x');
    return NULL;
}

Test(io, a_thread_waits_without_a_deadline)
{
    struct timespec moment = {.tv_nsec = 20 * MS};
    pthread_t thread;
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(pthread_create(&thread, NULL, reads_one_byte, &ends[0]), 0);
    nanosleep(&moment, NULL); /* it waits, most likely */
    cr_expect_eq(write(ends[1], "x", 1), 1);
    pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
}

/* More than a socket holds, in a fiber of its own. */
static void *sends_much(void *socket)
{
    static char much[1 << 22];
    size_t sent, all = 0;

    while (all < sizeof(much) &&
           umbra_io_send(*(int *)socket, much, sizeof(much) - all, UMBRA_NEVER, &sent) == 0)
        all += sent;
    return (void *)all;
}

/* On one end of a pair two receive, of which the first gives up, and one sends. */
static void *waits_both_ways(void *unused)
{
    static char room[1 << 16];
    char byte[2] = "";
    struct receiving hasty, patient;
    struct umbra_fiber sender;
    size_t all = 0;
    void *sent;
    int ends[2], got;

    (void)unused;
    cr_expect_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    hasty = (struct receiving){ends[0], &byte[0], 1, UMBRA_NEVER, 0, 1, {NULL, 0}, -1};
    patient = (struct receiving){ends[0], &byte[1], 1, UMBRA_NEVER, 0, 1, {NULL, 0}, -1};
    spawn_receiving(&hasty);
    until_in_system_call(hasty.fiber);
    spawn_receiving(&patient);
    until_in_system_call(patient.fiber);
    cr_expect_eq(umbra_spawn(sends_much, &ends[0], &sender), 0);
    until_in_system_call(sender);
    cr_expect_eq(umbra_cancel(hasty.fiber), 0);
    cr_expect_eq(umbra_join(hasty.fiber, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(hasty.error, -ECANCELED);
    while (all < 1 << 22 && (got = receive(ends[1], room, sizeof(room))) > 0)
        all += (size_t)got;
    cr_expect_eq(umbra_join(sender, UMBRA_NEVER, &sent), 0);
    cr_expect_eq((size_t)sent, all);
    cr_expect_eq(patient.error, 1, "nothing has come yet");
    cr_expect_eq(send_text(ends[1], "y"), 1);
    cr_expect_eq(umbra_join(patient.fiber, UMBRA_NEVER, NULL), 0);
    cr_expect(patient.error == 0 && byte[1] == 'y');
    close(ends[0]);
    close(ends[1]);
    return NULL;
}

IO_TEST(one_socket_is_waited_for_both_ways)
{
    cr_assert_eq(run_cores(1, waits_both_ways, NULL), 0);
}

#if defined(UMBRA_URING) && !defined(UMBRA_POSIX_ONLY)
/* As the kernel does when the thread that queued work was interrupted before it set the flag. */
static void *sets_flag_late(void *arg)
{
    const struct umbra_core *core = um_core_self;

    uses_pipe(arg); /* the core has a ring now */
    __atomic_fetch_or((unsigned *)(uintptr_t)core->asks, IORING_SQ_TASKRUN, __ATOMIC_SEQ_CST);
    return NULL;
}

Test(io_uring, a_late_flag_of_the_kernel_keeps_no_core_awake, .timeout = 20)
{
    choose_way("uring");
    cr_assert_eq(run_cores(1, sets_flag_late, NULL), 0);
}
#endif

static void *receives_canceled(void *socket)
{
    char text[8];

    umbra_cancel(umbra_self());
    cr_expect_eq(receive(*(int *)socket, text, 1), -ECANCELED);
    cr_expect_eq(send_text(*(int *)socket, "x"), 1); /* need not wait */
    return NULL;
}

IO_TEST(a_canceled_fiber_still_does_what_need_not_wait)
{
    int pair[2];

    socket_pair(pair);
    cr_assert_eq(run_cores(1, receives_canceled, &pair[0]), 0);
    close_pair(pair);
}

/* After many waits, whatever comes first. */
static void *receives_after_waits(void *unused)
{
    struct receiving call = {.at = (char[1]){0}, .bytes = 1};
    int pair[2];

    socket_pair(pair);
    call.socket = pair[0];
    for (int i = 0; i < 300; i++) {
        bool canceled = i % 4 == 3;
        size_t got = 0;

        call.deadline = i % 4 == 0 ? 0 : i % 4 == 1 ? umbra_deadline(20 * SECOND) : UMBRA_NEVER;
        if (i % 4 > 0) {
            cr_expect_eq(umbra_io_recv(pair[0], call.at, 1, umbra_deadline(1000), &got),
                         -ETIMEDOUT);
            cr_expect_eq(send_text(pair[1], "x"), 1);
        }
        spawn_receiving(&call);
        if (canceled)
            umbra_cancel(call.fiber);
        umbra_join(call.fiber, UMBRA_NEVER, NULL);
        cr_expect_eq(call.error, i % 4 == 0 ? -ETIMEDOUT : 0, "%d: %d", i, call.error);
    }
    close_pair(pair);
    return unused;
}

IO_TEST(what_is_there_is_received_whatever_came_before)
{
    cr_assert_eq(run_cores(1, receives_after_waits, NULL), 0);
}

/* ---- many ---- */

enum { MANY = 2000 };

static void *receives_many(void *unused)
{
    static struct receiving receiving[MANY];
    static char text[MANY];
    static int pair[MANY][2];

    (void)unused;
    for (int i = 0; i < MANY; i++) {
        socket_pair(pair[i]);
        receiving[i] = (struct receiving){
            .socket = pair[i][0], .at = &text[i], .bytes = 1, .deadline = UMBRA_NEVER};
        spawn_receiving(&receiving[i]);
    }
    umbra_sleep_ns(5 * MS);
    for (int i = 0; i < MANY; i++)
        cr_expect_eq(write(pair[i][1], i % 2 ? "b" : "a", 1), 1);
    for (int i = 0; i < MANY; i++) {
        umbra_join(receiving[i].fiber, UMBRA_NEVER, NULL);
        cr_expect_eq(receiving[i].error, 0);
        cr_expect_eq(text[i], i % 2 ? 'b' : 'a');
        close_pair(pair[i]);
    }
    return NULL;
}

/* fn needs MANY pairs of sockets. */
static void run_with_descriptors(void *(*fn)(void *))
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 2 * MANY + 50)
        cr_skip_test("the limit of descriptors is %llu", (unsigned long long)limit.rlim_max);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    cr_assert_eq(run_cores(1, fn, NULL), 0);
}

IO_TEST(more_operations_than_the_ring_has_places)
{
    run_with_descriptors(receives_many);
}

/* Messages of 64 bytes, numbered, that a thread sends in pieces of odd lengths. */
enum { NUMBERED = 20000, MESSAGE = 64 };

static void *sends_numbered(void *socket)
{
    char *all = malloc((size_t)NUMBERED * MESSAGE);
    size_t sent = 0;
    size_t piece = 1;

    for (int i = 0; i < NUMBERED; i++) {
        memset(all + (size_t)i * MESSAGE, i & 127, MESSAGE);
        memcpy(all + (size_t)i * MESSAGE, &i, sizeof(i));
    }
    while (sent < (size_t)NUMBERED * MESSAGE) {
        size_t left = (size_t)NUMBERED * MESSAGE - sent;
        ssize_t count = send(*(int *)socket, all + sent, left < piece ? left : piece, 0);

        cr_expect(count > 0);
        sent += count > 0 ? (size_t)count : left;
        piece = piece * 7 % 4099;
    }
    free(all);
    return NULL;
}

static void *receives_numbered(void *socket)
{
    char message[MESSAGE];
    int wrong = 0;

    for (int i = 0; i < NUMBERED; i++) {
        size_t have = 0;
        int number;

        while (have < MESSAGE) {
            int got = receive(*(int *)socket, message + have, MESSAGE - have);

            if (got <= 0) {
                cr_expect_fail("message %d ends at byte %zu: %d", i, have, got);
                return NULL;
            }
            have += (size_t)got;
        }
        memcpy(&number, message, sizeof(number));
        wrong += number != i || message[MESSAGE - 1] != (i & 127);
    }
    cr_expect_eq(wrong, 0);
    return NULL;
}

IO_TEST(each_message_comes_once_and_in_order)
{
    pthread_t thread;
    int pair[2];

    socket_pair(pair);
    cr_assert_eq(pthread_create(&thread, NULL, sends_numbered, &pair[1]), 0);
    cr_expect_eq(run_cores(1, receives_numbered, &pair[0]), 0);
    pthread_join(thread, NULL);
    close_pair(pair);
}

/* ---- several operations of a fiber at once ---- */

static struct umbra_io_op receiving_op(int socket, char *at, size_t bytes)
{
    return (struct umbra_io_op){.call = UMBRA_IO_RECV, .fd = socket, .at = at, .bytes = bytes};
}

static void start(struct umbra_io_op *op)
{
    cr_expect_eq(umbra_io_start(op), 0);
}

/* Ends an operation that waits in vain. */
static void end_waiting(struct umbra_io_op *op)
{
    umbra_io_end(op);
    cr_expect_eq(op->result, -ECANCELED);
}

/* The operation that is over next; one of them must be. */
static unsigned next_of(struct umbra_io_op *const *ops, unsigned count)
{
    unsigned which = count;

    cr_expect_eq(umbra_io_wait_any(ops, count, umbra_deadline(20 * SECOND), &which), 0);
    return which;
}

/* An operation, the descriptors behind its own, and its result. */
struct started {
    struct umbra_io_op op;
    int behind[2]; /* -1: none */
    int result;    /* INT_MAX: a descriptor */
};

static struct started with_pair(int call, char *text, size_t bytes)
{
    struct started started = {.op = {.call = call, .at = text, .bytes = bytes}, .behind[1] = -1};
    int pair[2];

    socket_pair(pair);
    started.op.fd = pair[0];
    started.op.offset = UMBRA_IO_HERE;
    started.behind[0] = pair[1];
    started.result = (int)bytes;
    return started;
}

static void *does_each(void *unused)
{
    static char text[7][4] = {"abcd", "efgh"};
    struct iovec in_two[2] = {{text[5], 1}, {text[5] + 1, 3}},
                 out_two[2] = {{text[0], 2}, {text[0] + 2, 2}};
    struct msghdr in = {.msg_iov = in_two, .msg_iovlen = 2},
                  out = {.msg_iov = out_two, .msg_iovlen = 2};
    struct sockaddr_in address;
    FILE *file = tmpfile();
    struct started each[] = {
        with_pair(UMBRA_IO_WRITE, text[0], 4),
        with_pair(UMBRA_IO_SEND, text[1], 4),
        with_pair(UMBRA_IO_READ, text[2], 4),
        with_pair(UMBRA_IO_RECV, text[3], 4),
        with_pair(UMBRA_IO_RECVMSG, (char *)&in, 4),
        with_pair(UMBRA_IO_SENDMSG, (char *)&out, 4),
        {.op = {.call = UMBRA_IO_ACCEPT}, .result = INT_MAX},
        {.op = {.call = UMBRA_IO_WRITE, .at = text[0], .bytes = 4}, {-1, -1}, 4},
    };
    enum { EACH = sizeof(each) / sizeof(each[0]) };
    struct umbra_io_op *ops[EACH];

    each[6].op.fd = listening(1, &address);
    each[7].op.fd = fileno(file);
    for (int i = 0; i < EACH; i++)
        start(ops[i] = &each[i].op);
    cr_expect_eq(write(each[2].behind[0], "ijkl", 4), 4);
    cr_expect_eq(write(each[3].behind[0], "mnop", 4), 4);
    cr_expect_eq(write(each[4].behind[0], "qrst", 4), 4);
    each[6].behind[0] = connected(&address);
    for (int i = 0; i < EACH; i++) {
        unsigned which = next_of(ops, EACH);
        struct started *over = &each[which];

        ops[which] = NULL;
        if (over->result == INT_MAX)
            cr_expect((over->behind[1] = over->op.result) >= 0);
        else
            cr_expect_eq(over->op.result, over->result, "%u: %d", which, over->op.result);
        umbra_io_end(&over->op); /* which changes nothing */
    }
    cr_expect_eq(read(each[5].behind[0], text[6], 4), 4);
    cr_expect_eq(memcmp(text[2], "ijkl", 4) | memcmp(text[3], "mnop", 4), 0);
    cr_expect_eq(memcmp(text[5], "qrst", 4) | memcmp(text[6], "abcd", 4), 0);
    for (int i = 0; i < EACH - 1; i++) {
        close(each[i].op.fd);
        close_pair(each[i].behind);
    }
    fclose(file);
    return unused;
}

IO_TEST(operations_of_each_call_go_on_at_once)
{
    cr_assert_eq(run_cores(1, does_each, NULL), 0);
}

/* ---- messages ---- */

/* Room for a message in two buffers, its address, and a descriptor. */
struct letter {
    char text[8];
    struct iovec buffers[2];
    struct sockaddr_in address;
    struct msghdr message;
    union { /* last: its size varies, says clang */
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } more;
};

static struct msghdr *letter_with(struct letter *letter, const char *text)
{
    memset(letter, 0, sizeof(*letter));
    memcpy(letter->text, text, strlen(text));
    letter->buffers[0] = (struct iovec){letter->text, 2};
    letter->buffers[1] = (struct iovec){letter->text + 2, 2};
    letter->message.msg_iov = letter->buffers;
    letter->message.msg_iovlen = 2;
    return &letter->message;
}

/* Answers one datagram, to where it came from. */
static void *answers(void *socket)
{
    struct letter letter;
    struct msghdr *message = letter_with(&letter, "");
    size_t count = 0;

    message->msg_name = &letter.address;
    message->msg_namelen = sizeof(letter.address);
    cr_expect_eq(umbra_io_recvmsg(*(int *)socket, message, umbra_deadline(20 * SECOND), &count), 0);
    cr_expect(count == 4 && memcmp(letter.text, "more", 4) == 0);
    cr_expect(message->msg_flags & MSG_TRUNC);
    cr_expect_eq(message->msg_namelen, sizeof(letter.address));
    cr_expect_eq(umbra_io_sendmsg(*(int *)socket, message, UMBRA_NEVER, &count), 0);
    cr_expect_eq(count, 4);
    return NULL;
}

static void *asks_by_datagram(void *unused)
{
    struct sockaddr_in to, own;
    int server = at_a_port(SOCK_DGRAM, &to), client = at_a_port(SOCK_DGRAM, &own);
    struct umbra_fiber fiber;
    char text[8];
    size_t got = 0;

    cr_assert_eq(umbra_spawn(answers, &server, &fiber), 0);
    umbra_sleep_ns(MS); /* it waits */
    cr_expect_eq(sendto(client, "more than four", 14, 0, (struct sockaddr *)&to, sizeof(to)), 14);
    cr_expect_eq(umbra_io_recv(client, text, sizeof(text), umbra_deadline(20 * SECOND), &got), 0);
    cr_expect(got == 4 && memcmp(text, "more", 4) == 0);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    close(server);
    close(client);
    return unused;
}

IO_TEST(a_datagram_is_answered_to_where_it_came_from)
{
    cr_assert_eq(run_cores(1, asks_by_datagram, NULL), 0);
}

static void *passes_a_descriptor(void *unused)
{
    struct letter sent, got;
    struct msghdr *out = letter_with(&sent, "fd"), *in = letter_with(&got, "");
    struct cmsghdr *head = &sent.more.head;
    int pair[2], passed = -1;
    size_t count = 0;

    socket_pair(pair);
    out->msg_control = sent.more.room;
    out->msg_controllen = in->msg_controllen = sizeof(sent.more.room);
    in->msg_control = got.more.room;
    *head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &pair[0], sizeof(int));
    cr_expect_eq(umbra_io_sendmsg(pair[0], out, UMBRA_NEVER, &count), 0);
    cr_expect_eq(umbra_io_recvmsg(pair[1], in, umbra_deadline(20 * SECOND), &count), 0);
    cr_assert(CMSG_FIRSTHDR(in) != NULL);
    memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(in)), sizeof(int));
    cr_expect(passed > 2 && passed != pair[0]);
    cr_expect_eq(fcntl(passed, F_GETFD), FD_CLOEXEC);
    close(passed);
    close_pair(pair);
    return unused;
}

IO_TEST(a_descriptor_that_is_received_is_closed_by_exec)
{
    cr_assert_eq(run_cores(1, passes_a_descriptor, NULL), 0);
}

static atomic_uint sends_tried; /* messages, but by the ring */

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    atomic_fetch_add(&sends_tried, 1);
    return syscall(SYS_sendmsg, socket, message, flags);
}

enum { MOST_TRIES = 16 }; /* in 20 ms, of an operation that pauses before it tries again */

enum { NETLINK_USERSOCK = 2, NETLINK_NAME_BYTES = 12 }; /* as Linux's headers, which musl lacks */

/* A socket that takes datagrams, and its name, which the system chooses. -1: no such family here. */
static int named_socket(int family, struct sockaddr_storage *name, socklen_t *length)
{
    bool netlink = family == AF_NETLINK;
    int fd = socket(family, SOCK_DGRAM, netlink ? NETLINK_USERSOCK : 0);

    *name = (struct sockaddr_storage){.ss_family = (sa_family_t)family};
    *length = netlink ? NETLINK_NAME_BYTES : sizeof(sa_family_t);
    if (fd >= 0) {
        cr_expect_eq(bind(fd, (struct sockaddr *)name, *length), 0);
        *length = sizeof(*name);
        cr_expect_eq(getsockname(fd, (struct sockaddr *)name, length), 0);
    }
    return fd;
}

struct full_queue {
    int family, flags;
};

/* Nothing reports that there is room in the queue: the own socket can always be written. */
static void *finds_a_full_queue(void *arg)
{
    const struct full_queue *full = arg;
    int protocol = full->family == AF_NETLINK ? NETLINK_USERSOCK : 0;
    struct sockaddr_storage address;
    struct letter letter;
    struct msghdr *message = letter_with(&letter, "more");
    int to = named_socket(full->family, &address, &message->msg_namelen),
        fd = socket(full->family, SOCK_DGRAM | full->flags, protocol);
    struct umbra_io_op op = {.call = UMBRA_IO_SENDMSG, .fd = fd, .at = message}, *one = &op;
    unsigned which;
    uint64_t deadline;
    size_t count = 0;
    char text[8];

    if (to < 0)
        return NULL;
    message->msg_name = &address;
    while (umbra_io_sendmsg(fd, message, 0, &count) == 0)
        ;
    deadline = umbra_deadline(20 * MS);
    sends_tried = 0;
    cr_expect_eq(umbra_io_sendmsg(fd, message, deadline, &count), -ETIMEDOUT);
    cr_expect(umbra_now_ns() >= deadline);
    cr_expect_leq(sends_tried, MOST_TRIES);
    sends_tried = 0;
    start(&op); /* which does not wait: this fiber makes room */
    cr_expect_eq(umbra_io_wait_any(&one, 1, umbra_deadline(20 * MS), &which), -ETIMEDOUT);
    cr_expect_leq(sends_tried, MOST_TRIES);
    cr_expect_eq(recv(to, text, sizeof(text), 0), 4);
    while (recv(to, text, sizeof(text), MSG_DONTWAIT) == 4) /* netlink has room when all are gone */
        ;
    cr_expect_eq(next_of(&one, 1), 0);
    cr_expect_eq(op.result, 4);
    close(fd);
    close(to);
    return NULL;
}

IO_TEST(a_message_waits_for_a_place_in_a_local_queue)
{
    static struct full_queue cases[] = {
        {AF_UNIX, 0}, {AF_UNIX, SOCK_NONBLOCK}, {AF_NETLINK, 0}, {AF_NETLINK, SOCK_NONBLOCK}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_assert_eq(run_cores(1, finds_a_full_queue, &cases[i]), 0);
}

static void *sends_in_vain(void *fd)
{
    struct letter letter;
    uint64_t deadline = umbra_deadline(20 * MS);
    size_t count;

    cr_expect_eq(umbra_io_sendmsg(*(int *)fd, letter_with(&letter, "more"), deadline, &count),
                 -ETIMEDOUT);
    return NULL;
}

/* A send that the queue refuses makes the kernel report room, where there is none, to the others. */
static void *waits_beside_waiting_sends(void *cores)
{
    struct sockaddr_storage address;
    socklen_t length;
    struct umbra_fiber sender[2];
    struct letter letter[2];
    struct umbra_io_op op[2], *ops[2];
    int to = named_socket(AF_UNIX, &address, &length), fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    unsigned which;
    size_t count;

    cr_expect_eq(connect(fd, (struct sockaddr *)&address, length), 0);
    while (umbra_io_send(fd, "some", 4, 0, &count) == 0)
        ;
    sends_tried = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct umbra_spawn_options options = {.where = UMBRA_ON_CORE,
                                              .core = i % *(unsigned *)cores};

        cr_expect_eq(umbra_spawn_with(NULL, &options, sends_in_vain, &fd, &sender[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        umbra_join(sender[i], UMBRA_NEVER, NULL);
    cr_expect_leq(sends_tried, MOST_TRIES, "%u tries of two fibers", sends_tried);
    sends_tried = 0;
    for (unsigned i = 0; i < 2; i++) {
        op[i] = (struct umbra_io_op){
            .call = UMBRA_IO_SENDMSG, .fd = fd, .at = letter_with(&letter[i], "more")};
        ops[i] = &op[i];
        start(ops[i]);
        umbra_sleep_ns(MS);
    }
    cr_expect_eq(umbra_io_wait_any(ops, 2, umbra_deadline(20 * MS), &which), -ETIMEDOUT);
    cr_expect_leq(sends_tried, MOST_TRIES, "%u tries of two operations", sends_tried);
    for (unsigned i = 0; i < 2; i++)
        umbra_io_end(ops[i]);
    close(fd);
    close(to);
    return NULL;
}

IO_TEST(sends_that_wait_for_one_queue_do_not_wake_each_other)
{
    for (unsigned cores = 1; cores <= 2; cores++)
        cr_assert_eq(run_cores(cores, waits_beside_waiting_sends, &cores), 0);
}

static atomic_uint receives_tried; /* of messages, but by the ring */

ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
    atomic_fetch_add(&receives_tried, 1);
    return syscall(SYS_recvmsg, socket, message, flags);
}

/* Each attempt is made twice: after a rest, and after the report that there still is an error. */
static void *receives_beside_errors(void *flags)
{
    char byte;
    struct iovec buffer = {&byte, 1};
    struct msghdr message = {.msg_iov = &buffer, .msg_iovlen = 1};
    int fd = with_error_queued((int)(intptr_t)flags);
    size_t got;

    receives_tried = 0;
    cr_expect_eq(umbra_io_recvmsg(fd, &message, umbra_deadline(20 * MS), &got), -ETIMEDOUT);
    cr_expect_leq(receives_tried, 2 * MOST_TRIES);
    close(fd);
    return NULL;
}

IO_TEST(a_wait_rests_though_poll_says_ready_for_ever)
{
    receives_beside_errors((void *)(intptr_t)0); /* by the thread */
    cr_assert_eq(run_cores(1, receives_beside_errors, (void *)(intptr_t)0), 0);
    cr_assert_eq(run_cores(1, receives_beside_errors, (void *)(intptr_t)SOCK_NONBLOCK), 0);
}

static void *sends_four(void *fd)
{
    size_t sent = 0;

    cr_expect_eq(umbra_io_send(*(int *)fd, "more", 4, umbra_deadline(20 * SECOND), &sent), 0);
    cr_expect_eq(sent, 4);
    return NULL;
}

/* A ring of Linux 6.18 sends an empty datagram, if the queue was full at its first attempt. */
static void *sends_to_a_full_queue(void *unused)
{
    struct sockaddr_storage address;
    socklen_t length;
    int to = named_socket(AF_UNIX, &address, &length), fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct umbra_fiber sender;
    size_t count = 0;
    char text[8];

    cr_expect_eq(connect(fd, (struct sockaddr *)&address, length), 0);
    while (umbra_io_send(fd, "some", 4, 0, &count) == 0)
        ;
    cr_expect_eq(umbra_spawn(sends_four, &fd, &sender), 0);
    umbra_sleep_ns(MS);
    do
        cr_expect_eq(umbra_io_recv(to, text, sizeof(text), umbra_deadline(20 * SECOND), &count), 0);
    while (count == 4 && memcmp(text, "some", 4) == 0);
    cr_expect(count == 4 && memcmp(text, "more", 4) == 0, "%zu bytes", count);
    umbra_join(sender, UMBRA_NEVER, NULL);
    close(fd);
    close(to);
    return unused;
}

IO_TEST(a_datagram_to_a_full_local_queue_arrives_whole)
{
    cr_assert_eq(run_cores(1, sends_to_a_full_queue, NULL), 0);
}

/* ---- calls that do not wait ---- */

enum { SENT_BYTES = 1 << 20 };

/* Sends all of a file by calls of the system, between which it waits. */
static void *sends_a_file(void *arg)
{
    const int *fds = arg; /* socket, file */
    short ready = 0;
    off_t at = 0;

    while (at < SENT_BYTES)
        if (sendfile(fds[0], fds[1], &at, (size_t)(SENT_BYTES - at)) < 0) {
            cr_assert_eq(errno, EAGAIN);
            cr_assert_eq(umbra_io_ready(fds[0], POLLOUT, umbra_deadline(20 * SECOND), &ready), 0);
            cr_assert_eq(ready, POLLOUT);
        }
    return NULL;
}

static void *receives_a_file(void *unused)
{
    static unsigned char text[SENT_BYTES], got[SENT_BYTES];
    FILE *file = tmpfile();
    struct umbra_fiber sender;
    size_t count = 1;
    int pair[2], fds[2];

    for (size_t i = 0; i < SENT_BYTES; i++)
        text[i] = (unsigned char)(i >> 8 ^ i);
    cr_assert(file != NULL);
    cr_assert_eq(pwrite(fileno(file), text, SENT_BYTES, 0), SENT_BYTES);
    socket_pair(pair);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    fds[0] = pair[0];
    fds[1] = fileno(file);
    cr_assert_eq(umbra_spawn(sends_a_file, fds, &sender), 0);
    for (size_t at = 0; at < SENT_BYTES && count > 0; at += count)
        cr_assert_eq(
            umbra_io_recv(pair[1], got + at, SENT_BYTES - at, umbra_deadline(20 * SECOND), &count),
            0);
    cr_expect_eq(memcmp(text, got, SENT_BYTES), 0);
    umbra_join(sender, UMBRA_NEVER, NULL);
    fclose(file);
    close_pair(pair);
    return unused;
}

IO_TEST(a_file_is_sent_between_waits_until_the_socket_is_ready)
{
    cr_assert_eq(run_cores(1, receives_a_file, NULL), 0);
}

/* Two fibers wait for one descriptor, each for its own. */
static void *waits_for_reading(void *fd)
{
    short ready = 0;

    cr_expect_eq(umbra_io_ready(*(int *)fd, POLLIN, umbra_deadline(20 * SECOND), &ready), 0);
    cr_expect_eq(ready, POLLIN);
    return NULL;
}

static void *waits_for_its_event(void *unused)
{
    struct umbra_fiber reader;
    short ready = 7;
    int pair[2];

    socket_pair(pair);
    cr_expect_eq(umbra_spawn(waits_for_reading, &pair[0], &reader), 0);
    cr_expect_eq(umbra_io_ready(pair[0], POLLIN, umbra_deadline(MS), &ready), -ETIMEDOUT);
    cr_expect_eq(umbra_io_ready(pair[0], POLLPRI, UMBRA_NEVER, &ready), -EINVAL);
    cr_expect_eq(umbra_io_ready(pair[0], 0, UMBRA_NEVER, &ready), -EINVAL);
    cr_expect_eq(umbra_io_ready(-1, POLLIN, UMBRA_NEVER, &ready), -EBADF);
    cr_expect_eq(ready, 7);
    cr_expect_eq(umbra_io_ready(pair[0], POLLOUT, UMBRA_NEVER, &ready), 0);
    cr_expect_eq(ready, POLLOUT);
    cr_expect_eq(write(pair[1], "x", 1), 1);
    umbra_join(reader, UMBRA_NEVER, NULL);
    cr_expect_eq(umbra_io_ready(pair[0], POLLIN | POLLOUT, UMBRA_NEVER, &ready), 0);
    cr_expect_eq(ready, POLLIN | POLLOUT);
    close_pair(pair);
    return unused;
}

IO_TEST(a_descriptor_is_ready_for_what_was_asked)
{
    cr_assert_eq(run_cores(1, waits_for_its_event, NULL), 0);
}

/* ---- waits for any ---- */

static void *waits_for_any(void *unused)
{
    char text[2][4];
    int pair[2][2];
    struct umbra_io_op op[2];
    struct umbra_io_op *ops[2] = {&op[0], &op[1]};
    unsigned which = 7;

    for (int i = 0; i < 2; i++) {
        socket_pair(pair[i]);
        op[i] = receiving_op(pair[i][0], text[i], 4);
        start(&op[i]);
    }
    cr_expect_eq(umbra_io_wait_any(ops, 2, umbra_deadline(MS), &which), -ETIMEDOUT);
    cr_expect_eq(umbra_io_wait_any(ops, 2, 0, &which), -ETIMEDOUT);
    cr_expect_eq(which, 7);
    cr_expect_eq(write(pair[1][1], "xy", 2), 2);
    cr_expect_eq(next_of(ops, 2), 1);
    cr_expect_eq(op[1].result, 2);
    cr_expect_eq(next_of(ops, 2), 1, "it still is over");
    start(&op[1]);
    cr_expect_eq(write(pair[0][1], "z", 1), 1);
    cr_expect_eq(next_of(ops, 2), 0);
    cr_expect_eq(op[0].result, 1);
    cr_expect_eq(write(pair[1][1], "v", 1), 1);
    while (umbra_io_wait_any(&ops[1], 1, 0, &which) == -ETIMEDOUT)
        ; /* asks without giving up its core */
    cr_expect(which == 0 && op[1].result == 1 && text[1][0] == 'v');
    close_pair(pair[0]);
    close_pair(pair[1]);
    return unused;
}

IO_TEST(a_fiber_waits_for_any_of_its_operations)
{
    cr_assert_eq(run_cores(1, waits_for_any, NULL), 0);
}

/* One of two is over before the wait begins, or meanwhile; the other one is ended. */
static void *waits_while_one_ends(void *unused)
{
    int pair[2][2];
    char byte[2];
    struct umbra_io_op op[2];
    struct umbra_io_op *ops[2] = {&op[0], &op[1]};

    for (int i = 0; i < 2; i++) {
        socket_pair(pair[i]);
        op[i] = receiving_op(pair[i][0], &byte[i], 1);
    }
    for (int i = 0; i < 1000; i++) {
        start(&op[0]);
        start(&op[1]);
        cr_expect_eq(write(pair[i % 2][1], "x", 1), 1);
        if (i % 3 == 0)
            umbra_yield();
        cr_expect_eq(next_of(ops, 2), (unsigned)i % 2);
        end_waiting(&op[1 - i % 2]);
    }
    close_pair(pair[0]);
    close_pair(pair[1]);
    return unused;
}

IO_TEST(no_end_of_an_operation_is_missed)
{
    cr_assert_eq(run_cores(1, waits_while_one_ends, NULL), 0);
}

static void *ends_operations(void *unused)
{
    int pair[2];
    char *at = page(), byte;
    struct umbra_io_op op;
    struct umbra_io_op *one = &op;
    unsigned which;

    socket_pair(pair);
    op = receiving_op(pair[0], at, 4096);
    start(&op);
    umbra_sleep_ns(MS);
    end_waiting(&op);
    umbra_io_end(&op);
    start(&op);
    umbra_cancel(umbra_self());
    cr_expect_eq(umbra_io_wait_any(&one, 1, UMBRA_NEVER, &which), -ECANCELED);
    end_waiting(&op);
    check_untouched(pair, at);
    op = receiving_op(pair[0], &byte, 1);
    start(&op);
    cr_expect_eq(send_text(pair[1], "x"), 1);
    umbra_io_end(&op);
    cr_expect(op.result == 1 || (op.result == -ECANCELED && receive(pair[0], &byte, 1) == 1),
              "a byte is lost");
    close_pair(pair);
    return unused;
}

IO_TEST(an_operation_that_was_ended_takes_nothing)
{
    cr_assert_eq(run_cores(1, ends_operations, NULL), 0);
}

/* Calls that the system refuses at once, on the number of a socket where receives have waited in
 * vain, and which another descriptor may have by now. */
static const struct refused {
    int call;
    size_t bytes;
    uint64_t offset;
    enum { SAME, SAME_LISTENS, END_OF_PIPE } what;
    int result;
} refused[] = {
    {UMBRA_IO_READ, 0, UMBRA_IO_HERE, SAME, 0},
    {UMBRA_IO_READ, 1, 5, SAME, -ESPIPE},
    {UMBRA_IO_ACCEPT, 0, 0, SAME, -EINVAL},
    {UMBRA_IO_READ, 1, UMBRA_IO_HERE, SAME_LISTENS, -ENOTCONN},
    {UMBRA_IO_RECV, 1, 0, SAME_LISTENS, -ENOTCONN},
    {UMBRA_IO_READ, 1, UMBRA_IO_HERE, END_OF_PIPE, -EBADF},
    {UMBRA_IO_RECV, 1, 0, END_OF_PIPE, -ENOTSOCK},
};

static void check_refused(const struct refused *what)
{
    struct sockaddr_in address;
    struct umbra_io_op op = {.call = what->call, .bytes = what->bytes, .offset = what->offset};
    struct umbra_io_op *one = &op;
    int pair[2], ends[2], listens = listening(1, &address);
    char byte;

    socket_pair(pair);
    cr_expect_eq(pipe(ends), 0);
    op.fd = what->what == SAME_LISTENS ? listens : pair[0];
    op.at = &byte;
    for (int i = 0; i < 5; i++) {
        struct umbra_io_op wait = receiving_op(op.fd, &byte, 1);

        if (what->what == SAME_LISTENS)
            wait.call = UMBRA_IO_ACCEPT;
        start(&wait);
        end_waiting(&wait);
    }
    if (what->what == END_OF_PIPE)
        cr_expect_eq(dup2(ends[1], op.fd), op.fd);
    start(&op);
    cr_expect_eq(umbra_io_wait_any(&one, 1, umbra_deadline(2 * SECOND), &(unsigned){0}), 0);
    umbra_io_end(&op);
    cr_expect_eq(op.result, what->result, "row %d: %d", (int)(what - refused), op.result);
    close_pair(pair);
    close_pair(ends);
    close(listens);
}

static void *is_refused(void *unused)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        check_refused(&refused[i]);
    return unused;
}

IO_TEST(what_is_refused_is_refused_at_once_whatever_came_before)
{
    cr_assert_eq(run_cores(1, is_refused, NULL), 0);
}

static void *starts_many(void *unused)
{
    static struct umbra_io_op op[MANY];
    static struct umbra_io_op *ops[MANY];
    static char text[MANY];
    static int pair[MANY][2];

    for (int i = 0; i < MANY; i++) {
        socket_pair(pair[i]);
        op[i] = receiving_op(pair[i][0], &text[i], 1);
        start(ops[i] = &op[i]);
    }
    for (int i = 0; i < MANY; i++)
        cr_expect_eq(write(pair[i][1], i % 2 ? "b" : "a", 1), 1);
    for (int i = 0; i < MANY; i++) {
        unsigned which = next_of(ops, MANY);

        ops[which] = NULL;
        cr_expect(op[which].result == 1 && text[which] == (which % 2 ? 'b' : 'a'));
        close_pair(pair[which]);
    }
    cr_expect_eq(um_core_self->more->io_woken, 0);
    return unused;
}

IO_TEST(a_fiber_has_more_operations_than_the_ring_has_places)
{
    run_with_descriptors(starts_many);
}

static void *starts_wrongly(void *unused)
{
    struct umbra_io_op op = {.call = 0, .fd = -1};
    struct umbra_io_op *one = &op, *none = NULL;
    unsigned which = 7;
    int pair[2];
    char byte;

    cr_expect_eq(umbra_io_start(&op), -EINVAL);
    op.call = UMBRA_IO_SENDMSG + 1;
    cr_expect_eq(umbra_io_start(&op), -EINVAL);
    cr_expect_eq(umbra_io_wait_any(&none, 1, UMBRA_NEVER, &which), -EINVAL);
    cr_expect_eq(umbra_io_wait_any(&one, 0, UMBRA_NEVER, &which), -EINVAL);
    op = receiving_op(-1, &byte, 1);
    start(&op);
    cr_expect_eq(next_of(&one, 1), 0);
    cr_expect_eq(op.result, -EBADF);
    socket_pair(pair);
    op = receiving_op(pair[0], &byte, 1);
    start(&op);
    cr_expect_eq(umbra_io_start(&op), -EBUSY);
    end_waiting(&op);
    close_pair(pair);
    return unused;
}

IO_TEST(operations_that_cannot_begin_are_refused)
{
    struct umbra_io_op op = receiving_op(0, NULL, 1);
    struct umbra_io_op *one = &op;

    cr_assert_eq(run_cores(1, starts_wrongly, NULL), 0);
    cr_expect_eq(umbra_io_start(&op), -EPERM);
    cr_expect_eq(umbra_io_wait_any(&one, 1, 0, &(unsigned){0}), -EPERM);
    umbra_io_end(&op);
}

/* ---- sleeping ---- */

/* A core waits for a byte and for a signal; a thread brings one of them, at odd moments. */
static struct umbra_event signaled = UMBRA_EVENT_INIT;
static atomic_int bytes_taken, signals_taken, over;

static void *takes_bytes(void *socket)
{
    char byte;

    while (receive(*(int *)socket, &byte, 1) == 1)
        bytes_taken++;
    return NULL;
}

static void *takes_signals(void *unused)
{
    (void)unused;
    while (umbra_event_wait(&signaled, UMBRA_NEVER) == 0 && !over)
        signals_taken++;
    return NULL;
}

static void *takes_both(void *socket)
{
    struct umbra_fiber fiber[2];

    umbra_spawn(takes_bytes, socket, &fiber[0]);
    umbra_spawn(takes_signals, NULL, &fiber[1]);
    umbra_join(fiber[0], UMBRA_NEVER, NULL);
    umbra_join(fiber[1], UMBRA_NEVER, NULL);
    return NULL;
}

/* Waits until a count has its value. False: a wake-up was lost. */
static bool comes_to(const atomic_int *count, int value)
{
    struct timespec start, now;

    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        if (*count == value)
            return true;
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec < 20);
    return false;
}

static void *brings_both(void *socket)
{
    unsigned seed = (unsigned)getpid();
    struct timespec start, now;
    int bytes = 0, signals = 0;

    fprintf(stderr, "seed %u\n", seed);
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        struct timespec nap = {0, rand_r(&seed) % 200000};

        if (rand_r(&seed) % 2)
            nanosleep(&nap, NULL);
        if (rand_r(&seed) % 2) {
            cr_expect_eq(write(*(int *)socket, "x", 1), 1);
            bytes++;
        } else {
            umbra_event_signal(&signaled);
            signals++;
        }
        if (!comes_to(&bytes_taken, bytes) || !comes_to(&signals_taken, signals)) {
            cr_expect_fail("lost after %d bytes and %d signals", bytes, signals);
            break;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec < 2);
    over = 1;
    umbra_event_signal(&signaled);
    shutdown(*(int *)socket, SHUT_RDWR);
    return NULL;
}

IO_TEST(a_core_that_sleeps_is_woken_by_messages_and_by_completions)
{
    struct umbra_options options = {.cores = 1, .quiet = true, .wait = {.mode = UMBRA_WAIT_PARK}};
    struct umbra_runtime *runtime;
    pthread_t thread;
    int pair[2];

    socket_pair(pair);
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(pthread_create(&thread, NULL, brings_both, &pair[1]), 0);
    cr_expect_eq(umbra_runtime_run(runtime, takes_both, &pair[0]), 0);
    pthread_join(thread, NULL); /* its last signal has returned */
    umbra_runtime_destroy(runtime);
    close_pair(pair);
}

/* A wait beside an operation under way ends less than a millisecond after its deadline. */
static int sleep_until(int socket, uint64_t deadline)
{
    uint64_t now = umbra_now_ns();
    int error = umbra_sleep_ns(now < deadline ? deadline - now : 0);

    (void)socket;
    return error == 0 ? -ETIMEDOUT : error;
}

static int wait_until(int socket, uint64_t deadline)
{
    struct umbra_event event = UMBRA_EVENT_INIT;

    (void)socket;
    return umbra_event_wait(&event, deadline);
}

static int receive_until(int socket, uint64_t deadline)
{
    size_t got;

    return umbra_io_recv(socket, (char[1]){0}, 1, deadline, &got);
}

static void *waits_briefly(void *socket)
{
    static const struct {
        const char *name;
        int (*wait)(int socket, uint64_t deadline);
    } calls[] = {{"umbra_sleep_ns", sleep_until},
                 {"umbra_event_wait", wait_until},
                 {"umbra_io_recv", receive_until}};

    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        struct short_waits waits = SHORT_WAITS_INIT;
        uint64_t deadline;

        do {
            deadline = umbra_deadline(MS / 10);
            cr_expect_eq(calls[i].wait(*(int *)socket, deadline), -ETIMEDOUT);
        } while (was_late(&waits, deadline));
        expect_in_time(&waits, calls[i].name);
    }
    return NULL;
}

static void *waits_beside_operation(void *unused)
{
    struct receiving receiving = {.at = (char[1]){0}, .bytes = 1, .deadline = UMBRA_NEVER};
    int pair[2];

    socket_pair(pair);
    receiving.socket = pair[0];
    spawn_receiving(&receiving);
    until_in_system_call(receiving.fiber);
    waits_briefly(&pair[1]);
    cr_expect_eq(send_text(pair[1], "x"), 1);
    umbra_join(receiving.fiber, UMBRA_NEVER, NULL);
    close_pair(pair);
    return unused;
}

IO_TEST(a_deadline_is_kept_to_less_than_a_millisecond)
{
    struct umbra_options options = {.cores = 1, .quiet = true, .wait = {.mode = UMBRA_WAIT_PARK}};

    if (under_valgrind)
        cr_skip_test("Valgrind executes one thread at a time");
    cr_assert_eq(umbra_run(&options, waits_beside_operation, NULL), 0);
}

Test(io, a_threads_deadline_is_kept_to_less_than_a_millisecond)
{
    int pair[2];

    if (under_valgrind)
        cr_skip_test("Valgrind executes one thread at a time");
    socket_pair(pair);
    waits_briefly(&pair[0]);
    close_pair(pair);
}

static void *yields_until(void *flag)
{
    until(flag);
    return NULL;
}

static void *busy_core(void *unused)
{
    struct receiving receiving;
    struct umbra_fiber busy[2];
    _Atomic int done = 0;
    char byte;
    int pair[2];

    (void)unused;
    socket_pair(pair);
    umbra_spawn(yields_until, (void *)&done, &busy[0]);
    umbra_spawn(yields_until, (void *)&done, &busy[1]);
    receiving =
        (struct receiving){.socket = pair[0], .at = &byte, .bytes = 1, .deadline = UMBRA_NEVER};
    for (int i = 0; i < 100; i++) {
        spawn_receiving(&receiving);
        until_in_system_call(receiving.fiber);
        cr_expect_eq(write(pair[1], "x", 1), 1);
        umbra_join(receiving.fiber, UMBRA_NEVER, NULL);
        cr_expect_eq(receiving.error, 0);
    }
    done = 1;
    umbra_join(busy[0], UMBRA_NEVER, NULL);
    umbra_join(busy[1], UMBRA_NEVER, NULL);
    close_pair(pair);
    return NULL;
}

IO_TEST(a_core_that_never_idles_takes_completions)
{
    cr_assert_eq(run_cores(1, busy_core, NULL), 0);
}

/* Two fibers on two cores that meet again and again, for a third one that must get its byte. */
struct meeting {
    void (*meet)(struct meeting *meeting, unsigned side);
    struct umbra_event event[2];
    struct umbra_barrier barrier;
    bool over;
};

static void meet_by_events(struct meeting *meeting, unsigned side)
{
    if (side == 0)
        umbra_event_signal(&meeting->event[0]);
    umbra_event_wait(&meeting->event[1 - side], UMBRA_NEVER);
    if (side == 1)
        umbra_event_signal(&meeting->event[1]);
}

static void meet_at_barrier(struct meeting *meeting, unsigned side)
{
    (void)side;
    umbra_barrier_wait(&meeting->barrier, UMBRA_NEVER);
}

static void *meets(void *arg)
{
    struct meeting *meeting = arg;
    bool over = false;

    while (!over) {
        meeting->meet(meeting, 1);
        over = meeting->over;
        meeting->meet(meeting, 1);
    }
    return NULL;
}

static void *waits_in_place(void *arg)
{
    struct meeting *meeting = arg;
    struct umbra_spawn_options there = on_core(1);
    struct receiving receiving = {.at = (char[1]){0}, .bytes = 1, .deadline = UMBRA_NEVER};
    uint64_t deadline = umbra_deadline(5 * SECOND);
    struct umbra_fiber partner;
    int pair[2];

    um_core_self->in_place_cycles = um_ns_to_cycles(60 * SECOND); /* each wait ends in place */
    socket_pair(pair);
    receiving.socket = pair[0];
    spawn_receiving(&receiving);
    until_in_system_call(receiving.fiber);
    cr_expect_eq(umbra_spawn_with(NULL, &there, meets, meeting, &partner), 0);
    cr_expect_eq(write(pair[1], "x", 1), 1);
    while (!meeting->over) {
        meeting->over = receiving.error != 1 || umbra_now_ns() >= deadline;
        meeting->meet(meeting, 0);
        meeting->meet(meeting, 0);
    }
    cr_expect_eq(receiving.error, 0);
    umbra_join(partner, UMBRA_NEVER, NULL);
    umbra_join(receiving.fiber, UMBRA_NEVER, NULL);
    close_pair(pair);
    return NULL;
}

IO_TEST(a_core_whose_waits_end_in_place_takes_completions)
{
    struct meeting by_events = {.meet = meet_by_events,
                                .event = {UMBRA_EVENT_INIT, UMBRA_EVENT_INIT}};
    struct meeting at_barrier = {.meet = meet_at_barrier, .barrier = UMBRA_BARRIER_INIT(2)};

    cr_expect_eq(run_cores(2, waits_in_place, &by_events), 0);
    cr_expect_eq(run_cores(2, waits_in_place, &at_barrier), 0);
}

/* A fiber at safe points alone; the other one must get its byte. */
static void *polls_safely(void *arg)
{
    struct receiving *receiving = arg;
    uint64_t deadline = umbra_deadline(20 * SECOND);

    spawn_receiving(receiving);
    until_in_system_call(receiving->fiber);
    cr_expect_eq(write(receiving->partner, "x", 1), 1);
    while (receiving->error == 1 && umbra_now_ns() < deadline)
        umbra_poll();
    cr_expect_eq(receiving->error, 0);
    umbra_join(receiving->fiber, UMBRA_NEVER, NULL);
    return NULL;
}

IO_TEST(a_fiber_at_safe_points_lets_completions_in)
{
    struct umbra_options options = {.cores = 1, .quiet = true, .share_ns = MS};
    int pair[2];
    char byte;
    struct receiving receiving = {.at = &byte, .bytes = 1, .deadline = UMBRA_NEVER};

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    receiving.socket = pair[0];
    receiving.partner = pair[1];
    cr_assert_eq(umbra_run(&options, polls_safely, &receiving), 0);
    close_pair(pair);
}

/* Each core waits for the same socket; each gets one byte, and then the end. */
static void *shares_socket(void *unused)
{
    struct receiving receiving[2];
    struct umbra_spawn_options there = on_core(0);
    char byte[2] = "";
    int pair[2];

    (void)unused;
    socket_pair(pair);
    for (unsigned i = 0; i < 2; i++) {
        receiving[i] = (struct receiving){
            .socket = pair[0], .at = &byte[i], .bytes = 1, .deadline = UMBRA_NEVER};
        there.core = i;
        umbra_spawn_with(NULL, &there, receives, &receiving[i], &receiving[i].fiber);
        until_in_system_call(receiving[i].fiber);
    }
    for (int i = 0; i < 2; i++)
        cr_expect_eq(write(pair[1], "x", 1), 1);
    for (int i = 0; i < 2; i++) {
        umbra_join(receiving[i].fiber, umbra_deadline(20 * SECOND), NULL);
        cr_expect(receiving[i].error == 0 && byte[i] == 'x');
    }
    close_pair(pair);
    return NULL;
}

IO_TEST(a_socket_is_waited_for_on_several_cores)
{
    cr_assert_eq(run_cores(2, shares_socket, NULL), 0);
}

/* ---- errors ---- */

static void *meets_errors(void *unused)
{
    struct linger at_once = {1, 0};
    struct sockaddr_in address;
    int listens = listening(5, &address);
    int client = connected(&address);
    int server = -1;
    char byte;

    (void)unused;
    cr_expect_eq(umbra_io_accept(listens, UMBRA_NEVER, &server), 0);
    setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(client);
    cr_expect_eq(receive(server, &byte, 1), -ECONNRESET);
    cr_expect_eq(send_text(server, "x"), -EPIPE); /* and no signal ends the process */
    close(server);
    close(listens);
    client = socket(AF_INET, SOCK_STREAM, 0);
    cr_expect_eq(
        umbra_io_connect(client, (struct sockaddr *)&address, sizeof(address), UMBRA_NEVER),
        -ECONNREFUSED);
    close(client);
    return NULL;
}

IO_TEST(what_the_peer_does_is_an_error_of_its_own)
{
    cr_assert_eq(run_cores(1, meets_errors, NULL), 0);
}

/* Leaves room for so many more descriptors, among those of the test's runner too. */
static void limit_descriptors(unsigned more)
{
    struct rlimit limit;
    int last = -1;

    for (unsigned unused = 0; unused <= more;)
        if (fcntl(++last, F_GETFD) < 0)
            unused++;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)last;
    cr_expect_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void *meets_limit(void *unused)
{
    struct sockaddr_in address;
    int listens = listening(5, &address);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    int server = -1;

    (void)unused;
    limit_descriptors(0);
    cr_expect_eq(
        umbra_io_connect(client, (struct sockaddr *)&address, sizeof(address), UMBRA_NEVER),
        -EMFILE); /* no descriptor for the ring, or for epoll */
    limit_descriptors(3);
    cr_expect_eq(
        umbra_io_connect(client, (struct sockaddr *)&address, sizeof(address), UMBRA_NEVER), 0);
    limit_descriptors(0);
    cr_expect_eq(umbra_io_accept(listens, UMBRA_NEVER, &server), -EMFILE);
    limit_descriptors(1);
    cr_expect_eq(umbra_io_accept(listens, UMBRA_NEVER, &server), 0); /* it stayed in the queue */
    cr_expect_eq(send_text(client, "x"), 1);
    cr_expect_eq(receive(server, (char[1]){0}, 1), 1);
    return NULL;
}

IO_TEST(at_the_limit_of_descriptors_nothing_is_lost)
{
    if (under_valgrind)
        cr_skip_test("Valgrind sets the limit of descriptors itself");
    cr_assert_eq(run_cores(1, meets_limit, NULL), 0);
}

static void *asks_wrong_way(void *unused)
{
    (void)unused;
    cr_expect_eq(send_text(0, "x"), -EINVAL);
    cr_expect(strstr(umbra_last_error_text(), getenv("UMBRA_IO")));
    return NULL;
}

Test(io, an_unknown_way_is_refused)
{
    static const char *const wrong[] = {"carrier-pigeon", "Uring", " uring", "uring ",
                                        "pool,",          ",",     "0",      "uring,pool"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        setenv("UMBRA_IO", wrong[i], 1);
        cr_assert_eq(run_cores(1, asks_wrong_way, NULL), 0);
        asks_wrong_way(NULL); /* a thread that is no core */
    }
}

enum { IO_URING_SETUP = 425, IO_URING_ENTER, IO_URING_REGISTER };

static void *asks_forced_ring(void *unused)
{
    (void)unused;
    cr_expect_eq(receive(0, (char[1]){0}, 1), -ENOSYS);
    cr_expect_eq(send_text(0, "x"), -ENOSYS);
    return NULL;
}

/* As containers do, wholly or in part. */
static void forbids_rings(unsigned one, unsigned other)
{
    if (!forbid(one, other, EPERM))
        cr_skip_test("no filters of system calls here");
    unsetenv("UMBRA_IO");
    cr_assert_eq(run_cores(1, uses_pipe, NULL), 0);
    cr_assert_eq(run_cores(1, uses_file, NULL), 0);
    setenv("UMBRA_IO", "uring", 1);
    cr_assert_eq(run_cores(1, asks_forced_ring, NULL), 0);
}

Test(io, where_rings_are_forbidden_the_pool_is_taken)
{
    forbids_rings(IO_URING_SETUP, IO_URING_SETUP);
}

Test(io, where_rings_cannot_be_registered_the_pool_is_taken)
{
    forbids_rings(IO_URING_REGISTER, IO_URING_REGISTER);
}

Test(io, where_rings_cannot_be_entered_the_pool_is_taken)
{
    forbids_rings(IO_URING_ENTER, IO_URING_ENTER);
}

/* A ring that serves, until a filter forbids its core to enter it. */
struct breaking {
    unsigned error; /* the filter's */
    int waits;      /* what a receive that waits meanwhile then returns */
    int later;      /* what a later call returns */
    int flags;      /* of its socket */
};

static void *signals_later(void *event)
{
    usleep(20000);
    umbra_event_signal(event);
    return NULL;
}

/* The core sleeps, and a thread's message wakes it. */
static void check_sleep(void)
{
    struct umbra_event event = UMBRA_EVENT_INIT;
    pthread_t thread;

    cr_expect_eq(pthread_create(&thread, NULL, signals_later, &event), 0);
    umbra_hold(umbra_runtime_self()); /* no deadlock: the thread signals */
    cr_expect_eq(umbra_event_wait(&event, UMBRA_NEVER), 0);
    umbra_release(umbra_runtime_self());
    pthread_join(thread, NULL);
    umbra_sleep_ns(MS);
}

static void check_later(int pair[2], const struct breaking *breaking)
{
    FILE *file = tmpfile();
    char byte = 'x';
    size_t count = 0;
    struct umbra_io_op op = receiving_op(pair[0], &byte, 1);
    struct umbra_io_op *one = &op;

    start(&op);
    cr_expect_eq(umbra_io_wait_any(&one, 1, 0, &(unsigned){0}), breaking->later ? 0 : -ETIMEDOUT);
    umbra_io_end(&op);
    cr_expect_eq(op.result, breaking->later ? breaking->later : -ECANCELED);
    cr_expect_eq(umbra_io_send(pair[1], &byte, 1, UMBRA_NEVER, &count), breaking->later);
    cr_expect_eq(umbra_io_recv(pair[0], &byte, 1, UMBRA_NEVER, &count), breaking->later);
    cr_expect_eq(umbra_io_recv(pair[0], &byte, 1, umbra_deadline(MS), &count),
                 breaking->later ? breaking->later : -ETIMEDOUT);
    cr_expect_eq(umbra_io_write(fileno(file), "abc", 3, 0, UMBRA_NEVER, &count), breaking->later);
    cr_expect_eq(umbra_io_read(fileno(file), &byte, 1, 2, UMBRA_NEVER, &count), breaking->later);
    if (!breaking->later)
        cr_expect_eq(byte, 'c');
    fclose(file);
}

static void *breaks(void *arg)
{
    const struct breaking *breaking = arg;
    struct receiving receiving;
    char text[4];
    int pair[2], other[2];

    cr_expect_eq(socketpair(AF_UNIX, SOCK_STREAM | breaking->flags, 0, pair), 0);
    socket_pair(other);
    receiving = (struct receiving){
        .socket = pair[0], .at = text, .bytes = sizeof(text), .deadline = UMBRA_NEVER};
    cr_expect_eq(send_text(other[0], "x"), 1);
    spawn_receiving(&receiving);
    until_in_system_call(receiving.fiber);
    umbra_sleep_ns(MS); /* the kernel has it */
    if (!forbid(IO_URING_ENTER, IO_URING_REGISTER, breaking->error)) {
        cr_log_info("no filters of system calls here");
        umbra_cancel(receiving.fiber);
    } else {
        check_sleep();
        cr_expect_eq(write(pair[1], "abcd", 4), 4);
    }
    umbra_join(receiving.fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(receiving.error, breaking->waits);
    cr_expect_eq(receiving.got, breaking->waits ? 0 : 4);
    check_sleep();
    check_later(other, breaking);
    close_pair(pair);
    close_pair(other);
    return NULL;
}

static void breaks_with(struct breaking breaking, const char *way)
{
    choose_way("uring");
    setenv("UMBRA_IO", way, 1);
    cr_assert_eq(run_cores(1, breaks, &breaking), 0);
}

Test(io_uring, where_a_ring_stops_to_serve_the_pool_goes_on)
{
    breaks_with((struct breaking){EPERM, 0, 0, 0}, "");
}

Test(io_uring, where_a_ring_stops_to_wait_for_a_descriptor_the_pool_goes_on)
{
    breaks_with((struct breaking){EPERM, 0, 0, SOCK_NONBLOCK}, "");
}

Test(io_uring, where_rings_have_gone_the_pool_goes_on)
{
    breaks_with((struct breaking){ENOSYS, 0, 0, 0}, "");
}

Test(io_uring, what_the_kernel_has_lost_is_an_error)
{
    breaks_with((struct breaking){EBADR, -EIO, 0, 0}, "");
}

Test(io_uring, where_a_forced_ring_stops_to_serve_calls_fail)
{
    breaks_with((struct breaking){EPERM, -ENOSYS, -ENOSYS, 0}, "uring");
}

/* ---- the end ---- */

IO_TEST(a_runtime_ends_with_operations_under_way)
{
    struct umbra_options options = {.cores = 1, .oversubscribe = true, .quiet = true};
    struct umbra_spawn_options spawn = on_core(0);
    struct receiving receiving = {.at = page(), .bytes = 4096, .deadline = UMBRA_NEVER};
    struct umbra_runtime *runtime;
    int pair[2];

    socket_pair(pair);
    receiving.socket = pair[0];
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, &spawn, receives, &receiving, &receiving.fiber), 0);
    while (umbra_fiber_info(receiving.fiber, NULL) != UMBRA_FIBER_SYSTEM_CALL)
        usleep(100);
    umbra_runtime_destroy(runtime);
    check_untouched(pair, receiving.at);
    close_pair(pair);
}

static void *asks_in_child(void *unused)
{
    int status = 1;
    pid_t child;

    asks_from_thread(unused);
    child = fork();
    if (child == 0) {
        asks_from_thread(NULL);
        _exit(0);
    }
    waitpid(child, &status, 0);
    cr_expect_eq(status, 0);
    asks_from_thread(NULL);
    return NULL;
}

IO_TEST(a_child_of_a_fiber_has_operations_of_its_own)
{
    cr_assert_eq(run_cores(1, asks_in_child, NULL), 0);
}

static void *forks_meanwhile(void *unused)
{
    char byte;
    int pair[2], status = 1;
    struct umbra_io_op op;
    struct umbra_io_op *one = &op;
    pid_t child;

    socket_pair(pair);
    op = receiving_op(pair[0], &byte, 1);
    start(&op);
    umbra_sleep_ns(MS);
    child = fork();
    if (child == 0) {
        umbra_io_end(&op);
        _exit(0);
    }
    waitpid(child, &status, 0);
    cr_expect_eq(status, 0);
    cr_expect_eq(umbra_io_wait_any(&one, 1, umbra_deadline(MS), &(unsigned){0}), -ETIMEDOUT);
    cr_expect_eq(write(pair[1], "x", 1), 1);
    cr_expect_eq(next_of(&one, 1), 0);
    cr_expect_eq(op.result, 1);
    close_pair(pair);
    return unused;
}

IO_TEST(a_child_ends_no_operation_of_its_parent)
{
    cr_assert_eq(run_cores(1, forks_meanwhile, NULL), 0);
}

/* In the child another file has each number that the parent's core sleeps by. True if it stays
 * empty when a signal meets that core's fiber. */
static bool signals_in_child(struct umbra_event *event)
{
    int status = 1, file = memfd_create("file", 0);
    pid_t child = fork();

    if (child == 0) {
        for (int fd = 3; fd < file; fd++)
            dup2(file, fd);
        umbra_event_signal(event);
        _exit(lseek(file, 0, SEEK_END) != 0);
    }
    waitpid(child, &status, 0);
    close(file);
    return status == 0;
}

static void *waits_for_signal(void *event)
{
    cr_expect_eq(umbra_event_wait(event, UMBRA_NEVER), 0);
    return NULL;
}

/* A core that sleeps: one of its fibers waits for a byte, another for a signal. */
struct sleeping {
    struct umbra_event event;
    struct receiving receiving;
    struct umbra_runtime *runtime;
    struct umbra_fiber waiting;
    int pair[2];
    char byte;
};

static void begin_sleeping(struct sleeping *sleeping)
{
    struct umbra_options options = {.cores = 1, .quiet = true, .wait = {.mode = UMBRA_WAIT_PARK}};
    struct umbra_spawn_options spawn = {.where = UMBRA_ON_CORE};
    struct receiving *receiving = &sleeping->receiving;
    struct umbra_core_info info;

    socket_pair(sleeping->pair);
    sleeping->event = (struct umbra_event)UMBRA_EVENT_INIT;
    *receiving = (struct receiving){
        .socket = sleeping->pair[0], .at = &sleeping->byte, .bytes = 1, .deadline = UMBRA_NEVER};
    cr_assert_eq(umbra_runtime_create(&options, &sleeping->runtime), 0);
    umbra_spawn_with(sleeping->runtime, &spawn, receives, receiving, &receiving->fiber);
    umbra_spawn_with(sleeping->runtime, &spawn, waits_for_signal, &sleeping->event,
                     &sleeping->waiting);
    while (umbra_fiber_info(sleeping->waiting, NULL) != UMBRA_FIBER_BLOCKED ||
           umbra_core_info(sleeping->runtime, 0, &info) != 0 || info.state != UMBRA_CORE_IDLE)
        usleep(1000);
    usleep(20000); /* it sleeps, most likely */
}

/* The fiber that waits for a signal was signaled. */
static void end_sleeping(struct sleeping *sleeping)
{
    cr_assert_eq(umbra_join(sleeping->waiting, umbra_deadline(20 * SECOND), NULL), 0);
    cr_expect_eq(send_text(sleeping->pair[1], "x"), 1);
    cr_expect_eq(umbra_runtime_wait(sleeping->runtime), 0);
    umbra_join(sleeping->receiving.fiber, UMBRA_NEVER, NULL);
    umbra_runtime_destroy(sleeping->runtime);
    close_pair(sleeping->pair);
}

IO_TEST(a_signal_in_a_child_writes_to_no_file)
{
    struct sleeping sleeping;

    begin_sleeping(&sleeping);
    cr_expect(signals_in_child(&sleeping.event));
    umbra_event_signal(&sleeping.event);
    end_sleeping(&sleeping);
}

static void *signals_when_canceled(void *event)
{
    pthread_cancel(pthread_self());
    umbra_event_signal(event);
    pthread_testcancel();
    return NULL;
}

IO_TEST(a_canceled_thread_still_wakes_a_core_that_sleeps)
{
    struct sleeping sleeping;
    pthread_t thread;
    void *result;

    begin_sleeping(&sleeping);
    cr_assert_eq(pthread_create(&thread, NULL, signals_when_canceled, &sleeping.event), 0);
    pthread_join(thread, &result);
    cr_expect_eq(result, PTHREAD_CANCELED);
    end_sleeping(&sleeping);
}

static int descriptors_named(const char *name)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++) {
        char path[32], text[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        count += readlink(path, text, sizeof(text) - 1) > 0 && strcmp(text, name) == 0;
    }
    return count;
}

/* In the place of a runtime's helpers: counts its bells when it ends. */
struct counts_bells {
    struct um_attached attached;
    int bells;
};

static void count_bells(struct um_attached *attached)
{
    ((struct counts_bells *)attached)->bells = descriptors_named("anon_inode:[eventfd]");
}

static void *attaches_and_waits(void *arg)
{
    struct counts_bells *counts = arg;
    struct receiving receiving = {.bytes = 1, .deadline = umbra_deadline(MS)};
    struct umbra_runtime *runtime = um_runtime_self();
    char byte;
    int pair[2];

    counts->attached.end = count_bells;
    um_atomic_store(&runtime->helpers, &counts->attached, release);
    socket_pair(pair);
    receiving.socket = pair[0];
    receiving.at = &byte;
    receives(&receiving);
    cr_expect_eq(receiving.error, -ETIMEDOUT);
    close_pair(pair);
    return NULL;
}

/* Helpers of umbra/blocking.h may still write to a bell when they end. */
Test(io_pool, a_bell_is_there_until_the_helpers_have_ended)
{
    struct counts_bells counts = {.bells = -1};
    int before = descriptors_named("anon_inode:[eventfd]");

    choose_way("pool");
    cr_assert_eq(run_cores(1, attaches_and_waits, &counts), 0);
    cr_expect_eq(counts.bells, before + 1);
    cr_expect_eq(descriptors_named("anon_inode:[eventfd]"), before);
}

static void *waits_without_input(void *pair)
{
    struct receiving receiving = {.socket = *(int *)pair, .at = (char[1]){0}, .bytes = 1};

    receiving.deadline = umbra_deadline(MS);
    close(0);
    receives(&receiving);
    cr_expect_eq(receiving.error, -ETIMEDOUT);
    cr_expect_eq(fcntl(0, F_GETFD), -1);
    return NULL;
}

/* Where standard input is closed, its number is left to the program. */
Test(io_pool, no_bell_is_a_standard_stream)
{
    int pair[2];

    choose_way("pool");
    socket_pair(pair);
    cr_assert_eq(run_cores(1, waits_without_input, pair), 0);
    close_pair(pair);
}
