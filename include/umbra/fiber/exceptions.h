/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The C++ exceptions that a fiber handles. Private.
 *
 * A C++ runtime keeps two words for each thread, which __cxa_get_globals() finds (Itanium C++ ABI;
 * libstdc++ and libc++abi agree): the stack of exceptions that were caught and are still being
 * handled, and the number of those that are on their way to a handler. Both belong to the fiber
 * that runs, so
 *
 *   when a core switches, both words of its thread are 0.
 *
 * A fiber that leaves its core inside a catch block, or in a destructor that an exception has
 * called, takes the two words off its thread, keeps them on its stack, and puts them back when it
 * runs again. A fiber that handles no exception, begins or ends has nothing to do, and neither has
 * the scheduler.
 *
 * So the fast paths by which a fiber leaves its core look at the two words, and take the slow path
 * if they are not 0. They look in every program with a C++ runtime: that it has one does not mean
 * that it throws, since the shared Boost.Context needs one. The runtime is found when the program
 * is loaded. If a program without one loads it later (dlopen), it is not found.
 *
 * All functions here are called on the core's own thread. None switches, blocks or fails.
 */
#ifndef UMBRA_FIBER_EXCEPTIONS_H
#define UMBRA_FIBER_EXCEPTIONS_H

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* The layout of __cxa_eh_globals at its start. Only its thread reads and writes it. */
struct um_exceptions {
    void *caught;      /* the newest, which links to the next */
    uint64_t uncaught; /* how many are on their way: an unsigned int, then padding that is 0 */
};

/* The calling thread's two words; the address stays. The function is NULL without a C++ runtime. */
struct um_exceptions *um_exceptions_of_thread(void) __asm__("__cxa_get_globals")
    __attribute__((__weak__, __visibility__("default")));

/* Not 0 if the thread has any. */
UM_INLINE uint64_t um_exceptions_some(const struct um_exceptions *here)
{
    return (uintptr_t)here->caught | here->uncaught;
}

#ifdef UMBRA_IMPLEMENTATION

/* The two words of a thread where there is no C++ runtime: always 0. */
UM_SHARED(UM_THREAD_LOCAL struct um_exceptions um_exceptions_none, {NULL, 0});

#endif /* UMBRA_IMPLEMENTATION */

#endif
