/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A graph with its vertices numbered by descending degree, those without neighbours left out (after
 * Yasui, Fujisawa and Sato 2014). The first vertices are the hubs, which are looked at most: what is
 * known of them is near each other and stays in the caches. A row is sorted, so it begins with the
 * neighbour of the highest degree, by which a vertex is most likely to be found; that one is in an
 * array of its own, too. Vertices with more than one neighbour come before all others.
 *
 * Vertices of the same degree keep their order. So if the vertices are gone through in the order of the
 * list of edges, the places in this order ascend in as many sequences as there are degrees, of which a
 * few have most vertices.
 */
#ifndef BFS_ORDERED_H
#define BFS_ORDERED_H

#include "csr.h"

struct ordered {
    struct csr csr; /* without `ends` */
    uint32_t
        *place;     /* of each vertex of the list in this order; without neighbours: csr.vertices */
    uint32_t *name; /* the other way; and NO_VERTEX for the place csr.vertices */
    uint32_t *first; /* each vertex's first neighbour */
    size_t names;    /* vertices of the list */
    size_t several;  /* those with more than one neighbour */
};

/* Bytes that ordered_build() takes beside the plain graph, and leaves. */
double ordered_bytes(double vertices, double edges);

/* 0 or a negative errno, with nothing left behind. A thread that is no core; blocks it. */
int ordered_build(struct ordered *ordered, const struct csr *csr, struct crew *crew);
void ordered_free(struct ordered *ordered);

#endif
