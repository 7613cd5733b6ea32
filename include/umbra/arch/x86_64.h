/* SPDX-License-Identifier: BSL-1.0 */
/*
 * x86-64. Private; chosen by cpu.h. The contract is in generic.h.
 *
 * Sources: Intel SDM vol. 2 (CPUID leaves 7 and 15h, LFENCE, MONITOR, MWAIT, PAUSE, PREFETCHW,
 * UMONITOR, UMWAIT) and vol. 3 "Time-Stamp Counter", "Invariant TSC"; AMD APM vol. 3 (CPUID
 * 8000_0001h, MONITORX, MWAITX); Linux Documentation/arch/x86/elf_auxvec.rst.
 *
 *   back end  arm       wait    deadline                   what is special
 *   waitpkg   UMONITOR  UMWAIT  absolute, EDX:EAX          CF: ended by the system's cap
 *   monitorx  MONITORX  MWAITX  relative, 32 bits in EBX   0 would mean for ever
 *   mwait     MONITOR   MWAIT   none: the next interrupt   Xeon Phi only
 *
 * The instructions are written as bytes with fixed registers: every assembler takes them, without a
 * -m flag that would let the compiler use them elsewhere. Interrupts and false sharing also end a
 * monitor wait, or it ends for no reason; on some processors it misses stores. Each wait has a
 * bound.
 */
#ifndef UMBRA_ARCH_X86_64_H
#define UMBRA_ARCH_X86_64_H

#include <umbra/arch/backends.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UMBRA_CACHE_LINE 64

/* AT_HWCAP2 and its bit 0, "MONITOR/MWAIT enabled in ring 3" (bit 1 is FSGSBASE). */
#define UM_X86_AT_HWCAP2 26
#define UM_X86_HWCAP2_RING3MWAIT (1ul << 0)

/* PAUSE takes 10 cycles on older processors, 40 to 140 since Skylake. */
UM_INLINE void um_arch_pause(void)
{
    __asm__ volatile("pause" ::: "memory");
}

/*
 * LFENCE lets no later load start before the earlier ones are done: no polls pile up that would
 * delay the sight of a changed word. Unlike PAUSE it has no fixed delay.
 */
UM_INLINE void um_arch_relax(void)
{
    __asm__ volatile("lfence" ::: "memory");
}

/* RDTSC without a fence: a fence would cost more than the error, which deadlines tolerate. */
UM_INLINE uint64_t um_arch_cycles(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

struct um_x86_cpuid {
    uint32_t eax, ebx, ecx, edx;
};

/* RBX is exchanged, not clobbered: compilers keep the base of a frame or of globals in it. */
UM_INLINE struct um_x86_cpuid um_x86_cpuid(uint32_t leaf)
{
    struct um_x86_cpuid is = {leaf, 0, 0, 0};
    uint64_t rbx = 0;

    __asm__ volatile("xchgq %%rbx, %%rsi\n\tcpuid\n\txchgq %%rbx, %%rsi"
                     : "+a"(is.eax), "+S"(rbx), "+c"(is.ecx), "=d"(is.edx));
    is.ebx = (uint32_t)rbx;
    return is;
}

/*
 * Leaf 15h: crystal frequency (ECX, may be 0: not stated) times EBX / EAX. Not used in virtual
 * machines, where it may be the host's value while the guest's time stamp is scaled.
 */
UM_INLINE uint64_t um_arch_cycles_hz(void)
{
    struct um_x86_cpuid tsc;

    if (um_x86_cpuid(0).eax < 0x15 || um_x86_cpuid(1).ecx >> 31)
        return 0;
    tsc = um_x86_cpuid(0x15);
    return tsc.eax == 0 ? 0 : (uint64_t)tsc.ecx * tsc.ebx / tsc.eax;
}

/* A number that identifies the calling thread, never 0: the address of its thread control block,
 * which that block's first word contains. */
UM_INLINE uintptr_t um_arch_thread_id(void)
{
    uintptr_t id;

    __asm__("movq %%fs:0, %0" : "=r"(id)); /* ELF TLS ABI (Drepper), section 3.4.6 */
    return id;
}

/* The stack pointer: it tells which stack, a fiber's or an alternate one, the caller runs on. */
UM_INLINE uintptr_t um_arch_stack_pointer(void)
{
    uintptr_t here;

    __asm__ volatile("movq %%rsp, %0" : "=r"(here));
    return here;
}

/*
 * MXCSR, which has the exceptions seen, too; above it the x87 control word, and above that the
 * exceptions that the x87 unit has seen: an exception that another fiber's mask let pass must not
 * trap under this one's.
 */
UM_INLINE uint64_t um_arch_float_control(void)
{
    uint32_t mxcsr;
    uint16_t x87, seen;

    __asm__ volatile("stmxcsr %0\n\tfnstcw %1\n\tfnstsw %2"
                     : "=m"(mxcsr), "=m"(x87), "=m"(seen)
                     :
                     : "memory");
    return (uint64_t)(seen & 0x3f) << 48 | (uint64_t)x87 << 32 | mxcsr;
}

/* As FNSTENV stores it (Intel SDM vol. 1, figure 8-9). */
struct um_x87 {
    uint32_t control, status, others[5];
};

UM_INLINE void um_arch_set_float_control(uint64_t control)
{
    uint32_t mxcsr = (uint32_t)control;
    struct um_x87 x87;

    __asm__ volatile("fnstenv %0" : "=m"(x87) : : "memory");
    x87.control = (uint16_t)(control >> 32);
    x87.status = (x87.status & ~0x80ffu) | ((uint32_t)(control >> 48) & 0x3f);
    __asm__ volatile("ldmxcsr %0\n\tfldenv %1" : : "m"(mxcsr), "m"(x87) : "memory");
}

/*
 * Where execution goes on, and what a switch keeps; the other registers are the compiler's to save.
 * A frame may be addressed by RBP (gcc, clang) and by RBX (clang, if it has a variable length and
 * over-aligned variables).
 */
struct um_arch_place {
    void *sp;
    void *pc;
    void *bp;
    void *bx;
};

#define UM_ARCH_SWITCHES 1

#if defined(__CET__) && (__CET__ & 1) != 0
#define UM_X86_LANDING "endbr64\n\t" /* where an indirect jump may arrive */
#else
#define UM_X86_LANDING ""
#endif

/* The registers that come with AVX-512 and APX. gcc takes their names only with these switched on;
 * clang always takes those of AVX-512. */
#if defined(__AVX512F__) || defined(__clang__)
#define UM_X86_CLOBBERS_512                                                                        \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",    \
        "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5",  \
        "k6", "k7"
#else
#define UM_X86_CLOBBERS_512
#endif
#ifdef __APX_F__
#define UM_X86_CLOBBERS_APX                                                                        \
    , "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28",   \
        "r29", "r30", "r31"
#else
#define UM_X86_CLOBBERS_APX
#endif

/*
 * Leaves `from` for `to`; goes on behind the asm when another switch goes to `from`. Nothing is
 * written to a stack, so that the 128 bytes below a stack pointer, which belong to its function
 * (System V ABI 3.2.2), stay as they are. Each inlined copy has an indirect jump of its own, which
 * the processor predicts by itself.
 */
UM_ALWAYS_INLINE void um_arch_switch(struct um_arch_place *from, struct um_arch_place *to)
{
    __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                     "movq %%rsp, (%%rsi)\n\t"
                     "movq %%rax, 8(%%rsi)\n\t"
                     "movq %%rbp, 16(%%rsi)\n\t"
                     "movq %%rbx, 24(%%rsi)\n\t"
                     "movq (%%rdi), %%rsp\n\t"
                     "movq 16(%%rdi), %%rbp\n\t"
                     "movq 24(%%rdi), %%rbx\n\t"
                     "jmpq *8(%%rdi)\n"
                     "1:\n\t" UM_X86_LANDING
                     : "+S"(from), "+D"(to)
                     :
                     : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                       "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "mm0", "mm1",
                       "mm2", "mm3", "mm4", "mm5", "mm6", "mm7", "st", "st(1)", "st(2)", "st(3)",
                       "st(4)", "st(5)", "st(6)", "st(7)", "memory",
                       "cc" UM_X86_CLOBBERS_512 UM_X86_CLOBBERS_APX);
}

/*
 * Makes a place where entry(the place) begins as if called, with no caller, which ends a backtrace.
 * high: the end of its stack, a multiple of 16. um_arch_switch leaves the first argument in RDI.
 */
UM_INLINE void um_arch_place_make(struct um_arch_place *place, void *high,
                                  void (*entry)(struct um_arch_place *place))
{
    void **top = (void **)high - 1;

    *top = NULL;
    *place = (struct um_arch_place){.sp = top, .pc = (void *)(uintptr_t)entry};
}

/* True if the thread's returns are checked against a shadow stack, which um_arch_switch would not
 * exchange. rdsspq %rax, where there is none a NOP (Intel SDM vol. 2, RDSSPD/RDSSPQ) */
UM_INLINE bool um_arch_shadow_stack(void)
{
    uint64_t top = 0;

    __asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8" : "+a"(top));
    return top != 0;
}

UM_INLINE void um_arch_prefetch_read(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

/* Compilers emit PREFETCHW only with a flag; 64-bit processors that lack it ignore it. */
UM_INLINE void um_arch_prefetch_write(const void *p)
{
    __asm__ volatile("prefetchw %0" ::"m"(*(const char *)p));
}

/* cldemote (%rdi): on processors that lack it, a NOP (Intel SDM, volume 2, CLDEMOTE) */
UM_INLINE void um_arch_demote(const void *p)
{
    __asm__ volatile(".byte 0x0f, 0x1c, 0x07" ::"D"(p));
}

UM_INLINE uint32_t um_arch_compiled_backends(void)
{
    return 1u << UMBRA_BACKEND_PAUSE | 1u << UMBRA_BACKEND_WAITPKG | 1u << UMBRA_BACKEND_MONITORX |
           1u << UMBRA_BACKEND_MWAIT;
}

/* CPUID leaf 7, ECX bit 5: WAITPKG; leaf 80000001h, ECX bit 29: MONITORX. */
UM_INLINE uint32_t um_arch_backends(void)
{
    uint32_t set = 1u << UMBRA_BACKEND_PAUSE;

    if (um_x86_cpuid(0).eax >= 7 && um_x86_cpuid(7).ecx & 1u << 5)
        set |= 1u << UMBRA_BACKEND_WAITPKG;
    if (um_x86_cpuid(0x80000000).eax >= 0x80000001 && um_x86_cpuid(0x80000001).ecx & 1u << 29)
        set |= 1u << UMBRA_BACKEND_MONITORX;
    if (um_os_hwcap(UM_X86_AT_HWCAP2) & UM_X86_HWCAP2_RING3MWAIT)
        set |= 1u << UMBRA_BACKEND_MWAIT;
    return set;
}

/* umonitor %rax */
UM_INLINE void um_x86_umonitor(const void *line)
{
    __asm__ volatile(".byte 0xf3, 0x0f, 0xae, 0xf0" ::"a"(line) : "memory");
}

/* umwait %ecx: bit 0 set asks for C0.1, clear for C0.2. True if the system's cap ended the wait. */
UM_INLINE bool um_x86_umwait(uint64_t until, bool deep)
{
    bool capped; /* setc gives 0 or 1 */

    __asm__ volatile(".byte 0xf2, 0x0f, 0xae, 0xf1\n\tsetc %0"
                     : "=r"(capped)
                     : "c"(deep ? 0 : 1), "a"((uint32_t)until), "d"((uint32_t)(until >> 32))
                     : "memory", "cc");
    return capped;
}

/* monitorx %rax, %ecx, %edx: no extensions, no hints */
UM_INLINE void um_x86_monitorx(const void *line)
{
    __asm__ volatile(".byte 0x0f, 0x01, 0xfa" ::"a"(line), "c"(0), "d"(0) : "memory");
}

/*
 * mwaitx %eax, %ecx, %ebx: ECX bit 1 enables the timer. EAX bits 7:4 are one less than the C-state,
 * so that F0h keeps the core in C0, from where it wakes fastest.
 */
UM_INLINE void um_x86_mwaitx(uint32_t ticks, bool deep)
{
    uint64_t rbx = ticks;

    __asm__ volatile("xchgq %%rbx, %%rsi\n\t.byte 0x0f, 0x01, 0xfb\n\txchgq %%rbx, %%rsi"
                     : "+S"(rbx)
                     : "a"(deep ? 0 : 0xf0), "c"(2)
                     : "memory");
}

/* monitor %rax, %ecx, %edx: no extensions, no hints */
UM_INLINE void um_x86_monitor(const void *line)
{
    __asm__ volatile(".byte 0x0f, 0x01, 0xc8" ::"a"(line), "c"(0), "d"(0) : "memory");
}

/* mwait %eax, %ecx: outside the kernel it enters C1 at most, whatever the hint. */
UM_INLINE void um_x86_mwait(void)
{
    __asm__ volatile(".byte 0x0f, 0x01, 0xc9" ::"a"(0), "c"(0) : "memory");
}

UM_INLINE void um_x86_arm(uint32_t backend, const void *word)
{
    if (backend == UMBRA_BACKEND_WAITPKG)
        um_x86_umonitor(word);
    else if (backend == UMBRA_BACKEND_MONITORX)
        um_x86_monitorx(word);
    else if (backend == UMBRA_BACKEND_MWAIT)
        um_x86_monitor(word);
}

/* The three instructions are ordered as loads: a later load does not overtake them. */
UM_INLINE uint32_t um_arch_arm_load32(uint32_t backend, const um_atomic_u32 *word)
{
    um_x86_arm(backend, word);
    return um_atomic_load(word, acquire); /* pairs with the store that ends the wait */
}

UM_INLINE uint64_t um_arch_arm_load64(uint32_t backend, const um_atomic_u64 *word)
{
    um_x86_arm(backend, word);
    return um_atomic_load(word, acquire); /* pairs with the store that ends the wait */
}

/* MWAITX's count for a wait up to a time stamp; never 0, which would mean for ever. */
UM_INLINE uint32_t um_x86_mwaitx_ticks(uint64_t until, uint64_t now)
{
    uint64_t left = until > now ? until - now : 1;

    return left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

UM_INLINE bool um_arch_monitor_wait(uint32_t backend, uint64_t until, bool deep)
{
    if (backend == UMBRA_BACKEND_WAITPKG)
        return um_x86_umwait(until, deep);
    if (backend == UMBRA_BACKEND_MONITORX)
        um_x86_mwaitx(um_x86_mwaitx_ticks(until, um_arch_cycles()), deep);
    else if (backend != UMBRA_BACKEND_MWAIT)
        um_arch_pause();
    else if (um_arch_cycles() < until)
        um_x86_mwait();
    return false;
}

#endif
