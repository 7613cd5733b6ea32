/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Memory for the library's own structures, on the NUMA node of the core that uses them. Private.
 *
 * On a machine with one node, or where memory cannot be bound, this is the C library's allocation
 * and costs nothing more: the thread that first touches a page decides where the page is. With more
 * nodes each block has pages of its own, which are bound. If the system refuses (a container, a
 * control group) the block is used all the same.
 *
 * Any thread; a call may block in the kernel, and never switches fibers. No signal handler.
 */
#ifndef UMBRA_TOPOLOGY_NEAR_MEMORY_H
#define UMBRA_TOPOLOGY_NEAR_MEMORY_H

#include <stdlib.h>

#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/os/os.h>
#include <umbra/topology/hwloc.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* Rounded up to a multiple of unit, a power of two; 0: that is too large. */
UM_INLINE size_t um_place_round(size_t bytes, size_t unit)
{
    return bytes <= SIZE_MAX - unit ? (bytes + unit - 1) & ~(unit - 1) : 0;
}

#ifdef UMBRA_IMPLEMENTATION

/* True if blocks are bound. */
UM_LINKONCE UM_COLD bool um_place_binds(const struct umbra_topology *topology)
{
    return um_topology_memories(topology) > 1;
}

/* Binds fresh pages to a node, if there is more than one; -1: to none. Best effort. */
UM_LINKONCE UM_COLD void um_place_bind(const struct umbra_topology *topology, void *at,
                                       size_t bytes, int node)
{
    if (um_place_binds(topology) && um_topology_has_node(topology, node))
        um_topology_bind_memory(topology, at, bytes, &node, 1);
}

/* The node of a processor, -1: not known. */
UM_LINKONCE UM_COLD int um_place_node(const struct umbra_topology *topology, int cpu)
{
    const struct umbra_topology_cpu *found = umbra_topology_cpu_of(topology, cpu);

    return found ? found->node : -1;
}

/* A block that begins a cache line, on a node; its contents are undefined. NULL: no memory. */
UM_LINKONCE UM_COLD void *um_place_alloc(const struct umbra_topology *topology, int node,
                                         size_t bytes)
{
    size_t whole = um_place_round(bytes, UMBRA_CACHE_LINE);
    void *at;

    if (whole == 0)
        return NULL;
    if (!um_place_binds(topology))
        return aligned_alloc(UMBRA_CACHE_LINE, whole);
    at = um_os_map(whole);
    if (at)
        um_place_bind(topology, at, whole, node);
    return at;
}

/* Frees a block of so many bytes; NULL is allowed. */
UM_LINKONCE UM_COLD void um_place_free(const struct umbra_topology *topology, void *at,
                                       size_t bytes)
{
    if (at && um_place_binds(topology))
        um_os_unmap(at, um_place_round(bytes, UMBRA_CACHE_LINE));
    else
        free(at);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
