/* SPDX-License-Identifier: BSL-1.0 */
/* A shortest path, from the distances. */
#ifndef APSP_PATH_H
#define APSP_PATH_H

#include "blocks.h"

/*
 * The vertices of a shortest path, ends included, with as few edges as any has; none (*count is 0)
 * if there is no path. *vertex is the caller's to free. 0 or -ENOMEM.
 */
int path_find(const struct graph *graph, const struct blocks *distances, size_t from, size_t to,
              size_t **vertex, size_t *count);

#endif
