/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The C++ exceptions that a fiber handles. Private.
 *
 * A C++ runtime keeps two words for each thread, which __cxa_get_globals() finds (Itanium C++ ABI;
 * libstdc++ and libc++abi agree): the stack of exceptions that were caught and not done with yet, and
 * how many are on their way to a handler. Both belong to the fiber that runs, so
 *
 *   when a core switches, both words of its thread are 0.
 *
 * A fiber that leaves its core inside a handler, or in a destructor that an exception has called, takes
 * them off its thread, keeps them on its stack, and puts them back when it runs again. A fiber that
 * handles none, begins or ends has nothing to do, nor has the scheduler.
 *
 * So the short ways to leave a core look at the two words, and go the slow way if they are not 0. That
 * a program has a C++ runtime does not tell that it throws: the shared Boost.Context needs one. Which
 * runtime is known when the program is loaded; one that a program without any loads later (dlopen) is
 * not.
 */
#ifndef UMBRA_CORE_EXCEPTIONS_H
#define UMBRA_CORE_EXCEPTIONS_H

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* What begins as __cxa_eh_globals. Its thread only. */
struct um_exceptions {
    void *caught;      /* the newest, which names the next */
    uint64_t uncaught; /* how many are on their way: an unsigned int, and padding that is 0 */
};

/* The calling thread's, at an address that stays. NULL: the program has no C++ runtime. */
struct um_exceptions *um_exceptions_of_thread(void) __asm__("__cxa_get_globals")
    __attribute__((__weak__, __visibility__("default")));

/* Not 0 if there are any. */
UM_INLINE uint64_t um_exceptions_some(const struct um_exceptions *here)
{
    return (uintptr_t)here->caught | here->uncaught;
}

#ifndef UMBRA_DECLARE

/* What stands for them then: never anything. */
UM_SHARED _Thread_local struct um_exceptions um_exceptions_none = {NULL, 0};

UM_LINKONCE UM_COLD struct um_exceptions *um_exceptions_here(void)
{
    return um_exceptions_of_thread ? um_exceptions_of_thread() : &um_exceptions_none;
}

/* Before the fiber leaves; what it returns is put back when the fiber runs again. */
UM_INLINE struct um_exceptions um_exceptions_take(struct um_exceptions *here)
{
    struct um_exceptions taken = *here;

    *here = (struct um_exceptions){NULL, 0};
    return taken;
}

#endif /* UMBRA_DECLARE */

#endif
