/* SPDX-License-Identifier: BSL-1.0 */
/* The null fork of Umbra itself: shadow_fork and shadow_join of a function that counts. */
#ifndef UMBRA_BENCH_SHADOW_FORK_H
#define UMBRA_BENCH_SHADOW_FORK_H

#include "harness.h"

#include <umbra/shadow.h>

/*
 * row->arg: the struct umbra_wait_options both sides wait by. A back end named there is used even
 * if UMBRA_WAIT names another. The shadow lives for one turn, since an idle one may spin.
 */
extern const struct bench_ops shadow_fork_ops;

/* A shadow on the second processor of the row, its owner on the first. */
int shadow_fork_create(const struct bench_row *row, const struct umbra_wait_options *wait,
                       struct umbra_shadow *shadow);

#endif
