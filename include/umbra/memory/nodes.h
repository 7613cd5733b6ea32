/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/memory.h: areas on nodes and where their pages are, lists of buffers, ranks
 * of cores, and their loops and barriers. Private; included by that header, after its declarations.
 */
#ifndef UMBRA_MEMORY_NODES_H
#define UMBRA_MEMORY_NODES_H

#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core.h>
#include <umbra/core/protocol.h>
#include <umbra/cpu.h>
#include <umbra/memory/protocol.h>
#include <umbra/os/os.h>
#include <umbra/sync.h>
#include <umbra/topology.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* Memory that buffers are cut from. */
struct um_buffer_chunk {
    struct um_buffer_chunk *next; /* of the same list */
    size_t bytes;                 /* of the whole */
};

/* The idle buffers of a core, or of all threads that are no core of the runtime. */
struct um_buffer_list {
    struct um_node *first; /* linked by next; the core, or under lock */
    struct um_buffer_chunk *chunks;
    struct um_lock lock;           /* of the threads outside */
    struct umbra_buffers *buffers; /* this and what follows: fixed */
    struct umbra_core *core;       /* NULL: of the threads outside */
    int node;                      /* the core's; -1: any */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 returned; /* an inbox; any thread pushes, the list's
                                                            owner takes */
};

struct umbra_buffers {
    struct umbra_runtime *runtime;
    size_t stride; /* from one buffer to the next: a line for its node, and the buffer */
    struct um_buffer_list *list[]; /* by core, and one more for the threads outside */
};

/* What a node's cores share, on the node. */
struct um_node_of {
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_node_loop loop;
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_barrier barrier;
};

/* The line before a buffer is its node. The node's arg is the list that the buffer came from. */
UM_INLINE struct um_node *um_buffer_node(void *buffer)
{
    return (struct um_node *)((char *)buffer - UMBRA_CACHE_LINE);
}

#define UM_BUFFER_TAKEN 1 /* in the node's flags, with UMBRA_ASSERT: it is the program's */

/* A buffer that is taken. */
UM_INLINE void *um_buffer_of_node(struct um_node *node)
{
    if (UMBRA_ASSERT)
        node->flags = UM_BUFFER_TAKEN;
    return (char *)node + UMBRA_CACHE_LINE;
}

UM_STATIC_ASSERT(sizeof(struct um_node) <= UMBRA_CACHE_LINE, "a buffer's node is a line");

UM_LINKONCE void *um_buffer_take_slow(struct um_buffer_list *list);
UM_LINKONCE void *um_buffer_take_outside(struct umbra_buffers *buffers);

/* A buffer is given back, with UMBRA_ASSERT: aborts if it is not taken. */
UM_LINKONCE UM_NOINLINE void um_buffer_check_give(void *buffer);

#ifdef UMBRA_IMPLEMENTATION

#define UM_HUGE_PAGE_BYTES ((size_t)2 << 20) /* of most processors; elsewhere nothing is lost */
#define UM_CHUNK_BYTES ((size_t)256 << 10)   /* unless one buffer is larger */

/* ---- areas ---- */

/* True if the options make sense for this topology. */
UM_LINKONCE UM_COLD bool um_memory_possible(const struct umbra_topology *topology,
                                            const struct umbra_memory_options *options)
{
    if (options->place > UMBRA_MEMORY_PARTITIONED ||
        (options->alignment & (options->alignment - 1)) != 0)
        return false;
    if (options->place == UMBRA_MEMORY_ON_NODE)
        return um_topology_has_node(topology, options->node);
    if (options->nodes && options->node_count == 0)
        return false;
    for (unsigned i = 0; options->nodes && i < options->node_count; i++)
        if (!um_topology_has_node(topology, options->nodes[i]))
            return false;
    return true;
}

/* Writes the nodes of the process's cpus, each once, ascending; room for one a cpu. How many. */
UM_LINKONCE UM_COLD unsigned um_memory_all_nodes(const struct umbra_topology *topology, int *nodes)
{
    unsigned count = 0;

    for (unsigned i = 0; i < umbra_topology_info(topology)->cpus; i++) {
        int node = umbra_topology_info(topology)->cpu[i].node;
        unsigned at = count;

        while (at > 0 && nodes[at - 1] > node)
            at--;
        if (node < 0 || (at > 0 && nodes[at - 1] == node))
            continue;
        memmove(nodes + at + 1, nodes + at, (count - at) * sizeof(*nodes));
        nodes[at] = node;
        count++;
    }
    return count;
}

/* Fills in on which nodes the memory is to be. 0 or -ENOMEM. */
UM_LINKONCE UM_COLD int um_memory_choose(const struct umbra_topology *topology,
                                         const struct umbra_memory_options *options,
                                         struct umbra_memory *memory)
{
    bool several = options->place >= UMBRA_MEMORY_INTERLEAVED;
    unsigned room = !several         ? 1
                    : options->nodes ? options->node_count
                                     : umbra_topology_info(topology)->cpus;

    memory->node = malloc(room * sizeof(*memory->node));
    if (!memory->node)
        return -ENOMEM;
    if (several && options->nodes)
        memcpy(memory->node, options->nodes, room * sizeof(*memory->node));
    else if (several)
        room = um_memory_all_nodes(topology, memory->node);
    else if (options->place == UMBRA_MEMORY_ON_NODE)
        memory->node[0] = options->node;
    else
        memory->node[0] = um_place_node(topology, um_topology_current_cpu(topology));
    if (room > 0 && memory->node[0] >= 0 && options->place != UMBRA_MEMORY_TOUCHED)
        memory->parts = room; /* else the node is not known, or not wanted */
    return 0;
}

/* Gets the area; size and alignment are known to be possible. 0 or -ENOMEM. */
UM_LINKONCE UM_COLD int um_memory_get(size_t alignment, struct umbra_memory *memory)
{
    size_t page = um_os_page_bytes();
    size_t unit = alignment < page ? page : alignment;
    size_t whole = um_place_round(memory->bytes, unit);

    if (whole == 0 || whole > PTRDIFF_MAX)
        return -ENOMEM;
    memory->mapped = unit > page ? um_place_round(whole + unit, page) : whole;
    memory->base = memory->mapped > memory->bytes || memory->mapped == whole
                       ? um_os_map_data(memory->mapped)
                       : NULL;
    if (!memory->base)
        return -ENOMEM;
    memory->at = (char *)memory->base + (-(uintptr_t)memory->base & (unit - 1));
    return 0;
}

/* How many bytes from `begin` on, at most `most`. */
UM_INLINE size_t um_memory_left(const struct umbra_memory *memory, size_t begin, size_t most)
{
    size_t left = begin < memory->bytes ? memory->bytes - begin : 0;

    return left < most ? left : most;
}

/* Binds the pages, if there is a choice. Returns what becomes memory->refused. */
UM_LINKONCE UM_COLD int um_memory_bind(const struct umbra_topology *topology,
                                       struct umbra_memory *memory)
{
    int error = 0;

    if (memory->parts == 0)
        return memory->place == UMBRA_MEMORY_TOUCHED || umbra_topology_info(topology)->nodes < 2
                   ? 0
                   : -EOPNOTSUPP;
    if (!um_place_binds(topology))
        return umbra_topology_info(topology)->nodes < 2 ? 0 : -EOPNOTSUPP;
    if (memory->place != UMBRA_MEMORY_PARTITIONED)
        return um_topology_bind_memory(topology, memory->at, memory->bytes, memory->node,
                                       memory->parts);
    for (unsigned k = 0; k < memory->parts && error == 0; k++) {
        size_t begin = k * memory->part_bytes;
        size_t bytes = um_memory_left(memory, begin, memory->part_bytes);

        if (bytes > 0)
            error = um_topology_bind_memory(topology, (char *)memory->at + begin, bytes,
                                            &memory->node[k], 1);
    }
    return error;
}

/* With a topology, and options. */
UM_LINKONCE UM_COLD int um_memory_make(const struct umbra_topology *topology,
                                       const struct umbra_memory_options *options, size_t bytes,
                                       struct umbra_memory *result)
{
    struct umbra_memory memory = {.bytes = bytes, .place = options->place};
    bool huge = options->huge_pages && bytes >= UM_HUGE_PAGE_BYTES;
    size_t alignment = huge ? UM_HUGE_PAGE_BYTES : UMBRA_CACHE_LINE;
    int error;

    if (bytes == 0 || !um_memory_possible(topology, options))
        return um_why(
            -EINVAL,
            "bytes = %zu, place = %d, node = %d, alignment = %zu: one is out of range, or "
            "one of the nodes",
            bytes, (int)options->place, options->node, options->alignment);
    if (alignment < options->alignment)
        alignment = options->alignment;
    error = um_memory_choose(topology, options, &memory);
    if (error == 0)
        error = um_memory_get(alignment, &memory);
    if (error != 0) {
        free(memory.node);
        return um_why_none(error);
    }
    if (memory.place == UMBRA_MEMORY_PARTITIONED && memory.parts > 0)
        memory.part_bytes = um_place_round((bytes - 1) / memory.parts + 1, um_os_page_bytes());
    memory.refused = um_memory_bind(topology, &memory);
    if (huge)
        memory.huge_refused = um_os_advise_huge(memory.at, bytes & ~(UM_HUGE_PAGE_BYTES - 1));
    *result = memory;
    return 0;
}

UM_LINKONCE int umbra_memory_create(const struct umbra_memory_options *options, size_t bytes,
                                    struct umbra_memory *memory)
{
    static const struct umbra_memory_options defaults = {.place = UMBRA_MEMORY_TOUCHED};
    const struct umbra_topology *topology;
    struct umbra_topology *own = NULL;
    int error = 0;

    if (!options)
        options = &defaults;
    topology = options->topology;
    if (!topology && um_core_self)
        topology = um_core_self->runtime->topology;
    if (!topology) {
        error = um_topology_share(&own);
        topology = own;
    }
    if (error == 0)
        error = um_memory_make(topology, options, bytes, memory);
    umbra_topology_destroy(own);
    return error;
}

UM_LINKONCE void umbra_memory_destroy(struct umbra_memory *memory)
{
    um_os_unmap(memory->base, memory->mapped);
    free(memory->node);
}

/* ---- where pages are ---- */

/* The part of the node with this index, or -1. */
UM_LINKONCE UM_COLD int um_memory_part_on(const struct umbra_memory *memory, int node)
{
    for (unsigned k = 0; k < memory->parts; k++)
        if (memory->node[k] == node)
            return (int)k;
    return -1;
}

/* True if a page that begins at this offset was asked to be on `node`. */
UM_LINKONCE UM_COLD bool um_memory_is_placed(const struct umbra_memory *memory, size_t offset,
                                             int node)
{
    if (memory->part_bytes > 0)
        return memory->node[offset / memory->part_bytes] == node;
    return memory->parts == 0 || um_memory_part_on(memory, node) >= 0;
}

UM_LINKONCE int umbra_memory_report(const struct umbra_memory *memory,
                                    struct umbra_memory_report *report, int *nodes, size_t most)
{
    size_t page = um_os_page_bytes();
    struct umbra_memory_report seen = {.pages = (memory->bytes - 1) / page + 1};
    int *node = malloc(seen.pages * sizeof(*node));
    int error = node ? um_os_page_nodes(memory->at, seen.pages, node) : -ENOMEM;

    for (size_t i = 0; i < seen.pages && error == 0; i++) {
        seen.present += node[i] >= 0;
        seen.placed += node[i] >= 0 && um_memory_is_placed(memory, i * page, node[i]);
        if (nodes && i < most)
            nodes[i] = node[i];
    }
    free(node);
    if (error != 0)
        return um_why_none(error);
    seen.huge_bytes = um_os_huge_bytes(memory->at, memory->bytes);
    *report = seen;
    return 0;
}

/* ---- slices ---- */

/* True if parts and nodes are the same, so that each part has cores of its own. */
UM_LINKONCE UM_COLD bool um_memory_fits(const struct umbra_nodes *nodes,
                                        const struct umbra_memory *memory)
{
    if (memory->part_bytes == 0 || memory->parts != nodes->count)
        return false;
    for (unsigned i = 0; i < nodes->count; i++)
        if (um_memory_part_on(memory, nodes->node[i]) < 0)
            return false;
    return true;
}

/* Where the i-th of n equal slices of so many bytes begins, in whole units; of the n-th the end. */
UM_INLINE size_t um_slice_begin(size_t bytes, size_t unit, unsigned i, unsigned n)
{
    size_t units = (bytes - 1) / unit + 1;
    size_t at = (units / n * i + units % n * i / n) * unit;

    return at < bytes ? at : bytes;
}

UM_LINKONCE void umbra_memory_slice(const struct umbra_nodes *nodes,
                                    const struct umbra_memory *memory, unsigned core, size_t *begin,
                                    size_t *end)
{
    const struct umbra_rank *rank = &nodes->rank[core];
    bool touched = memory->place == UMBRA_MEMORY_TOUCHED && nodes->count > 1;
    size_t unit = touched ? um_os_page_bytes() : UMBRA_CACHE_LINE;
    size_t first = 0, bytes = memory->bytes;
    unsigned i = core, n = nodes->runtime->cores;

    if (um_memory_fits(nodes, memory)) {
        first = (size_t)um_memory_part_on(memory, nodes->node[rank->node]) * memory->part_bytes;
        first = first < bytes ? first : bytes;
        bytes = um_memory_left(memory, first, memory->part_bytes);
        i = rank->core;
        n = rank->cores;
    }
    *begin = first + (bytes > 0 ? um_slice_begin(bytes, unit, i, n) : 0);
    *end = first + (bytes > 0 ? um_slice_begin(bytes, unit, i + 1, n) : 0);
}

/* A first touch, and one core's part of it. */
struct um_touch {
    const struct umbra_nodes *nodes;
    const struct umbra_memory *memory;
    struct umbra_latch all;
};

struct um_touch_slice {
    struct um_touch *touch;
    unsigned core;
};

UM_LINKONCE UM_COLD void *um_memory_touch_slice(void *arg)
{
    struct um_touch_slice *slice = arg;
    struct um_touch *touch = slice->touch;
    size_t begin, end;

    umbra_memory_slice(touch->nodes, touch->memory, slice->core, &begin, &end);
    memset((char *)touch->memory->at + begin, 0, end - begin);
    umbra_latch_count_down(&touch->all);
    return NULL;
}

UM_LINKONCE int umbra_memory_touch(const struct umbra_nodes *nodes,
                                   const struct umbra_memory *memory)
{
    unsigned cores = nodes->runtime->cores, core = 0;
    struct um_touch touch = {.nodes = nodes, .memory = memory};
    struct um_touch_slice *slice;
    int error = um_may_wait(); /* the latch below is waited for whatever happens */

    if (error != 0)
        return error;
    slice = malloc(cores * sizeof(*slice));
    if (!slice)
        return um_why_none(-ENOMEM);
    touch.all = (struct umbra_latch)UMBRA_LATCH_INIT(cores);
    for (; core < cores && error == 0; core++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = core};

        slice[core] = (struct um_touch_slice){.touch = &touch, .core = core};
        error = umbra_spawn_with(nodes->runtime, &there, um_memory_touch_slice, &slice[core], NULL);
    }
    for (unsigned none = error == 0 ? cores : core - 1; none < cores; none++)
        umbra_latch_count_down(&touch.all);
    um_event_wait_firm(&touch.all.event, NULL, NULL, &um_kind_latch, &touch.all,
                       __builtin_return_address(0));
    free(slice);
    return um_why_none(error);
}

/* ---- buffers ---- */

/* Cuts another chunk into buffers, for an empty list. The list's owner. False: no memory. */
UM_LINKONCE UM_COLD bool um_buffer_grow(struct um_buffer_list *list)
{
    size_t stride = list->buffers->stride;
    size_t count = stride < UM_CHUNK_BYTES ? UM_CHUNK_BYTES / stride : 1;
    size_t bytes = UMBRA_CACHE_LINE + count * stride;
    struct um_buffer_chunk *chunk =
        um_place_alloc(list->buffers->runtime->topology, list->node, bytes);
    char *at;

    if (!chunk)
        return false;
    at = (char *)chunk + UMBRA_CACHE_LINE;
    *chunk = (struct um_buffer_chunk){.next = list->chunks, .bytes = bytes};
    list->chunks = chunk;
    for (size_t i = count; i-- > 0;) {
        struct um_node *node = (struct um_node *)(void *)(at + i * stride);

        memset(node, 0, sizeof(*node));
        node->arg = list;
        node->next = list->first;
        list->first = node;
    }
    return true;
}

/* Takes a buffer when the list is empty: puts what was given back elsewhere into it, or grows it. The
 * list's owner. NULL: no memory. */
UM_LINKONCE void *um_buffer_take_slow(struct um_buffer_list *list)
{
    struct um_node *node = NULL, *next;

    if (um_atomic_load(&list->returned, relaxed) != 0) /* a hint; the take orders */
        node = um_inbox_take(&list->returned);
    for (; node; node = next) {
        next = um_inbox_next(node);
        node->next = list->first;
        list->first = node;
    }
    if (!list->first && !um_buffer_grow(list))
        return NULL;
    node = list->first;
    list->first = node->next;
    return um_buffer_of_node(node);
}

/* Takes a buffer for a thread that is no core of the runtime. */
UM_LINKONCE void *um_buffer_take_outside(struct umbra_buffers *buffers)
{
    struct um_buffer_list *list = buffers->list[buffers->runtime->cores];
    void *buffer;

    um_lock_take(&list->lock);
    if (list->first) {
        buffer = um_buffer_of_node(list->first);
        list->first = list->first->next;
    } else {
        buffer = um_buffer_take_slow(list);
    }
    um_lock_release(&list->lock);
    return buffer;
}

UM_LINKONCE UM_NOINLINE void um_buffer_check_give(void *buffer)
{
    struct um_node *node = um_buffer_node(buffer);

    if (node->flags != UM_BUFFER_TAKEN)
        um_misused("buffer", buffer, " is not taken, and is given back",
                   __builtin_return_address(0));
    node->flags = 0;
}

/* Makes list number i. 0 or -ENOMEM. */
UM_LINKONCE UM_COLD int um_buffer_list_make(struct umbra_buffers *buffers, unsigned i)
{
    struct umbra_runtime *runtime = buffers->runtime;
    struct umbra_core *core = i < runtime->cores ? runtime->core[i] : NULL;
    int node = core ? um_place_node(runtime->topology, core->cpu) : -1;
    struct um_buffer_list *list = um_place_alloc(runtime->topology, node, sizeof(*list));

    if (!list)
        return -ENOMEM;
    memset(list, 0, sizeof(*list));
    list->buffers = buffers;
    list->core = core;
    list->node = node;
    buffers->list[i] = list;
    return 0;
}

UM_LINKONCE int umbra_buffers_create(struct umbra_runtime *runtime, size_t bytes,
                                     struct umbra_buffers **result)
{
    size_t whole = um_place_round(bytes, UMBRA_CACHE_LINE);
    struct umbra_buffers *buffers;
    size_t lists;
    int error = 0;

    if (!runtime)
        runtime = um_runtime_self();
    if (!runtime)
        return um_why(-EPERM, "the caller is no fiber, and names no runtime");
    if (bytes == 0)
        return um_why(-EINVAL, "bytes = 0");
    if (whole == 0 || whole > SIZE_MAX - UM_CHUNK_BYTES)
        return um_why_none(-ENOMEM);
    lists = (size_t)runtime->cores + 1;
    buffers = calloc(1, sizeof(*buffers) + lists * sizeof(buffers->list[0]));
    if (!buffers)
        return um_why_none(-ENOMEM);
    buffers->runtime = runtime;
    buffers->stride = UMBRA_CACHE_LINE + whole;
    for (unsigned i = 0; i < lists && error == 0; i++)
        error = um_buffer_list_make(buffers, i);
    if (error != 0)
        umbra_buffers_destroy(buffers);
    else
        *result = buffers;
    return um_why_none(error);
}

UM_LINKONCE void umbra_buffers_destroy(struct umbra_buffers *buffers)
{
    const struct umbra_topology *topology;

    if (!buffers)
        return;
    topology = buffers->runtime->topology;
    for (unsigned i = 0; i <= buffers->runtime->cores && buffers->list[i]; i++) {
        struct um_buffer_chunk *chunk = buffers->list[i]->chunks;

        while (chunk) {
            struct um_buffer_chunk *next = chunk->next;

            um_place_free(topology, chunk, chunk->bytes);
            chunk = next;
        }
        um_place_free(topology, buffers->list[i], sizeof(*buffers->list[i]));
    }
    free(buffers);
}

/* ---- nodes ---- */

/* Fills in ranks and nodes, in the order of the cores. */
UM_LINKONCE UM_COLD void um_nodes_rank(struct umbra_nodes *nodes)
{
    struct umbra_runtime *runtime = nodes->runtime;

    for (unsigned i = 0; i < runtime->cores; i++) {
        int node = um_place_node(runtime->topology, runtime->core[i]->cpu);
        struct umbra_rank *rank = &nodes->rank[i];

        while (rank->node < nodes->count && nodes->node[rank->node] != node)
            rank->node++;
        if (rank->node == nodes->count)
            nodes->node[nodes->count++] = node;
        for (unsigned j = 0; j < i; j++)
            rank->core += nodes->rank[j].node == rank->node;
    }
    for (unsigned i = 0; i < runtime->cores; i++)
        for (unsigned j = 0; j < runtime->cores; j++)
            nodes->rank[i].cores += nodes->rank[j].node == nodes->rank[i].node;
}

/* Makes what each node's cores share. 0 or -ENOMEM. */
UM_LINKONCE UM_COLD int um_nodes_share(struct umbra_nodes *nodes)
{
    for (unsigned k = 0; k < nodes->count; k++) {
        struct um_node_of *of = um_place_alloc(nodes->topology, nodes->node[k], sizeof(*of));
        uint32_t parties = 0;

        if (!of)
            return -ENOMEM;
        memset(of, 0, sizeof(*of));
        for (unsigned i = 0; i < nodes->runtime->cores; i++)
            parties += nodes->rank[i].node == k;
        of->barrier = (struct umbra_barrier)UMBRA_BARRIER_INIT(parties);
        nodes->of[k] = of;
    }
    return 0;
}

UM_LINKONCE int umbra_nodes_create(struct umbra_runtime *runtime, struct umbra_nodes **result)
{
    struct umbra_nodes *nodes;
    int error;

    if (!runtime)
        runtime = um_runtime_self();
    if (!runtime)
        return um_why(-EPERM, "the caller is no fiber, and names no runtime");
    nodes = calloc(1, sizeof(*nodes));
    if (!nodes)
        return um_why_none(-ENOMEM);
    nodes->runtime = runtime;
    nodes->topology = runtime->topology;
    nodes->node = calloc(runtime->cores, sizeof(*nodes->node));
    nodes->rank = calloc(runtime->cores, sizeof(*nodes->rank));
    nodes->of = calloc(runtime->cores, sizeof(struct um_node_of *));
    error = nodes->node && nodes->rank && nodes->of ? 0 : -ENOMEM;
    if (error == 0) {
        um_nodes_rank(nodes);
        error = um_nodes_share(nodes);
    }
    if (error != 0)
        umbra_nodes_destroy(nodes);
    else
        *result = nodes;
    return um_why_none(error);
}

UM_LINKONCE void umbra_nodes_destroy(struct umbra_nodes *nodes)
{
    if (!nodes)
        return;
    for (unsigned k = 0; k < nodes->count; k++)
        um_place_free(nodes->topology, nodes->of[k], sizeof(*nodes->of[k]));
    free(nodes->of);
    free(nodes->rank);
    free(nodes->node);
    free(nodes);
}

UM_LINKONCE int umbra_nodes_wait(struct umbra_nodes *nodes)
{
    const struct umbra_core *core = um_core_self;

    if (!core || core->runtime != nodes->runtime)
        return um_why(-EPERM, "the caller is no fiber of the nodes' runtime");
    return umbra_barrier_wait(&nodes->of[nodes->rank[core->index].node]->barrier, UMBRA_NEVER);
}

UM_LINKONCE int umbra_nodes_loop(struct umbra_nodes *nodes, unsigned node, size_t begin, size_t end,
                                 size_t grain)
{
    if (node >= nodes->count)
        return um_why(-EINVAL, "node = %u: there are %u", node, nodes->count);
    um_node_loop_set(&nodes->of[node]->loop, begin, end, grain);
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
