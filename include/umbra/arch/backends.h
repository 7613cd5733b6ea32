/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The names of the instructions that wait for a store, for the architecture headers, which stand
 * below cpu.h. Private; users see the enum through cpu.h.
 */
#ifndef UMBRA_ARCH_BACKENDS_H
#define UMBRA_ARCH_BACKENDS_H

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* The instructions that watch a cache line. A value is also a bit number in um_arch_backends(). */
enum umbra_wait_backend {
    UMBRA_BACKEND_PAUSE,      /* none: pause and look again; everywhere */
    UMBRA_BACKEND_WAITPKG,    /* x86-64 UMONITOR, UMWAIT */
    UMBRA_BACKEND_MONITORX,   /* x86-64 MONITORX, MWAITX */
    UMBRA_BACKEND_MWAIT,      /* x86-64 MONITOR, MWAIT outside the kernel */
    UMBRA_BACKEND_WFE,        /* aarch64 load-exclusive, WFE */
    UMBRA_BACKEND_WFET,       /* aarch64 load-exclusive, WFET */
    UMBRA_BACKEND_ZAWRS,      /* riscv64 load-reserved, WRS.STO */
    UMBRA_BACKEND_POWER_WAIT, /* ppc64 wait for a short time */
    UMBRA_BACKEND_COUNT
};

#endif
