/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The functions of OpenMP's interface that files here call, or give Fortran's names: omp.h is a
 * compiler's own, and this library is compiled by others, too. Types are those of the ABI.
 */
#ifndef UMBRA_OMP_API_H
#define UMBRA_OMP_API_H

#include <umbra/wait/lock.h>

#include "state.h"

/* omp_nest_lock_t: clang's has room for a pointer only. omp_lock_t is a struct um_lock. */
struct um_omp_nest_lock {
    struct um_omp_nested *is;
};

/* The thread that has the lock writes. */
struct um_omp_nested {
    struct um_lock lock;
    int count;
    struct um_omp_task *owner; /* atomic: a thread without the lock compares it with its own task */
};

/* Functions of no argument, with an int. */
#define UM_OMP_QUERIES(X)                                                                          \
    X(omp_get_num_threads)                                                                         \
    X(omp_get_thread_num)                                                                          \
    X(omp_get_max_threads)                                                                         \
    X(omp_get_num_procs)                                                                           \
    X(omp_in_parallel)                                                                             \
    X(omp_get_dynamic)                                                                             \
    X(omp_get_nested)                                                                              \
    X(omp_get_thread_limit)                                                                        \
    X(omp_get_max_active_levels)                                                                   \
    X(omp_get_supported_active_levels)                                                             \
    X(omp_get_level)                                                                               \
    X(omp_get_active_level)                                                                        \
    X(omp_in_final)                                                                                \
    X(omp_get_cancellation)                                                                        \
    X(omp_get_max_task_priority)                                                                   \
    X(omp_get_proc_bind)                                                                           \
    X(omp_get_num_places)                                                                          \
    X(omp_get_place_num)                                                                           \
    X(omp_get_partition_num_places)                                                                \
    X(omp_get_num_teams)                                                                           \
    X(omp_get_team_num)                                                                            \
    X(omp_get_max_teams)                                                                           \
    X(omp_get_teams_thread_limit)                                                                  \
    X(omp_get_num_devices)                                                                         \
    X(omp_get_default_device)                                                                      \
    X(omp_get_initial_device)                                                                      \
    X(omp_get_device_num)                                                                          \
    X(omp_is_initial_device)

/* Functions of an int. */
#define UM_OMP_SETTERS(X)                                                                          \
    X(omp_set_num_threads)                                                                         \
    X(omp_set_dynamic)                                                                             \
    X(omp_set_nested)                                                                              \
    X(omp_set_max_active_levels)                                                                   \
    X(omp_set_num_teams)                                                                           \
    X(omp_set_teams_thread_limit)                                                                  \
    X(omp_set_default_device)

/* Functions of an int, with an int. */
#define UM_OMP_LOOKUPS(X)                                                                          \
    X(omp_get_ancestor_thread_num)                                                                 \
    X(omp_get_team_size)                                                                           \
    X(omp_get_place_num_procs)

#define UM_OMP_QUERY(name) UM_OMP_ABI int name(void);
#define UM_OMP_SETTER(name) UM_OMP_ABI void name(int value);
#define UM_OMP_LOOKUP(name) UM_OMP_ABI int name(int value);
UM_OMP_QUERIES(UM_OMP_QUERY)
UM_OMP_SETTERS(UM_OMP_SETTER)
UM_OMP_LOOKUPS(UM_OMP_LOOKUP)
#undef UM_OMP_QUERY
#undef UM_OMP_SETTER
#undef UM_OMP_LOOKUP

UM_OMP_ABI void omp_get_schedule(unsigned *kind, int *chunk);
UM_OMP_ABI void omp_set_schedule(unsigned kind, int chunk);
UM_OMP_ABI double omp_get_wtime(void);
UM_OMP_ABI double omp_get_wtick(void);
UM_OMP_ABI void omp_get_place_proc_ids(int place, int *ids);
UM_OMP_ABI void omp_get_partition_place_nums(int *places);
UM_OMP_ABI void omp_display_env(int verbose);
UM_OMP_ABI int omp_pause_resource(int kind, int device);
UM_OMP_ABI int omp_pause_resource_all(int kind);
UM_OMP_ABI void omp_fulfill_event(void *event);

UM_OMP_ABI void omp_set_affinity_format(const char *format);
UM_OMP_ABI size_t omp_get_affinity_format(char *text, size_t bytes);
UM_OMP_ABI void omp_display_affinity(const char *format);
UM_OMP_ABI size_t omp_capture_affinity(char *text, size_t bytes, const char *format);

UM_OMP_ABI uintptr_t omp_init_allocator(uintptr_t space, int count, const void *traits);
UM_OMP_ABI void omp_destroy_allocator(uintptr_t allocator);
UM_OMP_ABI void omp_set_default_allocator(uintptr_t allocator);
UM_OMP_ABI uintptr_t omp_get_default_allocator(void);

UM_OMP_ABI void omp_init_lock(struct um_lock *lock);
UM_OMP_ABI void omp_destroy_lock(struct um_lock *lock);
UM_OMP_ABI void omp_set_lock(struct um_lock *lock);
UM_OMP_ABI void omp_unset_lock(struct um_lock *lock);
UM_OMP_ABI int omp_test_lock(struct um_lock *lock);
UM_OMP_ABI void omp_init_nest_lock(struct um_omp_nest_lock *lock);
UM_OMP_ABI void omp_destroy_nest_lock(struct um_omp_nest_lock *lock);
UM_OMP_ABI void omp_set_nest_lock(struct um_omp_nest_lock *lock);
UM_OMP_ABI void omp_unset_nest_lock(struct um_omp_nest_lock *lock);
UM_OMP_ABI int omp_test_nest_lock(struct um_omp_nest_lock *lock);

#endif
