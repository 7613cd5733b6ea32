/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The calls of the system and of libraries that Umbra makes and that can fail, with the errors that
 * their manuals give. A line wraps a call: tests/faults/meson.build has its name, too.
 *
 *   CALL(type, name, kind, value, parameters, arguments, errors...)
 *
 * kind: how the call fails, one of the enum below; value: the resource that it makes (+) or gives
 * back (-), which must balance at the end of a run.
 */
#ifndef UMBRA_TESTS_FAULTS_CALLS_H
#define UMBRA_TESTS_FAULTS_CALLS_H

#define CALLS(CALL)                                                                                \
    CALL(void *, malloc, ERRNO, BLOCK, (size_t a), (a), ENOMEM)                                    \
    CALL(void *, calloc, ERRNO, BLOCK, (size_t a, size_t b), (a, b), ENOMEM)                       \
    CALL(void *, aligned_alloc, ERRNO, BLOCK, (size_t a, size_t b), (a, b), ENOMEM)                \
    CALL(int, pthread_atfork, NUMBER, NOTHING,                                                     \
         (void (*a)(void), void (*b)(void), void (*c)(void)), (a, b, c), ENOMEM)                   \
    CALL(int, pthread_attr_init, NUMBER, NOTHING, (pthread_attr_t * a), (a), ENOMEM)               \
    CALL(int, pthread_attr_setstacksize, NUMBER, NOTHING, (pthread_attr_t * a, size_t b), (a, b),  \
         EINVAL)                                                                                   \
    CALL(int, pthread_create, NUMBER, THREAD,                                                      \
         (pthread_t * a, const pthread_attr_t *b, void *(*c)(void *), void *d), (a, b, c, d),      \
         EAGAIN, EPERM)                                                                            \
    CALL(int, pthread_key_create, NUMBER, KEY, (pthread_key_t * a, void (*b)(void *)), (a, b),     \
         EAGAIN, ENOMEM)                                                                           \
    CALL(int, pthread_setspecific, NUMBER, NOTHING, (pthread_key_t a, const void *b), (a, b),      \
         ENOMEM)                                                                                   \
    CALL(int, sigaction, MINUS_ONE, NOTHING,                                                       \
         (int a, const struct sigaction *b, struct sigaction *c), (a, b, c), EINVAL)               \
    CALL(void *, dlopen, ERRNO, NOTHING, (const char *a, int b), (a, b), ENOMEM)                   \
    CALL(int, dladdr, ZERO, NOTHING, (const void *a, Dl_info *b), (a, b), ENOENT)                  \
    CALL(FILE *, fopen, ERRNO, FILE_OPEN, (const char *a, const char *b), (a, b), EMFILE, EACCES)  \
    CALL(char *, fgets, ERRNO, NOTHING, (char *a, int b, FILE *c), (a, b, c), EIO)                 \
    CALL(int, accept4, MINUS_ONE, NOTHING, (int a, struct sockaddr *b, socklen_t *c, int d),       \
         (a, b, c, d), EMFILE, ECONNABORTED, EINTR)                                                \
    CALL(int, connect, MINUS_ONE, NOTHING, (int a, const struct sockaddr *b, socklen_t c),         \
         (a, b, c), ECONNREFUSED, ENOBUFS)                                                         \
    CALL(int, getsockopt, MINUS_ONE, NOTHING, (int a, int b, int c, void *d, socklen_t *e),        \
         (a, b, c, d, e), ENOBUFS)                                                                 \
    CALL(ssize_t, recv, MINUS_ONE, NOTHING, (int a, void *b, size_t c, int d), (a, b, c, d),       \
         ENOMEM, EINTR)                                                                            \
    CALL(ssize_t, send, MINUS_ONE, NOTHING, (int a, const void *b, size_t c, int d), (a, b, c, d), \
         ENOBUFS, EINTR)                                                                           \
    CALL(ssize_t, recvmsg, MINUS_ONE, NOTHING, (int a, struct msghdr *b, int c), (a, b, c),        \
         ENOMEM, EINTR)                                                                            \
    CALL(ssize_t, sendmsg, MINUS_ONE, NOTHING, (int a, const struct msghdr *b, int c), (a, b, c),  \
         ENOBUFS, EINTR)                                                                           \
    CALL(ssize_t, read, MINUS_ONE, NOTHING, (int a, void *b, size_t c), (a, b, c), EIO, EINTR)     \
    CALL(ssize_t, pread64, MINUS_ONE, NOTHING, (int a, void *b, size_t c, int64_t d),              \
         (a, b, c, d), EIO, EINTR)                                                                 \
    CALL(ssize_t, pwrite64, MINUS_ONE, NOTHING, (int a, const void *b, size_t c, int64_t d),       \
         (a, b, c, d), ENOSPC, EINTR)                                                              \
    CALL(int, fstat, MINUS_ONE, NOTHING, (int a, struct stat *b), (a, b), ENOMEM)                  \
    CALL(int, poll, MINUS_ONE, NOTHING, (struct pollfd * a, nfds_t b, int c), (a, b, c), ENOMEM,   \
         EINTR)                                                                                    \
    CALL(int, ppoll, MINUS_ONE, NOTHING,                                                           \
         (struct pollfd * a, nfds_t b, const struct timespec *c, const sigset_t *d), (a, b, c, d), \
         ENOMEM, EINTR)                                                                            \
    CALL(int, close, DONE_MINUS_ONE, NOTHING, (int a), (a), EIO, EINTR)                            \
    CALL(int, epoll_create1, MINUS_ONE, NOTHING, (int a), (a), EMFILE, ENOMEM)                     \
    CALL(int, epoll_ctl, MINUS_ONE, NOTHING, (int a, int b, int c, struct epoll_event *d),         \
         (a, b, c, d), ENOMEM, ENOSPC)                                                             \
    CALL(int, epoll_wait, MINUS_ONE, NOTHING, (int a, struct epoll_event *b, int c, int d),        \
         (a, b, c, d), EINTR)                                                                      \
    CALL(int, eventfd, MINUS_ONE, NOTHING, (unsigned a, int b), (a, b), EMFILE, ENOMEM)            \
    HWLOC_CALLS(CALL)                                                                              \
    URING_CALLS(CALL)

#define HWLOC_CALLS(CALL)                                                                          \
    CALL(hwloc_bitmap_t, hwloc_bitmap_alloc, ERRNO, BITMAP, (void), (), ENOMEM)                    \
    CALL(hwloc_bitmap_t, hwloc_bitmap_dup, ERRNO, BITMAP, (hwloc_const_bitmap_t a), (a), ENOMEM)   \
    CALL(int, hwloc_bitmap_copy, MINUS_ONE, NOTHING, (hwloc_bitmap_t a, hwloc_const_bitmap_t b),   \
         (a, b), ENOMEM)                                                                           \
    CALL(int, hwloc_bitmap_set, MINUS_ONE, NOTHING, (hwloc_bitmap_t a, unsigned b), (a, b),        \
         ENOMEM)                                                                                   \
    CALL(int, hwloc_bitmap_only, MINUS_ONE, NOTHING, (hwloc_bitmap_t a, unsigned b), (a, b),       \
         ENOMEM)                                                                                   \
    CALL(int, hwloc_bitmap_and, MINUS_ONE, NOTHING,                                                \
         (hwloc_bitmap_t a, hwloc_const_bitmap_t b, hwloc_const_bitmap_t c), (a, b, c), ENOMEM)    \
    CALL(int, hwloc_bitmap_or, MINUS_ONE, NOTHING,                                                 \
         (hwloc_bitmap_t a, hwloc_const_bitmap_t b, hwloc_const_bitmap_t c), (a, b, c), ENOMEM)    \
    CALL(int, hwloc_cpukinds_get_nr, MINUS_ONE, NOTHING, (hwloc_topology_t a, unsigned long b),    \
         (a, b), EINVAL)                                                                           \
    CALL(int, hwloc_cpukinds_get_by_cpuset, MINUS_ONE, NOTHING,                                    \
         (hwloc_topology_t a, hwloc_const_bitmap_t b, unsigned long c), (a, b, c), ENOENT, EXDEV)  \
    CALL(int, hwloc_get_cpubind, MINUS_ONE, NOTHING,                                               \
         (hwloc_topology_t a, hwloc_cpuset_t b, int c), (a, b, c), ENOSYS, ENOMEM)                 \
    CALL(int, hwloc_get_last_cpu_location, MINUS_ONE, NOTHING,                                     \
         (hwloc_topology_t a, hwloc_cpuset_t b, int c), (a, b, c), ENOSYS, ENOMEM)                 \
    CALL(int, hwloc_set_cpubind, MINUS_ONE, NOTHING,                                               \
         (hwloc_topology_t a, hwloc_const_cpuset_t b, int c), (a, b, c), EXDEV, EPERM)             \
    CALL(int, hwloc_set_area_membind, MINUS_ONE, NOTHING,                                          \
         (hwloc_topology_t a, const void *b, size_t c, hwloc_const_bitmap_t d,                     \
          hwloc_membind_policy_t e, int f),                                                        \
         (a, b, c, d, e, f), EPERM, ENOMEM)                                                        \
    CALL(int, hwloc_topology_init, MINUS_ONE, TOPOLOGY, (hwloc_topology_t * a), (a), ENOMEM)       \
    CALL(int, hwloc_topology_load, MINUS_ONE, NOTHING, (hwloc_topology_t a), (a), ENOMEM, EINVAL)  \
    CALL(int, hwloc_topology_set_flags, MINUS_ONE, NOTHING, (hwloc_topology_t a, unsigned long b), \
         (a, b), EINVAL)                                                                           \
    CALL(int, hwloc_topology_set_synthetic, MINUS_ONE, NOTHING,                                    \
         (hwloc_topology_t a, const char *b), (a, b), EINVAL)                                      \
    CALL(int, hwloc_topology_set_xml, MINUS_ONE, NOTHING, (hwloc_topology_t a, const char *b),     \
         (a, b), EINVAL, ENOSYS)

#ifdef UMBRA_URING
#define URING_CALLS(CALL)                                                                          \
    CALL(int, io_uring_queue_init_params, MINUS, NOTHING,                                          \
         (unsigned a, struct io_uring *b, struct io_uring_params *c), (a, b, c), ENOMEM, EMFILE,   \
         EPERM)                                                                                    \
    CALL(struct io_uring_probe *, io_uring_get_probe_ring, ERRNO, NOTHING, (struct io_uring * a),  \
         (a), ENOMEM)                                                                              \
    CALL(int, io_uring_register_files, MINUS, NOTHING,                                             \
         (struct io_uring * a, const int *b, unsigned c), (a, b, c), ENOMEM, EMFILE)               \
    CALL(int, io_uring_submit_and_get_events, MINUS, NOTHING, (struct io_uring * a), (a), EAGAIN,  \
         EBUSY, EINTR)                                                                             \
    CALL(int, io_uring_submit_and_wait, MINUS, NOTHING, (struct io_uring * a, unsigned b), (a, b), \
         EAGAIN, EBUSY, EINTR)                                                                     \
    CALL(int, io_uring_submit_and_wait_timeout, MINUS, NOTHING,                                    \
         (struct io_uring * a, struct io_uring_cqe * *b, unsigned c, struct __kernel_timespec *d,  \
          sigset_t *e),                                                                            \
         (a, b, c, d, e), EAGAIN, EBUSY, EINTR)
#else
#define URING_CALLS(CALL)
#endif

/* Calls by syscall(2). A number that is not here is not failed. */
#define NUMBERS(NUMBER)                                                                            \
    NUMBER(futex, MINUS_ONE, NOTHING, EINTR, EAGAIN)                                               \
    NUMBER(membarrier, MINUS_ONE, NOTHING, EPERM, ENOSYS)                                          \
    NUMBER(clone, MINUS_ONE, NOTHING, EAGAIN, ENOMEM)                                              \
    NUMBER(wait4, MINUS_ONE, NOTHING, ECHILD, EINTR)                                               \
    NUMBER(prctl, MINUS_ONE, NOTHING, EINVAL)                                                      \
    NUMBER(rt_sigprocmask, MINUS_ONE, NOTHING, EPERM)                                              \
    NUMBER(rt_sigaction, MINUS_ONE, NOTHING, EINVAL)                                               \
    NUMBER(sched_getaffinity, MINUS_ONE, NOTHING, EPERM)                                           \
    NUMBER(sched_setaffinity, MINUS_ONE, NOTHING, EPERM, EINVAL)                                   \
    NUMBER(mmap, MINUS_ONE, MAPPING, ENOMEM, EAGAIN)                                               \
    NUMBER(munmap, DONE_MINUS_ONE, NOTHING, ENOMEM)                                                \
    NUMBER(madvise, MINUS_ONE, NOTHING, EINVAL, ENOMEM)                                            \
    NUMBER(mprotect, MINUS_ONE, NOTHING, ENOMEM, EACCES)                                           \
    NUMBER(mincore, MINUS_ONE, NOTHING, EAGAIN, ENOMEM)                                            \
    NUMBER(move_pages, MINUS_ONE, NOTHING, ENOSYS, EPERM)                                          \
    NUMBER(getrusage, MINUS_ONE, NOTHING, EPERM)                                                   \
    NUMBER(write, MINUS_ONE, NOTHING, EIO, EINTR)                                                  \
    NUMBER(read, MINUS_ONE, NOTHING, EIO, EINTR)                                                   \
    NUMBER(openat, MINUS_ONE, NOTHING, EACCES, EMFILE)                                             \
    NUMBER(fcntl, MINUS_ONE, NOTHING, EMFILE)                                                      \
    NUMBER(flock, MINUS_ONE, NOTHING, ENOLCK, EAGAIN)                                              \
    NUMBER(ftruncate, MINUS_ONE, NOTHING, EIO, EINVAL)                                             \
    NUMBER(fallocate, MINUS_ONE, NOTHING, ENOSPC, EOPNOTSUPP, EINTR)                               \
    NUMBER(pwrite64, MINUS_ONE, NOTHING, ENOSPC, EINTR)                                            \
    NUMBER(unlinkat, MINUS_ONE, NOTHING, EACCES)                                                   \
    NUMBER(symlinkat, MINUS_ONE, NOTHING, EEXIST, EACCES)                                          \
    NUMBER(close, DONE_MINUS_ONE, NOTHING, EIO)                                                    \
    NUMBER(preadv2, MINUS_ONE, NOTHING, EOPNOTSUPP, EINTR, EIO)                                    \
    NUMBER(pwritev2, MINUS_ONE, NOTHING, EOPNOTSUPP, EINTR, ENOSPC)                                \
    NUMBER(rt_tgsigqueueinfo, MINUS_ONE, NOTHING, EAGAIN, EPERM)

/* Calls with wrappers of their own. fcntl: those that set flags. sigaltstack: those that set a
 * stack of Umbra's; a thread that is not on it can have its old one back. */
#define OTHERS(CALL)                                                                               \
    CALL(realloc, ENOMEM)                                                                          \
    CALL(getauxval, ENOENT)                                                                        \
    CALL(write, ENOSPC, EINTR)                                                                     \
    CALL(write_elsewhere, EINTR)                                                                   \
    CALL(which_cannot_fail, 0)                                                                     \
    CALL(sigaltstack, ENOMEM, EPERM)                                                               \
    CALL(fcntl, EPERM)

#endif
