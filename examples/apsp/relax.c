/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The arithmetic on blocks, compiled once for each kind of number, ELEMENT, and each level of the
 * processor's instructions; RELAX and CLOSE are the functions' names. ORDER is the type by which
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
#define TILE_COLUMNS (TILE_VECTORS * VECTOR_ELEMENTS)

relax_fn RELAX;
close_fn CLOSE;

_Static_assert(TILE_ROWS % ROWS == 0 && sizeof(ORDER) == sizeof(ELEMENT), "as blocks have it");

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

/* `columns` is a constant at each call. */
static inline __attribute__((always_inline)) void relax_tile(ELEMENT *restrict c,
                                                             const ELEMENT *restrict a,
                                                             const ELEMENT *restrict b,
                                                             size_t block, size_t columns)
{
    size_t stride = block_stride(block);
    ORDER tile[ROWS][TILE_COLUMNS];

    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < columns; j++)
            tile[i][j] = order_of(c[i * stride + j]);
    for (size_t i = 0; i < ROWS; i++) /* the tile below this one, for the next row of tiles */
        for (size_t j = 0; j < columns; j += VECTOR_ELEMENTS)
            __builtin_prefetch(&c[(ROWS + i) * stride + j], 1);
    for (size_t k = 0; k < block; k++)
        for (size_t i = 0; i < ROWS; i++) {
            ELEMENT there = a[i * stride + k];

            for (size_t j = 0; j < columns; j++) {
                ORDER sum = order_of(there + b[k * stride + j]);

                tile[i][j] = sum < tile[i][j] ? sum : tile[i][j];
            }
        }
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < columns; j++)
            c[i * stride + j] = value_of(tile[i][j]);
}

/* One row of tiles; the last four vectors in two pairs rather than three and one. */
static inline __attribute__((always_inline)) void relax_rows(ELEMENT *c, const ELEMENT *a,
                                                             const ELEMENT *b, size_t block)
{
    size_t j = 0, end = block_stride(block);

    for (; j + TILE_COLUMNS <= end && end - j != 4 * VECTOR_ELEMENTS; j += TILE_COLUMNS)
        relax_tile(c + j, a, b + j, block, TILE_COLUMNS);
    for (; j + 2 * VECTOR_ELEMENTS <= end; j += 2 * VECTOR_ELEMENTS)
        relax_tile(c + j, a, b + j, block, 2 * VECTOR_ELEMENTS);
    if (j < end)
        relax_tile(c + j, a, b + j, block, VECTOR_ELEMENTS);
}

void RELAX(void *c, const void *a, const void *b, size_t block)
{
    size_t stride = block_stride(block);

    for (size_t i = 0; i < block; i += ROWS)
        relax_rows((ELEMENT *)c + i * stride, (const ELEMENT *)a + i * stride, b, block);
}

/* Floyd and Warshall's three loops. */
size_t CLOSE(void *d, size_t block)
{
    size_t stride = block_stride(block);
    ELEMENT *at = d;

    for (size_t k = 0; k < block; k++) {
        const ELEMENT *from = at + k * stride;

        if (from[k] < 0)
            return k;
        for (size_t i = 0; i < block; i++) {
            ELEMENT *row = at + i * stride;
            ELEMENT there = row[k];

            if (i == k)
                continue;
            for (size_t j = 0; j < stride; j++) {
                ELEMENT sum = there + from[j];

                row[j] = sum < row[j] ? sum : row[j];
            }
        }
    }
    return block;
}
