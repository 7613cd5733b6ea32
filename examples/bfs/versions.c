/* SPDX-License-Identifier: BSL-1.0 */
/* See versions.h. */
#include "versions.h"

#include <umbra.h>

#define BYTES_OF_SEARCHES 64 /* a vertex: sets, queues, parents, levels, of all versions */

static double since(uint64_t begin)
{
    return (double)(umbra_now_ns() - begin) * 1e-9;
}

int graph_build(struct graph *graph, const bool wanted[REPRESENTATIONS], unsigned parts)
{
    uint64_t begin = umbra_now_ns();
    int error = csr_build(&graph->csr, &graph->edges, graph->crew);

    graph->seconds[PLAIN] = graph->seconds[ONE_PART] = since(begin);
    if (!error && wanted[ORDERED]) {
        begin = umbra_now_ns();
        error = ordered_build(&graph->ordered, &graph->csr, graph->crew);
        graph->seconds[ORDERED] = graph->seconds[PLAIN] + since(begin);
    }
    if (!error && wanted[PARTS]) {
        begin = umbra_now_ns();
        error = parts_build(&graph->parts, &graph->csr, parts, graph->crew);
        graph->seconds[PARTS] = graph->seconds[PLAIN] + since(begin);
    }
    if (!error && wanted[ONE_PART])
        error = parts_build(&graph->one_part, &graph->csr, 1, graph->crew);
    return error;
}

void graph_destroy(struct graph *graph)
{
    parts_free(&graph->parts);
    parts_free(&graph->one_part);
    ordered_free(&graph->ordered);
    csr_destroy(&graph->csr);
    edges_destroy(&graph->edges);
}

double graph_bytes(double vertices, double edges, const bool wanted[REPRESENTATIONS],
                   unsigned parts)
{
    double forms = csr_bytes(vertices, edges), most = csr_bytes_most(vertices, edges);

    if (wanted[ORDERED])
        forms += ordered_bytes(vertices, edges);
    if (wanted[PARTS])
        forms += parts_bytes(vertices, edges, parts);
    return edges * sizeof(struct edge) + (forms > most ? forms : most) +
           vertices * BYTES_OF_SEARCHES;
}

struct search graph_search(const struct graph *graph, const struct version *version,
                           unsigned threads)
{
    struct search search = {.crew = graph->crew,
                            .csr = &graph->csr,
                            .threads = threads,
                            .direction = version->direction};

    if (version->in == ORDERED)
        search.ordered = &graph->ordered;
    if (version->in == PARTS)
        search.parts = &graph->parts;
    if (version->in == ONE_PART)
        search.parts = &graph->one_part;
    return search;
}

/* Xorshift (Marsaglia 2003). */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static bool is_among(uint32_t vertex, const uint32_t *root, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (root[i] == vertex)
            return true;
    return false;
}

/* The first ones with an edge. */
static size_t first_roots(const struct csr *csr, uint32_t *root, size_t count)
{
    size_t found = 0;

    for (size_t v = 0; v < csr->vertices && found < count; v++)
        if (csr_degree(csr, v) > 0)
            root[found++] = (uint32_t)v;
    return found;
}

size_t graph_roots(const struct graph *graph, uint64_t seed, uint32_t *root, size_t count)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    size_t n = graph->csr.vertices, found = 0;

    if (first_roots(&graph->csr, root, count) < count) /* there are no more */
        return first_roots(&graph->csr, root, count);
    while (found < count) {
        uint32_t vertex = (uint32_t)((next_random(&state) >> 32) * n >> 32);

        if (csr_degree(&graph->csr, vertex) > 0 && !is_among(vertex, root, found))
            root[found++] = vertex;
    }
    return found;
}

uint64_t graph_edges_of(const struct graph *graph, const uint32_t *parent)
{
    uint64_t ends = 0;

    for (size_t v = 0; v < graph->csr.vertices; v++)
        ends += parent[v] != NO_VERTEX ? graph->csr.ends[v] : 0;
    return ends / 2;
}
