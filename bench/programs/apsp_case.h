/* SPDX-License-Identifier: BSL-1.0 */
/* One problem for the kernel apsp and its child processes: the same in each, and checked. */
#ifndef UMBRA_BENCH_APSP_CASE_H
#define UMBRA_BENCH_APSP_CASE_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <variants.h>

struct apsp_case {
    size_t n, block;
    uint64_t checksum; /* of the distances that are to be found */
};

#define APSP_DEGREE 50 /* edges a vertex */

/* Whole weights, so that all ways to find the distances find the same ones. */
static inline int apsp_case_graph(size_t n, struct graph *graph)
{
    return graph_generate(graph, n, APSP_DEGREE, false, 1);
}

/* FNV-1a (Fowler, Noll, Vo) over the distances. */
static inline uint64_t apsp_checksum(const struct blocks *blocks)
{
    uint64_t sum = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < blocks->n; i++)
        for (size_t j = 0; j < blocks->n; j++) {
            float distance = (float)blocks_distance(blocks, i, j);
            uint32_t bits;

            memcpy(&bits, &distance, sizeof(bits));
            sum = (sum ^ bits) * UINT64_C(1099511628211);
        }
    return sum;
}

/* What every way must find: as the plain one does. 0 or a negative errno. */
static inline int apsp_case_expect(struct apsp_case *apsp, const struct graph *graph)
{
    struct blocks blocks;
    size_t vertex;
    int error = blocks_create(&blocks, FLOAT32, apsp->n, apsp->block);

    if (error != 0)
        return error;
    blocks_fill(&blocks, graph);
    error = solve_plain(&blocks, NULL, &vertex);
    apsp->checksum = apsp_checksum(&blocks);
    blocks_destroy(&blocks);
    return error;
}

/* A child's argument, written and read. order: "tasks", "depend", "ctbpa" or "pure". Reading returns
 * true if the argument could be read. */
static inline void apsp_case_write(const struct apsp_case *apsp, const char *order, char *text,
                                   size_t bytes)
{
    snprintf(text, bytes, "%s:%zu:%zu:%" PRIu64, order, apsp->n, apsp->block, apsp->checksum);
}

static inline bool apsp_case_read(struct apsp_case *apsp, char order[8], const char *text)
{
    return sscanf(text, "%7[a-z]:%zu:%zu:%" SCNu64, order, &apsp->n, &apsp->block,
                  &apsp->checksum) == 4;
}

#endif
