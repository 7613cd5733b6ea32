/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Where the large arrays lie. A graph is divided into parts, one a NUMA node, and a part's arrays are
 * to lie on its node. This is the only place that decides it: on huge pages where they can be had, and
 * each page on the node of the thread that writes to it first. So the members of a part write to its
 * arrays before others do.
 */
#ifndef BFS_PLACED_H
#define BFS_PLACED_H

#include <stddef.h>
#include <stdlib.h>

#include "../huge_pages.h"

/* So many bytes for a part of a graph, not touched yet; or NULL. To be freed by placed_free(). */
static inline void *placed_alloc(size_t bytes, unsigned part)
{
    (void)part; /* its members touch it first */
    return huge_pages_alloc(bytes ? bytes : 1);
}

static inline void placed_free(void *memory)
{
    free(memory);
}

#endif
