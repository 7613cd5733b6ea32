/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The graph of the kernel bfs, as its child processes get it: a file in memory with this header and,
 * one after the other, the arrays. All searches of a round are from the same root.
 */
#ifndef UMBRA_BENCH_BFS_CASE_H
#define UMBRA_BENCH_BFS_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edges.h>
#include <ordered.h>

#define BFS_ROOTS 16
#define BFS_NO_LEVEL 255

enum bfs_problem { BFS_PLAIN, BFS_ORDERED };

struct bfs_case {
    uint64_t vertices, neighbours;      /* of the graph; neighbours are twice as many as edges */
    uint64_t ordered_vertices, several; /* of that in the order of degrees */
    uint32_t roots, root[BFS_ROOTS];    /* vertices */
    uint64_t edges[BFS_ROOTS];          /* that a search from each goes through */
    uint64_t row, to, ordered_row, ordered_to, place, name, level; /* where arrays begin, bytes */
    uint64_t bytes;                                                /* of all */
};

/* The turn's root: of every two batches, one to warm up and the sample. */
static inline unsigned bfs_root_of(const struct bfs_case *bfs, uint64_t batches)
{
    return (unsigned)(batches / 2 % bfs->roots);
}

/* True if the tree has the vertices that it should have, and each one's parent is a level above. The
 * levels are of a tree that was checked by the five rules. */
static inline bool bfs_is_right(const struct bfs_case *bfs, const uint8_t *level, unsigned root,
                                const uint32_t *parent)
{
    size_t n = bfs->vertices;
    bool right = parent[bfs->root[root]] == bfs->root[root];

    level += root * n;
    for (size_t v = 0; v < n && right; v++) {
        if (level[v] == BFS_NO_LEVEL)
            right = parent[v] == NO_VERTEX;
        else if (v != bfs->root[root])
            right = parent[v] < n && level[parent[v]] + 1 == level[v];
    }
    return right;
}

#endif
