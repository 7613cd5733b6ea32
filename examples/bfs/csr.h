/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A graph as rows of neighbours, one after the other (compressed sparse rows): what kernel 1 of the
 * Graph500 benchmark makes of a list of edges. Each edge is in two rows. Rows are sorted; edges from a
 * vertex to itself, and all but one of several between the same two, are left out.
 */
#ifndef BFS_CSR_H
#define BFS_CSR_H

#include <stddef.h>
#include <stdint.h>

struct crew;
struct edges;
struct member;

struct csr {
    size_t vertices;
    uint64_t *row;  /* where each vertex's neighbours begin in `to`, and the end of all */
    uint32_t *to;   /* neighbours */
    uint32_t *ends; /* of the edges of the list, at each vertex: all of them. NULL: not known */
};

static inline uint64_t csr_degree(const struct csr *csr, size_t vertex)
{
    return csr->row[vertex + 1] - csr->row[vertex];
}

/* Bytes that csr_build() takes, and that it leaves. */
double csr_bytes_most(double vertices, double edges);
double csr_bytes(double vertices, double edges);

/* 0 or a negative errno, with nothing left behind. A thread that is no core; blocks it. */
int csr_build(struct csr *csr, const struct edges *edges, struct crew *crew);
void csr_destroy(struct csr *csr);

/* The member's range of vertices, such that all members have about as many neighbours. */
void csr_share(const struct csr *csr, const struct member *member, size_t *begin, size_t *end);

#endif
