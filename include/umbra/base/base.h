/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What every Umbra header builds on: the language check, the linkage of cold functions, and a few
 * compiler words. Private.
 *
 * Linkage. Hot functions are `static inline` (UM_INLINE). Cold functions and the few process-wide
 * objects are UM_LINKONCE: weak and hidden, so an executable or shared object keeps one copy of
 * each, however many of its files include the header, and two shared objects never mix theirs.
 *
 * UMBRA_DECLARE, defined before the first include, leaves out the cold functions: a file then compiles
 * in a fraction of the time, and one file of the program (or umbra.c) includes umbra.h without it. A
 * cold function that is nowhere is an undefined reference; two files that have them are harmless.
 *
 * All files of a program must be compiled with the same choices of the headers. A header that chooses
 * names a function that does nothing after its choice (UM_CHOICE). Each file compiled with UMBRA_DECLARE
 * refers to it, so the linker refuses a program whose files chose differently.
 *
 * Warnings. A user's set of warnings, under -I too, is for the user's own text: each header that defines
 * functions is a system header to the compiler from the end of its includes on. (Not before: what a
 * system header includes is missing in the dependency files of -MMD.) UMBRA_SHOW_WARNINGS shows the
 * warnings; Umbra's own builds define it.
 */
#ifndef UMBRA_BASE_BASE_H
#define UMBRA_BASE_BASE_H

#ifdef __cplusplus
#error "Umbra is C11: include it from a C file and call that file from C++ (docs/building.md, From C++)"
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
 * Attributes are spelled with underscores, here and elsewhere: a user may have a macro named `unused`
 * or `aligned`. UM_UNCHECKED is for what reads a stack as bytes, or runs before a sanitizer knows it.
 */
#define UM_INLINE static inline
/* For functions that switch fibers: a return after a switch is mispredicted (core/join.h). */
#define UM_ALWAYS_INLINE static inline __attribute__((__always_inline__))
#define UM_HIDDEN __attribute__((__visibility__("hidden")))
#define UM_SHARED __attribute__((__weak__)) UM_HIDDEN /* objects: one for each program or shared object */
#ifdef UMBRA_DECLARE
#define UM_LINKONCE UM_HIDDEN /* not weak: a cold function that is not linked is the linker's error */
#else
#define UM_LINKONCE __attribute__((__weak__)) UM_HIDDEN
#endif
/* Functions that ask for their caller, for reports, have it, too, against link-time optimization. */
#define UM_NOINLINE __attribute__((__noinline__))
#define UM_COLD __attribute__((__cold__)) UM_NOINLINE
#define UM_UNCHECKED __attribute__((__no_sanitize__("address"), __no_sanitize__("thread")))
#define UM_ALIGNED(bytes) __attribute__((__aligned__(bytes)))
/* The alignment of objects that users place: any memory of malloc's will do. */
#define UM_ANY_MEMORY 16
#define UM_LIKELY(x) __builtin_expect(!!(x), 1)
#define UM_UNLIKELY(x) __builtin_expect(!!(x), 0)

/*
 * UMBRA_ASSERT, if defined as 1, and in all files of a program: misuse that would cost too much to look
 * for otherwise is printed, and aborts. It finds fibers that end holding a mutex, and tasks that are
 * joined twice. No struct depends on it.
 */
#ifndef UMBRA_ASSERT
#define UMBRA_ASSERT 0
#endif

#if UMBRA_ASSERT
#define UM_CHOSEN_ASSERT um_chosen_assert
#else
#define UM_CHOSEN_ASSERT um_chosen_no_assert
#endif

/* Names what a header chose; see above. */
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

/* A deadline or threshold that is never reached, in any unit. */
#define UMBRA_NEVER UINT64_MAX

#endif
