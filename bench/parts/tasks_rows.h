/* SPDX-License-Identifier: BSL-1.0 */
/* What fib, dispatch and the kernels of forks_rows.h share: rows of child processes, and rows that
 * run a fiber on some cores. */
#ifndef UMBRA_BENCH_TASKS_ROWS_H
#define UMBRA_BENCH_TASKS_ROWS_H

#include "harness.h"
#include "tasks_case.h"

enum tasks_runtime {
    TASKS_GOMP,
    TASKS_LLVM,
    TASKS_TBB,
    TASKS_LACE,
    TASKS_LIBFORK,
    TASKS_CITOR,
    TASKS_FORK_UNION,
};

/* Adds a row of a child process; a part is a call, a null function or all of it. */
struct bench_row *tasks_child_row(struct bench *bench, const char *name, enum tasks_runtime runtime,
                                  const struct tasks_case *work);

/* Work in a fiber of core 0. Returns how much was verified. */
typedef uint64_t tasks_fiber_fn(const struct tasks_case *work, uint64_t iterations, uint64_t *ns);

/* Adds a row whose batches run in a runtime of work->cores cores. */
struct bench_row *tasks_umbra_row(struct bench *bench, const char *name, tasks_fiber_fn *fn,
                                  const struct tasks_case *work);

/* Says on row->params what the case is. */
void tasks_state(struct bench_row *row, const struct tasks_case *work);

#endif
