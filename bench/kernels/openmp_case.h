/* SPDX-License-Identifier: BSL-1.0 */
/* What openmp measures: the child's problems, and their names. */
#ifndef UMBRA_BENCH_OPENMP_CASE_H
#define UMBRA_BENCH_OPENMP_CASE_H

enum { OPENMP_THREADS = 2, OPENMP_FIB = 12 };

enum openmp_problem {
    OPENMP_REGION,
    OPENMP_REDUCTION,
    OPENMP_FOR_STATIC,
    OPENMP_FOR_DYNAMIC,
    OPENMP_BARRIER,
    OPENMP_SINGLE,
    OPENMP_TASKS,
    OPENMP_PRODUCER,
    OPENMP_CHOLESKY,
    OPENMP_PROBLEMS
};

static const char *const openmp_names[OPENMP_PROBLEMS] = {
    "parallel", "reduction", "for-static", "for-dynamic", "barrier",
    "single",   "fib",       "producer",   "cholesky",
};

#endif
