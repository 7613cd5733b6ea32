/* SPDX-License-Identifier: BSL-1.0 */
/*
 * libumbra.so: the implementation for all objects of a process, and for other languages. It exports
 * the cold functions and objects that files compiled with UMBRA_SHARED refer to, every public
 * function that is inline in C, and the sizes of the structs that callers allocate.
 */
#define _GNU_SOURCE /* dladdr, dl_iterate_phdr */
#define UMBRA_SHARED
#define UM_INLINE_IS_CALLED
#include <umbra.c>

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- sizes: memory of this size that begins at a multiple of 16, as malloc's, holds one ---- */

#define SIZE_OF(name)                                                                              \
    size_t umbra_sizeof_##name(void);                                                              \
    size_t umbra_sizeof_##name(void)                                                               \
    {                                                                                              \
        return sizeof(struct umbra_##name);                                                        \
    }                                                                                              \
    static_assert(__alignof__(struct umbra_##name) <= UM_ANY_MEMORY, "malloc's memory will do")

SIZE_OF(options);
SIZE_OF(spawn_options);
SIZE_OF(fiber);
SIZE_OF(fiber_info);
SIZE_OF(core_info);
SIZE_OF(task);
SIZE_OF(task_counts);
SIZE_OF(task_limits);
SIZE_OF(reduction);
SIZE_OF(event);
SIZE_OF(mutex);
SIZE_OF(condition);
SIZE_OF(semaphore);
SIZE_OF(rwlock);
SIZE_OF(latch);
SIZE_OF(barrier);
SIZE_OF(channel);
SIZE_OF(port);
SIZE_OF(message);
SIZE_OF(source);
SIZE_OF(io_op);
SIZE_OF(branch);
SIZE_OF(arbiter);
SIZE_OF(arbiter_options);
SIZE_OF(value);
SIZE_OF(dispatch_options);
SIZE_OF(memory);
SIZE_OF(memory_options);
SIZE_OF(memory_report);
SIZE_OF(memcpy_limits);
SIZE_OF(prefetch);
SIZE_OF(prefetch_options);
SIZE_OF(shadow);
SIZE_OF(shadow_options);
SIZE_OF(team_options);
SIZE_OF(topology_options);
SIZE_OF(wait_options);
SIZE_OF(wait_policy);
SIZE_OF(waiter);

/* ---- a second implementation in the program ---- */

/* True if the note is the one that each implementation leaves (umbra/base/base.h). */
static bool is_ours(const ElfW(Nhdr) * note)
{
    static const char name[] = "umbra";

    return note->n_namesz == sizeof(name) && memcmp(note + 1, name, sizeof(name)) == 0;
}

static bool has_our_note(const char *at, size_t bytes)
{
    while (bytes >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)at;
        size_t whole =
            sizeof(*note) + ((note->n_namesz + 3u) & ~3u) + ((note->n_descsz + 3u) & ~3u);

        if (whole > bytes)
            return false;
        if (is_ours(note))
            return true;
        at += whole;
        bytes -= whole;
    }
    return false;
}

/* Of the first object, which is the program: sets *found if it has an implementation. */
static int look_at_program(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const char *at = (const char *)(uintptr_t)(info->dlpi_addr + part->p_vaddr);

        /* Notes that begin at multiples of 8 are the system's, and padded in another way. */
        if (part->p_type == PT_NOTE && part->p_align <= 4 && has_our_note(at, part->p_memsz))
            *(bool *)found = true;
    }
    return 1;
}

/*
 * Cores, shadows and measured costs of the one are unknown to the other. (A shared object may keep
 * an implementation to itself: docs/limits.md.)
 */
static __attribute__((__constructor__)) void say_if_program_has_its_own(void)
{
    static const char here; /* in libumbra.so */
    char program[PATH_MAX];
    bool found = false;
    ssize_t length;
    Dl_info self;

    dl_iterate_phdr(look_at_program, &found);
    if (!found || !dladdr(&here, &self))
        return;
    length = readlink("/proc/self/exe", program, sizeof(program));
    fprintf(stderr,
            "umbra: two copies of the state: %.*s has an implementation of its own, beside %s "
            "(docs/limits.md, Shared objects)\n",
            length < 0 ? 11 : (int)length, length < 0 ? "the program" : program, self.dli_fname);
}
