/* SPDX-License-Identifier: BSL-1.0 */
/* The versions of the search, the graph that each searches in, and the roots. */
#ifndef BFS_VERSIONS_H
#define BFS_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../options.h"
#include "csr.h"
#include "edges.h"
#include "ordered.h"
#include "parts.h"
#include "search.h"

/* What kernel 1 can make of the list of edges. */
enum representation { PLAIN, ORDERED, PARTS, ONE_PART, REPRESENTATIONS };

struct version {
    struct way way;
    enum representation in;
    enum direction direction;
    search_create_fn *create;
    search_destroy_fn *destroy;
    search_fn *search;
};

/* A graph in all forms that are asked for. */
struct graph {
    struct crew *crew;
    struct edges edges;
    struct csr csr;
    struct ordered ordered;
    struct parts parts, one_part;
    double seconds[REPRESENTATIONS]; /* that each took to make, what it is made of included */
};

/* Makes the forms from graph->edges. 0 or a negative errno; graph_destroy() frees in any case. */
int graph_build(struct graph *graph, const bool wanted[REPRESENTATIONS], unsigned parts);
void graph_destroy(struct graph *graph);

/* Bytes for all of it, the list of edges included, and a search in each form. */
double graph_bytes(double vertices, double edges, const bool wanted[REPRESENTATIONS],
                   unsigned parts);

/* What a version's search needs to know of the graph. */
struct search graph_search(const struct graph *graph, const struct version *version,
                           unsigned threads);

/* Up to `count` different roots by chance, each with an edge to another vertex. How many. */
size_t graph_roots(const struct graph *graph, uint64_t seed, uint32_t *root, size_t count);

/* Edges of the list between vertices of the tree, as the specification counts them: those that are there
 * several times, and those from a vertex to itself, too. */
uint64_t graph_edges_of(const struct graph *graph, const uint32_t *parent);

#endif
