/* SPDX-License-Identifier: BSL-1.0 */
/* See ordered.h. Members divide the work as in csr.c. */
#define _DEFAULT_SOURCE
#include "ordered.h"

#include <errno.h>
#include <string.h>

#include "crew.h"
#include "edges.h"
#include "placed.h"

struct ordering {
    struct ordered *ordered;
    const struct csr *csr; /* in the order of the list */
    uint64_t *next;        /* where each vertex's next neighbour goes */
};

double ordered_bytes(double vertices, double edges)
{
    return csr_bytes(vertices, edges) + vertices * (2 * sizeof(uint64_t) + 3 * sizeof(uint32_t));
}

/* Places and names, by counting the vertices of each degree. next has room for a number a degree. */
static void sort_vertices(struct ordered *ordered, const struct csr *csr, uint64_t *next)
{
    size_t n = csr->vertices, place = 0;

    memset(next, 0, (n + 1) * sizeof(*next));
    for (size_t v = 0; v < n; v++)
        next[csr_degree(csr, v)]++;
    ordered->several = 0;
    for (size_t degree = n - 1; degree > 0; degree--) {
        uint64_t many = next[degree];

        next[degree] = place;
        place += many;
        if (degree == 2)
            ordered->several = place;
    }
    ordered->csr.vertices = place;
    next[0] = place;
    for (size_t v = 0; v < n; v++) {
        uint64_t degree = csr_degree(csr, v);

        ordered->place[v] = (uint32_t)next[degree];
        if (degree > 0)
            ordered->name[next[degree]++] = (uint32_t)v;
    }
    ordered->name[place] = NO_VERTEX;
}

static void place_rows(struct ordering *ordering)
{
    struct ordered *ordered = ordering->ordered;
    uint64_t begin = 0;

    for (size_t v = 0; v < ordered->csr.vertices; v++) {
        ordered->csr.row[v] = begin;
        begin += csr_degree(ordering->csr, ordered->name[v]);
    }
    ordered->csr.row[ordered->csr.vertices] = begin;
}

static void fill(const struct ordering *ordering, size_t begin, size_t end)
{
    const struct ordered *ordered = ordering->ordered;
    const struct csr *from = ordering->csr;

    memcpy(ordering->next + begin, ordered->csr.row + begin,
           (end - begin) * sizeof(*ordering->next));
    for (size_t u = 0; u < ordered->csr.vertices; u++) {
        size_t name = ordered->name[u];

        for (uint64_t i = from->row[name]; i < from->row[name + 1]; i++) {
            size_t v = ordered->place[from->to[i]];

            if (v - begin < end - begin)
                ordered->csr.to[ordering->next[v]++] = (uint32_t)u;
        }
    }
    for (size_t v = begin; v < end; v++)
        ordered->first[v] = ordered->csr.to[ordered->csr.row[v]];
}

static void order(struct member *member, void *arg)
{
    struct ordering *ordering = arg;
    size_t begin, end;

    if (member->index == 0) {
        sort_vertices(ordering->ordered, ordering->csr, ordering->next);
        place_rows(ordering);
    }
    member_barrier(member);
    csr_share(&ordering->ordered->csr, member, &begin, &end);
    fill(ordering, begin, end);
}

int ordered_build(struct ordered *ordered, const struct csr *csr, struct crew *crew)
{
    struct ordering ordering = {.ordered = ordered, .csr = csr};
    size_t n = csr->vertices;
    int error = -ENOMEM;

    ordered->names = n;
    ordered->csr.ends = NULL;
    ordered->csr.row = placed_alloc((n + 1) * sizeof(*ordered->csr.row), 0);
    ordered->csr.to = placed_alloc(csr->row[n] * sizeof(*ordered->csr.to), 0);
    ordered->place = placed_alloc(n * sizeof(*ordered->place), 0);
    ordered->name = placed_alloc((n + 1) * sizeof(*ordered->name), 0);
    ordered->first = placed_alloc(n * sizeof(*ordered->first), 0);
    ordering.next = placed_alloc((n + 1) * sizeof(*ordering.next), 0);
    if (ordered->csr.row && ordered->csr.to && ordered->place && ordered->name && ordered->first &&
        ordering.next)
        error = crew_run(crew, order, &ordering, NULL);
    if (error)
        ordered_free(ordered);
    placed_free(ordering.next);
    return error;
}

void ordered_free(struct ordered *ordered)
{
    csr_destroy(&ordered->csr);
    placed_free(ordered->place);
    placed_free(ordered->name);
    placed_free(ordered->first);
    *ordered = (struct ordered){.names = 0};
}
