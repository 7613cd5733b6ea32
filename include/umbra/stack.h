/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stacks: slices of large mappings, each above a guard that faults. Private to the library.
 *
 *     slab:  | guard | stack ........ | guard | stack ........ | ...     low addresses to high
 *
 * A slab is one mapping, so that a million stacks do not need a million of them. Guards are made
 * when a slot is first used, by an advice that lives in the page tables (Linux 6.13), where the
 * kernel can be shown to heed it; else by protecting the pages, which splits the mapping, so that
 * vm.max_map_count (65,530) allows some 32,000 stacks. UMBRA_GUARD in the environment prefers
 * "advice", or forces "protection" or "none".
 *
 * A guard is 64 KiB or more: a function whose frame is not larger cannot step over it. A larger frame
 * can, unless its function touches every page on the way (-fstack-clash-protection).
 *
 * Guards and unused stack are address space, not memory, but for a page-table entry of eight bytes a
 * page. A slot is an odd number of pages: tops of stacks that were a multiple of many pages apart would
 * share a few sets of the TLB.
 *
 * Pages are touched when they are used, and lie on the slab's NUMA node.
 */
#ifndef UMBRA_STACK_H
#define UMBRA_STACK_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/topology.h>

struct um_slab {
    char *base; /* fixed, as all but next */
    size_t guard_bytes;
    size_t slot_bytes; /* guard and stack */
    unsigned slots;
    void *owner;          /* its maker's */
    struct um_slab *next; /* its maker's */
    /* writes what is on a slot's stack, for the report of an overflow; NULL: nobody knows */
    void (*describe)(const struct um_slab *slab, unsigned slot, char *text, size_t bytes);
    _Atomic(struct um_slab *) listed; /* next in um_slabs; under its lock, handlers read */
};

/* All slabs, for the handler of a fault in a guard. */
struct um_slabs {
    pthread_mutex_t lock;
    _Atomic(struct um_slab *) first;
    um_atomic_u32 looking; /* handlers that walk the list: none may be freed meanwhile */
    um_atomic_u32 guard;   /* enum um_guard, found out once */
    unsigned runtimes;     /* whose overflows are reported; under lock */
};

/* The smallest stack that a fiber can have, bytes: it must also hold a signal handler's frame. */
UM_LINKONCE size_t umbra_stack_least_bytes(void);

/* ---- sizes ---- */

#define UM_STACK_LEAST_BYTES 8192 /* besides a signal's frame */
#define UM_STACK_MOST_BYTES (SIZE_MAX / 4)

#include <umbra/impl/stack.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#endif
