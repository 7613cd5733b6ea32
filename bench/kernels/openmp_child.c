/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The programs of openmp: constructs of OpenMP, compiled by gcc once, and run under libgomp and
 * under libumbra_omp.so. Each counts what both members did, on lines of their own.
 */
#define _GNU_SOURCE
#include "child_channel.h"
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

enum { EDGE = 8, SIZE = 6 * EDGE };

static double factor[SIZE][SIZE];

/* What columns [from, to) leave of a cell. */
static double rest(int i, int j, int from, int to)
{
    double sum = factor[i][j];

    for (int m = from; m < to; m++)
        sum -= factor[i][m] * factor[j][m];
    return sum;
}

static void block_factor(int k)
{
    for (int j = k; j < k + EDGE; j++) {
        double square = rest(j, j, k, j), root = square;

        for (int step = 0; step < 10; step++)
            root = (root + square / root) / 2;
        factor[j][j] = root;
        for (int i = j + 1; i < k + EDGE; i++)
            factor[i][j] = rest(i, j, k, j) / root;
    }
}

static void block_solve(int i0, int k)
{
    for (int i = i0; i < i0 + EDGE; i++)
        for (int j = k; j < k + EDGE; j++)
            factor[i][j] = rest(i, j, k, j) / factor[j][j];
}

static void block_update(int i0, int j0, int k)
{
    for (int i = i0; i < i0 + EDGE; i++)
        for (int j = j0; j < j0 + EDGE; j++)
            factor[i][j] = rest(i, j, k, k + EDGE);
}

/* Returns the last cell, which all others have a part in. */
static double factorize(unsigned threads)
{
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            factor[i][j] = i == j ? 2 * SIZE : (i + j) % 3;
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (int k = 0; k < SIZE; k += EDGE) {
#pragma omp task depend(inout : factor[k][k])
        block_factor(k);
        for (int i = k + EDGE; i < SIZE; i += EDGE) {
#pragma omp task depend(in : factor[k][k]) depend(inout : factor[i][k])
            block_solve(i, k);
        }
        for (int i = k + EDGE; i < SIZE; i += EDGE)
            for (int j = k + EDGE; j <= i; j += EDGE) {
#pragma omp task depend(in : factor[i][k], factor[j][k]) depend(inout : factor[i][j])
                block_update(i, j, k);
            }
    }
    return factor[SIZE - 1][SIZE - 1];
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
