/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A shadow that prefetches ahead: a linked list of records, several times as large as the last-level
 * cache and in random order, is walked with some work on each record, alone and with a shadow that
 * walks ahead of the owner and so brings nodes and records into a cache that both can reach.
 *
 * A chain of pointers hides the next address from the processor, and the shadow cannot hurry: it
 * too waits for memory at each node. But it does not wait for the records, and it goes on while the
 * owner computes. So the gain is largest where the work takes about as long as a load from memory;
 * there is none where it takes no time or far longer.
 *
 *     prefetch-list [--mib N] [--work N[,N...]] [--distance N] [--passes N] [--quiet]
 *
 * Exit status: 0; 1 wrong checksum or no memory; 2 bad argument; 77 no second hardware thread.
 */
#include "prefetch_run.h"
#include "program.h"

#include <stdlib.h>

const char program_name[] = "prefetch-list";

struct node {
    _Alignas(UMBRA_CACHE_LINE) struct node *next; /* the last's is the first */
    struct record *record;
};

struct list {
    struct node *nodes;
    struct record *records;
    const struct node *first;
    const struct node *at; /* the next stretch begins here */
};

/* The shadow: the owner's way without the work. */
static void walk_ahead(void *arg)
{
    struct stretch *stretch = arg;
    const void *place = stretch->ahead.first;
    uint64_t i = 0;

    /* a late shadow goes on from the owner's place: both i and place are moved on */
    while (i < stretch->count && umbra_prefetch_next(&stretch->ahead, &i, &place)) {
        const struct node *node = place;

        umbra_prefetch_line(&stretch->ahead, node);
        umbra_prefetch_line(&stretch->ahead, node->record);
        place = node->next;
        i++;
    }
}

static void walk(struct stretch *stretch)
{
    struct list *list = stretch->data;
    const struct node *node = stretch->first == 0 ? list->first : list->at;

    umbra_prefetch_begin(&stretch->ahead, node);
    if (stretch->shadow)
        shadow_fork(stretch->shadow, walk_ahead, stretch);
    for (uint64_t i = 0; i < stretch->count; i++) {
        umbra_prefetch_at(&stretch->ahead, i, node); /* alone, too: it costs next to nothing */
        stretch->sum += prefetch_work(node->record, stretch->rounds);
        node = node->next;
    }
    umbra_prefetch_end(&stretch->ahead);
    if (stretch->shadow)
        shadow_join(stretch->shadow);
    list->at = node;
}

/* ---- the list ---- */

static void destroy(void *data)
{
    struct list *list = data;

    free(list->nodes);
    free(list->records);
    free(list);
}

static void link_nodes(struct list *list, size_t count, const size_t *order, uint64_t *random)
{
    for (size_t i = 0; i < count; i++) {
        struct node *node = &list->nodes[order[i]];

        node->next = &list->nodes[order[i + 1 < count ? i + 1 : 0]];
        node->record = &list->records[order[count - 1 - i]];
        prefetch_fill(node->record, random);
    }
    list->first = &list->nodes[order[0]];
}

static void *make(size_t bytes, size_t *out)
{
    size_t count = bytes / (sizeof(struct node) + sizeof(struct record));
    uint64_t random = UINT64_C(88172645463325252);
    size_t *order = prefetch_shuffled(count, &random);
    struct list *list = calloc(1, sizeof *list);

    if (list) {
        list->nodes = aligned_alloc(UMBRA_CACHE_LINE, count * sizeof *list->nodes);
        list->records = aligned_alloc(UMBRA_CACHE_LINE, count * sizeof *list->records);
    }
    if (list && order && list->nodes && list->records) {
        link_nodes(list, count, order, &random);
        *out = count;
    } else if (list) {
        destroy(list);
        list = NULL;
    }
    free(order);
    return list;
}

int main(int argc, char **argv)
{
    static const struct subject list = {
        .usage = "prefetch-list: walk a list while a shadow prefetches ahead\n\n",
        .items = "each record",
        .make = make,
        .visit = walk,
        .destroy = destroy};

    return prefetch_main(&list, argc, argv);
}
