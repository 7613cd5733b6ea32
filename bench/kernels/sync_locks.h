/* SPDX-License-Identifier: BSL-1.0 */
/* Rows of the kernel sync about a read-write lock, and about many waiters of one condition. */
#ifndef UMBRA_BENCH_SYNC_LOCKS_H
#define UMBRA_BENCH_SYNC_LOCKS_H

#include "harness.h"

void sync_locks_declare(struct bench *bench);

#endif
