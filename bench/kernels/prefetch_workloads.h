/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What bench/prefetch goes through: data larger or smaller than the caches, visited in an order
 * that the processor cannot guess, with some work on each item. A visit goes on where the last one
 * stopped, so that what it needs was not used since everything else was.
 */
#ifndef UMBRA_BENCH_PREFETCH_WORKLOADS_H
#define UMBRA_BENCH_PREFETCH_WORKLOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <umbra/prefetch.h>
#include <umbra/shadow.h>

enum way { WAY_PLAIN, WAY_INLINE, WAY_SHADOW };

struct workload_data;

/* Some items in a row, and how they are visited. */
struct visit {
    struct workload_data *data;
    uint64_t first; /* item */
    uint64_t count; /* items; first + count is not beyond the last */
    unsigned work;  /* rounds of arithmetic an item */
    enum way way;
    struct umbra_shadow *shadow; /* of WAY_SHADOW; idle before and after */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_prefetch ahead; /* likewise, prepared */
};

struct workload {
    const char *name;
    const char *about;
    /* Makes as many items as fit into about so many bytes. 0 or -ENOMEM, with nothing kept. */
    int (*build)(struct workload_data *data, size_t bytes);
    /* Visits; returns the checksum. */
    uint64_t (*visit)(struct visit *visit);
    /* The checksum it must have, computed from how the data was made, by code of its own. */
    uint64_t (*expect)(const struct visit *visit);
};

#define WORKLOADS 6u

extern const struct workload workloads[WORKLOADS];

struct workload_data {
    const struct workload *workload;
    uint64_t items;
    size_t bytes;      /* of what is visited */
    uint64_t position; /* where the next visit starts; the users' */
    void *memory;      /* what is visited; on large pages where the system has them */
    uint32_t *order;   /* what the items are, for expect; list, chain, gather, bfs */
    void *cursor;      /* list, chain: node of the position; bfs: struct bfs_queue */
};

/* 0 or -ENOMEM. */
int workload_build(struct workload_data *data, const struct workload *workload, size_t bytes);
void workload_free(struct workload_data *data);

#endif
