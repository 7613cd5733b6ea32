/* SPDX-License-Identifier: BSL-1.0 */
/* The ways to make the steps of an adaptive body (adaptive.h): the same tasks in each, in any order. C and
 * C++. */
#ifndef HEAT_ADAPTIVE_WAYS_H
#define HEAT_ADAPTIVE_WAYS_H

#include "adaptive.h"

#include <stdint.h>

struct umbra_runtime;

/* Of all steps. */
struct range {
    size_t least, most;
};

struct adaptive_run {
    struct adaptive *adaptive; /* as adaptive_heat_spot() leaves it */
    size_t steps;
    size_t processors;             /* to use */
    struct umbra_runtime *runtime; /* with so many cores, or NULL: a new one */

    /* Out, of adaptive_serial and adaptive_dispatch: tasks of a step, fine blocks after it. */
    struct range tasks, fine;
};

static inline void range_add(struct range *range, size_t value)
{
    range->least = value < range->least ? value : range->least;
    range->most = value > range->most ? value : range->most;
}

/* 0 or a negative errno. */
typedef int adaptive_fn(struct adaptive_run *run);

adaptive_fn adaptive_serial; /* one processor */
adaptive_fn
    adaptive_dispatch; /* a dispatcher's workers add a block's pieces when they find it steep */
adaptive_fn adaptive_openmp; /* OpenMP: tasks that make tasks */
adaptive_fn adaptive_tbb;    /* oneTBB: the same in a task group */

#endif
