/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The programs of openmp: constructs of OpenMP, compiled by gcc, and run under libgomp and under
 * libumbra_omp.so, and compiled by clang, under libomp. Each counts what both members did, on lines
 * of their own.
 */
#define _GNU_SOURCE
#include "child_channel.h"
#include "openmp_blocks.h"
#include "openmp_case.h"

#include <omp.h>

struct line {
    uint64_t count __attribute__((aligned(CHILD_CHANNEL_LINE)));
};

static struct line did[OPENMP_THREADS];

static void mark(void)
{
    did[omp_get_thread_num()].count++;
}

static long fib(int n)
{
    long a, b;

    if (n < 2)
        return n;
#pragma omp task shared(a)
    a = fib(n - 1);
#pragma omp task shared(b)
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

static void region(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
#pragma omp parallel num_threads(OPENMP_THREADS)
        mark();
}

static void reduction(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t sum = 0;

#pragma omp parallel num_threads(OPENMP_THREADS) reduction(+ : sum)
        sum += 1;
        did[0].count += sum == OPENMP_THREADS;
        did[1].count++;
    }
}

static void for_static(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
#pragma omp parallel for num_threads(OPENMP_THREADS)
        for (int j = 0; j < OPENMP_THREADS; j++)
            mark();
}

static void for_dynamic(uint64_t n)
{
    uint64_t sum = 0;

#pragma omp parallel num_threads(OPENMP_THREADS) reduction(+ : sum)
    for (uint64_t i = 0; i < n; i++)
#pragma omp for schedule(dynamic)
        for (int j = 0; j < 16; j++)
            sum++;
    did[0].count = did[1].count = sum / 16;
}

static void barrier(uint64_t n)
{
#pragma omp parallel num_threads(OPENMP_THREADS)
    for (uint64_t i = 0; i < n; i++) {
        mark();
#pragma omp barrier
    }
}

static void single(uint64_t n)
{
    uint64_t sum = 0;

#pragma omp parallel num_threads(OPENMP_THREADS)
    for (uint64_t i = 0; i < n; i++)
#pragma omp single
        sum++;
    did[0].count = did[1].count = sum;
}

static void tasks(uint64_t n)
{
#pragma omp parallel num_threads(OPENMP_THREADS)
#pragma omp single
    for (uint64_t i = 0; i < n; i++)
        did[0].count += fib(OPENMP_FIB) == 144;
    did[1].count = did[0].count;
}

static void producer(uint64_t n)
{
#pragma omp parallel num_threads(OPENMP_THREADS)
#pragma omp single
    for (uint64_t i = 0; i < n; i++)
#pragma omp task
        mark();
    did[0].count = did[1].count = did[0].count + did[1].count;
}

/* ---- tasks with dependences: a factorization by blocks ---- */

/* Returns the last cell, which all others have a part in. */
static double factorize(unsigned threads)
{
    for (int i = 0; i < OPENMP_SIZE; i++)
        for (int j = 0; j < OPENMP_SIZE; j++)
            openmp_factor[i][j] = i == j ? 2 * OPENMP_SIZE : (i + j) % 3;
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (int k = 0; k < OPENMP_SIZE; k += OPENMP_EDGE) {
#pragma omp task depend(inout : openmp_factor[k][k])
        openmp_block_factor(k);
        for (int i = k + OPENMP_EDGE; i < OPENMP_SIZE; i += OPENMP_EDGE) {
#pragma omp task depend(in : openmp_factor[k][k]) depend(inout : openmp_factor[i][k])
            openmp_block_solve(i, k);
        }
        for (int i = k + OPENMP_EDGE; i < OPENMP_SIZE; i += OPENMP_EDGE)
            for (int j = k + OPENMP_EDGE; j <= i; j += OPENMP_EDGE) {
#pragma omp task depend(in                                                                         \
                        : openmp_factor[i][k], openmp_factor[j][k]) depend(inout                   \
                                                                           : openmp_factor[i][j])
                openmp_block_update(i, j, k);
            }
    }
    return openmp_factor[OPENMP_SIZE - 1][OPENMP_SIZE - 1];
}

static void cholesky(uint64_t n)
{
    double last = factorize(1);

    for (uint64_t i = 0; i < n; i++)
        did[0].count += factorize(OPENMP_THREADS) == last;
    did[1].count = did[0].count;
}

static void (*const problems[OPENMP_PROBLEMS])(uint64_t n) = {
    region, reduction, for_static, for_dynamic, barrier, single, tasks, producer, cholesky,
};

static void batch(struct child_channel *channel)
{
    did[0].count = did[1].count = 0;
    problems[channel->problem](channel->iterations);
    channel->verified = did[0].count < did[1].count ? did[0].count : did[1].count;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL)
        return 2;
    child_channel_serve(channel, batch);
    return 0;
}
