/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The POSIX form of os.h: ISO C and pthreads, nothing that strict C11 hides. Private; included by
 * os.h only.
 *
 * Without a futex, threads sleep on a small table of mutexes and conditions; the word's address
 * chooses the entry. A wake-up is a broadcast, because two words may share an entry. No thread
 * sleeps longer than UM_POSIX_NAP_NS at a time: a waker in another shared object uses that object's
 * table, and conditions know only the calendar clock here, which may be set.
 */
#ifndef UMBRA_OS_POSIX_H
#define UMBRA_OS_POSIX_H

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_CHOSEN_OS um_chosen_posix

#define UM_POSIX_BEDS 16
#define UM_POSIX_NAP_NS 10000000

struct um_posix_bed {
    pthread_mutex_t lock;
    pthread_cond_t woken;
};

#define UM_POSIX_BED                                                                               \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER                                        \
    }
#define UM_POSIX_BED4 UM_POSIX_BED, UM_POSIX_BED, UM_POSIX_BED, UM_POSIX_BED

/* The table. A thread that sleeps or wakes takes the entry's lock. */
UM_SHARED(struct um_posix_bed um_posix_beds[UM_POSIX_BEDS],
          {UM_POSIX_BED4, UM_POSIX_BED4, UM_POSIX_BED4, UM_POSIX_BED4});

UM_LINKONCE uint64_t um_os_now_ns(void);

#ifdef UMBRA_IMPLEMENTATION
/*
 * The monotonic clock if the includer's feature macros show it, else the calendar clock. Link-once,
 * so that all files of a program use the same clock.
 */
UM_LINKONCE uint64_t um_os_now_ns(void)
{
    struct timespec now;

#ifdef CLOCK_MONOTONIC
    clock_gettime(CLOCK_MONOTONIC, &now);
#else
    timespec_get(&now, TIME_UTC);
#endif
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* After fork(2) the parent's sleepers and wakers are not in the child, but may have the locks. */
UM_LINKONCE UM_COLD void um_posix_beds_in_child(void)
{
    for (unsigned bed = 0; bed < UM_POSIX_BEDS; bed++) {
        pthread_mutex_init(&um_posix_beds[bed].lock, NULL);
        pthread_cond_init(&um_posix_beds[bed].woken, NULL);
    }
}
#endif /* UMBRA_IMPLEMENTATION */

UM_SHARED(pthread_once_t um_posix_beds_once, PTHREAD_ONCE_INIT);

UM_LINKONCE UM_COLD void um_posix_beds_init(void);

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD void um_posix_beds_init(void)
{
    pthread_atfork(NULL, NULL, um_posix_beds_in_child);
}

/* fork(2) leaves out a handler that another thread registers meanwhile. See os/fork.h, whose
 * handlers are registered later and so run later in the child, where they may wake threads. */
UM_LINKONCE UM_COLD __attribute__((__constructor__(101))) void um_posix_beds_at_load(void)
{
    pthread_once(&um_posix_beds_once, um_posix_beds_init);
}
#endif /* UMBRA_IMPLEMENTATION */

UM_INLINE struct um_posix_bed *um_posix_bed_of(const um_atomic_u32 *word)
{
    pthread_once(&um_posix_beds_once, um_posix_beds_init);
    return &um_posix_beds[((uintptr_t)word / 64) % UM_POSIX_BEDS];
}

/* A condition's deadline is on the calendar clock: that clock's time now, and what is left. */
UM_INLINE struct timespec um_posix_calendar(uint64_t left_ns)
{
    struct timespec at;
    uint64_t ns;

    timespec_get(&at, TIME_UTC);
    ns = (uint64_t)at.tv_nsec + left_ns % 1000000000u;
    at.tv_sec += (time_t)(left_ns / 1000000000u + ns / 1000000000u);
    at.tv_nsec = (long)(ns % 1000000000u);
    return at;
}

UM_LINKONCE UM_COLD int um_os_futex_wait(um_atomic_u32 *word, uint32_t expected,
                                         uint64_t deadline_ns);
UM_LINKONCE UM_COLD void um_os_futex_wake(um_atomic_u32 *word);

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD int um_os_futex_wait(um_atomic_u32 *word, uint32_t expected,
                                         uint64_t deadline_ns)
{
    struct um_posix_bed *bed = um_posix_bed_of(word);
    uint64_t now = um_os_now_ns();
    uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec until = um_posix_calendar(left < UM_POSIX_NAP_NS ? left : UM_POSIX_NAP_NS);

    pthread_mutex_lock(&bed->lock);
    /* relaxed: the waker changes the word before it takes this lock to broadcast */
    if (um_atomic_load(word, relaxed) == expected)
        pthread_cond_timedwait(&bed->woken, &bed->lock, &until);
    pthread_mutex_unlock(&bed->lock);
    return um_os_now_ns() >= deadline_ns ? -ETIMEDOUT : 0;
}

UM_LINKONCE UM_COLD void um_os_futex_wake(um_atomic_u32 *word)
{
    struct um_posix_bed *bed = um_posix_bed_of(word);

    pthread_mutex_lock(&bed->lock);
    pthread_cond_broadcast(&bed->woken);
    pthread_mutex_unlock(&bed->lock);
}
#endif /* UMBRA_IMPLEMENTATION */

/* There is no such call. */
UM_INLINE bool um_os_may_fence_threads(void)
{
    return false;
}

UM_INLINE void um_os_fence_threads(void)
{
}

UM_INLINE unsigned long um_os_hwcap(unsigned which)
{
    (void)which;
    return 0;
}

UM_INLINE uint64_t um_os_riscv_hwprobe(int64_t key)
{
    (void)key;
    return 0;
}

UM_INLINE int um_os_try(void (*fn)(void *), void *arg)
{
    (void)fn;
    (void)arg;
    return -ENOSYS;
}

UM_INLINE int um_os_nth_cpu(unsigned n)
{
    return (int)n;
}

UM_INLINE int um_os_bind_cpu(int cpu)
{
    (void)cpu;
    return 0;
}

UM_INLINE void um_os_leave_for(int cpu)
{
    (void)cpu;
}

UM_INLINE uint32_t um_os_process(void)
{
    return (uint32_t)getpid();
}

UM_SHARED(um_atomic_u32 um_posix_threads, 0); /* how many numbers were given; any thread */

UM_INLINE uint32_t um_os_thread(void)
{
    return um_atomic_fetch_add(&um_posix_threads, 1, relaxed); /* only a number */
}

/* The signals that ISO C knows, and those that the includer's feature macros show. */
UM_INLINE bool um_os_signal_fatal(int number)
{
#ifdef SIGBUS
    if (number == SIGBUS)
        return true;
#endif
#ifdef SIGTRAP
    if (number == SIGTRAP)
        return true;
#endif
#ifdef SIGSYS
    if (number == SIGSYS)
        return true;
#endif
#ifdef SIGKILL
    if (number == SIGKILL || number == SIGSTOP)
        return true;
#endif
    return number == SIGSEGV || number == SIGILL || number == SIGFPE || number == SIGABRT;
}

/* Strict C11 shows no signal masks: handlers may run in any thread. */
UM_INLINE uint64_t um_os_mask_signals(void)
{
    return 0;
}

UM_INLINE void um_os_unmask_signals(uint64_t saved)
{
    (void)saved;
}

/* ---- memory: from the heap, without guards ---- */

UM_LINKONCE UM_COLD void *um_os_map(size_t bytes);
UM_LINKONCE UM_COLD void um_os_unmap(void *at, size_t bytes);

#ifdef UMBRA_IMPLEMENTATION
/* By calloc, which need not touch fresh memory to clear it; its pointer stands just below `at`. */
UM_LINKONCE UM_COLD void *um_os_map(size_t bytes)
{
    void *all = bytes < SIZE_MAX - UM_OS_PAGE ? calloc(1, bytes + UM_OS_PAGE) : NULL;
    char *at;

    if (!all)
        return NULL;
    at = (char *)all + UM_OS_PAGE - (uintptr_t)all % UM_OS_PAGE;
    memcpy(at - sizeof(all), &all, sizeof(all));
    return at;
}

UM_LINKONCE UM_COLD void um_os_unmap(void *at, size_t bytes)
{
    void *all;

    (void)bytes;
    memcpy(&all, (char *)at - sizeof(all), sizeof(all));
    free(all);
}
#endif /* UMBRA_IMPLEMENTATION */

UM_INLINE void *um_os_map_data(size_t bytes)
{
    return um_os_map(bytes);
}

UM_INLINE void um_os_drop(void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
}

UM_INLINE int um_os_advise_huge(void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
    return -ENOSYS;
}

UM_INLINE size_t um_os_huge_bytes(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
    return 0;
}

UM_INLINE int um_os_page_nodes(const void *at, size_t pages, int *nodes)
{
    (void)at;
    (void)pages;
    (void)nodes;
    return -ENOSYS;
}

UM_INLINE int um_os_guard(void *at, size_t bytes, int how)
{
    (void)at;
    (void)bytes;
    return how == UM_GUARD_NONE ? 0 : -ENOSYS;
}

UM_INLINE bool um_os_faults(const void *at)
{
    (void)at;
    return false;
}

UM_INLINE bool um_os_resident(const void *page)
{
    (void)page;
    return true; /* not known: the caller may touch it */
}

UM_INLINE uint64_t um_os_preempted(void)
{
    return UM_OS_UNKNOWN;
}

UM_INLINE size_t um_os_least_stack(void)
{
    return 2048; /* MINSIGSTKSZ, where it is a constant */
}

UM_INLINE size_t um_os_page_bytes(void)
{
    return UM_OS_PAGE;
}

#ifdef UMBRA_IMPLEMENTATION
/* Standard error only: ISO C knows no file descriptors. */
UM_LINKONCE UM_COLD int um_os_write(int fd, const void *at, size_t bytes)
{
    if (fd != 2)
        return -ENOSYS;
    return fwrite(at, 1, bytes, stderr) == bytes ? 0 : -EIO;
}
#endif /* UMBRA_IMPLEMENTATION */

UM_INLINE int um_os_create(const char *path, bool anew)
{
    (void)path;
    (void)anew;
    return -ENOSYS;
}

UM_INLINE int um_os_extend(int fd, uint64_t from, size_t bytes, void **memory)
{
    (void)fd;
    (void)from;
    (void)bytes;
    (void)memory;
    return -ENOSYS;
}

UM_INLINE void um_os_empty(int fd, uint64_t from, size_t bytes)
{
    (void)fd;
    (void)from;
    (void)bytes;
}

UM_INLINE int um_os_link_to(int fd, const char *path)
{
    (void)fd;
    (void)path;
    return -ENOSYS;
}

UM_INLINE void um_os_unlink(const char *path)
{
    (void)path;
}

UM_INLINE void um_os_close(int fd)
{
    (void)fd;
}

UM_INLINE size_t um_os_objects(char *text, size_t bytes)
{
    (void)bytes;
    return strlen(text);
}

UM_INLINE bool um_os_symbol(const void *at, struct um_os_symbol *symbol)
{
    (void)at;
    (void)symbol;
    return false;
}

UM_INLINE void um_os_keep_loaded(void)
{
}

UM_INLINE unsigned um_os_quota(void)
{
    return 0;
}

#endif
