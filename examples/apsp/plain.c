/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Floyd and Warshall's three loops over one whole matrix, with nothing of what the other variants
 * share but the blocks that they begin and end with: what those are checked against.
 */
#include "variants.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLOYD(element)                                                                             \
    static int floyd_##element(element *d, size_t n, element none, size_t *vertex)                 \
    {                                                                                              \
        for (size_t k = 0; k < n; k++) {                                                           \
            const element *from = d + k * n;                                                       \
                                                                                                   \
            *vertex = k;                                                                           \
            if (from[k] < 0)                                                                       \
                return -EDOM;                                                                      \
            for (size_t i = 0; i < n; i++) {                                                       \
                element there = d[i * n + k];                                                      \
                                                                                                   \
                if (i == k || there == none)                                                       \
                    continue;                                                                      \
                for (size_t j = 0; j < n; j++) {                                                   \
                    element sum = from[j] == none ? none : there + from[j];                        \
                                                                                                   \
                    d[i * n + j] = sum < d[i * n + j] ? sum : d[i * n + j];                        \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        return 0;                                                                                  \
    }

FLOYD(float)
FLOYD(int32_t)

/* Copies between the blocks and rows of n elements. */
static void copy(const struct blocks *blocks, char *rows, bool out)
{
    size_t stride = block_stride(blocks->block);

    for (size_t i = 0; i < blocks->n; i++)
        for (size_t j = 0; j < blocks->n; j += blocks->block) {
            size_t count = blocks->n - j < blocks->block ? blocks->n - j : blocks->block;
            char *in_block = block_at(blocks, i / blocks->block, j / blocks->block);
            char *in_row = rows + (i * blocks->n + j) * ELEMENT_BYTES;

            in_block += i % blocks->block * stride * ELEMENT_BYTES;
            memcpy(out ? in_row : in_block, out ? in_block : in_row, count * ELEMENT_BYTES);
        }
}

int solve_plain(struct blocks *blocks, const struct setting *setting, size_t *vertex)
{
    char *rows = blocks->n > SIZE_MAX / ELEMENT_BYTES / blocks->n
                     ? NULL
                     : malloc(blocks->n * blocks->n * ELEMENT_BYTES);
    int error;

    (void)setting;
    if (!rows)
        return -ENOMEM;
    copy(blocks, rows, true);
    if (blocks->element == FLOAT32)
        error = floyd_float((float *)rows, blocks->n, INFINITY, vertex);
    else
        error = floyd_int32_t((int32_t *)rows, blocks->n, INT32_NO_PATH, vertex);
    copy(blocks, rows, false);
    free(rows);
    return error;
}
