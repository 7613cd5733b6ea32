/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the tests of umbra/io.h share: each test under both ways, the ring and the pool. The tests
 * of the ring skip where the program or the kernel has none.
 */
#ifndef UMBRA_TESTS_IO_WAY_H
#define UMBRA_TESTS_IO_WAY_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<linux/filter.h>) /* not beside musl, as Debian has it */
#include <linux/filter.h>
#include <linux/seccomp.h>
#endif
#ifdef UMBRA_URING
#include <liburing.h>
#endif

#include <runner.h>

#include <umbra/io.h>

#if defined(UMBRA_URING) && !defined(UMBRA_POSIX_ONLY)
UM_LINKONCE int um_uring_open(struct io_uring *ring, int *freed); /* umbra/io/uring.h */
#endif

/* From now on these two system calls of the calling thread, and of threads that it creates, fail
 * with an error. False: there are no filters here. */
static inline bool forbid(unsigned one, unsigned other, unsigned error)
{
#ifdef SECCOMP_MODE_FILTER
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {5, filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#else
    (void)one;
    (void)other;
    (void)error;
    return false;
#endif
}

/* Skips where there is no ring; else the process's operations go this way. */
static inline void choose_way(const char *way)
{
#ifndef UMBRA_URING
    if (strcmp(way, "uring") == 0)
        cr_skip_test("compiled without UMBRA_URING (liburing)");
#elif defined(UMBRA_POSIX_ONLY)
    if (strcmp(way, "uring") == 0)
        cr_skip_test("UMBRA_POSIX_ONLY has no ring");
#else
    struct io_uring ring;
    int freed;

    if (strcmp(way, "uring") == 0 && um_uring_open(&ring, &freed) != 0)
        cr_skip_test("the kernel has no io_uring that can wait on futexes, or forbids it");
    if (strcmp(way, "uring") == 0) {
        io_uring_queue_exit(&ring);
        close(freed);
    }
#endif
    setenv("UMBRA_IO", way, 1);
}

/* A socket of this type at a port of the loopback interface, and its address. */
static inline int at_a_port(int type, struct sockaddr_in *address)
{
    socklen_t length = sizeof(*address);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    cr_expect_eq(bind(fd, (const struct sockaddr *)address, sizeof(*address)), 0);
    cr_expect_eq(getsockname(fd, (struct sockaddr *)address, &length), 0);
    return fd;
}

/* One that listens there. */
static inline int listening(int backlog, struct sockaddr_in *address)
{
    int fd = at_a_port(SOCK_STREAM, address);

    cr_expect_eq(listen(fd, backlog), 0);
    return fd;
}

#define IO_TEST(name)                                                                              \
    static void name(void);                                                                        \
    Test(io_uring, name)                                                                           \
    {                                                                                              \
        choose_way("uring");                                                                       \
        name();                                                                                    \
    }                                                                                              \
    Test(io_pool, name)                                                                            \
    {                                                                                              \
        choose_way("pool");                                                                        \
        name();                                                                                    \
    }                                                                                              \
    static void name(void)

#endif
