/* SPDX-License-Identifier: BSL-1.0 */
/*
 * See prefetch_workloads.h. Each workload has one loop for all ways, compiled once for each, and a
 * function for the helper, which goes through the same items without the work.
 */
#define _GNU_SOURCE
#include "prefetch_workloads.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 << 20)
#define LANES 6u
#define GROUP 8u  /* probes that the helper has under way together */
#define DEGREE 8u /* entries of a row, edges of a vertex */

/* How many items in-line prefetch looks ahead; tried: 4, 8, 16. */
#define INLINE_FAR 16u
#define INLINE_NEAR 8u

#define EACH_WAY static inline __attribute__((always_inline))

/* ---- what all have ---- */

/* splitmix64 (Steele, Lea, Flood 2014): what stands at place i. */
static uint64_t content(uint64_t i)
{
    uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Some number below n, less than 2^32, for each i. */
static uint32_t scatter(uint64_t i, uint64_t n)
{
    return (uint32_t)((content(i) >> 32) * n >> 32);
}

/* Several independent chains of arithmetic, as real work has. */
static inline uint64_t work_on(const uint64_t *data, unsigned rounds)
{
    uint64_t lane[LANES], sum = 0;

    memcpy(lane, data, sizeof lane);
    for (unsigned r = 0; r < rounds; r++)
        for (unsigned i = 0; i < LANES; i++)
            lane[i] = (lane[i] ^ lane[i] >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

/* The same of a single number. */
static inline uint64_t work_on_one(uint64_t number, unsigned rounds)
{
    uint64_t data[LANES];

    for (unsigned i = 0; i < LANES; i++)
        data[i] = number + i;
    return work_on(data, rounds);
}

/* The same for expect: lane by lane. */
static uint64_t expected_lane(uint64_t value, unsigned rounds)
{
    while (rounds-- > 0) {
        value ^= value >> 29;
        value *= UINT64_C(0x9e3779b97f4a7c15);
    }
    return value;
}

static uint64_t expected_record(uint64_t record, unsigned rounds)
{
    uint64_t sum = 0;

    for (unsigned lane = LANES; lane-- > 0;)
        sum += expected_lane(content(record * LANES + lane), rounds);
    return sum;
}

static uint64_t expected_one(uint64_t number, unsigned rounds)
{
    uint64_t sum = 0;

    for (unsigned lane = LANES; lane-- > 0;)
        sum += expected_lane(number + lane, rounds);
    return sum;
}

/* 0 .. n-1 in some order, the same each time. */
static void shuffle(uint32_t *order, uint64_t n, uint64_t seed)
{
    for (uint64_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (uint64_t i = n; i-- > 1;) {
        uint32_t j = scatter(seed + i, i + 1);
        uint32_t swapped = order[i];

        order[i] = order[j];
        order[j] = swapped;
    }
}

/* Room for data->bytes that are visited, and for data->order if there is one. */
static int allocate(struct workload_data *data, bool ordered)
{
    size_t size = (data->bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;

    data->memory = aligned_alloc(LARGE_PAGE, size);
    data->order = ordered ? malloc(data->items * sizeof *data->order) : NULL;
    if (data->memory == NULL || (ordered && data->order == NULL))
        return -ENOMEM;
    madvise(data->memory, size, MADV_HUGEPAGE); /* or it stays on small ones */
    return 0;
}

/* The helper starts, if there is one to this visit. */
EACH_WAY void start_ahead(struct visit *visit, enum way way, umbra_shadow_fn *ahead)
{
    if (way != WAY_SHADOW)
        return;
    umbra_prefetch_begin(&visit->ahead, visit->data->cursor);
    shadow_fork(visit->shadow, ahead, visit);
}

EACH_WAY void end_ahead(struct visit *visit, enum way way)
{
    if (way != WAY_SHADOW)
        return;
    umbra_prefetch_end(&visit->ahead);
    shadow_join(visit->shadow);
}

EACH_WAY void come_to(struct visit *visit, enum way way, uint64_t item)
{
    if (way == WAY_SHADOW)
        umbra_prefetch_at(&visit->ahead, item, NULL);
}

EACH_WAY void come_to_place(struct visit *visit, enum way way, uint64_t item, const void *place)
{
    if (way == WAY_SHADOW)
        umbra_prefetch_at(&visit->ahead, item, place);
}

/* The loop of a workload for each way, so that none pays for another. */
#define VISIT_OF(name)                                                                             \
    static uint64_t name##_visit(struct visit *visit)                                              \
    {                                                                                              \
        switch (visit->way) {                                                                      \
        case WAY_PLAIN:                                                                            \
            return name##_loop(visit, WAY_PLAIN);                                                  \
        case WAY_INLINE:                                                                           \
            return name##_loop(visit, WAY_INLINE);                                                 \
        default:                                                                                   \
            return name##_loop(visit, WAY_SHADOW);                                                 \
        }                                                                                          \
    }

struct record {
    UM_ALIGNED(64) uint64_t data[LANES];
};

/* ---- list: nodes that point to their records; chain: nodes that are their records ---- */

struct node {
    UM_ALIGNED(64) struct node *next; /* a ring */
    union {
        struct record *record; /* list */
        uint64_t data[LANES];  /* chain */
    };
};

/* Links nodes in some order; order[i] is the i-th record. */
static int link_nodes(struct workload_data *data, size_t bytes, bool records)
{
    size_t each = sizeof(struct node) + (records ? sizeof(struct record) : 0);
    struct node *nodes;
    uint32_t *nodes_order;

    data->items = bytes / each;
    data->bytes = data->items * each;
    nodes_order = malloc(data->items * sizeof *nodes_order);
    if (nodes_order == NULL || allocate(data, true) != 0) {
        free(nodes_order);
        return -ENOMEM;
    }
    nodes = data->memory;
    shuffle(nodes_order, data->items, 1);
    shuffle(data->order, data->items, data->items + 1);
    for (uint64_t i = 0; i < data->items; i++) {
        struct node *node = &nodes[nodes_order[i]];
        struct record *record = (struct record *)(nodes + data->items) + data->order[i];
        uint64_t *lanes = records ? record->data : node->data;

        node->next = &nodes[nodes_order[(i + 1) % data->items]];
        for (unsigned lane = 0; lane < LANES; lane++)
            lanes[lane] = content((uint64_t)data->order[i] * LANES + lane);
        if (records)
            node->record = record;
    }
    data->cursor = &nodes[nodes_order[0]];
    free(nodes_order);
    return 0;
}

static int list_build(struct workload_data *data, size_t bytes)
{
    return link_nodes(data, bytes, true);
}

static int chain_build(struct workload_data *data, size_t bytes)
{
    return link_nodes(data, bytes, false);
}

static uint64_t nodes_expect(const struct visit *visit)
{
    uint64_t sum = 0;

    for (uint64_t i = visit->first + visit->count; i-- > visit->first;)
        sum += expected_record(visit->data->order[i], visit->work);
    return sum;
}

static void list_ahead(void *arg)
{
    struct visit *visit = arg;
    const void *place = visit->ahead.first;

    for (uint64_t i = 0; i < visit->count; i++) {
        const struct node *node;

        if (!umbra_prefetch_next(&visit->ahead, &i, &place))
            return;
        node = place;
        umbra_prefetch_line(&visit->ahead, node);
        umbra_prefetch_line(&visit->ahead, node->record);
        place = node->next;
    }
}

static void chain_ahead(void *arg)
{
    struct visit *visit = arg;
    const void *place = visit->ahead.first;

    for (uint64_t i = 0; i < visit->count; i++) {
        if (!umbra_prefetch_next(&visit->ahead, &i, &place))
            return;
        umbra_prefetch_line(&visit->ahead, place);
        place = ((const struct node *)place)->next;
    }
}

/* In line: the next node has come while the last was worked on, so its pointers can be followed. */
EACH_WAY uint64_t list_loop(struct visit *visit, enum way way)
{
    struct node *node = visit->data->cursor;
    uint64_t sum = 0;

    start_ahead(visit, way, list_ahead);
    for (uint64_t i = 0; i < visit->count; i++, node = node->next) {
        come_to_place(visit, way, i, node);
        if (way == WAY_INLINE) {
            __builtin_prefetch(node->next->record);
            __builtin_prefetch(node->next->next);
        }
        sum += work_on(node->record->data, visit->work);
    }
    end_ahead(visit, way);
    visit->data->cursor = node;
    return sum;
}

/* In line: no further than the next node, whose address nobody knows before. */
EACH_WAY uint64_t chain_loop(struct visit *visit, enum way way)
{
    struct node *node = visit->data->cursor;
    uint64_t sum = 0;

    start_ahead(visit, way, chain_ahead);
    for (uint64_t i = 0; i < visit->count; i++, node = node->next) {
        come_to_place(visit, way, i, node);
        if (way == WAY_INLINE)
            __builtin_prefetch(node->next);
        sum += work_on(node->data, visit->work);
    }
    end_ahead(visit, way);
    visit->data->cursor = node;
    return sum;
}

VISIT_OF(list)
VISIT_OF(chain)

/* ---- hash: probes of a table of chains, each of which finds its entry ---- */

struct entry {
    UM_ALIGNED(64) struct entry *next; /* in its bucket */
    uint64_t key;
    uint64_t data[LANES];
};

/* The entries follow their buckets, as many. */
static size_t bucket_bytes(uint64_t items)
{
    return (items * sizeof(struct entry *) + 63) / 64 * 64;
}

static uint64_t key_of(uint64_t entry)
{
    return content(~entry);
}

static struct entry **bucket_of(const struct workload_data *data, uint64_t key)
{
    return (struct entry **)data->memory + (((key >> 32) * data->items) >> 32);
}

/* Which key the i-th probe is for. */
static uint64_t probe_key(const struct workload_data *data, uint64_t i)
{
    return key_of(scatter(i, data->items));
}

static int hash_build(struct workload_data *data, size_t bytes)
{
    struct entry *entries;

    data->items = bytes / (sizeof(struct entry *) + sizeof(struct entry));
    data->bytes = bucket_bytes(data->items) + data->items * sizeof(struct entry);
    if (allocate(data, false) != 0)
        return -ENOMEM;
    memset(data->memory, 0, bucket_bytes(data->items));
    entries = (struct entry *)((char *)data->memory + bucket_bytes(data->items));
    for (uint64_t i = 0; i < data->items; i++) {
        struct entry *entry = &entries[i];
        struct entry **bucket = bucket_of(data, key_of(i));

        *entry = (struct entry){.next = *bucket, .key = key_of(i)};
        for (unsigned lane = 0; lane < LANES; lane++)
            entry->data[lane] = content(i * LANES + lane);
        *bucket = entry;
    }
    return 0;
}

static uint64_t hash_expect(const struct visit *visit)
{
    uint64_t sum = 0;

    for (uint64_t i = visit->first + visit->count; i-- > visit->first;)
        sum += expected_record(scatter(i, visit->data->items), visit->work);
    return sum;
}

/* Some probes together, so that their loads from memory overlap: buckets, entries, the rest. */
static void probe_group(struct visit *visit, uint64_t first, unsigned count)
{
    struct workload_data *data = visit->data;
    struct entry *entry[GROUP];
    struct entry **bucket[GROUP];
    uint64_t key[GROUP];

    for (unsigned g = 0; g < count; g++) {
        key[g] = probe_key(data, first + g);
        bucket[g] = bucket_of(data, key[g]);
        umbra_prefetch_line(&visit->ahead, bucket[g]);
    }
    for (unsigned g = 0; g < count; g++) {
        entry[g] = *bucket[g];
        umbra_prefetch_line(&visit->ahead, entry[g]);
    }
    for (unsigned g = 0; g < count; g++)
        while (entry[g]->key != key[g]) {
            entry[g] = entry[g]->next;
            umbra_prefetch_line(&visit->ahead, entry[g]);
        }
}

static void hash_ahead(void *arg)
{
    struct visit *visit = arg;
    uint64_t i = 0;

    while (i < visit->count && umbra_prefetch_next(&visit->ahead, &i, NULL) && i < visit->count) {
        uint64_t left = visit->count - i;

        probe_group(visit, visit->first + i, left < GROUP ? (unsigned)left : GROUP);
        i += GROUP;
    }
}

/* In line: the bucket of a later probe, and the first entry of one between. */
EACH_WAY uint64_t hash_loop(struct visit *visit, enum way way)
{
    const struct workload_data *data = visit->data;
    uint64_t sum = 0;

    start_ahead(visit, way, hash_ahead);
    for (uint64_t i = 0; i < visit->count; i++) {
        uint64_t key = probe_key(data, visit->first + i);
        const struct entry *entry;

        come_to(visit, way, i);
        if (way == WAY_INLINE) {
            __builtin_prefetch(bucket_of(data, probe_key(data, visit->first + i + INLINE_FAR)));
            __builtin_prefetch(*bucket_of(data, probe_key(data, visit->first + i + INLINE_NEAR)));
        }
        entry = *bucket_of(data, key);
        while (entry->key != key)
            entry = entry->next;
        sum += work_on(entry->data, visit->work);
    }
    end_ahead(visit, way);
    return sum;
}

VISIT_OF(hash)

/* ---- gather: a table of numbers, in the order of a list of indices ---- */

static int gather_build(struct workload_data *data, size_t bytes)
{
    uint64_t *table;
    uint64_t n = bytes / (sizeof *table + sizeof *data->order);

    data->items = n;
    data->bytes = n * sizeof *table;
    if (allocate(data, true) != 0)
        return -ENOMEM;
    table = data->memory;
    for (uint64_t i = 0; i < n; i++) {
        table[i] = content(i);
        data->order[i] = scatter(i, n);
    }
    return 0;
}

static uint64_t gather_expect(const struct visit *visit)
{
    uint64_t sum = 0;

    for (uint64_t i = visit->first + visit->count; i-- > visit->first;)
        sum += expected_one(content(scatter(i, visit->data->items)), visit->work);
    return sum;
}

static void gather_ahead(void *arg)
{
    struct visit *visit = arg;
    const uint64_t *table = visit->data->memory;
    const uint32_t *order = visit->data->order + visit->first;

    for (uint64_t i = 0; i < visit->count; i++) {
        if (!umbra_prefetch_next(&visit->ahead, &i, NULL) || i >= visit->count)
            return;
        umbra_prefetch_line(&visit->ahead, &table[order[i]]);
    }
}

EACH_WAY uint64_t gather_loop(struct visit *visit, enum way way)
{
    const uint64_t *table = visit->data->memory;
    const uint32_t *order = visit->data->order + visit->first;
    uint64_t ahead = visit->count > INLINE_FAR ? visit->count - INLINE_FAR : 0;
    uint64_t sum = 0;

    start_ahead(visit, way, gather_ahead);
    for (uint64_t i = 0; i < visit->count; i++) {
        come_to(visit, way, i);
        if (way == WAY_INLINE && i < ahead)
            __builtin_prefetch(&table[order[i + INLINE_FAR]]);
        sum += work_on_one(table[order[i]], visit->work);
    }
    end_ahead(visit, way);
    return sum;
}

VISIT_OF(gather)

/* ---- csr: a wide sparse matrix times a vector; an item is a row ---- */

#define COLUMNS_A_ROW 16u /* so many columns as rows times this: the vector is the large part */

struct csr {
    double *x;
    double *values;
    uint32_t *columns;
    uint64_t width;
};

static struct csr csr_of(const struct workload_data *data)
{
    struct csr csr = {.x = data->memory, .width = data->items * COLUMNS_A_ROW};

    csr.values = csr.x + csr.width;
    csr.columns = (uint32_t *)(csr.values + data->items * DEGREE);
    return csr;
}

/* Small numbers, so that all sums are exact. */
static double small(uint64_t i)
{
    return (double)(content(i) & 1023);
}

static int csr_build(struct workload_data *data, size_t bytes)
{
    size_t row = COLUMNS_A_ROW * sizeof(double) + DEGREE * (sizeof(double) + sizeof(uint32_t));
    struct csr csr;

    data->items = bytes / row;
    data->bytes = data->items * row;
    if (allocate(data, false) != 0)
        return -ENOMEM;
    csr = csr_of(data);
    for (uint64_t i = 0; i < csr.width; i++)
        csr.x[i] = small(i);
    for (uint64_t i = 0; i < data->items * DEGREE; i++) {
        csr.values[i] = small(~i);
        csr.columns[i] = scatter(i, csr.width);
    }
    return 0;
}

static uint64_t csr_expect(const struct visit *visit)
{
    uint64_t width = visit->data->items * COLUMNS_A_ROW;
    uint64_t sum = 0;

    for (uint64_t row = visit->first; row < visit->first + visit->count; row++) {
        uint64_t product = 0;

        for (uint64_t i = row * DEGREE; i < (row + 1) * DEGREE; i++)
            product += (content(~i) & 1023) * (content(scatter(i, width)) & 1023);
        sum += expected_one(product, visit->work);
    }
    return sum;
}

static void csr_ahead(void *arg)
{
    struct visit *visit = arg;
    struct csr csr = csr_of(visit->data);

    for (uint64_t i = 0; i < visit->count; i++) {
        if (!umbra_prefetch_next(&visit->ahead, &i, NULL) || i >= visit->count)
            return;
        for (unsigned k = 0; k < DEGREE; k++)
            umbra_prefetch_line(&visit->ahead,
                                &csr.x[csr.columns[(visit->first + i) * DEGREE + k]]);
    }
}

EACH_WAY uint64_t csr_loop(struct visit *visit, enum way way)
{
    struct csr csr = csr_of(visit->data);
    const double *value = csr.values + visit->first * DEGREE;
    const uint32_t *column = csr.columns + visit->first * DEGREE;
    uint64_t sum = 0;

    start_ahead(visit, way, csr_ahead);
    for (uint64_t i = 0; i < visit->count; i++) {
        double product = 0;

        come_to(visit, way, i);
        for (unsigned k = 0; way == WAY_INLINE && k < DEGREE && i + INLINE_NEAR < visit->count; k++)
            __builtin_prefetch(&csr.x[column[(i + INLINE_NEAR) * DEGREE + k]]);
        for (unsigned k = 0; k < DEGREE; k++)
            product += value[i * DEGREE + k] * csr.x[column[i * DEGREE + k]];
        sum += work_on_one((uint64_t)product, visit->work);
    }
    end_ahead(visit, way);
    return sum;
}

VISIT_OF(csr)

/* ---- bfs: breadth-first search; an item is a vertex that leaves the queue ---- */

struct bfs_queue {
    uint32_t *edges;   /* DEGREE a vertex */
    uint32_t *seen;    /* of each vertex: the last search that found it */
    uint32_t *vertex;  /* the queue */
    uint64_t tail;     /* of this search */
    uint64_t vertices; /* in all */
    uint32_t search;   /* number of this one, from 1 */
};

static void search_anew(struct bfs_queue *queue)
{
    queue->search++;
    queue->vertex[0] = 0;
    queue->seen[0] = queue->search;
    queue->tail = 1;
}

/* The order of a search by another algorithm: level after level, with a set of what was found. */
static int bfs_order(struct workload_data *data, uint64_t vertices)
{
    bool *found = calloc(vertices, sizeof *found);
    uint64_t level = 0, end = 1;

    if (found == NULL)
        return -ENOMEM;
    found[0] = true;
    data->order[0] = 0;
    while (level < end) {
        uint64_t level_end = end;

        for (; level < level_end; level++)
            for (unsigned k = 0; k < DEGREE; k++) {
                uint32_t to = scatter((uint64_t)data->order[level] * DEGREE + k, vertices);

                if (!found[to])
                    data->order[end++] = to;
                found[to] = true;
            }
    }
    free(found);
    data->items = end;
    return 0;
}

static int bfs_build(struct workload_data *data, size_t bytes)
{
    struct bfs_queue *queue = calloc(1, sizeof *queue);
    uint64_t n = bytes / ((DEGREE + 2) * sizeof(uint32_t));

    data->cursor = queue;
    data->items = n;
    data->bytes = n * (DEGREE + 2) * sizeof(uint32_t);
    if (queue == NULL || allocate(data, true) != 0)
        return -ENOMEM;
    queue->edges = data->memory;
    queue->seen = queue->edges + n * DEGREE;
    queue->vertex = queue->seen + n;
    queue->vertices = n;
    for (uint64_t i = 0; i < n * DEGREE; i++)
        queue->edges[i] = scatter(i, n);
    memset(queue->seen, 0, n * sizeof *queue->seen);
    return bfs_order(data, n);
}

static uint64_t bfs_expect(const struct visit *visit)
{
    uint64_t sum = 0;

    for (uint64_t i = visit->first + visit->count; i-- > visit->first;)
        sum += expected_one(visit->data->order[i], visit->work);
    return sum;
}

/* What is in the queue between the two, the helper's part of the visit. */
struct stretch {
    struct visit *visit;
    const struct bfs_queue *queue;
    uint64_t begin, end;
};

/* The edges of a vertex further on, and what the edges of this one lead to. */
static void bfs_ahead(void *arg)
{
    struct stretch *stretch = arg;
    const struct bfs_queue *queue = stretch->queue;
    struct umbra_prefetch *ahead = &stretch->visit->ahead;
    const uint32_t *vertex = queue->vertex + stretch->begin;
    uint64_t count = stretch->end - stretch->begin;

    for (uint64_t i = 0; i < count; i++) {
        if (!umbra_prefetch_next(ahead, &i, NULL) || i >= count)
            return;
        if (i + GROUP < count)
            umbra_prefetch_line(ahead, &queue->edges[(uint64_t)vertex[i + GROUP] * DEGREE]);
        for (unsigned k = 0; k < DEGREE; k++)
            umbra_prefetch_line(ahead, &queue->seen[queue->edges[vertex[i] * DEGREE + k]]);
    }
}

/* In line, the same: nothing beyond the end of what is in the queue. */
EACH_WAY void bfs_look_ahead(const struct bfs_queue *queue, uint64_t at, uint64_t end)
{
    const uint32_t *edges;

    if (at + INLINE_FAR >= end)
        return;
    __builtin_prefetch(&queue->edges[(uint64_t)queue->vertex[at + INLINE_FAR] * DEGREE]);
    edges = &queue->edges[(uint64_t)queue->vertex[at + INLINE_NEAR] * DEGREE];
    for (unsigned k = 0; k < DEGREE; k++)
        __builtin_prefetch(&queue->seen[edges[k]]);
}

EACH_WAY uint64_t bfs_stretch(struct stretch *stretch, struct bfs_queue *queue, enum way way)
{
    struct visit *visit = stretch->visit;
    uint64_t sum = 0;

    for (uint64_t at = stretch->begin; at < stretch->end; at++) {
        uint32_t vertex = queue->vertex[at];

        come_to(visit, way, at - stretch->begin);
        if (way == WAY_INLINE)
            bfs_look_ahead(queue, at, stretch->end);
        for (unsigned k = 0; k < DEGREE; k++) {
            uint32_t to = queue->edges[(uint64_t)vertex * DEGREE + k];

            if (queue->seen[to] != queue->search) {
                queue->seen[to] = queue->search;
                queue->vertex[queue->tail++] = to;
            }
        }
        sum += work_on_one(vertex, visit->work);
    }
    return sum;
}

/* What is in the queue, then what came into it meanwhile: the helper reads only what stays. */
EACH_WAY uint64_t bfs_loop(struct visit *visit, enum way way)
{
    struct bfs_queue *queue = visit->data->cursor;
    uint64_t last = visit->first + visit->count;
    struct stretch stretch = {visit, queue, visit->first, 0};
    uint64_t sum = 0;

    if (visit->first == 0)
        search_anew(queue);
    for (; stretch.begin < last; stretch.begin = stretch.end) {
        stretch.end = queue->tail < last ? queue->tail : last;
        if (way == WAY_SHADOW) {
            umbra_prefetch_begin(&visit->ahead, NULL);
            shadow_fork(visit->shadow, bfs_ahead, &stretch);
        }
        sum += bfs_stretch(&stretch, queue, way);
        end_ahead(visit, way);
    }
    return sum;
}

VISIT_OF(bfs)

/* ---- all ---- */

const struct workload workloads[WORKLOADS] = {
    {"list", "a linked list whose nodes point to their records", list_build, list_visit,
     nodes_expect},
    {"chain", "a linked list whose nodes are their records", chain_build, chain_visit,
     nodes_expect},
    {"hash", "probes of a hash table of chains", hash_build, hash_visit, hash_expect},
    {"gather", "numbers of a table, by indices", gather_build, gather_visit, gather_expect},
    {"csr", "rows of a sparse matrix, times a vector", csr_build, csr_visit, csr_expect},
    {"bfs", "vertices of a breadth-first search", bfs_build, bfs_visit, bfs_expect},
};

int workload_build(struct workload_data *data, const struct workload *workload, size_t bytes)
{
    int error;

    *data = (struct workload_data){.workload = workload};
    error = workload->build(data, bytes);
    if (error != 0)
        workload_free(data);
    return error;
}

void workload_free(struct workload_data *data)
{
    if (data->workload->build == bfs_build)
        free(data->cursor);
    free(data->order);
    free(data->memory);
    *data = (struct workload_data){0};
}
