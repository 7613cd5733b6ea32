/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A user-level thread a fork, on the caller's own processor: nothing is handed to another one. The
 * stack is allocated once; timed are making the context, entering it, and coming back.
 */
#ifndef UMBRA_BENCH_CONTEXT_FORK_H
#define UMBRA_BENCH_CONTEXT_FORK_H

#include "harness.h"

/* makecontext, swapcontext there, back by the end of the function: as MPC++ does it. */
extern const struct bench_ops ucontext_ops;

/* make_fcontext, jump_fcontext there, jump_fcontext back. */
extern const struct bench_ops boost_context_ops;

#endif
