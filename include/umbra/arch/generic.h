/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Any processor, in C11 alone: no pause, no monitor, the system's clock as time stamp. Private;
 * cpu.h chooses it for processors without a header of their own, or by UMBRA_ARCH_GENERIC.
 *
 * The contract that every header in arch/ fulfils is written here, once. Any thread may call any
 * function; none fails.
 */
#ifndef UMBRA_ARCH_GENERIC_H
#define UMBRA_ARCH_GENERIC_H

#include <pthread.h>

#include <umbra/arch/backends.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* Distance, in bytes, at which writes to one word do not disturb accesses to another. */
#define UMBRA_CACHE_LINE 64

/* One turn of a polite spin: leaves execution resources to an SMT sibling, if there is one. */
UM_INLINE void um_arch_pause(void)
{
    atomic_signal_fence(memory_order_seq_cst); /* the compiler keeps the loop; no partner */
}

/* The cheapest gap between two polls that keeps their loads from piling up in the processor. */
UM_INLINE void um_arch_relax(void)
{
    atomic_signal_fence(memory_order_seq_cst); /* as above */
}

/* Time stamp: constant rate, one origin for all processors, not ordered with memory accesses. */
UM_INLINE uint64_t um_arch_cycles(void)
{
    return um_os_now_ns();
}

/* The time stamp's frequency where the processor states it reliably, else 0: calibrate. */
UM_INLINE uint64_t um_arch_cycles_hz(void)
{
    return 1000000000u;
}

/* A number that identifies the calling thread, never 0. */
UM_INLINE uintptr_t um_arch_thread_id(void)
{
    return (uintptr_t)pthread_self();
}

/* Where the stack is now, about: the frame of the function that this is inlined in. */
UM_INLINE uintptr_t um_arch_stack_pointer(void)
{
    return (uintptr_t)__builtin_frame_address(0);
}

/* The floating-point control words of the thread, as one number, where the library exchanges them;
 * else 0, and nothing is set. */
UM_INLINE uint64_t um_arch_float_control(void)
{
    return 0;
}

UM_INLINE void um_arch_set_float_control(uint64_t control)
{
    (void)control;
}

/* Fetches a line for reading, or for writing, and never faults. */
UM_INLINE void um_arch_prefetch_read(const void *p)
{
    (void)p;
}

UM_INLINE void um_arch_prefetch_write(const void *p)
{
    (void)p;
}

/* Moves a line to the cache that cores share, and never faults. */
UM_INLINE void um_arch_demote(const void *p)
{
    (void)p;
}

/* The back ends that this header has code for: a set of bits 1u << enum umbra_wait_backend. */
UM_INLINE uint32_t um_arch_compiled_backends(void)
{
    return 1u << UMBRA_BACKEND_PAUSE;
}

/* Those of them that processor and kernel announce. Slow: asks each time. */
UM_INLINE uint32_t um_arch_backends(void)
{
    return 1u << UMBRA_BACKEND_PAUSE;
}

/*
 * Arms the monitor on the word's line, then loads the word: a store that this load does not see
 * ends the next um_arch_monitor_wait. The caller stores nothing in between: on some processors its
 * own stores disarm the monitor.
 */
UM_INLINE uint32_t um_arch_arm_load32(uint32_t backend, const um_atomic_u32 *word)
{
    (void)backend;
    return um_atomic_load(word, acquire); /* pairs with the store that ends the wait */
}

UM_INLINE uint64_t um_arch_arm_load64(uint32_t backend, const um_atomic_u64 *word)
{
    (void)backend;
    return um_atomic_load(word, acquire); /* pairs with the store that ends the wait */
}

/*
 * Waits for a store to the armed line, at most up to the time stamp `until`; if `deep`, in a state
 * that saves more power and wakes later. It may return early for no reason. An instruction without
 * a deadline of its own is skipped when `until` has passed; else its wait ends by the bound that
 * its header names. So a caller that tests whether it executes gives an `until` in the future.
 * Returns true if the operating system's limit ended the wait.
 */
UM_INLINE bool um_arch_monitor_wait(uint32_t backend, uint64_t until, bool deep)
{
    (void)backend;
    (void)until;
    (void)deep;
    um_arch_pause();
    return false;
}

#endif
