/* SPDX-License-Identifier: BSL-1.0 */
/*
 * UMONITOR, UMWAIT and TPAUSE on an x86-64 processor that does not have them: a SIGILL handler that
 * decodes the instruction at fault, does what it says, and steps over it. For tests only.
 *
 *   instruction       encoding                        effect here
 *   UMONITOR r64      F3 [REX] 0F AE /6, register     remembers the 64-byte line and its contents
 *   UMWAIT   r32      F2 [REX] 0F AE /6, register     polls until the contents differ, the deadline
 *   TPAUSE   r32      66 [REX] 0F AE /6, register     EDX:EAX (absolute) or the cap; TPAUSE: no
 * line
 *
 * UMWAIT disarms, and returns at once when nothing is armed, as the processor does. UMWAIT and
 * TPAUSE clear OF SF ZF AF PF, and set CF if the operating system's cap ended them. A reserved bit
 * set in their operand is a fault on the processor; here the instruction is not taken and goes, as
 * every other cause of SIGILL, to the handler that was installed before.
 *
 * What it shows: encodings, operands, deadlines, the order of look, arm, look, wait, tolerance of
 * early returns. What it cannot show: latency, a store that leaves the line's contents as they
 * were, the ordering of the real monitor.
 *
 * Waiting threads give way by pause, and now and then sched_yield, so that two threads on one
 * processor make progress. The handler allocates nothing and takes no lock. One emulator a process;
 * a child process inherits it, with counters of its own.
 */
#ifndef UMBRA_TESTS_WAITPKG_EMULATOR_H
#define UMBRA_TESTS_WAITPKG_EMULATOR_H

#include <stdbool.h>
#include <stdint.h>

/* What goes wrong on purpose. All zero: a perfect processor without a cap. */
struct waitpkg_faults {
    uint64_t seed;               /* of the choices below; each thread draws its own sequence */
    uint32_t spurious_per_mille; /* UMWAITs of a line that return early though nothing happened */
    uint32_t lost_per_mille;  /* UMONITORs that forget the line: only the deadline ends the wait */
    uint32_t delay_per_mille; /* UMONITORs delayed before, and independently after, arming */
    uint64_t delay_cycles;    /* longest such delay, time-stamp cycles */
    uint64_t cap_cycles;      /* the operating system's cap on one wait; 0: none */
    void (*before_arming)(void *line); /* called by the handler; must be async-signal-safe */
    bool (*over)(const void *line);    /* is what the caller waits for there already? Likewise */
};

/* What has been executed since the last reset, by all threads. */
struct waitpkg_counters {
    uint64_t umonitor;   /* UMONITORs */
    uint64_t umwait;     /* UMWAITs; stores to unarmed say how they ended */
    uint64_t tpause;     /* TPAUSEs; they end as timeouts, past or caps */
    uint64_t stores;     /* ended by a change of the line */
    uint64_t timeouts;   /* ended by the deadline, after waiting for it */
    uint64_t past;       /* ended at once: the deadline had passed */
    uint64_t caps;       /* ended by the operating system's cap */
    uint64_t spurious;   /* ended early by injection */
    uint64_t unarmed;    /* ended at once: no UMONITOR since the last UMWAIT */
    uint64_t deep;       /* UMWAITs that asked for the deeper state, C0.2 */
    uint64_t lost;       /* UMONITORs whose line was forgotten by injection */
    uint64_t delays;     /* delays injected */
    uint64_t slept_over; /* UMWAITs that began on an armed, unchanged line though `over` held: a
                            wake-up that the waiting loop has lost */
    uint64_t overslept;  /* UMWAITs that lasted until the deadline though `over` held by then and
                            nothing showed it: the line is as it was armed, or was forgotten */
    uint64_t chained;    /* SIGILLs passed on */
};

/*
 * Installs the handler and resets the counters; NULL: no faults. Returns 0, or -EOPNOTSUPP where
 * the instructions do not raise SIGILL (the processor has them, or ignores them): nothing is then
 * installed. Not while other threads use the emulator.
 */
int waitpkg_emulator_install(const struct waitpkg_faults *faults);

/* Puts the former handler back. Not while other threads use the emulator. */
void waitpkg_emulator_uninstall(void);

/* Exchanges the faults and resets the counters. Not while other threads use the emulator. */
void waitpkg_emulator_set(const struct waitpkg_faults *faults);

struct waitpkg_counters waitpkg_emulator_counters(void);

#endif
