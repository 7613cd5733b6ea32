/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The operating system, as the library needs it. Private.
 *
 * Two forms with the same short list of functions: os_linux.h (futex, auxiliary vector, a trial of
 * an instruction in a child process) and os_posix.h (ISO C and pthreads only). UMBRA_POSIX_ONLY
 * forces the second on Linux.
 *
 *   uint64_t um_os_now_ns(void)                          monotonic clock, ns
 *   int um_os_futex_wait(word, expected, deadline_ns)    sleep while *word == expected
 *   void um_os_futex_wake(word)                          wake one sleeper on word
 *   unsigned long um_os_hwcap(unsigned which)            entry of the auxiliary vector, or 0
 *   uint64_t um_os_riscv_hwprobe(int64_t key)            value of a RISC-V probe key, or 0
 *   int um_os_try(void (*fn)(void *), void *arg)         does fn run without a fatal signal?
 *   int um_os_bind_nth(unsigned n)                       bind the caller to one of its processors
 *   uint32_t um_os_process(void)                         this process's id
 *   bool um_os_signal_fatal(int number)                  of a fault, or one that cannot be handled
 *   uint64_t um_os_mask_signals(void)                    block signals in this thread
 *   void um_os_unmask_signals(uint64_t saved)            undo that
 *   void *um_os_map(size_t bytes)                        fresh zeroed memory, or NULL
 *   void um_os_unmap(void *at, size_t bytes)             gives all of it back
 *   int um_os_guard(void *at, size_t bytes, int how)     makes pages fault; how: enum um_guard
 *   bool um_os_resident(const void *page)                whether it is in memory
 *   size_t um_os_least_stack(void)                       what a signal's frame takes, bytes
 *   uint64_t um_os_preempted(void)                       see below
 *   void um_os_write(int fd, const void *at, size_t n)   as write(2), all of it
 *   bool um_os_symbol(const void *at, struct um_os_symbol *symbol)
 *                                                        what the dynamic linker knows of it
 *
 * Where UM_OS_HANDLES is defined:
 *   int um_os_action(int number, const struct um_os_action *set, struct um_os_action *before)
 *                                                        what is done about a signal
 *   void um_os_signal_stack(const struct um_os_stack *set, struct um_os_stack *before)
 *                                                        this thread's stack for handlers
 *   bool um_os_signal_sent(const void *info)             by a process, not raised by the kernel
 *   const void *um_os_signal_address(const void *info)   where a fault was
 *   void um_os_raise_again(int number, void *info)       sends itself the signal of a handler
 *   void um_os_exclusively(void (*fn)(void *), void *arg)
 *                                                        calls fn; see below
 *   void um_os_keep_loaded(const void *address)          the object in which that is
 *
 * um_os_preempted: how often the calling thread has had to leave its processor to another, or has
 * let one have it (sched_yield), so far; UM_OS_UNKNOWN where that is not known.
 *
 * um_os_futex_wait: returns 0 when woken or when *word != expected, -EINTR after a signal handler,
 * -ETIMEDOUT past deadline_ns on um_os_now_ns() (UMBRA_NEVER: none). It may return 0 spuriously.
 * Neither form changes errno.
 *
 * um_os_exclusively: meanwhile no other thread of the process is in a function called so, by whichever
 * copy of the library, and no shared object comes or goes. fn must not wait, load, or unload.
 *
 * um_os_action: set NULL keeps what there is, before NULL does not ask. 0 or a negative errno.
 *
 * um_os_bind_nth: the n-th from 0 of those it may use now; -ENODEV if it may use fewer, -ENOSYS
 * where threads cannot be bound.
 *
 * um_os_mask_signals: all but those that an instruction raises, that profilers send to a thread,
 * and that the C library keeps for itself. A thread created meanwhile inherits the mask, so that
 * the program's handlers run in the program's own threads.
 *
 * um_os_try: 0 if it does, -EOPNOTSUPP if a signal ended it, -ENOSYS if it cannot be tried here.
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

/* What is known of an address in the program. */
struct um_os_symbol {
    const char *file;    /* what it is loaded from */
    const void *base;    /* where that begins */
    const char *name;    /* the function's, or NULL */
    const void *address; /* where that begins */
};

/* What a process does about a signal. */
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
#include <umbra/os/linux_signals.h>
#else
#include <umbra/os/posix.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_CHOICE(UM_CHOSEN_OS);

#endif
