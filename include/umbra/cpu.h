/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The processor: pause, prefetch, and the clock. Useful alone; links no library.
 *
 * Within the library, times are time stamps ("cycles"), which are cheap to read, and tick at a
 * constant rate, whatever the core's clock does: 2 to 4 GHz on x86-64, 24 MHz to 1 GHz elsewhere.
 * All processors of a machine show the same time stamp if the kernel itself uses it as its clock. A
 * reading may be taken some nanoseconds earlier or later than the accesses to memory around it.
 *
 * Callers. Any thread, fiber or signal handler may call any function here. None switches fibers,
 * blocks, fails or makes a system call.
 *
 * This header picks the header in arch/ for the processor that it is compiled for;
 * UMBRA_ARCH_GENERIC makes it pick the portable one. Besides, only umbra/context.h (where a frame
 * of Boost's goes on) and umbra/os/ (constants of the kernel) ask for the processor.
 */
#ifndef UMBRA_CPU_H
#define UMBRA_CPU_H

#include <umbra/arch/backends.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/os.h>

#if defined(UMBRA_ARCH_GENERIC)
#include <umbra/arch/generic.h>
#elif defined(__x86_64__)
#include <umbra/arch/x86_64.h>
#elif defined(__aarch64__)
#include <umbra/arch/aarch64.h>
#elif defined(__riscv) && __riscv_xlen == 64
#include <umbra/arch/riscv64.h>
#elif defined(__powerpc64__)
#include <umbra/arch/ppc64.h>
#else
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_ARCH_GENERIC_H
#define UM_CHOSEN_CPU um_chosen_generic_cpu
#else
#define UM_CHOSEN_CPU um_chosen_own_cpu
#endif

UM_CHOICE(UM_CHOSEN_CPU);

/* The monotonic clock, ns: the same for all threads and processes. */
UM_INLINE uint64_t umbra_now_ns(void);

/* One turn of a loop that polls: leaves the core's resources to its other hardware threads. */
UM_INLINE void umbra_pause(void);

/* Starts fetching a line for writing. Any address: it never faults. (For reading the compilers have
 * __builtin_prefetch; for writing they use x86-64's instruction only with a flag.) */
UM_INLINE void umbra_prefetch_write(const void *p);

/*
 * How many bytes, at least one, are missing to the next line after so many bytes. A member of that
 * length fills up a line: the next member begins a line if the object does.
 */
#define UM_LINE_REST(bytes) (UMBRA_CACHE_LINE - (bytes) % UMBRA_CACHE_LINE)

/* ---- calibration ---- */

#define UM_CALIBRATE_NS 200000 /* between the two readings: an error of 50 ns makes 0.03 % */
#define UM_CALIBRATE_MOST_NS 1000000000u /* a longer one is dropped: its product may overflow */
#define UM_CALIBRATE_READINGS 8
#define UM_CALIBRATE_LEAST_NS 20000 /* after um_cycles_begin(): makes 0.25 % */

/* Time stamp and clock, read at the same moment. */
struct um_clock_pair {
    uint64_t cycles;
    uint64_t ns;
};

/* The first reading, if um_cycles_begin() has made it. Written before there is a second thread. */
UM_SHARED(struct um_clock_pair um_clock_pair_first, {0, 0});

/* Begins to measure the frequency, so that the first caller that asks for it spins for less than
 * 20 us, and needs no CPUID, which virtual machines trap. For a library that is loaded with the
 * program. */
UM_LINKONCE UM_COLD void um_cycles_begin(void);

/* The frequency since then; 0: it has not begun, or was long ago. The machine may have slept
 * meanwhile, which the clock leaves out, and from which the time stamp may begin anew. */
UM_LINKONCE UM_COLD uint64_t um_cycles_since_begin(void);

#ifdef UMBRA_IMPLEMENTATION
/* Reads both several times; returns the reading that took the shortest: it was not interrupted. */
UM_LINKONCE UM_COLD struct um_clock_pair um_clock_pair_read(void)
{
    struct um_clock_pair best = {0, 0};
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < UM_CALIBRATE_READINGS; i++) {
        uint64_t before = um_arch_cycles();
        uint64_t ns = um_os_now_ns();
        uint64_t width = um_arch_cycles() - before;

        if (width < least) {
            least = width;
            best = (struct um_clock_pair){before + width / 2, ns};
        }
    }
    return best;
}

/* Measures the frequency, Hz; again if the clock was set meanwhile, as a calendar clock can be. */
UM_LINKONCE UM_COLD uint64_t um_cycles_calibrate(void)
{
    struct um_clock_pair start, end;
    uint64_t ns, hz;

    do {
        start = um_clock_pair_read();
        while (um_os_now_ns() - start.ns < UM_CALIBRATE_NS)
            um_arch_pause();
        end = um_clock_pair_read();
        ns = end.ns - start.ns;
        hz = ns == 0 ? 0 : (end.cycles - start.cycles) * UINT64_C(1000000000) / ns;
    } while (ns > UM_CALIBRATE_MOST_NS || hz == 0);
    return hz;
}

UM_LINKONCE UM_COLD uint64_t um_cycles_since_begin(void)
{
    struct um_clock_pair start = um_clock_pair_first, end;
    uint64_t ns;

    if (start.ns == 0)
        return 0;
    while (um_os_now_ns() - start.ns < UM_CALIBRATE_LEAST_NS)
        um_arch_pause();
    end = um_clock_pair_read();
    ns = end.ns - start.ns;
    if (ns > UM_CALIBRATE_MOST_NS || end.cycles < start.cycles)
        return 0;
    return (end.cycles - start.cycles) * UINT64_C(1000000000) / ns;
}

UM_LINKONCE UM_COLD void um_cycles_begin(void)
{
    um_clock_pair_first = um_clock_pair_read();
}
#endif /* UMBRA_IMPLEMENTATION */

/* The frequency, or 0: not asked for yet. Written once, by the first thread that asks. */
UM_SHARED(um_atomic_u64 um_cycles_hz_known, 0);

UM_LINKONCE UM_COLD uint64_t um_cycles_hz_find(void);

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD uint64_t um_cycles_hz_find(void)
{
    uint64_t hz = um_cycles_since_begin();
    uint64_t known = 0;

    if (hz == 0)
        hz = um_arch_cycles_hz();
    if (hz == 0)
        hz = um_cycles_calibrate();
    /* relaxed: a number that guards nothing; threads that race agree on the first one's value */
    if (!atomic_compare_exchange_strong_explicit(&um_cycles_hz_known, &known, hz,
                                                 memory_order_relaxed, memory_order_relaxed))
        hz = known;
    return hz;
}
#endif /* UMBRA_IMPLEMENTATION */

/* The time stamp now, in cycles. */
UM_INLINE uint64_t um_cycles(void)
{
    return um_arch_cycles();
}

/* The time stamp's ticks per second. */
UM_INLINE uint64_t um_cycles_hz(void)
{
    uint64_t hz = um_atomic_load(&um_cycles_hz_known, relaxed); /* a number that guards nothing */

    return UM_LIKELY(hz != 0) ? hz : um_cycles_hz_find();
}

/*
 * floor(value * to / from) without a wider type: whole multiples of `from` and the remainder
 * separately. The remainder's product fits: one rate is 1e9, and no time stamp is faster than
 * 18 GHz.
 */
UM_INLINE uint64_t um_convert(uint64_t value, uint64_t to, uint64_t from)
{
    uint64_t whole = value / from;
    uint64_t part = value % from * to / from;

    if (value == UMBRA_NEVER || whole > (UMBRA_NEVER - part) / to)
        return UMBRA_NEVER;
    return whole * to + part;
}

/*
 * Convert durations, rounded down. UMBRA_NEVER stays; what does not fit becomes UMBRA_NEVER. The
 * frequency, never 0, is stated by the processor, else measured once per executable or shared
 * object against the monotonic clock: the first caller spins about 200 us.
 */
UM_INLINE uint64_t um_ns_to_cycles(uint64_t ns)
{
    return um_convert(ns, um_cycles_hz(), 1000000000u);
}

UM_INLINE uint64_t um_cycles_to_ns(uint64_t cycles)
{
    return um_convert(cycles, 1000000000u, um_cycles_hz());
}

UM_INLINE uint64_t umbra_now_ns(void)
{
    return um_os_now_ns();
}

UM_INLINE void umbra_pause(void)
{
    um_arch_pause();
}

UM_INLINE void umbra_prefetch_write(const void *p)
{
    um_arch_prefetch_write(p);
}

#endif
