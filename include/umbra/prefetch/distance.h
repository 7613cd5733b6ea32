/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The body of umbra/prefetch.h that waits: how the helper keeps its distance.
 * Private; included by that header, after its declarations.
 */
#ifndef UMBRA_PREFETCH_DISTANCE_H
#define UMBRA_PREFETCH_DISTANCE_H

#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/prefetch/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* Helper: looks at the leader's place until *item, perhaps moved on, is not too far ahead. False
 * when the leader is done. place: NULL if there is no chain. */
UM_LINKONCE UM_COLD bool um_prefetch_look(struct umbra_prefetch *prefetch, uint64_t *item,
                                          uintptr_t *place);

#ifdef UMBRA_IMPLEMENTATION

UM_LINKONCE UM_COLD bool um_prefetch_look(struct umbra_prefetch *prefetch, uint64_t *item,
                                          uintptr_t *place)
{
    for (;;) {
        uint64_t before = *item;
        enum um_prefetch_pair found =
            um_prefetch_pair_look(&prefetch->leader, &prefetch->helper, item, place);

        prefetch->stats.looks++;
        prefetch->stats.skips += *item != before;
        prefetch->stats.skipped += *item - before;
        if (found != UM_PREFETCH_PAIR_WAIT)
            return found == UM_PREFETCH_PAIR_GO;
        prefetch->stats.waits++;
        umbra_pause();
    }
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
