/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/stack.h: slabs of stacks, their guards, and how much of a stack has been
 * used. Private; included by that header, after its declarations.
 */
#ifndef UMBRA_STACK_SLABS_H
#define UMBRA_STACK_SLABS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/os/os.h>
#include <umbra/topology.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_SHARED(struct um_slabs um_slabs, {.lock = PTHREAD_MUTEX_INITIALIZER, .guard = UM_GUARD_UNKNOWN});

/* Rounded up to whole pages. */
UM_INLINE size_t um_stack_round(size_t bytes)
{
    return um_place_round(bytes, um_os_page_bytes());
}

#define UM_GUARD_LEAST_BYTES 65536

/* The size of the guard below a stack of so many bytes, which are whole pages. */
UM_INLINE size_t um_guard_bytes(size_t stack_bytes)
{
    size_t page = um_os_page_bytes();
    size_t guard = um_stack_round(UM_GUARD_LEAST_BYTES);

    return (stack_bytes + guard) / page % 2 == 1 ? guard : guard + page;
}

/* Distances of a stack's top from the end of its slot, within 1 KiB: sets of an L1 of any size. */
#define UM_STACK_COLOURS 16

/* The distance of a stack's top from the end of its slot, bytes: a multiple of 64. */
UM_INLINE size_t um_stack_colour(unsigned slot)
{
    return slot % UM_STACK_COLOURS * (size_t)64;
}

UM_LINKONCE UM_COLD enum um_guard um_guard_find(void);

/* How guards are made in this process, if the system does not refuse it for certain memory;
 * UM_GUARD_UNKNOWN: there was no memory to find it out. */
UM_INLINE enum um_guard um_guard_kind(void)
{
    /* relaxed, both: a constant that guards nothing; threads that race find the same value */
    uint32_t kind = um_atomic_load(&um_slabs.guard, relaxed);

    if (UM_UNLIKELY(kind == UM_GUARD_UNKNOWN)) {
        kind = (uint32_t)um_guard_find();
        um_atomic_store(&um_slabs.guard, kind, relaxed);
    }
    return (enum um_guard)kind;
}

UM_LINKONCE UM_COLD int um_guard_otherwise(void *at, size_t bytes, enum um_guard refused);

/* ---- slabs ---- */

UM_INLINE char *um_slab_low(const struct um_slab *slab, unsigned slot)
{
    return slab->base + slot * slab->slot_bytes + slab->guard_bytes;
}

UM_INLINE char *um_slab_high(const struct um_slab *slab, unsigned slot)
{
    return slab->base + (slot + (size_t)1) * slab->slot_bytes;
}

/* Makes a slot's guard, before its stack is used for the first time. One thread for each slot.
 * Returns 0, or -ENOMEM: neither kind of guard can be made, or, by protection, there are too many
 * mappings. */
UM_INLINE int um_slab_open(struct um_slab *slab, unsigned slot)
{
    char *at = um_slab_low(slab, slot) - slab->guard_bytes;
    enum um_guard kind = um_guard_kind();

    if (UM_LIKELY(kind != UM_GUARD_UNKNOWN && um_os_guard(at, slab->guard_bytes, (int)kind) == 0))
        return 0;
    return um_guard_otherwise(at, slab->guard_bytes, kind);
}

UM_LINKONCE UM_COLD int um_slab_create(const struct umbra_topology *topology, int node,
                                       size_t stack_bytes, unsigned slots, struct um_slab **result);
UM_LINKONCE UM_COLD void um_slab_destroy(struct um_slab *slab);
UM_LINKONCE UM_COLD bool um_slab_find(const void *address, char *text, size_t bytes,
                                      size_t *stack_bytes);
UM_LINKONCE UM_COLD UM_UNCHECKED long um_stack_used_bytes(const void *low, const void *high);

#ifdef UMBRA_IMPLEMENTATION

UM_LINKONCE UM_COLD size_t um_stack_least_bytes(void)
{
    return um_stack_round(UM_STACK_LEAST_BYTES + um_os_least_stack());
}

/* ---- guards ---- */

/* True if the kernel follows the advice: tried on a page mapped for that. */
UM_LINKONCE UM_COLD bool um_guard_advice_works(void)
{
    size_t page = um_os_page_bytes();
    void *trial = um_os_map(page);
    bool works;

    if (!trial)
        return false;
    works = um_os_guard(trial, page, UM_GUARD_ADVICE) == 0 && um_os_faults(trial);
    um_os_unmap(trial, page);
    return works;
}

UM_LINKONCE UM_COLD enum um_guard um_guard_find(void)
{
    const char *forced = getenv("UMBRA_GUARD"); /* see um_guard_check() */
    void *trial;
    bool protects;

    if (forced && strcmp(forced, "none") == 0)
        return UM_GUARD_NONE;
    if (!(forced && strcmp(forced, "protection") == 0) && um_guard_advice_works())
        return UM_GUARD_ADVICE;
    trial = um_os_map(um_os_page_bytes());
    if (!trial)
        return UM_GUARD_UNKNOWN; /* the next caller tries again */
    protects = um_os_guard(trial, um_os_page_bytes(), UM_GUARD_PROTECTION) == 0;
    um_os_unmap(trial, um_os_page_bytes());
    return protects ? UM_GUARD_PROTECTION : UM_GUARD_NONE;
}

/* Makes a guard where the system refuses the kind that um_guard_find() has found: in memory that is
 * locked (mlockall(2)), or since a filter was set (seccomp(2)). But no stack is left without a guard
 * because there are too many mappings. 0 or -ENOMEM. */
UM_LINKONCE UM_COLD int um_guard_otherwise(void *at, size_t bytes, enum um_guard refused)
{
    enum um_guard other = UM_GUARD_PROTECTION;

    if (refused == UM_GUARD_PROTECTION)
        other = um_guard_find() == UM_GUARD_ADVICE ? UM_GUARD_ADVICE : UM_GUARD_UNKNOWN;
    return refused != UM_GUARD_UNKNOWN && other != UM_GUARD_UNKNOWN &&
                   um_os_guard(at, bytes, (int)other) == 0
               ? 0
               : -ENOMEM;
}

/* Returns 0, or -EINVAL: UMBRA_GUARD names no kind of guard. */
UM_LINKONCE UM_COLD int um_guard_check(void)
{
    const char *forced = getenv("UMBRA_GUARD");

    if (!forced || !*forced || strcmp(forced, "advice") == 0 || strcmp(forced, "protection") == 0 ||
        strcmp(forced, "none") == 0)
        return 0;
    return um_why(-EINVAL, "UMBRA_GUARD=%.60s: unknown; there are advice, protection, none",
                  forced);
}

/*
 * Makes a slab of so many stacks of at least so many bytes, on a NUMA node (-1: any). Any thread.
 * Returns 0 or -ENOMEM. The caller sets owner, next and describe before it opens a slot.
 */
UM_LINKONCE UM_COLD int um_slab_create(const struct umbra_topology *topology, int node,
                                       size_t stack_bytes, unsigned slots, struct um_slab **result)
{
    struct um_slab *slab = calloc(1, sizeof(*slab));

    if (!slab)
        return -ENOMEM;
    stack_bytes = um_stack_round(stack_bytes);
    slab->guard_bytes = um_guard_bytes(stack_bytes);
    slab->slot_bytes = slab->guard_bytes + stack_bytes;
    slab->slots = slots;
    if (slots <= SIZE_MAX / 2 / slab->slot_bytes)
        slab->base = um_os_map(slots * slab->slot_bytes);
    if (!slab->base) {
        free(slab);
        return -ENOMEM;
    }
    um_place_bind(topology, slab->base, slots * slab->slot_bytes, node);
    pthread_mutex_lock(&um_slabs.lock);
    /* relaxed load: under the lock. release store: the slab; pairs with um_slab_find() */
    um_atomic_store(&slab->listed, um_atomic_load(&um_slabs.first, relaxed), relaxed);
    um_atomic_store(&um_slabs.first, slab, release);
    pthread_mutex_unlock(&um_slabs.lock);
    *result = slab;
    return 0;
}

/* Frees a slab. No context may be on its stacks. Any thread; waits for handlers that look at it. */
UM_LINKONCE UM_COLD void um_slab_destroy(struct um_slab *slab)
{
    um_atomic_ptr(struct um_slab) *link = &um_slabs.first;

    pthread_mutex_lock(&um_slabs.lock);
    while (um_atomic_load(link, relaxed) != slab) /* under the lock */
        link = &um_atomic_load(link, relaxed)->listed;
    /* seq_cst: out of the list before `looking` is read; pairs with um_slab_find() */
    um_atomic_store(link, um_atomic_load(&slab->listed, relaxed), seq_cst);
    pthread_mutex_unlock(&um_slabs.lock);
    while (um_atomic_load(&um_slabs.looking, seq_cst) > 0)
        ; /* a handler looks at a fault: microseconds */
    um_os_unmap(slab->base, slab->slots * slab->slot_bytes);
    free(slab);
}

/*
 * If an address is in a guard: describes what is on the stack above it, and returns true. Any
 * thread, also in a signal handler.
 */
UM_LINKONCE UM_COLD bool um_slab_find(const void *address, char *text, size_t bytes,
                                      size_t *stack_bytes)
{
    const struct um_slab *slab;
    bool found = false;

    um_atomic_fetch_add(&um_slabs.looking, 1, seq_cst); /* before the list is read, and */
    slab = um_atomic_load(&um_slabs.first, seq_cst);    /* this; pair with um_slab_destroy() */
    for (; slab && !found; slab = um_atomic_load(&slab->listed, acquire)) {
        uintptr_t offset = (uintptr_t)address - (uintptr_t)slab->base;

        if (offset >= slab->slots * slab->slot_bytes ||
            offset % slab->slot_bytes >= slab->guard_bytes)
            continue;
        found = true;
        *stack_bytes = slab->slot_bytes - slab->guard_bytes;
        if (slab->describe)
            slab->describe(slab, (unsigned)(offset / slab->slot_bytes), text, bytes);
    }
    um_atomic_fetch_add(&um_slabs.looking, UINT32_MAX, seq_cst);
    return found;
}

/*
 * How much of a stack has been used, bytes: from its high end down to the lowest byte that is not
 * 0. Pages that are not in memory are skipped and stay untouched; pages below them may be in
 * memory, if a function did not touch a part of its frame. A fiber that runs may use more by now.
 */
UM_LINKONCE UM_COLD UM_UNCHECKED long um_stack_used_bytes(const void *low, const void *high)
{
    const volatile char *at = low;
    const volatile char *end = high;
    uintptr_t page = um_os_page_bytes();

    while (at < end) {
        if ((uintptr_t)at % page == 0 && !um_os_resident((const void *)at))
            at += page;
        else if (*at == 0)
            at++;
        else
            return (long)(end - at);
    }
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
