/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How long a part of a range should be where nobody has said it. Private.
 */
#ifndef UMBRA_DETAIL_PARTS_H
#define UMBRA_DETAIL_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include <umbra/detail/base.h>

#define UM_PART_NS 1000 /* what a part should take: far more than what is done between two */

/* Indices in the next part, after one of `part` took so many cycles and should have taken `wanted`. */
UM_INLINE size_t um_part_after(size_t part, uint64_t took, uint64_t wanted)
{
    if (took < wanted && part < SIZE_MAX / 2)
        return 2 * part;
    return took > 4 * wanted && part > 1 ? part / 2 : part;
}

#endif
