/* SPDX-License-Identifier: BSL-1.0 */
/* The arithmetic of the factorization in openmp: one object for all, whatever compiles what is around it. */
#include "openmp_blocks.h"

double openmp_factor[OPENMP_SIZE][OPENMP_SIZE];

/* What columns [from, to) leave of a cell. */
static double rest(int i, int j, int from, int to)
{
    double sum = openmp_factor[i][j];

    for (int m = from; m < to; m++)
        sum -= openmp_factor[i][m] * openmp_factor[j][m];
    return sum;
}

void openmp_block_factor(int k)
{
    for (int j = k; j < k + OPENMP_EDGE; j++) {
        double square = rest(j, j, k, j), root = square;

        for (int step = 0; step < 10; step++)
            root = (root + square / root) / 2;
        openmp_factor[j][j] = root;
        for (int i = j + 1; i < k + OPENMP_EDGE; i++)
            openmp_factor[i][j] = rest(i, j, k, j) / root;
    }
}

void openmp_block_solve(int i0, int k)
{
    for (int i = i0; i < i0 + OPENMP_EDGE; i++)
        for (int j = k; j < k + OPENMP_EDGE; j++)
            openmp_factor[i][j] = rest(i, j, k, j) / openmp_factor[j][j];
}

void openmp_block_update(int i0, int j0, int k)
{
    for (int i = i0; i < i0 + OPENMP_EDGE; i++)
        for (int j = j0; j < j0 + OPENMP_EDGE; j++)
            openmp_factor[i][j] = rest(i, j, k, k + OPENMP_EDGE);
}
