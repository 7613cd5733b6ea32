/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How long a part of a range should be where nobody has said it. Private.
 */
#ifndef UMBRA_BASE_PARTS_H
#define UMBRA_BASE_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* Indices in the next part, after one of `part` took so many cycles and should have taken `wanted`. It
 * grows step by step, and becomes as short as it must at once. */
UM_INLINE size_t um_part_after(size_t part, uint64_t took, uint64_t wanted)
{
    if (took < wanted && part < SIZE_MAX / 2)
        return 2 * part;
    if (took > 4 * wanted)
        part /= took / (wanted + 1); /* which a slow clock may make 0 */
    return part > 0 ? part : 1;
}

#endif
