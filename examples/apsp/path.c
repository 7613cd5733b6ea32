/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An edge is tight if going on by it from a shortest path gives one again. Breadth first over tight
 * edges, so that cycles of length 0 do no harm. See path.h.
 */
#include "path.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define NOT_REACHED SIZE_MAX
#define ROUNDING 1e-5 /* of float32 sums in another order, relative */

static bool is_tight(const struct graph *graph, const struct blocks *distances, size_t source,
                     const struct edge *edge)
{
    double before = blocks_distance(distances, source, edge->from);
    double after = blocks_distance(distances, source, edge->to);
    double rounded = ROUNDING * (fabs(before) + fabs(edge->weight)) + graph->slack;
    double tolerance = graph->whole ? 0 : rounded;

    return isfinite(before) && fabs(before + edge->weight - after) <= tolerance;
}

/* Edges by their first vertex: those of v are order[begin[v]] to order[begin[v + 1] - 1]. */
static void sort_edges(const struct graph *graph, size_t *begin, size_t *order)
{
    for (size_t e = 0; e < graph->edges; e++)
        begin[graph->edge[e].from + 2]++;
    for (size_t v = 0; v < graph->n; v++)
        begin[v + 2] += begin[v + 1];
    for (size_t e = 0; e < graph->edges; e++)
        order[begin[graph->edge[e].from + 1]++] = e;
}

static void search(const struct graph *graph, const struct blocks *distances, size_t from,
                   const size_t *begin, const size_t *order, size_t *came_from, size_t *queue)
{
    size_t head = 0, tail = 0;

    for (size_t v = 0; v < graph->n; v++)
        came_from[v] = NOT_REACHED;
    came_from[from] = from;
    queue[tail++] = from;
    while (head < tail) {
        size_t at = queue[head++];

        for (size_t o = begin[at]; o < begin[at + 1]; o++) {
            const struct edge *edge = &graph->edge[order[o]];

            if (came_from[edge->to] == NOT_REACHED && is_tight(graph, distances, from, edge)) {
                came_from[edge->to] = at;
                queue[tail++] = edge->to;
            }
        }
    }
}

int path_find(const struct graph *graph, const struct blocks *distances, size_t from, size_t to,
              size_t **vertex, size_t *count)
{
    size_t n = graph->n;
    size_t *begin = calloc(n + 2, sizeof(*begin));
    size_t *order = malloc((graph->edges + 1) * sizeof(*order));
    size_t *came_from = malloc(n * sizeof(*came_from));
    size_t *path = malloc(n * sizeof(*path));
    bool there = begin && order && came_from && path;
    size_t length = 0;

    if (there) {
        sort_edges(graph, begin, order);
        search(graph, distances, from, begin, order, came_from, path);
        if (came_from[to] != NOT_REACHED) {
            length = 1;
            for (size_t v = to; v != from; v = came_from[v])
                length++;
            for (size_t i = length, v = to; i-- > 0; v = came_from[v])
                path[i] = v;
        }
    }
    free(begin);
    free(order);
    free(came_from);
    *vertex = there ? path : NULL;
    if (!there)
        free(path);
    *count = length;
    return there ? 0 : -ENOMEM;
}
