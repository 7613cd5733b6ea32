/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The entries that clang's code calls, __kmpc_..., in terms of those that gcc's calls, so that code of
 * both meets in one region. Private. Most have the place in the source and the thread's number as their
 * first arguments, which say nothing that the member does not know.
 *
 *   kmpc.c         regions: the program's function gets each captured variable as an argument. Static loops:
 *                  the program divides them, with what ..._static_init() says. Dynamic ones: as gcc's
 *   kmpc_task.c    tasks: the program asks for a task's memory, fills it, and hands it back
 *   kmpc_data.c    threadprivate, memory, and functions with other names
 */
#ifndef UMBRA_OMP_KMPC_H
#define UMBRA_OMP_KMPC_H

#include "api.h"
#include "library.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of most entries few say something */

#define UM_SOURCE void *source, int32_t thread

/* What members share: memory that the first one makes, and the last one frees. */
struct um_omp_block {
    um_atomic_u64 left; /* members that have left it */
};

/* Members come to a block of so many bytes together, zeroed. */
UM_HIDE struct um_omp_block *um_omp_block_enter(struct um_omp_member *self, size_t bytes);

/* True in the last member, which frees it. acq_rel: what members did to it; pairs with itself */
UM_INLINE bool um_omp_block_leave(const struct um_omp_member *self, struct um_omp_block *block)
{
    return um_atomic_fetch_add(&block->left, 1, acq_rel) + 1 == self->team->members;
}

#endif
