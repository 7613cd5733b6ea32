/* SPDX-License-Identifier: BSL-1.0 */
/* The two system calls, which the C library does not wrap. */
#ifndef UMBRA_BENCH_FUTEX_H
#define UMBRA_BENCH_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleeps while the word has that value; may return without a reason. */
static inline void futex_sleep(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* Wakes one who sleeps on the word. */
static inline void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
