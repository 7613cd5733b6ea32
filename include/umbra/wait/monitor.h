/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Finds, measures and chooses the monitor instructions of a wait. Private, except the report, which
 * umbra/wait.h makes public.
 *
 * What a processor announces is a hint, not a promise: hypervisors trap monitor instructions
 * (19,500 cycles a pair were seen, on a machine that hid them), and emulators execute them as
 * nothing. So an announced back end is measured with two waits on a word that no thread writes:
 *
 *   expired   deadline already past: the cost to arm and to return       too dear: traps
 *   idle      deadline 8 us from now                                     too short: does not wait
 *                                                                        too long: oversleeps
 */
#ifndef UMBRA_WAIT_MONITOR_H
#define UMBRA_WAIT_MONITOR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/arch/backends.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/cpu.h>
#include <umbra/os/os.h>
#include <umbra/os/run_once.h>
#include <umbra/wait/machine.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

enum umbra_backend_verdict {
    UMBRA_BACKEND_USABLE,
    UMBRA_BACKEND_NOT_COMPILED,  /* belongs to another architecture */
    UMBRA_BACKEND_NOT_ANNOUNCED, /* executes, but neither processor nor kernel announces it */
    UMBRA_BACKEND_ILLEGAL,       /* raises a fatal signal */
    UMBRA_BACKEND_UNTRIED,       /* not announced, and could not be tried */
    UMBRA_BACKEND_TRAPS,         /* costs more than it could save */
    UMBRA_BACKEND_NO_WAIT,       /* returns at once */
    UMBRA_BACKEND_OVERSLEEPS     /* returns long after its deadline */
};

/* What is known about one back end. */
struct umbra_backend_report {
    const char *name;                   /* as in UMBRA_WAIT */
    enum umbra_backend_verdict verdict; /* only a USABLE back end is chosen, unless one is forced */
    bool compiled;                      /* this architecture has it */
    bool announced;                     /* by the processor or the kernel */
    bool executes;                      /* known to run without a fatal signal */
    uint64_t expired_cycles;            /* median cost of a wait already over; 0: not measured */
    uint64_t idle_cycles;               /* median length of an 8 us wait; 0: not measured */
    char reason[112];                   /* the verdict in words, with its figures */
};

/* All back ends of this process. */
struct um_wait_report {
    enum umbra_wait_backend chosen; /* automatically; UMBRA_WAIT may overrule it */
    struct umbra_backend_report backend[UMBRA_BACKEND_COUNT];
};

/*
 * Tries and measures every back end of this architecture, once per process; later calls return the
 * same report, which is never freed. A back end that is not announced is first executed in a
 * short-lived child process. Any thread; the first call blocks for about a millisecond; never
 * switches fibers; cannot fail.
 */
UM_LINKONCE const struct um_wait_report *um_wait_report(void);

/*
 * What a back end is rejected for. The probe waits until a time that has passed, and it waits for
 * UM_PROBE_IDLE_NS. The first traps if it takes longer than TRAP: a trap costs 4 to 8 us, the
 * instructions 0.1. The second does not wait if it returns sooner than NO_WAIT, half of the time,
 * or, where the processor chooses the length, than the first and SHORT, the cost of the
 * instructions. It oversleeps if it returns later than OVERSLEEP, twenty times the time.
 */
#define UM_PROBE_TRAP_NS 1500
#define UM_PROBE_NO_WAIT_NS 4000
#define UM_PROBE_SHORT_NS 300
#define UM_PROBE_OVERSLEEP_NS 160000

UM_INLINE const char *um_backend_name(enum umbra_wait_backend backend)
{
    static const char *const names[UMBRA_BACKEND_COUNT] = {
        [UMBRA_BACKEND_PAUSE] = "pause",       [UMBRA_BACKEND_WAITPKG] = "waitpkg",
        [UMBRA_BACKEND_MONITORX] = "monitorx", [UMBRA_BACKEND_MWAIT] = "mwait",
        [UMBRA_BACKEND_WFE] = "wfe",           [UMBRA_BACKEND_WFET] = "wfet",
        [UMBRA_BACKEND_ZAWRS] = "zawrs",       [UMBRA_BACKEND_POWER_WAIT] = "power-wait"};

    return names[backend];
}

UM_LINKONCE UM_COLD void um_backend_trial(void *backend);

/* Returns 0, -EOPNOTSUPP (it cannot execute here), or -ENOSYS (that cannot be found out). */
UM_INLINE int um_backend_try(enum umbra_wait_backend backend)
{
    if (!(um_arch_compiled_backends() & 1u << backend))
        return -EOPNOTSUPP;
    if (um_arch_backends() & 1u << backend)
        return 0;
    return um_os_try(um_backend_trial, &backend);
}

/* Back ends that wait for a short time which the processor chooses, whatever the deadline. */
#define UM_BACKENDS_SHORT (1u << UMBRA_BACKEND_ZAWRS | 1u << UMBRA_BACKEND_POWER_WAIT)

UM_INLINE enum umbra_backend_verdict um_backend_accept(enum umbra_wait_backend backend,
                                                       const struct umbra_backend_report *report)
{
    uint64_t expired_ns = um_cycles_to_ns(report->expired_cycles);
    uint64_t least_ns =
        UM_BACKENDS_SHORT & 1u << backend ? expired_ns + UM_PROBE_SHORT_NS : UM_PROBE_NO_WAIT_NS;

    if (expired_ns > UM_PROBE_TRAP_NS)
        return UMBRA_BACKEND_TRAPS;
    if (um_cycles_to_ns(report->idle_cycles) < least_ns)
        return UMBRA_BACKEND_NO_WAIT;
    if (um_cycles_to_ns(report->idle_cycles) > UM_PROBE_OVERSLEEP_NS)
        return UMBRA_BACKEND_OVERSLEEPS;
    return report->announced ? UMBRA_BACKEND_USABLE : UMBRA_BACKEND_NOT_ANNOUNCED;
}

#ifdef UMBRA_IMPLEMENTATION

#define UM_PROBE_TRIALS 9
#define UM_PROBE_IDLE_NS 8000 /* the wait that is asked for: below every system's cap */

UM_LINKONCE UM_COLD int um_compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Median of some times, which it sorts. */
UM_LINKONCE UM_COLD uint64_t um_median(uint64_t *took, size_t count)
{
    qsort(took, count, sizeof(took[0]), um_compare_u64);
    return took[count / 2];
}

/* Median length, in cycles, of a monitor wait of `cycles` on a word that no thread writes. */
UM_LINKONCE UM_COLD uint64_t um_backend_measure(enum umbra_wait_backend backend, uint64_t cycles)
{
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u32 word[UMBRA_CACHE_LINE / sizeof(um_atomic_u32)];
    uint64_t took[UM_PROBE_TRIALS];

    um_atomic_store(&word[0], 0, relaxed); /* relaxed: no other thread sees this word */
    for (int i = 0; i < UM_PROBE_TRIALS; i++) {
        uint64_t start = um_arch_cycles();

        um_arch_arm_load32(backend, &word[0]);
        um_arch_monitor_wait(backend, start + cycles, false);
        took[i] = um_arch_cycles() - start;
    }
    return um_median(took, UM_PROBE_TRIALS);
}

/*
 * One wait, in a child process. Its deadline is late enough even for an emulator that translates
 * this code first: an instruction without a deadline of its own is skipped when the deadline has
 * passed.
 */
UM_LINKONCE UM_COLD void um_backend_trial(void *backend)
{
    uint64_t length = um_ns_to_cycles(1000000); /* may calibrate, so before the time stamp */
    um_atomic_u32 word = 0;

    um_arch_arm_load32(*(enum umbra_wait_backend *)backend, &word);
    um_arch_monitor_wait(*(enum umbra_wait_backend *)backend, um_arch_cycles() + length, false);
}

/* Back ends without a deadline: only where they are announced does something end their wait. */
#define UM_BACKENDS_UNBOUNDED (1u << UMBRA_BACKEND_WFE | 1u << UMBRA_BACKEND_MWAIT)

UM_LINKONCE UM_COLD void um_backend_explain(struct umbra_backend_report *report)
{
    unsigned long long expired = report->expired_cycles;
    unsigned long long idle = report->idle_cycles;
    const char *text[] = {
        [UMBRA_BACKEND_USABLE] = "an expired wait costs %llu cycles, an 8 us wait takes %llu",
        [UMBRA_BACKEND_NOT_COMPILED] = "not an instruction of this architecture",
        [UMBRA_BACKEND_NOT_ANNOUNCED] = "not announced by processor or kernel, though it executes",
        [UMBRA_BACKEND_ILLEGAL] = "not announced, and executing it ends the process",
        [UMBRA_BACKEND_UNTRIED] = "not announced, and not tried",
        [UMBRA_BACKEND_TRAPS] = "traps: an expired wait costs %llu cycles",
        [UMBRA_BACKEND_NO_WAIT] = "does not wait: expired %llu cycles, 8 us wait %llu cycles",
        [UMBRA_BACKEND_OVERSLEEPS] = "oversleeps: expired %llu cycles, 8 us wait %llu cycles"};

    snprintf(report->reason, sizeof(report->reason), text[report->verdict], expired, idle);
}

/* Fills the report of one back end. */
UM_LINKONCE UM_COLD void um_backend_probe(enum umbra_wait_backend backend,
                                          struct umbra_backend_report *report)
{
    int tried;

    *report = (struct umbra_backend_report){.name = um_backend_name(backend)};
    report->compiled = um_arch_compiled_backends() & 1u << backend;
    report->announced = um_arch_backends() & 1u << backend;
    if (backend == UMBRA_BACKEND_PAUSE) {
        report->executes = true;
        snprintf(report->reason, sizeof(report->reason), "always there");
        return;
    }
    tried = report->compiled ? um_backend_try(backend) : 0;
    report->executes = report->compiled && tried == 0;
    if (!report->compiled)
        report->verdict = UMBRA_BACKEND_NOT_COMPILED;
    else if (tried != 0)
        report->verdict = tried == -ENOSYS ? UMBRA_BACKEND_UNTRIED : UMBRA_BACKEND_ILLEGAL;
    else if (!report->announced && UM_BACKENDS_UNBOUNDED & 1u << backend)
        report->verdict = UMBRA_BACKEND_NOT_ANNOUNCED;
    else {
        report->expired_cycles = um_backend_measure(backend, 0);
        report->idle_cycles = um_backend_measure(backend, um_ns_to_cycles(UM_PROBE_IDLE_NS));
        report->verdict = um_backend_accept(backend, report);
    }
    um_backend_explain(report);
}

/* The report, made once. */
struct um_backends {
    struct um_run_once once;
    struct um_wait_report report;
};

UM_SHARED(struct um_backends um_backends, {{UM_RUN_NEVER}, {0}});

/* Chooses the best announced back end that measures well. Only announced back ends are executed. */
UM_LINKONCE UM_COLD void um_backend_auto(void)
{
    static const enum umbra_wait_backend best_first[] = {
        UMBRA_BACKEND_WAITPKG, UMBRA_BACKEND_MONITORX,   UMBRA_BACKEND_WFET, UMBRA_BACKEND_WFE,
        UMBRA_BACKEND_ZAWRS,   UMBRA_BACKEND_POWER_WAIT, UMBRA_BACKEND_MWAIT};
    const uint32_t announced = um_arch_backends(); /* virtual machines trap each CPUID: 10 us */

    for (size_t i = 0; i < sizeof(best_first) / sizeof(best_first[0]); i++) {
        struct umbra_backend_report report;

        if (!(announced & 1u << best_first[i]))
            continue;
        um_backend_probe(best_first[i], &report);
        if (report.verdict == UMBRA_BACKEND_USABLE) {
            um_machine.backend = best_first[i];
            return;
        }
    }
}

UM_LINKONCE UM_COLD void um_backend_report_all(void)
{
    um_once_in_process(&um_machine.backend_once, um_backend_auto);
    um_backends.report.chosen = um_machine.backend;
    for (unsigned i = 0; i < UMBRA_BACKEND_COUNT; i++)
        um_backend_probe((enum umbra_wait_backend)i, &um_backends.report.backend[i]);
}

UM_LINKONCE const struct um_wait_report *um_wait_report(void)
{
    um_once_in_process(&um_backends.once, um_backend_report_all);
    return &um_backends.report;
}

/* Reports that no back end has this name, which is from the environment or the options: -EINVAL. */
UM_LINKONCE UM_COLD int um_backend_unknown(const char *from, const char *name)
{
    char names[UMBRA_BACKEND_COUNT * 16] = "auto";

    for (unsigned i = 0; i < UMBRA_BACKEND_COUNT; i++) {
        strcat(names, ", ");
        strcat(names, um_backend_name((enum umbra_wait_backend)i));
    }
    return um_why(-EINVAL, "%s%.60s: unknown; there are %s", from, name, names);
}

#define UM_BACKEND_NAME_BYTES 64

/* The back end's name in UMBRA_WAIT, which is its first item unless that is a gap; empty: none. */
UM_LINKONCE UM_COLD bool um_backend_forced(char name[UM_BACKEND_NAME_BYTES])
{
    const char *text = getenv("UMBRA_WAIT");
    size_t length = text ? strcspn(text, ",=") : 0;

    if (text && text[length] == '=')
        length = 0;
    snprintf(name, UM_BACKEND_NAME_BYTES, "%.*s", (int)length, text ? text : "");
    return *name != '\0';
}

/* The back end that the environment names, else the one that `name` does; errors as in
 * umbra_wait_policy_init. */
UM_LINKONCE UM_COLD int um_backend_choose(const char *name, uint32_t *out)
{
    char forced[UM_BACKEND_NAME_BYTES];
    const char *from = um_backend_forced(forced) ? "UMBRA_WAIT=" : "wait.backend = ";

    name = *forced ? forced : name;
    if ((!name || strcmp(name, "auto") == 0) && um_machine_is_put_off()) {
        *out = UMBRA_BACKEND_PAUSE;
        return 0;
    }
    if (!name || strcmp(name, "auto") == 0) {
        um_once_in_process(&um_machine.backend_once, um_backend_auto);
        *out = um_machine.backend;
        return 0;
    }
    for (unsigned i = 0; i < UMBRA_BACKEND_COUNT; i++) {
        if (strcmp(name, um_backend_name((enum umbra_wait_backend)i)) != 0)
            continue;
        if (um_backend_try((enum umbra_wait_backend)i) != 0)
            return um_why(-EOPNOTSUPP, "%s%s: cannot execute here", from, name);
        *out = i;
        return 0;
    }
    return um_backend_unknown(from, name);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
