/* SPDX-License-Identifier: BSL-1.0 */
/* The null fork of Umbra itself: shadow_fork and shadow_join of a function that counts. */
#ifndef UMBRA_BENCH_SHADOW_FORK_H
#define UMBRA_BENCH_SHADOW_FORK_H

#include "harness.h"

#include <umbra/shadow.h>

#define SHADOW_FORK_NO_SPIN 1 /* cycles: less than a poll, so there is no spin phase */

/*
 * row->arg: the struct umbra_wait_options both sides wait by. A back end named there is used even
 * if UMBRA_WAIT names another. The shadow lives for one turn, since an idle one may spin.
 */
extern const struct bench_ops shadow_fork_ops;

/* A shadow on the second processor of the row, its owner on the first. */
int shadow_fork_create(const struct bench_row *row, const struct umbra_wait_options *wait,
                       struct umbra_shadow *shadow);

/* A shadow on one processor, the caller as its owner on another. */
int shadow_fork_create_at(const struct bench *bench, int owner_cpu, int shadow_cpu,
                          const struct umbra_wait_options *wait, struct umbra_shadow *shadow);

/*
 * The monitor instructions to measure: the back end that is chosen on this machine, or, where that is
 * "pause", the first other that executes; NULL: none does.
 */
const char *shadow_fork_monitor(void);

/*
 * The paper's two-phase wait (its Figure 7) for the row's processors: spins for so many polls, then
 * waits by the monitor alone, and never sleeps. Where there are no monitor instructions, pauses with a
 * growing gap stand for them. 0 or a negative errno.
 */
int shadow_fork_paper_wait(const struct bench_row *row, uint64_t polls,
                           struct umbra_wait_options *wait);

#endif
