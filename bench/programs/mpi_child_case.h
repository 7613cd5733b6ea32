/* SPDX-License-Identifier: BSL-1.0 */
/* One problem of the kernel mpi-child, and how it is told to the MPI program that measures. */
#ifndef UMBRA_BENCH_MPI_CHILD_CASE_H
#define UMBRA_BENCH_MPI_CHILD_CASE_H

#include <stdint.h>

enum mpi_child_way {
    WAY_CHILD,   /* spawn, a number to each child and back, disconnect; an iteration is one child */
    WAY_MESSAGE, /* a round trip with one child: two messages */
    WAY_COPY     /* as many bytes from one buffer to another, by memcpy, and back, by another thread
                    if there are several processors */
};

struct mpi_child_case {
    enum mpi_child_way way;
    uint32_t bytes; /* of a message */
    uint32_t live;  /* children that one call spawns */
};

#define MPI_CHILD_MOST_BYTES (1u << 20)

/* The problem of child_channel.h, there and back. */
static inline uint64_t mpi_child_case_pack(const struct mpi_child_case *what)
{
    return (uint64_t)what->way | (uint64_t)what->bytes << 8 | (uint64_t)what->live << 40;
}

static inline struct mpi_child_case mpi_child_case_unpack(uint64_t problem)
{
    struct mpi_child_case what;

    what.way = (enum mpi_child_way)(problem & 0xff);
    what.bytes = (uint32_t)(problem >> 8);
    what.live = (uint32_t)(problem >> 40);
    return what;
}

#endif
