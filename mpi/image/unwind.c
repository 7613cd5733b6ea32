/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Exceptions. The unwinder asks the dynamic linker for the tables of the code at an address. This
 * program answers first: for a copy the tables are in the copy itself. An exception unwinds the
 * child that threw it, on its own thread, so only the copy of the child that runs here matters.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>

#include "bind.h"

typedef int find_object_fn(void *address, struct dl_find_object *result);

static find_object_fn *find_object_of_system(void)
{
    static _Atomic(uintptr_t) known;
    /* relaxed, both: whichever thread looks finds the same */
    uintptr_t found = atomic_load_explicit(&known, memory_order_relaxed);

    if (!found) {
        found = (uintptr_t)dlsym(RTLD_NEXT, "_dl_find_object");
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return (find_object_fn *)found;
}

/* The copy that holds an address, of the child that runs on this thread; or NULL. */
static const struct umbra_child *child_at(const void *address)
{
    const struct umbra_child *child = um_seat.running;

    if (!child || !child->copy || !child->image->frames ||
        (uintptr_t)address - (uintptr_t)child->copy->base >= child->image->span)
        return NULL;
    return child;
}

__attribute__((__visibility__("default"))) int _dl_find_object(void *address,
                                                               struct dl_find_object *result)
{
    const struct umbra_child *child = child_at(address);

    if (!child)
        return find_object_of_system()(address, result);
    *result = (struct dl_find_object){
        .dlfo_map_start = child->copy->base,
        .dlfo_map_end = child->copy->base + child->image->span,
        .dlfo_eh_frame = child->copy->base + child->image->frames,
    };
    return 0;
}

/* A symbol that is missing, the executable's own among them, would end the process later. */
void *um_bind_dlopen(const char *file, int flags)
{
    return dlopen(file, (flags & ~RTLD_LAZY) | RTLD_NOW);
}

/* For an unwinder that is part of the child's executable (-static-libgcc). */
int um_bind_dl_iterate_phdr(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg)
{
    const struct umbra_child *child = um_child_self();
    struct dl_phdr_info own = {
        .dlpi_addr = (uintptr_t)child->copy->base,
        .dlpi_name = child->image->path,
        .dlpi_phdr = (const ElfW(Phdr) *)(child->copy->base + child->image->headers),
        .dlpi_phnum = (ElfW(Half))child->image->headers_count,
    };
    int result = fn(&own, sizeof(own), arg);

    return result ? result : dl_iterate_phdr(fn, arg);
}
