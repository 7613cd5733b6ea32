/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The searches. Each makes a breadth-first tree of the vertices that can be reached from a root: kernel
 * 2 of the Graph500 benchmark. The tree is in the numbering of the list of edges, whatever numbering
 * the search itself works with.
 *
 * All go level by level: what has been found last, the frontier, finds the next level. Top-down, each
 * vertex of the frontier looks for neighbours that were not found yet. Bottom-up, each vertex not found
 * yet looks for one neighbour in the frontier, and stops at the first. The latter is faster when the
 * frontier has a large part of all edges; hybrids change over (Beamer, Asanovic and Patterson 2012).
 */
#ifndef BFS_SEARCH_H
#define BFS_SEARCH_H

#include <stddef.h>
#include <stdint.h>

struct crew;
struct csr;
struct ordered;
struct parts;

enum direction { HYBRID, TOP_DOWN, BOTTOM_UP };

/* Memory of a search, and what it searches in. Made once, for many searches. */
struct search {
    struct crew *crew;
    const struct csr *csr;         /* the plain graph */
    const struct ordered *ordered; /* the graph in the order of degrees */
    const struct parts *parts;     /* the graph in parts */
    unsigned threads;              /* of OpenMP */
    enum direction direction;      /* of a search in parts */
    void *state;                   /* the search's own */
};

/* Allocates the search's state, or frees it (NULL is allowed). 0 or -ENOMEM. */
typedef int search_create_fn(struct search *search);
typedef void search_destroy_fn(struct search *search);

/*
 * Searches from a root, below the number of vertices. parent[v] becomes the vertex by which v was
 * found, v itself for the root, and NO_VERTEX if v cannot be reached. *ns becomes the time until all of
 * parent is there. 0 or a negative errno. A thread that is no core; blocks it.
 */
typedef int search_fn(struct search *search, uint32_t root, uint32_t *parent, uint64_t *ns);

/* Beamer's hybrid with OpenMP, in search->csr; the other way in search->ordered: the same code with
 * the vertices in another order, and huge pages. (openmp.c) */
search_create_fn openmp_create, openmp_ordered_create;
search_destroy_fn openmp_destroy;
search_fn openmp_search, openmp_ordered_search;

/* In search->parts (Yasui, Fujisawa and Goto 2013). Top-down alone and bottom-up alone are the same,
 * with one part and a fixed direction. (parts.c) */
search_create_fn parts_create;
search_destroy_fn parts_destroy;
search_fn parts_search;

/* In search->ordered. (ordered_search.c) */
search_create_fn ordered_create;
search_destroy_fn ordered_destroy;
search_fn ordered_search;

#endif
