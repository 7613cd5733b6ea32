/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The two functions of Boost.Context that kernels time by themselves. Boost 1.87 stopped exporting
 * their C names and exports C++ ones instead; this is the one place that knows.
 */
#ifndef UMBRA_BENCH_BOOST_CONTEXT_H
#define UMBRA_BENCH_BOOST_CONTEXT_H

#include <boost/version.hpp>
#include <stddef.h>

#if BOOST_VERSION >= 108700
#define BOOST_CONTEXT_NAME(c_name, cxx_name) __asm__(cxx_name)
#else
#define BOOST_CONTEXT_NAME(c_name, cxx_name) __asm__(c_name)
#endif

/* A context that is not running: where its stack stands. */
typedef void *fcontext;

/* Where a jump came from, and what it carried. */
struct fcontext_transfer {
    fcontext from;
    void *data;
};

/* A context that will run fn on the stack below stack_top. */
fcontext make_fcontext(void *stack_top, size_t stack_bytes, void (*fn)(struct fcontext_transfer))
    BOOST_CONTEXT_NAME("make_fcontext",
                       "_ZN5boost7context6detail13make_fcontextEPvmPFvNS1_10transfer_tEE");

/* Leave the running context for another; returns when somebody jumps back. */
struct fcontext_transfer jump_fcontext(fcontext to, void *data)
    BOOST_CONTEXT_NAME("jump_fcontext", "_ZN5boost7context6detail13jump_fcontextEPvS2_");

#endif
