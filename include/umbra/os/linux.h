/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The Linux form of os.h. Private; included by os.h only.
 *
 * Strict C11 hides syscall() and clock_gettime(); only _GNU_SOURCE shows dladdr(). They are
 * declared here by their fixed ABI, which glibc and musl both have on 64-bit processors, and under
 * names of our own: a declaration under the C library's name would have to agree with the C
 * library's declaration.
 */
#ifndef UMBRA_OS_LINUX_H
#define UMBRA_OS_LINUX_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_CHOSEN_OS um_chosen_linux

extern long um_linux_syscall(long number, ...) __asm__("syscall");
extern int um_linux_clock_gettime(int clock, struct timespec *now) __asm__("clock_gettime");
/* weak, both: they are in libdl before glibc 2.34 */
extern int um_linux_dladdr(const void *address, void *info) __asm__("dladdr")
    __attribute__((__weak__));
extern void *um_linux_dlopen(const char *file, int mode) __asm__("dlopen")
    __attribute__((__weak__));

#define UM_LINUX_CLOCK_MONOTONIC 1
#define UM_LINUX_FUTEX_WAKE_PRIVATE (1 | 128)
#define UM_LINUX_FUTEX_WAIT_BITSET_PRIVATE (9 | 128) /* its timeout is absolute */
#define UM_LINUX_FUTEX_ANY 0xffffffffu
#define UM_LINUX_WAIT_ANY_CHILD 0x40000000 /* __WALL: the child sends no signal when it ends */
#define UM_LINUX_PR_SET_DUMPABLE 4
#define UM_LINUX_SIGNALS 64
#define UM_LINUX_AT_FDCWD (-100)
#define UM_LINUX_MAP_SHARED 1
#define UM_LINUX_LOCK_EX 2
#define UM_LINUX_LOCK_NB 4
#define UM_LINUX_KEEP_SIZE 1 /* fallocate(2)'s FALLOC_FL_KEEP_SIZE */
#define UM_LINUX_PUNCH_HOLE 2
#define UM_LINUX_O_CLOEXEC 02000000   /* strict C11 hides it; the same on all processors here */
#define UM_LINUX_F_DUPFD_CLOEXEC 1030 /* likewise */
#define UM_LINUX_SYS_RISCV_HWPROBE 258
#define UM_LINUX_RTLD_LAZY 1
#define UM_LINUX_RTLD_NOLOAD 4
#define UM_LINUX_RTLD_NODELETE 0x1000

UM_INLINE uint64_t um_os_now_ns(void)
{
    struct timespec now;

    um_linux_clock_gettime(UM_LINUX_CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

UM_LINKONCE UM_COLD int um_os_futex_wait(um_atomic_u32 *word, uint32_t expected,
                                         uint64_t deadline_ns);
UM_LINKONCE UM_COLD void um_os_futex_wake(um_atomic_u32 *word);

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD int um_os_futex_wait(um_atomic_u32 *word, uint32_t expected,
                                         uint64_t deadline_ns)
{
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                .tv_nsec = (long)(deadline_ns % 1000000000u)};
    int saved = errno;
    int result = 0;

    if (um_linux_syscall(SYS_futex, word, UM_LINUX_FUTEX_WAIT_BITSET_PRIVATE, expected,
                         deadline_ns == UMBRA_NEVER ? NULL : &deadline, NULL,
                         UM_LINUX_FUTEX_ANY) != 0)
        result = errno == EAGAIN ? 0 : -errno;
    errno = saved;
    return result;
}

UM_LINKONCE UM_COLD void um_os_futex_wake(um_atomic_u32 *word)
{
    int saved = errno;

    um_linux_syscall(SYS_futex, word, UM_LINUX_FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}
#endif /* UMBRA_IMPLEMENTATION */

#define UM_LINUX_MEMBARRIER_GLOBAL 1
#define UM_LINUX_MEMBARRIER_PRIVATE 8
#define UM_LINUX_MEMBARRIER_REGISTER_PRIVATE 16

UM_LINKONCE UM_COLD bool um_os_may_fence_threads(void);
UM_LINKONCE UM_COLD void um_os_fence_threads(void);

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD bool um_os_may_fence_threads(void)
{
    int saved = errno;
    long result = um_linux_syscall(SYS_membarrier, UM_LINUX_MEMBARRIER_REGISTER_PRIVATE, 0, 0);

    errno = saved;
    return result == 0;
}

/*
 * The second form needs no registration: for a process that lost it, and it takes milliseconds. A
 * filter that was set since (seccomp(2)) may forbid both, and kernels with nohz_full have no second
 * form. Then a pause, in which each processor has long made visible what it had stored before.
 */
#define UM_LINUX_STORES_NS 1000000
UM_LINKONCE UM_COLD void um_os_fence_threads(void)
{
    int saved = errno;

    if (um_linux_syscall(SYS_membarrier, UM_LINUX_MEMBARRIER_PRIVATE, 0, 0) != 0 &&
        um_linux_syscall(SYS_membarrier, UM_LINUX_MEMBARRIER_GLOBAL, 0, 0) != 0) {
        um_atomic_u32 word = 0; /* no thread wakes it */
        uint64_t end = um_os_now_ns() + UM_LINUX_STORES_NS;

        while (um_os_now_ns() < end)
            um_os_futex_wait(&word, 0, end);
    }
    errno = saved;
}
#endif /* UMBRA_IMPLEMENTATION */

UM_INLINE unsigned long um_os_hwcap(unsigned which)
{
    int saved = errno;
    unsigned long value = getauxval(which);

    errno = saved; /* getauxval reports an absent entry there */
    return value;
}

UM_INLINE uint64_t um_os_riscv_hwprobe(int64_t key)
{
    struct {
        int64_t key;
        uint64_t value;
    } pair = {key, 0};
    int saved = errno;
    long result = um_linux_syscall(UM_LINUX_SYS_RISCV_HWPROBE, &pair, 1, 0, NULL, 0);

    errno = saved;
    return result == 0 && pair.key == key ? pair.value : 0;
}

#define UM_LINUX_SIG_SETMASK 2

UM_INLINE uint64_t um_linux_set_signals(uint64_t mask)
{
    uint64_t before = 0;
    int saved = errno;

    um_linux_syscall(SYS_rt_sigprocmask, UM_LINUX_SIG_SETMASK, &mask, &before, sizeof(mask));
    errno = saved;
    return before;
}

UM_LINKONCE UM_COLD int um_os_try(void (*fn)(void *), void *arg);

#ifdef UMBRA_IMPLEMENTATION
/*
 * The child's signals end it, or do nothing, as if the program had no handlers: one that does not
 * return would run the program on in the child. SIG_DFL is 0 and the rest of the kernel's struct
 * may be: four words at most.
 */
UM_LINKONCE UM_COLD void um_linux_forget_handlers(void)
{
    const unsigned long by_default[4] = {0};

    for (long number = 1; number <= UM_LINUX_SIGNALS; number++)
        um_linux_syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof(uint64_t));
}

/*
 * A raw clone without CLONE_VM: a copy of the process runs fn and ends. No atfork handler runs, and
 * no SIGCHLD is sent. Signals wait until the child has no handlers.
 */
UM_LINKONCE UM_COLD int um_os_try(void (*fn)(void *), void *arg)
{
    int saved = errno;
    int status = 0;
    uint64_t signals = um_linux_set_signals(UINT64_MAX);
    long child = um_linux_syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
    long ended;

    if (child < 0) /* qemu-user only has the form that sends a signal */
        child = um_linux_syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0)
        um_linux_forget_handlers();
    um_linux_set_signals(signals);
    if (child == 0) {
        um_linux_syscall(SYS_prctl, UM_LINUX_PR_SET_DUMPABLE, 0L, 0L, 0L, 0L); /* no core file */
        fn(arg);
        um_linux_syscall(SYS_exit_group, 0);
    }
    if (child < 0) {
        errno = saved;
        return -ENOSYS;
    }
    do {
        ended = um_linux_syscall(SYS_wait4, child, &status, UM_LINUX_WAIT_ANY_CHILD, NULL);
    } while (ended < 0 && errno == EINTR);
    errno = saved;
    if (ended != child)
        return -ENOSYS;
    return status == 0 ? 0 : -EOPNOTSUPP;
}
#endif /* UMBRA_IMPLEMENTATION */

#define UM_LINUX_MASK_BITS (8 * (int)sizeof(unsigned long))
#define UM_LINUX_MASK_WORDS 128 /* 8192 processors, as many as a kernel is built for */

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD int um_os_nth_cpu(unsigned n)
{
    unsigned long usable[UM_LINUX_MASK_WORDS] = {0};
    int saved = errno;

    um_linux_syscall(SYS_sched_getaffinity, 0, sizeof(usable), usable);
    errno = saved;
    for (int cpu = 0; cpu < UM_LINUX_MASK_WORDS * UM_LINUX_MASK_BITS; cpu++)
        if ((usable[cpu / UM_LINUX_MASK_BITS] >> cpu % UM_LINUX_MASK_BITS & 1) && n-- == 0)
            return cpu;
    return -ENODEV;
}

UM_LINKONCE UM_COLD int um_os_bind_cpu(int cpu)
{
    unsigned long one[UM_LINUX_MASK_WORDS] = {0};
    int saved = errno;
    int result;

    if (cpu < 0 || cpu >= UM_LINUX_MASK_WORDS * UM_LINUX_MASK_BITS)
        return -ENODEV;
    one[cpu / UM_LINUX_MASK_BITS] = 1ul << cpu % UM_LINUX_MASK_BITS;
    result = um_linux_syscall(SYS_sched_setaffinity, 0, sizeof(one), one) == 0 ? 0 : -errno;
    errno = saved;
    return result;
}

UM_LINKONCE UM_COLD void um_os_leave_for(int cpu)
{
    unsigned long usable[UM_LINUX_MASK_WORDS] = {0};
    unsigned long one[UM_LINUX_MASK_WORDS] = {0};
    unsigned long now[UM_LINUX_MASK_WORDS] = {0};
    int saved = errno;
    long bytes = um_linux_syscall(SYS_sched_getaffinity, 0, sizeof(usable), usable);

    if (bytes > 0 && cpu >= 0 && cpu < (int)bytes * 8)
        one[cpu / UM_LINUX_MASK_BITS] =
            usable[cpu / UM_LINUX_MASK_BITS] & 1ul << cpu % UM_LINUX_MASK_BITS;
    /* what another thread has set since stays: the move may have taken long */
    if (um_linux_syscall(SYS_sched_setaffinity, 0, sizeof(one), one) == 0 &&
        (um_linux_syscall(SYS_sched_getaffinity, 0, sizeof(now), now) != bytes ||
         memcmp(now, one, sizeof(one)) == 0))
        um_linux_syscall(SYS_sched_setaffinity, 0, (size_t)bytes, usable);
    errno = saved;
}
#endif /* UMBRA_IMPLEMENTATION */

UM_INLINE uint32_t um_os_process(void)
{
    return (uint32_t)um_linux_syscall(SYS_getpid);
}

UM_INLINE uint32_t um_os_thread(void)
{
    return (uint32_t)um_linux_syscall(SYS_gettid);
}

/* Signal n is bit n - 1: ILL TRAP ABRT BUS FPE KILL SEGV, STOP, SYS */
#define UM_LINUX_FATAL_SIGNALS (UINT64_C(0xbf) << 3 | UINT64_C(1) << 18 | UINT64_C(1) << 30)

UM_INLINE bool um_os_signal_fatal(int number)
{
    return (UM_LINUX_FATAL_SIGNALS >> (number - 1) & 1) != 0;
}

/* Signal n is bit n - 1: ILL TRAP BUS FPE SEGV, VTALRM PROF, SYS, and glibc's 32 to 34 */
#define UM_LINUX_KEPT_SIGNALS                                                                      \
    (UINT64_C(1) << 3 | UINT64_C(1) << 4 | UINT64_C(1) << 6 | UINT64_C(1) << 7 |                   \
     UINT64_C(1) << 10 | UINT64_C(1) << 25 | UINT64_C(1) << 26 | UINT64_C(1) << 30 |               \
     UINT64_C(7) << 31)
UM_INLINE uint64_t um_os_mask_signals(void)
{
    return um_linux_set_signals(~UM_LINUX_KEPT_SIGNALS);
}

UM_INLINE void um_os_unmask_signals(uint64_t saved)
{
    um_linux_set_signals(saved);
}

/* ---- memory ---- */

#define UM_LINUX_PROT_READ_WRITE 3
#define UM_LINUX_PROT_NONE 0
#if defined(__powerpc__) || defined(__sparc__)
#define UM_LINUX_MAP_NORESERVE 0x40
#else
#define UM_LINUX_MAP_NORESERVE 0x4000
#endif
#define UM_LINUX_MAP_PRIVATE_ANONYMOUS 0x22
#define UM_LINUX_MADV_DONTNEED 4
#define UM_LINUX_MADV_DONTFORK 10
#define UM_LINUX_MADV_HUGEPAGE 14
#define UM_LINUX_MADV_NOHUGEPAGE 15
#define UM_LINUX_MADV_POPULATE_READ 22
#define UM_LINUX_MADV_GUARD_INSTALL 102
#define UM_LINUX_AT_PAGESZ 6
#define UM_LINUX_AT_MINSIGSTKSZ 51
#define UM_LINUX_LEAST_SIGSTKSZ 2048
#define UM_LINUX_RUSAGE_THREAD 1
#define UM_LINUX_RUSAGE_WORDS 18 /* two times of two words each, and 14 counts */
#define UM_LINUX_RUSAGE_NIVCSW 17

UM_INLINE size_t um_os_page_bytes(void)
{
    return um_os_hwcap(UM_LINUX_AT_PAGESZ);
}

UM_LINKONCE int um_os_guard(void *at, size_t bytes, int how);
UM_LINKONCE UM_COLD int um_os_page_nodes(const void *at, size_t pages, int *nodes);

#ifdef UMBRA_IMPLEMENTATION
/* No huge pages: a stack that uses one page must not cost 2 MiB. */
UM_LINKONCE UM_COLD void *um_os_map(size_t bytes)
{
    int saved = errno;
    long at = um_linux_syscall(SYS_mmap, NULL, bytes, UM_LINUX_PROT_READ_WRITE,
                               UM_LINUX_MAP_PRIVATE_ANONYMOUS | UM_LINUX_MAP_NORESERVE, -1, 0L);

    if (at != -1)
        um_linux_syscall(SYS_madvise, at, bytes, UM_LINUX_MADV_NOHUGEPAGE);
    errno = saved;
    return at == -1 ? NULL : (void *)at;
}

UM_LINKONCE UM_COLD void *um_os_map_data(size_t bytes)
{
    int saved = errno;
    long at = um_linux_syscall(SYS_mmap, NULL, bytes, UM_LINUX_PROT_READ_WRITE,
                               UM_LINUX_MAP_PRIVATE_ANONYMOUS, -1, 0L);

    errno = saved;
    return at == -1 ? NULL : (void *)at;
}

UM_LINKONCE UM_COLD void um_os_unmap(void *at, size_t bytes)
{
    int saved = errno;

    um_linux_syscall(SYS_munmap, at, bytes);
    errno = saved;
}

UM_LINKONCE UM_COLD void um_os_drop(void *at, size_t bytes)
{
    int saved = errno;

    um_linux_syscall(SYS_madvise, at, bytes, UM_LINUX_MADV_DONTNEED);
    errno = saved;
}

UM_LINKONCE UM_COLD int um_os_advise_huge(void *at, size_t bytes)
{
    int saved = errno;
    int error = 0;

    if (um_linux_syscall(SYS_madvise, at, bytes, UM_LINUX_MADV_HUGEPAGE) != 0)
        error = -errno;
    errno = saved;
    return error;
}

/*
 * The kernel counts huge pages for each mapping, in smaps(5). Of a mapping that is larger than the
 * area no more than the overlap counts, so the sum is exact where the area has mappings of its
 * own, and else a bound.
 */
UM_LINKONCE UM_COLD size_t um_os_huge_bytes(const void *at, size_t bytes)
{
    static const char field[] = "AnonHugePages:";
    uintptr_t low = (uintptr_t)at, high = low + bytes, begin, end;
    size_t overlap = 0, sum = 0, kib;
    int saved = errno;
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];

    while (maps && fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%zx-%zx ", &begin, &end) == 2) {
            begin = begin > low ? begin : low;
            end = end < high ? end : high;
            overlap = begin < end ? end - begin : 0;
        } else if (overlap > 0 && strncmp(line, field, sizeof(field) - 1) == 0 &&
                   sscanf(line + sizeof(field) - 1, "%zu", &kib) == 1) {
            sum += kib * 1024 < overlap ? kib * 1024 : overlap;
        }
    }
    if (maps)
        fclose(maps);
    errno = saved;
    return sum;
}

#define UM_LINUX_PAGES_AT_ONCE 256

/* By move_pages(2) without targets, which only asks. */
UM_LINKONCE UM_COLD int um_os_page_nodes(const void *at, size_t pages, int *nodes)
{
    size_t page_bytes = um_os_page_bytes();
    const void *page[UM_LINUX_PAGES_AT_ONCE];
    int saved = errno;
    int error = 0;

    for (size_t done = 0, some; done < pages && error == 0; done += some) {
        some = pages - done < UM_LINUX_PAGES_AT_ONCE ? pages - done : UM_LINUX_PAGES_AT_ONCE;
        for (size_t i = 0; i < some; i++)
            page[i] = (const char *)at + (done + i) * page_bytes;
        if (um_linux_syscall(SYS_move_pages, 0L, some, page, NULL, nodes + done, 0L) != 0)
            error = -errno;
        for (size_t i = 0; i < some && error == 0; i++)
            nodes[done + i] = nodes[done + i] < 0 ? -1 : nodes[done + i];
    }
    errno = saved;
    return error;
}

UM_LINKONCE int um_os_guard(void *at, size_t bytes, int how)
{
    int saved = errno;
    int error = 0;

    if (how == UM_GUARD_ADVICE)
        error =
            um_linux_syscall(SYS_madvise, at, bytes, UM_LINUX_MADV_GUARD_INSTALL) == 0 ? 0 : -errno;
    else if (how == UM_GUARD_PROTECTION)
        error = um_linux_syscall(SYS_mprotect, at, bytes, UM_LINUX_PROT_NONE) == 0 ? 0 : -errno;
    errno = saved;
    return error;
}

/*
 * True if the kernel finds no way to make a page readable. The result of the other advice is not
 * trusted, since emulators accept advice that they do not know, as this one then. A kernel that has
 * guards has this advice. No descriptor is needed, of which none may be left.
 */
UM_LINKONCE UM_COLD bool um_os_faults(const void *at)
{
    int saved = errno;
    bool faults =
        um_linux_syscall(SYS_madvise, at, um_os_page_bytes(), UM_LINUX_MADV_POPULATE_READ) == -1 &&
        errno == EFAULT;

    errno = saved;
    return faults;
}

UM_LINKONCE UM_COLD bool um_os_resident(const void *page)
{
    unsigned char in_memory = 0;
    int saved = errno;
    bool known = um_linux_syscall(SYS_mincore, page, 1L, &in_memory) == 0;

    errno = saved;
    return !known || (in_memory & 1);
}

/* The involuntary switches that getrusage() counts: see struct rusage in <sys/resource.h>. */
UM_LINKONCE UM_COLD uint64_t um_os_preempted(void)
{
    long usage[UM_LINUX_RUSAGE_WORDS] = {0};
    int saved = errno;

    um_linux_syscall(SYS_getrusage, (long)UM_LINUX_RUSAGE_THREAD, usage);
    errno = saved;
    return (uint64_t)usage[UM_LINUX_RUSAGE_NIVCSW];
}

UM_LINKONCE UM_COLD size_t um_os_least_stack(void)
{
    size_t bytes = um_os_hwcap(UM_LINUX_AT_MINSIGSTKSZ);

    return bytes > UM_LINUX_LEAST_SIGSTKSZ ? bytes : UM_LINUX_LEAST_SIGSTKSZ;
}
#endif /* UMBRA_IMPLEMENTATION */

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD int um_os_write(int fd, const void *at, size_t bytes)
{
    int saved = errno;
    int error = 0;

    while (bytes > 0 && error == 0) {
        long written = um_linux_syscall(SYS_write, fd, at, bytes);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            error = written < 0 ? -errno : -EIO;
            continue;
        }
        at = (const char *)at + written;
        bytes -= (size_t)written;
    }
    errno = saved;
    return error;
}

/* Opens a file for um_os_extend(), not as a standard stream that is closed. */
UM_LINKONCE UM_COLD int um_linux_open(const char *path, int flags, int mode)
{
    long fd = um_linux_syscall(SYS_openat, UM_LINUX_AT_FDCWD, path,
                               O_RDWR | O_CREAT | UM_LINUX_O_CLOEXEC | flags, mode);
    int error = fd < 0 ? -errno : 0;

    if (fd >= 0 && fd <= 2) {
        long low = fd;

        fd = um_linux_syscall(SYS_fcntl, low, UM_LINUX_F_DUPFD_CLOEXEC, 3);
        error = fd < 0 ? -errno : 0;
        um_linux_syscall(SYS_close, low);
    }
    return error < 0 ? error : (int)fd;
}

/* The lock tells a file that a process maps, which would get SIGBUS if the file became shorter. */
UM_LINKONCE UM_COLD int um_os_create(const char *path, bool anew)
{
    int saved = errno, error = 0;
    int fd;

    if (anew)
        um_linux_syscall(SYS_unlinkat, UM_LINUX_AT_FDCWD, path, 0);
    fd = um_linux_open(path, anew ? O_EXCL : 0, anew ? 0600 : 0666);
    if (fd >= 0 && um_linux_syscall(SYS_flock, fd, UM_LINUX_LOCK_EX | UM_LINUX_LOCK_NB) != 0 &&
        errno == EAGAIN)
        error = -EBUSY;
    if (fd >= 0 && error == 0 && um_linux_syscall(SYS_ftruncate, fd, 0L) != 0)
        error = -errno;
    if (error != 0)
        um_linux_syscall(SYS_close, fd);
    errno = saved;
    return error != 0 ? error : fd;
}

/* Where the file system cannot reserve places, zeros are written. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_linux_reserve(int fd, uint64_t from, size_t bytes)
{
    static const char zeros[UM_OS_PAGE];
    long result;

    do {
        result = um_linux_syscall(SYS_fallocate, fd, 0, from, bytes);
    } while (result != 0 && errno == EINTR);
    if (result == 0 || errno != EOPNOTSUPP)
        return result == 0 ? 0 : -errno;
    for (uint64_t at = from; at < from + bytes; at += (uint64_t)result) {
        do {
            result = um_linux_syscall(SYS_pwrite64, fd, zeros, sizeof(zeros), at);
        } while (result < 0 && errno == EINTR);
        if (result <= 0)
            return result < 0 ? -errno : -EIO;
    }
    return 0;
}

UM_LINKONCE UM_COLD int um_os_extend(int fd, uint64_t from, size_t bytes, void **memory)
{
    int saved = errno;
    int error = um_linux_reserve(fd, from, bytes);
    long at = -1;

    if (error == 0) {
        at = um_linux_syscall(SYS_mmap, NULL, bytes, UM_LINUX_PROT_READ_WRITE, UM_LINUX_MAP_SHARED,
                              fd, from);
        error = at == -1 ? -errno : 0;
    }
    if (error == 0) {
        um_linux_syscall(SYS_madvise, at, bytes, UM_LINUX_MADV_DONTFORK);
        *memory = (void *)at;
    } else { /* what was reserved before there was no place left */
        um_linux_syscall(SYS_ftruncate, fd, from);
    }
    errno = saved;
    return error;
}

UM_LINKONCE UM_COLD void um_os_empty(int fd, uint64_t from, size_t bytes)
{
    int saved = errno;

    um_linux_syscall(SYS_fallocate, fd, UM_LINUX_PUNCH_HOLE | UM_LINUX_KEEP_SIZE, from, bytes);
    errno = saved;
}

UM_LINKONCE UM_COLD int um_os_link_to(int fd, const char *path)
{
    int saved = errno, error = 0;
    char target[64];

    snprintf(target, sizeof(target), "/proc/%u/fd/%d", (unsigned)um_os_process(), fd);
    um_linux_syscall(SYS_unlinkat, UM_LINUX_AT_FDCWD, path, 0);
    if (um_linux_syscall(SYS_symlinkat, target, UM_LINUX_AT_FDCWD, path) != 0)
        error = -errno;
    errno = saved;
    return error;
}

UM_LINKONCE UM_COLD size_t um_os_objects(char *text, size_t bytes)
{
    int saved = errno;
    FILE *maps = fopen("/proc/self/maps", "r");
    size_t length = strlen(text);
    char line[512];

    while (maps && fgets(line, sizeof(line), maps)) {
        size_t more = strlen(line);

        if (line[more - 1] == '\n' && strstr(line, " r-xp ") && strchr(line, '/') &&
            !strstr(text, line) && length + more < bytes) {
            memcpy(text + length, line, more + 1);
            length += more;
        }
    }
    if (maps)
        fclose(maps);
    errno = saved;
    return length;
}

UM_LINKONCE UM_COLD void um_os_unlink(const char *path)
{
    int saved = errno;

    um_linux_syscall(SYS_unlinkat, UM_LINUX_AT_FDCWD, path, 0);
    errno = saved;
}

UM_LINKONCE UM_COLD void um_os_close(int fd)
{
    int saved = errno;

    um_linux_syscall(SYS_close, fd);
    errno = saved;
}

UM_LINKONCE UM_COLD bool um_os_symbol(const void *at, struct um_os_symbol *symbol)
{
    struct { /* Dl_info, the same in glibc and musl */
        const char *file;
        void *base;
        const char *name;
        void *address;
    } info;

    if (!um_linux_dladdr || um_linux_dladdr(at, &info) == 0 || !info.file)
        return false;
    *symbol = (struct um_os_symbol){info.file, info.base, info.name, info.address};
    return true;
}

/* glibc finds an object that is loaded by its name, and looks at no file. musl unloads nothing. */
UM_LINKONCE UM_COLD void um_os_keep_loaded(void)
{
    const void *headers = (const void *)(uintptr_t)getauxval(AT_PHDR);
    struct um_os_symbol own, program;

    if (um_linux_dlopen && um_os_symbol((const void *)(uintptr_t)um_os_keep_loaded, &own) &&
        um_os_symbol(headers, &program) && own.base != program.base)
        um_linux_dlopen(own.file,
                        UM_LINUX_RTLD_LAZY | UM_LINUX_RTLD_NOLOAD | UM_LINUX_RTLD_NODELETE);
}
#endif /* UMBRA_IMPLEMENTATION */

#endif
