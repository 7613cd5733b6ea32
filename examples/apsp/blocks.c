/* SPDX-License-Identifier: BSL-1.0 */
/* See blocks.h. */
#include "blocks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- arithmetic: the best that this processor can execute ---- */

relax_fn relax_float32_baseline, relax_int32_baseline;
close_fn close_float32_baseline, close_int32_baseline;
#ifdef __x86_64__
relax_fn relax_float32_avx2, relax_int32_avx2, relax_float32_avx512, relax_int32_avx512;
close_fn close_float32_avx2, close_int32_avx2, close_float32_avx512, close_int32_avx512;
#endif

struct arithmetic arithmetic_for(enum element element)
{
    static const struct arithmetic baseline[] = {
        [FLOAT32] = {relax_float32_baseline, close_float32_baseline},
        [INT32] = {relax_int32_baseline, close_int32_baseline},
    };
#ifdef __x86_64__
    static const struct arithmetic avx2[] = {
        [FLOAT32] = {relax_float32_avx2, close_float32_avx2},
        [INT32] = {relax_int32_avx2, close_int32_avx2},
    };
    static const struct arithmetic avx512[] = {
        [FLOAT32] = {relax_float32_avx512, close_float32_avx512},
        [INT32] = {relax_int32_avx512, close_int32_avx512},
    };

    if (__builtin_cpu_supports("avx512vl"))
        return avx512[element];
    if (__builtin_cpu_supports("avx2"))
        return avx2[element];
#endif
    return baseline[element];
}

/* ---- storage ---- */

int blocks_create(struct blocks *blocks, enum element element, size_t n, size_t block)
{
    size_t side = (n + block - 1) / block;

    *blocks = (struct blocks){.element = element, .n = n, .block = block, .side = side};
    if (side > SIZE_MAX / side / block_bytes(block))
        return -ENOMEM;
    blocks->at = aligned_alloc(64, side * side * block_bytes(block));
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
