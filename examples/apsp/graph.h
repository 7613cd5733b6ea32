/* SPDX-License-Identifier: BSL-1.0 */
/* A directed graph with weights on its edges: where it comes from. */
#ifndef APSP_GRAPH_H
#define APSP_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lines_fault; /* ../lines.h */

struct edge {
    uint32_t from, to; /* vertices, from 0 */
    double weight;
};

struct graph {
    size_t n;          /* vertices */
    struct edge *edge; /* in no order; of several between the same two the least counts */
    size_t edges;
    size_t room;  /* of edge */
    bool whole;   /* all weights are whole numbers, and so are the sums that are computed */
    double slack; /* by how much those may be off in any case; see apsp.c */
    size_t first; /* the number that files give to vertex 0 */
};

/*
 * Reads the format of the 9th DIMACS challenge (vertices from 1), or lines of "from to weight"
 * (vertices from 0, a # begins a comment). 0 or a negative errno; -EINVAL: *fault says where.
 */
int graph_read_dimacs(struct graph *graph, const char *path, struct lines_fault *fault);
int graph_read_edges(struct graph *graph, const char *path, struct lines_fault *fault);

/*
 * n vertices, each with about `degree` edges to others at random, whole weights of 1 to 100. With
 * `negative` some weights are below 0, but no cycle is. 0 or -ENOMEM.
 */
int graph_generate(struct graph *graph, size_t n, double degree, bool negative, uint64_t seed);

/* No path is longer than this, nor shorter than minus this. */
double graph_longest(const struct graph *graph);

bool graph_has_negative(const struct graph *graph);

void graph_destroy(struct graph *graph);

#endif
