/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The generator of the Graph500 specification. An edge is a place in the matrix of adjacency: of its
 * four quarters one is taken by chance, of that one's quarters again, and so on, once a bit of a
 * vertex's number. Small numbers have most edges then, so the numbers are scrambled at the end.
 *
 * An edge's random numbers depend on the seed and the edge's own number, not on the edges before. The
 * order of the edges says nothing, so it need not be shuffled.
 */
#define _DEFAULT_SOURCE
#include "edges.h"

#include <errno.h>

#include "crew.h"
#include "placed.h"

#define A 0.57
#define B 0.19
#define C 0.19
#define GRAIN 8192 /* edges */
#define TWO_32 4294967296.0

struct kronecker {
    struct edges *edges;
    unsigned scale;
    uint64_t seed;
};

/* SplitMix64 (Steele, Lea and Flood 2014): the number at this place of a sequence. */
static inline uint64_t random_at(uint64_t at)
{
    uint64_t z = at * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Takes each number of so many bits to another one: each step can be undone. */
static inline uint32_t scramble(uint64_t vertex, unsigned bits, uint64_t key)
{
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    unsigned half = bits / 2 + 1;

    for (unsigned round = 0; round < 3; round++) {
        vertex = (vertex * (random_at(key + round) | 1) + (key >> 32)) & mask;
        vertex ^= vertex >> half;
    }
    return (uint32_t)vertex;
}

static inline struct edge edge_at(const struct kronecker *kronecker, uint64_t number)
{
    const uint32_t lower = (uint32_t)((A + B) * TWO_32); /* else the first end's bit is 1 */
    const uint32_t right[2] = {(uint32_t)(A / (A + B) * TWO_32),
                               (uint32_t)(C / (1 - A - B) * TWO_32)};
    uint64_t key = random_at(kronecker->seed);
    uint64_t at = random_at(key ^ number);
    uint64_t end[2] = {0, 0};

    for (unsigned bit = 0; bit < kronecker->scale; bit++) {
        uint64_t chance = random_at(at + bit);
        unsigned first = (uint32_t)chance >= lower;

        end[0] = end[0] << 1 | first;
        end[1] = end[1] << 1 | ((uint32_t)(chance >> 32) >= right[first]);
    }
    return (struct edge){
        {scramble(end[0], kronecker->scale, key), scramble(end[1], kronecker->scale, key)}};
}

static void generate(struct member *member, void *arg)
{
    const struct kronecker *kronecker = arg;
    size_t begin, end;

    while (member_take(member, kronecker->edges->count, GRAIN, &begin, &end))
        for (size_t i = begin; i < end; i++)
            kronecker->edges->edge[i] = edge_at(kronecker, i);
}

int edges_generate(struct edges *edges, struct crew *crew, unsigned scale, size_t edge_factor,
                   uint64_t seed)
{
    struct kronecker kronecker = {edges, scale, seed};

    edges->vertices = (size_t)1 << scale;
    edges->count = edges->vertices * edge_factor;
    edges->edge = placed_alloc(edges->count * sizeof(*edges->edge), 0);
    return edges->edge ? crew_run(crew, generate, &kronecker, NULL) : -ENOMEM;
}

void edges_destroy(struct edges *edges)
{
    placed_free(edges->edge);
    edges->edge = NULL;
}
