/* SPDX-License-Identifier: BSL-1.0 */
/*
 * hwloc, loaded by the first region that asks it, and not with the library: a process that the program
 * starts, and that has no regions, would take 0.2 ms more. Its functions, by their own names, as far
 * as umbra/topology.h calls them here: the first call of each looks the real one up.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include <hwloc.h>

#include "library.h"

/* The name that hwloc 2 has had from its first release on. */
#define HWLOC_LIBRARY "libhwloc.so.15"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;
static char why[512]; /* there is none */

static void load(void)
{
    library = dlopen(HWLOC_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(why, sizeof(why), "%s", dlerror());
}

/* The function of that name; *at: where the caller keeps it. */
static void *found(void *_Atomic *at, const char *name)
{
    void *fn = um_atomic_load(at, relaxed); /* text, which the loader has written before */

    if (fn)
        return fn;
    pthread_once(&once, load);
    if (!library) /* here: what the program does at its end may come here again */
        um_omp_fatal("%s", why);
    fn = dlsym(library, name);
    if (!fn)
        um_omp_fatal(HWLOC_LIBRARY " has no %s", name);
    um_atomic_store(at, fn, relaxed); /* each thread finds the same */
    return fn;
}

/* A function of hwloc's that calls the real one; gives: return, or nothing. */
#define LATE(gives, type, name, parameters, arguments)                                             \
    type name parameters                                                                           \
    {                                                                                              \
        static void *_Atomic at;                                                                   \
        union {                                                                                    \
            void *found;                                                                           \
            type(*fn) parameters;                                                                  \
        } real = {found(&at, #name)};                                                              \
                                                                                                   \
        gives real.fn arguments;                                                                   \
    }

LATE(return, hwloc_bitmap_t, hwloc_bitmap_alloc, (void), ())
LATE(return, hwloc_bitmap_t, hwloc_bitmap_dup, (hwloc_const_bitmap_t a), (a))
LATE(, void, hwloc_bitmap_free, (hwloc_bitmap_t a), (a))
LATE(return, int, hwloc_bitmap_copy, (hwloc_bitmap_t a, hwloc_const_bitmap_t b), (a, b))
LATE(, void, hwloc_bitmap_fill, (hwloc_bitmap_t a), (a))
LATE(return, int, hwloc_bitmap_only, (hwloc_bitmap_t a, unsigned b), (a, b))
LATE(return, int, hwloc_bitmap_and,
           (hwloc_bitmap_t a, hwloc_const_bitmap_t b, hwloc_const_bitmap_t c), (a, b, c))
LATE(return, int, hwloc_bitmap_or,
           (hwloc_bitmap_t a, hwloc_const_bitmap_t b, hwloc_const_bitmap_t c), (a, b, c))
LATE(return, int, hwloc_bitmap_isset, (hwloc_const_bitmap_t a, unsigned b), (a, b))
LATE(return, int, hwloc_bitmap_isequal, (hwloc_const_bitmap_t a, hwloc_const_bitmap_t b), (a, b))
LATE(return, int, hwloc_bitmap_isincluded, (hwloc_const_bitmap_t a, hwloc_const_bitmap_t b), (a, b))
LATE(return, int, hwloc_bitmap_weight, (hwloc_const_bitmap_t a), (a))
LATE(return, int, hwloc_bitmap_iszero, (hwloc_const_bitmap_t a), (a))
LATE(return, int, hwloc_bitmap_first, (hwloc_const_bitmap_t a), (a))
LATE(return, int, hwloc_bitmap_last, (hwloc_const_bitmap_t a), (a))
LATE(return, int, hwloc_get_cpubind, (hwloc_topology_t a, hwloc_cpuset_t b, int c), (a, b, c))
LATE(return, int, hwloc_set_cpubind, (hwloc_topology_t a, hwloc_const_cpuset_t b, int c), (a, b, c))
LATE(return, int, hwloc_get_last_cpu_location, (hwloc_topology_t a, hwloc_cpuset_t b, int c),
           (a, b, c))
LATE(return, int, hwloc_topology_init, (hwloc_topology_t * a), (a))
LATE(, void, hwloc_topology_destroy, (hwloc_topology_t a), (a))
LATE(return, int, hwloc_topology_load, (hwloc_topology_t a), (a))
LATE(return, int, hwloc_topology_set_flags, (hwloc_topology_t a, unsigned long b), (a, b))
LATE(return, int, hwloc_topology_set_synthetic, (hwloc_topology_t a, const char *b), (a, b))
LATE(return, int, hwloc_topology_set_xml, (hwloc_topology_t a, const char *b), (a, b))
LATE(return, int, hwloc_topology_is_thissystem, (hwloc_topology_t a), (a))
LATE(return, const struct hwloc_topology_support *, hwloc_topology_get_support,
           (hwloc_topology_t a), (a))
LATE(return, hwloc_const_cpuset_t, hwloc_topology_get_allowed_cpuset, (hwloc_topology_t a), (a))
LATE(return, int, hwloc_get_type_depth, (hwloc_topology_t a, hwloc_obj_type_t b), (a, b))
LATE(return, unsigned, hwloc_get_nbobjs_by_depth, (hwloc_topology_t a, int b), (a, b))
LATE(return, hwloc_obj_t, hwloc_get_obj_by_depth, (hwloc_topology_t a, int b, unsigned c),
           (a, b, c))
#if HWLOC_API_VERSION >= 0x00020400
LATE(return, int, hwloc_cpukinds_get_nr, (hwloc_topology_t a, unsigned long b), (a, b))
LATE(return, int, hwloc_cpukinds_get_info,
           (hwloc_topology_t a, unsigned b, hwloc_bitmap_t c, int *d, unsigned *e,
            struct hwloc_info_s **f, unsigned long g),
           (a, b, c, d, e, f, g))
LATE(return, int, hwloc_cpukinds_get_by_cpuset,
           (hwloc_topology_t a, hwloc_const_bitmap_t b, unsigned long c), (a, b, c))
#endif
