/* SPDX-License-Identifier: BSL-1.0 */
/* The steps of an adaptive body by OpenMP's tasks: the task of a steep block makes one for each piece. */
#include "adaptive_ways.h"

#include <errno.h>
#include <stdlib.h>

#include <omp.h>

#define LINE 64

struct job {
    struct adaptive *adaptive;
    char *scratch; /* of all threads */
    size_t scratch_bytes;
    _Atomic int error;
};

static void piece(const struct job *job, size_t step, size_t number)
{
    adaptive_piece(job->adaptive, step, number,
                   job->scratch + (size_t)omp_get_thread_num() * job->scratch_bytes);
}

static void block(struct job *job, size_t step, size_t number)
{
    struct row rows[4];
    int count, error = adaptive_block(job->adaptive, step, number, rows, &count);

    if (error) {
        job->error = error;
        return;
    }
    for (int r = 0; r < count; r++)
        for (size_t p = rows[r].begin; p < rows[r].end; p++) {
#pragma omp task
            piece(job, step, p);
        }
}

static void make_step(struct job *job, size_t step)
{
    size_t all = job->adaptive->blocks.all;

#pragma omp taskgroup
    for (size_t number = 0; number < all; number++) {
#pragma omp task
        block(job, step, number);
    }
#pragma omp taskgroup
    for (size_t number = 0; number < all && !job->error; number++) {
#pragma omp task
        adaptive_mend(job->adaptive, step, number);
    }
}

int adaptive_openmp(struct adaptive_run *run)
{
    struct job job = {.adaptive = run->adaptive,
                      .scratch_bytes = adaptive_scratch_bytes(run->adaptive)};

    job.scratch = aligned_alloc(LINE, run->processors * job.scratch_bytes);
    if (!job.scratch)
        return -ENOMEM;
#pragma omp parallel num_threads((int)run->processors)
#pragma omp single
    for (size_t step = 0; step < run->steps && !job.error; step++)
        make_step(&job, step);
    free(job.scratch);
    return job.error;
}
