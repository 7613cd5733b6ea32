/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "waitpkg_emulator.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <x86intrin.h>

#define LINE_BYTES 64
#define LINE_WORDS (LINE_BYTES / sizeof(uint64_t))
#define POLLS_PER_YIELD 64

#define FLAG_CF 0x001u
#define FLAGS_WRITTEN 0x8d5u /* OF SF ZF AF PF CF */

/* Initial-exec: its memory exists before the thread runs, so a handler may touch it. */
#define HANDLER_TLS static _Thread_local __attribute__((tls_model("initial-exec")))

enum operation { UMONITOR, UMWAIT, TPAUSE };

struct instruction {
    enum operation operation;
    unsigned reg;    /* operand, 0..15 in the encoding's order */
    unsigned length; /* bytes */
};

enum arming { UNARMED, ARMED, FORGOTTEN };

/* The monitor of one hardware thread. */
struct monitor {
    enum arming arming;
    const volatile uint64_t *line;
    uint64_t snapshot[LINE_WORDS];
};

/* One thread's source of random numbers; drawn anew when the faults are exchanged. */
struct dice {
    uint64_t state;
    unsigned generation;
};

#define COUNTERS (sizeof(struct waitpkg_counters) / sizeof(uint64_t))
#define COUNT(field) count(offsetof(struct waitpkg_counters, field) / sizeof(uint64_t))

static struct waitpkg_faults injected;
static struct sigaction former;
static _Atomic uint64_t counters[COUNTERS]; /* in the order of struct waitpkg_counters */
static atomic_uint generation = 1;          /* of the faults */
static atomic_uint threads;                 /* that drew in this generation */

HANDLER_TLS struct monitor monitor;
HANDLER_TLS struct dice dice;

/* relaxed: a statistic, read after the threads were joined */
static void count(size_t index)
{
    atomic_fetch_add_explicit(&counters[index], 1, memory_order_relaxed);
}

/* splitmix64: any seed will do, and a seed and the thread's number make a sequence of its own */
static uint64_t draw(void)
{
    /* relaxed: the caller of waitpkg_emulator_set orders it before the threads it starts */
    unsigned now = atomic_load_explicit(&generation, memory_order_relaxed);
    uint64_t mixed;

    if (dice.generation != now) {
        dice.generation = now;
        dice.state = injected.seed + ((uint64_t)atomic_fetch_add(&threads, 1) << 32);
    }
    mixed = dice.state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

static bool happens(uint32_t per_mille)
{
    return per_mille > 0 && draw() % 1000 < per_mille;
}

/* One polite turn of a polling loop; sometimes the processor itself, which others may need. */
static void give_way(unsigned turn)
{
    _mm_pause();
    if (turn % POLLS_PER_YIELD == POLLS_PER_YIELD - 1)
        sched_yield();
}

static void delay_sometimes(void)
{
    uint64_t start = __rdtsc();
    uint64_t cycles;

    if (injected.delay_cycles == 0 || !happens(injected.delay_per_mille))
        return;
    COUNT(delays);
    cycles = draw() % injected.delay_cycles;
    for (unsigned turn = 0; __rdtsc() - start < cycles; turn++)
        give_way(turn);
}

/* The line holds plain data of others, and bytes beyond their objects: hide it from sanitizers. */
__attribute__((no_sanitize("thread", "address"))) static void
take_snapshot(uint64_t *snapshot, const volatile uint64_t *line)
{
    for (size_t i = 0; i < LINE_WORDS; i++)
        snapshot[i] = line[i];
}

__attribute__((no_sanitize("thread", "address"))) static bool changed(void)
{
    for (size_t i = 0; i < LINE_WORDS; i++)
        if (monitor.line[i] != monitor.snapshot[i])
            return true;
    return false;
}

/* Each byte is read only if those before it belong to such an instruction: no read past a page. */
static bool decode(const uint8_t *code, struct instruction *out)
{
    unsigned length = 0;
    unsigned high = 0;
    enum operation operation;

    switch (code[length++]) {
    case 0xf3:
        operation = UMONITOR;
        break;
    case 0xf2:
        operation = UMWAIT;
        break;
    case 0x66:
        operation = TPAUSE;
        break;
    default:
        return false;
    }
    if ((code[length] & 0xf0) == 0x40)
        high = (code[length++] & 1u) << 3; /* REX.B; W, R and X mean nothing here */
    if (code[length++] != 0x0f || code[length++] != 0xae)
        return false;
    if ((code[length] & 0xf8) != 0xf0) /* mod 3, reg 6 */
        return false;
    *out = (struct instruction){operation, (code[length] & 7u) | high, length + 1};
    return true;
}

static greg_t operand(const greg_t *registers, unsigned reg)
{
    static const int position[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                     REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                     REG_R12, REG_R13, REG_R14, REG_R15};

    return registers[position[reg]];
}

static void emulate_umonitor(uintptr_t address)
{
    void *line = (void *)(address & ~(uintptr_t)(LINE_BYTES - 1));

    COUNT(umonitor);
    if (injected.before_arming)
        injected.before_arming(line);
    delay_sometimes();
    monitor.line = line;
    take_snapshot(monitor.snapshot, line);
    monitor.arming = ARMED;
    if (happens(injected.lost_per_mille)) {
        COUNT(lost);
        monitor.arming = FORGOTTEN;
    }
    delay_sometimes();
}

/* Polls until the deadline or an earlier cap, or, if watched, a change of the line. CF or 0. */
static unsigned wait_until(uint64_t deadline, bool watched)
{
    uint64_t start = __rdtsc();
    bool capped;

    if (deadline <= start) {
        COUNT(past);
        return 0;
    }
    capped = injected.cap_cycles > 0 && injected.cap_cycles < deadline - start;
    if (capped)
        deadline = start + injected.cap_cycles;
    for (unsigned turn = 0; __rdtsc() < deadline; turn++) {
        if (watched && changed()) {
            COUNT(stores);
            return 0;
        }
        give_way(turn);
    }
    if (capped)
        COUNT(caps);
    else
        COUNT(timeouts);
    return capped ? FLAG_CF : 0;
}

/* `over` before `changed`: what is over and unchanged even thereafter was over when armed. */
static bool over_unseen(enum arming arming)
{
    return injected.over && injected.over((const void *)monitor.line) &&
           (arming == FORGOTTEN || !changed());
}

static unsigned emulate_umwait(uint64_t deadline, bool deep)
{
    enum arming arming = monitor.arming;
    unsigned carry;

    COUNT(umwait);
    if (deep)
        COUNT(deep);
    monitor.arming = UNARMED;
    if (arming == UNARMED) {
        COUNT(unarmed);
        return 0;
    }
    if (arming == ARMED && over_unseen(arming))
        COUNT(slept_over);
    if (happens(injected.spurious_per_mille)) {
        COUNT(spurious);
        return 0;
    }
    carry = wait_until(deadline, arming == ARMED);
    if (__rdtsc() >= deadline && over_unseen(arming))
        COUNT(overslept);
    return carry;
}

/* Whether the instruction was one of the three and has been carried out. */
static bool emulate(greg_t *registers)
{
    uint64_t deadline = (uint64_t)registers[REG_RDX] << 32 | (uint32_t)registers[REG_RAX];
    struct instruction instruction;
    uint64_t value;
    unsigned carry;

    if (!decode((const uint8_t *)registers[REG_RIP], &instruction))
        return false;
    value = (uint64_t)operand(registers, instruction.reg);
    if (instruction.operation == UMONITOR) {
        emulate_umonitor((uintptr_t)value);
    } else {
        if ((uint32_t)value > 1)
            return false;
        if (instruction.operation == UMWAIT) {
            carry = emulate_umwait(deadline, (uint32_t)value == 0);
        } else {
            COUNT(tpause);
            carry = wait_until(deadline, false);
        }
        registers[REG_EFL] = (registers[REG_EFL] & ~(greg_t)FLAGS_WRITTEN) | carry;
    }
    registers[REG_RIP] += instruction.length;
    return true;
}

/* Gives the signal to whom it went before us, as the kernel would. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    sigset_t mask = former.sa_mask;

    COUNT(chained);
    if (former.sa_handler == SIG_IGN && info->si_code <= 0)
        return;
    if (former.sa_handler == SIG_DFL || former.sa_handler == SIG_IGN) {
        struct sigaction fatal = {.sa_handler = SIG_DFL};

        sigaction(signal, &fatal, NULL); /* an instruction at fault is tried again, and ends us */
        if (info->si_code <= 0)
            raise(signal);
        return;
    }
    if (!(former.sa_flags & SA_NODEFER))
        sigaddset(&mask, signal);
    sigprocmask(SIG_BLOCK, &mask, NULL); /* the return from our handler undoes it */
    if (former.sa_flags & SA_SIGINFO)
        former.sa_sigaction(signal, info, context);
    else
        former.sa_handler(signal);
}

static void on_sigill(int signal, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    int saved = errno;

    /* si_code > 0: an instruction raised it, not a process */
    if (info->si_code <= 0 || !emulate(interrupted->uc_mcontext.gregs))
        pass_on(signal, info, context);
    errno = saved;
}

void waitpkg_emulator_set(const struct waitpkg_faults *faults)
{
    static const struct waitpkg_faults none;

    injected = faults ? *faults : none;
    atomic_store(&threads, 0);
    atomic_fetch_add(&generation, 1);
    for (size_t i = 0; i < COUNTERS; i++)
        atomic_store(&counters[i], 0);
}

struct waitpkg_counters waitpkg_emulator_counters(void)
{
    uint64_t values[COUNTERS];
    struct waitpkg_counters result;

    for (size_t i = 0; i < COUNTERS; i++)
        values[i] = atomic_load_explicit(&counters[i], memory_order_relaxed); /* as count() */
    memcpy(&result, values, sizeof(result));
    return result;
}

/* TPAUSE with a deadline long past: the cheapest of the three. */
static void try_tpause(void)
{
    __asm__ volatile(".byte 0x66, 0x0f, 0xae, 0xf1" /* tpause ecx */
                     :
                     : "c"(1), "a"(0), "d"(0)
                     : "cc");
}

int waitpkg_emulator_install(const struct waitpkg_faults *faults)
{
    struct sigaction action = {.sa_sigaction = on_sigill,
                               .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

    sigemptyset(&action.sa_mask);
    waitpkg_emulator_set(NULL);
    sigaction(SIGILL, NULL, &former); /* before ours can run */
    sigaction(SIGILL, &action, NULL);
    try_tpause();
    if (waitpkg_emulator_counters().tpause == 0) {
        waitpkg_emulator_uninstall();
        return -EOPNOTSUPP;
    }
    waitpkg_emulator_set(faults);
    return 0;
}

void waitpkg_emulator_uninstall(void)
{
    sigaction(SIGILL, &former, NULL);
}

/*
 * Takes the place of the C library's function, by which Umbra gives a child that tries an instruction
 * the default action of each signal (um_os_try()). Were the emulator the processor, SIGILL would not
 * be sent; so its handler stays.
 */
long syscall(long number, ...)
{
    long value[6], result;
    va_list values;

    va_start(values, number);
    for (int i = 0; i < 6; i++)
        value[i] = va_arg(values, long);
    va_end(values);
    if (number == SYS_rt_sigaction && value[0] == SIGILL)
        return 0;
    register long r10 __asm__("r10") = value[3];
    register long r8 __asm__("r8") = value[4];
    register long r9 __asm__("r9") = value[5];
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(value[0]), "S"(value[1]), "d"(value[2]), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
