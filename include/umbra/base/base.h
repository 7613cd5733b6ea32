/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What every Umbra header builds on: the language check, the linkage of cold functions, and a few
 * compiler words. Private.
 *
 * Linkage. Hot functions are `static inline` (UM_INLINE). Cold functions and the few process-wide
 * objects are UM_LINKONCE and UM_SHARED: a header declares them, and one file of the program, which
 * defines UMBRA_IMPLEMENTATION before its first include, has their bodies. That file is a C file of
 * the program's own, or umbra.c, or it has become the library libumbra.a. If no file has them, the
 * link fails, and one of the symbols that the linker misses says what to do; if two have them, no
 * harm is done: they are weak. They are hidden, so an executable or shared object has one copy of
 * each, and two shared objects never mix theirs.
 *
 * UMBRA_SHARED, defined in all files of a program or library, says that the bodies are in
 * libumbra.so: one copy for all objects of the process. They are not hidden then.
 * (packaging/umbra_shared.c)
 *
 * All files of a program must be compiled with the same choices (UMBRA_ASSERT and the like). Each
 * header that has a choice names an empty function after the choice made (UM_CHOICE). Each file
 * refers to that function, so the linker refuses a program if its files chose differently.
 *
 * C++. What a header declares, and its hot functions, can be read by C++17 and later; the bodies of
 * cold functions are C11 alone.
 *
 * Warnings. The warnings that a user switches on are for the user's own text, under -I, too: each
 * header that defines functions is a system header to the compiler from the end of its includes on.
 * (Not before: -MMD leaves out of its dependency files what a system header includes.)
 * UMBRA_SHOW_WARNINGS shows the warnings; Umbra's own builds define it.
 */
#ifndef UMBRA_BASE_BASE_H
#define UMBRA_BASE_BASE_H

#if defined(__cplusplus) && defined(UMBRA_IMPLEMENTATION) && !defined(UM_MODEL_CHECK)
#error "Umbra's implementation is C11: define UMBRA_IMPLEMENTATION in a C file (docs/building.md)"
#endif
#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8
#error "Umbra needs 64-bit pointers: this is a 32-bit build (-m32, -mx32, or a 32-bit processor)"
#endif

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/*
 * Attributes are spelled with underscores, here and elsewhere: a user may have a macro named
 * `unused` or `aligned`. UM_UNCHECKED is for a function that reads a stack as bytes, or that runs
 * on a stack before the sanitizer knows the stack.
 */
#ifdef UM_INLINE_IS_CALLED /* libumbra.so: other languages call what is inline in C, too */
#define UM_INLINE extern inline
#else
#define UM_INLINE static inline
#endif
/* For functions that switch fibers: a return after a switch is mispredicted (core/join.h). */
#define UM_ALWAYS_INLINE UM_INLINE __attribute__((__always_inline__))
#ifdef UMBRA_SHARED
#define UM_VISIBLE __attribute__((__visibility__("default")))
#else
#define UM_VISIBLE __attribute__((__visibility__("hidden")))
#endif
#ifdef __cplusplus
#define UM_EXTERN extern "C"
#else
#define UM_EXTERN extern
#endif
#ifdef UMBRA_IMPLEMENTATION
#define UM_LINKONCE __attribute__((__weak__)) UM_VISIBLE
#else
#define UM_LINKONCE UM_EXTERN UM_VISIBLE /* not weak: a missing cold function is a link error */
#endif
/* UM_SHARED(declaration, initializer): an object, one for each program or shared object. */
#ifdef UMBRA_IMPLEMENTATION
#define UM_SHARED(declaration, ...) __attribute__((__weak__)) UM_VISIBLE declaration = __VA_ARGS__
#else
#define UM_SHARED(declaration, ...) UM_EXTERN UM_VISIBLE declaration
#endif
/*
 * Not C++'s thread_local: its readers call a function first. gcc reads a variable that is only
 * declared by an instruction more, unless it is told that the program itself has the variable.
 */
#if !defined(UMBRA_SHARED) && (!defined(__PIC__) || defined(__PIE__))
#define UM_THREAD_LOCAL __attribute__((__tls_model__("local-exec"))) __thread
#else
#define UM_THREAD_LOCAL __thread
#endif
/* Also for functions that report their return address: link-time optimization would inline them. */
#define UM_NOINLINE __attribute__((__noinline__))
#define UM_COLD __attribute__((__cold__)) UM_NOINLINE
/* A caller must look at the result: what it waited for may not have come. */
#define UM_CHECKED __attribute__((__warn_unused_result__))
#define UM_UNCHECKED __attribute__((__no_sanitize__("address"), __no_sanitize__("thread")))
#define UM_ALIGNED(bytes) __attribute__((__aligned__(bytes)))
/* The alignment of objects in the user's memory: what malloc() returns is enough. */
#define UM_ANY_MEMORY 16
/* The word in both languages, without <assert.h>: a program may have an assert() of its own. */
#ifdef __cplusplus
#define UM_STATIC_ASSERT static_assert
#else
#define UM_STATIC_ASSERT _Static_assert
#endif
#define UM_LIKELY(x) __builtin_expect(!!(x), 1)
#define UM_UNLIKELY(x) __builtin_expect(!!(x), 0)

/*
 * UMBRA_ASSERT, defined as 1 in all files of a program, finds misuse that is too expensive to look
 * for otherwise, prints it, and aborts. No struct depends on it. It finds
 *   - fibers that end while they hold a mutex, or with a task in their frames that was not joined
 *     and that no other core has begun
 *   - tasks that are joined twice, or joined though all zero; or forked or started again while they
 *     wait to begin; forks and parallel loops without a function
 *   - messages that are posted twice, and branches that two receivers wait with (umbra/port.h)
 *   - buffers that are given back twice (umbra/memory.h)
 *   - a release of a runtime that is not held, a close of a dispatcher's source that is not open
 */
#ifndef UMBRA_ASSERT
#define UMBRA_ASSERT 0
#endif

#if UMBRA_ASSERT
#define UM_CHOSEN_ASSERT um_chosen_assert
#else
#define UM_CHOSEN_ASSERT um_chosen_no_assert
#endif

/* Names the choice that a header made; see above. */
#ifdef UMBRA_IMPLEMENTATION
#define UM_CHOICE(name)                                                                            \
    UM_LINKONCE void name(void)                                                                    \
    {                                                                                              \
    }                                                                                              \
    UM_STATIC_ASSERT(1, "for the semicolon")
#else
#define UM_CHOICE(name) UM_CHOICE_REFERENCE(name)
#define UM_CHOICE_REFERENCE(name)                                                                  \
    UM_LINKONCE void name(void);                                                                   \
    static void (*const name##_too)(void) __attribute__((__used__)) = name
#endif

#ifdef UMBRA_SHARED
UM_CHOICE(um_UMBRA_SHARED_needs_libumbra_so);
#else
UM_CHOICE(um_define_UMBRA_IMPLEMENTATION_in_one_C_file_or_UMBRA_SHARED_in_all);
#endif
UM_CHOICE(UM_CHOSEN_ASSERT);

/*
 * Each implementation leaves an ELF note: libumbra.so looks for it in the program, which would have
 * two copies of the state (packaging/umbra_shared.c). Its name is "umbra"; it says nothing else.
 */
#if defined(UMBRA_IMPLEMENTATION) && defined(__ELF__) && !defined(UM_MODEL_CHECK)
__asm__(".pushsection .note.umbra,\"a\",%note\n"
        ".balign 4\n"
        ".long 6, 0, 1\n" /* bytes of the name and of the rest; the note's type */
        ".asciz \"umbra\"\n"
        ".balign 4\n"
        ".popsection");
#endif

/* A deadline or threshold that is never reached; in any unit. */
#define UMBRA_NEVER UINT64_MAX

#endif
