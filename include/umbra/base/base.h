/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What every Umbra header builds on: the language check, the linkage of cold functions, and a few
 * compiler words. Private.
 *
 * Linkage. Hot functions are `static inline` (UM_INLINE). Cold functions and the few process-wide
 * objects are UM_LINKONCE: weak and hidden, so an executable or shared object keeps one copy of
 * each, however many of its files include the header, and two shared objects never mix theirs.
 *
 * UMBRA_DECLARE, defined before the first include, leaves out the cold functions: a file then
 * compiles in a fraction of the time. One file of the program (or umbra.c) includes umbra.h without
 * it. If no file does, the link fails with undefined references; if two files do, no harm is done.
 *
 * All files of a program must be compiled with the same choices (UMBRA_ASSERT and the like). Each
 * header that has a choice names an empty function after the choice made (UM_CHOICE). Each file
 * compiled with UMBRA_DECLARE refers to that function, so the linker refuses a program if its files
 * chose differently.
 *
 * Warnings. The warnings that a user switches on are for the user's own text, under -I, too: each
 * header that defines functions is a system header to the compiler from the end of its includes on.
 * (Not before: -MMD leaves out of its dependency files what a system header includes.)
 * UMBRA_SHOW_WARNINGS shows the warnings; Umbra's own builds define it.
 */
#ifndef UMBRA_BASE_BASE_H
#define UMBRA_BASE_BASE_H

#ifdef __cplusplus
#error "Umbra is C11: include it from a C file and call that file from C++ (docs/building.md)"
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
#define UM_INLINE static inline
/* For functions that switch fibers: a return after a switch is mispredicted (core/join.h). */
#define UM_ALWAYS_INLINE static inline __attribute__((__always_inline__))
#define UM_HIDDEN __attribute__((__visibility__("hidden")))
/* Objects: one for each program or shared object. */
#define UM_SHARED __attribute__((__weak__)) UM_HIDDEN
#ifdef UMBRA_DECLARE
#define UM_LINKONCE UM_HIDDEN /* not weak: a missing cold function is a link error */
#else
#define UM_LINKONCE __attribute__((__weak__)) UM_HIDDEN
#endif
/* Also for functions that report their return address: link-time optimization would inline them. */
#define UM_NOINLINE __attribute__((__noinline__))
#define UM_COLD __attribute__((__cold__)) UM_NOINLINE
#define UM_UNCHECKED __attribute__((__no_sanitize__("address"), __no_sanitize__("thread")))
#define UM_ALIGNED(bytes) __attribute__((__aligned__(bytes)))
/* The alignment of objects in the user's memory: what malloc() returns is enough. */
#define UM_ANY_MEMORY 16
#define UM_LIKELY(x) __builtin_expect(!!(x), 1)
#define UM_UNLIKELY(x) __builtin_expect(!!(x), 0)

/*
 * UMBRA_ASSERT, defined as 1 in all files of a program, finds misuse that is too expensive to look
 * for otherwise, prints it, and aborts. It finds fibers that end while they hold a mutex, or with a
 * task in their frames that was not joined and that no other core has begun; and tasks that are
 * joined twice, or joined though all zero. No struct depends on it.
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
#ifdef UMBRA_DECLARE
#define UM_CHOICE(name) UM_CHOICE_REFERENCE(name)
#define UM_CHOICE_REFERENCE(name)                                                                  \
    UM_HIDDEN void name(void);                                                                     \
    static void (*const name##_too)(void) __attribute__((__used__)) = name
#else
#define UM_CHOICE(name)                                                                            \
    UM_LINKONCE void name(void)                                                                    \
    {                                                                                              \
    }                                                                                              \
    _Static_assert(1, "for the semicolon")
#endif

UM_CHOICE(UM_CHOSEN_ASSERT);

/* A deadline or threshold that is never reached; in any unit. */
#define UMBRA_NEVER UINT64_MAX

#endif
