/* SPDX-License-Identifier: BSL-1.0 */
/* Entries for clang's code: threadprivate, memory, directives, and names of omp.h. */
#include <string.h>

#include <umbra/os/os.h>

#include "kmpc.h"

/* ---- threadprivate, without the compiler's thread-local variables ---- */

/* Of a variable: what it was when a thread first asked, or its constructor. */
struct common {
    void *variable;
    void *(*construct)(void *);
    struct common *next;
    char image[];
};

struct own {
    void *variable, *copy;
    struct own *next;
};

static struct {
    struct um_lock lock;
    struct common *first;
} commons;
static UM_OMP_THREAD struct own *owns;

/* The variable's; makes it if there is none. */
static struct common *common_of(void *variable, void *(*construct)(void *), size_t bytes)
{
    struct common *common;

    um_lock_take(&commons.lock);
    common = commons.first;
    while (common && common->variable != variable)
        common = common->next;
    if (!common) {
        common = um_omp_memory(sizeof(*common) + bytes);
        common->variable = variable;
        common->construct = construct;
        common->next = commons.first;
        memcpy(common->image, variable, bytes);
        commons.first = common;
    }
    um_lock_release(&commons.lock);
    return common;
}

/* Copies stay as long as the process: their destructors are not called. */
UM_OMP_ABI void __kmpc_threadprivate_register(void *source, void *variable,
                                              void *(*construct)(void *),
                                              void *(*copy)(void *, void *),
                                              void (*destroy)(void *))
{
    common_of(variable, construct, 0);
}

/* The calling thread's copy; the variable itself is the first thread's. */
UM_OMP_ABI void *__kmpc_threadprivate_cached(UM_SOURCE, void *variable, size_t bytes, void ***cache)
{
    struct common *common;
    struct own *own = owns;

    while (own && own->variable != variable)
        own = own->next;
    if (own)
        return own->copy;
    common = common_of(variable, NULL, bytes);
    own = um_omp_memory(sizeof(*own));
    own->variable = own->copy = variable;
    if (um_os_thread() != um_os_process()) {
        own->copy = um_omp_memory(bytes);
        if (common->construct)
            common->construct(own->copy);
        else
            memcpy(own->copy, common->image, bytes);
    }
    own->next = owns;
    owns = own;
    return own->copy;
}

/* ---- memory, directives ---- */

UM_OMP_ABI void *omp_alloc(size_t bytes, uintptr_t handle);
UM_OMP_ABI void *omp_aligned_alloc(size_t align, size_t bytes, uintptr_t handle);
UM_OMP_ABI void *omp_calloc(size_t number, size_t bytes, uintptr_t handle);
UM_OMP_ABI void *omp_realloc(void *block, size_t bytes, uintptr_t handle, uintptr_t old);
UM_OMP_ABI void omp_free(void *block, uintptr_t handle);
UM_OMP_ABI void GOMP_warning(const char *text, size_t bytes);
UM_OMP_ABI _Noreturn void GOMP_error(const char *text, size_t bytes);

UM_OMP_ABI void *__kmpc_alloc(int32_t thread, size_t bytes, uintptr_t handle)
{
    return omp_alloc(bytes, handle);
}

UM_OMP_ABI void *__kmpc_aligned_alloc(int32_t thread, size_t align, size_t bytes, uintptr_t handle)
{
    return omp_aligned_alloc(align, bytes, handle);
}

UM_OMP_ABI void *__kmpc_calloc(int32_t thread, size_t number, size_t bytes, uintptr_t handle)
{
    return omp_calloc(number, bytes, handle);
}

UM_OMP_ABI void *__kmpc_realloc(int32_t thread, void *block, size_t bytes, uintptr_t handle,
                                uintptr_t old)
{
    return omp_realloc(block, bytes, handle, old);
}

UM_OMP_ABI void __kmpc_free(int32_t thread, void *block, uintptr_t handle)
{
    omp_free(block, handle);
}

UM_OMP_ABI uintptr_t __kmpc_init_allocator(int32_t thread, uintptr_t space, int32_t count,
                                           const void *traits)
{
    return omp_init_allocator(space, count, traits);
}

UM_OMP_ABI void __kmpc_destroy_allocator(int32_t thread, uintptr_t handle)
{
    omp_destroy_allocator(handle);
}

UM_OMP_ABI void __kmpc_set_default_allocator(int32_t thread, uintptr_t handle)
{
    omp_set_default_allocator(handle);
}

UM_OMP_ABI uintptr_t __kmpc_get_default_allocator(int32_t thread)
{
    return omp_get_default_allocator();
}

UM_OMP_ABI int __kmpc_pause_resource(int kind)
{
    return omp_pause_resource_all(kind);
}

UM_OMP_ABI void __kmpc_error(void *source, int32_t severity, const char *text)
{
    enum { FATAL = 2 };

    if (severity == FATAL)
        GOMP_error(text, text ? strlen(text) : 0);
    GOMP_warning(text, text ? strlen(text) : 0);
}

/* ---- functions of omp.h that clang's gives other names, or gcc's has not ---- */

UM_OMP_ABI void ompc_set_affinity_format(const char *format)
{
    omp_set_affinity_format(format);
}

UM_OMP_ABI size_t ompc_get_affinity_format(char *text, size_t bytes)
{
    return omp_get_affinity_format(text, bytes);
}

UM_OMP_ABI void ompc_display_affinity(const char *format)
{
    omp_display_affinity(format);
}

UM_OMP_ABI size_t ompc_capture_affinity(char *text, size_t bytes, const char *format)
{
    return omp_capture_affinity(text, bytes, format);
}

#define SETTER(name)                                                                               \
    UM_OMP_ABI void ompc_##name(int value)                                                         \
    {                                                                                              \
        omp_##name(value);                                                                         \
    }
#define LOOKUP(name)                                                                               \
    UM_OMP_ABI int ompc_##name(int value)                                                          \
    {                                                                                              \
        return omp_##name(value);                                                                  \
    }

SETTER(set_num_threads)
SETTER(set_dynamic)
SETTER(set_nested)
SETTER(set_max_active_levels)
LOOKUP(get_ancestor_thread_num)
LOOKUP(get_team_size)

UM_OMP_ABI void ompc_set_schedule(unsigned kind, int chunk)
{
    omp_set_schedule(kind, chunk);
}

UM_OMP_ABI void omp_init_lock_with_hint(struct um_lock *lock, int hint)
{
    omp_init_lock(lock);
}

UM_OMP_ABI void omp_init_nest_lock_with_hint(struct um_omp_nest_lock *lock, int hint)
{
    omp_init_nest_lock(lock);
}
