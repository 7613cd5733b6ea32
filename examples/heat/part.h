/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The part of a body that an MPI rank has, in memory of its own: some planes, and a copy of its
 * neighbours' nearest ones that is sent anew at each step. All functions are for all ranks at once.
 */
#ifndef HEAT_PART_H
#define HEAT_PART_H

#include "variants.h"

struct part {
    struct body body;
    int below, above; /* ranks, or MPI_PROC_NULL */
};

/* Of a body of so many nodes, with a plane for each rank at least. As body_create(). */
int part_create(struct part *part, const size_t nodes[3]);

/* The steps, from array 0 on; all ranks together. The milliseconds they took; of the setting, only
 * what is called at the moments, on each rank, is looked at besides. */
double part_steps_ms(struct part *part, const struct setting *setting);

#endif
