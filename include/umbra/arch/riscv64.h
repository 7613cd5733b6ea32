/* SPDX-License-Identifier: BSL-1.0 */
/*
 * riscv64. Private; chosen by cpu.h. The contract is in generic.h.
 *
 * Sources: RISC-V ISA manual vol. I, chapters "A" (load-reserved), "Zawrs", "Zihintpause",
 * "Zicntr" and "CMO" (Zicbop); Linux Documentation/arch/riscv/hwprobe.rst.
 *
 *   back end  arm              wait     deadline
 *   zawrs     LR.W/LR.D .aq    WRS.STO  none: a short time that the implementation chooses
 *
 * WRS.NTO is not used, not even for a deep wait: it has no bound but the next interrupt, and where
 * mstatus.TW is set it raises SIGILL after too long a wait.
 *
 * Hints (PAUSE, PREFETCH.*) have encodings that processors without them execute as nothing.
 */
#ifndef UMBRA_ARCH_RISCV64_H
#define UMBRA_ARCH_RISCV64_H

#include <umbra/arch/backends.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UMBRA_CACHE_LINE 64

/* Keys of the kernel's hardware probe, and the bit of Zawrs. */
#define UM_RISCV_HWPROBE_IMA_EXT_0 4
#define UM_RISCV_HWPROBE_TIME_CSR_FREQ 8
#define UM_RISCV_HWPROBE_EXT_ZAWRS (UINT64_C(1) << 48)

/* pause, which is fence w, 0: assemblers accept the name only with an -march flag */
UM_INLINE void um_arch_pause(void)
{
    __asm__ volatile(".insn i 0x0f, 0, x0, x0, 0x010" ::: "memory");
}

/* Later loads wait until the earlier ones are done. */
UM_INLINE void um_arch_relax(void)
{
    __asm__ volatile("fence r, r" ::: "memory");
}

UM_INLINE uint64_t um_arch_cycles(void)
{
    uint64_t count;

    __asm__ volatile("rdtime %0" : "=r"(count));
    return count;
}

/* The device tree's value, if the kernel (6.11) passes it on; else 0. */
UM_INLINE uint64_t um_arch_cycles_hz(void)
{
    return um_os_riscv_hwprobe(UM_RISCV_HWPROBE_TIME_CSR_FREQ);
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

    __asm__ volatile("mv %0, sp" : "=r"(here));
    return here;
}

/* The rounding mode, frm: a new thread begins with the nearest, 0. */
UM_INLINE uint64_t um_arch_float_control(void)
{
    uint64_t mode = 0;

#ifdef __riscv_flen
    __asm__ volatile("frrm %0" : "=r"(mode) : : "memory");
#endif
    return mode;
}

UM_INLINE void um_arch_set_float_control(uint64_t control)
{
#ifdef __riscv_flen
    __asm__ volatile("fsrm %0" : : "r"(control) : "memory");
#else
    (void)control;
#endif
}

/* prefetch.r and prefetch.w, which are ori into x0: compilers emit them only with a flag */
UM_INLINE void um_arch_prefetch_read(const void *p)
{
    __asm__ volatile("ori x0, %0, 1" ::"r"(p));
}

UM_INLINE void um_arch_prefetch_write(const void *p)
{
    __asm__ volatile("ori x0, %0, 3" ::"r"(p));
}

/* This processor has no instruction for it. */
UM_INLINE void um_arch_demote(const void *p)
{
    (void)p;
}

UM_INLINE uint32_t um_arch_compiled_backends(void)
{
    return 1u << UMBRA_BACKEND_PAUSE | 1u << UMBRA_BACKEND_ZAWRS;
}

UM_INLINE uint32_t um_arch_backends(void)
{
    uint32_t set = 1u << UMBRA_BACKEND_PAUSE;

    if (um_os_riscv_hwprobe(UM_RISCV_HWPROBE_IMA_EXT_0) & UM_RISCV_HWPROBE_EXT_ZAWRS)
        set |= 1u << UMBRA_BACKEND_ZAWRS;
    return set;
}

/* LR.*.aq is an acquire load: it pairs with the store that ends the wait. */
UM_INLINE uint32_t um_arch_arm_load32(uint32_t backend, const um_atomic_u32 *word)
{
    uint64_t value;

    if (backend != UMBRA_BACKEND_ZAWRS)
        return um_atomic_load(word, acquire); /* the same pairing */
    __asm__ volatile("lr.w.aq %0, (%1)" : "=r"(value) : "r"(word) : "memory");
    return (uint32_t)value; /* the instruction extends the sign */
}

UM_INLINE uint64_t um_arch_arm_load64(uint32_t backend, const um_atomic_u64 *word)
{
    uint64_t value;

    if (backend != UMBRA_BACKEND_ZAWRS)
        return um_atomic_load(word, acquire); /* the same pairing */
    __asm__ volatile("lr.d.aq %0, (%1)" : "=r"(value) : "r"(word) : "memory");
    return value;
}

/* wrs.sto, by its encoding. Not in a loop: after a store ended the reservation it does not wait. */
UM_INLINE bool um_arch_monitor_wait(uint32_t backend, uint64_t until, bool deep)
{
    (void)deep;
    if (backend != UMBRA_BACKEND_ZAWRS)
        um_arch_pause();
    else if (um_arch_cycles() < until)
        __asm__ volatile(".insn i 0x73, 0, x0, x0, 0x01d" ::: "memory");
    return false;
}

#endif
