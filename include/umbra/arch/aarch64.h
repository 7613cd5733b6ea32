/* SPDX-License-Identifier: BSL-1.0 */
/*
 * aarch64. Private; chosen by cpu.h. The contract is in generic.h.
 *
 * Sources: Arm ARM (DDI 0487) B2.12 "Synchronization and semaphores", D1.6 "Wait for Event
 * mechanism and Send event", D12 "The Generic Timer", C6.2 (DMB, ISB, LDAXR, PRFM, WFE, WFET,
 * YIELD); Linux Documentation/arch/arm64/elf_hwcaps.rst.
 *
 *   back end  arm     wait  deadline                    what is special
 *   wfe       LDAXR   WFE   none: the event stream      announced only where the kernel runs one
 *   wfet      LDAXR   WFET  absolute, against CNTVCT    FEAT_WFxT
 *
 * LDAXR puts the line under the exclusive monitor; a store by any processor clears the monitor, and
 * that is an event. An event that came earlier makes the next wait return at once, which costs one
 * more turn of the caller's loop. The event stream (10 kHz) bounds a WFE to some 100 us.
 */
#ifndef UMBRA_ARCH_AARCH64_H
#define UMBRA_ARCH_AARCH64_H

#include <umbra/arch/backends.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UMBRA_CACHE_LINE 128 /* lines of 64 are fetched in pairs, and some cores have 128 */

/* Entries of the auxiliary vector and their bits. */
#define UM_AARCH64_AT_HWCAP 16
#define UM_AARCH64_AT_HWCAP2 26
#define UM_AARCH64_HWCAP_EVTSTRM (1ul << 2)
#define UM_AARCH64_HWCAP2_WFXT (1ul << 31)

/*
 * ISB, not YIELD: nearly all cores execute YIELD as nothing, so a loop with it polls at full speed.
 * ISB empties the pipeline, which takes about as long as PAUSE elsewhere and helps a sibling.
 */
UM_INLINE void um_arch_pause(void)
{
    __asm__ volatile("isb" ::: "memory");
}

/* Later loads wait until the earlier ones are done. */
UM_INLINE void um_arch_relax(void)
{
    __asm__ volatile("dmb ishld" ::: "memory");
}

/*
 * Without an ISB the counter may be read early, by tens of nanoseconds, which a deadline tolerates:
 * an ISB would cost as much at every look at the clock.
 */
UM_INLINE uint64_t um_arch_cycles(void)
{
    uint64_t count;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
}

UM_INLINE uint64_t um_arch_cycles_hz(void)
{
    uint64_t hz;

    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
    return hz & UINT32_MAX; /* the other bits are reserved */
}

/* A number that identifies the calling thread, never 0. */
UM_INLINE uintptr_t um_arch_thread_id(void)
{
    return (uintptr_t)__builtin_thread_pointer();
}

/* The stack pointer: it tells which stack, a fiber's or an alternate one, the caller runs on. */
UM_INLINE uintptr_t um_arch_stack_pointer(void)
{
    uintptr_t here;

    __asm__ volatile("mov %0, sp" : "=r"(here));
    return here;
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
    return 1u << UMBRA_BACKEND_PAUSE | 1u << UMBRA_BACKEND_WFE | 1u << UMBRA_BACKEND_WFET;
}

UM_INLINE uint32_t um_arch_backends(void)
{
    uint32_t set = 1u << UMBRA_BACKEND_PAUSE;

    if (um_os_hwcap(UM_AARCH64_AT_HWCAP) & UM_AARCH64_HWCAP_EVTSTRM)
        set |= 1u << UMBRA_BACKEND_WFE;
    if (um_os_hwcap(UM_AARCH64_AT_HWCAP2) & UM_AARCH64_HWCAP2_WFXT)
        set |= 1u << UMBRA_BACKEND_WFET;
    return set;
}

/* LDAXR is an acquire load: it pairs with the store that ends the wait. */
UM_INLINE uint32_t um_arch_arm_load32(uint32_t backend, const um_atomic_u32 *word)
{
    uint32_t value;

    if (backend == UMBRA_BACKEND_PAUSE)
        return um_atomic_load(word, acquire); /* the same pairing */
    __asm__ volatile("ldaxr %w0, [%1]" : "=r"(value) : "r"(word) : "memory");
    return value;
}

UM_INLINE uint64_t um_arch_arm_load64(uint32_t backend, const um_atomic_u64 *word)
{
    uint64_t value;

    if (backend == UMBRA_BACKEND_PAUSE)
        return um_atomic_load(word, acquire); /* the same pairing */
    __asm__ volatile("ldaxr %0, [%1]" : "=r"(value) : "r"(word) : "memory");
    return value;
}

/* wfet x0, by its encoding: assemblers accept the name only with -march=armv8.7-a */
UM_INLINE void um_aarch64_wfet(uint64_t until)
{
    register uint64_t x0 __asm__("x0") = until;

    __asm__ volatile(".inst 0xd5031000" ::"r"(x0) : "memory");
}

/* The processor chooses how deep it waits. */
UM_INLINE bool um_arch_monitor_wait(uint32_t backend, uint64_t until, bool deep)
{
    (void)deep;
    if (backend == UMBRA_BACKEND_WFET)
        um_aarch64_wfet(until);
    else if (backend != UMBRA_BACKEND_WFE)
        um_arch_pause();
    else if (um_arch_cycles() < until)
        __asm__ volatile("wfe" ::: "memory");
    return false;
}

#endif
