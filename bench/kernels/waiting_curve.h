/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What it costs that all processors wait, and the kernel's meters are read every so often (Hori et al.,
 * "Shadow Thread", Figure 8). On the first hardware thread an owner waits in shadow_join for a function
 * that has not ended; on the second its shadow runs that function, which waits as well; on each other
 * one a shadow waits for a fork. All wait the same way.
 */
#ifndef UMBRA_BENCH_WAITING_CURVE_H
#define UMBRA_BENCH_WAITING_CURVE_H

#include "harness.h"

#include <umbra/wait.h>

struct waiting_curve {
    struct umbra_wait_options wait; /* how they wait */
    unsigned samples;               /* how many readings */
    uint64_t every_ns;              /* how long before each */
};

/*
 * For open: as parameter "energy" of the row, what the meters said: how often they were read, watts
 * and degrees Celsius where there are such; or the words "not available". The meters are those of
 * /sys, or of the folder that UMBRA_SYSFS names. Blocks for all samples, if there is anything to
 * read. Returns 0 or a negative errno.
 */
int waiting_curve_add(struct bench_row *row, const struct waiting_curve *curve);

#endif
