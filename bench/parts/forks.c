/* SPDX-License-Identifier: BSL-1.0 */
/* See forks.h. */
#define _GNU_SOURCE
#include "forks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* Solutions for n queens: https://oeis.org/A000170 */
static const uint32_t solutions[FORKS_QUEENS] = {
    1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596, 2279184,
};

uint32_t forks_free_columns(const struct forks_board *board, unsigned row, unsigned n)
{
    uint32_t columns = 0;

    for (int c = 0; c < (int)n; c++) {
        int r = 0;

        for (; r < (int)row; r++) {
            int across = board->column[r] - c;

            if (across == 0 || across == (int)row - r || across == r - (int)row)
                break;
        }
        columns |= (uint32_t)(r == (int)row) << c;
    }
    return columns;
}

void forks_multiply(const struct forks_product *leaf)
{
    size_t n = leaf->n, width = leaf->width;

    for (size_t i = 0; i < n; i++) {
        uint32_t *restrict c = leaf->c + i * width;

        for (size_t k = 0; k < n; k++) {
            const uint32_t *b = leaf->b + k * width;
            uint32_t a = leaf->a[i * width + k];

            for (size_t j = 0; j < n; j++)
                c[j] += a * b[j];
        }
    }
}

/* ---- matrices ---- */

/*
 * Of the one size that a process multiplies. In huge pages where the system has them: their rows are
 * a power of two apart, and which of them push each other out of a cache should not depend on the
 * pages that a process happened to get.
 */
static struct {
    uint32_t n;
    uint32_t *a, *b, *c;
    uint32_t *vector; /* three: see product_is_right() */
} matrices;

/* Numbers in no order: the three steps of Marsaglia's xorshift, 13, 17 and 5. */
static uint32_t mixed(uint32_t x)
{
    x ^= x << 13;
    x ^= x >> 17;
    return x ^ x << 5;
}

static int make_matrices(uint32_t n)
{
    size_t count = (size_t)n * n;
    size_t bytes = (3 * count + 3 * n) * sizeof(uint32_t);
    void *memory;
    uint32_t *all;

    if (posix_memalign(&memory, HUGE_PAGE, bytes) != 0)
        return 0;
    madvise(memory, bytes, MADV_HUGEPAGE);
    all = memory;
    free(matrices.a);
    matrices.n = n;
    matrices.a = all;
    matrices.b = all + count;
    matrices.c = all + 2 * count;
    matrices.vector = all + 3 * count;
    for (size_t i = 0; i < 2 * count; i++)
        all[i] = mixed((uint32_t)i + 1) % 1000;
    for (uint32_t i = 0; i < n; i++)
        matrices.vector[i] = mixed(~i);
    return 1;
}

/* out = matrix * in */
static void apply(const uint32_t *matrix, const uint32_t *in, uint32_t *out)
{
    uint32_t n = matrices.n;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t sum = 0;

        for (uint32_t k = 0; k < n; k++)
            sum += matrix[(size_t)i * n + k] * in[k];
        out[i] = sum;
    }
}

/* True if c times a vector is a times (b times the vector), by Freivalds' check. */
static int product_is_right(void)
{
    uint32_t *in = matrices.vector, *middle = in + matrices.n, *out = middle + matrices.n;
    int right = 1;

    apply(matrices.b, in, middle);
    apply(matrices.a, middle, out);
    apply(matrices.c, in, middle);
    for (uint32_t i = 0; i < matrices.n; i++)
        right = right && middle[i] == out[i];
    return right;
}

/* ---- cases ---- */

uint64_t forks_parts(const struct tasks_case *work)
{
    return strcmp(work->kind, "fib") == 0 ? tasks_calls(work->size) : 1;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* c is cleared before the time begins. True if the product is right. */
static int run_matmul(const struct forks_contender *contender, uint32_t n, uint64_t *ns)
{
    struct forks_product whole;
    uint64_t begin;

    if (matrices.n != n && !make_matrices(n))
        return 0;
    memset(matrices.c, 0, (size_t)n * n * sizeof(*matrices.c));
    whole = (struct forks_product){matrices.a, matrices.b, matrices.c, n, n};
    begin = now_ns();
    contender->matmul(&whole);
    *ns += now_ns() - begin;
    return product_is_right();
}

/* Runs the case once and adds its time. True if the result is right. */
static int run(const struct forks_contender *contender, const struct tasks_case *work, uint64_t *ns)
{
    static const struct forks_board empty;
    uint64_t size = work->size, right = 0, result = 1, begin = now_ns();

    if (strcmp(work->kind, "fib") == 0 && contender->fib) {
        result = contender->fib(work->size);
        right = tasks_fib(work->size);
    } else if (strcmp(work->kind, "skynet") == 0 && contender->skynet) {
        result = contender->skynet(0, size);
        right = size * (size - 1) / 2;
    } else if (strcmp(work->kind, "nqueens") == 0 && contender->nqueens && size < FORKS_QUEENS) {
        result = contender->nqueens(&empty, 0, work->size);
        right = solutions[size];
    } else if (strcmp(work->kind, "matmul") == 0 && contender->matmul) {
        return run_matmul(contender, work->size, ns);
    }
    *ns += now_ns() - begin;
    return result == right;
}

uint64_t forks_batch(const struct forks_contender *contender, const struct tasks_case *work,
                     uint64_t iterations, uint64_t *ns)
{
    uint64_t verified = 0;

    *ns = 0;
    for (uint64_t i = 0; i < iterations; i++)
        if (run(contender, work, ns))
            verified += forks_parts(work);
    return verified;
}
