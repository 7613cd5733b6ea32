/* SPDX-License-Identifier: BSL-1.0 */
/* C++ code that runs in fibers, for test_exceptions.c: what both languages read. */
#ifndef UMBRA_TESTS_EXCEPTIONS_H
#define UMBRA_TESTS_EXCEPTIONS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Leaves the core so that other fibers run, and returns when the fiber runs again. */
typedef void leave_fn(void *arg);

/*
 * Throws, catches, and throws again, and leaves the core in between, wherever a C++ runtime has
 * something in hand. name: tells its exceptions from other fibers'. Returns how often an exception,
 * or their number, was not the caller's own.
 */
int handle_exceptions(int name, leave_fn *leave, void *arg);

/* As long as a caller without exceptions leaves the core: how often it saw any. */
int handle_none(int times, leave_fn *leave, void *arg);

#ifdef __cplusplus
}
#endif

#endif
