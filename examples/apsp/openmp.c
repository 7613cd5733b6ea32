/* SPDX-License-Identifier: BSL-1.0 */
/* BFW with OpenMP's tasks. See variants.h. */
#include "variants.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <omp.h>

struct job {
    struct blocks *blocks;
    struct arithmetic arithmetic;
    char *copy;        /* a block for each thread */
    size_t bad;        /* vertex on a negative cycle; once, before stop */
    _Atomic bool stop; /* then nothing more is computed */
};

static void *scratch(const struct job *job)
{
    return job->copy + (size_t)omp_get_thread_num() * block_bytes(job->blocks->block);
}

/* A block of row or column k: one factor is the block itself. */
static void relax_beside(const struct job *job, size_t i, size_t j, size_t k)
{
    const struct blocks *blocks = job->blocks;
    void *c = block_at(blocks, i, j), *closed = block_at(blocks, k, k), *copy = scratch(job);

    if (job->stop)
        return;
    if (j == k) {
        job->arithmetic.relax_right(c, closed, blocks->block);
        return;
    }
    memcpy(copy, c, block_bytes(blocks->block));
    job->arithmetic.relax(c, c, closed, copy, blocks->block);
}

static void relax_rest(const struct job *job, size_t i, size_t j, size_t k)
{
    const struct blocks *blocks = job->blocks;
    void *c = block_at(blocks, i, j);

    if (!job->stop)
        job->arithmetic.relax(c, c, block_at(blocks, i, k), block_at(blocks, k, j), blocks->block);
}

static void close_diagonal(struct job *job, size_t k)
{
    struct blocks *blocks = job->blocks;
    size_t bad;

    if (job->stop)
        return;
    bad = job->arithmetic.close(block_at(blocks, k, k), blocks->block, scratch(job));
    if (bad < blocks->block) {
        job->bad = k * blocks->block + bad;
        job->stop = true;
    }
}

static void with_barriers(struct job *job)
{
    size_t side = job->blocks->side;

    for (size_t k = 0; k < side && !job->stop; k++) {
        close_diagonal(job, k);
        for (size_t i = 0; i < side; i++) {
            if (i == k)
                continue;
#pragma omp task
            relax_beside(job, i, k, k);
#pragma omp task
            relax_beside(job, k, i, k);
        }
#pragma omp taskwait
        for (size_t i = 0; i < side; i++)
            for (size_t j = 0; j < side; j++) {
                if (i == k || j == k)
                    continue;
#pragma omp task
                relax_rest(job, i, j, k);
            }
#pragma omp taskwait
    }
}

/* What stands for the block where tasks say what they depend on. */
static char *first_byte(const struct blocks *blocks, size_t i, size_t j)
{
    return block_at(blocks, i, j);
}

/* gcc takes variables that only tasks depend on for unused. */
#pragma GCC diagnostic ignored "-Wunused-variable"

static void with_dependences(struct job *job)
{
    const struct blocks *blocks = job->blocks;
    size_t side = blocks->side;

    for (size_t k = 0; k < side; k++) {
        char *kk = first_byte(blocks, k, k);

#pragma omp task depend(inout : kk[0])
        close_diagonal(job, k);
        for (size_t i = 0; i < side; i++) {
            char *ik = first_byte(blocks, i, k), *ki = first_byte(blocks, k, i);

            if (i == k)
                continue;
#pragma omp task depend(in : kk[0]) depend(inout : ik[0])
            relax_beside(job, i, k, k);
#pragma omp task depend(in : kk[0]) depend(inout : ki[0])
            relax_beside(job, k, i, k);
        }
        for (size_t i = 0; i < side; i++)
            for (size_t j = 0; j < side; j++) {
                char *ij = first_byte(blocks, i, j), *ik = first_byte(blocks, i, k);
                char *kj = first_byte(blocks, k, j);

                if (i == k || j == k)
                    continue;
#pragma omp task depend(in : ik[0], kj[0]) depend(inout : ij[0])
                relax_rest(job, i, j, k);
            }
    }
#pragma omp taskwait
}

static int solve(struct blocks *blocks, const struct setting *setting, size_t *vertex,
                 void (*order)(struct job *))
{
    struct job job = {.blocks = blocks, .arithmetic = blocks->arithmetic};

    job.copy = aligned_alloc(64, setting->processors * block_bytes(blocks->block));
    if (!job.copy)
        return -ENOMEM;
#pragma omp parallel num_threads(setting->processors)
#pragma omp single
    order(&job);
    free(job.copy);
    *vertex = job.bad;
    return job.stop ? -EDOM : 0;
}

int solve_openmp_tasks(struct blocks *blocks, const struct setting *setting, size_t *vertex)
{
    return solve(blocks, setting, vertex, with_barriers);
}

int solve_openmp_depend(struct blocks *blocks, const struct setting *setting, size_t *vertex)
{
    return solve(blocks, setting, vertex, with_dependences);
}
