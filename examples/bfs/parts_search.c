/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The search in parts (parts.h). Each part has a set of its vertices that were found, a queue of them,
 * and copies of the whole frontier: a queue for top-down, a set for bottom-up. A level has two steps:
 * parts find their vertices, and then each fetches what the others have found.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <string.h>

#include "bits.h"
#include "edges.h"
#include "parts.h"
#include "placed.h"
#include "search.h"

#define CHUNK_VERTICES 64 /* of top-down */
#define CHUNK_WORDS 16    /* of bottom-up */
#define SPLIT_MOST 1024   /* up to so many in a frontier, a part's members divide each row */
#define ALPHA 15          /* to bottom-up, as Beamer has it */
#define BETA 18           /* and back */

/* A part's memory. */
struct place {
    bits_word *seen;        /* its vertices; bit 0 is the first */
    struct queue found;     /* likewise, those of all levels */
    uint32_t *queue;        /* the frontier; of one part, the end of found */
    bits_word *frontier[2]; /* and as sets of all vertices: this level's, and the next one's */
};

struct state {
    struct tally *tally;
    struct place place[CREW_PARTS_MOST];
};

struct job {
    const struct parts *parts;
    struct state *state;
    enum direction direction;
    uint32_t root;
    uint32_t *parent;
};

/* What a member knows of the level; all but the last is alike in all. */
struct level {
    unsigned steps;
    unsigned now;                  /* which of the sets is the frontier's */
    size_t begin[CREW_PARTS_MOST]; /* of this level, in each part's found */
    size_t end[CREW_PARTS_MOST];   /* likewise */
    size_t vertices;               /* of the frontier */
    uint64_t edges, edges_left;    /* ends of edges at them; and at all not yet gone through */
    unsigned first, last;          /* the member's parts: from first to before last */
    unsigned rank, members;        /* among the part's members */
};

/* The member's part of a range that is divided among its part's members. */
static void share(const struct level *level, size_t all, size_t *begin, size_t *end)
{
    *begin = all * level->rank / level->members;
    *end = all * (level->rank + 1) / level->members;
}

/* ---- top-down ---- */

static inline void look_down(const struct job *job, unsigned k, uint32_t from, uint64_t begin,
                             uint64_t end, struct queue_own *own)
{
    const struct part *part = &job->parts->part[k];
    struct place *place = &job->state->place[k];

    for (uint64_t i = begin; i < end; i++) {
        uint32_t to = part->forward.to[i], in_part = to - (uint32_t)part->begin;

        if (!bits_add(place->seen, in_part))
            continue;
        job->parent[to] = from;
        own->edges += csr_degree(&part->backward, in_part);
        queue_push(&place->found, own, to);
    }
}

static void part_down(struct member *member, const struct job *job, struct level *level, unsigned k,
                      struct queue_own *own)
{
    const uint64_t *row = job->parts->part[k].forward.row;
    const uint32_t *frontier = job->state->place[k].queue;
    size_t begin, end;

    if (job->parts->count == 1)
        frontier = job->state->place[k].found.vertex + level->begin[k];
    if (level->vertices <= SPLIT_MOST) {
        for (size_t q = 0; q < level->vertices; q++) {
            share(level, row[frontier[q] + 1] - row[frontier[q]], &begin, &end);
            look_down(job, k, frontier[q], row[frontier[q]] + begin, row[frontier[q]] + end, own);
        }
    } else {
        while (member_take_of(member, k, level->vertices, CHUNK_VERTICES, &begin, &end))
            for (size_t q = begin; q < end; q++)
                look_down(job, k, frontier[q], row[frontier[q]], row[frontier[q] + 1], own);
    }
    queue_flush(&job->state->place[k].found, own);
}

/* The part's copy of the frontier, from what all parts have found. */
static void gather_queue(const struct job *job, const struct level *level, unsigned k)
{
    uint32_t *to = job->state->place[k].queue;

    for (unsigned j = 0; j < job->parts->count && job->parts->count > 1; j++) {
        size_t all = level->end[j] - level->begin[j], begin, end;

        share(level, all, &begin, &end);
        memcpy(to + begin, job->state->place[j].found.vertex + level->begin[j] + begin,
               (end - begin) * sizeof(*to));
        to += all;
    }
}

/* After a barrier: where the frontier is that parts have put into their queues. Then each part's copy. */
static void gather_queues(struct member *member, const struct job *job, struct level *level)
{
    for (unsigned j = 0; j < job->parts->count; j++) {
        level->begin[j] = level->end[j];
        /* relaxed: nothing is appended between two barriers, of which this is in the middle */
        level->end[j] =
            atomic_load_explicit(&job->state->place[j].found.end.next, memory_order_relaxed);
    }
    for (unsigned k = level->first; k < level->last; k++)
        gather_queue(job, level, k);
    member_barrier(member);
}

static void go_down(struct member *member, const struct job *job, struct level *level)
{
    struct queue_own own = {.count = 0};

    level->edges_left -= level->edges < level->edges_left ? level->edges : level->edges_left;
    for (unsigned k = level->first; k < level->last; k++)
        part_down(member, job, level, k, &own);
    level->vertices = own.pushed;
    level->edges = own.edges;
    tally_all(job->state->tally, member, level->steps++, &level->vertices, &level->edges);
    gather_queues(member, job, level);
}

/* ---- bottom-up ---- */

/* The vertices of a word that are found, of those that `unseen` has. */
static inline uint64_t look_up(const struct job *job, unsigned k, const bits_word *frontier,
                               size_t word, uint64_t unseen)
{
    const struct part *part = &job->parts->part[k];
    const struct csr *csr = &part->backward;
    uint64_t found = 0;

    for (; unseen; unseen &= unseen - 1) {
        size_t bit = (size_t)__builtin_ctzll(unseen), vertex = word * BITS + bit;

        for (uint64_t i = csr->row[vertex]; i < csr->row[vertex + 1]; i++)
            if (bits_have(frontier, csr->to[i])) {
                job->parent[part->begin + vertex] = csr->to[i];
                found |= UINT64_C(1) << bit;
                break;
            }
    }
    return found;
}

static size_t part_up(struct member *member, const struct job *job, const struct level *level,
                      unsigned k)
{
    const struct part *part = &job->parts->part[k];
    const struct place *place = &job->state->place[k];
    size_t words = bits_words(part->end - part->begin), count = 0, begin, end;

    while (member_take_of(member, k, words, CHUNK_WORDS, &begin, &end))
        for (size_t word = begin; word < end; word++) {
            uint64_t seen = bits_load(place->seen, word);
            uint64_t found = look_up(job, k, place->frontier[level->now], word, ~seen);

            bits_store(place->seen, word, seen | found);
            bits_store(place->frontier[!level->now], part->begin / BITS + word, found);
            count += (size_t)__builtin_popcountll(found);
        }
    return count;
}

/* The part's copy of the next frontier. */
static void gather_bits(const struct job *job, const struct level *level, unsigned k)
{
    for (unsigned j = 0; j < job->parts->count; j++) {
        const struct part *part = &job->parts->part[j];
        size_t begin, end, from = part->begin / BITS;

        if (j == k)
            continue;
        share(level, bits_words(part->end - part->begin), &begin, &end);
        for (size_t word = from + begin; word < from + end; word++)
            bits_store(job->state->place[k].frontier[!level->now], word,
                       bits_load(job->state->place[j].frontier[!level->now], word));
    }
}

static void go_up(struct member *member, const struct job *job, struct level *level)
{
    level->vertices = 0;
    level->edges = 0;
    for (unsigned k = level->first; k < level->last; k++)
        level->vertices += part_up(member, job, level, k);
    tally_all(job->state->tally, member, level->steps++, &level->vertices, &level->edges);
    for (unsigned k = level->first; k < level->last; k++)
        gather_bits(job, level, k);
    member_barrier(member);
    level->now = !level->now;
}

/* ---- from the one to the other ---- */

static void turn_up(struct member *member, const struct job *job, const struct level *level)
{
    size_t begin, end;

    for (unsigned k = level->first; k < level->last; k++) {
        share(level, bits_words(job->parts->vertices), &begin, &end);
        for (size_t word = begin; word < end; word++)
            bits_store(job->state->place[k].frontier[level->now], word, 0);
    }
    member_barrier(member);
    for (unsigned k = level->first; k < level->last; k++) {
        const uint32_t *frontier = job->state->place[k].queue;

        if (job->parts->count == 1)
            frontier = job->state->place[k].found.vertex + level->begin[k];
        share(level, level->vertices, &begin, &end);
        for (size_t q = begin; q < end; q++)
            (void)bits_add(job->state->place[k].frontier[level->now], frontier[q]);
    }
    member_barrier(member);
}

static void queue_words(const struct job *job, const struct level *level, unsigned k, size_t begin,
                        size_t end, struct queue_own *own)
{
    size_t first = job->parts->part[k].begin / BITS;

    for (size_t word = first + begin; word < first + end; word++) {
        uint64_t bits = bits_load(job->state->place[k].frontier[level->now], word);

        for (; bits; bits &= bits - 1)
            queue_push(&job->state->place[k].found, own,
                       (uint32_t)(word * BITS + (size_t)__builtin_ctzll(bits)));
    }
}

/* What each part has found last, to the end of its queue; then as after a step of top-down. */
static void turn_down(struct member *member, const struct job *job, struct level *level)
{
    struct queue_own own = {.count = 0};
    size_t begin, end;

    for (unsigned k = level->first; k < level->last; k++) {
        const struct part *part = &job->parts->part[k];

        while (member_take_of(member, k, bits_words(part->end - part->begin), CHUNK_WORDS, &begin,
                              &end))
            queue_words(job, level, k, begin, end, &own);
        queue_flush(&job->state->place[k].found, &own);
    }
    member_barrier(member);
    gather_queues(member, job, level);
}

/* Bottom-up, until the frontier is small again; or alone, until nothing is found. */
static void stay_up(struct member *member, const struct job *job, struct level *level)
{
    size_t before;

    turn_up(member, job, level);
    do {
        before = level->vertices;
        go_up(member, job, level);
    } while (job->direction == BOTTOM_UP
                 ? level->vertices > 0
                 : level->vertices >= before || level->vertices > job->parts->vertices / BETA);
    if (job->direction != BOTTOM_UP)
        turn_down(member, job, level);
    level->edges = 1; /* a frontier that becomes smaller does not go up again */
}

static void all_levels(struct member *member, const struct job *job, struct level *level)
{
    while (level->vertices > 0) {
        bool many = level->edges > level->edges_left / ALPHA;

        if (job->direction == BOTTOM_UP || (job->direction == HYBRID && many))
            stay_up(member, job, level);
        else
            go_down(member, job, level);
    }
}

/* ---- before ---- */

/* All but the root of the part's members' own memory. */
static void begin_part(const struct job *job, const struct level *level, unsigned k)
{
    const struct part *part = &job->parts->part[k];
    size_t vertices = part->end - part->begin, words = bits_words(vertices), begin, end;

    share(level, vertices, &begin, &end);
    memset(job->parent + part->begin + begin, 0xff, (end - begin) * sizeof(*job->parent));
    share(level, words, &begin, &end);
    for (size_t word = begin; word < end; word++)
        bits_store(job->state->place[k].seen, word,
                   word + 1 < words || vertices % BITS == 0 ? 0 : UINT64_MAX << vertices % BITS);
}

static void begin_root(const struct job *job)
{
    for (unsigned k = 0; k < job->parts->count; k++) {
        const struct part *part = &job->parts->part[k];
        struct place *place = &job->state->place[k];
        bool here = job->root - part->begin < part->end - part->begin;

        if (here) {
            (void)bits_add(place->seen, job->root - (uint32_t)part->begin);
            place->found.vertex[0] = job->root;
            job->parent[job->root] = job->root;
        }
        if (job->parts->count > 1)
            place->queue[0] = job->root;
        atomic_store_explicit(&place->found.end.next, here, memory_order_relaxed); /* barrier */
    }
}

static void search_members(struct member *member, void *arg)
{
    const struct job *job = arg;
    struct level level = {.vertices = 1};

    level.rank = parts_of(job->parts, member, &level.first, &level.last, &level.members);
    for (unsigned k = level.first; k < level.last; k++)
        begin_part(job, &level, k);
    member_barrier(member);
    if (member->index == 0)
        begin_root(job);
    member_barrier(member);
    for (unsigned k = 0; k < job->parts->count; k++) {
        const struct part *part = &job->parts->part[k];
        bool here = job->root - part->begin < part->end - part->begin;

        level.end[k] = here;
        level.edges += here ? csr_degree(&part->backward, job->root - part->begin) : 0;
        level.edges_left += part->backward.row[part->end - part->begin];
    }
    all_levels(member, job, &level);
}

/* ---- for the caller ---- */

int parts_search(struct search *search, uint32_t root, uint32_t *parent, uint64_t *ns)
{
    struct job job = {search->parts, search->state, search->direction, root, parent};

    return crew_run(search->crew, search_members, &job, ns);
}

void parts_destroy(struct search *search)
{
    struct state *state = search->state;

    if (!state)
        return;
    for (unsigned k = 0; k < CREW_PARTS_MOST; k++) {
        placed_free(state->place[k].seen);
        placed_free(state->place[k].found.vertex);
        placed_free(state->place[k].queue);
        placed_free(state->place[k].frontier[0]);
        placed_free(state->place[k].frontier[1]);
    }
    placed_free(state->tally);
    placed_free(state);
    search->state = NULL;
}

static int create_place(const struct parts *parts, struct place *place, unsigned k)
{
    size_t own = parts->part[k].end - parts->part[k].begin;
    size_t set = bits_words(parts->vertices) * sizeof(bits_word);

    place->seen = placed_alloc(bits_words(own) * sizeof(*place->seen), k);
    place->found.vertex = placed_alloc(own * sizeof(*place->found.vertex), k);
    place->frontier[0] = placed_alloc(set, k);
    place->frontier[1] = placed_alloc(set, k);
    if (parts->count > 1)
        place->queue = placed_alloc(parts->vertices * sizeof(*place->queue), k);
    return place->seen && place->found.vertex && place->frontier[0] && place->frontier[1] &&
                   (place->queue || parts->count == 1)
               ? 0
               : -ENOMEM;
}

int parts_create(struct search *search)
{
    struct state *state = placed_alloc(sizeof(*state), 0);
    int error = 0;

    search->state = state;
    if (!state)
        return -ENOMEM;
    memset(state, 0, sizeof(*state));
    state->tally = placed_alloc(search->crew->members * sizeof(*state->tally), 0);
    if (!state->tally)
        error = -ENOMEM;
    for (unsigned k = 0; k < search->parts->count && !error; k++)
        error = create_place(search->parts, &state->place[k], k);
    if (error)
        parts_destroy(search);
    return error;
}
