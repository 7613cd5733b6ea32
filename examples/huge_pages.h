/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Memory for large arrays, on huge pages where the system has them to give: a processor remembers
 * the places of fewer small pages than such an array has, and in what part of its caches each of
 * them lies is up to chance. The includer defines _DEFAULT_SOURCE, or _GNU_SOURCE.
 */
#ifndef EXAMPLES_HUGE_PAGES_H
#define EXAMPLES_HUGE_PAGES_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20) /* of most processors; where it is not, nothing is lost */
#define SMALL_ALIGNMENT 64

/* At least so many bytes, from a cache line's beginning, to be freed with free(); or NULL. */
static inline void *huge_pages_alloc(size_t bytes)
{
    size_t alignment = bytes < HUGE_PAGE_BYTES ? SMALL_ALIGNMENT : HUGE_PAGE_BYTES;
    void *memory;

    if (bytes > SIZE_MAX - HUGE_PAGE_BYTES)
        return NULL;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    memory = aligned_alloc(alignment, bytes);
#ifdef MADV_HUGEPAGE
    if (memory && alignment == HUGE_PAGE_BYTES)
        (void)madvise(memory, bytes, MADV_HUGEPAGE); /* if it cannot be had, no harm */
#endif
    return memory;
}

#endif
