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
 *   uint64_t um_os_mask_signals(void)                    block signals in this thread
 *   void um_os_unmask_signals(uint64_t saved)            undo that
 *
 * um_os_futex_wait: returns 0 when woken or when *word != expected, -EINTR after a signal handler,
 * -ETIMEDOUT past deadline_ns on um_os_now_ns() (UMBRA_NEVER: none). It may return 0 spuriously.
 * Neither form changes errno.
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
#ifndef UMBRA_DETAIL_OS_H
#define UMBRA_DETAIL_OS_H

#include <umbra/detail/atomic.h>
#include <umbra/detail/base.h>

#if defined(__linux__) && !defined(UMBRA_POSIX_ONLY)
#include <umbra/detail/os_linux.h>
#else
#include <umbra/detail/os_posix.h>
#endif

#endif
