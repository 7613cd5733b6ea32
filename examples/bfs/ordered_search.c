/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The search in a graph that is in the order of degrees (ordered.h).
 *
 * There is one set of vertices, those that were found. The frontier is not kept beside it. Top-down, it
 * is the end of a queue. Bottom-up, no vertex that is still to be found has a neighbour from before the
 * frontier, by which it would have been found; so a neighbour in the set is in the frontier. The set
 * must be that of the beginning of the level, so there are two, which change places: a step reads one
 * and writes the other, each word by one member, without an atomic operation.
 *
 * Bottom-up, a member goes through the vertices that were not found, a word of the set at a time. First
 * it looks at each one's first neighbour, four bytes a vertex, with no branch: what it writes for a
 * vertex that was not found yet is not looked at. The rows of those that it does not find so are fetched
 * meanwhile, and are gone through afterwards.
 *
 * What was measured at scales 18, 20 and 22 and did not pay, or hardly: rows fetched ahead top-down, too;
 * other thresholds for the direction, from a half to eight times these. Chunks of four words cost a
 * tenth.
 */
#define _DEFAULT_SOURCE
#include "ordered.h"

#include <errno.h>
#include <string.h>

#include "bits.h"
#include "crew.h"
#include "edges.h"
#include "placed.h"
#include "search.h"

#define CHUNK_WORDS 16    /* of bottom-up: its rows fit the first cache */
#define CHUNK_VERTICES 64 /* of top-down */
#define CHUNK_NAMES 4096  /* of the last step */
#define SPLIT_MOST 1024   /* up to so many in a frontier, members divide each row */
#define DOWN_TO_UP 30     /* of the edges left, so large a part is too much for top-down */
#define UP_COST 4         /* of a vertex to be found, bottom-up at the end */
#define DOWN_COST 20      /* of a vertex of the frontier, top-down at the end */

struct state {
    bits_word *seen[2];
    uint32_t *parent; /* in the order of degrees */
    struct queue queue;
    struct tally *tally;
};

/* What all members know alike. */
struct level {
    unsigned number;
    unsigned now;        /* which of the sets is the one */
    size_t begin, end;   /* the frontier in the queue, if it is there */
    size_t vertices;     /* of the frontier */
    uint64_t edges;      /* at them; 0: not known */
    size_t left;         /* vertices not found yet */
    uint64_t edges_left; /* at them and at the frontier, at most */
};

struct job {
    const struct ordered *ordered;
    struct state *state;
    uint32_t root;    /* as in the list */
    uint32_t *parent; /* likewise */
};

/* ---- top-down ---- */

static inline void look_down(const struct job *job, bits_word *seen, uint32_t from, uint64_t begin,
                             uint64_t end, struct queue_own *own)
{
    const struct csr *csr = &job->ordered->csr;

    for (uint64_t i = begin; i < end; i++) {
        uint32_t to = csr->to[i];

        if (!bits_add(seen, to))
            continue;
        job->state->parent[to] = from;
        own->edges += csr_degree(csr, to);
        queue_push(&job->state->queue, own, to);
    }
}

/* The member's share of each row. */
static void split_down(const struct member *member, const struct job *job,
                       const struct level *level, struct queue_own *own)
{
    const struct csr *csr = &job->ordered->csr;

    for (size_t q = level->begin; q < level->end; q++) {
        uint32_t from = job->state->queue.vertex[q];
        size_t begin, end;

        member_share(member, csr_degree(csr, from), &begin, &end);
        look_down(job, job->state->seen[level->now], from, csr->row[from] + begin,
                  csr->row[from] + end, own);
    }
}

static void chunks_down(struct member *member, const struct job *job, const struct level *level,
                        struct queue_own *own)
{
    const struct csr *csr = &job->ordered->csr;
    const uint32_t *frontier = job->state->queue.vertex + level->begin;
    size_t all = level->end - level->begin, begin, end;

    while (member_take(member, all, CHUNK_VERTICES, &begin, &end))
        for (size_t q = begin; q < end; q++) {
            uint32_t from = frontier[q];

            look_down(job, job->state->seen[level->now], from, csr->row[from], csr->row[from + 1],
                      own);
        }
}

/* ---- bottom-up ---- */

/* Vertices with rows that are still to be gone through. */
struct missed {
    uint32_t vertex[CHUNK_WORDS * BITS];
    size_t count;
};

/* By first neighbours: the vertices of a word that are found. Bits of `unseen` are to be found. */
static inline uint64_t look_at_first(const struct job *job, const bits_word *seen, size_t word,
                                     uint64_t unseen)
{
    const uint32_t *first = job->ordered->first + word * BITS;
    uint32_t *parent = job->state->parent + word * BITS;
    uint64_t found = 0;

    if (unseen == UINT64_MAX) {
        for (unsigned bit = 0; bit < BITS; bit++) {
            parent[bit] = first[bit];
            found |= (uint64_t)bits_have(seen, first[bit]) << bit;
        }
        return found;
    }
    for (; unseen; unseen &= unseen - 1) {
        int bit = __builtin_ctzll(unseen);

        parent[bit] = first[bit];
        found |= (uint64_t)bits_have(seen, first[bit]) << bit;
    }
    return found;
}

static inline void miss(const struct job *job, struct missed *missed, size_t word, uint64_t which)
{
    const struct csr *csr = &job->ordered->csr;

    for (; which; which &= which - 1) {
        size_t vertex = word * BITS + (size_t)__builtin_ctzll(which);

        if (vertex >= job->ordered->several)
            return;
        __builtin_prefetch(&csr->to[csr->row[vertex]]);
        missed->vertex[missed->count++] = (uint32_t)vertex;
    }
}

/* Through the rows, from the second neighbour on. The number of vertices found. */
static size_t look_at_rows(const struct job *job, const bits_word *seen, bits_word *then,
                           const struct missed *missed)
{
    const struct csr *csr = &job->ordered->csr;
    size_t found = 0;

    for (size_t m = 0; m < missed->count; m++) {
        uint32_t vertex = missed->vertex[m];
        uint64_t end = csr->row[vertex + 1], i = csr->row[vertex] + 1;

        while (i < end && !bits_have(seen, csr->to[i]))
            i++;
        if (i == end)
            continue;
        job->state->parent[vertex] = csr->to[i];
        bits_store(then, vertex / BITS,
                   bits_load(then, vertex / BITS) | UINT64_C(1) << vertex % BITS);
        found++;
    }
    return found;
}

static size_t step_up(struct member *member, const struct job *job, const struct level *level)
{
    const bits_word *seen = job->state->seen[level->now];
    bits_word *then = job->state->seen[!level->now];
    size_t words = bits_words(job->ordered->csr.vertices + 1), found = 0, begin, end;
    struct missed missed;

    while (member_take(member, words, CHUNK_WORDS, &begin, &end)) {
        missed.count = 0;
        for (size_t word = begin; word < end; word++) {
            uint64_t old = bits_load(seen, word), by_first = 0;

            if (old != UINT64_MAX) {
                by_first = look_at_first(job, seen, word, ~old);
                miss(job, &missed, word, ~old & ~by_first);
            }
            bits_store(then, word, old | by_first);
            found += (size_t)__builtin_popcountll(by_first);
        }
        found += look_at_rows(job, seen, then, &missed);
    }
    return found;
}

/* The frontier into the queue: what the last step has added. */
static void queue_frontier(struct member *member, const struct job *job, const struct level *level)
{
    size_t words = bits_words(job->ordered->csr.vertices + 1), begin, end;
    struct queue_own own = {.count = 0};

    while (member_take(member, words, CHUNK_WORDS * 16, &begin, &end))
        for (size_t word = begin; word < end; word++) {
            uint64_t added = bits_load(job->state->seen[level->now], word) &
                             ~bits_load(job->state->seen[!level->now], word);

            for (; added; added &= added - 1)
                queue_push(&job->state->queue, &own,
                           (uint32_t)(word * BITS + (size_t)__builtin_ctzll(added)));
        }
    queue_flush(&job->state->queue, &own);
}

/* ---- levels ---- */

/* After a step: tells the others what the member has found, and learns what all have. */
static void next_level(struct member *member, const struct job *job, struct level *level,
                       size_t vertices, uint64_t edges)
{
    level->vertices = vertices;
    level->edges = edges;
    tally_all(job->state->tally, member, level->number++, &level->vertices, &level->edges);
    level->left -= level->vertices;
}

static void go_down(struct member *member, const struct job *job, struct level *level)
{
    struct queue_own own = {.count = 0};

    level->edges_left -= level->edges < level->edges_left ? level->edges : level->edges_left;
    if (level->end - level->begin <= SPLIT_MOST)
        split_down(member, job, level, &own);
    else
        chunks_down(member, job, level, &own);
    queue_flush(&job->state->queue, &own);
    level->begin = level->end;
    next_level(member, job, level, own.pushed, own.edges);
    level->end = level->begin + level->vertices;
}

/* Back to top-down: the frontier goes into the queue, behind the levels that are there. */
static void turn_down(struct member *member, const struct job *job, struct level *level)
{
    queue_frontier(member, job, level);
    member_barrier(member);
    level->begin = level->end;
    level->end += level->vertices;
}

static void go_up(struct member *member, const struct job *job, struct level *level)
{
    size_t found = step_up(member, job, level);

    next_level(member, job, level, found, 0);
    level->now = !level->now;
}

/* True if bottom-up is to be the faster way, coming from top-down. */
static bool up_is_next(const struct level *level)
{
    return level->edges > level->edges_left / DOWN_TO_UP;
}

/* True if top-down is to be the faster way, coming from bottom-up. */
static bool down_is_next(const struct job *job, const struct level *level)
{
    size_t words = bits_words(job->ordered->csr.vertices + 1);

    return level->vertices * DOWN_COST < words / 8 + level->left * UP_COST;
}

/* The set of all that were found. */
static const bits_word *all_levels(struct member *member, const struct job *job)
{
    uint32_t root = job->ordered->place[job->root];
    struct level level = {.end = 1, .vertices = 1, .left = job->ordered->csr.vertices - 1};
    bool up = false;

    level.edges = csr_degree(&job->ordered->csr, root);
    level.edges_left = job->ordered->csr.row[job->ordered->csr.vertices];
    while (level.vertices > 0 && level.left > 0) {
        if (!up && up_is_next(&level)) {
            up = true;
        } else if (up && down_is_next(job, &level)) {
            turn_down(member, job, &level);
            up = false;
        }
        if (up)
            go_up(member, job, &level);
        else
            go_down(member, job, &level);
    }
    return job->state->seen[level.now];
}

/* ---- before and after ---- */

/* The sets are empty but for the places after the last vertex, of which the first stands for all
 * vertices without neighbours. */
static void begin_sets(struct member *member, const struct job *job)
{
    struct state *state = job->state;
    uint32_t root = job->ordered->place[job->root];
    size_t n = job->ordered->csr.vertices, words = bits_words(n + 1), begin, end;

    member_share(member, words, &begin, &end);
    for (size_t word = begin; word < end; word++)
        bits_store(state->seen[0], word, word + 1 < words ? 0 : UINT64_MAX << n % BITS);
    member_barrier(member);
    if (member->index == 0) {
        (void)bits_add(state->seen[0], root);
        state->parent[root] = root;
        state->parent[n] = (uint32_t)n;
        state->queue.vertex[0] = root;
        atomic_store_explicit(&state->queue.end.next, 1, memory_order_relaxed); /* barrier */
    }
    member_barrier(member);
}

/* The tree in the numbering of the list. */
static void name_parents(struct member *member, const struct job *job, const bits_word *seen)
{
    const struct ordered *ordered = job->ordered;
    const uint32_t *parent = job->state->parent;
    size_t begin, end;

    while (member_take(member, ordered->names, CHUNK_NAMES, &begin, &end))
        for (size_t v = begin; v < end; v++) {
            uint32_t place = ordered->place[v];

            job->parent[v] = bits_have(seen, place) ? ordered->name[parent[place]] : NO_VERTEX;
        }
}

static void search_members(struct member *member, void *arg)
{
    const struct job *job = arg;

    begin_sets(member, job);
    name_parents(member, job, all_levels(member, job));
}

/* ---- for the caller ---- */

int ordered_search(struct search *search, uint32_t root, uint32_t *parent, uint64_t *ns)
{
    struct job job = {search->ordered, search->state, root, parent};

    if (search->ordered->place[root] == search->ordered->csr.vertices) { /* it has no neighbours */
        *ns = 0;
        memset(parent, 0xff, search->ordered->names * sizeof(*parent)); /* NO_VERTEX */
        parent[root] = root;
        return 0;
    }
    return crew_run(search->crew, search_members, &job, ns);
}

void ordered_destroy(struct search *search)
{
    struct state *state = search->state;

    if (!state)
        return;
    placed_free(state->seen[0]);
    placed_free(state->seen[1]);
    placed_free(state->parent);
    placed_free(state->queue.vertex);
    placed_free(state->tally);
    placed_free(state);
    search->state = NULL;
}

int ordered_create(struct search *search)
{
    struct state *state = placed_alloc(sizeof(*state), 0);
    size_t words = bits_words(search->ordered->csr.vertices + 1);

    search->state = state;
    if (!state)
        return -ENOMEM;
    state->seen[0] = placed_alloc(words * sizeof(*state->seen[0]), 0);
    state->seen[1] = placed_alloc(words * sizeof(*state->seen[1]), 0);
    state->parent = placed_alloc(words * BITS * sizeof(*state->parent), 0);
    state->queue.vertex = placed_alloc(words * BITS * sizeof(*state->queue.vertex), 0);
    state->tally = placed_alloc(search->crew->members * sizeof(*state->tally), 0);
    if (state->seen[0] && state->seen[1] && state->parent && state->queue.vertex && state->tally)
        return 0;
    ordered_destroy(search);
    return -ENOMEM;
}
