/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The operating system, as the library needs it. Private.
 *
 * Two forms with the same short list of functions: os/linux.h (futex, auxiliary vector, a trial of
 * an instruction in a child process) and os/posix.h (ISO C and pthreads only). UMBRA_POSIX_ONLY
 * forces the second form on Linux. Any thread may call any function.
 *
 *   uint64_t um_os_now_ns(void)                          monotonic clock, ns
 *   int um_os_futex_wait(word, expected, deadline_ns)    sleep while *word == expected
 *   void um_os_futex_wake(word)                          wake one sleeper on word
 *   void um_os_rouse(word, how)                          wake it there, or at a bell; see below
 *   unsigned long um_os_hwcap(unsigned which)            entry of the auxiliary vector, or 0
 *   uint64_t um_os_riscv_hwprobe(int64_t key)            value of a RISC-V probe key, or 0
 *   int um_os_try(void (*fn)(void *), void *arg)         runs fn in a child process; see below
 *   int um_os_nth_cpu(unsigned n)                        a processor that the caller may use
 *   int um_os_bind_cpu(int cpu)                          bind the caller to a processor
 *   void um_os_leave_for(int cpu)                        move the caller there, and bind it not
 *   uint32_t um_os_process(void)                         this process's id
 *   uint32_t um_os_thread(void)                          a number of the caller's; see below
 *   bool um_os_signal_fatal(int number)                  true: a fault's, or it cannot be handled
 *   uint64_t um_os_mask_signals(void)                    block signals in this thread; see below
 *   void um_os_unmask_signals(uint64_t saved)            undo that
 *   void *um_os_map(size_t bytes)                        fresh zeroed memory, or NULL
 *   void *um_os_map_data(size_t bytes)                   the same for data; see below
 *   void um_os_unmap(void *at, size_t bytes)             give all of either back
 *   void um_os_drop(void *at, size_t bytes)              pages need no memory until they are
 *                                                        touched again, and are zero then; see below
 *   int um_os_advise_huge(void *at, size_t bytes)        ask for huge pages
 *   size_t um_os_huge_bytes(const void *at, size_t bytes)
 *                                                        how much lies on huge pages
 *   int um_os_page_nodes(const void *at, size_t pages, int *nodes)
 *                                                        where pages are; see below
 *   int um_os_guard(void *at, size_t bytes, int how)     make pages fault; how: enum um_guard
 *   bool um_os_faults(const void *at)                    true: the kernel finds it unreadable
 *   bool um_os_resident(const void *page)                true: it is in memory, or that is not known
 *   size_t um_os_page_bytes(void)                        size of a page
 *   size_t um_os_least_stack(void)                       what a signal's frame takes, bytes
 *   uint64_t um_os_preempted(void)                       count of switches; see below
 *   bool um_os_may_fence_threads(void)                   true: the next call can be made from now on
 *   void um_os_fence_threads(void)                       a full fence in every thread of the process
 *   int um_os_write(int fd, const void *at, size_t n)    write(2), all of it; 0 or a negative errno
 *   int um_os_create(const char *path, bool anew)        an empty file for the next; see below
 *   int um_os_extend(int fd, uint64_t from, size_t bytes, void **memory)
 *                                                        zeroed memory that is a file's; see below
 *   void um_os_empty(int fd, uint64_t from, size_t bytes)
 *                                                        give back zeros on the disk
 *   int um_os_link_to(int fd, const char *path)          another name for a file of this process
 *   void um_os_unlink(const char *path)                  that the file has no name any more
 *   void um_os_close(int fd)                             that it is written
 *   size_t um_os_objects(char *text, size_t bytes)       where code is; see below
 *   bool um_os_symbol(const void *at, struct um_os_symbol *symbol)
 *                                                        what the dynamic linker knows of at
 *   void um_os_keep_loaded(void)                         never unload the object that calls it
 *   unsigned um_os_quota(void)                           processors that this process may keep
 *                                                        busy by its control groups' limits of
 *                                                        time, rounded up; 0: no limit is known
 *
 * Where UM_OS_HANDLES is defined:
 *   int um_os_action(int number, const struct um_os_action *set, struct um_os_action *before)
 *                                                        set and ask the action for a signal
 *   void um_os_signal_stack(const struct um_os_stack *set, struct um_os_stack *before)
 *                                                        set this thread's stack for handlers
 *   bool um_os_signal_sent(const void *info)             true: by a process, not by the kernel
 *   const void *um_os_signal_address(const void *info)   where a fault was
 *   void um_os_raise_again(int number, void *info)       send this thread a handler's signal again
 *   void um_os_exclusively(void (*fn)(void *), void *arg)
 *                                                        call fn alone; see below
 *
 * um_os_map: memory for stacks, in which huge pages are forbidden, and which the system need not
 * back until it is touched. um_os_map_data: whether there are huge pages is up to the system, and
 * to um_os_advise_huge, which returns 0 or a negative errno.
 *
 * um_os_drop: of memory of um_os_map. Where the system cannot do that, or the memory is locked, the
 * pages stay as they are.
 *
 * um_os_page_nodes: writes for each page from `at` on, which begins a page, the NUMA node where the
 * page is; -1: nowhere, since no thread has written to it. Returns 0 or a negative errno.
 *
 * um_os_preempted: how often the calling thread has lost its processor to another thread, or given
 * it to another thread by sched_yield, so far; UM_OS_UNKNOWN where that is not known.
 *
 * um_os_futex_wait: returns 0 when woken or when *word != expected, -EINTR after a signal handler,
 * -ETIMEDOUT past deadline_ns on um_os_now_ns() (UMBRA_NEVER: none). It may return 0 spuriously.
 * Neither form changes errno.
 *
 * um_os_thread: the kernel's, the same for every copy of the library, until fork(2); it comes again
 * only after all the others that the kernel gives (32,767 at least). In os/posix.h it is the next
 * number of this copy of the library at each call.
 *
 * um_os_create: returns a descriptor that exec(2) closes, or a negative errno; -ENOSYS where there
 * are none. anew: a file of that name is removed first, and only this user may open the new one.
 * Else it is emptied, unless it is that of another process or copy of the library that has it open
 * by this call: -EBUSY.
 *
 * um_os_extend: the file, which ends at `from`, has so many bytes more, of which each has its place
 * on the disk: a store cannot fail. Both are multiples of the size of a page. A child of fork(2) has
 * not this memory: it would keep the file open. Returns 0, or a negative errno such as -ENOSPC.
 *
 * um_os_link_to: the name is good while the process has the file open. 0 or a negative errno.
 *
 * um_os_objects: appends to the text, which ends with a 0, the lines of /proc/PID/maps that say
 * where the program's and its shared objects' code is, and that it does not have yet, as far as
 * they fit. Returns the text's length.
 *
 * um_os_exclusively: while fn runs, no other thread of the process runs a function through this
 * call, in whichever copy of the library, and no shared object is loaded or unloaded. fn must not
 * wait, load, or unload.
 *
 * um_os_action: set NULL keeps the present action, before NULL does not ask for it. Returns 0 or a
 * negative errno.
 *
 * um_os_nth_cpu: the n-th, from 0, of those that the caller may use now; -ENODEV if it may use
 * fewer. um_os_bind_cpu: 0, -ENODEV if the number is none, or the system's error. In os/posix.h any
 * number is good, and no thread is bound: the system may put two that work on two processors.
 * um_os_leave_for: the caller may run where it might before, and the system may move it again at
 * once; nothing, where it may not use that processor.
 *
 * um_os_mask_signals: blocks all but those that an instruction raises, that profilers send to a
 * thread, and that the C library keeps for itself. A thread created meanwhile inherits the mask, so
 * that the program's handlers run in the program's own threads.
 *
 * um_os_try: returns 0 if fn returned, -EOPNOTSUPP if a signal ended the child, -ENOSYS if fn
 * cannot be tried here. The child has none of the program's signal handlers.
 */
#ifndef UMBRA_OS_OS_H
#define UMBRA_OS_OS_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>

#define UM_OS_UNKNOWN UINT64_MAX
#define UM_OS_PAGE 4096 /* the unit of stacks and guards; systems with larger pages round up */

/* How stacks are guarded: by an advice that costs no mapping of its own (Linux 6.13), by
 * protection, which splits the mapping, or not at all. */
enum um_guard { UM_GUARD_UNKNOWN, UM_GUARD_ADVICE, UM_GUARD_PROTECTION, UM_GUARD_NONE };

/* What is known about an address in the program. The texts are the dynamic linker's own, read
 * without its lock: they are good until the object is unloaded (dlclose). No call of the dynamic
 * linker returns a copy, and none of dlopen(3)'s keeps an object that is found by an address. */
struct um_os_symbol {
    const char *file;    /* the object's file */
    const void *base;    /* where the object begins in memory */
    const char *name;    /* the function's, or NULL */
    const void *address; /* where the function begins */
};

/* What a process does when it gets a signal. */
struct um_os_action {
    uintptr_t handler; /* SIG_DFL, SIG_IGN, or a function */
    unsigned flags;    /* the system's */
    uint64_t mask;     /* signals blocked meanwhile: signal n is bit n - 1 */
};

/* A stack for signal handlers. */
struct um_os_stack {
    void *low;
    size_t bytes;
    int flags; /* the system's; 0 to use it */
};

#if defined(__linux__) && !defined(UMBRA_POSIX_ONLY)
#include <umbra/os/linux.h>
#include <umbra/os/linux_quota.h>
#include <umbra/os/linux_signals.h>
#else
#include <umbra/os/posix.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_CHOICE(UM_CHOSEN_OS);

/* Where a thread sleeps: on a word; or until its eventfd is written, its bell. To the bell's number
 * UM_OS_AT_BELL is added. */
#define UM_OS_AT_FUTEX 1u
#define UM_OS_AT_BELL 2u

UM_LINKONCE UM_COLD void um_os_rouse(um_atomic_u32 *word, uint32_t how);

#ifdef UMBRA_IMPLEMENTATION
#include <pthread.h>
#include <unistd.h>

UM_LINKONCE UM_COLD void um_os_rouse(um_atomic_u32 *word, uint32_t how)
{
    const uint64_t one = 1;
    int saved = errno;
    int cancels;

    if (how == UM_OS_AT_FUTEX) {
        um_os_futex_wake(word);
    } else {
        /* write() would end a thread that is canceled, before the bell is written */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
        while (write((int)(how - UM_OS_AT_BELL), &one, sizeof(one)) < 0 && errno == EINTR)
            ; /* it cannot fail otherwise: a bell is never full */
        pthread_setcancelstate(cancels, &cancels);
    }
    errno = saved;
}
#endif /* UMBRA_IMPLEMENTATION */

#endif
