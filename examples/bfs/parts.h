/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A graph in parts, one a NUMA node (Yasui, Fujisawa and Goto 2013, the first version of the paper's
 * search). Part k has the vertices V_k, and two graphs, with A(v) the neighbours of v:
 *
 *   forward   of every vertex v, its neighbours within V_k    A_k^F(v) = A(v) and V_k
 *   backward  of the vertices w within V_k, all neighbours    A_k^B(w) = A(w)
 *
 * Top-down, each part goes through the whole frontier by its forward graph, and finds its own vertices
 * alone. Bottom-up, it goes through its own vertices by its backward graph. So it writes to memory of
 * its own only, and reads nothing else, as each part has a copy of the frontier.
 */
#ifndef BFS_PARTS_H
#define BFS_PARTS_H

#include "crew.h"
#include "csr.h"

struct part {
    size_t begin, end;   /* V_k; each begins a word of a set */
    struct csr forward;  /* rows of all vertices */
    struct csr backward; /* rows of its own: row 0 is that of `begin` */
};

struct parts {
    unsigned count; /* of one part both graphs are the whole, which is not copied */
    size_t vertices;
    struct part part[CREW_PARTS_MOST];
};

/* Bytes that so many parts take beside the plain graph. */
double parts_bytes(double vertices, double edges, unsigned count);

/* 0 or a negative errno, with nothing left behind. A thread that is no core; blocks it. */
int parts_build(struct parts *parts, const struct csr *csr, unsigned count, struct crew *crew);
void parts_free(struct parts *parts);

/* The parts that the member works for: from *first to before *end, one if there are as many members as
 * parts, or more. Its rank among the part's members, of which there are *members. */
static inline unsigned parts_of(const struct parts *parts, const struct member *member,
                                unsigned *first, unsigned *end, unsigned *members)
{
    unsigned all = member->crew->members, first_member;

    if (all < parts->count) {
        *first = member->index * parts->count / all;
        *end = (member->index + 1) * parts->count / all;
        *members = 1;
        return 0;
    }
    *first = member->index * parts->count / all;
    *end = *first + 1;
    first_member = (*first * all + parts->count - 1) / parts->count;
    *members = (*end * all + parts->count - 1) / parts->count - first_member;
    return member->index - first_member;
}

#endif
