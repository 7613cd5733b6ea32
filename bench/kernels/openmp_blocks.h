/* SPDX-License-Identifier: BSL-1.0 */
/* The factorization by blocks of openmp: i0, j0 and k are the first rows and columns of blocks. */
#ifndef UMBRA_BENCH_OPENMP_BLOCKS_H
#define UMBRA_BENCH_OPENMP_BLOCKS_H

enum { OPENMP_EDGE = 8, OPENMP_SIZE = 6 * OPENMP_EDGE };

extern double openmp_factor[OPENMP_SIZE][OPENMP_SIZE];
void openmp_block_factor(int k);
void openmp_block_solve(int i0, int k);
void openmp_block_update(int i0, int j0, int k);

#endif
