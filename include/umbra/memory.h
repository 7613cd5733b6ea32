/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Memory and NUMA nodes: arrays on chosen nodes, what the system made of the choice, fixed-size
 * buffers pooled for each core, and loops and barriers for each node (after Yasui and Fujisawa,
 * ULIBC; and the memory management of Karasik and Prihozhy, 2020).
 *
 *     struct umbra_memory_options place = {.place = UMBRA_MEMORY_PARTITIONED};
 *     struct umbra_memory memory;
 *     struct umbra_nodes *nodes;
 *
 *     umbra_nodes_create(runtime, &nodes);
 *     umbra_memory_create(&place, n * sizeof(double), &memory); // nothing is touched yet
 *     umbra_memory_touch(nodes, &memory);                       // by the cores that will use it
 *     ... on core c: umbra_memory_slice(nodes, &memory, c, &begin, &end);
 *
 * Places. Memory gets its NUMA node page by page, when a page is first written to:
 *
 *   place         each page is on                               for
 *   touched       the node of the thread that writes first      data that one core makes and uses
 *   here, node    the creator's node, or a named one; others    data of one node's cores
 *                 if it is full
 *   interleaved   the nodes in turns                            data that all cores use at random
 *   partitioned   the k-th of the nodes for the k-th part       arrays that are cut into parts
 *
 * A node is named by the operating system's index; its rank counts, from 0, the nodes that have
 * cores of the runtime, in the order of the cores. Where there is one node, every place is that
 * node, and memory comes from the C library. A system may refuse to bind memory (a container
 * without the permission, a control group without the node). The call succeeds then, `refused` says
 * why, and the memory is as touched. On a described machine (umbra/topology.h) nothing is bound.
 *
 * Buffers. A core takes from its own list, without atomics, and gives back to it. A buffer that is
 * given back elsewhere goes to the inbox of the list that it came from (core/inbox.h), which
 * that core empties when its list is empty. All threads that are no core of the pool's runtime have
 * one list together, with a lock. Each core's list is on the core's node.
 *
 * Loops. Each node has a loop of its own: a range that is taken in parts by the node's cores first
 * (memory/protocol.h). When a node has no part left, its cores take from the next nodes. Each
 * node also has a barrier, for one fiber of each of its cores.
 *
 * Callers: each function's comment says it. A signal handler may call no function here. What can go
 * wrong: no memory, or a binding that is refused (above). Not checked: a loop that is set while a
 * thread takes from it, a core's number that the runtime does not have, a buffer that is given back
 * twice.
 */
#ifndef UMBRA_MEMORY_H
#define UMBRA_MEMORY_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/sync.h>
#include <umbra/topology.h>

/* Where memory is; the table above says for what. */
enum umbra_memory_place {
    UMBRA_MEMORY_TOUCHED,
    UMBRA_MEMORY_HERE,
    UMBRA_MEMORY_ON_NODE,
    UMBRA_MEMORY_INTERLEAVED,
    UMBRA_MEMORY_PARTITIONED
};

/* Options of an allocation. All zero, or NULL for the whole: touched, from a cache line on. */
struct umbra_memory_options {
    enum umbra_memory_place place;
    int node; /* of UMBRA_MEMORY_ON_NODE */
    /* of INTERLEAVED and PARTITIONED, in this order. NULL: all that the process's cpus have, by
     * index, ascending. With `node` of struct umbra_nodes part k is that of the node of rank k; an
     * unknown node, -1, is refused */
    const int *nodes;
    unsigned node_count;
    size_t alignment; /* a power of two; 0: a cache line. Where memory is bound at least a page */
    bool huge_pages;  /* ask the system for them, from 2 MiB on; aligns to 2 MiB */
    const struct umbra_topology
        *topology; /* NULL: of the caller's core, else the machine is read */
};

/* An allocation, in the caller's memory. The caller reads what stands first and writes nothing. */
struct umbra_memory {
    void *at;          /* undefined contents */
    size_t bytes;      /* as asked for */
    int refused;       /* 0; else the negative errno for which pages are not bound */
    int huge_refused;  /* 0; else the negative errno for which huge pages were not asked for */
    unsigned parts;    /* how many nodes it was asked to be on; 0: touched, or the creator's
                          node is not known */
    size_t part_bytes; /* partitioned: part k begins at k * part_bytes; the last may be shorter */

    /* private; fixed */
    enum umbra_memory_place place;
    int *node; /* of each part */
    void *base;
    size_t mapped; /* bytes from base on */
};

/* What the system made of an allocation. */
struct umbra_memory_report {
    size_t pages;      /* that the area has a part of */
    size_t present;    /* of these: in memory, since some thread has written to them */
    size_t placed;     /* of the present ones: on a node that was asked for; touched: on any */
    size_t huge_bytes; /* on huge pages, as the kernel counts them; of the C library's: at most */
};

/* Where a core stands among the nodes. */
struct umbra_rank {
    unsigned node;  /* rank of its node */
    unsigned core;  /* its rank on that node, from 0 */
    unsigned cores; /* how many cores of the runtime the node has */
};

struct um_node_of;

/* A runtime's cores by node. The caller reads what stands first and writes nothing. */
struct umbra_nodes {
    unsigned count;                        /* of nodes with cores of the runtime, at least 1 */
    int *node;                             /* by rank: the operating system's index, -1: unknown */
    struct umbra_rank *rank;               /* by core */
    const struct umbra_topology *topology; /* the runtime's */

    struct umbra_runtime *runtime; /* private; fixed, as the next */
    struct um_node_of **of;        /* by rank: loop and barrier, each on its node */
};

/*
 * Allocates. Any thread or fiber; may block in the kernel, for some milliseconds if there is no
 * topology. Returns 0, also if the system does not bind the memory (memory->refused); -EINVAL: no
 * bytes, no such place or node, or an alignment that is no power of two; -ENOMEM; or an error of
 * umbra_topology_create. After an error there is nothing to free.
 */
UM_LINKONCE int umbra_memory_create(const struct umbra_memory_options *options, size_t bytes,
                                    struct umbra_memory *memory);

/* Frees the memory. Any thread or fiber; may block in the kernel. */
UM_LINKONCE void umbra_memory_destroy(struct umbra_memory *memory);

/*
 * Asks the kernel where the pages are. nodes: receives the node of each of the first `most` pages,
 * -1 if the page is nowhere yet; NULL: not wanted. Any thread or fiber; blocks in the kernel.
 * Returns 0; -ENOMEM; or the error of a system that does not tell, such as -ENOSYS.
 */
UM_LINKONCE int umbra_memory_report(const struct umbra_memory *memory,
                                    struct umbra_memory_report *report, int *nodes, size_t most);

/*
 * Which bytes of the memory are core number `core`'s, of 0 to umbra_runtime_cores() - 1: [*begin,
 * *end), which may be empty. The slices of all cores make up the memory; each begins a cache line.
 * Partitioned memory with a part for each node of `nodes` gives a core a slice of its own node's
 * part; else all cores have equal slices, of touched memory in whole pages. Any thread or fiber;
 * neither switches nor blocks.
 */
UM_LINKONCE void umbra_memory_slice(const struct umbra_nodes *nodes,
                                    const struct umbra_memory *memory, unsigned core, size_t *begin,
                                    size_t *end);

/* Fills the memory with zeros, each slice by its core, all at the same time. A fiber (may switch)
 * or a thread that is no core (blocks). Returns 0; or -ENOMEM, or an error of umbra_spawn_with or
 * umbra_event_wait, with some of the memory not filled, or none. */
UM_LINKONCE int umbra_memory_touch(const struct umbra_nodes *nodes,
                                   const struct umbra_memory *memory);

struct umbra_buffers;

/*
 * Makes a pool of buffers of `bytes` bytes. runtime NULL: the caller's. Any thread or fiber; never
 * switches. Returns 0, -EINVAL (no bytes), -ENOMEM, -EPERM (runtime NULL and the caller is no
 * fiber).
 */
UM_LINKONCE int umbra_buffers_create(struct umbra_runtime *runtime, size_t bytes,
                                     struct umbra_buffers **buffers);

/* Frees the pool and all its buffers, also those that were not given back. Any thread or fiber,
 * before the runtime is destroyed and when no thread uses the pool; never switches. NULL is
 * allowed. */
UM_LINKONCE void umbra_buffers_destroy(struct umbra_buffers *buffers);

/* Takes a buffer, which begins a cache line; its contents are undefined. NULL: no memory. Any
 * thread or fiber; never switches; a thread that is no core of the pool's runtime may block. */
UM_INLINE void *umbra_buffer_take(struct umbra_buffers *buffers);

/* Gives a buffer back, once; NULL is allowed. Any thread or fiber; neither switches nor blocks. */
UM_INLINE void umbra_buffer_give(void *buffer);

/*
 * Finds the nodes of the runtime's cores. runtime NULL: the caller's. Any thread or fiber; never
 * switches. Returns 0, -ENOMEM, -EPERM (runtime NULL and the caller is no fiber).
 */
UM_LINKONCE int umbra_nodes_create(struct umbra_runtime *runtime, struct umbra_nodes **nodes);

/* Frees it. Any thread or fiber, before the runtime is destroyed and when no thread uses it. NULL
 * is allowed. */
UM_LINKONCE void umbra_nodes_destroy(struct umbra_nodes *nodes);

/* Waits until it was called as often as the caller's node has cores, by one fiber of each of them.
 * A fiber of the runtime; may switch. Returns 1 to the last that comes, 0 to the others; -EPERM: the
 * caller is no such fiber; or an error of umbra_barrier_wait. */
UM_LINKONCE int umbra_nodes_wait(struct umbra_nodes *nodes);

/*
 * Sets the loop of the node with rank `node` to [begin, end), in parts of `grain` iterations (0:
 * 1). Any thread or fiber, while no other uses that loop: those that take parts begin, or pass a
 * barrier, afterwards. Neither switches nor blocks. Returns 0; -EINVAL: no such rank.
 */
UM_LINKONCE int umbra_nodes_loop(struct umbra_nodes *nodes, unsigned node, size_t begin, size_t end,
                                 size_t grain);

/* Takes the next part, of the loop of the caller's node or, when that has none left, of the next
 * nodes (a thread that is no core begins with rank 0). False: no loop has a part left. Any thread
 * or fiber; neither switches nor blocks. */
UM_INLINE bool umbra_nodes_next(struct umbra_nodes *nodes, size_t *begin, size_t *end);

#include <umbra/memory/nodes.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_INLINE void *umbra_buffer_take(struct umbra_buffers *buffers)
{
    struct umbra_core *core = um_core_self;
    struct um_buffer_list *list;
    struct um_node *node;

    if (UM_UNLIKELY(!core || core->runtime != buffers->runtime))
        return um_buffer_take_outside(buffers);
    list = buffers->list[core->index];
    node = list->first;
    if (UM_UNLIKELY(!node))
        return um_buffer_take_slow(list);
    list->first = node->next;
    return um_buffer_of_node(node);
}

UM_INLINE void umbra_buffer_give(void *buffer)
{
    struct um_node *node;
    struct um_buffer_list *list;

    if (!buffer)
        return;
    if (UMBRA_ASSERT)
        um_buffer_check_give(buffer);
    node = um_buffer_node(buffer);
    list = (struct um_buffer_list *)node->arg;
    if (UM_LIKELY(list->core && list->core == um_core_self)) {
        node->next = list->first;
        list->first = node;
    } else {
        um_inbox_push(&list->returned, node); /* its core is not woken: it looks when it needs */
    }
}

UM_INLINE bool umbra_nodes_next(struct umbra_nodes *nodes, size_t *begin, size_t *end)
{
    const struct umbra_core *core = um_core_self;
    unsigned rank = core && core->runtime == nodes->runtime ? nodes->rank[core->index].node : 0;

    for (unsigned i = 0; i < nodes->count; i++) {
        if (um_node_loop_take(&nodes->of[rank]->loop, begin, end))
            return true;
        rank = rank + 1 < nodes->count ? rank + 1 : 0;
    }
    return false;
}

#endif
