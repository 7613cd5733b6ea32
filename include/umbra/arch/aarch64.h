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

UM_INLINE uint64_t um_arch_float_control(void)
{
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr) : : "memory");
    return fpcr;
}

UM_INLINE void um_arch_set_float_control(uint64_t control)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
}

/*
 * Where execution goes on, and what a switch keeps; the other registers are the compiler's to save.
 * A frame may be addressed by X29 (gcc, clang) and by X19 (clang, if it has a variable length and
 * over-aligned variables).
 */
struct um_arch_place {
    void *sp;
    void *pc;
    void *x29;
    void *x19;
};

#ifndef __ARM_FEATURE_GCS_DEFAULT /* a shadow stack, which um_arch_switch would not exchange */
#define UM_ARCH_SWITCHES 1
#endif

/* bti j: where an indirect jump may arrive; elsewhere a NOP */
#ifdef __ARM_FEATURE_BTI_DEFAULT
#define UM_AARCH64_LANDING "hint #36\n\t"
#else
#define UM_AARCH64_LANDING ""
#endif

/* Predicates of SVE: gcc takes their names only with it switched on. clang does not know FFR, and
 * keeps nothing in it. */
#ifdef __clang__
#define UM_AARCH64_FFR
#else
#define UM_AARCH64_FFR , "ffr"
#endif
#ifdef __ARM_FEATURE_SVE
#define UM_AARCH64_CLOBBERS_SVE                                                                    \
    , "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13",      \
        "p14", "p15" UM_AARCH64_FFR
#else
#define UM_AARCH64_CLOBBERS_SVE
#endif
#ifdef __APPLE__ /* X18 is the system's there, and no compiler uses it */
#define UM_AARCH64_CLOBBERS_X18
#else
#define UM_AARCH64_CLOBBERS_X18 , "x18"
#endif

/*
 * Leaves `from` for `to`; goes on behind the asm when another switch goes to `from`. Each inlined
 * copy has an indirect jump of its own, which the processor predicts by itself. The jump is by X16,
 * as the first function of a place may begin with "bti c", which refuses other registers.
 */
UM_ALWAYS_INLINE void um_arch_switch(struct um_arch_place *from, struct um_arch_place *to)
{
    register struct um_arch_place *x0 __asm__("x0") = to;
    register struct um_arch_place *x1 __asm__("x1") = from;

    __asm__ volatile("adr x3, 1f\n\t"
                     "mov x2, sp\n\t"
                     "stp x2, x3, [x1]\n\t"
                     "stp x29, x19, [x1, #16]\n\t"
                     "ldp x2, x16, [x0]\n\t"
                     "ldp x29, x19, [x0, #16]\n\t"
                     "mov x30, xzr\n\t"
                     "mov sp, x2\n\t"
                     "br x16\n"
                     "1:\n\t" UM_AARCH64_LANDING
                     : "+r"(x0), "+r"(x1)
                     :
                     : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
                       "x14", "x15", "x16", "x17", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
                       "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8",
                       "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19",
                       "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
                       "v31", "memory", "cc" UM_AARCH64_CLOBBERS_X18 UM_AARCH64_CLOBBERS_SVE);
}

/*
 * Makes a place where entry(the place) begins as if called, with no caller, which ends a backtrace.
 * high: the end of its stack, a multiple of 16. um_arch_switch leaves the first argument in X0, and
 * 0 in X30.
 */
UM_INLINE void um_arch_place_make(struct um_arch_place *place, void *high,
                                  void (*entry)(struct um_arch_place *place))
{
    *place = (struct um_arch_place){.sp = high, .pc = (void *)(uintptr_t)entry};
}

/* True if the thread's returns are checked against a shadow stack. */
UM_INLINE bool um_arch_shadow_stack(void)
{
    return false;
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
