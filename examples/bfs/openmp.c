/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Beamer's hybrid (S. Beamer, K. Asanovic, D. Patterson: Direction-Optimizing Breadth-First Search,
 * 2012) with OpenMP: what the others are compared with. As in the GAP benchmark suite of its author,
 * the array of parents says which vertices were not found, and holds their degrees, negative, until
 * they are; top-down has a queue, bottom-up two bitmaps; and the thresholds are 15 and 18.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <omp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../huge_pages.h"
#include "edges.h"
#include "ordered.h"
#include "search.h"

#define ALPHA 15 /* to bottom-up when the frontier has such a part of the edges left */
#define BETA                                                                                       \
    18 /* back to top-down when it has less than such a part of the vertices, and shrinks */
#define BITS 64
#define QUEUE_OWN 4096 /* vertices that a thread keeps until it appends them together */

struct state {
    const struct csr *csr;
    int32_t *parent; /* NULL: the result's own memory */
    uint32_t *queue;
    size_t begin, end;         /* the frontier in the queue */
    size_t appended;           /* end of what is in the queue */
    uint64_t *frontier, *next; /* bits */
    size_t words;
};

static inline bool has(const uint64_t *bits, uint32_t vertex)
{
    return bits[vertex / BITS] >> vertex % BITS & 1;
}

static void append(struct state *state, const uint32_t *vertex, size_t *count)
{
    size_t at = __atomic_fetch_add(&state->appended, *count,
                                   __ATOMIC_RELAXED); /* the region's end orders */

    memcpy(state->queue + at, vertex, *count * sizeof(*vertex));
    *count = 0;
}

/* Ends of edges at the vertices found. */
static int64_t step_down(struct state *state, int32_t *parent)
{
    const struct csr *csr = state->csr;
    int64_t edges = 0;

#pragma omp parallel
    {
        uint32_t own[QUEUE_OWN];
        size_t count = 0;

#pragma omp for reduction(+ : edges) nowait
        for (size_t q = state->begin; q < state->end; q++) {
            uint32_t from = state->queue[q];

            for (uint64_t i = csr->row[from]; i < csr->row[from + 1]; i++) {
                uint32_t to = csr->to[i];
                /* relaxed: all that counts is which thread was first */
                int32_t is = __atomic_load_n(&parent[to], __ATOMIC_RELAXED);

                if (is >= 0 || !__atomic_compare_exchange_n(&parent[to], &is, (int32_t)from, false,
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                    continue;
                if (count == QUEUE_OWN)
                    append(state, own, &count);
                own[count++] = to;
                edges -= is;
            }
        }
        append(state, own, &count);
    }
    state->begin = state->end;
    state->end = state->appended;
    return edges;
}

/* The number of vertices found. */
static size_t step_up(struct state *state, int32_t *parent)
{
    const struct csr *csr = state->csr;
    const uint64_t *frontier = state->frontier;
    uint64_t *next = state->next;
    size_t found = 0;

    memset(next, 0, state->words * sizeof(*next));
#pragma omp parallel for reduction(+ : found) schedule(dynamic, 1024)
    for (size_t v = 0; v < csr->vertices; v++) {
        if (parent[v] >= 0)
            continue;
        for (uint64_t i = csr->row[v]; i < csr->row[v + 1]; i++)
            if (has(frontier, csr->to[i])) {
                parent[v] = (int32_t)csr->to[i];
                found++;
                next[v / BITS] |= UINT64_C(1) << v % BITS; /* 1024 is a multiple of a word's bits */
                break;
            }
    }
    state->next = state->frontier;
    state->frontier = next;
    return found;
}

static void queue_to_bits(struct state *state)
{
    memset(state->frontier, 0, state->words * sizeof(*state->frontier));
#pragma omp parallel for
    for (size_t q = state->begin; q < state->end; q++)
        __atomic_fetch_or(&state->frontier[state->queue[q] / BITS],
                          UINT64_C(1) << state->queue[q] % BITS, __ATOMIC_RELAXED);
}

static void bits_to_queue(struct state *state)
{
    state->begin = state->appended;
#pragma omp parallel
    {
        uint32_t own[QUEUE_OWN];
        size_t count = 0;

#pragma omp for nowait
        for (size_t word = 0; word < state->words; word++)
            for (uint64_t bits = state->frontier[word]; bits; bits &= bits - 1) {
                if (count == QUEUE_OWN)
                    append(state, own, &count);
                own[count++] = (uint32_t)(word * BITS + (size_t)__builtin_ctzll(bits));
            }
        append(state, own, &count);
    }
    state->end = state->appended;
}

static void begin_parents(const struct csr *csr, int32_t *parent)
{
#pragma omp parallel for
    for (size_t v = 0; v < csr->vertices; v++) {
        int32_t degree = (int32_t)csr_degree(csr, v);

        parent[v] = degree > 0 ? -degree : -1;
    }
}

static void end_parents(const struct csr *csr, int32_t *parent)
{
#pragma omp parallel for
    for (size_t v = 0; v < csr->vertices; v++)
        if (parent[v] < -1)
            parent[v] = -1; /* NO_VERTEX */
}

/* Bottom-up, until the frontier is small again. */
static void stay_up(struct state *state, int32_t *parent)
{
    size_t found = state->end - state->begin, before;

    queue_to_bits(state);
    do {
        before = found;
        found = step_up(state, parent);
    } while (found >= before || found > state->csr->vertices / BETA);
    bits_to_queue(state);
}

static void hybrid(struct state *state, uint32_t root, int32_t *parent)
{
    int64_t left = (int64_t)state->csr->row[state->csr->vertices];
    int64_t edges = (int64_t)csr_degree(state->csr, root);

    begin_parents(state->csr, parent);
    parent[root] = (int32_t)root;
    state->queue[0] = root;
    state->begin = 0;
    state->end = state->appended = 1;
    while (state->begin < state->end) {
        if (edges > left / ALPHA) {
            stay_up(state, parent);
            edges = 1;
        } else {
            left -= edges;
            edges = step_down(state, parent);
        }
    }
    end_parents(state->csr, parent);
}

/* ---- for the caller ---- */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int openmp_search(struct search *search, uint32_t root, uint32_t *parent, uint64_t *ns)
{
    uint64_t begin;

    omp_set_num_threads((int)search->threads);
#pragma omp parallel
    {
    } /* its threads are there when the time begins, as the others' are */
    begin = now_ns();
    hybrid(search->state, root, (int32_t *)parent);
    *ns = now_ns() - begin;
    return 0;
}

/* The tree in the numbering of the list. */
static void name_parents(const struct ordered *ordered, const int32_t *by_place, uint32_t *parent)
{
#pragma omp parallel for
    for (size_t v = 0; v < ordered->names; v++) {
        uint32_t place = ordered->place[v];

        parent[v] = by_place[place] >= 0 ? ordered->name[by_place[place]] : NO_VERTEX;
    }
}

int openmp_ordered_search(struct search *search, uint32_t root, uint32_t *parent, uint64_t *ns)
{
    const struct ordered *ordered = search->ordered;
    struct state *state = search->state;
    uint64_t begin;

    if (ordered->place[root] == ordered->csr.vertices) { /* it has no neighbours */
        *ns = 0;
        memset(parent, 0xff, ordered->names * sizeof(*parent)); /* NO_VERTEX */
        parent[root] = root;
        return 0;
    }
    omp_set_num_threads((int)search->threads);
#pragma omp parallel
    {
    }
    begin = now_ns();
    hybrid(state, ordered->place[root], state->parent);
    state->parent[ordered->csr.vertices] = -1;
    name_parents(ordered, state->parent, parent);
    *ns = now_ns() - begin;
    return 0;
}

void openmp_destroy(struct search *search)
{
    struct state *state = search->state;

    if (!state)
        return;
    free(state->parent);
    free(state->queue);
    free(state->frontier);
    free(state->next);
    free(state);
    search->state = NULL;
}

static int create(struct search *search, const struct csr *csr, void *(*alloc)(size_t bytes))
{
    struct state *state = calloc(1, sizeof(*state));
    bool ordered = search->ordered && csr == &search->ordered->csr;

    search->state = state;
    if (!state)
        return -ENOMEM;
    state->csr = csr;
    state->words = (csr->vertices + BITS - 1) / BITS;
    state->queue = alloc((csr->vertices + 1) * sizeof(*state->queue));
    state->frontier = alloc((state->words + 1) * sizeof(*state->frontier));
    state->next = alloc((state->words + 1) * sizeof(*state->next));
    if (ordered)
        state->parent = alloc((csr->vertices + 1) * sizeof(*state->parent));
    if (state->queue && state->frontier && state->next && (state->parent || !ordered))
        return 0;
    openmp_destroy(search);
    return -ENOMEM;
}

int openmp_create(struct search *search)
{
    return create(search, search->csr, malloc);
}

int openmp_ordered_create(struct search *search)
{
    return create(search, &search->ordered->csr, huge_pages_alloc);
}
