/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Products of OpenBLAS on its own threads and on a team (openblas_team.h): checks both, and prints
 * what a product takes.
 */
#include "beside.h"
#include "openblas_team.h"

#include <math.h>
#include <stdbool.h>

#include <cblas.h>

#define SIZE 192

const char program_name[] = "openblas";

static double a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE], x[SIZE]; /* in rows */

static void own_threads(void *arg)
{
    (void)arg;
    openblas_set_threads_callback_function(NULL);
}

static void team_threads(void *arg)
{
    (void)arg;
    openblas_set_threads_callback_function(openblas_team_run);
}

static void multiply(void *arg)
{
    (void)arg;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIZE, SIZE, SIZE, 1, a, SIZE, b, SIZE, 0,
                c, SIZE);
}

static void multiply_vector(void *arg)
{
    (void)arg;
    cblas_dgemv(CblasRowMajor, CblasNoTrans, SIZE, SIZE, 1, a, SIZE, b, 1, 0, x, 1);
}

/* True if c is a * b, and x is a * the first row of b. */
static bool is_right(void)
{
    bool right = true;

    multiply(NULL);
    multiply_vector(NULL);
    for (int i = 0; i < SIZE; i++) {
        double vector = 0;

        for (int j = 0; j < SIZE; j++) {
            double sum = 0;

            for (int k = 0; k < SIZE; k++)
                sum += a[i * SIZE + k] * b[k * SIZE + j];
            right = right && fabs(sum - c[i * SIZE + j]) < 1e-9;
            vector += a[i * SIZE + j] * b[j];
        }
        right = right && fabs(vector - x[i]) < 1e-9;
    }
    return right;
}

int main(void)
{
    int error = openblas_team_open((unsigned)openblas_get_num_threads());

    if (error) {
        fprintf(stderr, "openblas: no team: %s\n", error_text(error));
        return 1;
    }
    for (int i = 0; i < SIZE * SIZE; i++) {
        a[i] = (i * 7 + 3) % 11 - 5;
        b[i] = (i * 5 + 1) % 13 - 6;
    }
    for (int i = 0; i < 2; i++) {
        (i ? team_threads : own_threads)(NULL);
        if (!is_right()) {
            fprintf(stderr, "openblas: a product is wrong\n");
            return 1;
        }
        memset(c, 0, sizeof(c));
        memset(x, 0, sizeof(x));
    }
    beside("matrix times matrix", &(struct side){own_threads, multiply, NULL},
           &(struct side){team_threads, multiply, NULL});
    beside("matrix times vector", &(struct side){own_threads, multiply_vector, NULL},
           &(struct side){team_threads, multiply_vector, NULL});
    openblas_set_threads_callback_function(NULL);
    umbra_team_destroy(openblas_team);
    return printed(0);
}
