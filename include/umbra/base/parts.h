/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How long a part of a range should be where the user has not set a length. Private. The worker
 * that has executed a part calls this; no state is shared.
 */
#ifndef UMBRA_BASE_PARTS_H
#define UMBRA_BASE_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* The number of indices in the next part, after a part of `part` indices took `took` cycles and
 * should have taken `wanted`. A part that was too short doubles; one that took more than 4 times as
 * long as wanted shrinks to its right length at once; at least 1. */
UM_INLINE size_t um_part_after(size_t part, uint64_t took, uint64_t wanted)
{
    if (took < wanted && part < SIZE_MAX / 2)
        return 2 * part;
    if (took > 4 * wanted)
        part /= took / (wanted + 1); /* + 1: on a slow clock `wanted` may be 0 */
    return part > 0 ? part : 1;
}

#endif
