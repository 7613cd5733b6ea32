/* SPDX-License-Identifier: BSL-1.0 */
/* The emulator itself, with instructions written as bytes: neither the library nor -mwaitpkg. */
#define _GNU_SOURCE
#include "runner.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <x86intrin.h>

#include "waitpkg_emulator.h"

#define MS 3000000u          /* cycles; a millisecond, or a little more or less */
#define FAR (30000ull * MS)  /* a wait that lasts this long is a failed test */
#define WRITTEN_FLAGS 0x8d5u /* OF SF ZF AF PF CF */
#define LINE _Alignas(64) _Atomic uint64_t

#ifdef __SANITIZE_THREAD__
#define UNDER_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN
#endif
#endif

static LINE line[8];

static void start(const struct waitpkg_faults *faults)
{
    if (waitpkg_emulator_install(faults) != 0)
        cr_skip_test("the instructions do not raise SIGILL here");
}

static void umonitor(const void *address)
{
    __asm__ volatile(".byte 0xf3, 0x0f, 0xae, 0xf1" : : "c"(address) : "memory"); /* rcx */
}

static bool umwait(uint32_t hint, uint64_t deadline)
{
    bool carry;

    __asm__ volatile(".byte 0xf2, 0x0f, 0xae, 0xf1" /* ecx */
                     : "=@ccc"(carry)
                     : "c"(hint), "a"((uint32_t)deadline), "d"((uint32_t)(deadline >> 32))
                     : "memory");
    return carry;
}

static bool tpause(uint32_t hint, uint64_t deadline)
{
    bool carry;

    __asm__ volatile(".byte 0x66, 0x0f, 0xae, 0xf1" /* ecx */
                     : "=@ccc"(carry)
                     : "c"(hint), "a"((uint32_t)deadline), "d"((uint32_t)(deadline >> 32))
                     : "memory");
    return carry;
}

/* ---- encodings ---- */

/* Executes one instruction with an operand, flags and a deadline; returns the flags after it. */
typedef uint64_t trial(uint64_t operand, uint64_t flags, uint32_t high, uint32_t low);

static uint8_t *page; /* of code, exchanged for each trial */

static uint8_t *append(uint8_t *at, const char *bytes, size_t count)
{
    memcpy(at, bytes, count);
    return at + count;
}

#define APPEND(at, bytes) append((at), (bytes), sizeof(bytes) - 1)

/* Every register is saved, so that each can be the operand. rsp stays what it is. */
static trial *make_trial(uint8_t prefix, int rex, unsigned rm)
{
    unsigned high = rex >= 0 && (rex & 1);
    uint8_t *at = page;

    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    at = APPEND(at, "\x53\x55\x41\x54\x41\x55\x41\x56\x41\x57"); /* push rbx rbp r12 ... r15 */
    at = APPEND(at, "\x89\xc8\x56\x9d");                         /* mov eax, ecx; push rsi; popf */
    if (high || rm != 4) {                                       /* mov operand, rdi */
        *at++ = (uint8_t)(0x48 | high);
        *at++ = 0x89;
        *at++ = (uint8_t)(0xf8 | rm);
    }
    *at++ = prefix;
    if (rex >= 0)
        *at++ = (uint8_t)rex;
    at = APPEND(at, "\x0f\xae");
    *at++ = (uint8_t)(0xf0 | rm);
    at = APPEND(at, "\x9c\x58");                                /* pushf; pop rax */
    APPEND(at, "\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b\xc3"); /* pop r15 ... rbx; ret */
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    return (trial *)(uintptr_t)page;
}

static void make_page(void)
{
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)page, MAP_FAILED);
}

static void *armed; /* the line of the last UMONITOR */

static void note_line(void *address)
{
    armed = address;
}

Test(emulator, decodes_umonitor_with_every_prefix_and_register)
{
    uint64_t address = (uint64_t)(uintptr_t)&line[3];
    uint64_t executed = 0;

    start(&(struct waitpkg_faults){.before_arming = note_line});
    make_page();
    for (int rex = 0x3f; rex < 0x50; rex++)
        for (unsigned rm = 0; rm < 8; rm++) {
            trial *run = make_trial(0xf3, rex == 0x3f ? -1 : rex, rm);
            bool stack = rm == 4 && (rex == 0x3f || !(rex & 1));
            uint64_t flags;

            armed = NULL;
            flags = run(address, WRITTEN_FLAGS | 0x202, 0, 0);
            cr_assert_eq(waitpkg_emulator_counters().umonitor, ++executed);
            cr_assert_eq(flags & WRITTEN_FLAGS, WRITTEN_FLAGS, "UMONITOR leaves the flags");
            if (stack)
                cr_assert_lt((uintptr_t)&flags - (uintptr_t)armed, 4096u, "rsp's line");
            else
                cr_assert_eq(armed, (void *)line, "rex %x rm %u", (unsigned)rex, rm);
        }
}

static void check_waits(uint8_t prefix, uint64_t (*executed)(void))
{
    uint64_t before = executed();

    for (int rex = 0x3f; rex < 0x50; rex++)
        for (unsigned rm = 0; rm < 8; rm++)
            for (unsigned hint = 0; hint < 2; hint++) {
                trial *run = make_trial(prefix, rex == 0x3f ? -1 : rex, rm);
                uint64_t deep = waitpkg_emulator_counters().deep;
                uint64_t flags;

                if (rm == 4 && (rex == 0x3f || !(rex & 1)))
                    continue; /* esp as a hint: no stack to take a signal on */
                flags = run(hint, WRITTEN_FLAGS | 0x202, 0, 1);
                cr_assert_eq(executed(), ++before, "rex %x rm %u", (unsigned)rex, rm);
                cr_assert_eq(flags & WRITTEN_FLAGS, 0, "flags cleared, %lx", (unsigned long)flags);
                if (prefix == 0xf2)
                    cr_assert_eq(waitpkg_emulator_counters().deep - deep, hint == 0);
            }
}

static uint64_t umwaits(void)
{
    return waitpkg_emulator_counters().umwait;
}

static uint64_t tpauses(void)
{
    return waitpkg_emulator_counters().tpause;
}

Test(emulator, decodes_umwait_with_every_prefix_and_register)
{
    start(NULL);
    make_page();
    check_waits(0xf2, umwaits);
}

Test(emulator, decodes_tpause_with_every_prefix_and_register)
{
    start(NULL);
    make_page();
    check_waits(0x66, tpauses);
    cr_assert_eq(waitpkg_emulator_counters().past, tpauses());
}

/* ---- waiting ---- */

Test(emulator, a_deadline_in_the_past_returns_at_once_without_carry)
{
    start(NULL);
    umonitor(line);
    cr_assert_not(umwait(1, __rdtsc() - 1));
    cr_assert_not(tpause(1, __rdtsc() - 1));
    cr_assert_eq(waitpkg_emulator_counters().past, 2);
    cr_assert_eq(waitpkg_emulator_counters().timeouts, 0);
}

Test(emulator, a_deadline_is_absolute_and_64_bits_wide)
{
    uint64_t deadline;

    start(NULL);
    deadline = __rdtsc() + MS;
    umonitor(line);
    cr_assert_not(umwait(1, deadline));
    cr_assert_geq(__rdtsc(), deadline);
    deadline = __rdtsc() + MS;
    cr_assert_not(tpause(0, deadline));
    cr_assert_geq(__rdtsc(), deadline);
    cr_assert_eq(waitpkg_emulator_counters().timeouts + waitpkg_emulator_counters().past, 2);
}

Test(emulator, the_cap_ends_a_wait_with_carry)
{
    uint64_t begin;

    start(&(struct waitpkg_faults){.cap_cycles = 100000});
    begin = __rdtsc();
    umonitor(line);
    cr_assert(umwait(1, begin + FAR));
    cr_assert(tpause(1, begin + FAR));
    cr_assert_geq(__rdtsc() - begin, 200000u);
    cr_assert_lt(__rdtsc() - begin, FAR);
    cr_assert_eq(waitpkg_emulator_counters().caps, 2);
    umonitor(line);
    cr_assert_not(umwait(1, __rdtsc() + 10000), "a deadline before the cap leaves carry clear");
}

Test(emulator, umwait_without_umonitor_returns_at_once)
{
    start(NULL);
    umwait(1, __rdtsc() + FAR);
    cr_assert_eq(waitpkg_emulator_counters().unarmed, 1);
    umonitor(line);
    atomic_fetch_add(line, 1);
    umwait(1, __rdtsc() + FAR);
    umwait(1, __rdtsc() + FAR);
    cr_assert_eq(waitpkg_emulator_counters().unarmed, 2, "a wait disarms");
}

Test(emulator, any_byte_of_the_line_ends_the_wait)
{
    start(NULL);
    for (unsigned armed_at = 0; armed_at < 64; armed_at += 21)
        for (unsigned byte = 0; byte < 64; byte++) {
            umonitor((char *)line + armed_at);
            ((volatile uint8_t *)line)[byte]++;
            cr_assert_not(umwait(1, __rdtsc() + FAR));
        }
    cr_assert_eq(waitpkg_emulator_counters().stores, 4 * 64);
}

/* Stores once the main thread waits. */
static void *store_during_wait(void *unused)
{
    while (waitpkg_emulator_counters().umwait == 0)
        sched_yield();
    atomic_store(&line[7], 1);
    return unused;
}

Test(emulator, a_store_by_another_thread_ends_the_wait)
{
    pthread_t other;

    start(NULL);
    cr_assert_eq(pthread_create(&other, NULL, store_during_wait, NULL), 0);
    umonitor(line);
    cr_assert_not(umwait(0, __rdtsc() + FAR));
    cr_assert_eq(atomic_load(&line[7]), 1);
    cr_assert_eq(waitpkg_emulator_counters().stores, 1);
    cr_assert_eq(waitpkg_emulator_counters().deep, 1);
    pthread_join(other, NULL);
}

static LINE other_line[8];

/* Arms a line of its own, which must not disturb the main thread's monitor. */
static void *arm_elsewhere(void *unused)
{
    umonitor(other_line);
    atomic_fetch_add(other_line, 1);
    umwait(1, __rdtsc() + FAR);
    return unused;
}

Test(emulator, each_thread_has_a_monitor_of_its_own)
{
    pthread_t other;

    start(NULL);
    umonitor(line);
    cr_assert_eq(pthread_create(&other, NULL, arm_elsewhere, NULL), 0);
    pthread_join(other, NULL);
    cr_assert_eq(waitpkg_emulator_counters().stores, 1);
    cr_assert_not(umwait(1, __rdtsc() + MS));
    cr_assert_eq(waitpkg_emulator_counters().timeouts + waitpkg_emulator_counters().past, 1);
    cr_assert_eq(waitpkg_emulator_counters().unarmed, 0);
}

/* ---- what is not ours ---- */

static volatile sig_atomic_t passed; /* SIGILLs that came through */
static volatile sig_atomic_t usr1_was_blocked;
static unsigned skip_bytes; /* what the handler below steps over */

static void step_over(int signal, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    sigset_t mask;

    (void)signal;
    passed++;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    usr1_was_blocked = sigismember(&mask, SIGUSR1) && sigismember(&mask, SIGILL);
    if (info->si_code > 0)
        interrupted->uc_mcontext.gregs[REG_RIP] += skip_bytes;
    errno = EDOM;
}

static void install_step_over(unsigned bytes)
{
    struct sigaction action = {.sa_sigaction = step_over, .sa_flags = SA_SIGINFO};

    sigaddset(&action.sa_mask, SIGUSR1);
    skip_bytes = bytes;
    sigaction(SIGILL, &action, NULL);
}

Test(emulator, other_illegal_instructions_reach_the_former_handler)
{
    install_step_over(2);
    start(NULL);
    passed = 0;
    __asm__ volatile("ud2");
    cr_assert_eq(passed, 1);
    cr_assert(usr1_was_blocked, "the former handler's mask holds while it runs");
    cr_assert_not(tpause(1, 0));
    cr_assert_eq(passed, 1);
    cr_assert_eq(waitpkg_emulator_counters().chained, 1);
    waitpkg_emulator_uninstall();
    __asm__ volatile("ud2");
    cr_assert_eq(passed, 2);
    cr_assert_eq(waitpkg_emulator_counters().chained, 1);
}

Test(emulator, a_reserved_bit_in_the_hint_is_a_fault)
{
    install_step_over(4);
    start(NULL);
    passed = 0;
    umwait(2, 0);
    tpause(0x80000000u, 0);
    cr_assert_eq(passed, 2);
    cr_assert_eq(umwaits() + tpauses(), 0);
}

Test(emulator, the_memory_form_is_not_umonitor)
{
    install_step_over(4);
    start(NULL);
    passed = 0;
    __asm__ volatile(".byte 0xf3, 0x0f, 0xae, 0x31" : : "c"(line) : "memory", "cc"); /* [rcx] */
    cr_assert_eq(waitpkg_emulator_counters().umonitor, 0);
    cr_assert_eq(passed, 1);
}

Test(emulator, a_signal_sent_by_a_process_reaches_the_former_handler)
{
    install_step_over(0);
    start(NULL);
    passed = 0;
    raise(SIGILL);
    cr_assert_eq(passed, 1);
}

static void count_signal(int signal)
{
    (void)signal;
    passed++;
}

Test(emulator, a_former_handler_without_information_is_called)
{
    signal(SIGILL, count_signal);
    start(NULL);
    raise(SIGILL);
    cr_assert_eq(passed, 1);
}

Test(emulator, an_ignored_signal_stays_ignored)
{
    signal(SIGILL, SIG_IGN);
    start(NULL);
    raise(SIGILL);
    cr_assert_eq(waitpkg_emulator_counters().chained, 1);
}

Test(emulator, without_a_former_handler_an_illegal_instruction_is_fatal, .signal = SIGILL)
{
    start(NULL);
    __asm__ volatile("ud2");
}

Test(emulator, without_a_former_handler_a_sent_signal_is_fatal, .signal = SIGILL)
{
    start(NULL);
    raise(SIGILL);
}

static sigjmp_buf escape;

static void jump_out(int signal)
{
    (void)signal;
    siglongjmp(escape, 1);
}

Test(emulator, the_former_handler_may_jump_out)
{
    signal(SIGILL, jump_out);
    start(NULL);
    for (volatile int i = 0; i < 3; i++)
        if (sigsetjmp(escape, 1) == 0)
            __asm__ volatile("ud2");
    tpause(1, 0);
    cr_assert_eq(tpauses(), 1);
    cr_assert_eq(waitpkg_emulator_counters().chained, 3);
}

/* ---- the handler's surroundings ---- */

static char alternate[1 << 16];
static volatile uintptr_t handler_stack;

static void note_stack(void *unused)
{
    (void)unused;
    handler_stack = (uintptr_t)__builtin_frame_address(0);
    errno = EDOM;
}

Test(emulator, runs_on_the_alternate_stack_and_keeps_errno)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};

    sigaltstack(&stack, NULL);
    start(&(struct waitpkg_faults){.before_arming = note_stack});
    errno = 0;
    umonitor(line);
    cr_assert_eq(errno, 0);
    cr_assert_lt(handler_stack - (uintptr_t)alternate, sizeof(alternate));
}

static void pause_in_handler(void *unused)
{
    (void)unused;
    tpause(1, 0);
}

Test(emulator, a_handler_may_execute_the_instructions)
{
#ifdef UNDER_TSAN
    cr_skip_test("ThreadSanitizer blocks every signal while a handler runs");
#endif
    start(&(struct waitpkg_faults){.before_arming = pause_in_handler});
    umonitor(line);
    cr_assert_eq(tpauses(), 1);
}

/* ---- faults on purpose ---- */

Test(emulator, spurious_wake_ups_are_injected_and_counted)
{
    const unsigned waits = 400;
    struct waitpkg_counters seen;

    start(&(struct waitpkg_faults){.seed = 1, .spurious_per_mille = 500});
    for (unsigned i = 0; i < waits; i++) {
        umonitor(line);
        cr_assert_not(umwait(1, __rdtsc() + MS / 100));
    }
    seen = waitpkg_emulator_counters();
    cr_assert_eq(seen.umwait, waits);
    cr_assert_eq(seen.spurious + seen.timeouts + seen.past, waits);
    cr_assert(seen.spurious > waits / 4 && seen.spurious < waits * 3 / 4);
}

Test(emulator, a_lost_arming_lets_only_the_deadline_end_the_wait)
{
    uint64_t deadline;

    start(&(struct waitpkg_faults){.seed = 1, .lost_per_mille = 1000});
    deadline = __rdtsc() + MS;
    umonitor(line);
    atomic_fetch_add(line, 1);
    cr_assert_not(umwait(1, deadline));
    cr_assert_geq(__rdtsc(), deadline);
    cr_assert_eq(waitpkg_emulator_counters().lost, 1);
    cr_assert_eq(waitpkg_emulator_counters().timeouts + waitpkg_emulator_counters().past, 1);
    cr_assert_eq(waitpkg_emulator_counters().unarmed, 0);
}

Test(emulator, arming_is_delayed_before_and_after)
{
    const unsigned armings = 50;
    uint64_t begin;

    start(&(struct waitpkg_faults){.seed = 1, .delay_per_mille = 1000, .delay_cycles = MS});
    begin = __rdtsc();
    for (unsigned i = 0; i < armings; i++)
        umonitor(line);
    cr_assert_eq(waitpkg_emulator_counters().delays, 2 * armings);
    cr_assert_geq(__rdtsc() - begin, armings * (uint64_t)MS / 2, "MS / 2 each on average, twice");
}

/* Which of 64 waits were spurious. */
static uint64_t pattern(uint64_t seed)
{
    uint64_t bits = 0;

    waitpkg_emulator_set(&(struct waitpkg_faults){.seed = seed, .spurious_per_mille = 500});
    for (unsigned i = 0; i < 64; i++) {
        uint64_t before = waitpkg_emulator_counters().spurious;

        umonitor(line);
        umwait(1, 1);
        bits = bits << 1 | (waitpkg_emulator_counters().spurious - before);
    }
    return bits;
}

Test(emulator, a_seed_gives_the_same_faults_again)
{
    uint64_t first;

    start(NULL);
    first = pattern(7);
    cr_assert_eq(pattern(7), first);
    cr_assert_neq(pattern(8), first);
}

static bool nonzero(const void *address)
{
    return atomic_load((const _Atomic uint64_t *)address) != 0;
}

Test(emulator, a_wait_for_what_is_there_already_counts_as_slept_over)
{
    start(&(struct waitpkg_faults){.over = nonzero});
    umonitor(line);
    atomic_store(line, 1);
    umwait(1, __rdtsc() + FAR);
    cr_assert_eq(waitpkg_emulator_counters().slept_over, 0, "stored after arming");
    umonitor(line);
    umwait(1, __rdtsc() + MS / 10);
    cr_assert_eq(waitpkg_emulator_counters().slept_over, 1, "stored before arming");
}
