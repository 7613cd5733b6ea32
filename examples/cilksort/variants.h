/* SPDX-License-Identifier: BSL-1.0 */
/* The ways to sort: all but the first and the last make the same tasks of the same steps (steps.h),
 * but none of numbers that are in order, or in the opposite order, when they look at them first.
 * A task keeps one half, or quarter, of what it divides, and makes tasks of the rest. C and C++. */
#ifndef CILKSORT_VARIANTS_H
#define CILKSORT_VARIANTS_H

#include "steps.h"

struct setting {
    struct part part;
    size_t processors;              /* to use */
    size_t tasks;                   /* becomes how many there were; 0: not known */
    size_t inlined, called, fibers; /* with limits: what became of Umbra's */
};

/* 0 or a negative errno. */
typedef int sort_fn(struct setting *setting);

sort_fn sort_qsort;  /* the C library's, on one processor */
sort_fn sort_serial; /* the steps, on one processor, as calls */
sort_fn sort_umbra;  /* in the calling fiber, or with a runtime that it makes */
sort_fn sort_openmp;
sort_fn sort_tbb; /* tbb::parallel_sort, which is another algorithm */

#endif
