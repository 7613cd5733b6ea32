/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The arithmetic on blocks, compiled once for each kind of number, ELEMENT, and each level of the
 * processor's instructions; RELAX, RELAX_RIGHT and CLOSE are the functions' names. ORDER is the type by which
 * numbers are compared: ELEMENT, or a whole number with the same bits. blocks.c chooses. Written so
 * that compilers keep a tile of c in registers through all of a and b.
 */
#include "blocks.h"

#include <string.h>

#ifdef __AVX512VL__ /* 32 registers, else 16 */
#define ROWS 8
#else
#define ROWS 4
#endif
#define TILE_VECTORS 3
#define CLOSE_AT_ONCE 16 /* pivots; a multiple of ROWS */
#define COPY_AT_ONCE 128 /* columns */
#define TILE_COLUMNS (TILE_VECTORS * VECTOR_ELEMENTS)

relax_fn RELAX;
relax_right_fn RELAX_RIGHT;
close_fn CLOSE;

_Static_assert(TILE_ROWS % ROWS == 0 && CLOSE_AT_ONCE % ROWS == 0 &&
                   sizeof(ORDER) == sizeof(ELEMENT),
               "as blocks have it");

static inline ORDER order_of(ELEMENT value)
{
    ORDER order;

    memcpy(&order, &value, sizeof(order));
    return order;
}

static inline ELEMENT value_of(ORDER order)
{
    ELEMENT value;

    memcpy(&value, &order, sizeof(value));
    return value;
}

/*
 * `columns` is a constant at each call. c may be from. Fetches what is wanted later, `step` elements
 * below and ahead for each of depth: no more at once, or what is wanted now would have to wait for it.
 */
static inline __attribute__((always_inline)) void
relax_tile(ELEMENT *c, const ELEMENT *from, size_t stride, const ELEMENT *restrict a,
           size_t a_stride, const ELEMENT *restrict b, size_t depth, size_t columns,
           const ELEMENT *below, const ELEMENT *ahead, size_t step)
{
    ORDER tile[ROWS][TILE_COLUMNS];

    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < columns; j++)
            tile[i][j] = order_of(from[i * stride + j]);
    for (size_t k = 0; k < depth; k++) {
        __builtin_prefetch(&below[k * step], 1);
        __builtin_prefetch(&ahead[k * step]);
        for (size_t i = 0; i < ROWS; i++) {
            ELEMENT there = a[i * a_stride + k];

/* Else gcc takes narrow tiles apart before it looks for vectors, and keeps them in memory. */
#pragma omp simd
            for (size_t j = 0; j < columns; j++) {
                ORDER sum = order_of(there + b[k * stride + j]);

                tile[i][j] = sum < tile[i][j] ? sum : tile[i][j];
            }
        }
    }
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < columns; j++)
            c[i * stride + j] = value_of(tile[i][j]);
}

/*
 * One row of tiles; the last four vectors in two pairs rather than three and one. Rows of a begin
 * a_stride elements apart, all others stride. The row of tiles below is fetched for the next call,
 * tile for tile as many elements, in the order of memory; and so is one that is ahead.
 */
static inline __attribute__((always_inline)) void relax_rows(ELEMENT *c, const ELEMENT *from,
                                                             size_t stride, const ELEMENT *a,
                                                             size_t a_stride, const ELEMENT *b,
                                                             size_t depth, const ELEMENT *ahead)
{
    size_t j = 0, step = (ROWS * TILE_COLUMNS + depth - 1) / depth;

    for (; j + TILE_COLUMNS <= stride && stride - j != 4 * VECTOR_ELEMENTS; j += TILE_COLUMNS)
        relax_tile(c + j, from + j, stride, a, a_stride, b + j, depth, TILE_COLUMNS,
                   from + (ROWS * stride + ROWS * j), ahead + ROWS * j, step);
    for (; j + 2 * VECTOR_ELEMENTS <= stride; j += 2 * VECTOR_ELEMENTS)
        relax_tile(c + j, from + j, stride, a, a_stride, b + j, depth, 2 * VECTOR_ELEMENTS,
                   from + (ROWS * stride + ROWS * j), ahead + ROWS * j, step);
    if (j < stride)
        relax_tile(c + j, from + j, stride, a, a_stride, b + j, depth, VECTOR_ELEMENTS,
                   from + (ROWS * stride + ROWS * j), ahead + ROWS * j, step);
}

/* One row of tiles, whose columns k to k + depth - 1 are the factor: a copy of them. */
static inline void relax_right_rows(ELEMENT *c, size_t k, size_t depth, size_t stride,
                                    const ELEMENT *b)
{
    ELEMENT a[ROWS * COPY_AT_ONCE];

    for (size_t from = 0; from < depth; from += COPY_AT_ONCE) {
        size_t size = from + COPY_AT_ONCE < depth ? COPY_AT_ONCE : depth - from;

        for (size_t i = 0; i < ROWS; i++)
            memcpy(a + i * COPY_AT_ONCE, c + i * stride + k + from, size * sizeof(ELEMENT));
        relax_rows(c, c, stride, a, COPY_AT_ONCE, b + from * stride, size, c + ROWS * stride);
    }
}

void RELAX(void *c, const void *from, const void *a, const void *b, size_t block)
{
    size_t stride = block_stride(block);
    const ELEMENT *next = (const ELEMENT *)b + block_bytes(block) / ELEMENT_BYTES;

    for (size_t i = 0; i < block; i += ROWS)
        relax_rows((ELEMENT *)c + i * stride, (const ELEMENT *)from + i * stride, stride,
                   (const ELEMENT *)a + i * stride, stride, b, block, next + i * stride);
}

void RELAX_RIGHT(void *c, const void *b, size_t block)
{
    size_t stride = block_stride(block);

    for (size_t i = 0; i < block; i += ROWS)
        relax_right_rows((ELEMENT *)c + i * stride, 0, block, stride, b);
}

/* Floyd and Warshall's three loops over `size` rows and columns. */
static size_t close_plain(ELEMENT *d, size_t stride, size_t size)
{
    for (size_t k = 0; k < size; k++) {
        const ELEMENT *from = d + k * stride;

        if (from[k] < 0)
            return k;
        for (size_t i = 0; i < size; i++) {
            ELEMENT *row = d + i * stride;
            ELEMENT there = row[k];

            if (i == k)
                continue;
            for (size_t j = 0; j < size; j++) {
                ELEMENT sum = there + from[j];

                row[j] = sum < row[j] ? sum : row[j];
            }
        }
    }
    return size;
}

/* Some pivots at a time, as the whole matrix is done: rows stay in registers for all of them. */
size_t CLOSE(void *block_at, size_t block, void *scratch)
{
    size_t stride = block_stride(block);
    ELEMENT *d = block_at, *pivots = scratch; /* a copy of some rows */

    for (size_t k = 0; k < block; k += CLOSE_AT_ONCE) {
        size_t size = k + CLOSE_AT_ONCE < block ? CLOSE_AT_ONCE : block - k;
        size_t bytes = size * stride * sizeof(ELEMENT);
        size_t bad = close_plain(d + k * stride + k, stride, size);

        if (bad < size)
            return k + bad;
        memcpy(pivots, d + k * stride, bytes);
        for (size_t i = k; i < k + size; i += ROWS)
            relax_right_rows(d + i * stride, k, size, stride, pivots);
        memcpy(pivots, d + k * stride, bytes);
        for (size_t i = 0; i < block; i += ROWS)
            if (i < k || i >= k + size)
                relax_right_rows(d + i * stride, k, size, stride, pivots);
    }
    return block;
}
