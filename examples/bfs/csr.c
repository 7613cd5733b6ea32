/* SPDX-License-Identifier: BSL-1.0 */
/*
 * See csr.h. Each member looks at all edges, and does what there is to do for the vertices of its own
 * range: so no word is written by two members, and the order is the same for any number of them.
 *
 * Rows become sorted by turning the matrix over: when the rows are read from the first on, and each
 * neighbour's row gets the vertex appended, every row is appended to in order. A vertex that comes
 * several times comes at once, so the copies are seen, too.
 */
#define _DEFAULT_SOURCE
#include "csr.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "crew.h"
#include "edges.h"
#include "placed.h"

struct build {
    struct csr *csr;
    const struct edges *edges;
    uint64_t *next;   /* where each vertex's next neighbour goes */
    uint32_t *sorted; /* rows with gaps at their ends */
};

double csr_bytes(double vertices, double edges)
{
    return vertices * (sizeof(uint64_t) + sizeof(uint32_t)) + edges * 2 * sizeof(uint32_t);
}

double csr_bytes_most(double vertices, double edges)
{
    return csr_bytes(vertices, edges) + vertices * sizeof(uint64_t) + edges * 2 * sizeof(uint32_t);
}

/* The first vertex with a row that begins at this place or after it. */
static size_t vertex_from(const struct csr *csr, uint64_t place)
{
    size_t low = 0, high = csr->vertices;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (csr->row[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void csr_share(const struct csr *csr, const struct member *member, size_t *begin, size_t *end)
{
    uint64_t all = csr->row[csr->vertices], members = member->crew->members;

    *begin = member->index == 0 ? 0 : vertex_from(csr, all * member->index / members);
    *end = member->index + 1 == members ? csr->vertices
                                        : vertex_from(csr, all * (member->index + 1) / members);
}

static inline bool within(uint32_t vertex, size_t begin, size_t length)
{
    return vertex - begin < length;
}

/* row[v + 1] becomes the number of v's neighbours, copies counted; ends[v] that of its edges' ends. */
static void count(const struct build *build, size_t begin, size_t end)
{
    const struct edges *edges = build->edges;
    struct csr *csr = build->csr;

    memset(csr->ends + begin, 0, (end - begin) * sizeof(*csr->ends));
    memset(csr->row + begin + 1, 0, (end - begin) * sizeof(*csr->row));
    for (size_t i = 0; i < edges->count; i++) {
        struct edge edge = edges->edge[i];

        for (unsigned side = 0; side < 2; side++)
            if (within(edge.end[side], begin, end - begin)) {
                csr->ends[edge.end[side]]++;
                csr->row[edge.end[side] + 1] += edge.end[0] != edge.end[1];
            }
    }
}

/* Numbers of neighbours become places. */
static void add_up(struct csr *csr)
{
    csr->row[0] = 0;
    for (size_t v = 0; v < csr->vertices; v++)
        csr->row[v + 1] += csr->row[v];
}

static void fill(const struct build *build, size_t begin, size_t end)
{
    const struct edges *edges = build->edges;
    uint32_t *to = build->csr->to;

    memcpy(build->next + begin, build->csr->row + begin, (end - begin) * sizeof(*build->next));
    for (size_t i = 0; i < edges->count; i++) {
        struct edge edge = edges->edge[i];

        if (edge.end[0] == edge.end[1])
            continue;
        for (unsigned side = 0; side < 2; side++)
            if (within(edge.end[side], begin, end - begin))
                to[build->next[edge.end[side]]++] = edge.end[1 - side];
    }
}

static void turn_over(const struct build *build, size_t begin, size_t end)
{
    const struct csr *csr = build->csr;

    memcpy(build->next + begin, csr->row + begin, (end - begin) * sizeof(*build->next));
    for (size_t u = 0; u < csr->vertices; u++)
        for (uint64_t i = csr->row[u]; i < csr->row[u + 1]; i++) {
            uint32_t v = csr->to[i];
            uint64_t place;

            if (!within(v, begin, end - begin))
                continue;
            place = build->next[v];
            if (place > csr->row[v] && build->sorted[place - 1] == u)
                continue;
            build->sorted[place] = (uint32_t)u;
            build->next[v] = place + 1;
        }
}

/* Where rows are without gaps: in next[v], the length becomes the beginning in `to`. */
static void close_up(struct build *build)
{
    struct csr *csr = build->csr;
    uint64_t place = 0;

    for (size_t v = 0; v < csr->vertices; v++) {
        uint64_t length = build->next[v] - csr->row[v];

        build->next[v] = place;
        place += length;
    }
    build->next[csr->vertices] = place;
}

static void copy_rows(const struct build *build, size_t begin, size_t end)
{
    const struct csr *csr = build->csr;

    for (size_t v = begin; v < end; v++)
        memcpy(csr->to + build->next[v], build->sorted + csr->row[v],
               (build->next[v + 1] - build->next[v]) * sizeof(*csr->to));
}

static void build_rows(struct member *member, void *arg)
{
    struct build *build = arg;
    struct csr *csr = build->csr;
    size_t begin, end;

    member_share(member, csr->vertices, &begin, &end);
    count(build, begin, end);
    member_barrier(member);
    if (member->index == 0)
        add_up(csr);
    member_barrier(member);
    csr_share(csr, member, &begin, &end);
    fill(build, begin, end);
    member_barrier(member);
    turn_over(build, begin, end);
    member_barrier(member);
    if (member->index == 0)
        close_up(build);
    member_barrier(member);
    copy_rows(build, begin, end);
}

int csr_build(struct csr *csr, const struct edges *edges, struct crew *crew)
{
    struct build build = {.csr = csr, .edges = edges};
    size_t n = edges->vertices;
    int error = -ENOMEM;

    csr->vertices = n;
    csr->row = placed_alloc((n + 1) * sizeof(*csr->row), 0);
    csr->to = placed_alloc(2 * edges->count * sizeof(*csr->to), 0);
    csr->ends = placed_alloc(n * sizeof(*csr->ends), 0);
    build.next = placed_alloc((n + 1) * sizeof(*build.next), 0);
    build.sorted = placed_alloc(2 * edges->count * sizeof(*build.sorted), 0);
    if (csr->row && csr->to && csr->ends && build.next && build.sorted)
        error = crew_run(crew, build_rows, &build, NULL);
    if (error) {
        csr_destroy(csr);
        placed_free(build.next);
    } else {
        placed_free(csr->row);
        csr->row = build.next;
    }
    placed_free(build.sorted);
    return error;
}

void csr_destroy(struct csr *csr)
{
    placed_free(csr->row);
    placed_free(csr->to);
    placed_free(csr->ends);
    *csr = (struct csr){.row = NULL};
}
