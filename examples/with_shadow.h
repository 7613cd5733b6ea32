/* SPDX-License-Identifier: BSL-1.0 */
/* What the programs share that have one shadow, where the topology places it. See program.h. */
#ifndef EXAMPLES_WITH_SHADOW_H
#define EXAMPLES_WITH_SHADOW_H

#include "program.h"

#include <umbra/shadow.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define UNKNOWN_CACHE_MIB 32 /* taken for a last-level cache of unknown size */

/* Bytes of the last-level cache that the cpu sees. */
static inline size_t last_level_cache(const struct umbra_topology *topology, int cpu)
{
    const struct umbra_topology_cpu *place = umbra_topology_cpu_of(topology, cpu);

    if (place && place->l3_bytes)
        return place->l3_bytes;
    return place && place->l2_bytes ? place->l2_bytes : UNKNOWN_CACHE_MIB * MIB;
}

/* Says why there is no shadow; an exit status. */
static inline int no_shadow(int error)
{
    const char *forced = getenv("UMBRA_WAIT");

    if (forced && (error == -EINVAL || error == -EOPNOTSUPP))
        refuse(forced, "UMBRA_WAIT cannot be used here");
    fprintf(stderr, "%s: no shadow: %s\n", program_name, umbra_last_error_text());
    return error == -ENODEV ? 77 : 1;
}

/* Calls run() with a shadow of the caller's; gives its exit status. */
static inline int with_shadow(int (*run)(struct umbra_shadow *shadow,
                                         const struct umbra_topology *topology,
                                         const void *options),
                              const void *options)
{
    struct umbra_shadow_options place = {0};
    _Alignas(UMBRA_CACHE_LINE) struct umbra_shadow shadow;
    int status, error = umbra_topology_create(NULL, &place.topology);

    if (!error)
        error = shadow_create(&shadow, &place);
    if (error) {
        umbra_topology_destroy(place.topology);
        return no_shadow(error);
    }
    status = run(&shadow, place.topology, options);
    shadow_destroy(&shadow);
    umbra_topology_destroy(place.topology);
    return status;
}

#endif
