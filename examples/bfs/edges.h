/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A list of edges, as a graph comes: in any order, an edge may be there several times, and may lead
 * from a vertex to itself. Edges have no direction.
 */
#ifndef BFS_EDGES_H
#define BFS_EDGES_H

#include <stddef.h>
#include <stdint.h>

struct lines_fault; /* ../lines.h */
struct crew;

#define NO_VERTEX UINT32_MAX
#define VERTICES_MOST ((size_t)1 << 31) /* a signed number holds each of them */

struct edge {
    uint32_t end[2]; /* vertices, from 0 */
};

struct edges {
    struct edge *edge;
    size_t count, room;
    size_t vertices;
    uint32_t first; /* the number that the file gives to vertex 0 */
};

enum graph_format { MATRIX_MARKET, SNAP, METIS };

/*
 * Reads a file; weights and values are passed over.
 *
 *   MATRIX_MARKET  a coordinate matrix, square; an entry is an edge, vertices from 1
 *   SNAP           lines of "from to", vertices from 0; a # begins a comment
 *   METIS          a line a vertex with its neighbours, from 1, in both lines; % begins a comment
 *
 * 0 or a negative errno; -EINVAL: *fault says where and why. In any case, edges_destroy() frees.
 */
int edges_read(struct edges *edges, enum graph_format format, const char *path,
               struct lines_fault *fault);

/*
 * The Kronecker graph of the Graph500 benchmark: 2^scale vertices, so many edges a vertex, with the
 * probabilities 0.57, 0.19, 0.19 and 0.05, vertices scrambled. The same for any number of members.
 * 0 or a negative errno. A thread that is no core; blocks it.
 */
int edges_generate(struct edges *edges, struct crew *crew, unsigned scale, size_t edge_factor,
                   uint64_t seed);

void edges_destroy(struct edges *edges);

#endif
