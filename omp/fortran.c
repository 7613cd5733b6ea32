/* SPDX-License-Identifier: BSL-1.0 */
/* Fortran's names of the interface: arguments by address, texts with a length behind; _8: integers
 * of 64 bits. A nestable lock there has room for an address only. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "library.h"

#define QUERY(name)                                                                                \
    UM_OMP_ABI int name##_(void)                                                                   \
    {                                                                                              \
        return name();                                                                             \
    }
UM_OMP_QUERIES(QUERY)

static int narrow(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int)value;
}

#define SETTER(name)                                                                               \
    UM_OMP_ABI void name##_(const int *value)                                                      \
    {                                                                                              \
        name(*value);                                                                              \
    }                                                                                              \
    UM_OMP_ABI void name##_8_(const int64_t *value)                                                \
    {                                                                                              \
        name(narrow(*value));                                                                      \
    }
UM_OMP_SETTERS(SETTER)

#define LOOKUP(name)                                                                               \
    UM_OMP_ABI int name##_(const int *value)                                                       \
    {                                                                                              \
        return name(*value);                                                                       \
    }                                                                                              \
    UM_OMP_ABI int name##_8_(const int64_t *value)                                                 \
    {                                                                                              \
        return name(narrow(*value));                                                               \
    }
UM_OMP_LOOKUPS(LOOKUP)

UM_OMP_ABI void omp_get_schedule_(unsigned *kind, int *chunk)
{
    omp_get_schedule(kind, chunk);
}

UM_OMP_ABI void omp_get_schedule_8_(unsigned *kind, int64_t *chunk)
{
    int own;

    omp_get_schedule(kind, &own);
    *chunk = own;
}

UM_OMP_ABI void omp_set_schedule_(const unsigned *kind, const int *chunk)
{
    omp_set_schedule(*kind, *chunk);
}

UM_OMP_ABI void omp_set_schedule_8_(const unsigned *kind, const int64_t *chunk)
{
    omp_set_schedule(*kind, narrow(*chunk));
}

UM_OMP_ABI double omp_get_wtime_(void)
{
    return omp_get_wtime();
}

UM_OMP_ABI double omp_get_wtick_(void)
{
    return omp_get_wtick();
}

UM_OMP_ABI void omp_get_place_proc_ids_(const int *place, int *ids)
{
    omp_get_place_proc_ids(*place, ids);
}

/* The process has at most one processor a place (environment.c). */
UM_OMP_ABI void omp_get_place_proc_ids_8_(const int64_t *place, int64_t *ids)
{
    int id;

    if (omp_get_place_num_procs(narrow(*place)) == 0)
        return;
    omp_get_place_proc_ids(narrow(*place), &id);
    ids[0] = id;
}

UM_OMP_ABI void omp_get_partition_place_nums_(int *places)
{
    omp_get_partition_place_nums(places);
}

UM_OMP_ABI void omp_get_partition_place_nums_8_(int64_t *places)
{
    for (int i = 0; i < omp_get_partition_num_places(); i++)
        places[i] = i;
}

UM_OMP_ABI void omp_display_env_(const int *verbose)
{
    omp_display_env(*verbose);
}

UM_OMP_ABI void omp_display_env_8_(const int64_t *verbose)
{
    omp_display_env(narrow(*verbose));
}

UM_OMP_ABI int omp_pause_resource_(const int *kind, const int *device)
{
    return omp_pause_resource(*kind, *device);
}

UM_OMP_ABI int omp_pause_resource_all_(const int *kind)
{
    return omp_pause_resource_all(*kind);
}

UM_OMP_ABI void omp_fulfill_event_(uintptr_t event)
{
    omp_fulfill_event((void *)event);
}

/* ---- allocators ---- */

UM_OMP_ABI uintptr_t omp_init_allocator_(const uintptr_t *space, const int *count,
                                         const void *traits)
{
    return omp_init_allocator(*space, *count, traits);
}

UM_OMP_ABI uintptr_t omp_init_allocator_8_(const uintptr_t *space, const int64_t *count,
                                           const void *traits)
{
    return omp_init_allocator(*space, narrow(*count), traits);
}

UM_OMP_ABI void omp_destroy_allocator_(const uintptr_t *allocator)
{
    omp_destroy_allocator(*allocator);
}

UM_OMP_ABI void omp_set_default_allocator_(const uintptr_t *allocator)
{
    omp_set_default_allocator(*allocator);
}

UM_OMP_ABI uintptr_t omp_get_default_allocator_(void)
{
    return omp_get_default_allocator();
}

/* ---- affinity: a text of Fortran ends with blanks ---- */

static char *text_read(const char *text, size_t bytes)
{
    char *own = bytes < SIZE_MAX ? malloc(bytes + 1) : NULL;

    if (!own)
        um_omp_fatal("out of memory");
    while (bytes > 0 && text[bytes - 1] == ' ')
        bytes--;
    memcpy(own, text, bytes);
    own[bytes] = 0;
    return own;
}

static void text_write(char *text, size_t bytes, const char *from)
{
    size_t length = strlen(from) < bytes ? strlen(from) : bytes;

    memcpy(text, from, length);
    memset(text + length, ' ', bytes - length);
}

UM_OMP_ABI void omp_set_affinity_format_(const char *format, size_t bytes)
{
    char *own = text_read(format, bytes);

    omp_set_affinity_format(own);
    free(own);
}

UM_OMP_ABI int omp_get_affinity_format_(char *text, size_t bytes)
{
    text_write(text, bytes, um_omp_settings.format);
    return (int)strlen(um_omp_settings.format);
}

UM_OMP_ABI void omp_display_affinity_(const char *format, size_t bytes)
{
    char *own = text_read(format, bytes);

    omp_display_affinity(own);
    free(own);
}

UM_OMP_ABI int omp_capture_affinity_(char *text, const char *format, size_t bytes,
                                     size_t format_bytes)
{
    char *own = text_read(format, format_bytes), whole[4096];
    size_t length = omp_capture_affinity(whole, sizeof(whole), own);

    free(own);
    text_write(text, bytes, whole);
    return (int)length;
}

/* ---- locks ---- */

#define LOCK(name)                                                                                 \
    UM_OMP_ABI void name##_(struct um_lock *lock)                                                  \
    {                                                                                              \
        name(lock);                                                                                \
    }
LOCK(omp_init_lock)
LOCK(omp_destroy_lock)
LOCK(omp_set_lock)
LOCK(omp_unset_lock)

UM_OMP_ABI int omp_test_lock_(struct um_lock *lock)
{
    return omp_test_lock(lock);
}

UM_OMP_ABI void omp_init_nest_lock_(struct um_omp_nest_lock **lock)
{
    *lock = malloc(sizeof(**lock));
    if (!*lock)
        um_omp_fatal("out of memory");
    omp_init_nest_lock(*lock);
}

UM_OMP_ABI void omp_destroy_nest_lock_(struct um_omp_nest_lock **lock)
{
    omp_destroy_nest_lock(*lock);
    free(*lock);
    *lock = NULL;
}

UM_OMP_ABI void omp_set_nest_lock_(struct um_omp_nest_lock **lock)
{
    omp_set_nest_lock(*lock);
}

UM_OMP_ABI void omp_unset_nest_lock_(struct um_omp_nest_lock **lock)
{
    omp_unset_nest_lock(*lock);
}

UM_OMP_ABI int omp_test_nest_lock_(struct um_omp_nest_lock **lock)
{
    return omp_test_nest_lock(*lock);
}
