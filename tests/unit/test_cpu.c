/* SPDX-License-Identifier: BSL-1.0 */
/* The processor's part: time stamps and their conversion, pauses, what a monitor loads. */
#define _GNU_SOURCE
#include "../runner.h"

#include <pthread.h>
#include <stdint.h>

#include <umbra/cpu.h>
#include <umbra/wait/monitor.h>

#define SECOND_NS UINT64_C(1000000000)

/* ---- time stamp and clock ---- */

struct moment {
    uint64_t cycles;
    uint64_t ns;
};

/* The tightest of a few readings, so that an interrupt between the two does not count. */
static struct moment moment_now(void)
{
    struct moment best = {0, 0};
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 5; i++) {
        uint64_t before = umbra_now_ns();
        uint64_t cycles = um_cycles();
        uint64_t after = umbra_now_ns();

        if (after - before < least) {
            least = after - before;
            best = (struct moment){cycles, before + least / 2};
        }
    }
    return best;
}

/* Whether a stretch of 20 ms is as long by the time stamp as by the clock, within 1 %. */
static bool agree_over_20_ms(void)
{
    struct moment start = moment_now();
    struct moment end;
    uint64_t by_clock, by_stamp;

    while (umbra_now_ns() - start.ns < 20000000)
        umbra_pause();
    end = moment_now();
    by_clock = end.ns - start.ns;
    by_stamp = um_cycles_to_ns(end.cycles - start.cycles);
    return (by_stamp > by_clock ? by_stamp - by_clock : by_clock - by_stamp) <= by_clock / 100;
}

Test(cpu, time_stamp_agrees_with_the_clock)
{
    bool agreed = false;

    for (int attempt = 0; attempt < 3 && !agreed; attempt++)
        agreed = agree_over_20_ms();
    cr_assert(agreed, "frequency %llu", (unsigned long long)um_cycles_hz());
}

static void *ask_for_frequency(void *out)
{
    *(uint64_t *)out = um_cycles_hz();
    return NULL;
}

Test(cpu, threads_that_ask_first_together_get_one_frequency)
{
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    uint64_t hz[THREADS];

    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, ask_for_frequency, &hz[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        cr_expect_eq(hz[i], um_cycles_hz());
    cr_assert_gt(um_cycles_hz(), 1000000u);
}

Test(cpu, a_frequency_whose_measure_began_before_is_about_the_same)
{
    uint64_t whole = um_cycles_hz(), since;

    cr_expect_eq(um_cycles_since_begin(), 0, "it has not begun");
    um_cycles_begin();
    since = um_cycles_since_begin();
    cr_expect_gt(since, whole - whole / 20);
    cr_expect_lt(since, whole + whole / 20);
    um_clock_pair_first.cycles -= 3 * whole;
    um_clock_pair_first.ns -= 3 * SECOND_NS;
    cr_expect_eq(um_cycles_since_begin(), 0, "it was long ago");
    um_cycles_begin();
    um_clock_pair_first.cycles += whole;
    cr_expect_eq(um_cycles_since_begin(), 0, "the time stamp has begun anew");
    um_clock_pair_first = (struct um_clock_pair){0, 0};
}

Test(cpu, time_stamps_never_go_back)
{
    uint64_t last = um_cycles();

    for (int i = 0; i < 100000; i++) {
        uint64_t now = um_cycles();

        cr_assert_geq(now, last);
        last = now;
    }
}

Test(cpu, clock_never_goes_back)
{
    uint64_t last = umbra_now_ns();

    for (int i = 0; i < 10000; i++) {
        uint64_t now = umbra_now_ns();

        cr_assert_geq(now, last);
        last = now;
    }
}

/* ---- conversion ---- */

Test(cpu, one_second_is_the_frequency)
{
    cr_assert_eq(um_ns_to_cycles(SECOND_NS), um_cycles_hz());
    cr_assert_eq(um_cycles_to_ns(um_cycles_hz()), SECOND_NS);
    cr_assert_eq(um_ns_to_cycles(0), 0u);
    cr_assert_eq(um_cycles_to_ns(0), 0u);
}

Test(cpu, conversion_there_and_back_loses_one_tick)
{
    uint64_t tick_ns = SECOND_NS / um_cycles_hz() + 1;
    uint64_t hundred_years_ns = SECOND_NS * 86400 * 36600;

    for (uint64_t ns = 1; ns < hundred_years_ns; ns = 3 * ns + 1) {
        uint64_t cycles = um_ns_to_cycles(ns);
        uint64_t back = um_cycles_to_ns(cycles);

        if (cycles == UMBRA_NEVER)
            break;
        cr_assert_leq(back, ns);
        cr_assert_leq(ns - back, tick_ns);
    }
}

Test(cpu, conversion_saturates_at_never)
{
    cr_assert_eq(um_ns_to_cycles(UMBRA_NEVER), UMBRA_NEVER);
    cr_assert_eq(um_cycles_to_ns(UMBRA_NEVER), UMBRA_NEVER);
    cr_assert_eq(um_convert(UMBRA_NEVER / 2, 3 * SECOND_NS, SECOND_NS), UMBRA_NEVER);
    cr_assert_eq(um_convert(UMBRA_NEVER - 1, SECOND_NS, SECOND_NS), UMBRA_NEVER - 1);
    cr_assert_eq(um_convert(UMBRA_NEVER - 1, SECOND_NS + 1, SECOND_NS), UMBRA_NEVER);
}

#ifdef __SIZEOF_INT128__
Test(cpu, conversion_is_exact)
{
    __extension__ typedef unsigned __int128 wide;
    static const uint64_t rates[] = {19200000, 24000000, 512000000, 2596131000, 18000000000};
    uint64_t random = 88172645463325252; /* the seed of a xorshift */

    for (int i = 0; i < 100000; i++) {
        uint64_t rate = rates[i % 5];
        uint64_t value;
        wide cycles, ns;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        value = random >> i % 64;
        cycles = (wide)value * rate / SECOND_NS;
        ns = (wide)value * SECOND_NS / rate;
        cr_assert_eq(um_convert(value, rate, SECOND_NS),
                     cycles > UMBRA_NEVER ? UMBRA_NEVER : (uint64_t)cycles);
        cr_assert_eq(um_convert(value, SECOND_NS, rate),
                     ns > UMBRA_NEVER ? UMBRA_NEVER : (uint64_t)ns);
    }
}
#endif

/* ---- instructions ---- */

Test(cpu, pause_and_relax_return)
{
    for (int i = 0; i < 1000; i++) {
        umbra_pause();
        um_arch_relax();
    }
}

Test(cpu, prefetch_and_demote_fault_nowhere)
{
    static char line[2 * UMBRA_CACHE_LINE];
    const void *anywhere[] = {NULL, line, line + 1, (const void *)(UINTPTR_MAX - 1)};

    for (unsigned i = 0; i < sizeof(anywhere) / sizeof(anywhere[0]); i++) {
        __builtin_prefetch(anywhere[i]);
        umbra_prefetch_write(anywhere[i]);
        um_arch_demote(anywhere[i]);
    }
}

Test(cpu, cache_line_is_a_power_of_two)
{
    cr_assert_geq(UMBRA_CACHE_LINE, 64);
    cr_assert_eq(UMBRA_CACHE_LINE & (UMBRA_CACHE_LINE - 1), 0);
}

Test(cpu, announced_back_ends_are_compiled)
{
    uint32_t all = (1u << UMBRA_BACKEND_COUNT) - 1;

    cr_assert(um_arch_backends() & 1u << UMBRA_BACKEND_PAUSE);
    cr_assert_eq(um_arch_backends() & ~um_arch_compiled_backends(), 0u);
    cr_assert_eq(um_arch_compiled_backends() & ~all, 0u);
}

/* Those that execute here, which is more than those that are announced. */
static bool executes(uint32_t backend)
{
    return um_backend_try((enum umbra_wait_backend)backend) == 0;
}

Test(cpu, arming_loads_the_word)
{
    static const uint64_t values[] = {0,
                                      1,
                                      0x7fffffff,
                                      0x80000001, /* the sign of a 32-bit load must not spread */
                                      0xffffffff,
                                      UINT64_C(0x123456789abcdef0),
                                      UINT64_C(0x8000000000000001),
                                      UINT64_MAX};

    for (uint32_t backend = 0; backend < UMBRA_BACKEND_COUNT; backend++) {
        if (!executes(backend))
            continue;
        for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            um_atomic_u32 narrow = (uint32_t)values[i];
            um_atomic_u64 wide = values[i];

            cr_expect_eq(um_arch_arm_load32(backend, &narrow), (uint32_t)values[i]);
            cr_expect_eq(um_arch_arm_load64(backend, &wide), values[i]);
        }
    }
}

/* Whether a wait that no store ends is sure to end: by its own deadline, or the kernel vouches. */
static bool is_bounded(uint32_t backend)
{
    uint32_t with_deadline =
        1u << UMBRA_BACKEND_WAITPKG | 1u << UMBRA_BACKEND_MONITORX | 1u << UMBRA_BACKEND_WFET;

    return (with_deadline | um_arch_backends()) >> backend & 1;
}

static void expect_end(uint32_t backend, uint64_t until, bool deep)
{
    um_atomic_u64 word = 0;
    uint64_t start = um_cycles();

    um_arch_arm_load64(backend, &word);
    um_arch_monitor_wait(backend, until, deep);
    cr_expect_lt(um_cycles() - start, um_cycles_hz(), "%s", um_backend_name(backend));
}

Test(cpu, monitor_waits_end_without_a_store)
{
    for (uint32_t backend = 0; backend < UMBRA_BACKEND_COUNT; backend++) {
        if (!executes(backend) || !is_bounded(backend))
            continue;
        for (int deep = 0; deep <= 1; deep++) {
            expect_end(backend, 0, deep);
            expect_end(backend, um_cycles(), deep);
            expect_end(backend, um_cycles() + um_ns_to_cycles(1000000), deep);
        }
    }
}

#ifdef UMBRA_ARCH_X86_64_H
Test(cpu, mwaitx_never_gets_zero_ticks)
{
    cr_assert_eq(um_x86_mwaitx_ticks(0, 0), 1u);
    cr_assert_eq(um_x86_mwaitx_ticks(5, 100), 1u);
    cr_assert_eq(um_x86_mwaitx_ticks(101, 100), 1u);
    cr_assert_eq(um_x86_mwaitx_ticks(130100, 100), 130000u);
    cr_assert_eq(um_x86_mwaitx_ticks(UINT64_C(0x100000064), 100), UINT32_MAX);
    cr_assert_eq(um_x86_mwaitx_ticks(UMBRA_NEVER, 100), UINT32_MAX);
}
#endif
