/* SPDX-License-Identifier: BSL-1.0 */
/* See fine_tasks.h. */
#include "fine_tasks.h"

#include <string.h>

static _Thread_local char here;

/* On a page's border, and with it all functions here, so that the linker moves none in its page. */
__attribute__((aligned(4096))) const void *fine_here(void)
{
    return &here;
}

static void finish(struct fine_side *side, uint64_t result)
{
    side->elsewhere += side->home != &here;
    side->sum += result;
    side->runs++;
}

void fine_dot(void *arg)
{
    struct fine_side *side = arg;
    const double *x = side->input->x, *y = side->input->y;
    double sum = 0;

    for (uint32_t i = 0; i < side->input->count; i++)
        sum += x[i] * y[i];
    finish(side, (uint64_t)sum);
}

/* ---- graphs ---- */

void fine_bfs(void *arg)
{
    struct fine_side *side = arg;
    const struct fine_graph *graph = &side->input->graph;
    uint32_t *level = side->words, *queue = side->words + graph->vertices;
    uint32_t head = 0, tail = 1;
    uint64_t sum = 1;

    memset(level, 0, graph->vertices * sizeof(*level));
    level[0] = 1;
    queue[0] = 0;
    while (head < tail) {
        uint32_t v = queue[head++];

        for (uint32_t e = graph->from[v]; e < graph->from[v + 1]; e++) {
            uint32_t w = graph->to[e];

            if (level[w] != 0)
                continue;
            level[w] = level[v] + 1;
            sum += (uint64_t)level[w] * (w + 1);
            queue[tail++] = w;
        }
    }
    finish(side, sum);
}

void fine_pagerank(void *arg)
{
    struct fine_side *side = arg;
    const struct fine_graph *graph = &side->input->graph;
    const uint64_t *share = side->input->share;
    uint64_t base = (UINT64_C(1) << 40) * 3 / 20 / graph->vertices, sum = 0;
    uint64_t *rank = (uint64_t *)(void *)side->words;

    for (uint32_t v = 0; v < graph->vertices; v++) {
        uint64_t pulled = 0;

        for (uint32_t e = graph->from[v]; e < graph->from[v + 1]; e++)
            pulled += share[graph->to[e]];
        rank[v] = base + pulled * 17 / 20;
        sum += rank[v] * (v + 1);
    }
    finish(side, sum);
}

/* How many neighbours of v and w are after w; w is after v. */
static uint32_t shared_after(const struct fine_graph *graph, uint32_t v, uint32_t w)
{
    uint32_t a = graph->from[v + 1], b = graph->from[w + 1], shared = 0;

    while (a > graph->from[v] && b > graph->from[w]) {
        uint32_t x = graph->to[a - 1], y = graph->to[b - 1];

        if (x <= w || y <= w)
            break;
        shared += x == y;
        a -= x >= y;
        b -= y >= x;
    }
    return shared;
}

void fine_triangles(void *arg)
{
    struct fine_side *side = arg;
    const struct fine_graph *graph = &side->input->graph;
    uint64_t found = 0;

    for (uint32_t v = 0; v < graph->vertices; v++)
        for (uint32_t e = graph->from[v + 1]; e > graph->from[v] && graph->to[e - 1] > v; e--)
            found += shared_after(graph, v, graph->to[e - 1]);
    finish(side, found);
}

static uint32_t find_root(uint32_t *parent, uint32_t v)
{
    while (parent[v] != v) {
        parent[v] = parent[parent[v]];
        v = parent[v];
    }
    return v;
}

void fine_components(void *arg)
{
    struct fine_side *side = arg;
    const struct fine_graph *graph = &side->input->graph;
    uint32_t *parent = side->words;
    uint64_t sum = 0;

    for (uint32_t v = 0; v < graph->vertices; v++)
        parent[v] = v;
    for (uint32_t v = 0; v < graph->vertices; v++)
        for (uint32_t e = graph->from[v]; e < graph->from[v + 1] && graph->to[e] < v; e++) {
            uint32_t a = find_root(parent, v), b = find_root(parent, graph->to[e]);

            parent[a > b ? a : b] = a > b ? b : a;
        }
    for (uint32_t v = 0; v < graph->vertices; v++)
        sum += (uint64_t)(v + 1) * find_root(parent, v);
    finish(side, sum);
}

/* ---- JSON ---- */

/* Behind the string that begins behind the quotation mark. */
static const char *parse_string(const char *at, uint64_t *sum)
{
    const char *begin = at;

    for (; *at != '"'; at++)
        if (*at == '\\')
            at++;
    *sum += FINE_STRING + (uint64_t)(at - begin) * FINE_CHARACTER;
    return at + 1;
}

static const char *parse_number(const char *at, uint64_t *sum)
{
    uint64_t number = 0;

    for (; *at >= '0' && *at <= '9'; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    *sum += number;
    return at;
}

/* Behind true, false or null. */
static const char *parse_literal(const char *at, uint64_t *sum)
{
    while (*at >= 'a' && *at <= 'z')
        at++;
    *sum += FINE_LITERAL;
    return at;
}

void fine_parse(void *arg)
{
    struct fine_side *side = arg;
    const char *at = side->input->text;
    uint64_t sum = 0;

    while (*at != '\0') {
        switch (*at) {
        case '{':
            sum += FINE_OBJECT;
            at++;
            break;
        case '[':
            sum += FINE_ARRAY;
            at++;
            break;
        case '"':
            at = parse_string(at + 1, &sum);
            break;
        default:
            if (*at >= '0' && *at <= '9')
                at = parse_number(at, &sum);
            else if (*at >= 'a' && *at <= 'z')
                at = parse_literal(at, &sum);
            else
                at++; /* what separates and closes */
        }
    }
    finish(side, sum);
}
