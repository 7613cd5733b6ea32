/* SPDX-License-Identifier: BSL-1.0 */
/*
 * ppc64, both byte orders. Private; chosen by cpu.h. The contract is in generic.h.
 *
 * Sources: Power ISA 3.1 Book II 3.2 "Program Priority Registers" (the or instructions), 4.6.4
 * "Wait Instruction", 4.3 (dcbt, dcbtst), 4.6.3 (lwsync), chapter 5 "Time Base"; Linux
 * arch/powerpc/include/uapi/asm/cputable.h.
 *
 *   back end    arm             wait      deadline
 *   power-wait  none: a load    wait 2,0  none: a short time that the processor chooses
 *
 * No instruction here watches the line. The form of wait that ends with the loss of a reservation
 * (wait 1,0) has no bound but the next interrupt, and is a no-op on some processors. So the short
 * wait takes its place: it gives the core to its other hardware threads and returns soon.
 */
#ifndef UMBRA_ARCH_PPC64_H
#define UMBRA_ARCH_PPC64_H

#include <pthread.h>

#include <umbra/arch/backends.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UMBRA_CACHE_LINE 128

/* AT_HWCAP2 and its bit for ISA 3.1. Older processors read the encoding of wait differently. */
#define UM_PPC64_AT_HWCAP2 26
#define UM_PPC64_HWCAP2_ARCH_3_1 0x00040000ul

/* Low priority, then medium again: the core's other hardware threads get the slots in between. */
UM_INLINE void um_arch_pause(void)
{
    __asm__ volatile("or 1, 1, 1\n\tor 2, 2, 2" ::: "memory");
}

/* Later loads wait until the earlier ones are done. */
UM_INLINE void um_arch_relax(void)
{
    __asm__ volatile("lwsync" ::: "memory");
}

UM_INLINE uint64_t um_arch_cycles(void)
{
    uint64_t count;

    __asm__ volatile("mftb %0" : "=r"(count));
    return count;
}

/* Only firmware and kernel know it. */
UM_INLINE uint64_t um_arch_cycles_hz(void)
{
    return 0;
}

/* A number that identifies the calling thread, never 0. */
UM_INLINE uintptr_t um_arch_thread_id(void)
{
    return (uintptr_t)pthread_self();
}

/* The stack pointer: it tells which stack, a fiber's or an alternate one, the caller runs on. */
UM_INLINE uintptr_t um_arch_stack_pointer(void)
{
    uintptr_t here;

    __asm__ volatile("mr %0, 1" : "=r"(here));
    return here;
}

/* FPSCR, which has the exceptions seen, too. */
UM_INLINE uint64_t um_arch_float_control(void)
{
    union {
        double words;
        uint64_t number;
    } fpscr;

    __asm__ volatile("mffs %0" : "=d"(fpscr.words) : : "memory");
    return fpscr.number;
}

UM_INLINE void um_arch_set_float_control(uint64_t control)
{
    union {
        double words;
        uint64_t number;
    } fpscr = {.number = control};

    __asm__ volatile("mtfsf 255, %0" : : "d"(fpscr.words) : "memory");
}

UM_INLINE void um_arch_prefetch_read(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

UM_INLINE void um_arch_prefetch_write(const void *p)
{
    __builtin_prefetch(p, 1, 3);
}

/* This processor has no instruction for it. */
UM_INLINE void um_arch_demote(const void *p)
{
    (void)p;
}

UM_INLINE uint32_t um_arch_compiled_backends(void)
{
    return 1u << UMBRA_BACKEND_PAUSE | 1u << UMBRA_BACKEND_POWER_WAIT;
}

UM_INLINE uint32_t um_arch_backends(void)
{
    uint32_t set = 1u << UMBRA_BACKEND_PAUSE;

    if (um_os_hwcap(UM_PPC64_AT_HWCAP2) & UM_PPC64_HWCAP2_ARCH_3_1)
        set |= 1u << UMBRA_BACKEND_POWER_WAIT;
    return set;
}

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

/* wait 2,0, by its encoding */
UM_INLINE bool um_arch_monitor_wait(uint32_t backend, uint64_t until, bool deep)
{
    (void)deep;
    if (backend != UMBRA_BACKEND_POWER_WAIT)
        um_arch_pause();
    else if (um_arch_cycles() < until)
        __asm__ volatile(".long 0x7c40003c" ::: "memory");
    return false;
}

#endif
