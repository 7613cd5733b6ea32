/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Allocators. All memory is malloc()'s: an allocator adds an alignment, a limit, and what is done
 * when memory ends. In front of each block stands a header.
 */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "library.h"

enum { PREDEFINED = 8, USUAL = 1 }; /* handles up to that are no pointers */
enum { TRAIT_ALIGNMENT = 2, TRAIT_POOL_SIZE = 4, TRAIT_FALLBACK, TRAIT_DATA, TRAIT_PINNED };
enum { FALLBACK_USUAL = 11, FALLBACK_NULL, FALLBACK_ABORT, FALLBACK_ALLOCATOR };

struct trait {
    int key;
    uintptr_t value;
};

struct allocator {
    uintptr_t align, most; /* this and the next two: set once */
    uintptr_t fallback, data;
    um_atomic_u64 used; /* bytes; callers that allocate and free */
};

struct header {
    void *memory; /* malloc()'s */
    size_t bytes; /* that the program asked for */
    size_t whole; /* that count for the allocator */
    uintptr_t handle;
};

static struct allocator *own_of(uintptr_t handle)
{
    return handle > PREDEFINED ? (struct allocator *)handle : NULL;
}

/* False: there is no such trait. */
static bool trait_set(struct allocator *allocator, const struct trait *trait)
{
    switch (trait->key) {
    case TRAIT_ALIGNMENT:
        allocator->align = trait->value == UINTPTR_MAX ? 1 : trait->value;
        return allocator->align > 0 && (allocator->align & (allocator->align - 1)) == 0;
    case TRAIT_POOL_SIZE:
        allocator->most = trait->value;
        return true;
    case TRAIT_FALLBACK:
        allocator->fallback = trait->value == UINTPTR_MAX ? FALLBACK_USUAL : trait->value;
        return allocator->fallback >= FALLBACK_USUAL && allocator->fallback <= FALLBACK_ALLOCATOR;
    case TRAIT_DATA:
        allocator->data = trait->value;
        return true;
    case TRAIT_PINNED:
        return trait->value != 1;
    default:
        return trait->key > 0 && trait->key <= PREDEFINED;
    }
}

uintptr_t omp_init_allocator(uintptr_t space, int count, const void *traits)
{
    struct allocator *allocator = calloc(1, sizeof(*allocator));
    bool valid = allocator != NULL && space <= 4;

    for (int i = 0; valid && i < count; i++) {
        if (i == 0) {
            allocator->align = 1;
            allocator->most = UINTPTR_MAX;
            allocator->fallback = FALLBACK_USUAL;
        }
        valid = trait_set(allocator, (const struct trait *)traits + i);
    }
    if (valid && count > 0)
        return (uintptr_t)allocator;
    free(allocator);
    return valid ? USUAL : 0;
}

void omp_destroy_allocator(uintptr_t allocator)
{
    free(own_of(allocator));
}

void omp_set_default_allocator(uintptr_t allocator)
{
    um_omp_self()->task->icv.allocator = allocator ? allocator : USUAL;
}

uintptr_t omp_get_default_allocator(void)
{
    return um_omp_self()->task->icv.allocator;
}

/* Counts bytes of the allocator; false: it may not have so many. */
static bool count(struct allocator *allocator, size_t bytes)
{
    uint64_t used;

    if (!allocator || allocator->most == UINTPTR_MAX)
        return true;
    used = um_atomic_load(&allocator->used, relaxed); /* this and the next: a number */
    do
        if (bytes > allocator->most || used > allocator->most - bytes)
            return false;
    while (!um_atomic_cas(&allocator->used, &used, used + bytes, relaxed, relaxed));
    return true;
}

/* The same without a limit. */
static void count_more(uintptr_t handle, uint64_t bytes)
{
    struct allocator *allocator = own_of(handle);

    if (allocator && allocator->most != UINTPTR_MAX)
        um_atomic_fetch_add(&allocator->used, bytes, relaxed); /* a number */
}

static void count_back(uintptr_t handle, size_t bytes)
{
    count_more(handle, (uint64_t)0 - bytes);
}

static void *block_make(uintptr_t handle, size_t align, size_t bytes)
{
    struct allocator *allocator = own_of(handle);
    size_t whole = bytes + sizeof(struct header) + align;
    struct header *header;
    char *memory;

    if (whole < bytes || !count(allocator, whole))
        return NULL;
    memory = malloc(whole);
    if (!memory) {
        count_back(handle, whole);
        return NULL;
    }
    header =
        (struct header *)(((uintptr_t)memory + sizeof(*header) + align - 1) / align * align) - 1;
    *header = (struct header){memory, bytes, whole, handle};
    return header + 1;
}

static _Noreturn void out_of_memory(size_t bytes)
{
    um_omp_fatal("out of memory allocating %zu bytes", bytes);
}

UM_OMP_ABI void *omp_aligned_alloc(size_t align, size_t bytes, uintptr_t handle)
{
    while (bytes > 0) {
        struct allocator *allocator;
        size_t least = align > UM_ANY_MEMORY ? align : UM_ANY_MEMORY;
        void *block;

        handle = handle ? handle : omp_get_default_allocator();
        allocator = own_of(handle);
        if (allocator && allocator->align > least)
            least = allocator->align;
        block = block_make(handle, least, bytes);
        if (block || handle == USUAL || (allocator && allocator->fallback == FALLBACK_NULL))
            return block;
        if (allocator && allocator->fallback == FALLBACK_ABORT)
            out_of_memory(bytes);
        handle = allocator && allocator->fallback == FALLBACK_ALLOCATOR ? allocator->data : USUAL;
    }
    return NULL;
}

UM_OMP_ABI void *omp_alloc(size_t bytes, uintptr_t handle)
{
    return omp_aligned_alloc(1, bytes, handle);
}

/* The clause and the directive allocate: the program does not look. */
UM_OMP_ABI void *GOMP_alloc(size_t align, size_t bytes, uintptr_t handle)
{
    void *block = omp_aligned_alloc(align, bytes, handle);

    if (!block && bytes > 0)
        out_of_memory(bytes);
    return block;
}

UM_OMP_ABI void *omp_aligned_calloc(size_t align, size_t number, size_t bytes, uintptr_t handle)
{
    size_t whole;
    void *block;

    if (__builtin_mul_overflow(number, bytes, &whole))
        whole = SIZE_MAX; /* there is not so much */
    block = omp_aligned_alloc(align, whole, handle);
    return block ? memset(block, 0, whole) : NULL;
}

UM_OMP_ABI void *omp_calloc(size_t number, size_t bytes, uintptr_t handle)
{
    return omp_aligned_calloc(1, number, bytes, handle);
}

UM_OMP_ABI void omp_free(void *block, uintptr_t handle)
{
    struct header *header = (struct header *)block - 1;

    (void)handle;
    if (!block)
        return;
    count_back(header->handle, header->whole);
    free(header->memory);
}

UM_OMP_ABI void GOMP_free(void *block, uintptr_t handle)
{
    omp_free(block, handle);
}

UM_OMP_ABI void *omp_realloc(void *block, size_t bytes, uintptr_t handle, uintptr_t old)
{
    const struct header *header = (const struct header *)block - 1;
    void *more;

    if (!block)
        return omp_alloc(bytes, handle);
    if (bytes == 0) {
        omp_free(block, old);
        return NULL;
    }
    count_back(header->handle, header->whole); /* the other block stands for it */
    more = omp_alloc(bytes, handle ? handle : header->handle);
    if (!more) {
        count_more(header->handle, header->whole);
        return NULL;
    }
    memcpy(more, block, bytes < header->bytes ? bytes : header->bytes);
    free(header->memory);
    return more;
}
