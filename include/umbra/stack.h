/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stacks of fibers: slices of large mappings, each above a guard that faults. Private to the
 * library.
 *
 *     slab:  | guard | stack ........ | guard | stack ........ | ...     low addresses to high
 *
 * A slab is one mapping, so that a million stacks do not need a million mappings. A guard is made
 * when its slot is first used: by an advice that lives in the page tables (Linux 6.13), if a test
 * shows that the kernel follows it; else by protecting the pages. Protection splits the mapping, so
 * that vm.max_map_count (65,530) allows some 32,000 stacks. UMBRA_GUARD in the environment prefers
 * "advice", or forces "protection" or "none". The kernel refuses the advice in locked memory
 * (mlockall(2)): pages there are protected.
 *
 * A guard is 64 KiB or more: a function with a frame of up to that size cannot step over it. A
 * larger frame can, unless its function touches every page on the way (-fstack-clash-protection).
 *
 * Guards and unused stack are address space, not memory, except for a page-table entry of eight
 * bytes a page. A slot is an odd number of pages: if the tops of stacks were a multiple of many
 * pages apart, they would share a few sets of the TLB.
 *
 * Memory is used only for pages that a fiber has touched, and lies on the slab's NUMA node.
 *
 * Any thread may make and destroy slabs; one thread at a time opens a given slot. Signal handlers
 * may look up a slab (um_slab_find).
 */
#ifndef UMBRA_STACK_H
#define UMBRA_STACK_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/topology.h>

struct um_slab {
    char *base; /* fixed after um_slab_create, as all but next and listed */
    size_t guard_bytes;
    size_t slot_bytes; /* guard and stack */
    unsigned slots;
    void *owner;          /* for the caller of um_slab_create */
    struct um_slab *next; /* for the caller of um_slab_create */
    /* writes what is on a slot's stack, for the report of an overflow; NULL: not known */
    void (*describe)(const struct um_slab *slab, unsigned slot, char *text, size_t bytes);
    um_atomic_ptr(
        struct um_slab) listed; /* next in um_slabs; written under its lock, handlers read */
};

/* All slabs, for the handler of a fault in a guard. */
struct um_slabs {
    pthread_mutex_t lock;
    um_atomic_ptr(struct um_slab) first;
    um_atomic_u32 looking; /* handlers that walk the list: no slab may be freed meanwhile */
    um_atomic_u32 guard;   /* enum um_guard, found out once */
    unsigned runtimes;     /* how many there are; overflows are reported if any; under lock */
};

/* The smallest stack that a fiber can have, bytes: a signal handler's frame must also fit. Any
 * thread or fiber; never blocks. */
UM_LINKONCE size_t um_stack_least_bytes(void);

/* ---- sizes ---- */

#define UM_STACK_LEAST_BYTES 8192 /* besides a signal's frame */
#define UM_STACK_MOST_BYTES ((size_t)1 << 50) /* the largest size class (fiber/pool.h) */

#include <umbra/stack/overflow.h>
#include <umbra/stack/slabs.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#endif
