/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A shadow that prefetches ahead: keys are looked up in a hash table several times as large as the
 * last-level cache, with some work on each record that is found, alone and with a shadow that looks
 * the same keys up ahead of the owner, and so brings buckets and entries into a cache that both can
 * reach.
 *
 * Each look-up waits for memory at the bucket and at the entry. The shadow, which knows the keys,
 * has several under way at once, and is faster than the owner even where the work takes no time.
 *
 *     prefetch-hash [--mib N] [--work N[,N...]] [--distance N] [--passes N] [--quiet]
 *
 * Exit status: 0; 1 wrong checksum or no memory; 2 bad argument; 77 no second hardware thread.
 */
#include "prefetch_run.h"
#include "program.h"

#include <stdlib.h>

const char program_name[] = "prefetch-hash";

#define TOGETHER 8 /* look-ups that the shadow has under way at once */

struct entry {
    struct record record; /* one line */
    _Alignas(UMBRA_CACHE_LINE) uint64_t key;
    struct entry *next; /* of the same bucket */
};

struct table {
    struct entry **buckets;
    struct entry *entries;
    uint64_t *keys; /* to look up, each once */
    size_t count;   /* of each of these */
};

static struct entry **bucket_of(const struct table *table, uint64_t key)
{
    return &table->buckets[key % table->count];
}

/* The shadow: some look-ups, step by step, so that their loads overlap. */
static void look_up_together(struct stretch *stretch, const uint64_t *keys, unsigned count)
{
    const struct table *table = stretch->data;
    const struct entry *entry[TOGETHER];

    for (unsigned k = 0; k < count; k++)
        umbra_prefetch_line(&stretch->ahead, bucket_of(table, keys[k]));
    for (unsigned k = 0; k < count; k++) {
        entry[k] = *bucket_of(table, keys[k]);
        umbra_prefetch_line(&stretch->ahead, &entry[k]->key);
    }
    for (unsigned k = 0; k < count; k++) {
        while (entry[k]->key != keys[k]) {
            entry[k] = entry[k]->next;
            umbra_prefetch_line(&stretch->ahead, &entry[k]->key);
        }
        umbra_prefetch_line(&stretch->ahead, &entry[k]->record);
    }
}

static void look_up_ahead(void *arg)
{
    struct stretch *stretch = arg;
    const uint64_t *keys = ((const struct table *)stretch->data)->keys + stretch->first;
    uint64_t i = 0;

    /* a late shadow goes on in front of the owner: i is moved on */
    while (umbra_prefetch_next(&stretch->ahead, &i, NULL) && i < stretch->count) {
        uint64_t left = stretch->count - i;

        look_up_together(stretch, keys + i, left < TOGETHER ? (unsigned)left : TOGETHER);
        i += TOGETHER;
    }
}

static void look_up(struct stretch *stretch)
{
    const struct table *table = stretch->data;
    const uint64_t *keys = table->keys + stretch->first;

    umbra_prefetch_begin(&stretch->ahead, NULL);
    if (stretch->shadow)
        shadow_fork(stretch->shadow, look_up_ahead, stretch);
    for (uint64_t i = 0; i < stretch->count; i++) {
        const struct entry *entry = *bucket_of(table, keys[i]);

        umbra_prefetch_at(&stretch->ahead, i, NULL); /* alone, too: it costs next to nothing */
        while (entry->key != keys[i])
            entry = entry->next;
        stretch->sum += prefetch_work(&entry->record, stretch->rounds);
    }
    umbra_prefetch_end(&stretch->ahead);
    if (stretch->shadow)
        shadow_join(stretch->shadow);
}

/* ---- the table ---- */

static void destroy(void *data)
{
    struct table *table = data;

    free(table->buckets);
    free(table->entries);
    free(table->keys);
    free(table);
}

static void fill(struct table *table, const size_t *order, uint64_t *random)
{
    for (size_t i = 0; i < table->count; i++) {
        struct entry *entry = &table->entries[order[i]];

        entry->key = table->keys[i] = prefetch_random(random);
        prefetch_fill(&entry->record, random);
        entry->next = *bucket_of(table, entry->key);
        *bucket_of(table, entry->key) = entry;
    }
}

static void *make(size_t bytes, size_t *out)
{
    size_t count = bytes / (sizeof(struct entry) + sizeof(struct entry *) + sizeof(uint64_t));
    uint64_t random = UINT64_C(88172645463325252);
    size_t *order = prefetch_shuffled(count, &random);
    struct table *table = calloc(1, sizeof *table);

    if (table) {
        table->count = count;
        table->buckets = calloc(count, sizeof *table->buckets);
        table->entries = aligned_alloc(UMBRA_CACHE_LINE, count * sizeof *table->entries);
        table->keys = malloc(count * sizeof *table->keys);
    }
    if (table && order && table->buckets && table->entries && table->keys) {
        fill(table, order, &random);
        *out = count;
    } else if (table) {
        destroy(table);
        table = NULL;
    }
    free(order);
    return table;
}

int main(int argc, char **argv)
{
    static const struct subject hash = {
        .usage = "prefetch-hash: look keys up in a hash table while a shadow prefetches ahead\n\n",
        .items = "each record found",
        .make = make,
        .visit = look_up,
        .destroy = destroy};

    return prefetch_main(&hash, argc, argv);
}
