/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Multiplies two matrices with a dispatcher: its workers, one a core, take rows of the result when
 * they have nothing to do, each a few at a time. A worker sums up a row in 64 KiB on its own stack, and
 * counts it in a struct from malloc, under a mutex. The numbers are whole, so that the check is exact:
 * the product times a vector must be the first matrix times (the second times the vector).
 *
 *     matrix [ROWS]        rows and columns of each; 300
 *
 * Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <stdint.h>

#include <umbra/dispatch.h>
#include <umbra/sync.h>

#include "program.h"

const char program_name[] = "matrix";

#define MOST 8192 /* rows: 8 bytes each are 64 KiB */

struct progress {
    struct umbra_mutex mutex;
    size_t rows; /* that are done */
};

static size_t n = 300;
static uint64_t *a, *b, *c; /* by rows */
static struct progress *progress;

/* A worker: the rows that it was given. */
static int multiply(struct umbra_worker *worker, struct umbra_value rows, void *arg)
{
    uint64_t sum[MOST];

    (void)worker, (void)arg;
    for (size_t i = rows.begin; i < rows.end; i++) {
        memset(sum, 0, n * sizeof(*sum));
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < n; j++)
                sum[j] += a[i * n + k] * b[k * n + j];
        memcpy(&c[i * n], sum, n * sizeof(*sum));
    }
    umbra_mutex_lock(&progress->mutex);
    progress->rows += rows.end - rows.begin;
    umbra_mutex_unlock(&progress->mutex);
    return 0;
}

static void *run(void *arg)
{
    struct umbra_dispatch_options options = {.fn = multiply};
    struct umbra_dispatch *dispatch;
    int *error = arg;

    *error = umbra_dispatch_create(NULL, &options, &dispatch);
    if (*error)
        return NULL;
    umbra_dispatch_begin(dispatch);
    *error = umbra_dispatch_range(dispatch, 0, n, 0); /* 0: as many rows at once as pay */
    if (*error)
        umbra_dispatch_end(dispatch, UMBRA_NEVER);
    else
        *error = umbra_dispatch_end(dispatch, UMBRA_NEVER);
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

/* out = matrix * vector */
static void times(const uint64_t *matrix, const uint64_t *vector, uint64_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = 0;
        for (size_t j = 0; j < n; j++)
            out[i] += matrix[i * n + j] * vector[j];
    }
}

static bool right(void)
{
    static uint64_t vector[MOST], first[MOST], second[MOST];

    for (size_t i = 0; i < n; i++)
        vector[i] = i * i + 1;
    times(b, vector, second);
    times(a, second, first);
    times(c, vector, second);
    return memcmp(first, second, n * sizeof(*first)) == 0 && progress->rows == n;
}

int main(int argc, char **argv)
{
    int failed = 0, error;
    bool good;

    if (argc > 2)
        refuse(argv[2], "unknown argument");
    n = argc > 1 ? number_of("ROWS", argv[1], 1, MOST) : n;
    a = malloc(n * n * sizeof(*a));
    b = malloc(n * n * sizeof(*b));
    c = malloc(n * n * sizeof(*c));
    progress = malloc(sizeof(*progress));
    if (!a || !b || !c || !progress) {
        fprintf(stderr, "matrix: no memory\n");
        return 1;
    }
    for (size_t i = 0; i < n * n; i++) {
        a[i] = i % 1000;
        b[i] = i % 777 + i / n;
    }
    progress->mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
    progress->rows = 0;
    error = umbra_run(NULL, run, &failed);
    if (error || failed) {
        fprintf(stderr, "matrix: %s\n", error_text(error ? error : failed));
        return 1;
    }
    good = right();
    printf("%zu rows and columns: the product is %s\n", n, good ? "right" : "WRONG");
    free(progress);
    free(c);
    free(b);
    free(a);
    return printed(good ? 0 : 1);
}
