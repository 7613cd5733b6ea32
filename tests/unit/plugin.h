/* SPDX-License-Identifier: BSL-1.0 */
/* What test_plugin.c finds in its shared object, by name. */
#ifndef UMBRA_TESTS_PLUGIN_H
#define UMBRA_TESTS_PLUGIN_H

/* The object's runtime, and a fiber in it: begins; ends. 0 or an error. */
typedef int plugin_start_fn(void);
typedef int plugin_stop_fn(void);

/* The caller, a thread that is no core, waits for the fiber, in every way that needs memory. 0 or an
 * error. */
typedef int plugin_wait_fn(void);

/* A thread of the object, which has waited, is ended and joined by a destructor of the object: here it
 * begins. No other wait of the object may follow. 0 or an error. */
typedef int plugin_hire_fn(void);

#endif
