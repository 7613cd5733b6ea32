/* SPDX-License-Identifier: BSL-1.0 */
/* See fine_case.h. */
#define _GNU_SOURCE
#include "fine_case.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* splitmix64 (Steele, Lea, Flood) */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#define ARENA_BYTES (UINT64_C(8) << 20)
#define ARENA_PAGE 4096
#define ARENA_PLACE (UINT64_C(1) << 45) /* of the first problem's; free, but under sanitizers */

/* Pages that are touched one by one: 60 problems in a dozen processes have little memory each. */
static int create_arena(struct fine_arena *arena, uint64_t problem)
{
    void *place = (void *)(uintptr_t)(ARENA_PLACE + problem * ARENA_BYTES); /* a hint */

    arena->begin =
        mmap(place, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena->begin == MAP_FAILED)
        return -errno;
    madvise(arena->begin, ARENA_BYTES, MADV_NOHUGEPAGE);
    arena->next = arena->begin;
    arena->end = arena->begin + ARENA_BYTES;
    return 0;
}

/*
 * n objects of so many bytes, all zero, on lines that nothing else is on. NULL without room, which
 * there is for the two sides, of 1 MiB each in the largest sizes.
 */
static void *lines(struct fine_arena *arena, size_t n, size_t bytes)
{
    size_t all = (n * bytes / FINE_ALIGN + 1) * FINE_ALIGN;
    void *memory = arena->next;

    if (all > (size_t)(arena->end - arena->next))
        return NULL;
    arena->next += all;
    return memory;
}

static void next_page(struct fine_arena *arena)
{
    arena->next += (arena->end - arena->next) % ARENA_PAGE;
}

/* ---- vectors ---- */

static int prepare_dot(struct fine_input *input, uint64_t *expected)
{
    uint64_t state = 1;

    input->x = lines(&input->arena, input->count, sizeof(*input->x));
    input->y = lines(&input->arena, input->count, sizeof(*input->y));
    if (input->x == NULL || input->y == NULL)
        return -ENOMEM;
    for (uint32_t i = input->count; i-- > 0;) {
        uint64_t x = draw(&state) % 1000, y = draw(&state) % 1000;

        input->x[i] = (double)x;
        input->y[i] = (double)y;
        *expected += x * y;
    }
    return 0;
}

/* ---- graphs ---- */

#define EDGES_A_VERTEX 5 /* drawn; equal ones are one */

struct edge {
    uint32_t low, high;
};

struct edges {
    uint32_t n;
    struct edge *edge; /* ascending, each once */
};

/* One edge of a Kronecker graph with the quarters 0.57, 0.19, 0.19, 0.05, as in Graph500. */
static struct edge draw_edge(unsigned scale, uint64_t *state)
{
    uint32_t v = 0, w = 0;

    for (unsigned bit = 0; bit < scale; bit++) {
        uint64_t percent = draw(state) % 100;

        v = v * 2 + (percent >= 76);
        w = w * 2 + ((percent >= 57 && percent < 76) || percent >= 95);
    }
    return v < w ? (struct edge){v, w} : (struct edge){w, v};
}

static int compare_edges(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return (x->high > y->high) - (x->high < y->high);
}

static int draw_edges(uint32_t vertices, struct edges *edges)
{
    uint32_t wanted = vertices * EDGES_A_VERTEX, kept = 0;
    unsigned scale = 1;
    uint64_t state = 2;

    edges->edge = malloc(wanted * sizeof(*edges->edge));
    if (edges->edge == NULL)
        return -ENOMEM;
    while (UINT32_C(1) << scale < vertices)
        scale++;
    while (edges->n < wanted) {
        struct edge edge = draw_edge(scale, &state);

        if (edge.high < vertices && edge.low != edge.high)
            edges->edge[edges->n++] = edge;
    }
    qsort(edges->edge, edges->n, sizeof(*edges->edge), compare_edges);
    for (uint32_t e = 0; e < edges->n; e++)
        if (kept == 0 || compare_edges(&edges->edge[kept - 1], &edges->edge[e]) != 0)
            edges->edge[kept++] = edges->edge[e];
    edges->n = kept;
    return 0;
}

static int link_neighbours(struct fine_input *input, const struct edges *edges)
{
    struct fine_graph *graph = &input->graph;
    uint32_t *next;

    graph->from = lines(&input->arena, graph->vertices + 1, sizeof(*graph->from));
    graph->to = lines(&input->arena, 2 * (size_t)edges->n, sizeof(*graph->to));
    next = calloc(graph->vertices, sizeof(*next));
    if (graph->from == NULL || graph->to == NULL || next == NULL) {
        free(next);
        return -ENOMEM;
    }
    for (uint32_t e = 0; e < edges->n; e++) {
        graph->from[edges->edge[e].low + 1]++;
        graph->from[edges->edge[e].high + 1]++;
    }
    for (uint32_t v = 0; v < graph->vertices; v++) {
        graph->from[v + 1] += graph->from[v];
        next[v] = graph->from[v];
    }
    /* ascending: to lower neighbours first, whose edges are in order of those, then to higher */
    for (uint32_t e = 0; e < edges->n; e++)
        graph->to[next[edges->edge[e].high]++] = edges->edge[e].low;
    for (uint32_t e = 0; e < edges->n; e++)
        graph->to[next[edges->edge[e].low]++] = edges->edge[e].high;
    free(next);
    return 0;
}

/* Finds a result from the edges alone, not from lists of neighbours. 0 or a negative errno. */
typedef int find_fn(const struct fine_input *input, const struct edges *edges, uint64_t *expected);

static int prepare_graph(struct fine_input *input, find_fn *find, uint64_t *expected)
{
    struct edges edges = {0};
    int error = draw_edges(input->count, &edges);

    input->graph.vertices = input->count;
    if (error == 0)
        error = link_neighbours(input, &edges);
    if (error == 0)
        error = find(input, &edges, expected);
    free(edges.edge);
    return error;
}

/* Relaxes all edges until nothing changes. */
static int find_levels(const struct fine_input *input, const struct edges *edges,
                       uint64_t *expected)
{
    uint32_t *level = malloc(input->count * sizeof(*level));
    bool changed = true;

    if (level == NULL)
        return -ENOMEM;
    for (uint32_t v = 0; v < input->count; v++)
        level[v] = v == 0 ? 1 : UINT32_MAX / 2;
    while (changed) {
        changed = false;
        for (uint32_t e = 0; e < edges->n; e++) {
            uint32_t *low = &level[edges->edge[e].low], *high = &level[edges->edge[e].high];

            changed |= *low > *high + 1 || *high > *low + 1;
            *low = *low > *high + 1 ? *high + 1 : *low;
            *high = *high > *low + 1 ? *low + 1 : *high;
        }
    }
    for (uint32_t v = 0; v < input->count; v++)
        *expected += level[v] == UINT32_MAX / 2 ? 0 : (uint64_t)level[v] * (v + 1);
    free(level);
    return 0;
}

static int prepare_bfs(struct fine_input *input, uint64_t *expected)
{
    return prepare_graph(input, find_levels, expected);
}

/* Pushes shares along the edges. */
static int find_ranks(const struct fine_input *input, const struct edges *edges, uint64_t *expected)
{
    uint64_t *pushed = calloc(input->count, sizeof(*pushed));

    if (pushed == NULL)
        return -ENOMEM;
    for (uint32_t e = 0; e < edges->n; e++) {
        pushed[edges->edge[e].low] += input->share[edges->edge[e].high];
        pushed[edges->edge[e].high] += input->share[edges->edge[e].low];
    }
    for (uint32_t v = 0; v < input->count; v++) {
        uint64_t lost =
            (3 * pushed[v] + 19) / 20; /* rounded up, so that the rest is rounded down */

        *expected += (v + UINT64_C(1)) *
                     ((UINT64_C(3) << 40) / (UINT64_C(20) * input->count) + pushed[v] - lost);
    }
    free(pushed);
    return 0;
}

static int draw_ranks(const struct fine_input *input, const struct edges *edges, uint64_t *expected)
{
    uint64_t state = 3;

    for (uint32_t v = 0; v < input->count; v++) {
        uint32_t degree = input->graph.from[v + 1] - input->graph.from[v];
        uint64_t rank = draw(&state) % (UINT64_C(1) << 41) / input->count;

        input->share[v] = degree == 0 ? 0 : rank / degree;
    }
    return find_ranks(input, edges, expected);
}

static int prepare_pagerank(struct fine_input *input, uint64_t *expected)
{
    input->share = lines(&input->arena, input->count, sizeof(*input->share));
    return input->share != NULL ? prepare_graph(input, draw_ranks, expected) : -ENOMEM;
}

/* Asks for each edge and each third vertex after both whether the other two edges are there. */
static int find_triangles(const struct fine_input *input, const struct edges *edges,
                          uint64_t *expected)
{
    size_t n = input->count;
    bool *there = calloc(n * n, sizeof(*there)); /* from the lower to the higher */

    if (there == NULL)
        return -ENOMEM;
    for (uint32_t e = 0; e < edges->n; e++)
        there[edges->edge[e].low * n + edges->edge[e].high] = true;
    for (uint32_t e = 0; e < edges->n; e++)
        for (size_t w = edges->edge[e].high; w < n; w++)
            *expected += there[edges->edge[e].low * n + w] && there[edges->edge[e].high * n + w];
    free(there);
    return 0;
}

static int prepare_triangles(struct fine_input *input, uint64_t *expected)
{
    return prepare_graph(input, find_triangles, expected);
}

/* Gives both ends of every edge the lower of their labels until nothing changes. */
static int find_components(const struct fine_input *input, const struct edges *edges,
                           uint64_t *expected)
{
    uint32_t *label = malloc(input->count * sizeof(*label));
    bool changed = true;

    if (label == NULL)
        return -ENOMEM;
    for (uint32_t v = 0; v < input->count; v++)
        label[v] = v;
    while (changed) {
        changed = false;
        for (uint32_t e = 0; e < edges->n; e++) {
            uint32_t *low = &label[edges->edge[e].low], *high = &label[edges->edge[e].high];

            changed |= *low != *high;
            *low = *high = *low < *high ? *low : *high;
        }
    }
    for (uint32_t v = 0; v < input->count; v++)
        *expected += (v + UINT64_C(1)) * label[v];
    free(label);
    return 0;
}

static int prepare_components(struct fine_input *input, uint64_t *expected)
{
    return prepare_graph(input, find_components, expected);
}

/* ---- JSON ---- */

#define VALUE_BYTES 40 /* at most, of one value with its comma */

/* A value of one of six forms; adds what it weighs, which is known from how it was made. */
static int write_value(char *text, uint64_t drawn, uint64_t *weight)
{
    unsigned number = (unsigned)(drawn >> 8) % 100000;

    switch (drawn % 6) {
    case 0:
    case 1:
        *weight += number;
        return snprintf(text, VALUE_BYTES, "%u", number);
    case 2:
        *weight += FINE_STRING + 6 * FINE_CHARACTER;
        return snprintf(text, VALUE_BYTES, "\"ab%c\\\"c\"", 'a' + (int)(number % 26));
    case 3:
        *weight += FINE_LITERAL;
        return snprintf(text, VALUE_BYTES, "%s", number % 2 == 0 ? "true" : "null");
    case 4:
        *weight += FINE_ARRAY + number + number / 7;
        return snprintf(text, VALUE_BYTES, "[%u, %u]", number, number / 7);
    default:
        *weight += FINE_OBJECT + FINE_STRING + 2 * FINE_CHARACTER + FINE_LITERAL;
        return snprintf(text, VALUE_BYTES, "{\"id\": false}");
    }
}

/* An array of so many values. */
static int prepare_parse(struct fine_input *input, uint64_t *expected)
{
    uint64_t state = 4;
    char *at = input->text = lines(&input->arena, input->count * (size_t)VALUE_BYTES + 3, 1);

    if (at == NULL)
        return -ENOMEM;
    *at++ = '[';
    *expected = FINE_ARRAY;
    for (uint32_t i = 0; i < input->count; i++) {
        if (i > 0)
            *at++ = ',';
        at += write_value(at, draw(&state), expected);
    }
    *at = ']';
    return 0;
}

/* ---- pairs ---- */

const struct fine_kind fine_kinds[FINE_KINDS] = {
    {"dot",
     "elements",
     fine_dot,
     {150, 290, 420, 680, 1320, 2600, 6400, 12800, 38000, 127000},
     prepare_dot},
    {"bfs", "vertices", fine_bfs, {14, 27, 38, 58, 100, 190, 430, 820, 1900, 5000}, prepare_bfs},
    {"parse", "values", fine_parse, {9, 17, 25, 40, 80, 170, 450, 900, 2200, 5500}, prepare_parse},
    {"pagerank",
     "vertices",
     fine_pagerank,
     {22, 45, 65, 100, 190, 380, 950, 1700, 3300, 6500},
     prepare_pagerank},
    {"triangles",
     "vertices",
     fine_triangles,
     {7, 12, 14, 18, 26, 38, 63, 90, 165, 340},
     prepare_triangles},
    {"components",
     "vertices",
     fine_components,
     {8, 14, 19, 29, 55, 95, 215, 400, 1050, 2800},
     prepare_components},
};

/*
 * On pages of its own, which no prefetcher leaves: on one side's behalf it would take the other's
 * lines away.
 */
static struct fine_side *create_side(struct fine_input *input)
{
    struct fine_side *side = lines(&input->arena, 1, sizeof(*side));

    side->input = input;
    side->words = lines(&input->arena, 2 * (size_t)input->count, sizeof(*side->words));
    next_page(&input->arena);
    return side;
}

int fine_pair_create(struct fine_pair *pair, uint64_t problem)
{
    const struct fine_kind *kind = &fine_kinds[problem / FINE_SIZES];
    struct fine_input *input = &pair->input;
    int error;

    *pair = (struct fine_pair){.run = kind->run};
    input->count = kind->counts[problem % FINE_SIZES];
    error = create_arena(&input->arena, problem);
    if (error != 0)
        return error;
    for (unsigned s = 0; s < 2; s++)
        pair->sides[s] = create_side(input);
    error = kind->prepare(input, &pair->expected);
    if (error != 0)
        fine_pair_destroy(pair);
    return error;
}

void fine_pair_destroy(struct fine_pair *pair)
{
    munmap(pair->input.arena.begin, ARENA_BYTES);
    *pair = (struct fine_pair){0};
}

void fine_pair_begin(struct fine_pair *pair)
{
    for (unsigned s = 0; s < 2; s++) {
        struct fine_side *side = pair->sides[s];

        side->home = fine_here();
        side->runs = side->elsewhere = side->sum = 0;
    }
}

uint64_t fine_pair_verified(const struct fine_pair *pair)
{
    uint64_t runs = pair->sides[0]->runs;

    for (unsigned s = 0; s < 2; s++)
        if (pair->sides[s]->runs != runs || pair->sides[s]->sum != runs * pair->expected)
            return 0;
    return runs;
}

uint64_t fine_pair_elsewhere(const struct fine_pair *pair)
{
    return pair->sides[0]->elsewhere + pair->sides[1]->elsewhere;
}
