/* SPDX-License-Identifier: BSL-1.0 */
/* Handing work to another processor by what the operating system offers. */
#ifndef UMBRA_BENCH_OS_HANDOVER_H
#define UMBRA_BENCH_OS_HANDOVER_H

#include "harness.h"

/* A thread a fork, bound to the second processor by its attributes: create and join. */
extern const struct bench_ops pthread_create_ops;

/* One thread on the second processor, woken and waited for by condition variables. */
extern const struct bench_ops pthread_cond_ops;

/* The same over one word and two futex calls each way. */
extern const struct bench_ops futex_ops;

#endif
