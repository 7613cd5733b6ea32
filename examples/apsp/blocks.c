/* SPDX-License-Identifier: BSL-1.0 */
/* See blocks.h. */
#define _GNU_SOURCE
#include "blocks.h"

#include "../huge_pages.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- arithmetic: the best that this processor can execute ---- */

#define DECLARE_KIND(kind)                                                                         \
    relax_fn relax_##kind;                                                                         \
    relax_right_fn relax_right_##kind;                                                             \
    close_fn close_##kind

#define DECLARE(level)                                                                             \
    DECLARE_KIND(float32_##level);                                                                 \
    DECLARE_KIND(positive_##level);                                                                \
    DECLARE_KIND(int32_##level)

#define KIND(kind) ((struct arithmetic){relax_##kind, relax_right_##kind, close_##kind})

#define ARITHMETIC(level, element, negative)                                                       \
    ((element) == INT32 ? KIND(int32_##level)                                                      \
     : (negative)       ? KIND(float32_##level)                                                    \
                        : KIND(positive_##level))

DECLARE(baseline);
#ifdef __x86_64__
DECLARE(avx2);
DECLARE(avx512);
#endif

struct arithmetic arithmetic_for(enum element element, bool negative)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512vl"))
        return ARITHMETIC(avx512, element, negative);
    if (__builtin_cpu_supports("avx2"))
        return ARITHMETIC(avx2, element, negative);
#endif
    return ARITHMETIC(baseline, element, negative);
}

/* ---- storage ---- */

int blocks_create(struct blocks *blocks, enum element element, size_t n, size_t block)
{
    size_t side = (n + block - 1) / block;

    *blocks = (struct blocks){.element = element, .n = n, .block = block, .side = side};
    if (side > SIZE_MAX / side / block_bytes(block))
        return -ENOMEM;
    blocks->at = huge_pages_alloc(side * side * block_bytes(block));
    return blocks->at ? 0 : -ENOMEM;
}

void blocks_destroy(struct blocks *blocks)
{
    free(blocks->at);
    blocks->at = NULL;
}

static char *element_at(const struct blocks *blocks, size_t from, size_t to)
{
    char *block = block_at(blocks, from / blocks->block, to / blocks->block);

    return block + (from % blocks->block * block_stride(blocks->block) + to % blocks->block) *
                       ELEMENT_BYTES;
}

static void lower(struct blocks *blocks, size_t from, size_t to, double weight)
{
    if (!(weight < blocks_distance(blocks, from, to)))
        return;
    if (blocks->element == FLOAT32)
        *(float *)element_at(blocks, from, to) = (float)weight;
    else
        *(int32_t *)element_at(blocks, from, to) = (int32_t)weight;
}

void blocks_fill(struct blocks *blocks, const struct graph *graph)
{
    size_t elements = blocks->side * blocks->side * block_bytes(blocks->block) / ELEMENT_BYTES;

    blocks->arithmetic = arithmetic_for(blocks->element, graph_has_negative(graph));
    for (size_t e = 0; e < elements; e++)
        if (blocks->element == FLOAT32)
            ((float *)blocks->at)[e] = INFINITY;
        else
            ((int32_t *)blocks->at)[e] = INT32_NO_PATH;
    for (size_t i = 0; i < graph->n; i++)
        lower(blocks, i, i, 0);
    for (size_t e = 0; e < graph->edges; e++)
        lower(blocks, graph->edge[e].from, graph->edge[e].to, graph->edge[e].weight);
}

double blocks_distance(const struct blocks *blocks, size_t from, size_t to)
{
    const char *at = element_at(blocks, from, to);

    if (blocks->element == FLOAT32)
        return *(const float *)at;
    return *(const int32_t *)at > INT32_NO_PATH / 2 ? INFINITY : *(const int32_t *)at;
}
