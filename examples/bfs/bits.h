/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Sets of vertices, a bit each, and what members tell each other of a level. All accesses to bits are
 * relaxed: of two members that add a vertex one is the first, and barriers order all else.
 */
#ifndef BFS_BITS_H
#define BFS_BITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crew.h"

#define BITS 64 /* of a word */

typedef _Atomic uint64_t bits_word;

static inline size_t bits_words(size_t vertices)
{
    return (vertices + BITS - 1) / BITS;
}

static inline uint64_t bits_load(const bits_word *bits, size_t word)
{
    return atomic_load_explicit(&bits[word], memory_order_relaxed);
}

static inline void bits_store(bits_word *bits, size_t word, uint64_t value)
{
    atomic_store_explicit(&bits[word], value, memory_order_relaxed);
}

static inline bool bits_have(const bits_word *bits, uint32_t vertex)
{
    return bits_load(bits, vertex / BITS) >> vertex % BITS & 1;
}

/* True if the vertex was not there before. */
static inline bool bits_add(bits_word *bits, uint32_t vertex)
{
    uint64_t bit = UINT64_C(1) << vertex % BITS;

    if (bits_load(bits, vertex / BITS) & bit)
        return false;
    return !(atomic_fetch_or_explicit(&bits[vertex / BITS], bit, memory_order_relaxed) & bit);
}

/* A member's vertices of a level, and the ends of edges at them. Written by the member in one level,
 * read by all in the next, written again in the one after. */
struct tally {
    _Alignas(UMBRA_CACHE_LINE) struct {
        size_t vertices;
        uint64_t edges;
    } of[2];
};

/* After a step, with a barrier: what all members have found together. Steps are numbered. */
static inline void tally_all(struct tally *tally, struct member *member, unsigned step,
                             size_t *vertices, uint64_t *edges)
{
    tally[member->index].of[step % 2].vertices = *vertices;
    tally[member->index].of[step % 2].edges = *edges;
    member_barrier(member);
    *vertices = 0;
    *edges = 0;
    for (unsigned i = 0; i < member->crew->members; i++) {
        *vertices += tally[i].of[step % 2].vertices;
        *edges += tally[i].of[step % 2].edges;
    }
}

/* A queue of vertices that only grows: the frontier is its end. */
struct queue {
    uint32_t *vertex;
    struct crew_counter end;
};

#define QUEUE_OWN 256 /* vertices that a member keeps until it appends them together */

struct queue_own {
    uint32_t vertex[QUEUE_OWN];
    size_t count;
    size_t pushed;  /* in this level */
    uint64_t edges; /* at them */
};

static inline void queue_flush(struct queue *queue, struct queue_own *own)
{
    /* relaxed: a place is given once; the barrier orders what is written there */
    size_t at = atomic_fetch_add_explicit(&queue->end.next, own->count, memory_order_relaxed);

    for (size_t i = 0; i < own->count; i++)
        queue->vertex[at + i] = own->vertex[i];
    own->count = 0;
}

static inline void queue_push(struct queue *queue, struct queue_own *own, uint32_t vertex)
{
    if (own->count == QUEUE_OWN)
        queue_flush(queue, own);
    own->vertex[own->count++] = vertex;
    own->pushed++;
}

#endif
