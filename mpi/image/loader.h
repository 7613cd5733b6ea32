/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the files of the image loader share. Private.
 *
 *   open.c         open and close: the order of the steps below
 *   elf.c          reads the executable, and refuses what cannot be held
 *   resolve.c      symbols: the child's own, child-only bindings, the process's
 *   relocate.c     what each word of the data becomes: fixed, or a distance from the copy's base
 *   copy.c         copies: mapping, filling, using again
 *   room.c         thread-locals of children: the room in this program's own, and its exchange
 *   child.c        children: start, wait, and the fiber's function
 *   enter.c        entering a copy at its first instruction, and leaving it from anywhere
 *   crash.c        faults of a child's own code
 *   unwind.c       exceptions: what the unwinder is told of a copy
 *   bind_*.c       child-only bindings, and the table of them
 *   array.c        growing arrays
 *   seat.h         which child runs on a thread
 *
 * Base: where address 0 of the executable is in a copy. Addresses in an image ("at") are relative
 * to it. A copy is one range of addresses:
 *
 *     | text: the file, mapped, read-only | data, from the image | zeros | extra, from the image |
 *
 * Extra is memory for variables of libraries that a child must have to itself (optind and the like)
 * but that its executable did not reserve room for.
 */
#ifndef UMBRA_MPI_LOADER_H
#define UMBRA_MPI_LOADER_H

#include <elf.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "seat.h"

#ifndef UMBRA_IMPLEMENTATION /* cold functions of the headers that no header declares */
UM_LINKONCE int um_handler_put(struct um_handler *handler);
UM_LINKONCE bool um_handler_take(struct um_handler *handler);
UM_LINKONCE bool um_handler_asked(struct um_handler *handler, void *info, void *context);
UM_LINKONCE void um_handler_pass_on(struct um_handler *handler, void *info, void *context);
#endif

#define UM_TEXTS_MOST 8       /* mappings of the file in a copy; one, but for unusual linkers */
#define UM_ROOM_BYTES 16384   /* for the thread-locals of a child's executable */
#define UM_ROOM_ALIGN 64      /* of the thread pointer */
#define UM_TLS_OWN UINT64_MAX /* the number of the executable as a module with thread-locals */

/* Variables of the C library that the bindings read and write. */
enum um_variable {
    UM_OPTARG,
    UM_OPTIND,
    UM_OPTERR,
    UM_OPTOPT,
    UM_ENVIRON,
    UM_NAME,
    UM_SHORT_NAME,
    UM_VARIABLES
};

/* One mapping of the file. */
struct um_mapped {
    uint64_t at, offset;
    size_t bytes;
};

/* A word that depends on where the copy is. */
struct um_based {
    uint64_t at, value; /* becomes base + value */
};

/* A variable of a library that the child has to itself. */
struct um_own {
    const char *name;   /* in the image's strings */
    uint64_t at, bytes; /* where the child has it */
    const char *source; /* the library's */
};

/* A growing array of structs, of `size` bytes each. */
struct um_array {
    void *first;
    size_t count, room, size;
};

/* A part of a copy that is filled from the image. */
struct um_part {
    uint64_t at;
    size_t bytes;
    char *content;
};

/* A copy that no child uses, or the one of a child. */
struct um_image_copy {
    char *base;
    struct um_image_copy *next;
    bool used; /* has been filled before */
};

/* The parts of the dynamic section, as addresses in the image. */
struct um_dynamic {
    uint64_t symbols, strings, strings_bytes, versions, needed_versions, needed_versions_count;
    uint64_t rela, rela_bytes, jump, jump_bytes, relr, relr_bytes;
    uint64_t preinit, preinit_bytes, init_array, init_bytes, fini_array, fini_bytes, init, fini;
};

struct umbra_image {
    char *path;
    const char *short_name; /* in path */
    int fd;
    const char *file; /* mapped while the image is opened */
    size_t file_bytes;

    struct um_mapped text[UM_TEXTS_MOST];
    unsigned texts;
    size_t span;                /* bytes of a copy */
    uint64_t data_end, end;     /* of what is in the file, of what is zero */
    struct um_part data, extra; /* resolved, but for words that depend on the base */
    struct um_array based;      /* struct um_based */
    struct um_array own;        /* struct um_own */
    struct um_array resolvers;  /* struct um_based: value is the function that gives the value */
    uint64_t variable[UM_VARIABLES]; /* where the child has them; 0: it does not use it */

    uint64_t entry, headers, frames; /* ELF's first instruction; its headers; .eh_frame_hdr or 0 */
    unsigned headers_count;
    uint64_t tls_image;           /* where they are in the file */
    size_t tls_filled, tls_bytes; /* of thread-locals; all of them end at the thread pointer */
    struct um_dynamic dynamic;
    struct um_array libraries; /* void *, of dlopen */

    struct um_lock lock; /* of the next two */
    struct um_image_copy *idle;
    size_t children; /* not waited for */
};

/* A list of functions to call when something ends, newest first. */
struct um_ending {
    void (*fn)(void *);
    void (*with_status)(int, void *); /* on_exit(); else NULL */
    void *arg;
    struct um_ending *next;
};

/* One run. gdb reads image, copy, fiber and the list. */
struct umbra_child {
    struct umbra_child_options options; /* the first: um_child_arg() */
    struct umbra_image *image;
    struct um_image_copy *copy;
    struct umbra_fiber fiber;
    struct umbra_runtime *runtime;
    struct umbra_child *next, **link; /* in um_children */

    void *saved; /* the fiber's registers, below which the child runs; um_image_leave() */
    const char *stack_low, *stack_high;
    int status;       /* as of waitpid(2) */
    _Atomic int left; /* with bit 16: the status that a thread of its own gave it, by exit() */
    bool finished;    /* .fini has been called */

    /* what the bindings keep */
    struct um_ending *thread_endings, *endings, *quick_endings;
    uint64_t fini_left;          /* functions of .fini_array that have not run */
    char **environment;          /* if the executable does not name environ */
    char **own_environment;      /* allocated, or NULL */
    struct um_array own_strings; /* char *: of that environment, allocated */
    struct um_random *random;
    char *strtok;
    void (*terminate)(void);
    struct um_getopt *getopt;
    struct um_lock keys_lock;
    struct um_array keys;     /* struct um_key (bind_key.c) */
    _Atomic uint64_t signals; /* bit number - 1: it has set an action */
    _Atomic unsigned threads; /* that it has created and that have not ended, and 1 for itself */
    struct umbra_event thread_ended;
    int argc;
    char **argv;
    char *tls; /* its thread-locals, while they are not in the room */
};

/* All children, for debuggers. */
struct um_children {
    struct um_lock lock;
    struct umbra_child *first;
};
extern struct um_children um_children UM_HIDE;

/* ---- lists ---- */

/* Room for one more at the end, all zero; NULL: no memory. */
UM_HIDE void *um_array_add(struct um_array *list);
UM_HIDE void um_array_free(struct um_array *list);

/* ---- steps of opening: 0 or a negative errno, with its text ---- */

UM_HIDE int um_elf_read(struct umbra_image *image);
UM_HIDE int um_libraries_load(struct umbra_image *image);
UM_HIDE int um_own_find(struct umbra_image *image);
UM_HIDE int um_relocate(struct umbra_image *image);
UM_HIDE int um_resolvers_run(struct umbra_image *image);

/* A refusal: -ENOEXEC. */
#define um_refuse(image, ...) um_refused((image)->path, __VA_ARGS__)
UM_HIDE __attribute__((__format__(__printf__, 2, 3))) int um_refused(const char *path,
                                                                     const char *format, ...);

/* Bytes of the file at an address of the image; NULL: not there. */
UM_HIDE const void *um_elf_at(const struct umbra_image *image, uint64_t at, uint64_t bytes);
/* True for an address of the code. Only while the image is opened. */
UM_HIDE bool um_elf_in_text(const struct umbra_image *image, uint64_t at);
UM_HIDE const char *um_elf_string(const struct umbra_image *image, uint64_t offset);

/* The value of a symbol of the image: absolute, or relative to the base. */
struct um_value {
    uint64_t value;
    bool relative;
    bool resolver; /* value is a function that gives it */
    bool thread;   /* a thread-local's: the child's own: relative is set, value is its offset;
                        of a library: its address in this thread */
    const char *name;
};
UM_HIDE int um_resolve(const struct umbra_image *image, uint32_t index, struct um_value *value);

/* The function that a child gets for a name of the process's; NULL: the process's. */
UM_HIDE void *um_binding(const char *name);

/* ---- copies ---- */

/* A copy for a child, not filled yet. NULL: no memory, with its text. Any thread. */
UM_HIDE struct um_image_copy *um_image_copy_take(struct umbra_image *image);
UM_HIDE void um_image_copy_fill(const struct umbra_image *image, struct um_image_copy *copy);
UM_HIDE void um_image_copy_put(struct umbra_image *image, struct um_image_copy *copy);
UM_HIDE void um_copies_unmap(struct umbra_image *image);

/* ---- thread-locals ---- */

UM_HIDE char *um_thread_pointer(void);
UM_HIDE int um_room_check(void);
UM_HIDE void um_room_begin(const struct umbra_child *child, char *to);
UM_HIDE int um_tls_offset(const void *address, uint64_t *offset);
UM_HIDE int um_tls_module(const void *address, uint64_t *module, uint64_t *offset);
UM_HIDE extern const char um_tlsdesc_fixed[];

/* ---- children ---- */

/* The child that called a binding. */
UM_HIDE struct umbra_child *um_child_self(void);
/* The child that owns the stack on which the caller runs, or NULL. */
UM_HIDE struct umbra_child *um_child_here(void);
/* Does what exit() does of a child, and leaves its code. */
UM_HIDE _Noreturn void um_child_exit(struct umbra_child *child, int status);
/* The child has left its code in a process that it has forked: the process ends. */
UM_HIDE _Noreturn void um_process_end(const struct umbra_child *child);
/* Frees what the bindings keep. */
UM_HIDE void um_bindings_free(struct umbra_child *child);
UM_HIDE void um_threads_await(struct umbra_child *child);
UM_HIDE void um_endings_run(struct um_ending **list, int status);
/* Where the child has a variable of the C library. */
UM_HIDE void *um_variable(struct umbra_child *child, enum um_variable which, void *otherwise);

/* Enters the copy with `words` words, an even number, on the stack; returns when um_image_leave()
 * is given what was put into *saved. */
UM_HIDE void um_image_enter(void **saved, const void *entry, const uint64_t *vector, size_t words);
UM_HIDE _Noreturn void um_image_leave(void *saved);

/* ---- faults ---- */

UM_HIDE int um_crash_start(void);
UM_HIDE void um_crash_stop(void);

#endif
